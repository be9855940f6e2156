"""The overview names each sweep with its answer, scores and ensembles."""

from pathlib import Path

from results.figures.chart import Series
from results.page.overview import best_text, cost_of_all, expected_of_all, overview_blocks, sweeps_table
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


def test_costs_of_each_sweep_have_their_own_name_and_style(tmp_path: Path) -> None:
    marks = [mark for mark in cost_of_all(both(tmp_path)).panels[0].marks if isinstance(mark, Series)]
    assert [(mark.name, len(mark.x)) for mark in marks] == [("first", 6), ("other", 1)]
    assert marks[0].style != marks[1].style


def test_expected_scores_are_those_of_the_selections(tmp_path: Path) -> None:
    chart = expected_of_all(both(tmp_path))
    assert [panel.title for panel in chart.panels] == ["SST", "STS"]
    assert chart.frame[["task", "sweep", "expected_score", "low", "high"]].to_numpy().tolist() == [
        ["sst", "first", 0.55, 0.4, 0.6],
        ["sts", "first", 0.52, 0.4, 0.6],
    ]


def test_blocks_are_a_table_and_two_charts(tmp_path: Path) -> None:
    assert [block.name for block in overview_blocks(both(tmp_path))] == [  # type: ignore[union-attr]
        "sweeps",
        "cost-of-all",
        "expected-of-all",
    ]
