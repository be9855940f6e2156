"""Parts of a model by task: its head, its scale of labels and the like."""

from collections.abc import Iterator, Mapping
from typing import Any

from torch import nn

from mtlib.stages.active_weights import KEY_PREFIX


class TaskParts(nn.Module):
    """A module or a parameter for each task, found by the task's name.

    Its weights have the task's name too. Torch makes an attribute of it, so a task that is called like one that every
    module has, such as `type` or `train`, has `task-type` there.

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
