"""Known curves give known lines, by epoch and by trial; speeds and costs are those of the records."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
import pytest

from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from mtlib.tasks import TASKS
from results.analysis.ranking.rank import RankedConfiguration
from results.figures.chart import Chart, Panel, Reference
from results.figures.curves import (
    LOG_RATIO,
    MAX_HIGHLIGHTED,
    OTHERS,
    SINGLE_TRIALS,
    Training,
    cost_chart,
    gradient_chart,
    learning_chart,
    loss_chart,
    penalty_chart,
    speed_chart,
    training_of,
)
from results.records.trials import TrialRecord
from tests.one_line_error import one_line_error
from tests.results.conftest import build_record
from tests.results.figures.conftest import all_series_of, curve, curve_frame, ranked, series_of

CHARTS = (learning_chart, loss_chart, penalty_chart, gradient_chart, speed_chart)


def training(
    *curves: pd.DataFrame, records: Sequence[TrialRecord] = (), best: Sequence[RankedConfiguration] = ()
) -> Training:
    return training_of(curve_frame(*curves), records or [build_record(number) for number in range(3)], TASKS, best)


def staged(number: int, *epochs: int) -> TrialRecord:
    """A trial whose stages have these lengths."""
    stages = tuple(StageConfig(tasks=("sst",), epochs=count) for count in epochs)
    return build_record(number, config=TrialConfig(stages=stages).to_json())


def panel_of(chart: Chart, title: str) -> Panel:
    (found,) = [panel for panel in chart.panels if panel.title == title]
    return found


def test_lines_of_trials_have_gaps_between_them() -> None:
    own = [curve("0001-r0", [0.3, 0.4, 0.5]), curve("0000-r0", [0.1, 0.2])]
    chart = learning_chart(
        training(*own, curve("0000-r0", [9.0], metric="loss"), curve("0000-r0", [9.0], task="qqp", metric="f1"))
    )
    (panel,) = chart.panels
    line = series_of(panel)
    assert panel.title == "SST, accuracy"
    assert list(line.x) == [1, 2, 2, 1, 2, 3, 3]
    assert list(line.y) == [0.1, 0.2, None, 0.3, 0.4, 0.5, None]
    assert list(line.hover) == ["0000-r0, dev\nsmart.weight 0"] * 3 + ["0001-r0, dev\nsmart.weight 0.5"] * 4
    assert (line.is_faint, line.name, line.mode) == (True, OTHERS, "line")
    assert len(chart.frame) == 5


def test_hovering_a_line_shows_few_of_many_values_a_line_each() -> None:
    params = {f"key.number{number}": number for number in range(14)}
    chart = learning_chart(training(curve("0000-r0", [0.5]), records=[build_record(0, params=params)]))
    lines = series_of(chart.panels[0]).hover[0].split("\n")
    assert lines == ["0000-r0, dev", *(f"{name} {value}" for name, value in list(params.items())[:8]), "and 6 more"]


def test_train_is_dashed_beside_dev_and_solid_alone() -> None:
    beside = all_series_of(
        learning_chart(training(curve("0000-r0", [0.5, 0.5]), curve("0000-r0", [0.5, 0.6], split="train"))).panels[0]
    )
    assert [(line.dash, line.name) for line in beside] == [("solid", OTHERS), ("dashed", OTHERS)]
    assert list(beside[1].y) == [0.5, 0.6, None]
    alone = series_of(loss_chart(training(curve("0000-r0", [2.0, 1.0], split="train", metric="loss"))).panels[0])
    assert (alone.dash, alone.name, list(alone.y)) == ("solid", OTHERS, [2.0, 1.0, None])


def test_best_configurations_have_styles_by_rank_and_lie_above_the_others() -> None:
    own = [curve(f"{number:04d}-r0", [0.1 * number, 0.2]) for number in range(3)]
    panel = learning_chart(training(*own, best=[ranked(2), ranked(0), ranked(1, None)])).panels[0]
    assert [(line.name, line.style, line.is_faint) for line in all_series_of(panel)] == [
        (OTHERS, 0, True),
        ("smart.weight 0", 1, False),
        ("smart.weight 1", 0, False),
    ]
    assert [line.y[0] for line in all_series_of(panel)] == pytest.approx([0.1, 0.0, 0.2])
    assert all_series_of(panel)[1].mode == "line and points"


@pytest.mark.parametrize(
    ("num_trials", "num_best", "sentence"),
    [
        (3, 1, " The best configuration has a colour, the others are grey."),
        (MAX_HIGHLIGHTED + 1, 99, f" The best {MAX_HIGHLIGHTED} configurations have colours, the others are grey."),
        (3, 3, ""),
        (3, 0, ""),
    ],
)
def test_caption_states_colours_where_others_are_grey(num_trials: int, num_best: int, sentence: str) -> None:
    records = [build_record(number) for number in range(num_trials)]
    best = [ranked(number) for number in range(min(num_best, num_trials))]
    chart = loss_chart(training(records=records, best=best))
    assert chart.caption.endswith(f"without penalties.{sentence}")


def test_replicates_of_a_best_configuration_are_grey_and_their_mean_is_coloured() -> None:
    records = [build_record(number, replicate) for number in (0, 1) for replicate in (0, 1)]
    own = [
        curve("0000-r0", [0.4, 0.5, 0.9]),  # the other replicate has not come to the third epoch
        curve("0000-r1", [0.6, 0.9]),
        curve("0001-r0", [0.1, 0.2]),
        curve("0001-r1", [0.2, 0.3]),
    ]
    chart = learning_chart(training(*own, records=records, best=[ranked(0)]))
    grey, mean = all_series_of(chart.panels[0])
    assert (grey.name, grey.is_faint, mean.name, mean.is_faint) == (SINGLE_TRIALS, True, "smart.weight 0", False)
    assert list(grey.y) == [0.4, 0.5, 0.9, None, 0.6, 0.9, None, 0.1, 0.2, None, 0.2, 0.3, None]
    assert [value for value in mean.y if value is not None] == pytest.approx([0.5, 0.7])
    assert mean.hover[0].startswith("configuration 0000, mean of 2 replicates, dev")
    assert "the coloured line is the mean" in chart.caption


@pytest.mark.parametrize(("lengths", "mode"), [((1, 1), "points"), ((2, 1), "line and points"), ((2, 2), "line")])
def test_trials_of_one_epoch_are_visible(lengths: Sequence[int], mode: str) -> None:
    own = [curve(f"{number:04d}-r0", [0.5] * length) for number, length in enumerate(lengths)]
    assert series_of(learning_chart(training(*own)).panels[0]).mode == mode


@pytest.mark.parametrize(
    ("stages", "num_epochs", "places"),
    [
        (((2, 3, 1), (2, 3, 1)), 6, [2.5, 5.5]),
        (((2, 3, 1), (2, 3, 1)), 5, [2.5]),
        (((2, 3), (3, 3)), 5, []),
        (((5,), (5,)), 5, []),
    ],
)
def test_stages_end_between_epochs_where_all_trials_have_the_same(
    stages: Sequence[tuple[int, ...]], num_epochs: int, places: list[float]
) -> None:
    records = [staged(number, *epochs) for number, epochs in enumerate(stages)]
    panel = learning_chart(training(curve("0000-r0", [0.5] * num_epochs), records=records)).panels[0]
    assert [mark.at for mark in panel.marks if isinstance(mark, Reference)] == places


def test_losses_are_shown_by_task() -> None:
    own = [
        curve("0000-r0", [1.0, 0.5], task=task, metric="loss", split=split)
        for task in ("sst", "qqp")
        for split in ("dev", "train")
    ]
    chart = loss_chart(training(*own, curve("0000-r0", [0.5])))
    assert [panel.title for panel in chart.panels] == ["SST", "QQP"]
    assert all(list(line.y) == [1.0, 0.5, None] for panel in chart.panels for line in all_series_of(panel))


@pytest.mark.parametrize(
    ("first", "last", "scale"), [(LOG_RATIO + 1, 1.0, "log"), (LOG_RATIO, 1.0, "linear"), (LOG_RATIO, 0.0, "linear")]
)
def test_penalties_are_logarithmic_only_above_zero_and_over_decades(first: float, last: float, scale: str) -> None:
    values = {"smart": [first, last], "tokens": [9.0, 9.0], "loss": [9.0, 9.0], "gradient_norm": [9.0, 9.0]}
    own = [curve("0000-r0", found, split="train", metric=metric) for metric, found in values.items()]
    scored = [curve("0000-r0", [0.5, 0.5], split=split, metric="macro_f1") for split in ("dev", "train")]
    (panel,) = penalty_chart(training(*own, *scored)).panels
    assert (panel.title, panel.y.title, panel.y.scale) == ("smart, SST", "smart", scale)
    assert list(series_of(panel).y) == [first, last, None]


@pytest.mark.parametrize(("last", "is_drawn"), [(99.0, False), (98.9, True)])
def test_constant_penalties_are_named_in_the_caption(last: float, is_drawn: bool) -> None:
    own = [
        curve("0000-r0", [100.0, last], split="train", metric="noise_norm"),
        curve("0000-r0", [0.0, 0.0], task="qqp", split="train", metric="noise_norm"),
        curve("0000-r0", [1.0, 0.5], split="train", metric="smart"),
    ]
    chart = penalty_chart(training(*own))
    assert [panel.title for panel in chart.panels] == ["noise norm, SST"] * is_drawn + ["smart, SST"]
    assert ("SST's noise norm is 99.5 throughout." in chart.caption) == (not is_drawn)
    assert "QQP's noise norm is 0 throughout." in chart.caption
    assert "The noise norm is the largest entry of SMART's perturbation" in chart.caption
    assert len(chart.frame) == 6


def test_penalties_are_drawn_where_all_are_constant() -> None:
    chart = penalty_chart(training(curve("0000-r0", [2.0, 2.0], split="train", metric="smart")))
    assert [panel.title for panel in chart.panels] == ["smart, SST"]
    assert "throughout" not in chart.caption
    assert "noise norm" not in chart.caption


def test_gradient_norms_are_means_over_epochs_by_task() -> None:
    own = [
        curve("0000-r0", [1.0, 3.0], split="train", metric="gradient_norm"),
        curve("0000-r0", [10.0], task="sts", split="train", metric="gradient_norm"),
        curve("0001-r0", [0.0], split="train", metric="gradient_norm"),
        curve("0002-r0", [5.0], split="train", metric="gradient_norm"),
    ]
    (panel,) = gradient_chart(training(*own, best=[ranked(0)])).panels
    best, others = series_of(panel, "smart.weight 0"), series_of(panel, OTHERS)
    assert list(panel.x.categories) == ["SST", "STS"]
    assert (list(best.x), list(best.y)) == (["SST", "STS"], [2.0, 10.0])
    assert (list(others.x), list(others.y)) == (["SST"], [5.0])
    assert best.hover[1] == "0000-r0\nsmart.weight 0\nSTS: 10"


def test_task_that_the_sweep_does_not_describe_is_named() -> None:
    own = training(curve("0000-r0", [2.0], metric="gradient_norm", split="train", task="old"))
    assert one_line_error(gradient_chart, own).startswith("unknown task 'old'")


def test_speed_is_the_tokens_of_all_tasks_by_the_seconds_of_each_epoch() -> None:
    own = [
        curve("0000-r0", [300.0, 600.0, 600.0], metric="tokens", split="train", seconds=[2.0, 6.0, 6.0]),
        curve("0000-r0", [500.0, 600.0, 600.0], metric="tokens", split="train", task="qqp", seconds=[2.0, 6.0, 6.0]),
        curve("0001-r0", [100.0], metric="tokens", split="train", seconds=[4.0]),
    ]
    chart = speed_chart(training(*own))
    line = series_of(chart.panels[0])
    assert (list(line.x), list(line.y)) == ([1, 2, 2, 1, 1], [400.0, 300.0, None, 25.0, None])
    assert chart.frame["value"].tolist() == [400.0, 300.0, 25.0]  # an epoch that took no time was reused


def test_cost_shows_how_far_trials_were_trained() -> None:
    statuses = {"complete": 0.5, "failed": 0.9, "pruned": 0.4, "running": 0.3, "reused": 0.7}
    records = [
        build_record(number, status=status, best={"overall": score}, device_seconds=number + 1.0)
        for number, (status, score) in enumerate(statuses.items())
    ]
    records += [build_record(8, best={}), build_record(9, status="reused", best={"overall": 0.8}, device_seconds=0.0)]
    chart = cost_chart({"mine": records})
    (panel,) = chart.panels
    assert {line.name: (line.style, list(line.x), list(line.y)) for line in all_series_of(panel)} == {
        "trained to the end": (0, [1.0, 5.0, 0.0], [0.5, 0.7, 0.8]),
        "pruned": (1, [3.0], [0.4]),
        "not ended": (2, [4.0], [0.3]),
        "failed": (3, [2.0], [0.9]),
    }
    assert chart.caption.endswith("at 0. 1 of 7 trials have no overall score and are not shown.")
    assert chart.frame["device_seconds"].tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 0.0]
    assert all_series_of(panel)[1].hover[0].startswith("0002-r0\n")


def test_costs_of_several_sweeps_are_named_by_sweep() -> None:
    chart = cost_chart({"first": [build_record(0), build_record(1)], "second": [build_record(0)]})
    lines = {line.name: line for line in all_series_of(chart.panels[0])}
    assert {name: (line.style, len(line.x)) for name, line in lines.items()} == {"first": (0, 2), "second": (1, 1)}
    assert lines["second"].hover[0].startswith("second\n0000-r0\n")
    assert chart.frame["sweep"].tolist() == ["first", "first", "second"]
    assert chart.caption.endswith("costs nothing.")


@pytest.mark.parametrize("make", CHARTS)
def test_sweep_without_curves_has_empty_charts(make: Any) -> None:
    for records in ([build_record(0, status="failed", best={})], [build_record(0, status="queued", best={})]):
        assert make(training(records=records)).is_empty
        assert cost_chart({"mine": records}).is_empty
    assert make(training_of(curve_frame(), [], TASKS, [])).is_empty
    assert cost_chart({"mine": []}).is_empty


def test_failed_trials_without_curves_are_left_out() -> None:
    records = [build_record(0), build_record(1, status="failed", best={})]
    chart = learning_chart(training(curve("0000-r0", [0.5, 0.6]), records=records, best=[ranked(0), ranked(1, None)]))
    assert [line.name for line in all_series_of(chart.panels[0])] == ["smart.weight 0"]


def test_overall_score_comes_first() -> None:
    own = [curve("0000-r0", [0.5]), curve("0000-r0", [0.6], task="overall", metric="overall")]
    chart = learning_chart(training(*own))
    assert [panel.title for panel in chart.panels] == ["overall", "SST, accuracy"]
    assert series_of(panel_of(chart, "overall")).y[0] == 0.6


def test_curves_of_a_trial_that_began_since_the_records_were_read_are_left_out() -> None:
    found = training(curve("0000-r0", [0.1, 0.2]), curve("0009-r0", [0.3, 0.4]))
    assert set(learning_chart(found).frame["trial"]) == {"0000-r0"}
