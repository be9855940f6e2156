"""Optuna's figures show the configurations' scores, and rungs which trials were stopped."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from mtlib.tasks import TASKS
from results.figures.draw import COLOURS, is_empty
from results.figures.search import MAX_AXES, history, importance, parallel_coordinates, rungs, slices
from results.figures.search_study import search_study
from results.records.trials import TrialRecord
from tests.results.conftest import build_record
from tests.results.figures.conftest import (
    caption_of,
    curve,
    curve_frame,
    panel_of,
    panels_of,
    points_of,
)
from tests.results.figures.test_search_study import KEYS, grid


def study(records: Sequence[TrialRecord]) -> Any:
    return search_study(records, KEYS, "overall", TASKS)


def test_history_has_every_configuration_and_the_best_so_far() -> None:
    panel = panel_of(history(study(grid(lambda rate, _: rate)[:4]), "overall"))
    assert panel.traces[0]["y"] == [0, 0, 0, 1]
    assert panel.traces[1]["y"] == [0, 0, 0, 1]
    assert panel.y["title"]["text"] == "overall"
    assert panel.x["dtick"] == 1
    assert [text.split(":")[0] for text in panel.traces[0]["hovertemplate"]][-1] == "configuration 0003"
    assert [trace["marker"]["color"] for trace in panel.traces[:2]] == list(COLOURS[:2])


def test_each_key_has_a_slice_with_all_scores() -> None:
    records = grid(lambda rate, size: rate + size)
    panels = {panel.title: panel for panel in panels_of(slices(study(records), "overall"))}
    assert sorted(panels) == ["rate", "size"]
    assert set(panels["size"].traces[0]["x"]) == {"8", "16", "'1-2'"}
    for panel in panels.values():
        assert sorted(panel.traces[0]["y"]) == sorted(record.best["overall"] for record in records)
        assert panel.y["title"]["text"] == "overall"
    assert panels["rate"].x["type"] == "log"


def axes_of(figure: go.Figure) -> list[str]:
    """The names of the axes of parallel coordinates."""
    return list(panel_of(figure).x["ticktext"])


def test_lines_go_through_the_most_important_keys() -> None:
    figure = parallel_coordinates(study(grid(lambda rate, size: rate + size)), "overall", {"size": 0.8, "rate": 0.2})
    assert {"overall", "rate", "size"} <= set(axes_of(figure))
    assert "keys are shown" not in caption_of(figure)


def test_of_many_keys_the_most_important_ones_are_shown() -> None:
    names = [f"k{number:02d}" for number in range(MAX_AXES + 2)]
    keys = [replace(KEYS[1], name=name) for name in names]
    records = [build_record(n, params=dict.fromkeys(names, 10.0 ** -(4 + n / 4))) for n in range(3)]
    figure = parallel_coordinates(search_study(records, keys, "overall", TASKS), "overall", {"k11": 1.0})
    assert sum(name in axes_of(figure) for name in names) == MAX_AXES
    assert "k11" in axes_of(figure)
    assert f"{MAX_AXES} of {MAX_AXES + 2} keys are shown" in caption_of(figure)


def test_importances_are_bars_from_top_to_bottom() -> None:
    panel = panel_of(importance({"rate": 0.75, "size": 0.25}))
    assert points_of(panel.traces[0]) == [(0.75, "rate"), (0.25, "size")]
    assert list(panel.y["categoryarray"]) == ["rate", "size"]
    assert is_empty(importance({}))


def overall_curve(number: int, values: Sequence[float], replicate: int = 0) -> pd.DataFrame:
    return curve(f"{number:04d}-r{replicate}", values, task="overall", metric="overall")


def test_rungs_show_the_best_scores_so_far_and_what_was_stopped() -> None:
    given = {0: [0.5, 0.7, 0.6], 1: [0.4], 2: [0.6, 0.5], 3: [0.3], 4: [0.1] * 8 + [0.9] + [0.2]}
    statuses = ["pruned", "pruned", "running", "complete", "complete"]
    records = [build_record(number, status=status) for number, status in enumerate(statuses)]
    records.append(build_record(0, replicate=1))
    curves = curve_frame(
        *(overall_curve(number, values) for number, values in given.items()), overall_curve(0, [0.9], replicate=1)
    )
    figure = rungs(records, curves, TASKS, "overall")
    panel = panel_of(figure)
    kept = [("1", 0.5), ("1", 0.6), ("1", 0.3), ("1", 0.1), ("3", 0.1), ("9", 0.9)]
    assert points_of(panel.named("not stopped")) == kept
    assert points_of(panel.named("stopped here")) == [("3", 0.7), ("1", 0.4)]
    assert list(panel.x["categoryarray"]) == ["1", "3", "9"]
    assert caption_of(figure).endswith("Stopped: 1 of 5 at 1, 1 of 2 at 3, 0 of 1 at 9.")
    assert panel.named("stopped here")["text"][0].endswith("pruned<br>best overall 0.700 at rung 3")


def test_rungs_count_epochs_with_an_overall_score_and_show_the_metric_of_the_search() -> None:
    """SST is scored from the first epoch on, the overall score from the second."""
    root_error = replace(TASKS["sts"], metric="rmse")
    rows = curve("0000-r0", [0.5, 1.5, 1.0, 2.0], task="sts", metric="rmse")
    late = overall_curve(0, [0.5, 0.5, 0.5, 0.5]).query("epoch > 1")
    panel = panel_of(rungs([build_record(0)], curve_frame(rows, late), {"sts": root_error}, "sts"))
    assert points_of(panel.named("not stopped")) == [("1", 1.5), ("3", 1.0)]
    assert panel.y["title"]["text"] == "STS"
    assert is_empty(rungs([], curve_frame(), TASKS, "overall"))
