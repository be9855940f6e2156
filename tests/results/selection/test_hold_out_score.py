"""Scores on held-out rows match scores by hand, every evaluation is counted, and other rows are refused."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, pearsonr
from sklearn.metrics import accuracy_score

from mtlib.data.hold_out import LEAST_GROUPS
from mtlib.tasks import TASKS
from results.predict import main as predict
from results.records.examples import HOLD_OUT_FILE, read_hold_out, write_hold_out
from results.records.selection import Selection
from results.selection.hold_out_score import count_evaluations, score_held_out
from tests.one_line_error import one_line_error
from tests.results.inference.trained_sweep import (
    FIRST,
    SECOND,
    hold_out_rows,
    member_of,
    select_pairs,
    selection_of,
    source_of,
)

SHARE = 0.4


@pytest.fixture
def folder(trained_folder: Path, tiny_folder: Path, tmp_path: Path) -> Path:
    """A trained sweep with held-out rows and a selection of both its trials for every task."""
    copy = shutil.copytree(trained_folder, tmp_path / "copies" / "mine")
    hold_out_rows(copy, tiny_folder, SHARE)
    select_pairs(copy)
    return copy


@pytest.fixture
def other(folder: Path, tmp_path: Path) -> Path:
    """A second sweep of the same data."""
    return shutil.copytree(folder, tmp_path / "more" / "other")


def score(folder: Path, selection: Selection, data: Path | None = None) -> dict[str, float]:
    return dict(score_held_out(selection, source_of(folder), data).scores)


def held_frame(folder: Path, data: Path, task: str) -> pd.DataFrame:
    """The recorded rows, from the file itself."""
    ids = json.loads((folder / HOLD_OUT_FILE).read_text())["tasks"][task]["ids"]
    frame: pd.DataFrame = pd.read_csv(data / TASKS[task].file_name("train"), sep="\t").set_index("id")
    return pd.DataFrame(frame.loc[ids].reset_index())


def predicted(folder: Path, data: Path, task: str, tmp_path: Path) -> tuple[Sequence[float], Sequence[float]]:
    """Predictions of the rows by the command for users' text, and their labels."""
    frame = held_frame(folder, data, task)
    frame[["id", *TASKS[task].text_columns]].to_csv(tmp_path / "rows.csv", index=False)
    words = [folder, "--task", task, "--input", tmp_path / "rows.csv", "--output", tmp_path / "out.csv", "--overwrite"]
    assert predict([*map(str, words), "--device", "cpu"]) == 0
    return list(pd.read_csv(tmp_path / "out.csv")["prediction"]), list(frame[TASKS[task].label_column])


def plain_score(task: str, guesses: Sequence[float], labels: Sequence[float]) -> float:
    """By scikit-learn and scipy."""
    if TASKS[task].kind == "regression":
        return float(pearsonr(guesses, labels).statistic)
    return float(accuracy_score(np.array(labels, dtype=int), guesses))


def scoring_error(folder: Path, selection: Selection, *others: Path, data: Path | None = None) -> str:
    """The error of scoring held-out rows, after which no evaluation is recorded."""
    before = [read_hold_out(place) for place in (folder, *others) if (place / HOLD_OUT_FILE).exists()]
    message = one_line_error(score_held_out, selection, source_of(folder, *others), data)
    assert [read_hold_out(place) for place in (folder, *others) if (place / HOLD_OUT_FILE).exists()] == before
    return message


def select_both(folder: Path, other: Path, task: str = "sst") -> Selection:
    """A selection with a member of each of two sweeps."""
    members = (member_of(folder, FIRST, task, 0.5), member_of(other, SECOND, task, 0.5))
    found = selection_of(folder, {task: members})
    return replace(found, sweeps={str(folder): "fingerprint", str(other): "fingerprint"})


