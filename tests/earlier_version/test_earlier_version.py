"""A sweep, a selection and a bundle that an earlier version of the project wrote are read with equal results.

`earlier_version.zip` was written before the code was divided into folders: the space `batch_sizes` on 60 rows of each
demonstration table, two replicates of a few steps, with empty files for the weights; its ranking as CSV; a selection of
at most two models a task; a bundle of one task, without its copy of the code; texts and their predictions by it. The
sweep's points and predictions have since been moved into folders of trials, without any other change.
"""

import json
import zipfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from results import predict, selector
from results.analysis.sweep import load_sweep
from results.records.selection import MEAN_RANKS, SELECTION_FILE, read_selection

ARCHIVE = Path(__file__).with_name("earlier_version.zip")
RENAMED_KEYS = {"sweeps", "sweep", "created", "command", "max_latency_ms"}
CHANGED_KEYS = {"lead_interval", "base_lead_interval"}
"""Intervals that hold for all methods at once, not for one."""
NEW_KEYS = {"mean_absolute_error"}


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("earlier")
    with zipfile.ZipFile(ARCHIVE) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture(scope="module")
def selected(earlier: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a selection from the earlier sweep."""
    folder = tmp_path_factory.mktemp("selected")
    assert selector.main([str(earlier / "sweep"), "--max-models", "2", "--output", str(folder)]) == 0
    return folder


def test_ranking_of_an_earlier_sweep_has_equal_scores(earlier: Path) -> None:
    expected, found = pd.read_csv(earlier / "ranking.csv"), load_sweep(earlier / "sweep").ranking()
    scores = ["sst_dev", "sst_train", "qqp_dev", "sts_dev", "overall"]
    assert found["number"].tolist() == expected["number"].tolist()
    assert found["trials"].tolist() == expected["trials"].tolist()
    assert (found[[*scores, "best_epoch"]].to_numpy() == expected[[*scores, "best_epoch"]].to_numpy()).all()


def test_selection_from_an_earlier_sweep_is_the_same(earlier: Path, selected: Path) -> None:
    expected, found = (json.loads((folder / SELECTION_FILE).read_text()) for folder in (earlier / "sweep", selected))
    for task in expected["tasks"]:
        for key in ("method", "num_examples", "examples", "num_candidates", "num_trials", "num_configurations"):
            assert found["tasks"][task][key] == expected["tasks"][task][key]
        for key in ("members", "methods", "automatic"):
            without_removed = [one for one in as_list(expected["tasks"][task][key]) if one.get("name") != MEAN_RANKS]
            assert numbers_of(as_list(found["tasks"][task][key])) == pytest.approx(numbers_of(without_removed))


def test_leads_of_an_earlier_selection_have_intervals_that_are_as_wide_or_wider(earlier: Path, selected: Path) -> None:
    expected, found = (read_selection(folder).tasks for folder in (earlier / "sweep", selected))
    for task, chosen in found.items():
        kept = [score for score in expected[task].methods if score.name != MEAN_RANKS]
        for before, now in zip(kept, chosen.methods, strict=True):
            (lowest, highest), (low, high) = before.lead_interval, now.lead_interval
            assert high - low >= 0.99 * (highest - lowest)


def as_list(value: Any) -> list[dict[str, Any]]:
    return value if isinstance(value, list) else [value]


def numbers_of(value: Any) -> list[float]:
    """All numbers in a JSON value, in order."""
    if isinstance(value, dict):
        return [
            number
            for key, part in value.items()
            if key not in RENAMED_KEYS | CHANGED_KEYS | NEW_KEYS
            for number in numbers_of(part)
        ]
    if isinstance(value, list):
        return [number for part in value for number in numbers_of(part)]
    return [float(value)] if isinstance(value, int | float) else []


def test_earlier_selection_is_read(earlier: Path) -> None:
    selection = read_selection(earlier / "sweep")
    assert set(selection.tasks) == {"sst", "qqp", "sts"}
    assert [member.trial for member in selection.tasks["sst"].members] == ["0000-r1"]


def test_earlier_bundle_predicts_the_same(earlier: Path, tmp_path: Path) -> None:
    output = tmp_path / "predictions.csv"
    assert predict.main([str(earlier / "bundle"), "--input", str(earlier / "texts.csv"), "--output", str(output)]) == 0
    expected, found = pd.read_csv(earlier / "predictions.csv"), pd.read_csv(output)
    assert list(found) == list(expected)
    assert found["id"].tolist() == expected["id"].tolist()
    pd.testing.assert_frame_equal(found, expected, atol=2e-5, rtol=0)
