"""Published tables: how they are read, and that tables and configurations of every space agree."""

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import pytest

from mtlib.config.schema import leaf_keys
from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from mtlib.runtime.checksum import hash_of
from mtlib.tasks import TASKS
from search_spaces.published import (
    Paper,
    PublishedRow,
    PublishedTable,
    published_table,
    read_published,
    recomputed_overall,
)
from search_spaces.space import describe_space, grid_configs, grid_trials, list_spaces, load_space
from tests.one_line_error import one_line_error

SPACES = {space.name: space for space in list_spaces()}
WITHOUT_TABLE = {"general_settings", "joint", "surgery"}
ROUNDING = 0.0005 + (0.0005 + 0.0005 + 0.0005 / 2) / 3
"""Farthest that a printed overall score can be from the one of the printed scores, all rounded to 3 digits."""


def printed_rows() -> Iterator[tuple[str, PublishedRow]]:
    """Every row of every space, with its place."""
    for space in SPACES.values():
        for table in space.published:
            yield from ((f"{space.name}, {table.paper}, {table.table}, {dict(row.params)}", row) for row in table.rows)


def test_printed_overall_scores_follow_from_the_scores_unless_there_is_a_slip() -> None:
    far = set()
    for place, row in printed_rows():
        overall = recomputed_overall(row, TASKS)
        if row.overall is not None and overall is not None and abs(row.overall - overall) > ROUNDING + 1e-9:
            far.add(place)
    assert far == {place for place, row in printed_rows() if "overall" in row.slip}
    assert len(far) == 3


@pytest.mark.parametrize("name", SPACES)
def test_every_published_row_is_about_a_configuration_of_the_grid(name: str) -> None:
    trials = grid_trials(SPACES[name])
    for table in SPACES[name].published:
        params = [json.dumps(dict(row.params)) for row in table.rows]
        assert len(set(params)) == len(params)
        for row in table.rows:
            assert trials.count(dict(row.params)) == 1
            assert row.scores
    assert bool(SPACES[name].published) == (name not in WITHOUT_TABLE), f"{name}: published, or in WITHOUT_TABLE"


def test_the_numbers_are_those_that_were_compared_with_the_papers() -> None:
    """A number that is changed must be compared with its paper again; the text of a row does not count."""
    numbers = [[place, row.scores, row.train_scores, row.overall, row.epoch] for place, row in printed_rows()]
    assert hash_of(numbers)[:16] == "0da5d05fcd2495fa"


def settings_of(config: TrialConfig) -> dict[str, Any]:
    """The settings that are not the default ones, by dotted key."""
    plain = TrialConfig(stages=tuple(StageConfig(tasks=stage.tasks) for stage in config.stages)).to_tree()
    defaults = {key: value_at(plain, key) for key in leaf_keys(plain)}
    own = {key: value_at(config.to_tree(), key) for key in leaf_keys(config.to_tree())}
    return {key: value for key, value in own.items() if key not in defaults or value != defaults[key]}


def value_at(tree: Any, key: str) -> Any:
    """The value of a dotted key in a tree of plain data."""
    for part in key.split("."):
        tree = tree[int(part)] if isinstance(tree, list) else tree[part]
    return tree


def test_the_configurations_are_those_that_were_compared_with_the_papers() -> None:
    """A setting that is changed must be compared with its paper again; new settings with a default do not count."""
    found = [
        [name, trial, settings_of(config), [stage.tasks for stage in config.stages]]
        for name, space in SPACES.items()
        if name not in WITHOUT_TABLE
        for trial, config in zip(grid_trials(space), grid_configs(space), strict=True)
    ]
    assert hash_of(found)[:16] == "506c53b1df14cd94"


PAPER = Paper(title="A paper", encoder="tiny", data="some rows")


def table_with(**changes: Any) -> PublishedTable:
    given: dict[str, Any] = {
        "training": "one epoch",
        "keys": ("smart.weight", "model"),
        "columns": ("sst", "train sst", "overall", "epoch"),
        "rows": ((0.0, "a", 0.5, 0.75, 0.625, 2), (1.0, "b", 0.25, None, None, None, "a misprint")),
    }
    return published_table(PAPER, "table 7", **{**given, **changes})


