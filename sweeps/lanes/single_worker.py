"""Ray Train's settings of a lane with one worker: without a process group, whose store listens to everybody."""

from typing import Any

from ray.train.backend import Backend
from ray.train.torch import TorchConfig


class SingleWorkerConfig(TorchConfig):  # type: ignore[misc]
    """A `TorchConfig` that sets up nothing: a single worker needs no process group."""

    @property
    def backend_cls(self) -> type[Any]:
        """What Ray Train starts with the worker."""
        backend: type[Any] = Backend
        return backend
