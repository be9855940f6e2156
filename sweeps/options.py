"""The options of a sweep (`SweepOptions`), checked when built; with its space and data they are its `SweepPlan`."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from mtlib.config.schema import check_types, to_dict
from mtlib.runtime.errors import require
from mtlib.runtime.program_names import DEFAULT_STORAGE
from mtlib.runtime.storage import expanded_path, join_location, local_path
from mtlib.tasks import Task
from results.records.expected_trials import expected_trials
from results.records.race import RaceRecord
from results.records.replicated_best import common_replicates
from search_spaces.claim import Claim, read_claim
from search_spaces.space import SearchSpace, grid_trials
from search_spaces.space_json import SPACE_JSON
from search_spaces.vary import VariedValues, is_range

Search = Literal["grid", "tpe", "gp", "random"]
Scheduler = Literal["asha", "none"]

CACHE = ".cache"
"""Folder in a storage of what its sweeps share; no sweep's name begins with a dot."""
ENCODER_KEY = "encoder.name"
"""Key of a configuration whose values `vary` has as they are found: hub names, or absolute paths of folders."""
MOST_RACED, BEST_RACED = 20, 8
"""With --until-decided: the most replicates, and the configurations of a search, when their flags are left out."""
DEFAULT_TRIALS = 20
"""Configurations that `tpe`, `gp` and `random` draw when --trials is left out."""

OF_ONE_COMMAND = ("resume", "extend", "retry_failed", "take_over", "dry_run", "max_hours", "max_steps")
NOT_SAVED = ("name", "storage", "address", "finds_gpus", "packs_gpus", *OF_ONE_COMMAND)
"""Options that `sweep.json` does not keep."""
SAVED_KEYS = {"set": "changes"}
"""Options whose key in `sweep.json` is not their name."""

SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
NAME_RULE = "--name must be letters, digits, '.', '_' and '-', at most 100, and begin with a letter or digit"


