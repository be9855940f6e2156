"""The sentences of the answer: not known, better, worse, not decided, ranges, interactions and power."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mtlib.tasks import TASKS
from results.answers.answer import answer_question, training_time
from results.answers.key_answer import MOST_WORTH
from results.records.trials import TrialRecord
from results.stats.interactions import Interaction
from results.stats.key_effects import ValueEffect
from results.stats.power import Precision
from results.stats.range_effect import RangeEffect
from results.stats.ranking import RankedConfiguration
from results.stats.searched_keys import SearchedKey
from results.stats.sweep_effects import ColumnEffects, SweepEffects
from search_spaces.presets import general
from tests.results.answers.test_ranking_table import compared, row_of

RESUME = "python sweeps/run.py --resume /sweeps/mine"
MakeRecord = Callable[..., TrialRecord]
KEY = SearchedKey(name="smart.weight", values=(0.0, 0.45, 1.0), own_base=0.0, base=0.0)
PRECISION = Precision(
    training_error=0.005,
    example_error=0.002,
    num_replicates=3,
    degrees_per_replicate=6,
    quantile_ratio=1.2,
    margin=0.009,
)


def value(value: float, difference: float | None, margin: float | None = 0.01) -> ValueEffect:
    interval = None if difference is None or margin is None else (difference - margin, difference + margin)
    return ValueEffect(value=value, num_trials=3, mean=0.7, difference=difference, error=None, interval=interval)


def sweep_of(effects: Sequence[ValueEffect], **changes: Any) -> SweepEffects:
    column = ColumnEffects(
        constants={},
        task="overall",
        tasks=TASKS,
        num_configurations=3,
        num_distinct=3,
        num_trials=9,
        num_replicates=(3, 3),
        is_known=True,
        values={KEY.name: effects},
        trends={},
        curves={},
        precisions={},
        interactions=(),
    )
    return SweepEffects(
        path="/sweeps/mine",
        question="How strongly?",
        metric="overall",
        search="grid",
        keys=[KEY],
        columns={"overall": replace(column, **changes)},
        left_out={},
    )


def lines_of(effects: SweepEffects, records: Sequence[TrialRecord] = ()) -> list[str]:
    question, *lines = answer_question(effects, records)
    assert question == "How strongly?"
    return lines


def test_one_replicate_names_what_trained_the_same() -> None:
    once = [value(0.0, None, None), replace(value(0.45, 0.0, None), is_same=True), value(1.0, 0.1, None)]
    (line,) = lines_of(sweep_of(once, is_known=False, num_trials=3, num_replicates=(1, 1)))
    assert line.startswith("smart.weight: 0.45 trained the same as 0. Not known: no configuration was trained twice.")
    alike = {"is_known": False, "num_trials": 3, "num_replicates": (1, 1), "num_distinct": 1}
    assert lines_of(sweep_of(once[:2], **alike)) == [
        "All 3 finished configurations trained the same: no effect was found."
    ]
    search = replace(sweep_of([], is_known=False, num_configurations=20, num_distinct=6), search="random")
    assert "20 finished configurations, of which 6 differ, are too few to fit the effect of" in lines_of(search)[0]


def test_two_replicates_of_two_values_give_no_forecast_but_a_command() -> None:
    few = {"num_configurations": 2, "num_distinct": 2, "num_trials": 4, "num_replicates": (2, 2)}
    (line,) = lines_of(sweep_of([value(0.0, None), value(0.45, 0.004)], precisions={KEY.name: None}, **few))
    assert "2 replicates of 2 configurations show little" in line
    assert line.endswith(f"8 more trials.\n  {RESUME} --replicates 6")


@pytest.mark.parametrize(
    "changes",
    [{"precisions": {KEY.name: None}, "num_replicates": (1, 2)}, {"is_known": False, "num_replicates": (1, 1)}],
    ids=["few replicates", "none"],
)
def test_a_difference_without_a_forecast_is_not_dropped(changes: Mapping[str, Any]) -> None:
    effects = sweep_of([value(0.0, None), value(0.45, 0.004)], **changes)
    first, sentence = answer_question(effects, (), 0.02)[1:]
    assert "a difference of 0.02" in sentence
    assert ("1 to 2 replicates of 3 configurations" in first) == (changes["num_replicates"] == (1, 2))


def test_one_replicate_is_not_known_and_its_remedy_has_a_cost(make_record: MakeRecord) -> None:
    records = [replace(make_record(number), wall_seconds=120.0) for number in range(3)]
    effects = sweep_of(
        [value(0.0, None, None), value(0.45, 0.01, None)], is_known=False, num_trials=3, num_replicates=(1, 1)
    )
    assert lines_of(effects, records) == [
        f"Not known: no configuration was trained twice. For an answer: "
        f"6 more trials, about 12 minutes of training.\n  {RESUME} --replicates 3"
    ]
    effects = sweep_of([value(0.0, None, None)], is_known=False, num_trials=4, num_replicates=(1, 2))
    assert lines_of(effects)[0].startswith("Not known: too few configurations were trained twice")


def test_small_search_is_not_known(make_record: MakeRecord) -> None:
    effects = replace(sweep_of([], is_known=False), search="tpe")
    records = [make_record(number, again) for number in range(3) for again in range(2)]
    assert lines_of(effects, records) == [
        "Not known: 3 finished configurations are too few to fit the effect of smart.weight. To double the number of "
        "configurations:\n"
        f"  {RESUME} --extend 3"
    ]


def test_of_many_keys_that_could_not_be_fitted_the_number_is_stated() -> None:
    keys = [replace(KEY, name=f"key{number}") for number in range(4)]
    line = lines_of(replace(sweep_of([], is_known=False), search="tpe", keys=keys))[0]
    assert "3 finished configurations are too few to fit the effect of 4 keys." in line


def test_early_scores_answer_where_final_ones_do_not() -> None:
    """Those of the trials that were pruned, too."""
    values = [value(0.0, None), value(0.45, 0.014)]
    known = replace(sweep_of(values, num_configurations=24, num_replicates=(1, 1)), search="tpe")
    early = (2, known)
    final = replace(sweep_of([], is_known=False), search="tpe")
    assert answer_question(final, (), early=early)[2:] == [
        "Effects on the scores after epoch 2, which all 24 configurations have (they favour configurations that learn "
        "fast):",
        "Take smart.weight 0.45: it is better than 0 by .014 overall (.004 to .024; 95 %; 1 replicate).",
    ]
    assert answer_question(known, (), early=early) == answer_question(known, ())
    assert answer_question(final, (), early=(2, final)) == answer_question(final, ())


BASE, OTHER = {"smart.weight": 0.0}, {"smart.weight": 0.45}
BEST = "he best configuration, 0003 (weight=0.45), is"


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        (
            [compared(3, 0.0, params=OTHER), compared(0, 0.004, params=BASE)],
            f"It is not decided whether t{BEST} better than the base configuration, 0000: it is +0.004 overall above "
            "it, and 0.010 would be significant.",
        ),
        (
            [compared(3, 0.0, params=OTHER), compared(0, 0.02, params=BASE)],
            f"T{BEST} better than the base configuration, 0000: it is +0.020 overall above it, and 0.010 would be "
            "significant.",
        ),
        (
            [compared(0, 0.0, params=BASE), compared(3, 0.004, params=OTHER)],
            "The base configuration, 0000, has the highest overall score: the search found nothing better.",
        ),
        (
            [compared(3, 0.0, None, params=OTHER), compared(0, 0.004, None, params=BASE)],
            f"T{BEST} +0.004 overall above the base configuration, 0000. Whether it is better is not known: no "
            "configuration was trained twice (--replicates 3 --replicate-best 8).",
        ),
        (
            [compared(3, 0.0, params=OTHER), row_of(0, params=BASE, was_dropped=True)],
            f"T{BEST} not compared with the base configuration, 0000, which has fewer trainings.",
        ),
        (
            [compared(3, 0.0, params=OTHER), compared(4, 0.3, params=OTHER)],
            f"T{BEST} not compared with the base configuration, 0000, of which no trial has finished.",
        ),
    ],
)
def test_best_configuration_of_a_search_is_compared_with_the_base(rows: list[RankedConfiguration], line: str) -> None:
    effects = replace(sweep_of([value(0.0, None), value(0.45, 0.014)]), search="tpe")
    assert answer_question(effects, (), ranked=rows, base_number=0)[2:] == [line]
    grid = replace(effects, search="grid")
    assert answer_question(grid, (), ranked=rows, base_number=0) == answer_question(grid, ())
    for silent in (replace(effects, metric="sst"), effects):
        base_number = 0 if silent.metric == "sst" else None
        assert answer_question(silent, (), ranked=rows, base_number=base_number) == answer_question(silent, ())


def test_best_configuration_of_an_open_search_is_the_best_so_far() -> None:
    effects = replace(sweep_of([value(0.0, None), value(0.45, 0.014)]), search="tpe", left_out={"running": 1})
    rows = [compared(3, 0.0, params=OTHER), compared(0, 0.02, params=BASE)]
    assert answer_question(effects, (), ranked=rows, base_number=0)[-1].startswith(
        "The best configuration so far, 0003"
    )
    unknown = replace(effects, columns={"overall": replace(effects.columns["overall"], is_known=False)})
    assert lines_of(unknown)[0].endswith("too few to fit the effect of smart.weight. Some trials have not ended.")


@pytest.mark.parametrize(
    ("search", "line"),
    [
        ("grid", "Nothing shows that the other 5, which were dropped after fewer trainings, are worse."),
        ("tpe", "Only trainings that all configurations have count above"),
    ],
)
def test_dropped_configurations_are_named(search: str, line: str) -> None:
    effects = sweep_of([value(0.0, None), value(0.45, 0.014)])
    lines = answer_question(replace(effects, search=search, num_dropped=5), ())
    assert line in lines[-1]


def test_sweep_without_comparable_scores_is_not_known_yet() -> None:
    effects = replace(sweep_of([]), columns={}, left_out={"running": 2, "failed": 1})
    assert lines_of(effects) == [
        "Not known yet: fewer than two finished configurations have a score.",
        "Trials left out: 2 running, 1 failed.",
    ]


def test_configurations_with_different_tasks_are_compared_task_by_task() -> None:
    one = sweep_of([value(0.0, None), value(0.45, 0.014)]).columns["overall"]
    columns = {task: replace(one, task=task) for task in ("sst", "sts")}
    columns["sts"] = replace(columns["sts"], is_known=False, num_replicates=(1, 1))
    effects = replace(sweep_of([]), columns=columns, has_different_tasks=True)
    assert lines_of(effects) == [
        "Configurations were trained on different tasks, so overall scores are not compared. The effects on each task:",
        "SST: Take smart.weight 0.45: it is better than 0 by .014 SST (.004 to .024; 95 %; 3 replicates).",
        "STS: not known: no configuration was trained twice.",
        "For an answer:\n  python sweeps/run.py --resume /sweeps/mine --replicates 3",
    ]
    assert lines_of(replace(effects, columns={"sst": columns["sst"]}))[-1].startswith("SST: ")
    of_sst = replace(effects, metric="sst")
    assert lines_of(of_sst)[0].startswith("Take smart.weight 0.45: "), "scores of one task are comparable"


def test_no_two_configurations_may_share_a_task() -> None:
    (line,) = lines_of(replace(sweep_of([]), columns={}, has_different_tasks=True))
    assert line.endswith("so overall scores are not compared, and no task has the scores of two.")


def curve_of(name: str, **changes: Any) -> RangeEffect:
    points = np.linspace(0, 1, 3)
    curve = RangeEffect(
        key=name,
        points=points,
        means=points,
        differences=points,
        errors=points,
        half_widths=points,
        optimum=0.5,
        optimum_interval=(0.2, 0.8),
        p_value=0.02,
        edge="",
        is_linear=False,
        num_configurations=24,
    )
    return replace(curve, **changes)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {},
            "smart.weight matters (p = 0.020, 24 configurations): best at 0.5 (95 %: 0.2 to 0.8). The fitted score is "
            "1.000 there and lowest, 0.000, at 0.",
        ),
        (
            {"p_value": 0.3},
            "smart.weight: no effect was found (p = 0.300, 24 configurations). The fitted score varies by "
            "1.000 over the range.",
        ),
        (
            {"edge": "low", "p_value": 0.0},
            "smart.weight matters (p < 0.001, 24 configurations): best at the low end of its",
        ),
    ],
)
def test_range_has_its_optimum_or_edge(changes: Mapping[str, Any], line: str) -> None:
    (found,) = lines_of(sweep_of([], values={}, curves={KEY.name: replace(curve_of(KEY.name), **changes)}))
    assert found.startswith(line)
    assert ("extend the range" in found) == ("edge" in changes)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {},
            "smart.weight matters (p = 0.020, 24 configurations): the fitted score rises over the range, from 0.000 at "
            "0 to 1.000 at 1; an optimum inside it would not show.",
        ),
        (
            {"p_value": 0.3},
            "smart.weight: no trend over the range was found (p = 0.300, 24 configurations); an optimum inside it "
            "would not show.",
        ),
    ],
)
def test_line_has_no_optimum(changes: Mapping[str, Any], line: str) -> None:
    curve = replace(curve_of(KEY.name), is_linear=True, edge="high", **changes)
    assert lines_of(sweep_of([], values={}, curves={KEY.name: curve})) == [line]


def test_range_that_ends_at_zero_cannot_be_extended() -> None:
    points = np.linspace(0, 1, 3)
    curve = curve_of(KEY.name)
    curve = replace(curve, points=points, means=-points, optimum=0.0, optimum_interval=(0.0, 0.2), edge="low")
    assert lines_of(sweep_of([], values={}, curves={KEY.name: curve})) == [
        "smart.weight matters (p = 0.020, 24 configurations): best at the low end of its range, 0 (95 %: 0 to 0.2). "
        "The fitted score is -0.000 there and lowest, -1.000, at 1."
    ]


def test_failed_trials_are_named_by_what_they_were_trained_with(make_record: MakeRecord) -> None:
    effects = replace(sweep_of([value(0.0, None)]), left_out={"failed": 2, "pruned": 1})
    records = [make_record(n, r, status) for n, r, status in ((0, 1, "failed"), (0, 2, "failed"), (1, 0, "pruned"))]
    line = "Trials left out: 2 failed (smart.weight 0), 1 pruned."
    assert lines_of(effects, records)[-1] == line
    many = [make_record(number, 0, "failed") for number in range(5)]
    assert "(smart.weight 0; smart.weight 0.5; smart.weight 1; and 2 more)" in lines_of(effects, many)[-1]


def test_failed_trials_of_many_keys_have_short_names(make_record: MakeRecord) -> None:
    failed = replace(make_record(0, 0, "failed"), params={f"key{number}": number for number in range(14)})
    effects = replace(sweep_of([value(0.0, None)]), left_out={"failed": 1})
    assert lines_of(effects, [failed])[-1].endswith("1 failed (key0 0, key1 1, key2 2, key3 3, key4 4 and 9 more).")
    assert lines_of(effects, [replace(failed, params={})])[-1].endswith(": 1 failed.")


def test_interaction_is_stated_where_it_is_significant() -> None:
    pairs = [Interaction(keys=("a", "b"), p_value=0.01), Interaction(keys=("a", "c"), p_value=0.2)]
    (line, *_) = lines_of(sweep_of([value(0.0, None), value(0.45, 0.004)], interactions=pairs))
    assert line.startswith("The effect of a depends on b (p = 0.010): ")


def test_few_replicates_that_would_decide_are_proposed_with_their_cost(make_record: MakeRecord) -> None:
    records = [replace(make_record(number), wall_seconds=600.0, best_epoch={}) for number in range(3)]
    precise = replace(PRECISION, example_error=0.0)
    effects = sweep_of([value(0.0, None), value(0.45, 0.004), value(1.0, -0.008)], precisions={KEY.name: precise})
    needed = precise.of_contrast(0.01).replicates_needed(0.008)
    assert needed is not None
    assert 3 < needed <= MOST_WORTH
    assert lines_of(effects, records)[0].endswith(
        f" {needed} replicates would tell whether 1 differs: {3 * (needed - 3)} more trials, "
        f"about {3 * (needed - 3) / 6:.1f} hours of training.\n  {RESUME} --replicates {needed}"
    )


@pytest.mark.parametrize(
    ("effects", "end"),
    [
        ([value(0.45, 0.004)], "(.004) is found with no number of replicates on a dev set of this size."),
        ([value(0.45, 0.0064)], "(.006) takes more than 10 replicates to find, which is not worth it."),
        ([value(0.45, 0.014), value(1.0, 0.008)], "Whether 1 differs from 0 is not decided."),
        ([value(0.45, -0.014), value(1.0, -0.02)], ".014 (.004 to .024)."),
    ],
)
def test_many_replicates_are_not_proposed(effects: Sequence[ValueEffect], end: str) -> None:
    (line,) = lines_of(sweep_of([value(0.0, None), *effects], precisions={KEY.name: PRECISION}))
    assert line.endswith(end)
    assert "--replicates" not in line


def test_training_stands_beside_the_answer(make_record: MakeRecord) -> None:
    config = general(TASKS).override({"tasks.sst.batch_size": 8}).to_json()
    records = [replace(make_record(n), config=config, epochs=3, steps=60, best_epoch={"overall": n}) for n in (3, 3, 1)]
    *_, line = lines_of(sweep_of([value(0.0, None), value(0.45, 0.014)]), records)
    assert line.startswith("Trained 60 steps in 3 epochs, batches of 8 (sst), ")
    assert "; base: smart.weight 0. 2 of 3 trials were still improving when they ended" in line
    same = [replace(record, config=general(TASKS).to_json(), best_epoch={"overall": 1}) for record in records]
    (size,) = {general(TASKS).tasks[name].batch_size for name in TASKS}
    *_, line = lines_of(sweep_of([value(0.0, None), value(0.45, 0.014)]), same)
    assert line == f"Trained 60 steps in 3 epochs, batches of {size}; base: smart.weight 0."


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (0.003, "A difference of 0.003 is found with no number of replicates, as dev is too small."),
        (0.5, "A difference of 0.5 is found with the present replicates."),
        (
            0.008,
            "A difference of 0.008 needs {} replicates: 30 more trials.\n  " + RESUME + " --replicates {}",
        ),
    ],
)
def test_replicates_are_stated_for_the_difference_that_is_asked_for(asked: float, sentence: str) -> None:
    effects = sweep_of([value(0.0, None), value(0.45, 0.014)], precisions={KEY.name: PRECISION})
    needed = PRECISION.replicates_needed(asked)
    (line,) = answer_question(effects, (), asked)[1:]
    assert sentence.format(needed, needed) in line


@pytest.mark.parametrize(("seconds", "text"), [(20.0, "1 minute"), (600.0, "20 minutes"), (7200.0, "4.0 hours")])
def test_training_time_has_a_fitting_unit(make_record: MakeRecord, seconds: float, text: str) -> None:
    assert training_time(2, [replace(make_record(0), wall_seconds=seconds)]) == f", about {text} of training"
    assert training_time(2, []) == ""
