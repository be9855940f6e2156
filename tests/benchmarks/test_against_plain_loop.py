"""Scores of groups of models and the interval of their difference, against calculations by hand."""

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.against_plain_loop import (
    LOOP,
    GroupScores,
    difference_text,
    read_loop,
    score_group,
    without_texts_of,
)
from mtlib.data.tables import Table

LABELS: dict[str, list[float]] = {"sst": [0, 1, 2, 3], "qqp": [0, 1, 1, 0], "sts": [0.0, 1.0, 2.0, 5.0]}
IDS = ["a", "b", "c", "d"]


@pytest.fixture(name="tables")
def fixture_tables() -> dict[str, Table]:
    return {
        task: Table(
            task=task,
            split="dev",
            path=Path("file.csv"),
            ids=IDS,
            places=IDS,
            texts=([f"{task} {name}" for name in IDS],),
            labels=np.array(labels, dtype=np.float32),
            num_own_rows=len(IDS),
            skipped=(),
        )
        for task, labels in LABELS.items()
    }


def rows_of(group: str, model: int, predictions: dict[str, list[float]]) -> pd.DataFrame:
    frames = [
        pd.DataFrame({"task": task, "id": IDS[::-1], "prediction": values[::-1]})
        for task, values in predictions.items()
    ]
    return pd.concat(frames).assign(group=group, model=model)


def test_scores_are_means_over_models_in_any_order_of_rows(tables: dict[str, Table]) -> None:
    right = rows_of("g", 0, {task: [float(value) for value in labels] for task, labels in LABELS.items()})
    worse = rows_of("g", 1, {"sst": [0, 1, 0, 0], "qqp": [1, 1, 1, 0], "sts": [5.0, 4.0, 3.0, 0.0]})
    scores = score_group(tables, {task: np.arange(4) for task in tables}, pd.concat([right, worse]))
    assert scores.means == pytest.approx({"sst": 0.75, "qqp": 0.875, "sts": 0.0})
    assert scores.overall == pytest.approx([1.0, (0.5 + 0.75 + 0.0) / 3])


def test_interval_adds_training_and_examples() -> None:
    ours = GroupScores(means={}, overall=np.array([0.5, 0.7]), resampled=np.array([0.6, 0.6, 0.6]))
    others = GroupScores(means={}, overall=np.array([0.1, 0.3]), resampled=np.array([0.1, 0.2, 0.3]))
    over_training = 4.302653 * np.sqrt(0.02 / 2 + 0.02 / 2)  # Student's t with 2 degrees of freedom
    half = np.hypot(over_training, 1.959964 * 0.1)
    assert difference_text(ours, others) == f"+0.400 ({0.4 - half:+.3f} to {0.4 + half:+.3f})"


def test_rows_without_texts_of_train_of_any_task(tables: dict[str, Table]) -> None:
    pair = dataclasses.replace(tables["qqp"], texts=(["p", "q", "r", "s"], ["t", "u", "v", "w"]))
    train = [
        dataclasses.replace(tables["sst"], texts=(["another", "SST  b"],)),
        dataclasses.replace(pair, texts=(["w", "x"], ["y", "R"])),
    ]
    left = without_texts_of({"sst": tables["sst"], "qqp": pair, "sts": tables["sts"]}, train)
    assert {task: table.ids for task, table in left.items()} == {"sst": ["a", "c", "d"], "qqp": ["a", "b"], "sts": IDS}
    assert left["qqp"].texts == (["p", "q"], ["t", "u"])
    assert left["sst"].labels.tolist() == [0, 2, 3]


def test_loop_counts_at_the_steps_that_are_asked_for(tmp_path: Path) -> None:
    rows = {"steps": [600, 1200], "seed": [4, 4], "rows": ["dev", "dev"], "id": ["007", "007"], "prediction": [1, 2]}
    pd.DataFrame(rows).to_csv(tmp_path / "predictions.csv", index=False)
    (found,) = read_loop(tmp_path, 1200).to_dict("records")
    assert found == {"steps": 1200, "model": 4, "split": "dev", "id": "007", "prediction": 2, "group": LOOP}
    with pytest.raises(ValueError, match=r"the loop must have been trained for 5,000 steps, got \[600, 1200\]"):
        read_loop(tmp_path, 5000)
