"""How many trials share a GPU, by given numbers; what is measured runs here on the CPU."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from mtlib.config.trial import TrialConfig
from mtlib.model.encoder import PretrainedEncoder
from mtlib.train import train
from sweeps.cluster.capacity import Resources
from sweeps.options import SweepOptions
from sweeps.plan import packing
from sweeps.plan.packing import distinct_in_memory, longest_texts, pack_gpus, train_shortly

GB = 10**9


@pytest.mark.parametrize(
    ("cpus_per_gpu", "cpus_per_worker", "at_a_time", "share"),
    [(16, 1, 99, 0.2), (3, 1, 99, 0.3333), (3, 2, 99, 1), (16, 1, 8, 0.5), (16, 1, 1, 1)],
)
def test_auto_becomes_a_share_that_memory_and_cpus_allow(
    monkeypatch: pytest.MonkeyPatch,
    tiny_encoder: PretrainedEncoder,
    cpus_per_gpu: float,
    cpus_per_worker: int,
    at_a_time: int,
    share: float,
) -> None:
    nodes = [Resources(cpus=2 * cpus_per_gpu, gpus=2, memory=0), Resources(cpus=99, gpus=2, memory=0)]
    found = 3 * GB, 24 * GB, nodes
    monkeypatch.setattr(packing, "measure", lambda *_arguments: found)
    options = SweepOptions(
        name="s", storage="/x", gpus_per_worker=1.0, packs_gpus=True, cpus_per_worker=cpus_per_worker
    )
    packed, line = pack_gpus(options, [], {"tiny": tiny_encoder}, at_a_time)
    assert packed.gpus_per_worker == share
    assert not packed.packs_gpus
    assert line.endswith(
        "on a GPU of 24 GB: each gets the 3.0 GB that steps with the longest texts took, 15% more, and 0.85 GB for its "
        "process"
    )


@pytest.mark.ray
def test_without_a_gpu_auto_is_refused(private_ray: None, tiny_encoder: PretrainedEncoder) -> None:  # noqa: ARG001
    with pytest.raises(ValueError, match="must find a GPU to measure, got none"):
        packing.measure(SweepOptions(name="s", storage="/x", packs_gpus=True), [], {"tiny": tiny_encoder})


KINDS: list[dict[str, Any]] = [
    {},
    {"smart.weight": 0.0},
    {"optimizer.average_power": 8},
    {"stages.1.order": "batch_round_robin", "stages.1.sum_losses": True},
    {"stages.1.order": "batch_round_robin", "stages.1.sum_losses": True, "gradients": "pcgrad"},
    {"stages.1.start_from": "best"},
    {"pals.size": 12, "pals.tasks": ("sst",)},
    {"evaluation.batch_size": 7},
    {"tasks.sst.batch_size": 16},
]


@pytest.mark.parametrize("changes", KINDS)
def test_each_stage_is_trained_with_batches_of_the_longest_texts(
    tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny_config.override(changes)
    seen: list[TrialConfig] = []

    def watch(shortened: TrialConfig, *arguments: Any, **settings: Any) -> None:
        seen.append(shortened)
        train(shortened, *arguments, **settings)

    monkeypatch.setattr(packing, "train", watch)
    train_shortly(config, tiny_encoder, torch.device("cpu"))
    (shortened,) = seen
    assert [stage.epochs for stage in shortened.stages] == [1, 1]
    for (name, split), table in longest_texts(config, tiny_encoder).items():
        size = config.batch_size_of(name) if split == "train" else config.evaluation.batch_size
        encoding = config.tasks[table.task].encoding
        assert list(table.lengths(encoding, config.encoder.max_length)) == [config.encoder.max_length] * size


def test_kinds_that_need_another_amount_of_memory_are_measured_once(tiny_config: TrialConfig) -> None:
    configs = [tiny_config.override(changes) for changes in KINDS]
    again = [replace(config, seed=3) for config in configs]
    assert distinct_in_memory([*configs, *again]) == configs
