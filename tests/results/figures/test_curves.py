"""Known curves give known lines, by epoch and by trial."""

from collections.abc import Callable, Sequence

import pandas as pd
import plotly.graph_objects as go
import pytest

from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from mtlib.tasks import TASKS
from results.figures.curves import (
    LOG_RATIO,
    OTHERS,
    SINGLE_TRIALS,
    Training,
    learning_curves,
    losses,
    penalties,
    training_of,
)
from results.figures.draw import COLOURS, FAINT, is_empty
from results.records.trials import TrialRecord
from results.stats.ranking import RankedConfiguration
from tests.results.conftest import build_record
from tests.results.figures.conftest import caption_of, curve, curve_frame, panel_of, panels_of, ranked

FIGURES = (learning_curves, losses, penalties)


def training(
    *curves: pd.DataFrame, records: Sequence[TrialRecord] = (), best: Sequence[RankedConfiguration] = ()
) -> Training:
    return training_of(curve_frame(*curves), records or [build_record(number) for number in range(3)], TASKS, best)


def staged(number: int, *epochs: int) -> TrialRecord:
    """A trial whose stages have these lengths."""
    stages = tuple(StageConfig(tasks=("sst",), epochs=count) for count in epochs)
    return build_record(number, config=TrialConfig(stages=stages).to_json())


def test_lines_of_trials_have_gaps_between_them() -> None:
    own = [curve("0001-r0", [0.3, 0.4, 0.5]), curve("0000-r0", [0.1, 0.2])]
    others = [curve("0000-r0", [9.0], metric="loss"), curve("0000-r0", [9.0], task="qqp", metric="f1")]
    panel = panel_of(learning_curves(training(*own, *others)))
    line = panel.named(OTHERS)
    assert panel.title == "SST, accuracy"
    assert line["x"] == [1, 2, 2, 1, 2, 3, 3]
    assert line["y"] == [0.1, 0.2, None, 0.3, 0.4, 0.5, None]
    assert line["text"] == ["0000-r0, dev<br>smart.weight 0"] * 3 + ["0001-r0, dev<br>smart.weight 0.5"] * 4
    assert (line["line"]["color"], line["mode"]) == (FAINT, "lines")


def test_train_is_dashed_beside_dev_and_solid_alone() -> None:
    own = (curve("0000-r0", [0.5, 0.5]), curve("0000-r0", [0.5, 0.6], split="train"))
    dev, train = panel_of(learning_curves(training(*own))).traces
    assert (dev["line"]["dash"], train["line"]["dash"]) == ("solid", "dash")
    assert train["y"] == [0.5, 0.6, None]
    alone = panel_of(losses(training(curve("0000-r0", [2.0, 1.0], split="train", metric="loss")))).traces[0]
    assert (alone["line"]["dash"], alone["y"]) == ("solid", [2.0, 1.0, None])


def test_best_configurations_have_colours_by_rank_and_lie_above_the_others() -> None:
    own = [curve(f"{number:04d}-r0", [0.1 * number, 0.2]) for number in range(3)]
    panel = panel_of(learning_curves(training(*own, best=[ranked(2), ranked(0), ranked(1, None)])))
    assert [(line["name"], line["line"]["color"]) for line in panel.traces] == [
        (OTHERS, FAINT),
        ("smart.weight 0", COLOURS[1]),
        ("smart.weight 1", COLOURS[0]),
    ]
    assert [line["y"][0] for line in panel.traces] == pytest.approx([0.1, 0.0, 0.2])


@pytest.mark.parametrize(("num_best", "is_stated"), [(2, True), (3, False)])
def test_caption_states_colours_where_others_are_grey(num_best: int, is_stated: bool) -> None:
    assert ("the others are grey" in caption_of(losses(training(best=[*map(ranked, range(num_best))])))) is is_stated