def test_a_table_is_read_as_it_is_printed() -> None:
    assert table_with(note="A note.") == PublishedTable(
        paper="A paper",
        table="table 7",
        encoder="tiny",
        data="some rows",
        training="one epoch",
        rows=(
            PublishedRow(
                params={"smart.weight": 0.0, "model": "a"},
                scores={"sst": 0.5},
                train_scores={"sst": 0.75},
                overall=0.625,
                epoch=2,
            ),
            PublishedRow(params={"smart.weight": 1.0, "model": "b"}, scores={"sst": 0.25}, slip="a misprint"),
        ),
        note="A note.",
    )


def test_scores_of_tasks_trained_alone_are_rows_of_their_own() -> None:
    table = table_with(
        keys=("layer",), columns=("sst", "qqp"), rows=(("0", 0.5, 0.75), ("1", None, 0.25)), task_key="task"
    )
    assert [(dict(row.params), dict(row.scores)) for row in table.rows] == [
        ({"task": "sst", "layer": "0"}, {"sst": 0.5}),
        ({"task": "qqp", "layer": "0"}, {"qqp": 0.75}),
        ({"task": "qqp", "layer": "1"}, {"qqp": 0.25}),
    ]


@pytest.mark.parametrize("cells", [(0.0, "a", 0.5, 0.75, 0.625), (0.0, "a", 0.5, 0.75, 0.625, 2, "slip", "more")])
def test_a_row_with_too_few_or_too_many_values_is_refused(cells: tuple[Any, ...]) -> None:
    line = one_line_error(table_with, rows=(cells,))
    assert line.startswith("a row of table 7 must have 6 values (smart.weight, model, sst, train sst, overall, epoch)")


@pytest.mark.parametrize("score", ["0.5", float("nan"), True])
def test_a_score_that_is_no_number_is_refused(score: Any) -> None:
    assert one_line_error(PublishedRow, params={}, scores={"sst": score}).startswith("the printed score of sst must be")
    assert "score of qqp" in one_line_error(PublishedRow, params={}, scores={}, train_scores={"qqp": score})
    assert one_line_error(PublishedRow, params={}, scores={}, overall=score).startswith("overall must be")


def test_a_table_without_rows_is_refused() -> None:
    assert one_line_error(table_with, rows=()) == "A paper, table 7 must have at least one row, got none"


def test_the_overall_score_is_recomputed_by_the_definition_of_the_project() -> None:
    row = PublishedRow(params={}, scores={"sst": 0.5, "qqp": 0.75, "sts": 0.5})
    assert recomputed_overall(row, TASKS) == (0.5 + 0.75 + 0.75) / 3
    assert recomputed_overall(row, {"sts": TASKS["sts"]}) is not None
    assert recomputed_overall(dataclasses.replace(row, scores={"sst": 0.5, "qqp": 0.75}), TASKS) is None
    assert recomputed_overall(dataclasses.replace(row, scores={}), TASKS) is None


def test_an_error_counts_the_less_the_larger_it_is() -> None:
    tasks = {"sts": dataclasses.replace(TASKS["sts"], metric="rmse")}
    low, high = (recomputed_overall(PublishedRow(params={}, scores={"sts": error}), tasks) for error in (1.0, 2.0))
    assert low is not None
    assert high is not None
    assert 0.0 < high < low < 1.0


@pytest.mark.parametrize("name", SPACES)
def test_tables_are_read_back_from_the_record_of_a_sweep(name: str) -> None:
    info = {"space": json.loads(json.dumps(describe_space(SPACES[name])))}
    assert read_published(info) == SPACES[name].published


@pytest.mark.parametrize("info", [{}, {"space": None}, {"space": {"name": "orders", "grid": []}}])
def test_a_sweep_of_an_earlier_version_has_no_tables(info: dict[str, Any]) -> None:
    assert read_published(info) == ()


def test_a_damaged_record_of_tables_is_refused_by_its_key() -> None:
    described = json.loads(json.dumps(describe_space(load_space("smart_lambda"))))
    described["published"][0]["rows"][1]["scores"]["sst"] = "high"
    line = one_line_error(read_published, {"space": described})
    assert line == "space.published.0.rows.1.scores.sst must be a number, got 'high'"