@dataclass(frozen=True, kw_only=True)
class SweepOptions:
    """The options of a sweep, each checked on its own; no file is opened.

    Raises:
        ValueError: one line with the flag, the rule and the value.
    """

    space: str | SearchSpace | None = None
    """Name of a built-in search space, absolute path of the file of another one, or one that was built in Python; None
    for `presets.general`."""
    vary: Mapping[str, VariedValues] = field(default_factory=dict)
    """Dotted configuration keys and their values, in place of what the space searches."""
    smaller_grids: tuple[Mapping[str, VariedValues], ...] = ()
    """What `vary` was before --resume added values, the first one first."""
    claim: str | None = None
    """That some settings beat others, in place of what the space searches: a race of two configurations, until it is
    shown or excluded (`search_spaces.claim.read_claim`)."""
    methods: tuple[str, ...] = field(default_factory=tuple)
    """Absolute paths of the user's files of methods that configurations may name besides the built-in ones."""
    data: Path | None = None
    """Folder of the tasks' files; None for the demonstration corpus."""
    encoder: str | None = None
    """Hub name or folder; None for the space's own encoder, or the demonstration encoder where `data` is None too."""
    began_as_demonstration: bool = False
    """Whether a resumed sweep began without `data` and `encoder`, which now say where the demonstration's are."""
    workers: int = 1
    """Workers that train one trial together, at least 1."""
    cpus_per_worker: int = 1
    """CPUs, and threads, of each worker, at least 1."""
    gpus_per_worker: float = 0.0
    """GPUs of each worker: 0, 1, or a part of one that several trials share."""
    finds_gpus: bool = False
    """Whether `gpus_per_worker` is still to be found: 1 if there is a GPU for each worker, else 0."""
    packs_gpus: bool = False
    """Whether `gpus_per_worker` is still to be measured, so that as many trials share a GPU as its memory holds."""
    concurrent: int | None = None
    """Most trials that run at the same time, at least 1; None for as many as fit."""
    search: Search = "grid"
    trials: int | None = None
    """Configurations drawn by `tpe`, `gp` or `random`; None for `DEFAULT_TRIALS`. A grid has its own number."""
    replicates: int = 1
    """Trainings of each configuration, with different seeds, at least 1; with `replicate_best` only of the best."""
    replicate_best: int | None = None
    """Configurations, the best by their dev scores, that get all `replicates`, at least 2; None for all."""
    chosen_by: int = 1
    """With `replicate_best`: the trainings of every configuration, by whose mean score the best are chosen."""
    until_decided: float | None = None
    """Whether replicates go on only until it is decided which configuration is the best, at least 0: a difference in
    score below which two count as equal; `replicates` are the most. None: each configuration gets all of them."""
    scheduler: Scheduler = "none"
    name: str = ""
    """Name of the sweep and of its folder; empty for one that is made from the name of the space and the time."""
    storage: str
    """Absolute path or URI of the folder that holds the sweeps."""
    seed: int = 0
    set: Mapping[str, Any] = field(default_factory=dict)
    """Dotted configuration keys and their values: text as typed, or values as given in Python."""
    address: str | None = None
    """Ray cluster to use; None for this machine."""
    reuse: bool = True
    """Whether stages and trials are shared with the other sweeps of the storage, and among this one's trials."""
    keep_gb: float = 20.0
    """Gigabytes (10^9 bytes) that the stages of all sweeps of the storage may take, at least 0; 0 shares none."""
    keep_models: int = 20
    """Trials that keep their best weights, by each task's score and by the overall score, at least 1."""
    checkpoint_steps: int = 500
    """Optimizer steps between two saved states of a running trial, at least 1."""
    node_wait_minutes: float = 10.0
    """How long the sweep waits for a node once none is left that a trial fits, at least 0."""
    silent_minutes: float = 10.0
    """How long a trial's workers may report nothing before they are restarted, above 0."""
    max_hours: float | None = None
    """Wall hours after which this run of the sweep stops, above 0; None for no limit."""
    max_steps: int | None = None
    """Optimizer steps, trained by this run of the sweep, after which it stops, at least 1; None for no limit."""
    log_to: tuple[str, ...] = ()
    """Names of trackers (`sweeps.tracking.tracker.TRACKERS`) that get the sweep's trials."""
    hold_out: float = 0.0
    """Share of each task's own train rows that no trial sees, from 0 to 0.5; becomes `data.hold_out`."""
    resume: bool = False
    """Whether an existing sweep is resumed."""
    extend: int = 0
    """Configurations to add to a resumed sweep."""
    retry_failed: bool = False
    """Whether failed trials are run again."""
    take_over: bool = False
    """Whether a resumed sweep is taken from its driver at once, without a look whether that lives."""
    dry_run: bool = False

    def __post_init__(self) -> None:
        check_types(self, flag_of)
        if self.replicate_best is not None:
            rule = "--replicate-best must be at least 2, as the best configurations are compared with each other"
            require(self.replicate_best >= 2, rule, self.replicate_best)
            rule = f"--replicates must be above {self.chosen_by} with --replicate-best"
            require(self.replicates > self.chosen_by, f"{rule}, as every configuration gets so many", self.replicates)
        counts = ("workers", "cpus-per-worker", "concurrent", "trials", "replicates", "keep-models")
        for flag in (*counts, "checkpoint-steps", "max-steps"):
            value = getattr(self, flag.replace("-", "_"))
            require(value is None or value >= 1, f"--{flag} must be at least 1", value)
        if self.claimed is not None:  # else it cannot be read
            kept: dict[str, Any] = {"vary": {}, "search": "grid", "trials": None, "scheduler": "none"}
            for name, value in {**kept, "until_decided": 0.0, "replicate_best": None}.items():
                rule = f"{flag_of(name)} must be left out with --claim, which names what is compared"
                require(getattr(self, name) == value, rule, getattr(self, name))
        if self.until_decided is not None:
            rule = "--until-decided must be a difference in score, at least 0 and below 1, the whole range, e.g. 0.01"
            require(0 <= self.until_decided < 1, rule, self.until_decided)
            flag = "--until-decided" if self.claim is None else "--claim"
            require(self.replicates >= 2, f"--replicates must be at least 2 with {flag}", self.replicates)
            can_race = self.search == "grid" or self.replicate_best is not None
            require(can_race, "--until-decided of a search must come with --replicate-best", "none")
        for flag in ("seed", "keep-gb", "node-wait-minutes", "extend"):
            value = getattr(self, flag.replace("-", "_"))
            require(value >= 0, f"--{flag} must be at least 0", value)
        for flag, value in (("--silent-minutes", self.silent_minutes), ("--max-hours", self.max_hours)):
            require(value is None or value > 0, f"{flag} must be above 0", value)
        require(0 <= self.hold_out <= 0.5, "--hold-out must be from 0 to 0.5", self.hold_out)
        rule = "--extend must be left out for a sweep over a grid, which has as many configurations as it has points"
        require(self.extend == 0 or self.search != "grid", rule, self.extend)
        require(0 <= self.gpus_per_worker <= 1, "--gpus-per-worker must be from 0 to 1", self.gpus_per_worker)
        is_split = 0 < self.gpus_per_worker < 1 and self.workers > 1
        rule = "--gpus-per-worker must be 0 or 1 with several workers, as each of them needs a GPU of its own"
        require(not is_split, rule, self.gpus_per_worker)
        rule = "--gpus-per-worker auto must come with one worker, as trials of several need a GPU for each"
        require(not self.packs_gpus or self.workers == 1, rule, f"{self.workers} workers")
        rule = "--trials must be left out with --search grid, which trains each grid point once"
        require(self.search != "grid" or self.trials is None, rule, self.trials)
        rule = "--scheduler must be none with --search gp, which learns only from trainings that went to their end"
        require(self.search != "gp" or self.scheduler == "none", rule, self.scheduler)
        rule = "--search grid must have a list of values for each key of --vary"
        ranges = [f"{key}={given}" for key, given in self.vary.items() if is_range(given)]
        require(self.search != "grid" or not ranges, rule, ", ".join(ranges))
        require(not self.name or SAFE_NAME.fullmatch(self.name) is not None, NAME_RULE, repr(self.name))

    @property
    def claimed(self) -> Claim | None:
        """The claim that the sweep checks; None if it checks none."""
        return None if self.claim is None else read_claim(self.claim)

    @property
    def is_demonstration(self) -> bool:
        """Whether the demonstration's data and encoder are used."""
        return self.began_as_demonstration or (self.data is None and self.encoder is None)

    @property
    def gpus_as_typed(self) -> str:
        """The value of --gpus-per-worker."""
        return "auto" if self.packs_gpus else f"{self.gpus_per_worker:g}"

    @property
    def folder(self) -> str:
        """The sweep's own folder."""
        assert self.name, "a sweep without a name has no folder"
        return join_location(self.storage, self.name)

    @property
    def shared_folder(self) -> str:
        """Folder of what sweeps share: stages, and a register of finished trials."""
        return join_location(self.storage, cache_name(self.storage))

    @property
    def cache_folder(self) -> Path:
        """Folder on the driver's disk for tokens and the demonstration's files."""
        storage = local_path(self.storage) or expanded_path(DEFAULT_STORAGE)
        return storage / cache_name(storage)

    @property
    def num_drawn(self) -> int | None:
        """Configurations that the search draws, with those of --extend; None for a grid."""
        return None if self.search == "grid" else (self.trials or DEFAULT_TRIALS) + self.extend

    @property
    def common_replicates(self) -> int:
        """Trainings that every configuration gets, unless its first one is pruned or fails."""
        return common_replicates(vars(self))

    def num_trials(self, num_configurations: int) -> int:
        """The most trials of so many configurations."""
        return expected_trials({"options": vars(self), "num_configurations": num_configurations}, ())

    @property
    def keep_bytes(self) -> int:
        """`keep_gb` in bytes."""
        return int(self.keep_gb * 1e9)

    @property
    def shares_stages(self) -> bool:
        """Whether stages are kept for other trials, and taken from them."""
        return self.reuse and self.keep_bytes > 0


