"""The order of a search, its best score so far, and the places of values on their axes."""

import math
from dataclasses import replace
from typing import Any

import pytest

from mtlib.tasks import TASKS
from results.analysis.effects.searched_keys import KeyRange, SearchedKey
from results.analysis.ranking.render import short_numbers
from results.figures.chart import Chart, Labels, Series
from results.figures.search import (
    KINDS,
    MAX_AXES,
    MAX_AXIS_CHARACTERS,
    SearchedScore,
    axis_texts,
    history_chart,
    importance_chart,
    parallel_chart,
    position,
    range_texts,
    slice_chart,
)
from results.records.trials import TrialRecord
from tests.results.conftest import build_record
from tests.results.figures.conftest import bars_of, series_of

OVERALL = SearchedScore(name="overall", tasks=TASKS)
RMSE = SearchedScore(name="sts", tasks={"sts": replace(TASKS["sts"], metric="rmse")})
"""Records have its negative."""
RATE = SearchedKey(name="optimizer.rate", values=(), range=KeyRange(low=1e-5, high=1e-3, is_log=True))
SIZE = SearchedKey(name="size", values=(), range=KeyRange(low=8, high=16, is_log=False))
MODE = SearchedKey(name="mode", values=("paper", (1, 2), "none"), base="paper")
ALONE = SearchedKey(name="alone", values=(True,), base=True)


def trial(
    number: int, score: float | None, status: str = "complete", minute: int | None = 0, **changes: Any
) -> TrialRecord:
    best = {} if score is None else {"overall": score}
    started = None if minute is None else f"2024-05-01T10:{minute:02d}:00.000+00:00"
    return build_record(number, status=status, best=best, started=started, **changes)


def texts_of(chart: Chart) -> dict[str, dict[float, str]]:
    """The texts of each axis of parallel coordinates by their position."""
    (labels,) = [mark for panel in chart.panels for mark in panel.marks if isinstance(mark, Labels)]
    places = list(zip(labels.y, labels.x, labels.texts, strict=True))
    return {str(name): {x: text for axis, x, text in places if axis == name} for name in labels.y}


def kinds(chart: Chart) -> dict[str, tuple[list[Any], list[Any]]]:
    """The points of the only panel by kind of trial."""
    (panel,) = chart.panels
    found = [mark for mark in panel.marks if isinstance(mark, Series)]
    return {mark.name: (list(mark.x), list(mark.y)) for mark in found}


def test_history_is_in_the_order_of_start_with_the_best_so_far() -> None:
    records = [
        trial(0, 0.5, minute=2),
        trial(1, 0.4, "pruned", minute=1),
        trial(2, 0.9, "failed", minute=3),
        trial(3, 0.3, "reused", minute=None),
        trial(4, 0.6, "running", minute=4),
        trial(5, None, minute=0),
    ]
    chart = history_chart(records, OVERALL)
    assert kinds(chart) == {
        "best so far": ([1, 2, 3, 5], [0.3, 0.4, 0.5, 0.6]),
        "trained to the end": ([1, 3], [0.3, 0.5]),
        "pruned": ([2], [0.4]),
        "not ended": ([5], [0.6]),
        "failed": ([4], [0.9]),
    }
    assert chart.frame["trial"].tolist() == ["0003-r0", "0001-r0", "0000-r0", "0002-r0", "0004-r0"]
    assert series_of(chart.panels[0], "pruned").hover[0].endswith("pruned\noverall 0.400 at epoch 2")
    steps = [text.split("\n") for text in series_of(chart.panels[0], "best so far").hover]
    assert [lines[:2] for lines in steps] == [["best so far", f"000{number}-r0"] for number in (3, 1, 0, 4)]
    assert steps[1][-1] == "overall 0.400 at epoch 2"


def test_overall_scores_of_different_tasks_have_no_best_so_far() -> None:
    few = replace(trial(1, 0.6), best={"sst": 0.6, "overall": 0.6})
    records = [replace(trial(0, 0.5), best={"sst": 0.4, "sts": 0.6, "overall": 0.5}), few]
    assert not OVERALL.is_comparable(records)
    assert list(kinds(history_chart(records, OVERALL))["best so far"][0]) == []
    assert SearchedScore(name="sst", tasks=TASKS).is_comparable(records)
    unscored = [replace(records[0], best={"sst": 0.4, "sts": 0.6}), few]
    assert all(OVERALL.is_comparable(others) for others in (unscored, [few, few], []))


def test_kinds_keep_their_styles() -> None:
    chart = history_chart([trial(0, 0.5, "failed"), trial(1, 0.5)], OVERALL)
    assert {kind: series_of(chart.panels[0], kind).style for kind in ("failed", KINDS[0])} == {"failed": 3, KINDS[0]: 0}


def test_search_without_scores_has_empty_charts() -> None:
    for records in ([], [trial(0, None, "queued", epochs=0)]):
        charts = [history_chart(records, OVERALL), importance_chart({})]
        charts += [slice_chart(records, [RATE, MODE], OVERALL), parallel_chart(records, [RATE, MODE], OVERALL, {})]
        assert all(chart.is_empty for chart in charts)


