"""Trains the search space of students by the command that trains any, `sweeps/run.py`."""

import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mtlib.config.trial import TrialConfig
from mtlib.runtime.command_line import SUCCESS
from mtlib.runtime.console import COMMAND_INDENT, show_lines
from mtlib.runtime.errors import require
from mtlib.runtime.program_names import PROJECT_FOLDER
from mtlib.runtime.storage import is_file, open_folder, split_location
from results.records.tables import read_trials
from results.records.trials import SWEEP_FILE, UNFINISHED
from search_spaces.space import SearchSpace, grid_configs
from search_spaces.space_source import space_source

RUN_SCRIPT = PROJECT_FOLDER / "sweeps/run.py"


@dataclass(frozen=True, kw_only=True)
class TrainingRun:
    """How a sweep is trained."""

    folder: Path
    """Where the file of its search space is kept."""
    new_words: Sequence[str]
    """The words of the command line of a sweep that has not begun."""
    is_dry_run: bool
    """Whether its plan is all that is wanted."""

    def train(self, space: SearchSpace, place: str, encoder: str) -> tuple[int, bool]:
        """Trains what is not trained yet of a space.

        Args:
            space: which trials.
            place: the folder of the sweep, which may have begun.
            encoder: the one with which all its trials must start.

        Returns:
            The exit code of `sweeps/run.py`, and whether all trials have ended.

        Raises:
            ValueError: the sweep that has begun learns from other files, or starts from another encoder.
        """
        has_begun = is_file(open_folder(place), SWEEP_FILE)
        if has_begun:
            check_same(place, space, encoder)
            if has_ended(place):
                return SUCCESS, True
            if self.is_dry_run:
                show_lines([f"{place} has begun; what is left of it would be trained"])
                return SUCCESS, False
        code = run_child([sys.executable, str(RUN_SCRIPT), *self.words(space, place, has_begun=has_begun)])
        return code, code == SUCCESS and not self.is_dry_run and has_ended(place)

    def words(self, space: SearchSpace, place: str, *, has_begun: bool) -> list[str]:
        """Returns the command line; writes the file of the space of a sweep that has not begun."""
        if has_begun:
            return ["--resume", place]
        storage, name = split_location(place)
        file = self.folder / f"{name}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(space_source(space), encoding="utf-8")
        last = ["--dry-run"] if self.is_dry_run else []
        return ["--space", str(file), "--storage", storage, "--name", name, *self.new_words, *last]


def run_child(command: Sequence[str]) -> int:
    """Shows and runs a command, which an interrupt reaches too; returns its exit code."""
    show_lines([f"{COMMAND_INDENT}{shlex.join(command)}"])
    with subprocess.Popen(command) as process:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:  # the sweep got it too: it saves its trials, and ends
                continue


def has_ended(place: str) -> bool:
    """Returns whether no trial of a sweep is left to train."""
    return not any(record.status in UNFINISHED for record in read_trials(place))


def check_same(place: str, space: SearchSpace, encoder: str) -> None:
    """Raises ValueError unless a sweep that has begun learns from the files of a space, with that encoder."""
    configs = [TrialConfig.from_json(record.config) for record in read_trials(place)]
    found, wanted = (source_files(configs), source_files(grid_configs(space)))
    rule = f"{place} must learn from the same rows and models (or name another sweep with --name)"
    require(found == wanted, rule, f"a difference in {', '.join(sorted(found ^ wanted))}")
    encoders = {config.encoder.name for config in configs}
    rule = f"{place} must start from the same encoder (or name another sweep with --name)"
    require(encoders == {encoder}, rule, f"{encoder}, not {', '.join(sorted(encoders))}")


def source_files(configs: Sequence[TrialConfig]) -> set[str]:
    """Returns the names of the files of the further sources of data, which have hashes; their folder may have moved."""
    return {Path(source.path).name for config in configs for source in config.data.sources.values()}
