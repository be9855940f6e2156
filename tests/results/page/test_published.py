"""Published rows stand beside the configurations with the same values."""

from dataclasses import replace

import pytest

from mtlib.tasks import TASKS
from results.answers.ranking_table import epoch_cell
from results.page.content import Text, TextTable, unfolded
from results.page.published import (
    column_title,
    comparison_table,
    data_text,
    published_blocks,
    slip_of,
    training_text,
)
from results.page.sections import sweep_sections
from results.page.write import inputs_of
from results.stats.texts import error_text
from results.sweep import Sweep
from search_spaces.published import PublishedRow, read_published
from search_spaces.space import describe_space
from tests.results.page.recorded_sweep import SPACE


def test_rows_are_matched_by_their_values(recorded_sweep: Sweep) -> None:
    table, own = table_of(recorded_sweep), recorded_sweep.ranking().set_index("smart.weight")["overall"]
    shown = {float(row[0].split()[0]): row[table.columns.index("overall here")].partition(" ")[0] for row in table.rows}
    assert {weight: cell for weight, cell in shown.items() if cell} == {key: f"{own[key]:.3f}" for key in own.index}
    assert len(own) == 3


def table_of(sweep: Sweep) -> TextTable:
    """The table of scores."""
    return next(block for block in published_blocks(sweep) if isinstance(block, TextTable))


@pytest.mark.parametrize(
    ("column", "title", "printed"), [(("sst", "dev"), "SST", "0.533"), (("sst", "train"), "SST train", "0.852")]
)
def test_table_has_printed_and_own_scores(
    column: tuple[str, str], title: str, printed: str, recorded_sweep: Sweep
) -> None:
    table = table_of(recorded_sweep)
    assert table.title == "BERT and Beyond, table 6"
    cells = {row[0].split(" ")[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    score = next(row for row in recorded_sweep.ranked if row.number == 1).scores[column]
    assert score.replicate_error is not None
    assert cells["0.3"][f"{title} published"] == printed
    assert cells["0.3"][f"{title} here"] == f"{score.value:.3f} {error_text(score.replicate_error)}"
    assert cells["0.5"][f"{title} here"] == ""
    assert "QQP train published" not in table.columns
    assert table.caption.startswith("Dev and train scores;")
    assert "[1] equals the row 8-16-8 of table 5" in table.caption


def test_overall_score_that_is_not_that_of_its_columns_is_marked() -> None:
    scores = {"sst": 0.5, "qqp": 0.8, "sts": 0.8}
    right = (0.5 + 0.8 + 0.9) / 3  # .73333
    row = PublishedRow(params={}, scores=scores, overall=round(right, 3))
    assert slip_of(row, TASKS) == ""
    wrong = replace(row, overall=0.735)
    assert slip_of(wrong, TASKS) == "the printed overall score is 0.735, that of its columns 0.733"
    assert slip_of(replace(wrong, slip="known."), TASKS) == "known"
    assert slip_of(replace(row, overall=None), TASKS) == ""


def test_recomputed_overall_score_is_marked_everywhere(recorded_sweep: Sweep) -> None:
    (table,) = read_published(recorded_sweep.info)
    without = replace(table, rows=tuple(replace(row, overall=None) for row in table.rows[:1]) + table.rows[1:])
    shown = comparison_table(recorded_sweep, without)
    cells = [row[shown.columns.index("overall published")] for row in shown.rows]
    assert cells[0].endswith(" (recomputed)")
    assert not any("recomputed" in cell for cell in cells[1:])
    assert "recomputed" in shown.caption
    assert "recomputed" not in comparison_table(recorded_sweep, table).caption


@pytest.mark.parametrize("epoch", [7, None])
def test_published_epochs_have_a_column_where_some_are_printed(epoch: int | None, recorded_sweep: Sweep) -> None:
    (table,) = read_published(recorded_sweep.info)
    rows = [replace(row, epoch=epoch if number == 1 else None) for number, row in enumerate(table.rows)]
    shown = comparison_table(recorded_sweep, replace(table, rows=tuple(rows)))
    cells = [dict(zip(shown.columns, row, strict=True)) for row in shown.rows]
    assert cells[1]["epoch here"] == epoch_cell(next(row for row in recorded_sweep.ranked if row.number == 1))
    assert [row.get("epoch published") for row in cells[:2]] == ([None, None] if epoch is None else ["", "7"])


def test_direction_of_an_error_is_in_its_title() -> None:
    tasks = {**TASKS, "sts": replace(TASKS["sts"], metric="rmse")}
    assert column_title(("sts", "dev"), tasks) == "STS, lower is better,"
    assert column_title(("sts", "train"), TASKS) == "STS train"


def test_table_whose_configurations_have_no_scores_here_is_one_sentence(recorded_sweep: Sweep) -> None:
    (table,) = read_published(recorded_sweep.info)
    unscored = replace(recorded_sweep, curves=recorded_sweep.curves[:0])
    (block,) = published_blocks(unscored)
    assert isinstance(block, Text)
    assert block.paragraphs == [f"None of the configurations of {table.paper}, {table.table}, was trained here."]
    assert not any(isinstance(block, Text) for block in published_blocks(recorded_sweep))


def test_what_differs_names_data_and_training_of_both(recorded_sweep: Sweep) -> None:
    *_, table = [block for block in unfolded(published_blocks(recorded_sweep)) if isinstance(block, TextTable)]
    assert [row[0] for row in table.rows] == ["encoder", "data", "training"]
    assert table.rows[0][1:] == ["BERT-base", "tiny"]
    assert data_text(recorded_sweep.info) == "the generated demonstration corpus: 8,544 sst train rows"
    given = {**recorded_sweep.info, "options": {"data": "/data"}}
    assert data_text(given).startswith("/data: 8,544 sst")
    assert training_text(recorded_sweep).startswith("30 steps in 2 epochs, rate 2e-05, batches of 16-16-16")
    assert training_text(replace(recorded_sweep, records=())) == "no trial has ended an epoch yet"
    queued = tuple(replace(record, steps=0) for record in recorded_sweep.records)
    assert training_text(replace(recorded_sweep, records=queued)) == "no trial has ended an epoch yet"


def test_question_without_published_table_has_no_section(recorded_sweep: Sweep) -> None:
    space = {**describe_space(SPACE), "published": []}
    sweep = replace(recorded_sweep, info={**recorded_sweep.info, "space": space})
    assert list(published_blocks(sweep)) == []
    assert "published" not in [section.name for section in sweep_sections(inputs_of(sweep))]
