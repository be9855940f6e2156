"""The report of scores on held-out rows."""

from dataclasses import replace

import pytest

from results.records.selection import (
    HeldOutScores,
)
from results.selection.report import (
    render_held_out_scores,
)
from tests.results.selection.test_report import WIDEST, build_score, build_selection, build_task

SCORES = HeldOutScores(
    time="2024-05-02T10:00:00.000+00:00",
    scores={"sst": 0.5, "qqp": 0.75},
    intervals={"sst": (0.412, 0.588), "qqp": (0.7, 0.8)},
    num_examples={"sst": 120, "qqp": 28_000},
)


def test_evaluation_shows_scores_and_expected_scores() -> None:
    automatic = build_score("auto", cross_fitted=0.541)
    lines = render_held_out_scores(build_selection(build_task(automatic=automatic), build_task()), SCORES, 0)
    rows = [" ".join(line.split()) for line in lines]
    assert rows[0] == "task examples held out 95 % interval expected on dev"
    assert rows[2:4] == [
        "SST 120 0.500 0.412 to 0.588 0.541 0.560",
        "QQP 28,000 0.750 0.700 to 0.800 0.550 0.560",
    ]


@pytest.mark.parametrize(
    ("number", "start"),
    [
        (0, "No trial has used these rows, and nothing was chosen by them. They are train rows"),
        (1, "These rows have been scored once before. If anything was chosen by that, they are no longer unseen."),
        (2, "These rows have been scored 2 times before. If anything"),
    ],
)
def test_only_the_first_evaluation_is_called_unseen(number: int, start: str) -> None:
    selection = build_selection(build_task(), build_task())
    lines = render_held_out_scores(selection, SCORES, number)
    text = " ".join(lines[lines.index("") :]).strip()
    assert text.startswith(start)
    assert text.endswith("They are train rows: dev may differ in kind.")


def test_task_without_an_evaluation_has_no_row() -> None:
    one = replace(SCORES, scores={"qqp": 0.75})
    lines = render_held_out_scores(build_selection(build_task(), build_task()), one, 0)
    assert [line.split()[0] for line in lines[2 : lines.index("")]] == ["QQP"]


@pytest.mark.parametrize("number", [0, 1, 12_345])
def test_no_line_of_held_out_scores_is_longer_than_100_columns(number: int) -> None:
    wide = HeldOutScores(
        time="", scores={"sts": -0.9}, intervals={"sts": (-0.95, -0.85)}, num_examples={"sts": 1_234_567}
    )
    selection = build_selection(build_task(), build_task(), build_task())
    for scores in (SCORES, wide):
        assert max(map(len, (render_held_out_scores(selection, scores, number)))) <= WIDEST
