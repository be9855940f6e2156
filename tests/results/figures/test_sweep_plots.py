"""Each method of `sweep.plot` returns a figure of a real sweep's records; what it cannot draw is one line."""

import inspect
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from mtlib.tasks import TASKS
from mtlib.training.epoch_report import EpochReport, Point
from results.figures.sweep_plots import SweepPlots
from results.page.write import build_page, inputs_of
from results.records.epochs import write_epoch
from results.records.selection import write_selection
from results.records.tables import write_trials
from results.records.trials import TrialRecord, write_sweep
from results.sweep import Sweep, load_sweep
from tests.one_line_error import one_line_error
from tests.results.conftest import build_record, build_report
from tests.results.records.test_selection import build_selection, build_task

KEYS: dict[str, list[Any]] = {"smart.weight": [0.0, 0.5, 1.0], "smart.mode": ["paper", "other", "third"]}
ARGUMENTS: dict[str, list[dict[str, Any]]] = {
    "effects": [{"key": key} for key in KEYS],
    "scores": [{"key": key} for key in KEYS],
    "curves": [{}, {"task": "sst"}, {"task": "overall"}],
    "losses": [{}, {"task": "sts"}],
    "predictions": [{"task": task, "trial": trial} for task in TASKS for trial in (None, "0001-r0")],
    "reliability": [{"task": task} for task in ("sst", "qqp")],
    "classes": [{"task": task} for task in ("sst", "qqp")],
}
"""Of the methods that take some."""
METHODS = [
    name for name, method in inspect.getmembers(SweepPlots, inspect.isfunction) if method.__doc__ and name[0] != "_"
]
NEEDS_SELECTION = ("methods",)
NOT_OF_ANY_SWEEP = ("predicted", "dev_scores", "require_score")
FIGURES = [
    (name, arguments) for name in METHODS if name not in NOT_OF_ANY_SWEEP for arguments in ARGUMENTS.get(name, [{}])
]


def write_search(folder: Path, records: list[TrialRecord], ranges: Any = ()) -> Path:
    grid = [[key, values] for key, values in KEYS.items() if key not in dict(ranges)]
    space = {"question": "How strongly?", "metric": "overall", "grid": grid, "ranges": list(ranges)}
    base = {"smart": {"weight": 0.0, "mode": "paper"}}
    search = "random" if ranges else "grid"
    write_sweep(folder, {"name": "mine", "space": space, "base": base, "search": search, "scheduler": "asha"})
    write_trials(folder, records, tuple(TASKS))
    return folder


