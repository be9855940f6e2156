"""A lane of one worker is one of PyTorch in Ray's eyes, without a process group."""

from ray.train.backend import Backend
from ray.train.torch import TorchConfig

from sweeps.lanes.single_worker import SingleWorkerConfig


def test_nothing_is_started_beside_the_worker() -> None:
    own, usual = SingleWorkerConfig(), TorchConfig()
    assert own.backend_cls is Backend
    assert usual.backend_cls is not Backend
    assert (own.framework, own.train_func_context) == (usual.framework, usual.train_func_context)
