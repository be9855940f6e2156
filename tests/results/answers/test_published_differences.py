"""Differences of a key's values stand beside those of a paper, with whether they agree."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from mtlib.tasks import TASKS
from results.answers.published_differences import (
    ColumnDifferences,
    Difference,
    PrintedScore,
    difference_of,
    find_differences,
    verdict_on,
)
from results.stats.effects.key_effects import ValueEffect
from results.stats.effects.sweep_effects import SweepEffects
from results.sweep import Sweep
from search_spaces.published import PublishedRow, PublishedTable, read_published
from tests.results.answers.test_answer import KEY, sweep_of, value


def table_of(sweep: Sweep, *rows: PublishedRow) -> PublishedTable:
    """The sweep's published table with other rows."""
    (table,) = read_published(sweep.info)
    return replace(table, rows=rows)


def row_of(weight: float, overall: float | None = None, **scores: float) -> PublishedRow:
    return PublishedRow(params={"smart.weight": weight}, scores=scores, overall=overall)


def find(sweep: Sweep, *rows: PublishedRow, **bases: Any) -> list[ColumnDifferences]:
    """The differences beside a table with these rows; bases by key, dots as two underscores."""
    asked = {key.replace("__", "."): base for key, base in bases.items()}
    effects = sweep.estimate_effects(asked)
    return find_differences(table_of(sweep, *rows), sweep.tasks, effects, sweep.estimate_effects)


def differences_beside(sweep: Sweep, overall: dict[float, float | None]) -> list[Difference]:
    """The overall differences beside a table with these overall scores, by weight; None is recomputed."""
    scores = {"sst": 0.5, "qqp": 0.8, "sts": 0.6}
    (found,) = find(sweep, *(row_of(weight, score, **scores) for weight, score in overall.items()))
    assert found.column.task == "overall"
    return list(found.differences)


@pytest.mark.parametrize(
    ("interval", "difference", "published", "expected"),
    [
        ((0.01, 0.03), 0.02, 0.05, "same sign"),
        ((0.01, 0.03), 0.02, -0.05, "opposite sign"),
        ((-0.03, -0.01), -0.02, -0.05, "same sign"),
        ((-0.03, -0.01), -0.02, 0.05, "opposite sign"),
        ((-0.03, -0.01), -0.02, 0.0, "no published difference"),
        ((0.01, 0.03), 0.02, 0.0, "no published difference"),
        ((-0.01, 0.03), 0.01, 0.05, "not decided here"),
        (None, 0.01, 0.05, "not decided here"),
    ],
)
def test_verdict(interval: tuple[float, float] | None, difference: float, published: float, expected: str) -> None:
    value = ValueEffect(value=1, num_trials=2, mean=0.7, difference=difference, error=None, interval=interval)
    assert verdict_on(value, published) == expected


def test_differences_are_of_the_values_that_were_trained_here(recorded_sweep: Sweep) -> None:
    found = differences_beside(recorded_sweep, {0.0: 0.7, 0.3: 0.75, 0.5: 0.8})
    (difference,) = found
    assert difference.value == 0.3
    assert difference.published == pytest.approx(0.05)


def test_table_without_overall_scores_is_beside_the_scores_of_its_tasks(recorded_sweep: Sweep) -> None:
    effects = recorded_sweep.estimated_effects
    qqp, sts = find(recorded_sweep, row_of(0.0, qqp=0.7, sts=0.3), row_of(0.3, qqp=0.9, sts=0.2), row_of(1.0, qqp=0.6))
    assert [(own.column.task, [difference.value for difference in own.differences]) for own in (qqp, sts)] == [
        ("qqp", [0.3, 1.0]),
        ("sts", [0.3]),
    ]
    assert [difference.published for difference in (*qqp.differences, *sts.differences)] == pytest.approx(
        [0.2, -0.1, -0.1]
    )
    of_sts = next(own for own in effects.columns["sts"].values["smart.weight"] if own.value == 0.3)
    (shown,) = sts.differences
    assert (shown.here, shown.interval) == (of_sts.difference, of_sts.interval)


def test_differences_are_from_a_value_of_the_table(recorded_sweep: Sweep) -> None:
    """The base value, or that which is asked for, where the table has it; else its first that was trained here."""
    usual = recorded_sweep.estimated_effects.columns["overall"].values["smart.weight"]
    between = {own.value: own.mean for own in usual}
    (found,) = find(recorded_sweep, row_of(0.5, 0.1), row_of(1.0, 0.7), row_of(0.3, 0.8))
    assert found.key.base == 1.0
    (difference,) = found.differences
    assert difference.value == 0.3
    assert difference.published == pytest.approx(0.1)
    assert difference.here == pytest.approx(between[0.3] - between[1.0])
    rows = [row_of(weight, 0.7) for weight in (1.0, 0.3, 0.0)]
    assert find(recorded_sweep, *rows)[0].key.base == 0.0
    assert find(recorded_sweep, *rows, smart__weight="0.3")[0].key.base == 0.3
    assert find(recorded_sweep, *rows[:2], smart__weight="0")[0].key.base == 1.0