def test_importances_are_bars_from_the_largest() -> None:
    (bars,) = bars_of(importance_chart({"a": 0.2, "b": 0.7, "c": 0.1})).values()
    assert (list(bars.categories), list(bars.values)) == (["b", "a", "c"], [0.7, 0.2, 0.1])
    assert bars.hover[0] == "b\n70.0% of the variance"


def test_slices_show_scores_against_each_key_of_the_trials_that_have_it() -> None:
    records = [
        trial(0, 0.5, params={"optimizer.rate": 1e-4, "mode": [1, 2]}),
        trial(1, 0.4, "pruned", params={"mode": "none"}),
        trial(2, 0.9, "failed", params={"mode": "none"}),
    ]
    chart = slice_chart(records, [RATE, MODE, ALONE], OVERALL)
    assert [panel.title for panel in chart.panels] == ["optimizer.rate", "mode"]
    rate, mode = chart.panels
    assert (rate.x.scale, list(series_of(rate).x), list(series_of(rate).y)) == ("log", [1e-4], [0.5])
    assert list(mode.x.categories) == ["paper", "1-2", "none"]
    assert list(series_of(mode, KINDS[0]).x) == ["1-2"]
    assert list(series_of(mode, "pruned").x) == ["none"]


@pytest.mark.parametrize(
    ("key", "value", "place"),
    [
        (RATE, 1e-5, 0.0),
        (RATE, 1e-4, 0.5),
        (RATE, 1e-3, 1.0),
        (SIZE, 8, 0.0),
        (SIZE, 10, 0.25),
        (SIZE, 16, 1.0),
        (MODE, "paper", 0.0),
        (MODE, (1, 2), 0.5),
        (MODE, "none", 1.0),
        (ALONE, True, 0.5),
        (RATE, None, None),
        (MODE, None, None),
    ],
)
def test_values_have_places_on_their_axes(key: SearchedKey, value: Any, place: float | None) -> None:
    assert position(key, value) == pytest.approx(place)


def test_each_trial_is_a_line_through_its_values_to_its_score() -> None:
    values = {"optimizer.rate": 1e-4, "mode": "none"}
    records = [
        trial(0, 0.5, params=values),
        trial(1, 0.9, params={"mode": "paper"}),
        trial(2, 0.7, params=values),
        trial(3, 0.8, params=values),
        trial(4, 1.0, "failed", params=values),
    ]
    chart = parallel_chart(records, [RATE, MODE], OVERALL, {})
    assert list(chart.panels[0].y.categories) == ["rate", "mode", "overall"]
    found = kinds(chart)
    assert {name: x for name, (x, _) in found.items()} == {
        "other half": pytest.approx([0.5, 1.0, 0.0, 0.0, 0.5, 1.0, 0.5, 0.0]),
        "second quarter": pytest.approx([0.5, 1.0, 0.75, 0.0]),
        "best quarter": [0.0, 0.0, 1.0, 0.0],
    }
    assert found["second quarter"][1] == ["rate", "mode", "overall", None]
    assert found["best quarter"][1] == [None, "mode", "overall", None]
    assert len(chart.frame) == 4


def test_equal_scores_are_in_the_middle_and_one_trial_is_no_chart() -> None:
    records = [trial(number, 0.5, params={"mode": "paper"}) for number in range(2)]
    chart = parallel_chart(records, [MODE], OVERALL, {})
    assert {tuple(x) for x, _ in kinds(chart).values()} == {(0.0, 0.5, 0.0)}
    assert texts_of(chart)["overall"] == {0.5: "0.500"}
    assert parallel_chart(records[:1], [MODE], OVERALL, {}).is_empty


def test_axes_have_names_of_their_own() -> None:
    names = ["tasks.sst.rate", "tasks.qqp.rate", "size", "other.overall", "rate"]
    keys = [SearchedKey(name=name, values=(1,)) for name in names]
    records = [trial(number, 0.5 + number, params=dict.fromkeys(names, 1)) for number in range(2)]
    assert list(parallel_chart(records, keys, OVERALL, {}).panels[0].y.categories) == [
        "sst.rate",
        "qqp.rate",
        "size",
        "other.overall",
        "rate",
        "overall",
    ]


@pytest.mark.parametrize("num_keys", [MAX_AXES, MAX_AXES + 1])
def test_axes_that_are_left_out_are_stated(num_keys: int) -> None:
    keys = [SearchedKey(name=f"k{number}", values=(1,)) for number in range(num_keys)]
    records = [trial(number, 0.5 + number, params={key.name: 1 for key in keys}) for number in range(2)]
    chart = parallel_chart(records, keys, OVERALL, {})
    assert len(chart.panels[0].y.categories) == MAX_AXES + 1
    assert ("The first 10 of 11 keys" in chart.caption) == (num_keys > MAX_AXES)
    best = parallel_chart(records, keys, OVERALL, {"k9": 0.5, f"k{num_keys - 1}": 0.6, "k1": 0.1})
    assert list(best.panels[0].y.categories)[:2] == (["k9", "k1"] if num_keys == MAX_AXES else ["k10", "k9"])
    assert ("The 10 most important of 11 keys" in best.caption) == (num_keys > MAX_AXES)


