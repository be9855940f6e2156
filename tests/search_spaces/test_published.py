"""Published tables: how they are read, and that tables, docstrings and configurations of every space agree."""

import dataclasses
import importlib
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from mtlib.runtime.checksum import hash_of
from mtlib.tasks import TASKS, overall_score
from search_spaces.published import (
    Paper,
    PublishedRow,
    PublishedTable,
    published_table,
    read_published,
    recomputed_overall,
)
from search_spaces.space import describe_space, grid_trials, list_spaces, load_space
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


def cell(row: PublishedRow, column: str) -> float | None:
    """What a row has in a column of `published_table`, or the recomputed overall score."""
    columns: dict[str, float | None] = {**row.scores, "overall": row.overall}
    columns |= {f"train {name}": score for name, score in row.train_scores.items()}
    return recomputed_overall(row, TASKS) if column == "recomputed" else columns.get(column)


def cells(name: str, number: int, *columns: str, only: tuple[Any, ...] = ()) -> list[float]:
    """The numbers in a table of a space, row by row, where they are printed.

    Args:
        name: of the space.
        number: of the table, in the order of `published`.
        columns: by default the tasks and the overall score.
        only: the first searched values of some rows, in this order; empty: all rows.
    """
    rows = {next(iter(row.params.values())): row for row in SPACES[name].published[number].rows}
    chosen = [rows[value] for value in only] if only else SPACES[name].published[number].rows
    found = [cell(row, column) for row in chosen for column in columns or ("sst", "qqp", "sts", "overall")]
    return [value for value in found if value is not None]


def spread(values: list[float]) -> float:
    return max(values) - min(values)


def single_tasks_together() -> float:
    """The overall score of BERT and Beyond's three single-task models."""
    scores = {task: cells("baselines", 0, task, only=(f"single_{task}",))[0] for task in TASKS}
    return overall_score(scores, TASKS)


def orders_of_triple_threat() -> list[float]:
    """The overall scores of tables 1 and 8 by turns."""
    both = zip(cells("orders", 1, "overall"), cells("orders", 2, "overall"), strict=True)
    return [score for pair in both for score in pair]


CITED = {
    "baselines": [
        *cells("baselines", 0)[:7],
        single_tasks_together(),
        *cells("baselines", 0)[7:],
        *(number for table in (1, 2, 3) for number in cells("baselines", table)),
    ],
    "batch_sizes": cells("batch_sizes", 0, "overall"),
    "encodings": [number for table in range(3) for number in cells("encodings", table)],
    "hidden_units": [number for table in range(2) for number in cells("hidden_units", table, "overall")],
    "general_settings": [],
    "surgery": [],
    "joint": [
        spread(cells(name, 0, "overall")) for name in ("batch_sizes", "smart_lambda", "loss_weights", "layer_decay")
    ],
    "layer_decay": cells("layer_decay", 0, "overall"),
    "layer_scales": cells("layer_scales", 0, "overall"),
    "layers_alone": [number for task in TASKS for number in cells("layers_alone", 0, task)],
    "learning_rates": [
        *cells("learning_rates", 0),
        *cells("learning_rates", 0, "recomputed"),
        *cells("learning_rates", 1, "overall"),
        cells("learning_rates", 1, "recomputed")[0] - cells("learning_rates", 0, "recomputed", only=(1e-5,))[0],
    ],
    "long_runs": [*cells("long_runs", 0), spread(cells("long_runs", 0, "overall"))],
    "loss_weights": [
        *cells("loss_weights", 0, "overall"),
        spread(cells("loss_weights", 0, "overall")),
        *cells("loss_weights", 0, "sts", only=("0.1-1-0.1",)),
    ],
    "orders": [
        *cells("orders", 0, "overall", only=("sampled_round_robin",)),
        *cells("orders", 0, "recomputed", "overall", only=("max_size_cycle",)),
        *cells("orders", 0, "overall", only=("staggered",)),
        *orders_of_triple_threat(),
        *cells("orders", 3, "overall"),
    ],
    "pair_encodings_alone": [
        *cells("pair_encodings_alone", 0),
        *cells("pair_encodings_alone", 0, "qqp")[:1],
    ],
    "pals": [number for table in range(2) for number in cells("pals", table)],
    "pals_more_data": cells("pals_more_data", 0),
    "sentiment_losses": cells("sentiment_losses", 0),
    "single_task_smart": [
        *cells("single_task_smart", 0, "sst"),
        *cells("single_task_smart", 1, "sst"),
        *cells("single_task_smart", 0, "qqp"),
        *cells("single_task_smart", 0, "sts"),
    ],
    "smart_lambda": [
        *cells("smart_lambda", 0, "overall", only=(0.0, 0.45, 3.0)),
        *cells("smart_lambda", 0, "train sst", only=(0.0, 0.5, 0.45)),
    ],
    "synthetic_data": cells("synthetic_data", 0),
}
"""By space, the numbers in the paragraph `Expected:` of its docstring, in their order there."""


