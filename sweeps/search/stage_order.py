"""Which trial is next, so that no two lanes train the same stage, and what many wait for is trained early."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mtlib.config.trial import TrialConfig
from mtlib.data.load import find_parts
from mtlib.stages.keys import Cut, Origin, list_cuts
from mtlib.stages.plan import plan_stages


@dataclass(frozen=True, kw_only=True)
class Course:
    """What a trial comes through, by names that trials of one sweep share where they can share the stage."""

    ends: tuple[str, ...]
    """The end of each stage."""
    epochs: tuple[int, ...]
    """Epochs of the trial that are done at each of them."""
    passes: frozenset[str]
    """Every cut."""


def find_course(config: TrialConfig, data_folder: Path, num_workers: int) -> Course:
    """The course of a trial, from its configuration alone: nothing is loaded, so its names hold for one sweep only.

    Args:
        config: the trial's configuration.
        data_folder: of the sweep.
        num_workers: that train each trial.
    """
    num_rows = dict.fromkeys(config.train_sets, 1)  # how long stages are does not matter here
    return course_of(find_cuts(config, data_folder, num_workers, num_rows))


def find_cuts(config: TrialConfig, data_folder: Path, num_workers: int, num_rows: Mapping[str, int]) -> list[Cut]:
    """Every cut of a trial, first to last, with keys that hold for one sweep only.

    Args:
        config: the trial's configuration.
        data_folder: of the sweep.
        num_workers: that train each trial.
        num_rows: train rows of every set that some stage draws from.
    """
    started = f"{config.encoder.start_from} {config.encoder.start_epoch} {config.encoder.start_heads}"
    origin = Origin(
        encoder=config.encoder.name,
        started={"encoder": started},
        data={key: repr(parts) for key, parts in find_parts(config, data_folder).items()},
        environment={"num_workers": num_workers},
    )
    return list_cuts(config, plan_stages(config, num_rows), origin)


def course_of(cuts: Sequence[Cut]) -> Course:
    """The course of a trial that comes through these cuts."""
    ends = [cut for cut in cuts if cut.is_end]
    return Course(
        ends=tuple(cut.key for cut in ends),
        epochs=tuple(cut.total_epochs for cut in ends),
        passes=frozenset(name for cut in cuts for name in (cut.key, cut.other_key) if name is not None),
    )


def without_sharing() -> Course:
    """The course of a trial that shares nothing."""
    return Course(ends=(), epochs=(), passes=frozenset())


@dataclass(kw_only=True)
class StageOrder:
    """What is being trained, and what has been."""

    running: dict[str, Course] = field(default_factory=dict)
    """By trial id."""
    done: set[str] = field(default_factory=set)
    """Ends that are in the store or need not be waited for."""

    def choose(self, courses: Sequence[Course]) -> int | None:
        """Which of the trials to start now, by its place; None if each needs what is being trained, or there is none.

        A trial comes before those that go on where it ends. Of the rest, what has most of its stages done comes first,
        then what trains the stage that most wait for, then the order as given.
        """
        busy = self.busy
        free = [place for place, course in enumerate(courses) if not course.passes & busy]
        waiting = Counter(name for course in courses for name in self.missing(course)[:1])
        lasts = {course.ends[-1]: course for course in courses if course.ends}

        def rank(place: int) -> tuple[bool, int, int, int]:
            course = courses[place]
            missing = self.missing(course)
            num_waiting = waiting[missing[0]] if missing else 0
            return goes_on_behind_another(course, lasts), len(missing) - len(course.ends), -num_waiting, place

        return min(free, key=rank, default=None)

    @property
    def busy(self) -> set[str]:
        """Ends that running trials are on their way to."""
        return {name for course in self.running.values() for name in self.missing(course)}

    def missing(self, course: Course) -> list[str]:
        """The ends of a course that are not done, first to last."""
        return [name for name in course.ends if name not in self.done]

    def start(self, trial_id: str, course: Course) -> None:
        """A trial has been given out."""
        self.running[trial_id] = course

    def begins(self, trial_id: str, epochs: int) -> None:
        """A trial has found so many of its epochs done: whatever ends there is to be had."""
        course = self.running.get(trial_id)
        for name, end in zip(course.ends, course.epochs, strict=True) if course else ():
            if end <= epochs:
                self.done.add(name)

    def stage_ends(self, trial_id: str, stage: int) -> None:
        """A trial has finished a stage, from 0; nobody need wait for it any more."""
        course = self.running.get(trial_id)
        if course and course.ends:
            self.done.add(course.ends[stage])

    def end(self, trial_id: str) -> None:
        """A trial has ended, however it did."""
        self.running.pop(trial_id, None)


def goes_on_behind_another(course: Course, lasts: dict[str, Course]) -> bool:
    """Whether another trial ends at a cut of this one, which is longer."""
    others: Iterable[Course] = (lasts[name] for name in course.passes & lasts.keys())
    return any(course.ends[-1] not in other.passes for other in others)