def test_positions_do_not_depend_on_the_base_of_the_logarithm() -> None:
    place = position(RATE, 3e-4)
    assert place == pytest.approx((math.log10(3e-4) + 5) / 2)


def scored_by_rmse() -> list[TrialRecord]:
    """Trials in the order of their start with RMSE 0.8, 0.5 and 0.9."""
    return [
        replace(trial(number, None, minute=number, params={"mode": "paper"}), best={"sts": -value})
        for number, value in enumerate((0.8, 0.5, 0.9))
    ]


def test_metrics_of_which_lower_is_better_are_shown_as_their_values() -> None:
    history = history_chart(scored_by_rmse(), RMSE)
    assert kinds(history) == {"best so far": ([1, 2, 3], [0.8, 0.5, 0.5]), KINDS[0]: ([1, 2, 3], [0.8, 0.5, 0.9])}
    assert history.frame["sts"].tolist() == [0.8, 0.5, 0.9]
    assert history.panels[0].y.title == "STS, RMSE"
    assert "(STS, RMSE, lower is better)" in history.caption
    assert series_of(history.panels[0], KINDS[0]).hover[1].endswith("STS, RMSE 0.500 at epoch 1")
    slices = slice_chart(scored_by_rmse(), [MODE], RMSE)
    assert list(series_of(slices.panels[0]).y) == slices.frame["sts"].tolist() == [0.8, 0.5, 0.9]


def test_best_quarter_of_a_metric_of_which_lower_is_better_has_the_lowest_value() -> None:
    chart = parallel_chart(scored_by_rmse(), [MODE], RMSE, {})
    assert kinds(chart)["best quarter"][0] == [0.0, 0.0, 0.0]
    assert texts_of(chart)["STS, RMSE"] == {0.0: "0.500", 0.5: "0.700", 1.0: "0.900"}


@pytest.mark.parametrize(
    ("key", "texts"),
    [
        (RATE, {0.0: "1e-5", 0.5: "0.0001", 1.0: "0.001"}),
        (SIZE, {0.0: "8", 0.5: "12", 1.0: "16"}),
        (MODE, {0.0: "paper", 0.5: "1-2", 1.0: "none"}),
        (ALONE, {0.5: "true"}),
        (SearchedKey(name="a", values=()), {}),
        (SearchedKey(name="a", values=tuple(range(5))), {0.0: "0", 0.25: "1", 0.5: "2", 0.75: "3", 1.0: "4"}),
        (SearchedKey(name="a", values=tuple(range(6))), {0.0: "0", 0.6: "3", 1.0: "5"}),
        (SearchedKey(name="a", values=("long_mode_of_combination", "b")), {0.0: "long_mode_of_co…", 1.0: "b"}),
    ],
)
def test_axes_of_parallel_coordinates_have_the_texts_of_values(key: SearchedKey, texts: dict[float, str]) -> None:
    assert axis_texts(key, MAX_AXIS_CHARACTERS) == texts
    assert sum(len(text) + 1 for text in texts.values()) <= MAX_AXIS_CHARACTERS


def test_long_names_of_axes_leave_less_room_for_texts() -> None:
    long = SearchedKey(name="mode", values=("a_long_value", "another_value", "third"))
    records = [trial(number, 0.5 + number, params={"mode": "third"}) for number in range(2)]
    for name, texts in (
        ("mode_of_twel", ["a_long_va…", "another_v…"]),
        ("mode_of_twenty_characters", ["a_lon…", "anoth…"]),
    ):
        chart = parallel_chart(records, [replace(long, name=name)], OVERALL, {})
        assert list(texts_of(chart)[name].values())[:2] == texts


def test_texts_at_the_ends_of_an_axis_stand_within_it() -> None:
    records = [trial(number, 0.5 + number, params={"mode": "paper"}) for number in range(2)]
    (panel,) = parallel_chart(records, [MODE], OVERALL, {}).panels
    (labels,) = [mark for mark in panel.marks if isinstance(mark, Labels)]
    assert list(labels.texts) == ["paper", "1-2", "none", "0.500", "1.000", "1.500"]
    assert list(labels.sides) == ["left", "centre", "right"] * 2


def test_range_of_one_value_has_one_text() -> None:
    assert range_texts(KeyRange(low=2.0, high=2.0, is_log=False), short_numbers) == {0.5: "2"}


def test_values_with_equal_short_texts_are_two_categories() -> None:
    close = SearchedKey(name="weight", values=(0.12345671, 0.12345672))
    records = [trial(number, 0.5, params={"weight": value}) for number, value in enumerate(close.values)]
    (panel,) = slice_chart(records, [close], OVERALL).panels
    assert list(panel.x.categories) == list(series_of(panel).x) == ["0.12345671", "0.12345672"]
