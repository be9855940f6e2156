"""The leaderboard's files, byte for byte as the course's own code writes them."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mtlib.tasks import TASKS, Task
from results.analysis.comparison.bootstrap import Floats
from results.inference import leaderboard
from results.inference import predictor as predicting
from results.inference.leaderboard import number_texts, read_leaderboard_rows, write_leaderboard
from results.inference.models import ModelSource
from results.inference.predictor import Predictor, load_predictor
from results.records.selection import Selection, read_selection
from tests.results.inference.trained_sweep import FIRST, member_of, recorded_logits, selection_of

NAMES = [f"{stem}-{split}-output.csv" for stem in ("para", "sst", "sts") for split in ("dev", "test")]


def singles(folder: Path) -> Selection:
    """The first trial alone for every task."""
    return selection_of(folder, {task: (member_of(folder, FIRST, task),) for task in TASKS})


def write(selection: Selection, data: Path, folder: Path, output: Path) -> list[str]:
    """Writes the six files; returns the notes."""
    notes: list[str] = []
    source = ModelSource(places={str(folder): folder}, device="cpu")

    def load(task: str) -> Predictor:
        return load_predictor(selection, task, source)

    write_leaderboard(selection, data, output, load, notes.append)
    return notes


def test_dev_files_hold_the_trials_dev_predictions(trained_folder: Path, tiny_folder: Path, tmp_path: Path) -> None:
    output = tmp_path / "new" / "predictions"
    notes = write(singles(trained_folder), tiny_folder, trained_folder, output)
    assert sorted(path.name for path in output.iterdir()) == NAMES
    assert notes[0] == f"{output}/sst-dev-output.csv: 13 rows"
    assert notes[-1] == f"{output}/sts-test-output.csv: 5 rows"
    classes = recorded_logits(trained_folder, FIRST, "sst").argmax(1)
    wanted = "id \t Predicted_Sentiment \n" + "".join(f"sstdev{row} , {label} \n" for row, label in enumerate(classes))
    assert (output / "sst-dev-output.csv").read_bytes() == wanted.encode()
    is_pair = recorded_logits(trained_folder, FIRST, "qqp")[:, 0] > 0
    wanted = "id \t Predicted_Is_Paraphrase \n" + "".join(
        f"qqpdev{row} , {'1.0' if label else '0.0'} \n" for row, label in enumerate(is_pair)
    )
    assert (output / "para-dev-output.csv").read_bytes() == wanted.encode()
    header, *lines = (output / "sts-dev-output.csv").read_text().splitlines(keepends=True)
    assert header == "id \t Predicted_Similiary \n"
    scores = np.clip(recorded_logits(trained_folder, FIRST, "sts")[:, 0], 0, 5)
    for row, (line, score) in enumerate(zip(lines, scores, strict=True)):
        name, number = line.removesuffix(" \n").split(" , ")
        assert name == f"stsdev{row}"
        assert abs(float(number) - score) <= 1e-5
        assert str(np.float32(number)) == number


def test_test_files_need_no_labels(trained_folder: Path, tiny_folder: Path, tmp_path: Path) -> None:
    write(singles(trained_folder), tiny_folder, trained_folder, tmp_path)
    for task in TASKS.values():
        assert task.leaderboard is not None
        lines = (tmp_path / task.leaderboard.file_name("test")).read_text().splitlines()
        assert lines[0] == f"id \t {task.leaderboard.column} "
        assert [line.split(" , ")[0] for line in lines[1:]] == [f"{task.name}test{row}" for row in range(5)]


@pytest.mark.parametrize(
    ("task", "values", "wanted"),
    [
        ("sst", [0.0, 4.0], ["0", "4"]),
        ("qqp", [0.0, 1.0], ["0.0", "1.0"]),
        ("sts", [0.0, 5.0, 2.5, 10 / 3, 1e-7], ["0.0", "5.0", "2.5", "3.3333333", "1e-07"]),
    ],
)
def test_numbers_are_printed_as_by_numpy(task: str, values: list[float], wanted: list[str]) -> None:
    assert number_texts(TASKS[task], np.array(values)) == wanted


def write_pairs(data: Path, task: Task, split: str) -> None:
    """A file of the course with every kind of row."""
    label = [] if split == "test" else [task.label_column]
    lines = [
        "\t".join(["", "id", *task.text_columns, *label]),
        *("\t".join([*cells[:4], *cells[4:][: len(label)]]) for cells in (
            ["0", "AbC1", "a film", "a dog", "1.0"],
            ["1", "second", "a film", "", "0.0"],
            ["2", "third", "the cat", "a dog", ""],
            ["3", "", "the cat", "a dog", "1.0"],
            ["4", "last", '"a ""film"""', " a dog ", "junk"],
        )),
    ]  # fmt: skip
    (data / task.file_name(split)).write_text("\n".join(lines) + "\n")


