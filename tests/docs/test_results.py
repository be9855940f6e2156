"""docs/results.md: its tables are the columns of the frames with their types and the figures, and its code runs."""

import ast
import inspect
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import pytest

from mtlib.metrics.table import METRICS
from mtlib.tasks import TASKS
from mtlib.training.clipping import CLIPPED_STEPS
from mtlib.training.epoch_report import STEPS, TOKENS, EpochReport, Point
from mtlib.training.gradient_norms import GRADIENT_NORM
from results.figures.sweep_plots import SweepPlots
from results.records.epochs import write_epoch
from results.records.tables import write_trials
from results.records.trials import OVERALL, write_sweep
from results.sweep import Sweep, load_sweep
from tests.method_tables import TERMS
from tests.results.conftest import build_record, build_report
from tests.scripts import ROOT

PAGE = (ROOT / "docs" / "results.md").read_text()
CODE = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
FRAMES: dict[str, Callable[[Sweep], pd.DataFrame]] = {
    "sweep.trials": lambda sweep: sweep.trials,
    "sweep.curves": lambda sweep: sweep.curves,
    "sweep.predictions(task, split)": lambda sweep: sweep.predictions("sst", "dev"),
    "sweep.ranking()": Sweep.ranking,
    "sweep.effects()": Sweep.effects,
}
ANY_TYPE = "of its values"
KEY, WEIGHTS = "smart.weight", (0.0, 0.5, 1.0)
PLACEHOLDERS = {
    "<task>": f"({'|'.join((*TASKS, OVERALL))})",
    "<score>": f"((?:{'|'.join(TASKS)})_(?:dev|train)|{OVERALL})",
    "<key>": re.escape(KEY),
}
TOKENS_OF_AN_EPOCH = {"sst": 300.0, "qqp": 500.0}


def with_tokens(report: EpochReport) -> EpochReport:
    """The report with the tokens of two tasks, as trained epochs have them."""
    place: dict[str, Any] = {"step": report.step, "epoch": report.epoch, "seconds": 2.0 * report.epoch}
    points = [
        Point(task=task, split="train", metric=TOKENS, value=value, **place)
        for task, value in TOKENS_OF_AN_EPOCH.items()
    ]
    return replace(report, points=(*report.points, *points))


def write_search(folder: Path, name: str) -> None:
    """A `sweep.json` that records what was searched."""
    space = {"question": "How strongly?", "metric": OVERALL, "grid": [[KEY, list(WEIGHTS)]], "ranges": []}
    write_sweep(folder, {"name": name, "space": space, "base": {"smart": {"weight": 0.0}}, "search": "grid"})


def write_results(folder: Path, name: str) -> None:
    """A finished grid with two replicates and two epochs."""
    write_search(folder, name)
    trials = [(number, replicate) for number in range(len(WEIGHTS)) for replicate in range(2)]
    records = [build_record(number, replicate, params={KEY: WEIGHTS[number]}) for number, replicate in trials]
    write_trials(folder, records, tuple(TASKS))
    for number, replicate in trials:
        for epoch in (1, 2):
            report = build_report(epoch, skill=0.3 * number + 0.2 * epoch, seed=10 * number + replicate)
            write_epoch(folder, f"{number:04d}-r{replicate}", with_tokens(report))


@pytest.fixture
def sweeps_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The sweeps of the page, where it looks for them."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("NAME", "OTHER"):
        write_results(tmp_path / "multitask-sweeps" / name, name)
    return tmp_path / "multitask-sweeps"


def documented_columns(title: str) -> list[tuple[str, str]]:
    """Columns and types in the table below a heading, in order."""
    _, _, section = PAGE.partition(f"\n## `{title}`\n")
    table = section.partition("| column | type | unit | meaning |\n")[2].partition("\n\n")[0]
    return [(name, kind.strip("`")) for name, kind in re.findall(r"^\| `(.+?)` \| (.+?) \|", table, re.MULTILINE)]


def documented_types(title: str, frame: pd.DataFrame) -> dict[str, str]:
    """The documented type of each column of a frame; checks that each has one, and each row of the table a column."""
    rows = documented_columns(title)
    found: dict[str, str] = {}
    places = []
    for column in map(str, frame):
        fitting = [place for place, (name, _) in enumerate(rows) if re.fullmatch(pattern_of(name), column)]
        assert len(fitting) == 1, f"{title}: {column} is documented {len(fitting)} times"
        places.append(fitting[0])
        found[column] = rows[fitting[0]][1]
    assert sorted(set(places)) == list(range(len(rows))), f"{title}: {[rows[n][0] for n in range(len(rows))]}"
    return found


def pattern_of(name: str) -> str:
    """A documented column with its placeholder as a regular expression."""
    found = re.escape(name)
    for placeholder, values in PLACEHOLDERS.items():
        found = found.replace(placeholder, values)
    return found


