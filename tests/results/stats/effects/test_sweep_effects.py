"""Effects of whole sweeps: columns, trials that count, grids and searches, tasks that differ."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from mtlib.tasks import TASKS
from mtlib.training.epoch_report import EpochReport
from results.answers.answer import answer_question
from results.answers.effects_table import effects_frame, render_effects
from results.records.epochs import write_epoch
from results.records.tables import write_trials
from results.records.trials import TrialRecord, write_sweep
from results.stats.effects.searched_keys import NO_VALUE
from results.stats.effects.sweep_effects import SweepEffects, amounts_by_tasks, sweep_effects
from results.sweep import load_sweep
from results.table import print_ranking
from tests.results.stats.effects.test_key_effects import half_width
from tests.results.stats.test_trial_scores import scores_of, value_of

MakeReport = Callable[..., EpochReport]
MakeRecord = Callable[..., TrialRecord]
Key = tuple[int, int]


def estimate(
    records: Sequence[TrialRecord], reports: Mapping[str, Sequence[EpochReport]], options: Any = None, **changes: Any
) -> SweepEffects:
    space = {"question": "How strongly?", "metric": "overall", "grid": [["weight", [0, 1, 2]]], "ranges": []}
    is_grid = changes.pop("is_grid", not changes)
    searched = {"space": {**space, **changes}, "base": {"weight": 1}, "search": "grid" if is_grid else "random"}
    info = {**searched, "options": options}
    return sweep_effects("/sweeps/mine", info, records, scores_of(records, reports))


def grid_sweep(
    make_report: MakeReport, make_record: MakeRecord, skills: Mapping[Key, float], **changes: Any
) -> tuple[list[TrialRecord], dict[str, list[EpochReport]]]:
    """Trials by configuration and replicate; the configuration's number is its value of `weight`."""
    best = {key: {"overall": skill} for key, skill in skills.items()}
    records = [replace(make_record(n, r), params={"weight": n}, best=best[n, r]) for n, r in skills]
    reports = {f"{n:04d}-r{r}": [make_report(1, skill=skills[n, r], seed=7 * n + r, **changes)] for n, r in skills}
    return records, reports


def test_effects_of_every_task_and_overall(make_report: MakeReport, make_record: MakeRecord) -> None:
    skills = {(n, r): 0.2 + 0.3 * n for n in range(3) for r in range(3)}
    records, reports = grid_sweep(make_report, make_record, skills)
    found = estimate(records, reports)
    assert list(found.columns) == [*TASKS, "overall"]
    assert found.left_out == {}
    for task, column in found.columns.items():
        split = {trial: value_of(report[0], task, "dev") for trial, report in reports.items()}
        effects = {effect.value: effect for effect in column.values["weight"]}
        means = {n: np.mean([split[f"{n:04d}-r{r}"] for r in range(3)]) for n in range(3)}
        assert {value: effect.mean for value, effect in effects.items()} == pytest.approx(means)
        assert effects[1].difference is None
        assert effects[2].difference == pytest.approx(means[2] - means[1])
        assert effects[2].interval is not None
        assert column.is_known


def test_values_that_trained_the_same_count_once(make_report: MakeReport, make_record: MakeRecord) -> None:
    """Value 3 has the curves of value 0: the other intervals are as without it."""
    skills = {(n, r): 0.2 + 0.3 * n for n in range(3) for r in range(3)}
    records, reports = grid_sweep(make_report, make_record, skills)
    copies = {f"0003-r{r}": reports[f"0000-r{r}"] for r in range(3)}
    more = [*records, *(replace(make_record(3, r), params={"weight": 3}) for r in range(3))]
    alone = estimate(records, reports)
    found = estimate(more, {**reports, **copies}, grid=[["weight", [0, 1, 2, 3]]], ranges=[], is_grid=True)
    for task, column in alone.columns.items():
        effects = {effect.value: effect for effect in found.columns[task].values["weight"]}
        assert effects[3].interval == effects[0].interval
        assert effects[3].num_trials == 3
        for effect in column.values["weight"]:
            assert effects[effect.value].error == pytest.approx(effect.error)
            assert half_width(effects[effect.value]) == pytest.approx(
                half_width(effect), rel=0.03, nan_ok=True
            )  # drawn


