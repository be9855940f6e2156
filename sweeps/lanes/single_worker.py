"""Ray Train's settings of a lane with one worker: no process group, and so no port for its store, open to everybody."""

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
