"""A sweep of the space `smart_lambda` with replicates, as a real one records it, with simulated predictions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import plotly.graph_objects as go

from mtlib.config.schema import to_dict
from mtlib.tasks import TASKS, score_of
from mtlib.training.epoch_report import EpochReport, Point
from results.page.content import Block, TextTable, unfolded
from results.records.epochs import write_epoch
from results.records.tables import write_trials
from results.records.trials import OVERALL, TrialRecord, write_sweep
from results.sweep import Sweep, load_sweep
from search_spaces.space import describe_space, load_space, trial_config
from tests.results.conftest import build_record, build_report
from tests.results.selection.scored_sweep import keep_weights

SPACE = load_space("smart_lambda")
WEIGHTS = (0.0, 0.3, 1.0)
SKILLS = {0.0: 0.4, 0.3: 1.2, 1.0: 0.7}
"""How closely the predictions of each weight follow the labels."""


def sweep_info(name: str, **changes: Any) -> dict[str, Any]:
    """The content of `sweep.json`."""
    return {
        "name": name,
        "created": "2024-05-01T09:00:00+00:00",
        "command": f"python sweeps/run.py --space smart_lambda --name {name}",
        "options": {"data": None},
        "space": describe_space(SPACE),
        "base": to_dict(SPACE.base.override({"precision": "fp32"})),
        "search": "grid",
        "seed": 0,
        "num_workers": 1,
        "cpus_per_worker": 1,
        "gpus_per_worker": 0.0,
        "data": {"folder": "/data", "tables": {"sst-train": "abc" * 20}, "rows": {"sst-train": 8544}},
        "encoder": {"name": "tiny", "fingerprint": "def" * 20},
        "git": {"revision": "0123abc", "is_changed": True},
        "python": "3.11",
        "packages": {"torch": "2.13.0"},
        "hardware": {"processor": "EPYC", "num_cpus": 2, "memory_bytes": 2**34, "gpus": []},
        **changes,
    }


def recorded(number: int, weight: float, replicate: int, **changes: Any) -> TrialRecord:
    """A trial of the space."""
    params = {"smart.weight": weight}
    config = trial_config(SPACE, params).override({"seed": replicate})
    return build_record(number, replicate, params=params, config=config.to_json(), **changes)


def with_terms(report: EpochReport, terms: Mapping[tuple[str, str], float]) -> EpochReport:
    """A report with further points of train, by task and metric."""
    first = report.points[0]
    more = [
        replace(first, task=task, split="train", metric=metric, value=value) for (task, metric), value in terms.items()
    ]
    return replace(report, points=(*report.points, *more))


def best_of(reports: Sequence[EpochReport]) -> dict[str, Any]:
    """The fields of a record that follow from its epochs."""
    points = [point for report in reports for point in report.points if point.split == "dev" and is_score(point)]
    scored = [(point.task, score_of(point.task, point.value, TASKS), point.epoch) for point in points]
    names = dict.fromkeys(point.task for point in points)
    highest = {name: max((found for found in scored if found[0] == name), key=lambda found: found[1]) for name in names}
    return {
        "best": {name: score for name, score, _ in highest.values()},
        "best_epoch": {name: epoch for name, _, epoch in highest.values()},
        "epochs": len(reports),
    }


def is_score(point: Point) -> bool:
    """Whether a point is of a task's main metric, or overall."""
    return point.metric == (OVERALL if point.task == OVERALL else TASKS[point.task].metric)


def write_recorded_sweep(
    folder: Path,
    *,
    weights: Sequence[float] = WEIGHTS,
    num_replicates: int = 2,
    num_epochs: int = 2,
    terms: Mapping[tuple[str, str], float] | None = None,
    **of_info: Any,
) -> Sweep:
    """Writes the sweep, all of whose trials are complete, and reads it.

    Args:
        folder: of the sweep.
        weights: of SMART, one for each configuration.
        num_replicates: of each.
        num_epochs: of each trial.
        terms: further points of train in each epoch.
        of_info: changes of `sweep.json`.
    """
    write_sweep(folder, sweep_info(folder.name, **of_info))
    records = []
    for number, weight in enumerate(weights):
        for replicate in range(num_replicates):
            seed = 10 * number + replicate
            skill = SKILLS.get(weight, 0.5)
            reports = [
                with_terms(build_report(epoch, skill=skill + 0.3 * epoch, seed=seed), terms or {})
                for epoch in range(1, num_epochs + 1)
            ]
            records.append(recorded(number, weight, replicate, **best_of(reports)))
            for report in reports:
                write_epoch(folder, records[-1].trial_id, report)
            keep_weights(folder, records[-1].trial_id, overall=num_epochs)
    write_trials(folder, records, tuple(TASKS))
    return load_sweep(folder)


def with_records(folder: Path, records: Sequence[TrialRecord]) -> Sweep:
    """The sweep with other records of its trials."""
    write_trials(folder, records, tuple(TASKS))
    return load_sweep(folder)


def shown_names(blocks: Iterable[Block], kinds: Any = (go.Figure, TextTable)) -> list[str]:
    """The names of the figures, and the titles of the tables, of a section."""
    shown = [block for block in unfolded(blocks) if isinstance(block, kinds)]
    return [block.title if isinstance(block, TextTable) else block.layout.meta["name"] for block in shown]


def figure_named(name: str, blocks: Iterable[Block]) -> go.Figure:
    """The figure of this name."""
    return next(b for b in unfolded(blocks) if isinstance(b, go.Figure) and b.layout.meta["name"] == name)
