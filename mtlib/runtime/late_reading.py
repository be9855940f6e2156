"""Reads the losses of a step some steps later on a GPU, which would run empty while the CPU waits for them."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

GPU_DELAY = 8
"""Steps after which a GPU's losses are read. A loss that is not finite ends the trial so much later."""

Use = Callable[[list[float]], None]
"""Gets the values of a tensor; it may raise."""


@dataclass(kw_only=True)
class LateReader:
    """Tensors on their way from the device, in order, and what to do with their values."""

    delay: int
    """How many further tensors are submitted before one is read, at least 1."""
    waiting: deque[tuple[Tensor, torch.cuda.Event | None, Use]] = field(default_factory=deque)

    def submit(self, values: Tensor, use: Use) -> None:
        """Submits a flat tensor, and uses the values of the one that has waited long enough, if there is one."""
        event = None
        if values.device.type == "cuda":
            values = values.to("cpu", non_blocking=True)
            event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            event.record()
        self.waiting.append((values, event, use))
        self.read(self.delay)

    def read(self, keep: int = 0) -> None:
        """Uses the values of all but the newest `keep` tensors; what `use` raises goes through, and the rest waits."""
        while len(self.waiting) > keep:
            values, event, use = self.waiting.popleft()
            if event is not None:
                event.synchronize()
            use(values.tolist())


def late_reader(device: torch.device) -> LateReader | None:
    """Returns a device's reader; None on a CPU, where losses are read at once,
    and a step that raises changes nothing."""
    return LateReader(delay=GPU_DELAY) if device.type == "cuda" else None
