"""The command that describes a data folder; a mistake in it is one line."""

from pathlib import Path

import pandas as pd
import pytest

from mtlib.config.task_file import TASK_FILE
from mtlib.data.__main__ import main
from mtlib.tasks import TASKS
from tests.one_line_error import one_line_exit

Capture = pytest.CaptureFixture[str]

DEFINITIONS = """\
[tasks.tone]
title = "Tone"
kind = "classes"
labels = ["negative", "neutral", "positive"]
texts = ["text"]
label = "tone"
train = "tone-train.jsonl"
dev = "tone-dev.jsonl"

[tasks.grade]
kind = "regression"
range = [0, 100]
texts = ["question", "answer"]
label = "points"
id = "key"
train = "grades/*.csv"
dev = 0.25
metric = "spearman"
weight = 2
"""
TONE_TRAIN = """\
{"text": "a good film", "tone": "positive"}
{"text": "a film", "tone": "neutral"}
{"text": "", "tone": "neutral"}
{"text": "bad", "tone": "negative"}
{"text": "very very good indeed", "tone": "positive"}
"""
TONE_DEV = """\
{"text": "A  good FILM", "tone": "positive"}
{"text": "a dull film", "tone": null}
{"text": "a new film", "tone": "neutral"}
"""
GRADES = "key,question,answer,points\n" + "".join(f"k{n},Why {n}?,Because of {n}.,{n * 5}\n" for n in range(8))
MORE_GRADES = "key,question,answer,points\n" + "".join(f"m{n},How {n}?,By {n}.,{n * 5.5}\n" for n in range(4))
FILES = {
    TASK_FILE: DEFINITIONS,
    "tone-train.jsonl": TONE_TRAIN,
    "tone-dev.jsonl": TONE_DEV,
    "grades/a.csv": GRADES,
    "grades/b.csv": MORE_GRADES,
}
OUTPUT = """\
grade: regression, metric spearman, weight 2
  train 9 rows of grades/*.csv
        labels 0 to 30 (range 0 to 100), mean 13.1, standard deviation 10
        words of both texts: median 5, 95 % of rows at most 5, longest 5
  dev   3 rows drawn from train (at most 0.25 of its rows)
        0 rows (0.0 %) have both texts of a train row
        always 13.1, the mean of train: Spearman's correlation undefined, Pearson's correlation undefined, RMSE 13.521
tone (Tone): classes of 3, metric accuracy, weight 1
        words: median 2, 95 % of rows at most 4, longest 4
        unusable: 1 row: tone-train.jsonl:3: text is blank
  dev   2 rows of tone-dev.jsonl
        labels negative: 0 (0 %), neutral: 1 (50 %), positive: 1 (50 %)
        classes negative: 0, neutral: 1, positive: 1 dev rows; one error moves its F1 by 1
        0 texts in several rows
        1 row (50.0 %) has the text of a train row
        always positive, the most frequent label of train: accuracy 0.500, macro F1 0.333
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def output_of(folder: Path, capsys: Capture) -> str:
    assert main([str(folder)]) == 0
    return capsys.readouterr().out


def test_own_tasks_are_described(folder: Path, capsys: Capture) -> None:
    shown = output_of(folder, capsys)
    for line in OUTPUT.splitlines():
        assert line in shown


def test_tasks_may_have_a_metric_of_a_file(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    text = (folder / TASK_FILE).read_text()
    (folder / TASK_FILE).write_text(text.replace('metric = "spearman"', 'metric = "closeness"'))
    assert "unknown metric of a regression task 'closeness'" in one_line_exit(main, capsys, folder)
    path = tmp_path / "mine.py"
    path.write_text("from mtlib.metrics.table import METRICS as ALL\nMETRICS = {'closeness': ALL['pearson']}\n")
    assert main([str(folder), "--methods", str(path)]) == 0
    output = capsys.readouterr().out
    assert "grade: regression, metric closeness, weight 2" in output
    assert f"--encoder bert-base-uncased --methods {path} --vary" in output


def test_files_of_cs224n_and_of_glue_are_described_and_missing_tasks_named(
    tiny_folder: Path, tmp_path: Path, capsys: Capture
) -> None:
    output = output_of(tiny_folder, capsys)
    for task in TASKS.values():
        assert f"\n{task.name} ({task.title}): " in output
        assert f" rows of {task.file_name('dev')}\n" in output
        assert f"  test  5 rows without labels of {task.file_name('test')}\n" in output
    assert output.startswith(f"{tiny_folder}: 3 tasks, by the names of its files\n")
    assert "--set" not in output
    (tmp_path / "STS-B").mkdir()
    for split in ("train", "dev"):
        text = "index\tsentence1\tsentence2\tscore\n0\tA.\tB.\t2.5\n"
        (tmp_path / "STS-B" / f"{split}.tsv").write_text(text)
    output = output_of(tmp_path, capsys)
    assert output.startswith(f"{tmp_path}: 1 task, by the names of its files\n\nsts (STS): regression, metric pearson,")
    assert "        1 row (100.0 %) has both texts of a train row\n" in output
    assert "\nsst (SST): classes of 5, metric accuracy, weight 1: not there (ids-sst-train.csv, " in output
    assert "--set stages.0.tasks=sts --vary" in output


MISTAKES = [
    (TASK_FILE, 'texts = ["text"]', 'text = "text"', "unknown key 'tasks.tone.text'; did you mean 'tasks.tone.texts'?"),
    (TASK_FILE, "tone-dev.jsonl", "tone-dv.jsonl", "lacks tone-dv.jsonl (tasks.tone.dev); "),
    (TASK_FILE, "grades/*.csv", "grades/*.tsv", "tasks.grade.train must match a file, got grades/*.tsv; "),
    ("grades/a.csv", ",35", ",135", "a.csv:9: column points must be a number from 0 to 100, got '135'"),
    ("grades/a.csv", "k7,", "m1,", "b.csv:3: column key must hold each id once, got m1 of a.csv:9 again"),
]


@pytest.mark.parametrize(("file", "right", "wrong", "line"), MISTAKES)
def test_a_mistake_is_one_line_with_its_place(
    folder: Path, file: str, right: str, wrong: str, line: str, capsys: Capture
) -> None:
    assert right in FILES[file]
    (folder / "grades" / "c.txt").write_text("")
    (folder / file).write_text(FILES[file].replace(right, wrong, 1))
    assert line in one_line_exit(main, capsys, folder)


def test_rows_that_are_too_long_for_an_encoder_are_counted_and_none_where_all_fit(
    folder: Path, tiny_encoder_folder: Path, capsys: Capture
) -> None:
    words = ["--encoder", str(tiny_encoder_folder), "--max-length"]
    assert main([str(folder), *words, "8"]) == 0
    output = capsys.readouterr().out
    (line,) = (line for line in output.splitlines() if "8 tokens" in line)
    assert line.startswith("        About 100.0% of the train rows of grade are longer than 8 tokens")
    assert f"--encoder {tiny_encoder_folder} --vary" in output, "the next command reads the same tokens"
    assert main([str(folder), *words, "64"]) == 0
    assert "tokens" not in capsys.readouterr().out
    assert "nowhere" in one_line_exit(main, capsys, folder, "--encoder", "./nowhere")
    assert "at least 8" in one_line_exit(main, capsys, folder, *words, "7")


def test_all_contradicting_rows_are_listed_with_file_line_and_id(folder: Path, capsys: Capture) -> None:
    rows = '{"text": "BAD", "tone": "neutral"}\n{"text": "a film", "tone": "neutral"}\n'
    (folder / "tone-train.jsonl").write_text(TONE_TRAIN + rows)
    assert main([str(folder), "--contradictions"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "tone train: 1 text in several rows with labels that differ" in lines
    assert "grade dev: 0 pairs in several rows with labels that differ" in lines
    assert [line for line in lines if "jsonl" in line] == [
        "tone-train.jsonl:4  id 3  negative",
        "tone-train.jsonl:6  id 5  neutral",
    ]


def test_wrong_use_is_one_line(tmp_path: Path, capsys: Capture) -> None:
    assert "DIR must name a folder" in one_line_exit(main, capsys)
    assert "--glue must be given without DIR" in one_line_exit(main, capsys, tmp_path, "--glue")
    assert "--max-length must come with --encoder" in one_line_exit(main, capsys, tmp_path, "--max-length", "64")
    assert one_line_exit(main, capsys, tmp_path / "none").startswith("data must be a folder, got ")


def test_how_marks_are_read_and_what_is_left_out_or_never_there_is_described(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "tasks.toml").write_text(
        '[tasks.tone]\nkind = "classes"\nlabels = ["bad", "good", "so so"]\ntexts = ["text"]\nlabel = "label"\n'
        'leave_out = ["-"]\ntrain = {files = "all.tsv", where = {part = "train"}, first = 3}\n'
        'dev = {files = "all.tsv", where = {part = "dev"}}\n'
    )
    rows = [("one", "good"), ('a "second"', "bad"), ("third", "-"), ("fourth", "bad")]
    lines = [(part, *row) for part in ("train", "dev") for row in rows]
    frame = pd.DataFrame(lines, columns=["part", "text", "label"])
    frame.to_csv(tmp_path / "all.tsv", sep="\t", index=False)
    shown = output_of(tmp_path, capsys)
    for line in (
        "  train 2 rows of all.tsv\n",
        f'        quoting standard: {tmp_path.name}/all.tsv:3 is read as a "second"\n',
        "        no row has so so\n",
        f"        left out: {tmp_path.name}/all.tsv: 1 row has label -, which leave_out names\n",
        f"        left out: {tmp_path.name}/all.tsv: 4 rows: part is dev\n",
        f"        left out: {tmp_path.name}/all.tsv: 1 row: only the first 3 are used\n",
    ):
        assert line in shown


GROUPED = """\
[tasks.tone]
kind = "binary"
labels = ["bad", "good"]
texts = ["text"]
label = "tone"
train = "own.csv"
"""


def grouped_folder(folder: Path, keys: str, num_documents: int = 40) -> Path:
    """A task of 120 rows that are in so many documents, from two sources, with its keys."""
    folder.mkdir(exist_ok=True)
    (folder / TASK_FILE).write_text(GROUPED + keys)
    frame = pd.DataFrame({"text": [f"{'a' * row} text {row}" for row in range(120)], "tone": ["good", "bad"] * 60})
    frame["doc"], frame["source"] = [row % num_documents for row in range(120)], ["web", "web", ""] * 40
    frame["year"] = [2000 + row // 60 for row in range(120)]
    frame.to_csv(folder / "own.csv", index=False)
    return folder


def test_groups_and_slices_of_each_split_are_described(tmp_path: Path, capsys: Capture) -> None:
    output = output_of(grouped_folder(tmp_path, 'dev = 0.25\ngroup = "doc"\nslices = ["source"]\n'), capsys)
    assert "        90 rows in 30 groups that texts or doc connect, the largest 3 % of rows\n" in output
    assert "        30 rows in 10 groups that texts or doc connect, the largest 10 % of rows\n" in output
    assert "        source: web 60, blank 30\n" in output
    assert "WARNING" not in output
    output = output_of(grouped_folder(tmp_path, 'dev_from = {column = "year", after = 2000}\n'), capsys)
    assert "  dev   60 rows of train, whose year is after 2000\n" in output
    assert "connect" not in output


@pytest.mark.parametrize(("num_documents", "is_warned"), [(30, True), (40, False), (120, False)])
def test_few_groups_of_dev_are_warned_of(tmp_path: Path, capsys: Capture, num_documents: int, is_warned: bool) -> None:
    output = output_of(grouped_folder(tmp_path, 'dev = 0.25\ngroup = "doc"\n', num_documents), capsys)
    words = "WARNING: no difference between configurations can be claimed from rows in fewer than 10 groups, or with"
    assert (words in output) == is_warned


def test_dev_rows_that_differ_from_train_in_punctuation_alone_are_counted_too(folder: Path, capsys: Capture) -> None:
    path = folder / "tone-dev.jsonl"
    path.write_text(TONE_DEV + '{"text": "Bad!", "tone": "negative"}\n')
    shown = output_of(folder, capsys)
    assert "        1 row (33.3 %) has the text of a train row, 1 more but for punctuation\n" in shown


def test_near_copies_that_are_printed_and_saved_are_kept_together(tmp_path: Path, capsys: Capture) -> None:
    folder = grouped_folder(tmp_path / "data", 'dev = 0.25\ngroup_file = "near-copies.csv"\n')
    texts = [
        f"one of many long texts about subject {'abcdefghijklmnopqrst'[row // 6] * 9}{'!' * (row % 6)}"
        for row in range(120)
    ]
    pd.read_csv(folder / "own.csv").assign(text=texts).to_csv(folder / "own.csv", index=False)
    assert "lacks near-copies.csv (tasks.tone.group_file)" in one_line_exit(main, capsys, folder)
    assert main([str(folder), "--near-copies", "--similarity", "0.9"]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("text,group\none of many long texts about subject aaaaaaaaa,1\n")
    assert len(printed.out.splitlines()) == 121
    assert "120 of 120 texts are in 20 sets of near copies\n" in printed.err
    assert "tone: 0 of 30 dev rows have a text of a train row, " in printed.err
    assert 'group_file = "near-copies.csv"\n' in printed.err
    (folder / "near-copies.csv").write_text(printed.out)
    shown = output_of(folder, capsys)
    assert "        30 rows in 5 groups that texts or near-copies.csv connect, the largest 20 % of rows\n" in shown
    assert "        0 rows (0.0 %) have the text of a train row\n" in shown
    assert main([str(folder), "--near-copies"]) == 0
    assert "tone: 0 of 30 dev rows have a text of a train row, " in capsys.readouterr().err
