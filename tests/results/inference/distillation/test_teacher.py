"""What ensembles teach: their own predictions as logits, beside the rows as they are, and no text that is scored."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mtlib.config.trial import TrialConfig
from mtlib.data.load import read_data
from mtlib.tasks import TASKS
from results.inference.distillation import teacher
from results.inference.distillation.students import student_space
from results.inference.distillation.taught_rows import Lesson, TaughtRole, TaughtRows, train_rows
from results.inference.distillation.teacher import FurtherText, Taught, read_task_texts, teach
from results.predict import main as predict
from results.records.selection import Selection, read_selection
from results.records.tables import read_trials
from tests.one_line_error import one_line_error
from tests.results.inference.trained_sweep import select_pairs, source_of


def taught_by(folder: Path, data: Path, home: Path, task: str, *further: FurtherText) -> list[Taught]:
    """What the ensemble of a trained sweep teaches; notes are dropped."""
    source, selection = source_of(folder), read_selection(folder)
    train, new = read_task_texts(selection, task, source, data, further, lambda _line: None)
    parts: list[tuple[TaughtRole, TaughtRows]] = [
        ("train", train_rows(selection.definitions[task], train)),
        ("augment", new),
    ]
    return [
        teach(selection.definitions[task], role, lesson_of(selection, task, rows), source, home, lambda _line: None)
        for role, rows in parts
        if rows.texts
    ]


def lesson_of(selection: Selection, task: str, rows: TaughtRows) -> Lesson:
    """What a task's ensemble is to predict."""
    return Lesson(members=selection.tasks[task].members, rows=rows)


def config_of(folder: Path) -> TrialConfig:
    return TrialConfig.from_json(read_trials(folder)[0].config)


def test_what_was_taught_is_found_where_the_sweep_has_moved(
    trained_folder: Path, tiny_folder: Path, tmp_path: Path
) -> None:
    first = Path(shutil.copytree(trained_folder, tmp_path / "first"))
    select_pairs(first)
    (taught,) = taught_by(first, tiny_folder, first, "sst")
    now = first.rename(tmp_path / "renamed")
    assert taught_by(now, tiny_folder, now, "sst")[0].path == now / taught.path.relative_to(first)
    assert len(list((now / "teachers").iterdir())) == 1


@pytest.mark.parametrize("task", TASKS)
def test_a_student_reads_the_rows_as_they_are_and_the_ensembles_predictions(
    task: str, trained_folder: Path, tiny_folder: Path, tmp_path: Path
) -> None:
    taught = taught_by(trained_folder, tiny_folder, tmp_path, task)
    config = config_of(trained_folder)
    before = read_data(config, tiny_folder)[task, "train"]
    after = read_data(student_space(config, taught).base, tiny_folder)[task, "train"]
    assert (after.ids, after.texts, after.num_own_rows) == (before.ids, before.texts, before.num_own_rows)
    np.testing.assert_array_equal(after.labels, before.labels)
    words = [trained_folder, "--task", task, "--input", tiny_folder / TASKS[task].file_name("train")]
    assert predict([*map(str, words), "--output", str(tmp_path / "out.csv"), "--device", "cpu"]) == 0
    predicted = pd.read_csv(tmp_path / "out.csv")
    assert after.teacher is not None
    if task == "sts":
        np.testing.assert_allclose(after.teacher[:, 0], predicted["prediction"], atol=1e-4)
    elif task == "qqp":
        np.testing.assert_allclose(1 / (1 + np.exp(-after.teacher[:, 0])), predicted["probability_1"], atol=1e-5)
    else:
        powers = np.exp(after.teacher.astype(np.float64))
        found = powers / powers.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(found, predicted.filter(like="probability"), atol=1e-5)


def test_the_ensemble_predicts_once(
    trained_folder: Path, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first,) = taught_by(trained_folder, tiny_folder, tmp_path, "sst")
    monkeypatch.setattr(teacher, "lesson_logits", lambda *_: pytest.fail("it predicts again"))
    assert taught_by(trained_folder, tiny_folder, tmp_path, "sst") == [first]


def test_further_texts_are_new_ones_without_labels(trained_folder: Path, tiny_folder: Path, tmp_path: Path) -> None:
    train, dev = (pd.read_csv(tiny_folder / TASKS["sst"].file_name(split), sep="\t") for split in ("train", "dev"))
    texts = ["a new film", "A new film indeed", "", dev["sentence"][0].upper(), train["sentence"][3], "a new film"]
    pd.DataFrame({"text": texts}).to_csv(tmp_path / "more.csv", index=False)
    file = FurtherText(task="sst", place=str(tmp_path / "more.csv"), columns=("text",))
    taught = taught_by(trained_folder, tiny_folder, tmp_path, "sst", file)
    assert [own.role for own in taught] == ["train", "augment"]
    space = student_space(config_of(trained_folder), taught)
    table = read_data(space.base, tiny_folder)["sst", "train"]
    assert table.texts[0][table.num_own_rows :] == ["a new film", "A new film indeed"]
    assert np.isnan(table.labels[table.num_own_rows :]).all()
    assert table.teacher is not None
    assert np.isfinite(table.teacher).all()


def test_texts_that_the_data_has_teach_nothing(trained_folder: Path, tiny_folder: Path, tmp_path: Path) -> None:
    file = FurtherText(task="sst", place=str(tiny_folder / TASKS["sst"].file_name("dev")))
    message = one_line_error(taught_by, trained_folder, tiny_folder, tmp_path, "sst", file)
    assert message == "--unlabelled must have texts of sst that its data does not have, got none"