@pytest.mark.parametrize("name", SPACES)
def test_numbers_expected_in_a_docstring_are_those_of_its_tables(name: str) -> None:
    docstring = str(importlib.import_module(f"search_spaces.{name}").__doc__)
    expected = re.findall(r"^Expected:.*?(?=^\w+:)", docstring, re.MULTILINE | re.DOTALL)[0]
    found = re.findall(r"(?<!\d)\.\d{3}(?!\d)", expected)
    assert found == [three_digits(number) for number in CITED[name]]


def three_digits(number: float) -> str:
    """As docstrings have it: `.790`; half a thousandth is rounded up, as papers do."""
    return f"{number + 1e-9:.3f}".removeprefix("0")


def test_printed_overall_scores_follow_from_the_scores_unless_there_is_a_slip() -> None:
    far = set()
    for place, row in printed_rows():
        overall = recomputed_overall(row, TASKS)
        if row.overall is not None and overall is not None and abs(row.overall - overall) > ROUNDING + 1e-9:
            far.add(place)
    assert far == {place for place, row in printed_rows() if "overall" in row.slip}
    assert len(far) == 3


def test_the_similarity_that_a_slip_names_gives_the_printed_overall_score() -> None:
    row = next(row for place, row in printed_rows() if ".842" in row.slip)
    right = dataclasses.replace(row, scores={**row.scores, "sts": 0.842})
    assert recomputed_overall(right, TASKS) == pytest.approx(row.overall, abs=0.0005)


@pytest.mark.parametrize("name", SPACES)
def test_every_published_row_is_about_a_configuration_of_the_grid(name: str) -> None:
    trials = grid_trials(SPACES[name])
    for table in SPACES[name].published:
        for row in table.rows:
            assert trials.count(dict(row.params)) == 1
            assert row.scores
    assert bool(SPACES[name].published) == (name not in WITHOUT_TABLE), f"{name}: published, or in WITHOUT_TABLE"


def test_a_table_has_one_row_per_configuration() -> None:
    for space in SPACES.values():
        for table in space.published:
            params = [json.dumps(dict(row.params)) for row in table.rows]
            assert len(set(params)) == len(params)


def test_the_numbers_are_those_that_were_compared_with_the_papers() -> None:
    """A number that is changed must be compared with its paper again; the text of a row does not count."""
    numbers = [[place, row.scores, row.train_scores, row.overall, row.epoch] for place, row in printed_rows()]
    assert hash_of(numbers)[:16] == "0da5d05fcd2495fa"


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


def test_every_table_names_its_paper_and_what_differs() -> None:
    for space in SPACES.values():
        for table in space.published:
            assert re.fullmatch(r"table \d+", table.table)
            assert all((table.paper, table.encoder, table.data, table.training))
