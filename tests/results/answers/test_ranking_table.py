"""The table fits 100 columns for any search, and its legend states what can be concluded."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from mtlib.tasks import TASKS, Task
from results.answers.ranking_table import MAX_ROWS, render_ranking
from results.stats.ranking import RankedConfiguration, Score
from results.stats.texts import short_numbers, value_text, value_texts
from results.stats.trial_scores import TOTAL, Column

COLUMNS: Sequence[Column] = (("sst", "dev"), ("sst", "train"), ("qqp", "dev"), ("sts", "dev"), TOTAL)


def row_of(number: int = 0, replicate_error: float | None = None, **changes: Any) -> RankedConfiguration:
    score = Score(value=0.54, example_error=0.0151, replicate_error=replicate_error)
    row = RankedConfiguration(
        number=number,
        params={"smart.weight": 0.45},
        status="complete",
        is_finished=True,
        trials=(f"{number:04d}-r0",),
        scores=dict.fromkeys(COLUMNS, score),
        best_epoch=5.0,
        failures=(),
    )
    return replace(row, **changes)


def compared(number: int, below_best: float, margin: float | None = 0.01, **changes: Any) -> RankedConfiguration:
    """A row that was compared with the best one."""
    decided_at = 3 if margin is not None and below_best > margin else None
    return row_of(number, below_best=below_best, margin=margin, decided_at=decided_at, **changes)


def text_of(rows: Sequence[RankedConfiguration], width: int = 100, tasks: Mapping[str, Task] = TASKS) -> str:
    return "\n".join(render_ranking(rows, tasks, width)) + "\n"


def test_undrawn_key_is_blank_and_none_is_a_value() -> None:
    rows = [
        row_of(0, params={"smart.mode": "paper", "smart.epsilon": 0.25}),
        row_of(1, params={"smart.mode": "random"}),
        row_of(2, params={"smart.mode": "unit_norm", "smart.epsilon": None}),
    ]
    cells = [[cell.strip() for cell in line.split("  ") if cell.strip()][:2] for line in text_of(rows).splitlines()]
    assert ["paper", "0.25"] in cells
    assert ["random", "0.540 ±.015"] in cells
    assert ["unit_norm", "none"] in cells


def test_many_keys_have_short_names() -> None:
    params = {"tasks.sst.loss": "soft", "optimizer.learning_rate": 1.23456e-4, "optimizer.layer_decay": 0.95}
    line = "0000  loss=soft, learning_rate=0.000123456, layer_decay=0.95  0.540 "
    assert line in text_of([row_of(params=params)], 150)


def test_of_many_rows_the_first_are_shown() -> None:
    rows = [compared(number, number / 1000, params={"smart.weight": number}) for number in range(MAX_ROWS + 3)]
    text = text_of(rows)
    assert text.count("0.540") == len(COLUMNS) * MAX_ROWS
    assert "Not shown: 3 further rows; --csv prints all.\n" in text
    assert f"The first row is the best of {MAX_ROWS + 3}," in text
    assert "Not shown" not in text_of(rows[:MAX_ROWS])


def assert_fits(text: str) -> None:
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 100
    assert "…" not in text


@pytest.mark.parametrize(
    "params",
    [
        {"smart.weight": 0.45},
        {"optimizer.learning_rate": 1.234e-5, "tasks.sst.batch_size": 16},
        {f"tasks.{name}.{key}": 16 for name in ("sst", "qqp", "sts") for key in ("batch_size", "loss_weight")},
        {"encoder.name": "sentence-transformers/a-very-long-name-of-an-encoder-that-somebody-has-published"},
        {},
    ],
)
@pytest.mark.parametrize(("replicate_error", "status"), [(None, "complete"), (0.004, "complete 2, interrupted 1")])
def test_table_fits_100_columns(params: Mapping[str, Any], replicate_error: float | None, status: str) -> None:
    errors: dict[str, Any] = {"replicate_error": replicate_error, "margin": replicate_error, "below_best": 0.0}
    failures = ("0000-r0: " + "word " * 60,)
    rows = [row_of(number, params=params, status=status, failures=failures, **errors) for number in range(2)]
    text = text_of(rows)
    assert_fits(text)
    assert text.count("0.540") == text.count("±.015") == 2 * len(COLUMNS)
    assert text.count("±.004") == (0 if replicate_error is None else 2 * len(COLUMNS))
    assert text.count("word") == 120
    assert ("over replicates" in text) == (replicate_error is not None)
    assert "".join(text.split()).count("interrupted") == (2 if "interrupted" in status else 0)


def test_ranking_without_rows_or_scores_is_stated() -> None:
    assert "No trials yet." in text_of([])
    assert "No configuration has an overall score yet." in text_of([row_of(scores={}, status="queued")])


def test_metrics_of_all_tasks_are_named() -> None:
    assert "Metrics: SST accuracy; QQP accuracy; STS Pearson's correlation." in text_of([row_of()])
    tasks = {**TASKS, "sst": replace(TASKS["sst"], metric="macro_f1"), "sts": replace(TASKS["sts"], metric="rmse")}
    assert "Metrics: SST macro F1; QQP accuracy; STS RMSE, lower is better." in text_of([row_of()], tasks=tasks)
    assert "-0.540" in text_of([row_of()], tasks=tasks)  # the score of an RMSE is its negative
    assert "Metrics:" not in text_of([], tasks=tasks)


def test_configurations_that_may_be_the_best_are_marked() -> None:
    text = text_of([compared(0, 0.0), compared(1, 0.01), compared(2, 0.0101)])
    assert text.count("0.540*") == 2
    assert "* may be the best: no other row is shown to be above it, with the variance of training" in text
    assert "*" not in text_of([row_of()])


def test_rows_that_an_earlier_look_distinguished_are_mentioned() -> None:
    trials = tuple(f"0000-r{replicate}" for replicate in range(9))
    rows = [compared(0, 0.0, trials=trials), compared(1, 0.002, trials=trials)]
    assert "already" not in text_of(rows)
    earlier = replace(rows[1], decided_at=3)
    assert "Some rows were shown not to be the best after 3 replicates already." in text_of([rows[0], earlier])


def test_dropped_rows_keep_the_mark() -> None:
    dropped = [row_of(number, was_dropped=True) for number in range(2, MAX_ROWS + 3)]
    text = text_of([compared(0, 0.0), compared(1, 0.02), *dropped])
    assert text.count("0.540*") == MAX_ROWS - 1, "the second row does not keep it"
    text = " ".join(text.split())
    assert f"{MAX_ROWS + 1} configurations scored lower at first, or were stopped, and so were not trained" in text
    assert f"The first row is the best of {MAX_ROWS + 3}" in text


def test_without_replicates_every_row_is_marked() -> None:
    text = text_of([compared(number, number / 10, None) for number in range(3)])
    assert text.count("0.540*") == 3
    assert "* may be the best: every row, as no configuration was trained twice (--replicates 3)." in text
    twice = compared(1, 0.1, None, trials=("0001-r0", "0001-r1"))
    assert "every row, as too few configurations were trained twice" in text_of([compared(0, 0.0, None), twice])


def test_legend_states_where_overall_scores_are_of_different_tasks() -> None:
    single = Score(value=0.9, example_error=0.01, replicate_error=None)
    alone = {("sst", "dev"): single, TOTAL: single}
    rows = [compared(0, 0.0), compared(1, 0.002), row_of(2, scores=alone)]
    text = " ".join(text_of(rows).split())
    assert "overall is a mean over a row's own: compare it only among rows with the same tasks" in text
    assert "* may be the best of the same tasks: no other row is shown to be above it" in text
    assert "The first row is the best of 2, picked" in text
    text = " ".join(text_of(rows[:2]).split())
    assert "trained on different tasks" not in text
    assert "* may be the best: no other row" in text


def test_status_is_shown_where_some_trial_has_not_completed() -> None:
    assert "status" not in text_of([row_of()])
    text = text_of([row_of(), row_of(1, status="pruned", is_finished=False)])
    assert "status" in text
    assert "come last, with their best scores so far, and are not compared" in " ".join(text.split())
    assert "so far" not in text_of([row_of(), row_of(1, status="complete 2, failed 1")])
    assert "so far" not in text_of([row_of(), row_of(1, status="reused 1, running 1")]), (
        "the running one does not count"
    )
    assert "pruned" in text


def test_row_without_scores_has_dashes() -> None:
    rows = [row_of(), row_of(1, scores={}, best_epoch=None, status="running")]
    cells = text_of(rows).splitlines()[3].split()
    assert cells == ["0.45", *"-" * 6, "running"]


def test_failed_trials_are_listed_with_the_first_line_of_their_error() -> None:
    row = row_of(1, scores={}, best_epoch=None, status="failed", failures=("0001-r0: [Errno 28] No space\ntraceback",))
    text = text_of([row_of(), row])
    assert "failed 0001-r0: [Errno 28] No space" in text
    assert "traceback" not in text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2e-5, "2e-5"),
        (0.3, "0.3"),
        (0.9990001, "0.9990001"),
        (1.0, "1"),
        (1.2345678912345678e-4, "0.000123457"),  # drawn
        (16, "16"),
        ([32, 16, 32], "32-16-32"),
        (True, "true"),
        (None, "none"),
        ("a", "a"),
    ],
)
def test_searched_values_are_as_typed_and_drawn_ones_short(value: Any, text: str) -> None:
    assert value_text(value) == text


@pytest.mark.parametrize("values", [[0.999, 0.9990001], [0.1 + 0.2, 0.3], [None, "none"], [(1, 2), "1-2"]])
def test_different_values_are_shown_differing_in_any_width(values: list[Any]) -> None:
    shown = value_texts(values)
    assert len(set(shown)) == len(values)
    rows = [row_of(number, params={"optimizer.learning_rate": value}) for number, value in enumerate(values)]
    for width in (40, 100):
        assert all(value in text_of(rows, width) for value in shown)


def test_numbers_of_a_narrow_range_differ() -> None:
    assert short_numbers([0.999, 0.99901, 0.9991]) == ["0.999", "0.99901", "0.9991"]
    assert short_numbers([1e-5, 3.16227766e-5, 1e-4]) == ["1e-5", "3.16e-5", "0.0001"]
    assert short_numbers([2.0, 2.0]) == ["2", "2"]