def flag_of(name: str) -> str:
    """Returns the flag of an option."""
    return "--no-reuse" if name == "reuse" else f"--{name.replace('_', '-')}"


def cache_name(storage: str | Path) -> str:
    """Returns the name of `CACHE` in a storage; one of this account's own where another account's cannot be written."""
    found = local_path(join_location(storage, CACHE))
    is_shared = found is None or not os.access(found, os.F_OK) or os.access(found, os.W_OK | os.X_OK)
    return CACHE if is_shared else f"{CACHE}-{os.getuid()}"


@dataclass(frozen=True, kw_only=True)
class SweepPlan:
    """A sweep that is ready to run: data and encoder are known to be readable, its folder exists."""

    options: SweepOptions
    space: SearchSpace
    """Its base configuration has encoder, seed and --set applied."""
    data_folder: Path
    num_parameters: int = 0
    """The parameters of the largest encoder, from which the memory of a worker is estimated."""
    race: RaceRecord | None = None
    """What a race has decided before this run; None if the sweep is none."""

    @property
    def tasks(self) -> Mapping[str, Task]:
        """The definitions of the sweep's tasks."""
        return self.space.base.data.tasks

    @cached_property
    def num_configurations(self) -> int:
        """Configurations of the whole sweep, replicates not counted."""
        num_drawn = self.options.num_drawn
        return len(grid_trials(self.space)) if num_drawn is None else num_drawn

    @property
    def facts(self) -> Mapping[str, Any]:
        """What `sweep.json` says that decides which trials there are."""
        own = {"options": vars(self.options), "num_configurations": self.num_configurations}
        return {**own, "space": {"metric": self.space.metric}}


def saved_options(options: SweepOptions) -> dict[str, Any]:
    """Returns the options that `sweep.json` keeps, as plain data;
    configurations added by --extend count among the trials."""
    names = [item.name for item in fields(options) if item.name not in NOT_SAVED]
    kept = {SAVED_KEYS.get(name, name): to_dict(getattr(options, name)) for name in names if name != "space"}
    space = SPACE_JSON if isinstance(options.space, SearchSpace) else options.space
    data = None if options.data is None else str(options.data)
    return {"space": space, **kept, "trials": options.num_drawn, "data": data}
