"""Which stages of a sweep are trained once and gone on from by several trials, found out without training."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mtlib.config.trial import TrialConfig
from mtlib.stages.inert_fields import length_counts
from mtlib.stages.keys import Cut
from sweeps.search.stage_order import Course, StageOrder, course_of


@dataclass(kw_only=True)
class Segment:
    """Epochs of one stage that are trained once, whichever trials come through them."""

    config: TrialConfig
    """The configuration that they are trained for."""
    cut: Cut
    """Where they end."""
    before: "Segment | None"
    """What they go on from; None at a trial's beginning."""
    is_last: bool
    """Whether the trial that trains them ends with them."""
    is_kept: bool
    """Whether their end is left for others."""
    is_there: bool = False
    """Whether they, and all before them, have been trained already."""
    num_trials: int = 0
    """Configurations that come through them, the one that trains them among these."""

    @property
    def first_epoch(self) -> int:
        """The first of them, from 1 over all stages."""
        return 1 if self.before is None else self.before.cut.total_epochs + 1

    @property
    def epochs(self) -> int:
        """How many they are."""
        return self.cut.total_epochs - self.first_epoch + 1

    @property
    def steps(self) -> int:
        """Their optimizer steps."""
        return self.cut.total_steps - (0 if self.before is None else self.before.cut.total_steps)


@dataclass(frozen=True, kw_only=True)
class Known:
    """What a storage holds before a sweep begins, by key."""

    stages: Collection[str] = ()
    ends: Collection[str] = ()
    """Of whole trials."""


def train_on_paper(
    configs: Sequence[TrialConfig], cuts: Sequence[Sequence[Cut]], shares: bool, known: Known | None = None
) -> list[list[Segment]]:
    """What each configuration would come through, were they trained one after another as the searcher orders them.

    Args:
        configs: one per configuration.
        cuts: of each, first to last.
        shares: whether trials go on from what others have left; if not, whole trials alone are taken over.
        known: what is there already; None: nothing.

    Returns:
        By configuration, its segments, first to last. What several come through is one and the same object in each.
    """
    store, there = segments_there(configs, cuts, known or Known())
    finished = dict(there)
    paths: list[list[Segment]] = [[] for _ in configs]
    for number in training_order(list(map(course_of, cuts))) if shares else range(len(configs)):
        own = cuts[number]
        last = find_start(own, store, finished) if shares else there.get(own[-1].key)
        for cut in own:
            if not cut.is_end or (last is not None and cut.total_epochs <= last.cut.total_epochs):
                continue
            is_last = cut is own[-1]
            is_kept = shares and not (is_last and length_counts(configs[number], cut.stage))
            last = Segment(config=configs[number], cut=cut, before=last, is_last=is_last, is_kept=is_kept)
            if is_kept:
                store.setdefault(cut.key, last)
        assert last is not None, "a trial has at least one stage"
        finished.setdefault(own[-1].key, last)
        paths[number] = path_to(last)
        for segment in paths[number]:
            segment.num_trials += 1
    return paths


def segments_there(
    configs: Sequence[TrialConfig], cuts: Sequence[Sequence[Cut]], known: Known
) -> tuple[dict[str, Segment], dict[str, Segment]]:
    """What need not be trained, by key: stages, and ends of whole trials."""
    store: dict[str, Segment] = {}
    finished: dict[str, Segment] = {}
    for config, own in zip(configs, cuts, strict=True):
        for cut in own:
            there = Segment(config=config, cut=cut, before=None, is_last=cut is own[-1], is_kept=True, is_there=True)
            store.update((key, there) for key in (cut.key, cut.other_key) if key in known.stages and key is not None)
        if own[-1].key in known.ends:
            finished[own[-1].key] = there
    return store, finished


def training_order(courses: Sequence[Course]) -> Iterator[int]:
    """The order in which one lane would be given the trials."""
    order, left = StageOrder(), list(range(len(courses)))
    while left:
        place = order.choose([courses[number] for number in left])
        assert place is not None, "nothing runs that a trial would have to wait for"
        number = left.pop(place)
        order.done.update(courses[number].ends)
        yield number


def find_start(cuts: Sequence[Cut], store: Mapping[str, Segment], finished: Mapping[str, Segment]) -> Segment | None:
    """What a trial goes on from, as far on as is to be had; an equal trial's end is the end."""
    if cuts[-1].key in finished:
        return finished[cuts[-1].key]
    keys = (key for cut in reversed(cuts) for key in (cut.key, cut.other_key) if key is not None)
    return next((store[key] for key in keys if key in store), None)


def path_to(last: Segment) -> list[Segment]:
    """A segment with all that comes before it, first to last."""
    found, segment = [last], last.before
    while segment is not None:
        found.append(segment)
        segment = segment.before
    return found[::-1]


def distinct(paths: Sequence[Sequence[Segment]]) -> list[Segment]:
    """Each segment once, in the order in which configurations come through them."""
    return list({id(segment): segment for path in paths for segment in path}.values())