def test_scores_match_predictions_of_the_held_out_rows(
    folder: Path, tiny_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    selection = select_pairs(folder)
    evaluation = score_held_out(selection, source_of(folder))
    for task in TASKS:
        guesses, labels = predicted(folder, tiny_folder, task, tmp_path)
        assert evaluation.scores[task] == pytest.approx(plain_score(task, guesses, labels), abs=1e-4)
        assert evaluation.num_examples[task] == len(labels) > 3
        assert len(labels) <= SHARE * len(pd.read_csv(tiny_folder / TASKS[task].file_name("train"), sep="\t"))
    assert list(evaluation.scores) == list(evaluation.intervals) == list(TASKS)
    capsys.readouterr()


def test_rows_that_share_texts_count_once(folder: Path, tiny_folder: Path, tmp_path: Path) -> None:
    """Each row is there twice, so that the number of correct groups is binomial."""
    data = Path(shutil.copytree(tiny_folder, tmp_path / "twice"))
    path = data / TASKS["qqp"].file_name("train")
    frame = pd.read_csv(path, sep="\t", dtype=str)
    pd.concat([frame, frame.assign(id=frame["id"] + "b")]).to_csv(path, sep="\t", index=False)
    hold_out_rows(folder, data, SHARE)
    evaluation = score_held_out(select_pairs(folder), source_of(folder), data)
    number = evaluation.num_examples["qqp"] // 2
    assert number >= LEAST_GROUPS
    wanted = np.array(binom.ppf((0.025, 0.975), number, evaluation.scores["qqp"])) / number
    assert evaluation.intervals["qqp"] == pytest.approx(tuple(wanted), abs=1.001 / number)


def test_evaluation_on_two_sweeps_is_recorded_in_both_and_counts_once(folder: Path, other: Path) -> None:
    evaluation = score_held_out(select_both(folder, other), source_of(folder, other))
    assert read_hold_out(folder).evaluations == read_hold_out(other).evaluations == (evaluation.time,)
    assert count_evaluations([str(folder), str(other)]) == 1
    score(folder, select_pairs(folder))
    assert count_evaluations([str(folder), str(other)]) == 2
    assert count_evaluations([str(other)]) == 1


def test_evaluations_by_another_sweep_of_the_storage_count(folder: Path, tmp_path: Path) -> None:
    place = Path(shutil.copytree(folder, tmp_path / "storage" / "first"))
    second = Path(shutil.copytree(folder, tmp_path / "storage" / "second"))
    record = read_hold_out(second)
    assert count_evaluations([str(place)]) == 0
    write_hold_out(second, replace(record, evaluations=("then",)))
    assert (
        count_evaluations([str(place)]),
        count_evaluations([second.as_uri()]),
        count_evaluations([place.as_uri()]),
    ) == (1, 1, 1)
    others = {task: replace(held, fingerprint="another") for task, held in record.tasks.items()}
    write_hold_out(second, replace(record, tasks=others, evaluations=("then",)))
    assert count_evaluations([str(place)]) == 0
    (second / HOLD_OUT_FILE).write_text("damaged")
    assert count_evaluations([str(place)]) == 0


def test_sweeps_with_other_held_out_rows_are_refused(folder: Path, other: Path, tiny_folder: Path) -> None:
    hold_out_rows(other, tiny_folder, SHARE / 2)
    rule = "sweeps must have held out the same rows of sst to be scored together"
    assert scoring_error(folder, select_both(folder, other), other) == f"{rule}, got {folder}, {other}"


def test_changed_label_is_refused_by_task(folder: Path, tiny_folder: Path, tmp_path: Path) -> None:
    data = shutil.copytree(tiny_folder, tmp_path / "data")
    row = read_hold_out(folder).tasks["sst"].ids[0]
    path = data / TASKS["sst"].file_name("train")
    lines = path.read_text().splitlines()
    changed = [f"{line[:-1]}{(int(line[-1]) + 1) % 5}" if f"\t{row}\t" in line else line for line in lines]
    assert changed != lines
    path.write_text("\n".join(changed) + "\n")
    rule = "held-out rows must be unchanged since the sweep began, got others of sst"
    assert scoring_error(folder, select_pairs(folder), data=data) == rule
    alone = selection_of(folder, {"qqp": (member_of(folder, FIRST, "qqp"),)})
    assert list(score(folder, alone, data)) == ["qqp"]
