"""The overview names each sweep with its answer, scores and ensembles."""

from dataclasses import replace
from pathlib import Path

from results.figures.chart import Chart
from results.page.overview import best_text, overview_blocks, sweeps_table
from results.page.sections import PageInputs
from tests.results.page.recorded_sweep import write_recorded_sweep
from tests.results.records.test_selection import build_selection


def both(tmp_path: Path) -> list[PageInputs]:
    first = write_recorded_sweep(tmp_path / "first")
    second = write_recorded_sweep(tmp_path / "second", weights=(0.3,), num_replicates=1)
    return [
        PageInputs(sweep=first, selection=build_selection()),
        PageInputs(sweep=second, selection=None, name="other"),
    ]


def test_table_has_a_row_for_each_sweep(tmp_path: Path) -> None:
    found = both(tmp_path)
    first, second = sweeps_table(found).rows
    assert first[0] == "first"
    assert first[1] == "How strongly should SMART count, when it is on SST and QQP only?"
    assert first[2].startswith("smart.weight")
    assert first[3:] == ["6 of 6", best_text(found[0].sweep)]
    assert second[0] == "other"
    assert second[2].startswith("Not known yet")


def test_best_score_is_the_highest_of_the_same_tasks(tmp_path: Path) -> None:
    sweep = both(tmp_path)[0].sweep
    ranked = sweep.ranked
    swapped = replace(sweep)
    swapped.__dict__["ranked"] = [*ranked[1:], ranked[0]]  # replicates that are missing may change the order
    assert best_text(swapped) == best_text(sweep) == f"{ranked[0].scores['overall', 'dev'].value:.3f} (2 replicates)"


def test_sweep_without_an_answer_keeps_its_question(tmp_path: Path) -> None:
    found = both(tmp_path)[0]
    info = {name: value for name, value in found.sweep.info.items() if name != "base"}
    (row,) = sweeps_table([replace(found, sweep=replace(found.sweep, info=info))]).rows
    assert row[1] == "How strongly should SMART count, when it is on SST and QQP only?"
    assert row[2].startswith("The question has no answer: sweep.json must record")


def test_blocks_are_a_table_and_two_charts(tmp_path: Path) -> None:
    assert [block.name for block in overview_blocks(both(tmp_path))] == [  # type: ignore[union-attr]
        "sweeps",
        "cost",
        "expected-scores",
    ]


def test_charts_are_of_all_sweeps(tmp_path: Path) -> None:
    _, cost, expected = overview_blocks(both(tmp_path))
    assert isinstance(cost, Chart)
    assert isinstance(expected, Chart)
    assert cost.frame.groupby("sweep").size().to_dict() == {"first": 6, "other": 1}
    assert set(expected.frame["sweep"]) == {"first"}, "the other has no selection"


def test_charts_without_anything_to_show_are_left_out(tmp_path: Path) -> None:
    unselected = [replace(inputs, selection=None) for inputs in both(tmp_path)]
    assert [block.name for block in overview_blocks(unselected)] == ["sweeps", "cost"]  # type: ignore[union-attr]
    unscored = [
        replace(inputs, sweep=replace(inputs.sweep, records=tuple(replace(r, best={}) for r in inputs.sweep.records)))
        for inputs in unselected
    ]
    assert [block.name for block in overview_blocks(unscored)] == ["sweeps"]  # type: ignore[union-attr]