def test_error_of_which_lower_is_better_is_shown_as_it_is_printed() -> None:
    tasks = {"sts": replace(TASKS["sts"], metric="rmse")}
    column = replace(sweep_of([value(0.0, None), value(1.0, 0.1)]).columns["overall"], task="sts", tasks=tasks)
    effect = replace(value(1.0, 0.1), interval=(0.05, 0.15))
    printed, base = (PrintedScore(score=-error, is_recomputed=False) for error in (0.5, 0.7))
    shown = difference_of(effect, column, printed, base)
    assert (shown.here, shown.interval) == (-0.1, (-0.15, -0.05))
    assert shown.published == pytest.approx(-0.2)
    assert shown.verdict == "same sign"


def test_difference_with_a_recomputed_score_is_marked(recorded_sweep: Sweep) -> None:
    found = differences_beside(recorded_sweep, {0.0: 0.75, 0.3: 0.76, 1.0: None})
    assert [difference.is_recomputed for difference in found] == [False, True]
    found = differences_beside(recorded_sweep, {0.0: None, 0.3: 0.76})
    assert [difference.is_recomputed for difference in found] == [True]


def test_key_that_varies_within_each_task_is_beside_its_table(recorded_sweep: Sweep) -> None:
    """Tasks trained alone: their names are another key, but each score has one key alone."""
    effects = recorded_sweep.estimated_effects
    other = replace(KEY, name="task", values=("sst", "qqp"))
    alone = replace(
        effects, keys=[other, *effects.keys], columns={task: effects.columns[task] for task in ("sst", "qqp")}
    )
    rows = [
        PublishedRow(params={"task": task, "smart.weight": weight}, scores={task: score})
        for task, own in {"sst": {0.0: 0.5, 0.3: 0.4}, "qqp": {0.0: 0.8, 0.3: 0.9}}.items()
        for weight, score in own.items()
    ]
    found = find_differences(table_of(recorded_sweep, *rows), TASKS, alone, estimate_as(alone))
    assert {own.column.task: [difference.published for difference in own.differences] for own in found} == {
        "sst": [pytest.approx(-0.1)],
        "qqp": [pytest.approx(0.1)],
    }


def test_reasons_why_nothing_is_beside_a_table(recorded_sweep: Sweep) -> None:
    effects = recorded_sweep.estimated_effects
    table, column = table_of(recorded_sweep, row_of(0.0, 0.7), row_of(0.3, 0.8)), effects.columns["overall"]

    def reason(**changes: Any) -> str:
        with pytest.raises(ValueError, match="differences") as error:
            find_differences(table, TASKS, replace(effects, **changes), estimate_as(effects))
        return str(error.value)

    first, second = effects.keys[0], replace(effects.keys[0], name="rate")
    both = replace(column, values={**column.values, "rate": column.values["smart.weight"]})
    listed = "published differences must be of a single searched key with two or more listed values, got"
    assert reason(columns={}) == "there are no differences here, as fewer than two finished configurations have a score"
    assert reason(keys=[first, second], columns={"overall": both}) == f"{listed} smart.weight, rate"
    assert reason(columns={"overall": replace(column, values={})}) == f"{listed} smart.weight"
    with pytest.raises(ValueError, match=r"^at least two of a published table's values must have been trained here"):
        find(recorded_sweep, row_of(0.0, 0.7), row_of(0.5, 0.8))


def test_rows_count_at_the_values_that_other_keys_have_here(recorded_sweep: Sweep) -> None:
    """A grid of two keys of which only one value of the first has been trained so far."""
    effects = recorded_sweep.estimated_effects
    column = replace(effects.columns["overall"], constants={"rate": 0.1})
    rate = replace(effects.keys[0], name="rate", values=(0.1, 0.2))
    grid = replace(effects, keys=[rate, *effects.keys], columns={"overall": column})
    rows = [
        PublishedRow(params={"rate": rate, "smart.weight": weight}, scores={}, overall=score)
        for (rate, weight), score in {(0.1, 0.0): 0.5, (0.1, 0.3): 0.6, (0.2, 0.0): 0.7, (0.2, 0.3): 0.3}.items()
    ]
    (found,) = find_differences(table_of(recorded_sweep, *rows), TASKS, grid, estimate_as(grid))
    assert [difference.published for difference in found.differences] == [pytest.approx(0.1)]
    without_rate = [replace(row, params={"smart.weight": row.params["smart.weight"]}) for row in rows[2:]]
    (found,) = find_differences(table_of(recorded_sweep, *without_rate), TASKS, grid, estimate_as(grid))
    assert [difference.published for difference in found.differences] == [pytest.approx(-0.4)]


def estimate_as(effects: SweepEffects) -> Any:
    """An estimate that is always the same."""

    def estimate(_bases: Mapping[str, Any]) -> SweepEffects:
        return effects

    return estimate
