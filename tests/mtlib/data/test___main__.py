"""The command that describes a data folder; a mistake in it is one line."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mtlib.config.task_file import TASK_FILE
from mtlib.data.__main__ import describe_labels, main
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
FOLDER: 2 tasks, by tasks.toml

grade: regression, metric spearman, weight 2
  train 9 rows of grades/*.csv
        labels 0 to 30 (range 0 to 100), mean 13.1, standard deviation 10
        words of both texts: median 5, 95 % of rows at most 5, longest 5
        0 pairs in several rows
  dev   3 rows drawn from train (0.25 of its rows)
        labels 5 to 35 (range 0 to 100), mean 18.3, standard deviation 12.5
        words of both texts: median 5, 95 % of rows at most 5, longest 5
        0 pairs in several rows
        0 rows (0.0 %) have both texts of a train row
        always 13.1, the mean of train: Spearman's correlation undefined, Pearson's correlation undefined, RMSE 13.521

tone (Tone): classes of 3, metric accuracy, weight 1
  train 4 rows of tone-train.jsonl
        labels negative: 1 (25 %), neutral: 1 (25 %), positive: 2 (50 %)
        words: median 2, 95 % of rows at most 4, longest 4
        0 texts in several rows
        unusable: 1 row: tone-train.jsonl:3: text is blank
  dev   2 rows of tone-dev.jsonl
        labels negative: 0 (0 %), neutral: 1 (50 %), positive: 1 (50 %)
        words: median 3, 95 % of rows at most 3, longest 3
        0 texts in several rows
        unusable: 1 row: tone-dev.jsonl:2: tone is blank
        1 row (50.0 %) has the text of a train row
        always positive, the most frequent label of train: accuracy 0.500, macro F1 0.333

Next: see what a sweep over three learning rates would do (without --dry-run it starts):
python sweeps/run.py --data FOLDER --encoder bert-base-uncased --vary optimizer.learning_rate=3e-5,7e-5,2e-4 --dry-run
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
    shown, wanted = output_of(folder, capsys).splitlines(), OUTPUT.replace("FOLDER", str(folder)).splitlines()
    assert len(shown) == len(wanted)
    for line, start in zip(shown, wanted, strict=True):  # of constant predictions further metrics may follow
        assert line.startswith(start) if "always" in start else line == start


def test_tasks_may_have_a_metric_of_a_file(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    text = (folder / TASK_FILE).read_text()
    (folder / TASK_FILE).write_text(text.replace('metric = "spearman"', 'metric = "closeness"'))
    assert "unknown metric of a regression task 'closeness'" in one_line_exit(main, capsys, folder)
    path = tmp_path / "mine.py"
    path.write_text("from mtlib.metrics.table import METRICS as ALL\nMETRICS = {'closeness': ALL['pearson']}\n")
    assert main([str(folder), "--methods", str(path)]) == 0
    assert "grade: regression, metric closeness, weight 2" in capsys.readouterr().out


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


def test_only_the_first_unusable_rows_are_listed(folder: Path, capsys: Capture) -> None:
    (folder / "tone-dev.jsonl").write_text(TONE_DEV + '{"text": "", "tone": "neutral"}\n' * 1200)
    found = [(2, "tone"), (4, "text"), (5, "text")]
    listed = ", ".join(f"tone-dev.jsonl:{line}: {column} is blank" for line, column in found)
    assert f"        unusable: 1,201 rows: {listed}, and 1,198 more\n" in output_of(folder, capsys)


def test_test_rows_need_no_labels(folder: Path, capsys: Capture) -> None:
    path = folder / TASK_FILE
    path.write_text(DEFINITIONS.replace('dev = "tone-dev.jsonl"', 'dev = "tone-dev.jsonl"\ntest = "new-*.jsonl"'))
    assert "  test  not there (new-*.jsonl); only predictions need it\n" in output_of(folder, capsys)
    (folder / "new-1.jsonl").write_text('{"text": "a film"}\n{"text": " "}\n')
    output = output_of(folder, capsys)
    assert "  test  1 row without labels of new-*.jsonl\n        words: median 2, " in output
    assert "        unusable: 1 row: new-1.jsonl:2: text is blank\n" in output


def test_test_rows_without_header_line_may_lack_the_label(folder: Path, capsys: Capture) -> None:
    (folder / TASK_FILE).write_text(
        '[tasks.tone]\nkind = "binary"\ntexts = ["text"]\nlabel = "tone"\ncolumns = ["source", "tone", "text"]\n'
        'train = "train.csv"\ndev = "dev.csv"\ntest = "new.csv"\n'
    )
    for name in ("train", "dev"):
        (folder / f"{name}.csv").write_text("web,1,a good film")
    for row in ("web,a new film", "web,,a new film"):
        (folder / "new.csv").write_text(row)
        lines = "  test  1 row without labels of new.csv\n        words: median 3, "
        assert lines in output_of(folder, capsys)
    (folder / "dev.csv").write_text("web,a good film")
    assert "dev.csv:1: a line must have 3 cells, got 2, no column text" in one_line_exit(main, capsys, folder)


def test_repeated_and_contradicting_rows_are_counted_and_shown_with_file_and_line(
    folder: Path, capsys: Capture
) -> None:
    lines = [f'{{"text": "Film {n}", "tone": "neutral"}}\n' for n in range(6)]
    lines += [f'{{"text": "film  {n}", "tone": "{"neutral" if n < 3 else "negative"}"}}\n' for n in range(6)]
    (folder / "tone-train.jsonl").write_text("".join(lines))
    (folder / "grades" / "a.csv").write_text(GRADES + "x,Why 7?,Because of 7.,45\ny,why 7?,Because of 7.,45.5\n")
    output = output_of(folder, capsys)
    places = [f"tone-train.jsonl:{n + 1} (neutral) and tone-train.jsonl:{n + 7} (negative)" for n in (3, 4)]
    assert "        6 texts in several rows, 12 in all\n" in output
    assert f"        3 of them with labels that differ, e.g. {'; '.join(places)}\n" in output
    assert "        1 pair in several rows, 3 in all\n" in output
    assert "labels that differ by more than 10, e.g. a.csv:9 (35) and a.csv:11 (45.5)\n" in output


@pytest.mark.parametrize(
    ("named", "labels"),
    [
        ('labels = ["negative", "neutral", "positive"]', '["negative", "neutral", "positive", "\\"", "nuetral"]'),
        ("num_labels = 3", '["\\"", "neutral", "nuetral"]'),
        (
            'labels = {neutral = "none", b = "no"}',
            '{"neutral" = "none", "b" = "no", "\\"" = "\\"", "nuetral" = "nuetral"}',
        ),
    ],
)
def test_all_unknown_labels_of_all_files_are_listed_with_a_line_that_names_them(
    folder: Path, named: str, labels: str, capsys: Capture
) -> None:
    definitions = DEFINITIONS.replace('labels = ["negative", "neutral", "positive"]', named)
    (folder / TASK_FILE).write_text(definitions)
    rows = {"train": ["neutral", *['\\"'] * 3, "neutral"], "dev": ["neutral", *['\\"'] * 3, "nuetral"]}
    for split, tones in rows.items():
        lines = (f'{{"text": "film {n} of {split}", "tone": "{tone}"}}\n' for n, tone in enumerate(tones))
        (folder / f"tone-{split}.jsonl").write_text("".join(lines))
    assert main([str(folder)]) == 2
    printed = capsys.readouterr()
    assert printed.err.count("\n") == 1
    assert '  ": 6 rows\n' in printed.out
    assert "  nuetral: 1 row\n" in printed.out
    (line,) = (line for line in printed.out.splitlines() if line.startswith("labels = "))
    assert line == f"labels = {labels}"
    (folder / TASK_FILE).write_text(definitions.replace(named, line))
    assert main([str(folder)]) == 0


def test_many_unknown_labels_are_cut_to_the_most_frequent(folder: Path, capsys: Capture) -> None:
    rows = [f'{{"text": "film {n} {k}", "tone": "t{n}"}}\n' for n in range(60) for k in range(n // 10 + 1)]
    (folder / "tone-train.jsonl").write_text("".join(rows))
    assert main([str(folder)]) == 2
    printed = capsys.readouterr()
    assert "lists all 60 unknown labels)" in printed.err
    assert "  t59: 6 rows\n" in printed.out
    assert "  t9: " not in printed.out
    assert "\n  and 10 more\n" in printed.out


def test_labels_beyond_the_first_are_counted_together() -> None:
    many = dataclasses.replace(TASKS["sst"], label_range=(0, 24))
    assert describe_labels(many, np.arange(25)).endswith(", 19: 1 (4 %) and 5 more")
    several = dataclasses.replace(TASKS["sst"], kind="multilabel", label_range=(0, 1), metric="")
    labels = np.array([[1, 1], [1, 0], [0, 0], [0, 0]])
    assert describe_labels(several, labels) == "labels 0: 2 (50 %), 1: 1 (25 %); none: 2"


MISTAKES = [
    (TASK_FILE, 'texts = ["text"]', 'text = "text"', "unknown key 'tasks.tone.text'; did you mean 'tasks.tone.texts'?"),
    (TASK_FILE, "[tasks.tone]", "[tasks.tone", "must be readable TOML"),
    (TASK_FILE, "tone-dev.jsonl", "tone-dv.jsonl", "lacks tone-dv.jsonl (tasks.tone.dev); the folder holds "),
    (TASK_FILE, "grades/*.csv", "grades/*.tsv", "tasks.grade.train must match a file, got grades/*.tsv; "),
    (TASK_FILE, "grades/*.csv", "*/*", "tasks.grade.train must name files that end in "),
    (TASK_FILE, "0.25", "0.05", "*.csv: tasks.grade.dev must hold out at least one whole group of rows"),
    ("tone-dev.jsonl", '"tone": "neutral"', '"tune": "neutral"', "tone-dev.jsonl:3: key tone is missing"),
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


def test_a_byte_order_mark_is_no_mistake(folder: Path, capsys: Capture) -> None:
    expected = output_of(folder, capsys)
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8-sig")
    assert output_of(folder, capsys) == expected


def test_a_folder_without_known_files_needs_definitions_and_one_with_them_no_others(
    folder: Path, tmp_path: Path, capsys: Capture
) -> None:
    (folder / TASK_FILE).write_text(DEFINITIONS.split("[tasks.grade]")[0].replace("tone-", "far/tone-"))
    message = one_line_exit(main, capsys, folder)
    assert "lacks far/tone-dev.jsonl (tasks.tone.dev), far/tone-train.jsonl (tasks.tone.train); " in message
    assert "need a tasks.toml" not in message
    other = tmp_path / "other"
    other.mkdir()
    message = one_line_exit(main, capsys, other)
    assert message.startswith(f"data folder {other} lacks ids-sst-dev.csv, ids-sst-train.csv, quora-dev.csv, ")
    assert message.endswith("; other files need a tasks.toml (see --help)")


def test_a_tilde_is_the_home_folder(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    home = folder / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    (folder / TASK_FILE).write_text(DEFINITIONS.replace("tone-dev", "~/tone-dev").replace("grades/*", "~/*"))
    assert f"got no {home}/tone-dev.jsonl (tasks.tone.dev); " in one_line_exit(main, capsys, folder)
    for name in ("tone-dev.jsonl", "grades/a.csv"):
        (folder / name).rename(home / Path(name).name)
    assert f"  dev   2 rows of {home}/tone-dev.jsonl\n" in output_of(folder, capsys)


def test_wrong_use_is_one_line(tmp_path: Path, capsys: Capture) -> None:
    assert "DIR must name a folder" in one_line_exit(main, capsys)
    assert "--glue must be given without DIR" in one_line_exit(main, capsys, tmp_path, "--glue")
    assert one_line_exit(main, capsys, tmp_path / "none").startswith("data must be a folder, got ")


def test_definitions_of_glue_are_printed_and_help_does_not_load_torch(capsys: Capture) -> None:
    assert main(["--glue"]) == 0
    assert "[tasks.cola]" in capsys.readouterr().out
    code = "import sys; import mtlib.data.__main__ as d; "
    code += "assert not {'torch', 'scipy', 'pandas'} & set(sys.modules); d.main(['--help'])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "python -m mtlib.data --glue > GLUE/tasks.toml" in shown
