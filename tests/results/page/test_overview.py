"""The overview names each sweep with its answer, scores and ensembles."""

from dataclasses import replace
from pathlib import Path

import plotly.graph_objects as go

from results.page.overview import best_text, overview_blocks, sweeps_table
from results.page.sections import PageInputs
from tests.results.page.recorded_sweep import shown_names, write_recorded_sweep
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
    assert first[2].startswith("Take smart.weight 0.3: ")
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


def test_expected_scores_are_of_the_sweeps_with_a_selection(tmp_path: Path) -> None:
    found = both(tmp_path)
    _, figure = overview_blocks(found)
    assert isinstance(figure, go.Figure)
    assert {name for trace in figure.data for name in trace.y} == {"first"}
    assert shown_names(overview_blocks([replace(inputs, selection=None) for inputs in found])) == ["sweeps"]