def test_scores_of_different_tasks_are_compared_task_by_task(make_report: MakeReport, make_record: MakeRecord) -> None:
    skills = {(n, r): 0.2 + 0.3 * n for n in range(3) for r in range(2)}
    records, reports = grid_sweep(make_report, make_record, skills)
    both = estimate(records, reports)
    assert (both.compared, both.has_different_tasks) == ([both.columns["overall"]], False)
    for trial, (report,) in reports.items():
        if trial.startswith("0002"):
            points = tuple(point for point in report.points if point.task in ("sts", "overall"))
            reports[trial] = [replace(report, points=points)]
    found = estimate(records, reports)
    assert found.has_different_tasks
    assert found.compared == list(found.columns.values())
    assert {task: [value.value for value in c.values["weight"]] for task, c in found.columns.items()} == {
        "sst": [0, 1],
        "qqp": [0, 1],
        "sts": [0, 1, 2],
    }
    rows = [line.split() for line in render_effects(found)]
    assert next(row for row in rows if row[:1] == ["2"])[1] == f"{found.columns['sts'].values['weight'][2].mean:.3f}"


def test_what_only_some_trials_have_on_record_of_their_training_is_left_out(
    make_report: MakeReport, make_record: MakeRecord
) -> None:
    records, reports = grid_sweep(make_report, make_record, {(0, 0): 0.2, (1, 0): 0.4})
    new = {("sst", "tokens"): 30.0, ("sst", "steps"): 3.0}
    amounts = {"0000-r0": new, "0001-r0": {("sst", "tokens"): 10.0}}
    scores = replace(scores_of(records, reports), amounts=amounts)
    assert amounts_by_tasks(records, scores) == {("sst",): {("sst", "tokens"): 20.0}}
    assert amounts_by_tasks(records[:1], scores) == {("sst",): new}


def test_interval_is_at_least_that_of_training_alone(make_report: MakeReport, make_record: MakeRecord) -> None:
    skills = {(n, r): 0.5 for n in range(2) for r in range(4)}
    records, reports = grid_sweep(make_report, make_record, skills)
    effect = estimate(records, reports).columns["overall"].values["weight"][0]
    scores = [[value_of(reports[f"{n:04d}-r{r}"][0], "overall", "dev") for r in range(4)] for n in range(2)]
    paired = stats.ttest_rel(scores[0], scores[1]).confidence_interval(0.95)
    assert effect.interval is not None
    assert effect.interval[1] - effect.interval[0] >= (paired.high - paired.low) * 0.999


def test_pruned_and_failed_trials_are_left_out_and_counted(make_report: MakeReport, make_record: MakeRecord) -> None:
    skills = {(n, r): 0.5 for n in range(3) for r in range(2)}
    records, reports = grid_sweep(make_report, make_record, skills)
    records[0], records[5] = replace(records[0], status="failed"), replace(records[5], status="pruned")
    found = estimate(records, reports)
    assert found.left_out == {"failed": 1, "pruned": 1}
    assert [effect.num_trials for effect in found.columns["overall"].values["weight"]] == [1, 2, 1]


