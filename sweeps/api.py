"""Runs a sweep from Python, in a script or a notebook: `run_sweep` does what the command `sweeps/run.py` does."""

import os
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from mtlib.runtime.command_line import INTERRUPTED, SUCCESS
from mtlib.runtime.errors import require, require_name
from mtlib.runtime.method_file import read_method_file, trusting_methods
from mtlib.runtime.storage import expanded_path, local_path
from results.load import load, predict_given
from results.records.selection import Selection, write_selection
from results.selection.select_all import SelectionRequest, select_from
from results.sweep import Sweep, load_sweep
from search_spaces.space import SearchSpace
from sweeps.cli.arguments import (
    CLAIM_EXCLUDED,
    CLAIM_OPEN,
    LIMIT_REACHED,
    SOME_FAILED,
    SWEEP_FAILED,
    tracker_names,
)
from sweeps.cli.whole_sweep import run_or_resume
from sweeps.options import SweepOptions
from sweeps.plan.given_options import read_options

PLACES = ("data", "encoder", "storage", "resume")
"""Options that are the name or the place of something."""

SweepStatus = Literal["complete", "failed", "some_failed", "limit_reached", "interrupted"]
STATUS_OF_CODE: Mapping[int, SweepStatus] = {
    SUCCESS: "complete",
    SWEEP_FAILED: "failed",
    SOME_FAILED: "some_failed",
    LIMIT_REACHED: "limit_reached",
    INTERRUPTED: "interrupted",
    CLAIM_EXCLUDED: "complete",
    CLAIM_OPEN: "complete",
}
"""How a sweep ended, by the exit code of the command."""

NOT_GIVEN = ("space", "smaller_grids", "began_as_demonstration", "finds_gpus", "packs_gpus", "chosen_by", "dry_run")
"""Fields of `SweepOptions` that are no option of `run_sweep`: they follow from others, or run nothing."""


@dataclass(frozen=True, kw_only=True)
class FinishedSweep:
    """A sweep that has ended, or stopped; what it left can be read, selected from and predicted with."""

    folder: Path | str
    """A path, or the URI of a folder in a bucket."""
    exit_code: int
    """That of the command."""
    counts: Mapping[str, int]
    """Trials by status."""
    failures: Mapping[str, str]
    """Why each failed trial failed, by its id."""
    messages: tuple[str, ...]
    """What went wrong, a line each; empty if nothing did."""
    verdict: str = ""
    """Whether the claim that it checks is `shown`, `excluded` or `open`; empty if it checks none."""

    @property
    def status(self) -> SweepStatus:
        """How it ended: `complete`, `some_failed` trials, `failed` as a whole, `limit_reached` or `interrupted`.

        After `limit_reached` and `interrupted`, `run_sweep(resume=outcome.folder)` runs what is left; failed trials are
        run again with `retry_failed=True` only.
        """
        return STATUS_OF_CODE[self.exit_code]

    @cached_property
    def sweep(self) -> Sweep:
        """Its records as `results.table.load_sweep` returns them, with `ranking()` and `effects()`."""
        return load_sweep(self.folder)

    def select(self, **changes: Any) -> Selection:
        """Selects an ensemble for each task, and writes `selection.json` into the sweep's folder.

        Args:
            changes: fields of `SelectionRequest` that are not at their defaults, such as `tasks` or `method`; `methods`
                is a list of files with selection methods.

        Raises:
            ValueError: as `select_from`, or there is no such field.
        """
        known = [f.name for f in fields(SelectionRequest) if f.name not in ("sweeps", "files")]
        for name in changes:
            require_name(name, [*known, "methods"], "option of a selection")
        files = [read_method_file(expanded_path(path)) for path in changes.pop("methods", ())]
        request = SelectionRequest(sweeps=[str(self.folder)], files=files, **changes)
        selection = select_from(request, command="FinishedSweep.select in Python")
        write_selection(self.folder, selection)
        return selection

    def predict(self, texts: Any, *, task: str, device: str = "auto") -> pd.DataFrame:
        """Predicts texts with the ensemble that `select` chose for a task.

        Args:
            texts: a text by row, or a tuple of texts for a task of pairs; a frame, a dictionary of columns, and rows
                with names are read by the names of the columns that the task's own files have.
            task: one of the selection's.
            device: `auto` (a GPU if there is one), `cpu` or `cuda`.

        Returns:
            A row per text: `prediction`, and the columns of probabilities that `results/predict.py` writes, with the
            index of a frame or series. A row with a blank text (None, NaN, `pandas.NA`, `pandas.NaT` or white space)
            has none, and a warning names the first.

        Raises:
            ValueError: nothing was selected for the task, a column is missing, a row has another number of texts than
                the task, or the ensemble cannot be loaded.
        """
        loaded = load(self.folder, tasks=[task], device=device)
        found, note = predict_given(loaded.predictors, texts, task)
        if note:
            warnings.warn(note, stacklevel=2)
        return found