def test_replicates_of_a_best_configuration_are_grey_and_their_mean_is_coloured() -> None:
    records = [build_record(number, replicate) for number in (0, 1) for replicate in (0, 1)]
    own = [
        curve("0000-r0", [0.4, 0.5, 0.9]),  # the other replicate has not come to the third epoch
        curve("0000-r1", [0.6, 0.9]),
        curve("0001-r0", [0.1, 0.2]),
        curve("0001-r1", [0.2, 0.3]),
    ]
    figure = learning_curves(training(*own, records=records, best=[ranked(0)]))
    grey, mean = panel_of(figure).traces
    assert (grey["name"], mean["name"]) == (SINGLE_TRIALS, "smart.weight 0")
    assert grey["y"] == [0.4, 0.5, 0.9, None, 0.6, 0.9, None, 0.1, 0.2, None, 0.2, 0.3, None]
    assert [value for value in mean["y"] if value is not None] == pytest.approx([0.5, 0.7])
    assert mean["text"][0].startswith("configuration 0000, mean of 2 replicates, dev")
    assert "as the mean of their trials" in caption_of(figure)


@pytest.mark.parametrize(("lengths", "mode"), [((1, 1), "markers"), ((2, 1), "lines+markers"), ((2, 2), "lines")])
def test_trials_of_one_epoch_are_visible(lengths: Sequence[int], mode: str) -> None:
    own = [curve(f"{number:04d}-r0", [0.5] * length) for number, length in enumerate(lengths)]
    assert panel_of(learning_curves(training(*own))).traces[0]["mode"] == mode


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
    figure = learning_curves(training(curve("0000-r0", [0.5] * num_epochs), records=records))
    assert panel_of(figure).lines == places


def test_overall_scores_of_different_tasks_are_not_drawn_in_one_panel() -> None:
    metrics = {"sst": "accuracy", "overall": "overall"}
    trials = ("0000-r0", "0001-r0")
    own = [curve(one, [0.5], task=task, metric=metric) for one in trials for task, metric in metrics.items()]
    assert [panel.title for panel in panels_of(learning_curves(training(*own)))] == ["overall", "SST, accuracy"]
    more = training(*own, curve("0001-r0", [0.5], task="qqp"))
    titles = [panel.title for panel in panels_of(learning_curves(more))]
    assert titles == ["SST, accuracy", "QQP, accuracy"]


def test_losses_are_shown_by_task_or_of_one() -> None:
    tasks = [("sst", "dev"), ("qqp", "dev"), ("qqp", "train")]
    own = [curve("0000-r0", [1.0, 0.5], task=task, metric="loss", split=split) for task, split in tasks]
    found = training(*own, curve("0000-r0", [0.5]), curve("0009-r0", [9.0], metric="loss"))  # begun since
    assert [(panel.title, len(panel.traces)) for panel in panels_of(losses(found))] == [("SST", 1), ("QQP", 2)]
    assert [panel.title for panel in panels_of(losses(found, "qqp"))] == ["QQP"]
    assert all(line["y"] == [1.0, 0.5, None] for panel in panels_of(losses(found)) for line in panel.traces)


@pytest.mark.parametrize(
    ("first", "last", "scale"), [(LOG_RATIO + 1, 1.0, "log"), (LOG_RATIO, 1.0, "linear"), (LOG_RATIO, 0.0, "linear")]
)
def test_penalties_are_logarithmic_only_above_zero_and_over_decades(first: float, last: float, scale: str) -> None:
    values = {"smart": [first, last], "tokens": [9.0, 9.0], "loss": [9.0, 9.0], "gradient_norm": [9.0, 9.0]}
    own = [curve("0000-r0", found, split="train", metric=metric) for metric, found in values.items()]
    scored = [curve("0000-r0", [0.5, 0.5], split=split, metric="macro_f1") for split in ("dev", "train")]
    panel = panel_of(penalties(training(*own, *scored)))
    assert (panel.title, panel.y["title"]["text"], panel.y["type"]) == ("smart, SST", "smart", scale)
    assert panel.traces[0]["y"] == [first, last, None]


@pytest.mark.parametrize("make", FIGURES)
def test_sweep_without_curves_has_empty_figures(make: Callable[[Training], go.Figure]) -> None:
    for records in ([build_record(0, status="failed", best={})], []):
        assert is_empty(make(training_of(curve_frame(), records, TASKS, [])))
