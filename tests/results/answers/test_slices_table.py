"""A row per slice with its numbers of rows and groups, and the scores of the ranking's replicates."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mtlib.tasks import TASKS
from mtlib.training.epoch_report import EpochReport
from results.answers.slices_table import SLICE_TITLES, SLICE_TYPES, render_slices, slice_cells, slices_frame, slices_of
from results.records.selection import SliceScore
from results.records.trials import TrialRecord
from results.stats.looks import Looks
from results.stats.ranking import rank
from results.stats.trial_scores import PredictedRows, TrialScores, read_scores
from tests.results.stats.test_trial_scores import curves_of, predictions_of

FOUND = SliceScore(column="source", value="news", num_examples=1200, num_groups=40, score=0.75, interval=(0.7, 0.8125))


def test_row_has_values_of_the_metric_and_counts() -> None:
    assert slice_cells(TASKS["sst"], FOUND) == ["SST", "source", "news", "1,200", "40", "0.750", "0.700 to 0.812"]
    rmse = replace(TASKS["sts"], metric="rmse")
    assert slice_cells(rmse, replace(FOUND, score=-0.5, interval=(-0.6, -0.4)))[5:] == ["0.500", "0.400 to 0.600"]


def test_what_is_not_known_is_shown_as_such() -> None:
    cells = slice_cells(TASKS["sst"], replace(FOUND, score=None, interval=()))
    assert cells[5:] == ["not defined", "not known"]


def test_table_fits_narrow_and_wide_terminals() -> None:
    assert render_slices([]) == []
    wide, narrow = (render_slices([(TASKS["sst"], FOUND)], width) for width in (120, 40))
    assert all(title in wide[0] for title in SLICE_TITLES)
    assert "0.700 to 0.812" in wide[-1]
    assert max(map(len, narrow)) <= 40


MakeReport = Callable[..., EpochReport]
MakeRecord = Callable[..., TrialRecord]


def sliced_scores(records: Sequence[TrialRecord], reports: dict[str, Any], cells: list[str]) -> TrialScores:
    """Scores of trials whose SST rows have these cells in a column `source`."""

    def read(task: str, split: str, wanted: Sequence[tuple[str, int]]) -> PredictedRows:
        parts = [predictions_of(reports[trial][epoch - 1], task, split) for trial, epoch in wanted]
        slices = {"source": cells} if (task, split) == ("sst", "dev") else {}
        return PredictedRows(labels=parts[0].labels, logits=np.stack([part.logits for part in parts]), slices=slices)

    return read_scores(records, curves_of(reports), TASKS, read)


def test_frame_has_a_row_per_configuration_and_slice(make_report: MakeReport, make_record: MakeRecord) -> None:
    records = [make_record(number, replicate) for number in range(2) for replicate in range(2)]
    reports = {own.trial_id: [make_report(1, seed=place)] for place, own in enumerate(records)}
    cells = ["a"] * 20 + ["b"] * 40
    scores = sliced_scores(records, reports, cells)
    ranked = rank(records, scores, Looks(is_by_round=True, num_rounds=2, declared=2))
    frame = slices_frame(ranked, scores)
    assert {name: str(kind) for name, kind in frame.dtypes.items()} == SLICE_TYPES
    assert frame["number"].tolist() == [row.number for row in ranked for _ in range(2)]
    assert frame["value"].tolist() == ["b", "a"] * 2  # the larger one first
    assert frame["num_examples"].tolist() == [40, 20] * 2
    for row, own in frame.iterrows():
        rows = np.flatnonzero(np.array(cells) == own["value"])
        right = [
            (part.logits[rows].argmax(axis=1) == np.asarray(part.labels)[rows]).mean()
            for replicate in range(2)
            for part in [predictions_of(reports[f"{own['number']:04d}-r{replicate}"][0], "sst", "dev")]
        ]
        assert own["score"] == pytest.approx(np.mean(right)), row
        assert own["low"] < own["score"] < own["high"]


def test_sweep_without_slices_has_an_empty_frame(make_report: MakeReport, make_record: MakeRecord) -> None:
    records = [make_record(0)]
    scores = replace(sliced_scores(records, {"0000-r0": [make_report(1)]}, ["a"] * 60), slices={})
    ranked = rank(records, scores, Looks(is_by_round=True, num_rounds=1, declared=1))
    assert slices_frame(ranked, scores).empty
    assert list(slices_frame(ranked, scores)) == list(SLICE_TYPES)
    assert list(slices_of(ranked[0], scores)) == []
