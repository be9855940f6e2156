"""Reads and writes `selection.json`: the selected ensemble of each task, its scores and their intervals."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from mtlib.config.schema import to_dict
from mtlib.runtime.errors import require, require_name
from mtlib.runtime.program_names import typed_command
from mtlib.runtime.storage import Location, is_file, local_path, open_folder
from mtlib.tasks import TASKS, Task
from results.records.files import read_dataclass, write_json
from results.records.trials import SWEEP_FILE, why_no_sweep

SELECTION_FILE = "selection.json"
OWN_SWEEP = "."
"""What the file calls the sweep in whose folder it is; what is read has the present place of that folder."""


@dataclass(frozen=True, kw_only=True)
class Member:
    """One model of an ensemble."""

    sweep: str
    """Folder or URI of its sweep."""
    trial: str
    epoch: int
    """From 1."""
    weight: float
    """Its weight in the mean of outputs, above 0; the weights of all members sum to 1."""


@dataclass(frozen=True, kw_only=True)
class BundledMember:
    """One model of an ensemble in a bundle; its weight is that of the `Member` that it was."""

    model: str
    """Its folder in the bundle."""
    weight: float


@dataclass(frozen=True, kw_only=True)
class MethodScore:
    """The scores of one selection method."""

    name: str
    in_sample: float
    """Dev score of what it chooses from all of dev: too high."""
    cross_fitted: float
    """Dev score where each example is scored by the ensemble chosen without its fold."""
    standard_error: float
    """The standard error of the cross-fitted score, over examples."""
    interval: tuple[float, ...]
    """Low and high of its 95 % interval."""
    num_models: int
    """Members of what it chooses from all of dev."""
    mean_absolute_error: float | None = None
    """The error of a regression, cross-fitted, in the unit of its labels; None for other tasks."""
    lead: float
    """Cross-fitted score minus the best single model's."""
    lead_interval: tuple[float, ...]
    """Low and high of the lead's 95 % interval; those of all methods, over single and over base, hold at once. Like
    other intervals it is empty where dev examples are in too few groups for any difference to be claimed."""
    base_lead: float | None = None
    """Cross-fitted score minus the base configuration's; None where no trial has it."""
    base_lead_interval: tuple[float, ...] = ()
    """Low and high of its 95 % interval, likewise."""

    @property
    def is_significant(self) -> bool:
        """Whether the 95 % interval of its lead over the best single model excludes 0."""
        return bool(self.lead_interval) and not min(self.lead_interval) <= 0 <= max(self.lead_interval)


@dataclass(frozen=True, kw_only=True)
class SliceScore:
    """A score on one slice, the mean over models."""

    column: str
    value: str
    """Of the column; of several that are taken together, how many there are."""
    num_examples: int
    num_groups: int
    """Of examples that were drawn together."""
    score: float | None
    """None where the metric is not defined on these examples."""
    interval: tuple[float, ...] = ()
    """Low and high of its 95 % interval over examples; empty where these are in too few groups."""


@dataclass(frozen=True, kw_only=True)
class TaskSelection:
    """The ensemble of one task."""

    method: str
    """The chosen selection method, one of `methods`."""
    titles: Mapping[str, str] = field(default_factory=dict)
    """The titles of the user's own selection methods, by name."""
    members: tuple[Member, ...]
    """The largest weight first."""
    methods: tuple[MethodScore, ...]
    """Every selection method, the simplest first."""
    automatic: MethodScore | None = None
    """The score of choosing among them; None where a method was requested."""
    num_examples: int
    num_groups: int | None = None
    """Groups of connected texts among the dev examples; None where no sweep has recorded them."""
    largest_group: int = 1
    """Examples in the largest of these groups."""
    num_candidates: int
    num_trials: int
    lost: Mapping[str, str] = field(default_factory=dict)
    """Why trials were left out, by trial, or by how many there are in a copy of another sweep's folder."""
    slices: tuple[SliceScore, ...] = ()
    """Expected scores on slices of the dev examples, cross-fitted as `score` is."""

    def __post_init__(self) -> None:
        require(bool(self.members), "a selection must have members", "none")
        require_name(self.method, [method.name for method in self.methods], "method")

    @property
    def score(self) -> MethodScore:
        """The expected score of the ensemble: of the automatic choice, or of the requested method."""
        chosen = next(method for method in self.methods if method.name == self.method)
        return chosen if self.automatic is None else self.automatic


