"""Which stages of a sweep are trained once and shared by several trials, computed without training."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mtlib.config.trial import TrialConfig
from mtlib.stages.effective_settings import length_counts
from mtlib.stages.keys import Cut
from sweeps.search.stage_order import StageKeys, StageOrder, stage_keys_of


@dataclass(kw_only=True)
class Segment:
    """Epochs of one stage that are trained once, however many trials share them."""

    config: TrialConfig
    """The configuration that they are trained for."""
    cut: Cut
    """Where they end."""
    before: "Segment | None"
    """What they continue from; None at a trial's beginning."""
    is_kept: bool
    """Whether the store keeps the state at their end."""

    @property
    def steps(self) -> int:
        """Their optimizer steps."""
        return self.cut.total_steps - (0 if self.before is None else self.before.cut.total_steps)


def simulate_training(
    configs: Sequence[TrialConfig], cuts: Sequence[Sequence[Cut]], shares: bool
) -> list[list[Segment]]:
    """Returns the segments of each configuration, first to last,
    if trials are trained one by one in the searcher's order.

    A segment that several configurations share is the same object in each. `cuts` are those of each configuration;
    `shares` says whether trials continue from stages that others have kept.
    """
    store: dict[str, Segment] = {}
    finished: dict[str, Segment] = {}
    paths: list[list[Segment]] = [[] for _ in configs]
    for number in training_order([stage_keys_of(own) for own in cuts]) if shares else range(len(configs)):
        own = cuts[number]
        last = find_start(own, store, finished) if shares else None
        for cut in own:
            if not cut.is_end or (last is not None and cut.total_epochs <= last.cut.total_epochs):
                continue
            is_kept = shares and not (cut is own[-1] and length_counts(configs[number], cut.stage))
            last = Segment(config=configs[number], cut=cut, before=last, is_kept=is_kept)
            if is_kept:
                store.setdefault(cut.key, last)
        assert last is not None, "a trial has at least one stage"
        finished.setdefault(own[-1].key, last)
        paths[number] = path_to(last)
    return paths


def training_order(trials: Sequence[StageKeys]) -> Iterator[int]:
    """Yields the order in which one lane would train the trials, by their index."""
    order, left = StageOrder(), list(range(len(trials)))
    while left:
        chosen = order.choose([trials[index] for index in left])
        assert chosen is not None, "no trial runs that another would have to wait for"
        index = left.pop(chosen)
        order.done.update(trials[index].ends)
        yield index


def find_start(cuts: Sequence[Cut], store: Mapping[str, Segment], finished: Mapping[str, Segment]) -> Segment | None:
    """Returns the latest segment that a trial can continue from; the end of an equal trial, if there is one."""
    if cuts[-1].key in finished:
        return finished[cuts[-1].key]
    keys = (key for cut in reversed(cuts) for key in (cut.key, cut.key_with_best) if key is not None)
    return next((store[key] for key in keys if key in store), None)


def path_to(last: Segment) -> list[Segment]:
    """Returns a segment and all before it, first to last."""
    return [*([] if last.before is None else path_to(last.before)), last]


def distinct(paths: Sequence[Sequence[Segment]]) -> list[Segment]:
    """Returns each segment once, in the order of the configurations that have it."""
    return list({id(segment): segment for path in paths for segment in path}.values())
