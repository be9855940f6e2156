"""Saves a trial's states and best weights while it trains, in a thread where the storage or the device is slow."""

import copy
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

from torch import Tensor

from mtlib.checkpoints.best_weights import keep_best
from mtlib.checkpoints.state import State, StateFolder, save_state


class Saver:
    """Writes one thing at a time, in the order in which it was given; the trial waits if the last is not written yet.

    Used as a context, which ends once everything is written.
    """

    def __init__(self, folder: StateFolder, *, is_writer: bool = True) -> None:
        """Creates the saver of a worker; `is_writer` is true for one of a trial's workers, which all hold the same."""
        self._folder, self._is_writer = folder, is_writer
        self._thread = ThreadPoolExecutor(1, "saver") if folder.in_background else None
        self._writing: Future[None] | None = None
        self._last = -float("inf")
        self.keeps_end = folder.keeps_end
        self.needed: frozenset[int] = frozenset()
        """The best epochs by the state from which the trial would resume: their weights stay."""

    def __enter__(self) -> "Saver":
        return self

    def __exit__(self, kind: object, *_error: object) -> None:
        try:
            if kind is None:
                self.wait()
        finally:
            if self._thread is not None:
                self._thread.shutdown()

    def is_due(self, step: int) -> bool:
        """Returns whether a state should be saved after step `step` of an epoch, unless the last one is too new."""
        return step % self._folder.checkpoint_steps == 0

    def wants_state(self, *, always: bool = False) -> bool:
        """Returns whether this worker saves a state now: `always`, or because the last one is old enough."""
        return self._is_writer and (always or time.monotonic() - self._last >= self._folder.least_seconds)

    def save(self, step: int, state: State, best_epochs: Mapping[str, int]) -> None:
        """Saves the state after optimizer step `step`; `best_epochs` are those that it knows of, by score.

        Raises:
            OSError: this, or what was to be written before, cannot be written.
        """
        self.wait()  # two copies at a time would take twice the memory
        numbers = copy.deepcopy(dict(state.numbers))  # sums of losses go on changing, too
        kept = State(tensors=self._kept(state.tensors), numbers=numbers)
        self._write(lambda: save_state(self._folder, step, kept))
        self._last, self.needed = time.monotonic(), frozenset(best_epochs.values())

    def keep(self, epoch: int, best_epochs: Mapping[str, int], weights: Mapping[str, Tensor]) -> None:
        """Keeps the weights of an epoch that is among the best ones; raises as `save`."""
        if not self._is_writer:
            return
        self.wait()  # as above
        tensors = self._kept(weights) if epoch in best_epochs.values() else {}
        best, needed = dict(best_epochs), self.needed
        self._write(lambda: keep_best(self._folder, epoch, best, tensors, needed))

    def wait(self) -> None:
        """Waits until everything is written; raises as `save`."""
        if self._writing is not None:
            writing, self._writing = self._writing, None
            writing.result()

    def _write(self, write: Callable[[], None]) -> None:
        if self._thread is None:
            write()
        else:
            self._writing = self._thread.submit(write)

    def _kept(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Tensors that later steps do not change."""
        if self._thread is None:
            return tensors
        return {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}