def test_unlabelled_rows_are_left_out_of_dev_and_blank_texts_are_predicted(
    trained_folder: Path, tiny_folder: Path, tmp_path: Path
) -> None:
    data = shutil.copytree(tiny_folder, tmp_path / "data")
    for split in ("dev", "test"):
        write_pairs(data, TASKS["qqp"], split)
    notes = write(singles(trained_folder), data, trained_folder, tmp_path / "out")
    ids = {
        split: [
            line.split(" , ")[0] for line in (tmp_path / f"out/para-{split}-output.csv").read_text().splitlines()[1:]
        ]
        for split in ("dev", "test")
    }
    assert ids == {"dev": ["abc1", "second", "last"], "test": ["abc1", "second", "third", "last"]}
    assert notes[2].endswith(
        ": 3 rows (2 left out: quora-dev.csv:4: is_duplicate is blank; quora-dev.csv:5: id is blank)"
    )
    assert notes[3].endswith(": 4 rows (1 left out: quora-test-student.csv:5: id is blank)")
    rows = list(read_leaderboard_rows(data / "quora-dev.csv", TASKS["qqp"], "dev", []))
    assert [row.texts for row in rows] == [("a film", "a dog"), ("a film", ""), ('a "film"', "a dog")]


def test_chunks_are_written_in_order(
    trained_folder: Path, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    selection = read_selection(trained_folder)
    write(selection, tiny_folder, trained_folder, tmp_path / "whole")
    monkeypatch.setattr(predicting, "MAX_CHUNK_ROWS", 4)
    write(selection, tiny_folder, trained_folder, tmp_path / "chunks")
    for name in NAMES[:4]:
        assert (tmp_path / "chunks" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_selection_must_have_every_task(trained_folder: Path, tiny_folder: Path, tmp_path: Path) -> None:
    selection = singles(trained_folder)
    selection = replace(selection, tasks={"sst": selection.tasks["sst"]})
    with pytest.raises(ValueError, match=r"must have all its tasks, got none for qqp, sts$"):
        write(selection, tiny_folder, trained_folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_every_missing_file_is_named_before_predicting(trained_folder: Path, tiny_folder: Path, tmp_path: Path) -> None:
    data = shutil.copytree(tiny_folder, tmp_path / "data")
    for name in ("quora-test-student.csv", "sts-dev.csv"):
        (data / name).unlink()
    with pytest.raises(ValueError, match=r"lacks quora-test-student\.csv, sts-dev\.csv"):
        write(singles(trained_folder), data, trained_folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_file_is_written_whole_or_not_at_all(
    trained_folder: Path, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=r"--output must be a folder that can be written, got /.*/file: "):
        write(singles(trained_folder), tiny_folder, trained_folder, tmp_path / "file")

    def fail(predictor: Predictor, texts: list[tuple[str, ...]]) -> Floats:
        raise ValueError(f"{predictor.task.name} {len(texts)}")

    monkeypatch.setattr(leaderboard, "predict_texts", fail)
    with pytest.raises(ValueError, match=r"^sst 13$"):
        write(singles(trained_folder), tiny_folder, trained_folder, tmp_path / "out")
    assert not list(tmp_path.glob("out/*"))
