"""Known effects give the exact differences, intervals, points and curves."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from mtlib.tasks import TASKS
from results.figures.effects import (
    MAX_KEYS,
    NOT_COUNTED,
    SIGNIFICANT,
    UNDECIDED,
    answer_figures,
    forest_plot,
    forest_plots,
    scores_by_value,
    value_figures,
)
from results.stats.effects.searched_keys import SearchedKey
from results.stats.effects.sweep_effects import SweepEffects
from results.stats.trial_scores import TrialScores
from search_spaces.domain import Float
from tests.results.answers.test_answer import KEY, sweep_of, value
from tests.results.answers.test_effects_table import curve_of, with_range
from tests.results.conftest import build_record
from tests.results.figures.conftest import caption_of, ends_of, panel_of, panels_of, points_of

EFFECTS = sweep_of([value(0.0, None), value(0.45, 0.014), value(1.0, -0.02)])
RATE = SearchedKey(name="rate", values=(), range=Float(low=0.1, high=4.0, log=True))


def with_rmse(effects: SweepEffects) -> SweepEffects:
    """The same effects on the error of a regression, of which lower is better."""
    tasks = {"sts": replace(TASKS["sts"], metric="rmse")}
    column = replace(next(iter(effects.columns.values())), task="sts", tasks=tasks)
    return replace(effects, columns={"sts": column}, metric="sts")


def given_scores(task: str, values: Mapping[str, float]) -> TrialScores:
    return TrialScores(epochs={}, values={(task, "dev"): values}, covariances={}, trainings={}, tasks=TASKS)


def test_differences_and_interval_ends_are_those_of_the_effects() -> None:
    effects = sweep_of([value(0.0, None), value(0.45, 0.014), value(1.0, -0.002), value(3.0, None)])
    panel = panel_of(forest_plot(effects, replace(KEY, values=(0.0, 0.45, 1.0, 3.0))))
    significant, undecided = panel.named(SIGNIFICANT), panel.named(UNDECIDED)
    assert (panel.title, panel.lines) == ("overall", [0.0])
    assert list(panel.y["categoryarray"]) == ["0 (base)", "0.45", "1", "3"], "also of what cannot be compared"
    assert points_of(significant) == [(pytest.approx(0.014), "0.45")]
    assert points_of(undecided) == [(pytest.approx(-0.002), "1")]
    assert significant["marker"] != undecided["marker"]
    assert ends_of(significant) == [pytest.approx((0.004, 0.024))]
    assert ends_of(undecided) == [pytest.approx((-0.012, 0.008))]
    assert points_of(panel.traces[-1]) == [(0.0, "0 (base)")]
    assert significant["text"][0] == "smart.weight 0.45<br>overall 0.700, +0.014<br>95 %: +0.004 to +0.024<br>3 trials"
    assert panel.x["title"]["text"] == "difference from 0"


def test_numbers_stand_in_their_order_and_names_as_listed() -> None:
    numbers: tuple[Any, ...] = (1.0, 0.05, 0.45)
    cases = [(numbers, ["0.05", "0.45", "1"]), (("b", "a"), ["b", "a"])]
    for values, expected in cases:
        base = values[1]
        key = replace(KEY, values=values, base=base)
        effects = sweep_of([value(own, None if own == base else 0.01) for own in values])
        shown = panel_of(forest_plot(effects, key)).y["categoryarray"]
        assert [name.split(" ")[0] for name in shown] == expected


def test_of_an_error_lower_is_better_and_low_ends_stay_low() -> None:
    panel = panel_of(forest_plot(with_rmse(EFFECTS), KEY))
    assert panel.title.endswith("RMSE, lower is better")
    found = panel.named(SIGNIFICANT)
    assert found["x"] == pytest.approx([-0.014, 0.02])
    assert ends_of(found) == [pytest.approx((-0.024, -0.004)), pytest.approx((0.01, 0.03))]


def test_without_replicates_differences_have_no_intervals() -> None:
    panel = panel_of(forest_plot(sweep_of([value(0.0, None), value(0.45, 0.014, None)], is_known=False), KEY))
    found = panel.named(UNDECIDED)
    assert found["x"] == pytest.approx([0.014])
    assert math.isnan(ends_of(found)[0][0])
    assert "interval not known" in found["text"][0]


def test_values_with_equal_short_texts_are_rows_of_their_own() -> None:
    first, second = 0.45, 0.45000001
    effects = sweep_of([value(0.0, None), value(first, 0.014), value(second, -0.02)])
    key = replace(KEY, values=(0.0, first, second))
    assert panel_of(forest_plot(effects, key)).named(SIGNIFICANT)["y"] == ["0.45", "0.45000001"]
    records = [build_record(number, params={"smart.weight": weight}) for number, weight in enumerate((first, second))]
    scores = given_scores("overall", {"0000-r0": 0.5, "0001-r0": 0.6})
    assert panel_of(scores_by_value(effects, records, scores, key)).named("trial")["x"] == ["0.45", "0.45000001"]


def test_overall_comes_first_and_tasks_whose_values_cannot_be_compared_have_no_panel() -> None:
    overall = EFFECTS.columns["overall"]
    alone = replace(overall, task="qqp", values={KEY.name: overall.values[KEY.name][:1]})
    columns = {"sst": replace(overall, task="sst"), "qqp": alone, "sts": replace(overall, task="sts")}
    titles = [
        [panel.title for panel in panels_of(forest_plot(replace(EFFECTS, columns=own), KEY))]
        for own in ({**columns, "overall": overall}, columns)
    ]
    tasks = ["SST, accuracy", "STS, Pearson's correlation"]
    assert titles == [["overall", *tasks], tasks]


def test_only_keys_with_listed_values_have_differences() -> None:
    assert [figure.layout.title.text for figure in forest_plots(with_range())] == ["Effect of smart.weight"]
    assert forest_plots(replace(EFFECTS, columns={})) == []


@pytest.mark.parametrize("is_error", [False, True])
def test_replicates_are_points_and_means_are_those_of_the_effects(is_error: bool) -> None:
    sign, task, title = (-1, "sts", "STS") if is_error else (1, "overall", "overall")
    effects = with_rmse(EFFECTS) if is_error else EFFECTS
    records = [
        build_record(0, 0),
        build_record(0, 1),
        build_record(2, params={"smart.weight": 1.0}),
        build_record(3, params={"other": 1}),  # without the key
        build_record(4, status="pruned", params={"smart.weight": 2.0}),
        build_record(6, params={"smart.weight": None}),
        build_record(5),  # without a score
    ]
    scores = {f"{record.trial_id}": sign * (0.5 + number / 10) for number, record in enumerate(records[:6])}
    panel = panel_of(scores_by_value(effects, records, given_scores(task, scores), KEY))
    points = panel.named("trial")
    assert points_of(points) == [("0 (base)", 0.5), ("0 (base)", 0.6), ("1", 0.7), ("2", 0.9), ("none", 1.0)]
    places = ["0 (base)", "0.45", "1", "2", "none"]
    assert list(panel.x["categoryarray"]) == places, "a pruned trial's value has a place too"
    assert points_of(panel.named("mean")) == [(name, sign * 0.7) for name in ("0 (base)", "0.45", "1")]
    assert points["text"][1] == f"0000-r1<br>smart.weight 0<br>{title} 0.600"


@pytest.mark.parametrize(("is_error", "sign"), [(False, 1), (True, -1)])
def test_range_has_its_curve_and_a_band_around_it(is_error: bool, sign: int) -> None:
    effects = sweep_of([], values={}, curves={"rate": curve_of()})
    effects = with_rmse(effects) if is_error else effects
    task = "sts" if is_error else "overall"
    records = [build_record(0, params={"rate": 0.3}), build_record(1, params={})]
    scores = given_scores(task, {"0000-r0": 0.5, "0001-r0": 0.5})
    panel, curve = panel_of(scores_by_value(effects, records, scores, RATE)), curve_of()
    line, band = panel.named("fitted curve"), panel.named("95 % band")
    means = list(sign * curve.means)
    assert panel.x["type"] == "log"
    unfitted = scores_by_value(sweep_of([], values={}), records, given_scores("overall", {"0000-r0": 0.5}), RATE)
    assert [trace["name"] for trace in panel_of(unfitted).traces] == ["trial"]
    assert "fitted curve" not in caption_of(unfitted)
    assert points_of(panel.named("trial")) == [(0.3, sign * 0.5)]
    assert line["x"] == pytest.approx(list(curve.points))
    assert line["y"] == pytest.approx(means)
    above = [mean + 0.004 for mean in means]
    assert band["y"] == pytest.approx([*above, *(mean - 0.004 for mean in reversed(means))])


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
    scores = TrialScores(
        epochs={},
        values={(task, "dev"): {"0000-r0": 0.5} for task in ("sst", "overall")},
        covariances={},
        trainings={},
        tasks=TASKS,
    )
    params = {"smart.weight": 0.0, **{key.name: 1 for key in keys[1:]}}
    figures = value_figures(effects, [build_record(0, params=params)], scores)
    assert {figure.layout.meta["name"]: len(panels_of(figure)) for figure in figures} == expected


def test_trials_that_do_not_count_are_outlines() -> None:
    records = [build_record(0, replicate) for replicate in range(3)]
    scores = given_scores("overall", {record.trial_id: 0.5 for record in records})
    effects = replace(EFFECTS, counted=frozenset({"0000-r0", "0000-r1"}))
    panel = panel_of(scores_by_value(effects, records, scores, KEY))
    counted, other = panel.named("trial"), panel.named(NOT_COUNTED)
    assert (len(points_of(counted)), len(points_of(other))) == (2, 1)
    assert other["marker"]["symbol"] == f"{counted['marker']['symbol']}-open"


def test_caption_says_only_what_is_drawn() -> None:
    one_kind = caption_of(forest_plot(sweep_of([value(0.0, None), value(0.45, 0.014)]), KEY))
    assert "grey" not in one_kind
    assert "not trained often enough" not in one_kind
    unknown = caption_of(forest_plot(sweep_of([value(0.0, None), value(0.45, 0.014, None)]), KEY))
    assert "not trained often enough" in unknown
    assert "95 %" not in unknown


def test_answer_shows_the_score_in_question_and_for_a_key_of_one_task_that_task_too() -> None:
    column = EFFECTS.columns["overall"]
    columns = {name: replace(column, task=name) for name in ("sst", "qqp", "overall")}
    (figure,) = answer_figures(replace(EFFECTS, columns=columns), [], given_scores("overall", {}))
    assert [panel.title for panel in panels_of(figure)] == ["overall"]
    own = replace(KEY, name="tasks.qqp.loss")
    of_task = {name: replace(one, values={own.name: one.values[KEY.name]}) for name, one in columns.items()}
    (figure,) = answer_figures(replace(EFFECTS, keys=[own], columns=of_task), [], given_scores("overall", {}))
    assert [panel.title for panel in panels_of(figure)] == ["overall", "QQP, accuracy"]
    many = {f"k{number}": [value(0.0, None), value(1.0, 0.002)] for number in range(MAX_KEYS)}
    keys = [SearchedKey(name=name, values=(0.0, 1.0), base=0.0) for name in many]
    every = replace(EFFECTS, keys=[*keys, KEY], columns={"overall": replace(column, values={**many, **column.values})})
    first, *_ = answer_figures(every, [], given_scores("overall", {}))
    assert first.layout.meta["name"] == "answer-smart-weight", "the others are not decided"
    unknown = {"overall": replace(column, is_known=False)}
    assert list(answer_figures(replace(EFFECTS, columns=unknown), [], given_scores("overall", {}))) == []
