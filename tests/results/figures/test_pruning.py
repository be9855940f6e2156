"""How far trials were trained, by hand, and which of them a rung stopped."""

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from mtlib.tasks import TASKS
from results.figures.pruning import pruning_chart, rungs_chart
from tests.results.conftest import build_record
from tests.results.figures.conftest import bars_of, curve, curve_frame, series_of
from tests.results.figures.test_search import kinds, trial


def test_search_without_trained_trials_has_empty_charts() -> None:
    for records in ([], [trial(0, None, "queued", epochs=0)]):
        assert pruning_chart(records).is_empty
        assert rungs_chart(records, curve_frame(), TASKS, "overall").is_empty


def test_pruning_counts_trials_by_epochs_and_kind() -> None:
    given = [("complete", 9), ("pruned", 1), ("pruned", 1), ("pruned", 3), ("failed", 3), ("queued", 0)]
    records = [build_record(number, status=status, epochs=epochs) for number, (status, epochs) in enumerate(given)]
    found = bars_of(pruning_chart(records))
    assert {name: (list(bars.categories), list(bars.values)) for name, bars in found.items()} == {
        "trained to the end": (["1", "3", "9"], [0, 0, 1]),
        "pruned": (["1", "3", "9"], [2, 1, 0]),
        "failed": (["1", "3", "9"], [0, 1, 0]),
    }
    assert found["pruned"].hover[:2] == ["2 trials pruned\nafter epoch 1", "1 trial pruned\nafter epoch 3"]


def overall_curve(number: int, values: Sequence[float], replicate: int = 0) -> pd.DataFrame:
    return curve(f"{number:04d}-r{replicate}", values, task="overall", metric="overall")


def test_rungs_show_the_best_scores_so_far_and_what_was_stopped() -> None:
    given = {0: [0.5, 0.7, 0.6], 1: [0.4], 2: [0.6, 0.5], 3: [0.3], 4: [0.1] * 8 + [0.9] + [0.2]}
    statuses = ["pruned", "pruned", "running", "complete", "complete"]
    records = [trial(number, 0.5, status) for number, status in enumerate(statuses)]
    records.append(build_record(0, replicate=1))
    curves = curve_frame(
        *(overall_curve(number, values) for number, values in given.items()), overall_curve(0, [0.9], replicate=1)
    )
    chart = rungs_chart(records, curves, TASKS, "overall")
    assert kinds(chart) == {
        "not stopped": (["1", "1", "1", "1", "3", "9"], [0.5, 0.6, 0.3, 0.1, 0.1, 0.9]),
        "stopped here": (["3", "1"], [0.7, 0.4]),
    }
    assert chart.panels[0].x.categories == ["1", "3", "9"]
    assert chart.caption.endswith("Stopped: 1 of 5 at 1, 1 of 2 at 3, 0 of 1 at 9.")
    assert series_of(chart.panels[0], "stopped here").hover[0].endswith("pruned\nbest overall 0.700 at rung 3")


def test_rungs_count_epochs_with_an_overall_score_and_show_the_metric_of_the_search() -> None:
    """SST is scored from the first epoch on, the overall score from the second."""
    root_error = replace(TASKS["sts"], metric="rmse")
    rows = curve("0000-r0", [0.5, 1.5, 1.0, 2.0], task="sts", metric="rmse")
    late = overall_curve(0, [0.5, 0.5, 0.5, 0.5]).query("epoch > 1")
    chart = rungs_chart([trial(0, 0.5)], curve_frame(rows, late), {"sts": root_error}, "sts")
    assert kinds(chart) == {"not stopped": (["1", "3"], [1.5, 1.0])}
    assert chart.panels[0].y.title == "STS"
