"""Parts of a model by task: its head, its scale of labels and the like."""

from collections.abc import Iterator, Mapping
from typing import Any

from torch import nn

from mtlib.stages.active_weights import KEY_PREFIX


class TaskParts(nn.Module):
    """A module or a parameter for each task, found by the task's name.

    Torch makes an attribute of each part's name. A task named like an attribute of `nn.Module`, such as `type` or
    `train`, is therefore stored as `task-type`; any other has its own name, in weights too.

    Args:
        parts: by task.
    """

    def __init__(self, parts: Mapping[str, nn.Module | nn.Parameter]) -> None:
        super().__init__()
        self._keys = {task: f"{KEY_PREFIX}{task}" if hasattr(self, task) else task for task in parts}
        for task, key in self._keys.items():
            setattr(self, key, parts[task])

    def __getitem__(self, task: str) -> Any:
        return getattr(self, self._keys[task])

    def __iter__(self) -> Iterator[str]:
        """Names of the tasks that have a part."""
        return iter(self._keys)
