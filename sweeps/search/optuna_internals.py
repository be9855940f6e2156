"""The parts of Optuna that a sweep uses and that may change without notice: a private name, and the journal's format.

Checked against Optuna 5.0; `pyproject.toml` allows no later major version. When that bound moves, the tests of this
file show what has changed. No other file of `sweeps/` uses a private name of Optuna.
"""

import json
from collections.abc import Collection, Mapping
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState


def storage_id(trial: FrozenTrial) -> int:
    """A trial's id in the storage and the journal; the public API has only its number in the study."""
    return int(trial._trial_id)


def reopen_trial(study: optuna.Study, trial: FrozenTrial) -> optuna.Trial:
    """A running trial of the study, for `report` and `tell`; the public `Study.ask` returns new trials only."""
    return optuna.Trial(study, storage_id(trial))


def is_journal_entry(line: bytes) -> bool:
    """Whether a line of a journal file is whole. Optuna can neither read nor repair a file with a damaged line."""
    try:
        return line.endswith(b"\n") and "op_code" in json.loads(line)
    except (ValueError, TypeError):
        return False


def is_end_entry(entry: Mapping[str, Any], trial_ids: Collection[int]) -> bool:
    """Whether a journal's entry ends one of these trials. No public call sets an ended trial running again."""
    is_state = entry.get("trial_id") in trial_ids and "state" in entry
    return is_state and TrialState(entry["state"]).is_finished()


def is_attribute_entry(entry: Mapping[str, Any], trial_ids: Collection[int], prefix: str) -> bool:
    """Whether a journal's entry is an attribute of one of these trials whose name has a prefix. No public call removes
    one."""
    names = entry.get("user_attr", {})
    return entry.get("trial_id") in trial_ids and any(name.startswith(prefix) for name in names)


def is_report_entry(entry: Mapping[str, Any], trial_ids: Collection[int]) -> bool:
    """Whether a journal's entry is an intermediate value of one of these trials. No public call removes one."""
    return entry.get("trial_id") in trial_ids and "intermediate_value" in entry