@dataclass(frozen=True, kw_only=True)
class HeldOutScores:
    """A selection's score on the held-out rows."""

    time: str
    """ISO 8601, UTC."""
    scores: Mapping[str, float]
    """By task."""
    intervals: Mapping[str, tuple[float, ...]]
    """Low and high of the 95 % interval over groups of connected texts, by task."""
    num_examples: Mapping[str, int]
    slices: Mapping[str, tuple[SliceScore, ...]] = field(default_factory=dict)
    """The scores on slices of the held-out rows, by task."""


@dataclass(frozen=True, kw_only=True)
class RecordedSearch:
    """A sweep's search and scheduler, as recorded in its `sweep.json`."""

    search: str
    """`grid`, `random`, `tpe` or `gp`; `not recorded` where `sweep.json` lacks it."""
    scheduler: str
    """`asha` or `none`; `not recorded` likewise."""
    num_configurations: int
    """Configurations with a trial that has not failed."""


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The ensembles of all tasks."""

    version: int = 3
    created: str
    """ISO 8601, UTC."""
    command: str
    sweeps: Mapping[str, str]
    """Fingerprint of its data by folder or URI of each sweep."""
    num_folds: int
    num_repeats: int
    seed: int
    """The seed of folds, bags and resamples."""
    max_models: int
    searches: Mapping[str, RecordedSearch] = field(default_factory=dict)
    """How the trials of each sweep were chosen."""
    tasks: Mapping[str, TaskSelection]
    not_chosen: Mapping[str, str] = field(default_factory=dict)
    """Why nothing was chosen for other tasks, by the task's name."""
    definitions: Mapping[str, Task] = field(default_factory=lambda: TASKS)
    """The definitions of these tasks and of those in `not_chosen`."""
    evaluations: tuple[HeldOutScores, ...] = ()
    """Every score on the held-out rows."""

    def __post_init__(self) -> None:
        for task in self.tasks:
            require_name(task, self.definitions, "task")


def write_selection(folder: Location, selection: Selection) -> None:
    """Writes `selection.json` into a sweep's folder, which it calls `OWN_SWEEP`: the folder may be copied and moved."""
    portable = rename_sweep(selection, place_of(folder), OWN_SWEEP)
    write_json(open_folder(folder), SELECTION_FILE, to_dict(portable))


def rename_sweep(selection: Selection, before: str, after: str) -> Selection:
    """Returns a selection that has another name for one of its sweeps."""

    def renamed(text: str) -> str:
        """A sweep, a text that ends in `of SWEEP`, or one that begins with a path below it."""
        if text == before or text.endswith(f" of {before}"):
            return text.removesuffix(before) + after
        return after + text.removeprefix(before) if text.startswith(f"{before}/") else text

    return replace(
        selection,
        sweeps={renamed(sweep): own for sweep, own in selection.sweeps.items()},
        searches={renamed(sweep): own for sweep, own in selection.searches.items()},
        tasks={
            task: replace(
                chosen,
                members=tuple(replace(own, sweep=renamed(own.sweep)) for own in chosen.members),
                lost={renamed(trial): renamed(why) for trial, why in chosen.lost.items()},
            )
            for task, chosen in selection.tasks.items()
        },
    )


def read_selection(folder: Location, remedy: str | None = None) -> Selection:
    """Reads `selection.json` from a sweep's folder; ValueError if it is missing, damaged or of another version.

    `remedy` is what to do about another version: a bundle has no sweep to select from.
    """
    select = typed_command("select")
    try:
        remedy = remedy or f"make it again with {select}"
        found: Selection = read_dataclass(open_folder(folder), SELECTION_FILE, Selection, remedy)
        return rename_sweep(found, OWN_SWEEP, place_of(folder))
    except (FileNotFoundError, NotADirectoryError) as error:
        rule = f"{folder} must hold {SELECTION_FILE} (make one with {select}), got none"
        is_sweep = is_file(open_folder(folder), SWEEP_FILE)
        raise ValueError(rule if is_sweep else f"{rule}: {why_no_sweep(folder)}") from error


def place_of(folder: Location) -> str:
    """Returns a folder on a disk as an absolute path, any other as it is."""
    return str(local_path(folder) or folder)
