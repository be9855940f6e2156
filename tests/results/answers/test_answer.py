"""What a sweep's answer says: what is not known and why, what to run next, what was left out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mtlib.config.trial import TrialConfig
from mtlib.tasks import TASKS
from results.answers.answer import answer_question, training_time
from results.records.race import DECIDED, LAST_ROUND, SHOWN_CLAIM, UNDECIDABLE, ClaimEstimate, RaceRecord, RoundDecision
from results.records.trials import TrialRecord
from results.stats.effects.interactions import Interaction
from results.stats.effects.key_effects import ValueEffect
from results.stats.effects.qualitative_interactions import QualitativeInteraction
from results.stats.effects.range_effect import RangeEffect
from results.stats.effects.searched_keys import SearchedKey
from results.stats.effects.sweep_effects import ColumnEffects, SweepEffects
from results.stats.groups import drawn_groups
from results.stats.ranking import RankedConfiguration
from search_spaces.claim import read_claim
from search_spaces.presets import bert_and_beyond, general
from tests.results.answers.test_ranking_table import compared, row_of
from tests.results.stats.test_power import precision

RESUME = "python sweeps/run.py --resume /sweeps/mine"
MakeRecord = Callable[..., TrialRecord]
PRECISION = precision(0.005, 0.0, (0.45, 1.0))
KEY = SearchedKey(name="smart.weight", values=(0.0, 0.45, 1.0), own_base=0.0, base=0.0)


def value(value: float, difference: float | None, margin: float | None = 0.01) -> ValueEffect:
    interval = None if difference is None or margin is None else (difference - margin, difference + margin)
    return ValueEffect(value=value, num_trials=3, mean=0.7, difference=difference, error=None, interval=interval)


def sweep_of(effects: Sequence[ValueEffect], **changes: Any) -> SweepEffects:
    column = ColumnEffects(
        task="overall",
        tasks=TASKS,
        num_configurations=3,
        num_distinct=3,
        num_trials=9,
        num_replicates=(3, 3),
        is_known=True,
        values={KEY.name: effects},
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
    question, *lines = answer_question(effects, records).paragraphs
    assert question == "How strongly?"
    return lines


def test_configurations_with_the_same_values_are_an_answer_too() -> None:
    (line,) = answer_question(sweep_of([], values={}), ()).found
    assert line.startswith("Nothing is compared: ")


def test_trials_of_an_incomplete_round_are_mentioned() -> None:
    effects = replace(sweep_of([value(0.0, None), value(1.0, 0.004)]), num_early=5)
    assert lines_of(effects)[-1] == "5 finished trials count once all configurations have as many replicates."
    ended = RaceRecord(decisions=(RoundDecision(num_rounds=4, open=(1,), end=DECIDED),))
    unread = replace(effects, num_early=1, race=ended)
    assert lines_of(unread)[-1] == "1 finished trial does not count: it began before the race had ended."
    alone = sweep_of([value(0.0, None), value(1.0, None)], is_known=False, num_replicates=(1, 1))
    (line, _) = lines_of(replace(alone, num_early=2))
    assert line.startswith("Not known: not all configurations were trained twice yet. For an answer: ")


def test_difference_that_an_earlier_look_decided_says_so() -> None:
    better = replace(value(1.0, 0.02), decided_at=3)
    assert (
        "(.010 to .030; 95 %; 9 replicates, decided after 3)"
        in lines_of(sweep_of([value(0.0, None), better], num_replicates=(9, 9)))[0]
    )
    assert "decided" not in lines_of(sweep_of([value(0.0, None), better]))[0]


def curve_of(**changes: Any) -> RangeEffect:
    points = np.linspace(0, 1, 3)
    curve = RangeEffect(
        points=points,
        means=points,
        differences=points,
        errors=points,
        half_widths=points,
        optimum=0.5,
        optimum_interval=(0.2, 0.8),
        p_value=0.02,
        edge="",
        degrees=20.0,
        is_linear=False,
    )
    return replace(curve, **changes)


def test_one_replicate_is_not_known_and_its_remedy_has_a_cost(make_record: MakeRecord) -> None:
    records = [replace(make_record(number), wall_seconds=120.0) for number in range(3)]
    values = [value(0.0, None, None), replace(value(0.45, 0.0, None), is_same=True), value(1.0, 0.1, None)]
    effects = sweep_of(values, is_known=False, num_trials=3, num_replicates=(1, 1))
    assert lines_of(effects, records)[0] == (
        "smart.weight: 0.45 trained the same as 0. Not known: no configuration was trained twice. For an answer: "
        f"6 more trials, about 12 minutes of training.\n  {RESUME} --replicates 3"
    )
    assert lines_of(replace(effects, left_out={"queued": 3}))[0].endswith("Some trials have not ended.")
    alike = sweep_of(values[:2], is_known=False, num_trials=3, num_replicates=(1, 1), num_distinct=1)
    assert lines_of(alike) == ["All 3 finished configurations trained the same: no effect was found."]
    few = sweep_of(values, is_known=False, num_trials=4, num_replicates=(1, 2))
    assert "too few configurations were trained twice" in lines_of(few)[0]


def test_two_replicates_of_two_values_give_no_forecast_but_a_command() -> None:
    few = {"num_configurations": 2, "num_distinct": 2, "num_trials": 4, "num_replicates": (2, 2)}
    _, line = lines_of(sweep_of([value(0.0, None), value(0.45, 0.004)], precisions={KEY.name: None}, **few))
    assert line.startswith("With 2 replicates of 2 configurations")
    assert line.endswith(f"8 more trials.\n  {RESUME} --replicates 6")


@pytest.mark.parametrize(
    "changes",
    [{"precisions": {KEY.name: None}, "num_replicates": (1, 2)}, {"is_known": False, "num_replicates": (1, 1)}],
    ids=["few replicates", "none"],
)
def test_a_difference_without_a_forecast_is_not_dropped(changes: Mapping[str, Any]) -> None:
    effects = sweep_of([value(0.0, None), value(0.45, 0.004)], **changes)
    assert "a difference of 0.02 cannot be said" in answer_question(effects, (), 0.02).paragraphs[-1]
    search = replace(effects, search="tpe")
    assert "--difference is for grids" in answer_question(search, (), 0.02).paragraphs[-1]


def test_replicates_that_decide_are_proposed_with_their_cost(make_record: MakeRecord) -> None:
    every = [(number, replicate) for number in range(3) for replicate in range(3)]
    records = [replace(make_record(*one), wall_seconds=1200.0, best_epoch={}) for one in every]
    effects = sweep_of([value(0.0, None), value(0.45, -0.008)], precisions={KEY.name: PRECISION})
    line = lines_of(effects, records)[1]
    needed = PRECISION.replicates_needed(0.008)
    assert needed is not None
    cost = f"{3 * needed - 9} more trials, about {(3 * needed - 9) / 3:.1f} hours of training."
    assert line.endswith(
        f"{needed} replicates would tell whether 0.45 differs from 0: {cost}\n  {RESUME} --replicates {needed}"
    )


def test_a_search_that_is_too_small_is_to_be_extended(make_record: MakeRecord) -> None:
    effects = replace(sweep_of([], is_known=False, num_configurations=20, num_distinct=6), search="tpe")
    records = [make_record(number, again) for number in range(3) for again in range(2)]
    line = lines_of(effects, records)[0]
    assert "20 finished configurations, of which 6 differ, are too few to fit the effect of smart.weight." in line
    assert line.endswith(f"\n  {RESUME} --extend 3")
    many = replace(effects, keys=[replace(KEY, name=f"key{number}") for number in range(4)])
    assert "the effect of 4 keys." in lines_of(many)[0]
    assert lines_of(replace(effects, left_out={"running": 1}))[0].endswith("Some trials have not ended.")


BASE, OTHER = {"smart.weight": 0.0}, {"smart.weight": 0.45}


@pytest.mark.parametrize(
    ("rows", "parts"),
    [
        ([compared(3, 0.0, params=OTHER), compared(0, 0.004, params=BASE)], ["not decided whether", "+0.004", "0.010"]),
        ([compared(3, 0.0, params=OTHER), compared(0, 0.02, params=BASE)], ["found a better one", "+0.020", "0.010"]),
        (
            [compared(0, 0.0, params=BASE), compared(3, 0.004, params=OTHER)],
            ["0000", "the search found nothing better"],
        ),
        (
            [compared(3, 0.0, None, params=OTHER), compared(0, 0.004, None, params=BASE)],
            ["+0.004", "is not known", "--replicates 3 --replicate-best 8"],
        ),
        (  # an eliminated base is not compared again, and one that was decided earlier has a wider margin now
            [compared(3, 0.0, None, params=OTHER), replace(compared(0, 0.02, None, params=BASE), decided_at=2)],
            ["found a better one", "is +0.020 overall above it."],
        ),
        (
            [compared(3, 0.0, params=OTHER), replace(compared(0, 0.004, params=BASE), decided_at=2)],
            ["found a better one", "is +0.004 overall above it."],
        ),
        ([compared(3, 0.0, params=OTHER), row_of(0, params=BASE, was_dropped=True)], ["which has fewer trainings"]),
        ([compared(3, 0.0, params=OTHER), compared(4, 0.3, params=OTHER)], ["of which no trial has finished"]),
    ],
)
def test_best_configuration_of_a_search_is_compared_with_the_base(
    rows: list[RankedConfiguration], parts: list[str]
) -> None:
    effects = replace(sweep_of([value(0.0, None), value(0.45, 0.014)]), search="tpe")
    (line,) = answer_question(effects, (), ranked=rows, base_number=0).paragraphs[2:]
    assert [part for part in parts if part not in line] == [], line
    for silent in (replace(effects, search="grid"), replace(effects, metric="sst")):
        assert (
            answer_question(silent, (), ranked=rows, base_number=0).paragraphs == answer_question(silent, ()).paragraphs
        )
    so_far = answer_question(replace(effects, left_out={"running": 1}), (), ranked=rows, base_number=0).paragraphs[2]
    assert " so far" in so_far
    assert "the base configuration was not trained" in answer_question(effects, (), ranked=rows).paragraphs[2]


@pytest.mark.parametrize(
    ("search", "line"),
    [
        ("grid", "Nothing shows that the other 5, which were dropped after fewer trainings, are worse."),
        ("tpe", "Only trainings that all configurations have count above"),
    ],
)
def test_dropped_configurations_are_counted(search: str, line: str) -> None:
    effects = sweep_of([value(0.0, None), value(0.45, 0.014)])
    assert line in answer_question(replace(effects, search=search, num_dropped=5), ()).paragraphs[-1]


def test_sweep_without_comparable_scores_is_not_known_yet() -> None:
    effects = replace(sweep_of([]), columns={}, left_out={"running": 2, "failed": 1})
    assert lines_of(effects) == [
        "Not known yet: fewer than two finished configurations have a score.",
        "Trials left out: 2 running, 1 failed.",
    ]
    (line,) = lines_of(replace(sweep_of([]), columns={}, has_different_tasks=True))
    assert line.endswith("so overall scores are not compared, and no task has the scores of two.")


def test_configurations_with_different_tasks_are_compared_task_by_task() -> None:
    one = sweep_of([value(0.0, None), value(0.45, 0.014)]).columns["overall"]
    columns = {task: replace(one, task=task) for task in ("sst", "sts")}
    columns["sts"] = replace(columns["sts"], is_known=False, num_replicates=(1, 1))
    effects = replace(sweep_of([]), columns=columns, has_different_tasks=True)
    reason, sst, sts, command = lines_of(effects)
    assert "different tasks" in reason
    assert sst.startswith("SST: Take smart.weight 0.45")
    assert sts == "STS: not known: no configuration was trained twice."
    assert command.endswith(f"{RESUME} --replicates 3")
    of_sst = replace(effects, metric="sst")
    assert lines_of(of_sst)[0].startswith("Take smart.weight 0.45: "), "scores of one task are comparable"


def test_failed_trials_are_named_by_what_they_were_trained_with(make_record: MakeRecord) -> None:
    effects = replace(sweep_of([value(0.0, None)]), left_out={"failed": 2, "pruned": 1})
    records = [make_record(n, r, status) for n, r, status in ((0, 1, "failed"), (0, 2, "failed"), (1, 0, "pruned"))]
    assert lines_of(effects, records)[-1] == "Trials left out: 2 failed (smart.weight 0), 1 pruned."
    many = [make_record(number, 0, "failed") for number in range(5)]
    assert "(smart.weight 0; smart.weight 0.5; smart.weight 1; and 2 more)" in lines_of(effects, many)[-1]
    searched = replace(many[0], params={f"key{number}": number for number in range(14)})
    assert "(key0 0, key1 1, key2 2, key3 3, key4 4 and 9 more)" in lines_of(effects, [searched])[-1]


def test_of_two_keys_the_one_that_takes_most_replicates_is_forecast() -> None:
    other = replace(KEY, name="rate")
    values = {KEY.name: [value(0.0, None), value(0.45, -0.008)], "rate": [value(0.0, None), value(1.0, 0.007)]}
    precisions = dict.fromkeys(values, PRECISION)
    effects = replace(sweep_of([], values=values, precisions=precisions), keys=[KEY, other])
    *_, line = lines_of(effects)
    assert f"--replicates {PRECISION.replicates_needed(0.007)}" in line
    assert "whether 1 differs" in line
    assert sum("--replicates" in one for one in lines_of(effects)) == 1


def test_numbers_of_steps_and_sizes_that_differ_are_ranges(make_record: MakeRecord) -> None:
    records = [replace(make_record(n), epochs=2, steps=steps) for n, steps in enumerate((30, 90, 60))]
    assert (
        "Trained 30 to 90 steps in 2 epochs" in lines_of(sweep_of([value(0.0, None), value(0.45, 0.014)]), records)[1]
    )


def test_interaction_is_stated_where_it_is_significant() -> None:
    pairs = [Interaction(keys=("a", "b"), p_value=0.01), Interaction(keys=("a", "c"), p_value=0.2)]
    first, second = lines_of(sweep_of([value(0.0, None), value(0.45, 0.004)], interactions=pairs))
    assert first.startswith("The effect of a depends on b (p = 0.010): ")
    assert second.startswith("Keep smart.weight 0")


def test_range_is_answered_where_the_sweep_has_a_curve() -> None:
    (line,) = lines_of(sweep_of([], values={}, curves={KEY.name: curve_of()}))
    assert line.startswith("Take smart.weight near 0.5 (95 %: 0.2 to 0.8; ")


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


def test_trials_that_were_scored_once_may_improve_unseen_and_a_patience_may_leave_epochs_out(
    make_record: MakeRecord,
) -> None:
    config = general(TASKS).override({"stages.0.epochs": 3, "stages.0.score_every": 3})
    effects = sweep_of([value(0.0, None), value(0.45, 0.014)])

    def last_line(config: TrialConfig) -> str:
        fields: dict[str, Any] = {"config": config.to_json(), "epochs": 3, "steps": 60, "best_epoch": {"overall": 3}}
        return lines_of(effects, [replace(make_record(number), **fields) for number in range(3)])[-1]

    assert "improving" not in last_line(config)
    config = bert_and_beyond().override({"stages.1.epochs": 3, "stages.1.score_every": 3})  # after QQP alone
    assert "improving" not in last_line(config)
    config = general(TASKS).override({"stages.0.epochs": 3})
    twice = last_line(config.override({"stages.0.score_every": 2, "stages.0.patience": 1}))
    assert twice.startswith("Trained 60 steps in up to 3 epochs, ")
    assert "3 of 3 trials were still improving when they ended" in twice


@pytest.mark.parametrize(("seconds", "text"), [(20.0, "1 minute"), (600.0, "20 minutes"), (7200.0, "4.0 hours")])
def test_training_time_has_a_fitting_unit(make_record: MakeRecord, seconds: float, text: str) -> None:
    assert training_time(2, [replace(make_record(0), wall_seconds=seconds)]) == f", about {text} of training"
    assert training_time(2, []) == ""


def claiming(*decisions: RoundDecision, **changes: Any) -> SweepEffects:
    """The effects of a sweep that checks a claim."""
    effects = sweep_of([value(0.0, None), value(1.0, 0.02)], num_configurations=2, **changes)
    claim = read_claim("smart.weight=1 beats smart.weight=0 by 0.005")
    return replace(effects, claim=claim, race=RaceRecord(decisions=decisions))


def test_answer_of_a_claim_is_its_verdict_alone() -> None:
    last = RoundDecision(
        num_rounds=3, open=(0, 1), end=SHOWN_CLAIM, claimed=ClaimEstimate(difference=0.02, margin=0.01, needed=None)
    )
    (line,) = answer_question(claiming(last), ()).found
    assert line.startswith("Shown: smart.weight=1 beats smart.weight=0 by 0.005.")


def test_open_claim_proposes_replicates_with_the_cost_of_both_configurations(make_record: MakeRecord) -> None:
    records = [make_record(number, again) for number in range(2) for again in range(3)]
    found = ClaimEstimate(difference=0.02, margin=0.03, needed=9)
    last = RoundDecision(num_rounds=3, open=(0, 1), end=UNDECIDABLE, claimed=found)
    (line,) = answer_question(claiming(last), records).found
    assert line.endswith(f"{RESUME} --replicates 9")
    assert "12 more trials" in line


def test_claim_without_an_estimate_is_not_answered_with_the_best_configuration(make_record: MakeRecord) -> None:
    """So many trainings have failed that the two have fewer than two replicates in common."""
    last = RoundDecision(num_rounds=3, open=(0, 1), end=LAST_ROUND, claimed=ClaimEstimate())
    effects = claiming(last, is_known=False, num_replicates=(1, 2))
    records = [make_record(0, 0), make_record(0, 1), make_record(1, 0), make_record(1, 1, "failed")]
    assert "best" not in " ".join(answer_question(effects, records).paragraphs)


def test_value_that_helps_one_slice_and_hurts_another_is_named_with_both() -> None:
    found = QualitativeInteraction(
        key="smart.weight",
        value=0.45,
        base=0.0,
        task="overall",
        column="language",
        better_on="en",
        gain=0.021,
        worse_on="de",
        loss=-0.034,
        p_value=0.012,
    )
    effects = sweep_of([value(0.0, None), value(0.45, 0.004)])
    text = " ".join(lines_of(replace(effects, qualitative=[found])))
    assert (
        "smart.weight 0.45 helps where language is en (+0.021 against 0) and hurts where language is de (-0.034)"
        in text
    )
    assert "p = 0.012 over all values, slices and tasks" in text
    assert "helps" not in " ".join(lines_of(effects))


def test_few_groups_are_why_nothing_is_known_and_more_replicates_are_not_proposed() -> None:
    few = {"SST": drawn_groups(np.zeros((1, 60)), np.arange(60) % 6)}
    values = [value(0.0, None, None), value(0.45, 0.1, None)]
    (line,) = lines_of(sweep_of(values, is_known=False, few_groups=few))
    assert line.startswith("Not known: no difference can be claimed from dev rows of SST in 6 groups")
    assert "More replicates do not change that: dev needs rows of more groups." in line
    assert "--replicates" not in line