def run_sweep(
    space: str | Path | SearchSpace | None = None,
    *,
    verbose: bool = False,
    trust_methods: bool = False,
    **options: Any,
) -> FinishedSweep:
    """Runs a sweep to its end, or resumes one; the command does the same with the same options.

    In a process with a Ray that is running already, the sweep uses that Ray and leaves it running; it needs the free
    resources of one trial at least. The first Ctrl-C stops the sweep as it stops the command.

    Args:
        space: name of a built-in space, path of a file, or a space that was built in Python, which is kept with the
            sweep. None for `vary` or `claim` alone, and with `resume`.
        verbose: whether to print what the command prints, and to select ensembles at the end as it does. Otherwise
            nothing is printed, and `FinishedSweep.select` selects.
        trust_methods: whether Python that a resumed sweep holds is run also if it is not this user's, or in a bucket.
        options: as of the command, by their names with underscores: `data`, `encoder`, `workers`, `max_hours`, ...
            `set` is a mapping of values by dotted key, `vary` one of lists of values; text instead of a list is read as
            on the command line, e.g. `"1e-5..1e-4:log"`. A value is searched as it is given; arrays, ranges, and the
            numbers of NumPy and pandas are lists and numbers. `methods` is a list of files. `resume` is the name or
            folder of a sweep. None is as if left out.

    Raises:
        ValueError: one line that says what is wrong: an unknown option, a wrong value, data or an encoder that cannot
            be used, another sweep in the folder.
    """
    is_space = space is None or isinstance(space, str | Path | SearchSpace)
    require(is_space, "space must be a name, the path of a file or a SearchSpace", repr(space))
    for name in options:
        require_name(name, [f.name for f in fields(SweepOptions) if f.name not in NOT_GIVEN], "option")
    given = {name: plain_option(name, value) for name, value in {"space": space, **options}.items()}
    given = {name: value for name, value in given.items() if value is not None}
    call = python_call({**given, **({"trust_methods": True} if trust_methods else {})})
    with trusting_methods(trust_methods):
        ending = run_or_resume(read_options(given, ray_address()), call, is_verbose=verbose)
    return FinishedSweep(
        folder=local_path(ending.folder) or ending.folder,
        exit_code=ending.exit_code,
        counts=ending.outcome.counts,
        failures=ending.outcome.failures,
        messages=ending.messages,
        verdict=ending.outcome.verdict,
    )


def plain_option(name: str, value: Any) -> Any:
    """Returns an option as `read_options` takes it; None for one that is as if left out.

    Raises:
        ValueError: a place, a list of files or a mapping is none; `SweepOptions` checks the others.
    """
    value = plain_value(value)
    if value is None:
        return None
    if name in PLACES:
        require(isinstance(value, str), f"{name} must be text or a path", repr(value))
    if name == "methods":
        is_list = isinstance(value, tuple) and all(isinstance(path, str) for path in value)
        require(is_list, "methods must be a list of files", repr(value))
    if name in ("set", "vary"):
        has_keys = isinstance(value, Mapping) and all(isinstance(key, str) for key in value)
        require(has_keys, f"{name} must be a mapping of values by key", " ".join(f"{value!r:.80}".split()))
        for key, own in value.items():
            rule = f"{name} must have plain values by dotted key"
            require(is_plain(own), f"{rule}, or lists of them", f"{key}: {own!r:.80}")
    if name == "until_decided" and isinstance(value, bool):
        return 0.0 if value else None
    if isinstance(value, bool) and value is getattr(SweepOptions, name, None):
        return None  # a switch that stays as it is
    if name == "log_to" and isinstance(value, str):
        return tracker_names(value)
    if name == "log_to" and isinstance(value, tuple) and all(isinstance(tracker, str) for tracker in value):
        return tuple(dict.fromkeys(value))
    if name == "vary":
        return {key: own if isinstance(own, str | tuple) else (own,) for key, own in value.items()}
    return value


def plain_value(value: Any) -> Any:
    """Returns a value with Python's own numbers, and tuples in place of lists, ranges, arrays and series; paths are
    text."""
    value = value.tolist() if hasattr(value, "tolist") else value  # NumPy's and pandas' arrays, series and scalars
    if value is pd.NA:
        return None
    if isinstance(value, Mapping):
        return {key: plain_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple | range):
        return tuple(map(plain_value, value))
    return str(value) if isinstance(value, Path) else value


def is_plain(value: Any) -> bool:
    """Returns whether a value is text, a number, true, false, None, or a list of such values: a group of keys would
    pass by the checks of single keys."""
    if isinstance(value, tuple):
        return all(map(is_plain, value))
    return value is None or isinstance(value, str | int | float)


def python_call(given: Mapping[str, Any]) -> str:
    """Returns the call of `run_sweep` with these options, for the record of the sweep."""
    texts = (f"{name}={own.name if isinstance(own, SearchSpace) else repr(own)}" for name, own in given.items())
    return f"sweeps.api.run_sweep({', '.join(texts)})"


def ray_address() -> str | None:
    """Returns the address of the Ray that this process uses already, else of the one in the environment;
    None if neither."""
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        return str(ray.get_runtime_context().gcs_address)
    return os.environ.get("RAY_ADDRESS")
