"""Sweeps without files, made of records and points of curves."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from results.health.finding import Finding
from results.records.schemas import CURVES
from results.records.trials import TrialRecord
from results.sweep import Sweep
from tests.results.conftest import build_record

BASE = TrialConfig(stages=(StageConfig(tasks=("sst", "qqp", "sts")),))
COLUMNS = ["trial", "epoch", "task", "split", "metric", "value"]


def sweep_of(records: Sequence[TrialRecord] = (), rows: Sequence[Any] = (), **changes: Any) -> Sweep:
    """A sweep with these points: trial, epoch, task, split, metric, value."""
    curves: pd.DataFrame = CURVES.empty_table().to_pandas()
    given = pd.DataFrame(rows, columns=COLUMNS)
    info = {"name": "mine", "space": {"metric": "overall"}}
    values: dict[str, Any] = {"path": Path("/none"), "info": info, "trials": pd.DataFrame()}
    return Sweep(**{**values, "curves": pd.concat([curves, given]), "records": tuple(records), **changes})


def records(*changes: Mapping[str, Any]) -> list[TrialRecord]:
    """A trial for each change of the base configuration."""
    return [build_record(number, config=BASE.override(change).to_json()) for number, change in enumerate(changes)]


def only(findings: Iterable[Finding]) -> Finding:
    """The only finding."""
    (found,) = findings
    return found
