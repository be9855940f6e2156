"""Known effects give the exact differences, intervals, points and curves."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from mtlib.tasks import TASKS
from mtlib.training.epoch_report import EpochReport
from results.analysis.comparison.trial_scores import TrialScores
from results.analysis.effects.published_differences import ColumnDifferences, Difference
from results.analysis.effects.searched_keys import KeyRange, SearchedKey
from results.analysis.effects.sweep_effects import SweepEffects
from results.figures.chart import Band, Chart, Panel, Series
from results.figures.effects import (
    MAX_KEYS,
    MEAN,
    PUBLISHED,
    TRIAL,
    effect_chart,
    effect_charts,
    published_chart,
    value_chart,
    value_charts,
)
from results.records.trials import TrialRecord
from search_spaces.published import read_published
from search_spaces.space import describe_space, load_space
from tests.results.analysis.comparison.test_trial_scores import scores_of
from tests.results.analysis.effects.test_answer import KEY, sweep_of, value
from tests.results.analysis.effects.test_frame import curve_of, with_range
from tests.results.analysis.effects.test_sweep_effects import estimate, grid_sweep
from tests.results.conftest import build_record
from tests.results.figures.conftest import series_of

MakeReport = Callable[..., EpochReport]
MakeRecord = Callable[..., TrialRecord]
EFFECTS = sweep_of([value(0.0, None), value(0.45, 0.014), value(1.0, -0.02)])
RATE = SearchedKey(name="rate", values=(), range=KeyRange(low=0.1, high=4.0, is_log=True))


def with_rmse(effects: SweepEffects) -> SweepEffects:
    """The same effects on the error of a regression, of which lower is better."""
    tasks = {"sts": replace(TASKS["sts"], metric="rmse")}
    column = replace(next(iter(effects.columns.values())), task="sts", tasks=tasks)
    return replace(effects, columns={"sts": column}, metric="sts")


def given_scores(task: str, values: Mapping[str, float]) -> TrialScores:
    return TrialScores(epochs={}, values={(task, "dev"): values}, covariances={}, trainings={}, tasks=TASKS)


def parts_of(panel: Panel) -> tuple[Series, Series]:
    """The differences of a forest plot, and its base value."""
    differences, base = (mark for mark in panel.marks if isinstance(mark, Series))
    return differences, base


def test_differences_and_interval_ends_are_those_of_the_effects() -> None:
    (chart,) = effect_charts(EFFECTS)
    (panel,) = chart.panels
    differences, base = parts_of(panel)
    assert (chart.name, panel.title, panel.y.title) == ("effects-smart-weight", "overall", "smart.weight")
    assert list(panel.y.categories) == ["0 (base)", "0.45", "1"]
    assert list(differences.y) == ["0.45", "1"]
    assert list(differences.x) == pytest.approx([0.014, -0.02])
    assert list(differences.low) == pytest.approx([0.004, -0.03])
    assert list(differences.high) == pytest.approx([0.024, -0.01])
    assert (list(base.x), list(base.y)) == ([0.0], ["0 (base)"])
    assert chart.frame["low"].tolist()[1:] == pytest.approx(list(differences.low))
    assert chart.frame["high"].tolist()[1:] == pytest.approx(list(differences.high))
    assert differences.hover[0].split("\n") == [
        "smart.weight 0.45",
        "overall 0.700, +0.014",
        "95 %: +0.004 to +0.024",
        "3 trials",
    ]


def test_of_an_error_lower_is_better_and_low_ends_stay_low() -> None:
    chart = effect_chart(with_rmse(EFFECTS), KEY)
    differences, _ = parts_of(chart.panels[0])
    assert list(differences.x) == pytest.approx([-0.014, 0.02])
    assert list(differences.low) == pytest.approx([-0.024, 0.01])
    assert list(differences.high) == pytest.approx([-0.004, 0.03])
    assert chart.frame["low"].tolist()[1:] == pytest.approx(list(differences.low))
    assert "95 %: -0.024 to -0.004" in differences.hover[0]


def test_without_replicates_differences_have_no_intervals() -> None:
    chart = effect_chart(sweep_of([value(0.0, None), value(0.45, 0.014, None)], is_known=False), KEY)
    differences, _ = parts_of(chart.panels[0])
    assert list(differences.x) == pytest.approx([0.014])
    assert math.isnan(differences.low[0])
    assert math.isnan(differences.high[0])
    assert "interval not known" in differences.hover[0]


def test_values_that_were_not_compared_keep_their_place() -> None:
    chart = effect_chart(sweep_of([value(0.0, None), value(0.45, None), value(1.0, 0.01)]), KEY)
    differences, _ = parts_of(chart.panels[0])
    assert list(differences.y) == ["1"]
    assert list(chart.panels[0].y.categories) == ["0 (base)", "0.45", "1"]


def test_values_with_equal_short_texts_are_rows_of_their_own() -> None:
    first, second = 0.45, 0.45000001
    effects = sweep_of([value(0.0, None), value(first, 0.014), value(second, -0.02)])
    key = replace(KEY, values=(0.0, first, second))
    differences, _ = parts_of(effect_chart(effects, key).panels[0])
    assert list(differences.y) == ["0.45", "0.45000001"]
    records = [build_record(number, params={"smart.weight": weight}) for number, weight in enumerate((first, second))]
    scores = given_scores("overall", {"0000-r0": 0.5, "0001-r0": 0.6})
    points = series_of(value_chart(effects, records, scores, key).panels[0], TRIAL)
    assert list(points.x) == ["0.45", "0.45000001"]


def test_overall_comes_first_and_tasks_keep_their_order_without_it() -> None:
    column = EFFECTS.columns["overall"]
    columns = {task: replace(column, task=task) for task in ("sst", "qqp", "sts")}
    titles = [
        [panel.title for panel in effect_chart(replace(EFFECTS, columns=own), KEY).panels]
        for own in ({**columns, "overall": column}, columns)
    ]
    tasks = ["SST, accuracy", "QQP, accuracy", "STS, Pearson's correlation"]
    assert titles == [["overall", *tasks], tasks]


def test_direction_of_an_error_is_in_the_title() -> None:
    (panel,) = effect_chart(with_rmse(EFFECTS), KEY).panels
    assert panel.title.endswith("RMSE, lower is better")


def test_task_whose_values_cannot_be_compared_has_no_panel() -> None:
    column = EFFECTS.columns["overall"]
    alone = replace(column, task="sst", values={KEY.name: column.values[KEY.name][:1]})
    chart = effect_chart(replace(EFFECTS, columns={"sst": alone, "overall": column}), KEY)
    assert [panel.title for panel in chart.panels] == ["overall"]


def test_only_keys_with_listed_values_have_differences() -> None:
    assert [chart.title for chart in effect_charts(with_range())] == ["Effect of smart.weight"]
    assert effect_charts(replace(EFFECTS, columns={})) == []


def points_of_grid(records: Sequence[TrialRecord], scores: Mapping[str, float]) -> Chart:
    return value_chart(EFFECTS, records, given_scores("overall", scores), KEY)


def test_replicates_are_points_and_means_are_those_of_the_effects() -> None:
    records = [build_record(0, 0), build_record(0, 1), build_record(2, params={"smart.weight": 1.0})]
    chart = points_of_grid(records, {"0000-r0": 0.5, "0000-r1": 0.6, "0002-r0": 0.7})
    points, mean = series_of(chart.panels[0], TRIAL), series_of(chart.panels[0], MEAN)
    assert list(zip(points.x, points.y, strict=True)) == [("0 (base)", 0.5), ("0 (base)", 0.6), ("1", 0.7)]
    assert (list(mean.x), list(mean.y)) == (["0 (base)", "0.45", "1"], [0.7, 0.7, 0.7])
    assert points.hover[1] == "0000-r1\nsmart.weight 0\noverall 0.600"
    assert chart.frame.columns.tolist() == ["trial", "task", "value", "score"]


def test_trials_without_the_key_or_a_score_are_left_out() -> None:
    records = [build_record(0), build_record(1, params={"other": 1}), build_record(2)]
    chart = points_of_grid(records, {"0000-r0": 0.5, "0001-r0": 0.6})
    assert chart.frame["trial"].tolist() == ["0000-r0"]


def test_value_of_an_unfinished_trial_has_a_place_too() -> None:
    chart = points_of_grid([build_record(4, status="pruned", params={"smart.weight": 2.0})], {"0004-r0": 0.5})
    assert list(series_of(chart.panels[0], TRIAL).x) == ["2"]
    assert list(chart.panels[0].x.categories) == ["0 (base)", "0.45", "1", "2"]


def test_points_and_means_of_an_error_are_errors() -> None:
    scores = given_scores("sts", {"0000-r0": -0.5})
    (panel,) = value_chart(with_rmse(EFFECTS), [build_record(0)], scores, KEY).panels
    assert list(series_of(panel, TRIAL).y) == [0.5]
    assert list(series_of(panel, MEAN).y) == [-0.7, -0.7, -0.7]


@pytest.mark.parametrize(("is_error", "sign"), [(False, 1), (True, -1)])
def test_range_has_its_curve_and_a_band_around_it(is_error: bool, sign: int) -> None:
    effects = sweep_of([], values={}, curves={"rate": curve_of("rate")})
    effects = with_rmse(effects) if is_error else effects
    task = "sts" if is_error else "overall"
    records = [build_record(0, params={"rate": 0.3}), build_record(1, params={})]
    (panel,) = value_chart(effects, records, given_scores(task, {"0000-r0": 0.5, "0001-r0": 0.5}), RATE).panels
    line, points = series_of(panel, "fitted curve"), series_of(panel, TRIAL)
    (band,) = (mark for mark in panel.marks if isinstance(mark, Band))
    curve = curve_of("rate")
    assert panel.x.scale == "log"
    assert (list(points.x), list(points.y)) == ([0.3], [sign * 0.5])
    assert list(line.y) == pytest.approx(list(sign * curve.means))
    assert list(line.x) == list(band.x) == pytest.approx(list(curve.points))
    assert list(band.low) == pytest.approx(list(sign * curve.means - 0.004))
    assert list(band.high) == pytest.approx(list(sign * curve.means + 0.004))


def test_range_without_a_fit_has_points_alone() -> None:
    records = [build_record(0, params={"rate": 0.3})]
    (panel,) = value_chart(sweep_of([], values={}), records, given_scores("overall", {"0000-r0": 0.5}), RATE).panels
    assert [mark.name for mark in panel.marks if isinstance(mark, Series | Band)] == [TRIAL]


@pytest.mark.parametrize(
    ("num_keys", "expected"),
    [
        (MAX_KEYS, {"scores-smart-weight": 2, "scores-k1": 2, "scores-k2": 2}),
        (MAX_KEYS + 1, {"scores-smart-weight": 1}),
    ],
)
def test_of_many_keys_only_fitted_ones_are_shown_on_the_maximised_score(
    num_keys: int, expected: dict[str, int]
) -> None:
    keys = [KEY, *(SearchedKey(name=f"k{number}", values=(1,)) for number in range(1, num_keys))]
    columns = {"sst": replace(EFFECTS.columns["overall"], task="sst"), **EFFECTS.columns}
    effects = replace(EFFECTS, keys=keys, columns=columns)
    charts = value_charts(effects, [build_record(0)], given_scores("overall", {"0000-r0": 0.5}))
    assert {chart.name: len(chart.panels) for chart in charts} == expected


def test_charts_of_estimated_effects_agree_with_them(make_report: MakeReport, make_record: MakeRecord) -> None:
    skills = {(n, r): 0.2 + 0.3 * n for n in range(3) for r in range(2)}
    records, reports = grid_sweep(make_report, make_record, skills)
    effects, scores = estimate(records, reports), scores_of(records, reports)
    frame = effect_chart(effects, effects.keys[0]).frame
    chart = value_chart(effects, records, scores, effects.keys[0])
    means = chart.frame.groupby(["task", "value"])["score"].mean()
    expected: Any = frame.set_index(["task", "value"])["mean"].sort_index()
    pd.testing.assert_series_equal(means, expected, check_names=False, check_index_type=False)
    assert [panel.title for panel in chart.panels][:2] == ["overall", "SST, accuracy"]


def chart_beside(*differences: Difference) -> Chart:
    (table,) = read_published({"space": describe_space(load_space("smart_lambda"))})
    column = EFFECTS.columns["overall"]
    return published_chart(table, [ColumnDifferences(column=column, key=KEY, differences=differences)], 1)


def difference(value: float, **changes: Any) -> Difference:
    values: dict[str, Any] = {"here": 0.02, "interval": (0.01, 0.03), "published": 0.05, "is_recomputed": False}
    return Difference(value=value, verdict="same sign", **{**values, **changes})


def test_recomputed_scores_behind_published_differences_are_marked() -> None:
    chart = chart_beside(difference(0.45), difference(1.0, is_recomputed=True))
    printed = series_of(chart.panels[0], PUBLISHED)
    assert list(printed.y) == ["0.45", "1"]
    assert printed.hover == ["smart.weight 0.45\npublished +0.050", "smart.weight 1\npublished +0.050 (recomputed)"]
    assert "recomputed" in chart.caption
    assert chart.frame["is_recomputed"].tolist() == [False, True]
    assert "recomputed" not in chart_beside(difference(0.45)).caption


def test_unknown_intervals_beside_published_differences_are_not_drawn() -> None:
    chart = chart_beside(difference(0.45, interval=None), difference(0.45000001))
    here, _ = (mark for mark in chart.panels[0].marks if isinstance(mark, Series))
    assert list(here.y) == ["0.45", "0.45000001"]
    assert math.isnan(here.low[0])
    assert here.high[1] == 0.03
    assert chart.frame["value"].tolist() == ["0.45", "0.45000001"]


def test_published_differences_of_several_scores_have_a_panel_each() -> None:
    (table,) = read_published({"space": describe_space(load_space("smart_lambda"))})
    column = EFFECTS.columns["overall"]
    found = [
        ColumnDifferences(column=replace(column, task=task), key=replace(KEY, base=base), differences=[difference(3.0)])
        for task, base in (("sst", 0.0), ("sts", 0.45))
    ]
    chart = published_chart(table, found, 2)
    assert chart.name == "published-differences-2"
    assert [panel.title for panel in chart.panels] == ["SST, accuracy", "STS, Pearson's correlation"]
    assert [panel.x.title for panel in chart.panels] == [
        "difference from smart.weight 0",
        "difference from smart.weight 0.45",
    ]
    columns = ["task", "key", "base", "value"]
    expected = [["sst", "smart.weight", "0", "3"], ["sts", "smart.weight", "0.45", "3"]]
    assert chart.frame[columns].to_numpy().tolist() == expected
