"""Canaries: each fails when the installed Optuna no longer has something that `optuna_internals` relies on."""

import ast
import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState

from sweeps.search import optuna_internals
from sweeps.search.optuna_internals import is_end_entry, is_journal_entry, is_report_entry, reopen_trial, storage_id

CHANGED = f"Optuna {optuna.__version__} has changed; sweeps/search/optuna_internals.py must follow: "


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "journal.log"


@pytest.fixture
def study(journal: Path) -> optuna.Study:
    """A study of a complete trial, a failed one, and a running one, each with an intermediate value."""
    study = optuna.create_study(storage=JournalStorage(JournalFileBackend(str(journal))), direction="maximize")
    trials = [study.ask() for _ in range(3)]
    for trial in trials:
        trial.suggest_float("x", 0, 1)
        trial.report(0.5, 1)
    study.tell(trials[0], 0.7)
    study.tell(trials[1], state=TrialState.FAIL)
    return study


def entries_of(journal: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in journal.read_bytes().splitlines()]


def test_frozen_trial_has_its_storage_id(study: optuna.Study) -> None:
    assert "trial_id" in inspect.signature(FrozenTrial).parameters, f"{CHANGED}FrozenTrial has no trial_id"
    assert hasattr(study.get_trials()[0], "_trial_id"), f"{CHANGED}FrozenTrial has no _trial_id"
    assert [storage_id(trial) for trial in study.get_trials()] == [0, 1, 2]


def test_trial_is_made_of_a_study_and_an_id(study: optuna.Study) -> None:
    names = list(inspect.signature(optuna.Trial).parameters)
    assert names == ["study", "trial_id"], f"{CHANGED}Trial takes {names}, not a study and an id"
    trial = reopen_trial(study, study.get_trials()[2])
    trial.report(0.6, 2)
    study.tell(trial, 0.6)
    frozen = study.get_trials()[2]
    assert (frozen.value, frozen.intermediate_values) == (0.6, {1: 0.5, 2: 0.6})


@pytest.mark.usefixtures("study")
def test_journal_has_one_entry_per_line(journal: Path) -> None:
    lines = journal.read_bytes().splitlines(keepends=True)
    assert all(is_journal_entry(line) for line in lines), f"{CHANGED}a line of a journal is no object with op_code"
    assert not any(is_journal_entry(line[:-2]) or is_journal_entry(line[:-1]) for line in lines)


@pytest.mark.usefixtures("study")
def test_ends_and_intermediate_values_are_found_in_a_journal(journal: Path) -> None:
    for number, state in enumerate((TrialState.COMPLETE, TrialState.FAIL)):
        ends = [entry for entry in entries_of(journal) if is_end_entry(entry, [number])]
        assert [entry["state"] for entry in ends] == [state], f"{CHANGED}a trial's end is no entry with its state"
    assert not any(is_end_entry(entry, [2, 3]) for entry in entries_of(journal)), "these have not ended"
    values = [entry["intermediate_value"] for entry in entries_of(journal) if is_report_entry(entry, [0, 2])]
    assert values == [0.5, 0.5], f"{CHANGED}an intermediate value is no entry of its own"


def test_journal_without_ends_holds_running_trials(study: optuna.Study, journal: Path, tmp_path: Path) -> None:
    backend = JournalFileBackend(str(tmp_path / "copy.log"))
    backend.append_logs(
        [entry for entry in JournalFileBackend(str(journal)).read_logs(0) if not is_end_entry(entry, [1])]
    )
    copy = optuna.load_study(study_name=study.study_name, storage=JournalStorage(backend))
    states = [trial.state.name for trial in copy.get_trials()]
    assert states == ["COMPLETE", "RUNNING", "RUNNING"], f"{CHANGED}a journal cannot be written without an entry"


def private_names(path: Path) -> Iterator[str]:
    """Underscored attributes that a file uses of anything but `self`, and underscored modules that it imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("optuna"):
            parts = [*str(node.module).split("."), *(alias.name for alias in node.names)]
            yield from (part for part in parts if part.startswith("_"))
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            yield from [node.attr] if ast.unparse(node.value) != "self" else []


def test_no_other_file_uses_private_names_of_optuna() -> None:
    own = Path(optuna_internals.__file__)
    users = [path for path in own.parents[1].rglob("*.py") if "import optuna" in path.read_text() and path != own]
    assert users
    assert {path.name: list(private_names(path)) for path in users} == {path.name: [] for path in users}
    assert set(private_names(own)) == {"_trial_id"}