def with_training(report: EpochReport) -> EpochReport:
    """The report with what training records besides losses."""
    place: dict[str, Any] = {"step": report.step, "epoch": report.epoch, "split": "train", "seconds": report.seconds}
    values = {"tokens": 1000.0, "gradient_norm": 2.0, "smart": 0.5}
    own = [Point(task=task, metric=name, value=value, **place) for task in TASKS for name, value in values.items()]
    return replace(report, points=(*report.points, *own))


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    """Nine configurations of two keys, all finished."""
    folder, records = tmp_path_factory.mktemp("sweeps") / "mine", []
    for number in range(9):
        params = {key: values[number // 3 ** (place) % 3] for place, (key, values) in enumerate(KEYS.items())}
        record = build_record(number, params=params)
        for epoch in (1, 2):
            report = with_training(build_report(epoch, skill=0.1 + 0.2 * number + 0.1 * epoch, seed=number))
            write_epoch(folder, record.trial_id, report)
        assert report.overall is not None
        records.append(replace(record, best={**record.best, "overall": report.overall}))
    write_search(folder, records)
    write_selection(folder, build_selection(tasks={"sst": build_task()}))
    return load_sweep(folder)


@pytest.fixture
def unscored(tmp_path: Path) -> Sweep:
    """A sweep whose only trial has not begun."""
    record = build_record(0, status="queued", best={}, last={}, best_epoch={}, epochs=0, device_seconds=0.0)
    return load_sweep(write_search(tmp_path, [replace(record, params={"smart.weight": 0.0, "smart.mode": "paper"})]))


@pytest.mark.parametrize(("name", "arguments"), FIGURES)
def test_each_method_returns_a_figure(name: str, arguments: dict[str, Any], sweep: Sweep) -> None:
    figure = getattr(sweep.plot, name)(**arguments)
    assert isinstance(figure, go.Figure)
    assert sum(len(trace.x) for trace in figure.data) > 0
    assert figure.layout.title.text


@pytest.mark.parametrize(("name", "arguments"), FIGURES)
def test_sweep_without_scores_is_one_line(name: str, arguments: dict[str, Any], unscored: Sweep) -> None:
    line = one_line_error(getattr(unscored.plot, name), **arguments)
    assert line.endswith("got none" if name in NEEDS_SELECTION else ("got no data yet", "got none yet"))


@pytest.mark.parametrize(
    ("name", "arguments", "line"),
    [
        ("effects", {"key": "smart.weigth"}, "unknown searched key 'smart.weigth'; did you mean 'smart.weight'?"),
        ("scores", {}, "the searched key must be named where there are several, got smart.mode, smart.weight"),
        ("curves", {"task": "ssst"}, "unknown task 'ssst'; did you mean 'sst'?"),
        ("reliability", {"task": "qpq"}, "unknown task 'qpq'; did you mean 'qqp'?"),
        ("predictions", {"task": "qqp", "trial": "0001-r1"}, "unknown trial '0001-r1'; did you mean '0001-r0'?"),
        ("predictions", {"task": "sst", "trial": 3}, "a trial must be named by a text such as '0003-r0', got int"),
        ("reliability", {"task": "sts"}, "reliability must be of a task with classes, got sts, a regression"),
        ("losses", {"task": "overall"}, "Losses: there must be something to draw, got no data yet"),
    ],
)
def test_wrong_names_are_one_line_with_the_nearest_right_one(
    name: str, arguments: dict[str, Any], line: str, sweep: Sweep
) -> None:
    assert one_line_error(getattr(sweep.plot, name), **arguments).startswith(line)


def test_differences_of_a_range_are_refused_and_its_scores_are_shown(sweep: Sweep) -> None:
    ranges = [["smart.weight", {"Float": {"low": 0.0, "high": 1.0, "log": False}}]]
    space = {"question": "?", "metric": "overall", "grid": [], "ranges": ranges}
    plots = replace(sweep, info={**sweep.info, "space": space, "search": "random"}).plot
    line = "differences must be of a key with listed values (`scores` shows one with a range), got smart.weight"
    assert one_line_error(plots.effects) == line
    assert plots.scores().layout.xaxis.type == "linear"
    nothing = replace(sweep, info={**sweep.info, "space": {**space, "ranges": []}}).plot
    assert one_line_error(nothing.effects) == "there must be a searched key, got none"


@pytest.mark.parametrize("task", TASKS)
def test_predictions_are_those_of_the_best_trial_at_its_best_epoch(task: str, sweep: Sweep) -> None:
    scores = sweep.scores.values[task, "dev"]
    best = max(scores, key=lambda trial: scores[trial])
    model = sweep.plot.predicted(task)
    frame = sweep.predictions(task, "dev", trial=best, epoch=sweep.scores.epochs[best])
    logits = np.stack(frame["logits"].tolist())
    read: Callable[[Any], Any] = {
        "sst": lambda own: own.argmax(axis=1),
        "qqp": lambda own: own[:, 0] > 0,
        "sts": lambda own: np.clip(own[:, 0], 0, 5),
    }[task]
    assert model.name == f"best single model, {best} at epoch {sweep.scores.epochs[best]}"
    assert list(model.ids) == frame["id"].tolist()
    np.testing.assert_array_equal(model.labels, frame["label"])
    np.testing.assert_allclose(model.predictions, read(logits))
    assert (model.probs is None) == (task == "sts")
    if model.probs is not None:
        np.testing.assert_allclose(model.probs.sum(axis=1), 1, atol=1e-6)
        np.testing.assert_array_equal(model.probs.argmax(axis=1), model.predictions)
    assert sweep.plot.predicted(task, "0003-r0").name.startswith("0003-r0 at epoch ")


def test_curves_of_one_task_are_its_panel_alone(sweep: Sweep) -> None:
    titles = {
        task: [note.text for note in sweep.plot.curves(task).layout.annotations] for task in (None, "qqp", "overall")
    }
    assert titles == {
        None: ["overall", "SST, accuracy", "QQP, accuracy", "STS, Pearson's correlation"],
        "qqp": ["QQP, accuracy"],
        "overall": ["overall"],
    }
    assert [note.text for note in sweep.plot.losses("sts").layout.annotations] == ["STS"]


def test_every_figure_of_a_page_is_a_method(sweep: Sweep) -> None:
    shown = {figure.layout.meta["name"] for figure in build_page(inputs_of(sweep)).figures}
    assert len(shown) > 10
    figures = [getattr(sweep.plot, name)(**arguments) for name, arguments in FIGURES]
    known = {figure.layout.meta["name"] for figure in figures}
    assert {name.replace("answer-", "effects-") for name in shown} <= known