def actual_types(frame: pd.DataFrame, documented: dict[str, str]) -> dict[str, str]:
    """The types of a frame's columns, without those that depend on the searched values."""
    return {
        str(name): ANY_TYPE if documented[str(name)] == ANY_TYPE else str(kind) for name, kind in frame.dtypes.items()
    }


@pytest.mark.parametrize("title", FRAMES)
def test_documented_columns_and_types_are_those_of_the_frames(title: str, sweeps_folder: Path) -> None:
    frame = FRAMES[title](load_sweep(sweeps_folder / "NAME"))
    assert len(frame) > 0
    documented = documented_types(title, frame)
    assert actual_types(frame, documented) == documented


@pytest.mark.parametrize("title", [title for title in FRAMES if title != "sweep.ranking()"])
def test_types_are_the_same_where_nothing_has_been_scored(title: str, tmp_path: Path) -> None:
    write_search(tmp_path, "new")
    queued = build_record(
        0, status="queued", params={KEY: 0.0}, best={}, last={}, best_epoch={}, checkpoint=None, host=None
    )
    write_trials(tmp_path, [queued], tuple(TASKS))
    frame = FRAMES[title](load_sweep(tmp_path))
    documented = documented_types(title, frame)
    assert actual_types(frame, documented) == documented


def test_columns_of_a_configuration_without_a_score_have_the_documented_types(tmp_path: Path) -> None:
    write_results(tmp_path, "new")
    records = [build_record(number, params={KEY: WEIGHTS[number]}) for number in range(3)]
    write_trials(tmp_path, [*records, build_record(7, status="failed", params={KEY: 9.0})], tuple(TASKS))
    frame = load_sweep(tmp_path).ranking()
    documented = documented_types("sweep.ranking()", frame)
    assert actual_types(frame, documented) == documented
    assert frame["best_epoch"].isna().tolist() == [False, False, False, True]


def test_every_metric_of_the_curves_is_documented(sweeps_folder: Path) -> None:
    table = PAGE.partition("| metric | split | meaning |\n")[2].partition("\n\n")[0]
    rows = [(names, splits) for names, splits in re.findall(r"^\| (`.+?) \| (.+?) \|", table, re.MULTILINE)]
    documented = {name: set(splits.split(", ")) for names, splits in rows for name in re.findall(r"`(\w+)`", names)}
    assert set(documented) <= {*TERMS, *METRICS, TOKENS, STEPS, GRADIENT_NORM, CLIPPED_STEPS, "loss_weight", OVERALL}
    curves = load_sweep(sweeps_folder / "NAME").curves
    for metric, split in set(zip(curves["metric"], curves["split"], strict=True)):
        assert split in documented[metric]


def test_every_figure_is_listed_with_its_arguments() -> None:
    _, _, section = PAGE.partition("\n## Figures\n")
    table = section.partition("| method | shows |\n")[2].partition("\n\n")[0]
    found = {name: inspect.signature(method) for name, method in inspect.getmembers(SweepPlots, inspect.isfunction)}
    figures = {name: own for name, own in found.items() if own.return_annotation == "go.Figure"}
    public = {name for name in found if not name.startswith("_")}
    assert public - set(figures) == {"predicted", "dev_scores", "require_score"}
    expected = {f"{name}({', '.join(list(own.parameters)[1:])})" for name, own in figures.items()}
    listed = re.findall(r"^\| `(.+?)` \| .+ \|$", table, re.MULTILINE)
    assert sorted(listed) == sorted(expected)


def test_code_runs_and_gives_the_tables_that_it_promises(sweeps_folder: Path) -> None:
    names: dict[str, Any] = {}
    values: list[Any] = []
    for block in CODE:
        for statement in ast.parse(block).body:
            if isinstance(statement, ast.Expr):
                values.append(eval(compile(ast.Expression(statement.value), "results.md", "eval"), names))
            else:
                exec(compile(ast.Module([statement], []), "results.md", "exec"), names)
    table, effects, *figures, speed = values
    assert [type(figure) for figure in figures] == [go.Figure] * 2
    columns = ["sst_train", "sst_dev", "qqp_dev", "sts_dev", "overall", "best_epoch"]
    assert (list(table.index), list(table)) == (list(WEIGHTS), columns)
    ranking = load_sweep(sweeps_folder / "NAME").ranking().set_index(KEY)[columns].sort_index()
    pd.testing.assert_frame_equal(table, ranking.round(3), check_names=False)
    assert effects["mean"].round(3)["overall"].tolist() == table["overall"].tolist()
    assert effects["difference", "sst"][1.0] == pytest.approx(effects["mean", "sst"][1.0] - effects["mean", "sst"][0.0])
    assert set(speed) == {sum(TOKENS_OF_AN_EPOCH.values()) / 2}, "two seconds an epoch"
    assert len(speed) == 2 * 2 * len(WEIGHTS)