def typed_in_order(
    order: np.random.Generator, bases: Mapping[str, Any], scale: float, make_report: MakeReport, make_record: MakeRecord
) -> tuple[list[str], pd.DataFrame]:
    """The answer and the effects of one grid, whose keys, values and trials are in some order."""
    grid: dict[str, list[Any]] = {"weight": [0.1, 0.3, 3], "mode": ["a", "b", "none"]}
    names = [str(name) for name in order.permutation(list(grid))]
    shuffled = [[name, [grid[name][place] for place in order.permutation(3)]] for name in names]
    records, reports = [], {}
    for number, point in enumerate(itertools.product(*(values for _, values in shuffled))):
        params = dict(zip(names, point, strict=True))
        own = 3 * grid["weight"].index(params["weight"]) + grid["mode"].index(params["mode"])
        for replicate in range(3):
            record = make_record(number, replicate)
            records.append(replace(record, params=params, config_hash=f"{7 * own % 9}"))
            report = make_report(1, skill=0.4 + scale * (own // 3), seed=10 * own + replicate)
            reports[record.trial_id] = [report]
    records = [records[place] for place in order.permutation(len(records))]
    space = {"question": "Which?", "metric": "overall", "grid": shuffled, "ranges": []}
    info = {"space": space, "base": bases, "search": "grid", "options": {"replicates": 3}}
    effects = sweep_effects("/sweeps/mine", info, records, scores_of(records, reports))
    frame = effects_frame(effects).assign(text=lambda own: own["value"].map(str)).sort_values(["key", "task", "text"])
    return answer_question(effects, records).paragraphs, frame.reset_index(drop=True)


@pytest.mark.parametrize("scale", [0.0, 0.1])
@pytest.mark.parametrize("bases", [{"weight": 7, "mode": "c"}, {"weight": 0.1, "mode": "c"}])
def test_answer_is_the_same_for_every_order_of_keys_values_and_trials(
    bases: Mapping[str, Any], scale: float, make_report: MakeReport, make_record: MakeRecord
) -> None:
    answer, frame = typed_in_order(np.random.default_rng(0), bases, scale, make_report, make_record)
    assert not any(line.startswith("Keep mode") for line in answer), "nobody has a value that is not the base's"
    for seed in (1, 2):
        other, its_frame = typed_in_order(np.random.default_rng(seed), bases, scale, make_report, make_record)
        assert sorted(other) == sorted(answer)
        pd.testing.assert_frame_equal(its_frame, frame, rtol=1e-6)


def test_intervals_follow_from_the_columns_that_say_what_they_are_made_of(
    make_report: MakeReport, make_record: MakeRecord
) -> None:
    _, frame = typed_in_order(np.random.default_rng(0), {"weight": 0.1, "mode": "c"}, 0.05, make_report, make_record)
    own = frame[frame["low"].notna()]
    half = np.hypot(own["training_factor"] * own["training_error"], own["example_factor"] * own["example_error"])
    np.testing.assert_allclose(own["low"], own["difference"] - half)
    np.testing.assert_allclose(own["high"], own["difference"] + half)
    assert (own["degrees"] > 1).all()


def test_trials_that_are_not_on_record_yet_are_queued(make_report: MakeReport, make_record: MakeRecord) -> None:
    skills = {(n, 0): 0.5 for n in range(3)}
    records, reports = grid_sweep(make_report, make_record, skills)
    records[2] = replace(records[2], status="interrupted")
    assert estimate(records, reports, {"replicates": 2}).left_out == {"interrupted": 1, "queued": 3}


BEST = {"replicate_best": 2, "chosen_by": 1}


def test_grid_compares_only_configurations_that_were_trained_again(
    make_report: MakeReport, make_record: MakeRecord
) -> None:
    skills = {(0, 0): 0.5, (1, 0): 0.1, (2, 0): 0.5, (0, 1): 0.5, (0, 2): 0.5, (2, 1): 0.5, (2, 2): 0.5}
    records, reports = grid_sweep(make_report, make_record, skills)
    found = estimate(records, reports, BEST)
    values = found.columns["overall"].values["weight"]
    assert [(effect.value, effect.num_trials) for effect in values] == [(0, 3), (2, 3)]
    assert (found.num_dropped, found.keys[0].base) == (1, NO_VALUE), "the space's base was not trained again"
    alone = estimate([record for record in records if record.number != 1], reports)
    expected = alone.columns["overall"].values["weight"]
    assert [own.interval for own in values] == [own.interval for own in expected]


def test_curve_is_fitted_to_the_trainings_that_all_configurations_have(
    make_report: MakeReport, make_record: MakeRecord
) -> None:
    skills = {(n, 0): 0.1 + 0.06 * n for n in range(24)}
    ranges = [["weight", {"Float": {"low": 0.0, "high": 23.0, "log": False}}]]
    expected = estimate(*grid_sweep(make_report, make_record, skills), ranges=ranges)
    again = skills | {(n, r): 3.0 for n in (22, 23) for r in (1, 2)}
    found = estimate(*grid_sweep(make_report, make_record, again), BEST, ranges=ranges)
    assert found.num_dropped == 22
    curves = [effects.columns["overall"].curves["weight"] for effects in (found, expected)]
    np.testing.assert_allclose(curves[0].means, curves[1].means)


def test_search_whose_best_are_raced_has_the_curve_of_all(make_report: MakeReport, make_record: MakeRecord) -> None:
    """Rounds of a race are no grid: the keys still have ranges."""
    skills = {(n, 0): 0.1 + 0.06 * n for n in range(24)} | {(n, 1): 3.0 for n in (22, 23)}
    ranges = [["weight", {"Float": {"low": 0.0, "high": 23.0, "log": False}}]]
    space = {"question": "How strongly?", "metric": "overall", "grid": [], "ranges": ranges}
    info = {"space": space, "base": {"weight": 1}, "search": "tpe", "options": BEST, "race": []}
    records, reports = grid_sweep(make_report, make_record, skills)
    found = sweep_effects("/sweeps/mine", info, records, scores_of(records, reports))
    column = found.columns["overall"]
    assert column.num_trials == 24
    assert column.curves["weight"].optimum > 15
    assert not column.values


def test_overall_is_left_out_where_tasks_differ(make_report: MakeReport, make_record: MakeRecord) -> None:
    records, reports = grid_sweep(make_report, make_record, {(0, 0): 0.5, (1, 0): 0.6}, tasks=("sst",))
    more_records, more_reports = grid_sweep(make_report, make_record, {(2, 0): 0.5}, tasks=("sst", "qqp"))
    found = estimate([*records, *more_records], {**reports, **more_reports})
    assert list(found.columns) == ["sst"]


def test_random_search_over_a_range_has_a_curve(make_report: MakeReport, make_record: MakeRecord) -> None:
    skills = {(n, 0): 0.1 + 0.06 * n for n in range(24)}
    records, reports = grid_sweep(make_report, make_record, skills)
    ranges = [["weight", {"Float": {"low": 0.0, "high": 23.0, "log": False}}]]
    found = estimate(records, reports, grid=[], ranges=ranges)
    curve = found.columns["overall"].curves["weight"]
    assert curve.p_value < 0.001
    assert curve.optimum > 15
    assert found.columns["overall"].is_known
    found = estimate(records[:5], {record.trial_id: reports[record.trial_id] for record in records[:5]}, ranges=ranges)
    assert not found.columns["overall"].is_known


Values = tuple[float, str]
KEYS: dict[str, list[float | str]] = {"smart.weight": [0.0, 0.5], "gradients": ["sum", "pcgrad"]}
BASE = {"smart": {"weight": 0.0}, "gradients": "sum"}
SKILLS: dict[str, Mapping[Values, float]] = {
    "interaction": {(0.0, "sum"): 0.6, (0.5, "sum"): 0.6, (0.0, "pcgrad"): 0.6, (0.5, "pcgrad"): 1.8},
    "one key": {(0.0, "sum"): 0.6, (0.5, "sum"): 1.2, (0.0, "pcgrad"): 0.6, (0.5, "pcgrad"): 1.2},
    "none": dict.fromkeys(itertools.product((0.0, 0.5), ("sum", "pcgrad")), 0.8),
}
"""How closely predictions follow the labels."""


def build_grid(folder: Path, skills: Mapping[Values, float], make_report: MakeReport, make_record: MakeRecord) -> None:
    """A sweep of both keys with five replicates; each trial errs on rows of its own."""
    space = {"question": "Do both matter?", "metric": "overall", "grid": list(KEYS.items()), "ranges": []}
    write_sweep(folder, {"name": "mine", "space": space, "base": BASE, "search": "grid"})
    records = []
    for (number, values), replicate in itertools.product(enumerate(skills), range(5)):
        records.append(make_record(number, replicate, params=dict(zip(KEYS, values, strict=True))))
        report = make_report(1, skill=skills[values], seed=10 * number + replicate)
        write_epoch(folder, records[-1].trial_id, report)
    write_trials(folder, records, tuple(TASKS))


@pytest.mark.parametrize(
    ("built", "found", "missing"),
    [
        ("interaction", ["The effect of gradients depends on smart.weight (p"], []),
        (
            "one key",
            ["Take smart.weight 0.5: it is better than 0 by", "Keep gradients sum: no value tried"],
            ["depends on"],
        ),
        ("none", ["Keep smart.weight 0: no value tried", "Keep gradients sum: no value tried"], ["depends on"]),
    ],
)
def test_answer_states_what_was_built_in(
    built: str,
    found: list[str],
    missing: list[str],
    tmp_path: Path,
    make_report: MakeReport,
    make_record: MakeRecord,
    capsys: pytest.CaptureFixture[str],
) -> None:
    build_grid(tmp_path, SKILLS[built], make_report, make_record)
    print_ranking(load_sweep(tmp_path))
    answer = " ".join(capsys.readouterr().out.partition("smart.weight  gradients")[0].split())
    assert "Do both matter?" in answer
    assert [text for text in found if text not in answer] == [], answer
    assert [text for text in missing if text in answer] == [], answer


def test_key_that_changes_no_training_has_no_effect_to_the_last_digit(
    make_report: MakeReport, make_record: MakeRecord
) -> None:
    """Every value of the second key has the trainings of its first value."""
    first, second = (1, 2, 3, 4, 5), ("a", "b", "c")
    records, reports = [], {}
    for number, (one, other) in enumerate(itertools.product(first, second)):
        for replicate in range(3):
            records.append(replace(make_record(number, replicate), params={"w": one, "inert": other}))
            reports[records[-1].trial_id] = [make_report(1, skill=0.3 * one, seed=10 * one + replicate)]
    space = {"question": "", "metric": "overall", "grid": [["w", first], ["inert", second]], "ranges": []}
    info = {"space": space, "base": {"w": 1, "inert": "a"}, "search": "grid"}
    effects = sweep_effects("/sweeps/mine", info, records, scores_of(records, reports))
    for column in effects.columns.values():
        assert [value.is_same for value in column.values["inert"]] == [False, True, True]
        assert column.precisions["inert"] is None
        assert not any(pair.is_significant for pair in column.interactions)
    _, *answer = answer_question(effects, records).paragraphs
    assert "inert has no effect here. Trained the same as a: b, c." in answer
