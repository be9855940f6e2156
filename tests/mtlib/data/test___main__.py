"""The command that describes a data folder, and every mistake in `tasks.toml` and in tables as one line."""

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mtlib.config.task_file import TASK_FILE, find_tasks
from mtlib.data.__main__ import describe_labels, main
from mtlib.tasks import TASKS
from search_spaces.presets import general
from tests.one_line_error import one_line_exit

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
        always positive, the most frequent label of train: accuracy 0.500, macro F1 0.333, MATTHEWS undefined

Next: see what a sweep over three learning rates would do (without --dry-run it starts):
python sweeps/run.py --data FOLDER --encoder bert-base-uncased --vary optimizer.learning_rate=3e-5,7e-5,2e-4 --dry-run
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def output_of(folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert main([str(folder)]) == 0
    return capsys.readouterr().out


def test_own_tasks_are_described(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert output_of(folder, capsys) == OUTPUT.replace("FOLDER", str(folder)).replace(
        "MATTHEWS", "Matthews' correlation"
    )


def test_tasks_may_have_a_metric_of_a_file(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (folder / TASK_FILE).read_text()
    (folder / TASK_FILE).write_text(text.replace('metric = "spearman"', 'metric = "closeness"'))
    assert "unknown metric of a regression task 'closeness'" in one_line_exit(main, capsys, folder)
    path = tmp_path / "mine.py"
    path.write_text("from mtlib.metrics.table import METRICS as ALL\nMETRICS = {'closeness': ALL['pearson']}\n")
    assert main([str(folder), "--methods", str(path)]) == 0
    assert "grade: regression, metric closeness, weight 2" in capsys.readouterr().out


def test_suggested_learning_rates_have_the_default_one_among_them(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = re.search(r"--vary optimizer\.learning_rate=(\S+)", output_of(folder, capsys))
    assert values is not None
    assert general(find_tasks(folder)).optimizer.learning_rate in map(float, values[1].split(","))


def test_files_of_cs224n_and_of_glue_are_described_and_missing_tasks_named(
    tiny_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = output_of(tiny_folder, capsys)
    for task in TASKS.values():
        assert f"\n{task.name} ({task.title}): " in output
        assert f" rows of {task.file_name('dev')}\n" in output
    assert output.splitlines()[0] == f"{tiny_folder}: 3 tasks, by the names of its files"
    assert "--set" not in output
    (tmp_path / "STS-B").mkdir()
    for split in ("train", "dev"):
        text = "index\tsentence1\tsentence2\tscore\n0\tA.\tB.\t2.5\n"
        (tmp_path / "STS-B" / f"{split}.tsv").write_text(text)
    output = output_of(tmp_path, capsys)
    assert output.startswith(f"{tmp_path}: 1 task, by the names of its files\n\nsts (STS): regression, metric pearson,")
    assert "        1 row (100.0 %) has both texts of a train row\n" in output
    assert (
        "\nsst (SST): classes of 5, metric accuracy, weight 1: not there (ids-sst-train.csv, ids-sst-dev.csv)\n"
        in output
    )
    assert "--set stages.0.tasks=sts --vary" in output


def test_only_the_first_unusable_rows_are_listed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "tone-dev.jsonl").write_text(TONE_DEV + '{"text": "", "tone": "neutral"}\n' * 1200)
    listed = ", ".join(
        f"tone-dev.jsonl:{line}: {column} is blank" for line, column in ((2, "tone"), (4, "text"), (5, "text"))
    )
    assert f"        unusable: 1,201 rows: {listed}, and 1,198 more\n" in output_of(folder, capsys)


def test_test_rows_need_no_labels(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / TASK_FILE
    path.write_text(DEFINITIONS.replace('dev = "tone-dev.jsonl"', 'dev = "tone-dev.jsonl"\ntest = "new-*.jsonl"'))
    assert "  test  not there (new-*.jsonl); only predictions need it\n" in output_of(folder, capsys)
    (folder / "new-1.jsonl").write_text('{"text": "a film"}\n{"text": " "}\n')
    output = output_of(folder, capsys)
    assert "  test  1 row without labels of new-*.jsonl\n" in output
    assert "        unusable: 1 row: new-1.jsonl:2: text is blank\n" in output


@pytest.mark.parametrize(("suffix", "mark"), [("csv", ","), ("tsv", "\t")])
def test_test_rows_without_header_line_may_lack_the_label(
    tmp_path: Path, suffix: str, mark: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / TASK_FILE).write_text(
        f"""[tasks.tone]
kind = "binary"
texts = ["text"]
label = "tone"
columns = ["source", "tone", "text"]
train = "train.{suffix}"
dev = "dev.{suffix}"
test = "new.{suffix}"
"""
    )
    for name in ("train", "dev"):
        (tmp_path / f"{name}.{suffix}").write_text(mark.join(("web", "1", "a good film")))
    for cells in (("web", "a new film"), ("web", "", "a new film")):
        (tmp_path / f"new.{suffix}").write_text(mark.join(cells))
        lines = output_of(tmp_path, capsys).splitlines()
        at = lines.index(f"  test  1 row without labels of new.{suffix}")
        assert lines[at + 1] == "        words: median 3, 95 % of rows at most 3, longest 3"
    (tmp_path / f"dev.{suffix}").write_text(mark.join(("web", "a good film")))
    assert one_line_exit(main, capsys, tmp_path).startswith(
        "dev.csv:1: a line must have 3 cells, got 2, no column text" if suffix == "csv" else f"{tmp_path.name}/dev.tsv"
    )


def test_repeated_and_contradicting_rows_are_counted_and_shown_with_file_and_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [f'{{"text": "Film {n}", "tone": "neutral"}}\n' for n in range(6)]
    lines += [f'{{"text": "film  {n}", "tone": "{"neutral" if n < 3 else "negative"}"}}\n' for n in range(6)]
    (folder / "tone-train.jsonl").write_text("".join(lines))
    (folder / "grades" / "a.csv").write_text(GRADES + "x,Why 7?,Because of 7.,45\ny,why 7?,Because of 7.,45.5\n")
    output = output_of(folder, capsys)
    places = [f"tone-train.jsonl:{n + 1} (neutral) and tone-train.jsonl:{n + 7} (negative)" for n in (3, 4)]
    assert (
        "        6 texts in several rows, 12 in all\n"
        f"        3 of them with labels that differ, e.g. {'; '.join(places)}\n"
    ) in output
    assert (
        "        1 pair in several rows, 3 in all\n"
        "        1 of them with labels that differ by more than 10, e.g. a.csv:9 (35) and a.csv:11 (45.5)\n"
    ) in output


@pytest.mark.parametrize(
    ("named", "labels"),
    [
        ('labels = ["negative", "neutral", "positive"]', '["negative", "neutral", "positive", "\\"", "nuetral"]'),
        ("num_labels = 3", '["\\"", "neutral", "nuetral"]'),
        (
            'labels = {negative = "no", positive = "yes", neutral = "none"}',
            '{"negative" = "no", "positive" = "yes", "neutral" = "none", "\\"" = "\\"", "nuetral" = "nuetral"}',
        ),
    ],
)
def test_all_unknown_labels_of_all_files_are_listed_with_a_line_that_names_them(
    folder: Path, named: str, labels: str, capsys: pytest.CaptureFixture[str]
) -> None:
    definitions = DEFINITIONS.replace('labels = ["negative", "neutral", "positive"]', named)
    (folder / TASK_FILE).write_text(definitions)
    rows = {"train": ["neutral", *['\\"'] * 3, "neutral"], "dev": ["neutral", *['\\"'] * 3, "nuetral"]}
    for split, tones in rows.items():
        lines = (f'{{"text": "film {n} of {split}", "tone": "{tone}"}}\n' for n, tone in enumerate(tones))
        (folder / f"tone-{split}.jsonl").write_text("".join(lines))
    assert main([str(folder)]) == 2
    printed = capsys.readouterr()
    (error,) = printed.err.splitlines()
    assert "tone-train.jsonl:" in error
    assert '  ": 6 rows\n' in printed.out
    assert "  nuetral: 1 row\n" in printed.out
    (line,) = (line for line in printed.out.splitlines() if line.startswith("labels = "))
    assert line == f"labels = {labels}"
    (folder / TASK_FILE).write_text(definitions.replace(named, line))
    assert main([str(folder)]) == 0


def test_many_unknown_labels_are_cut_to_the_most_frequent(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f'{{"text": "film {n} {k}", "tone": "t{n}"}}\n' for n in range(60) for k in range(n // 10 + 1)]
    (folder / "tone-train.jsonl").write_text("".join(rows))
    assert main([str(folder)]) == 2
    printed = capsys.readouterr()
    assert "('python -m mtlib.data DIR' lists all 60 unknown labels)" in printed.err
    assert "  t59: 6 rows\n" in printed.out
    assert "  t9: " not in printed.out
    assert "\n  and 10 more\n" in printed.out


def test_labels_beyond_the_first_are_counted_together() -> None:
    task = TASKS["sst"]
    assert describe_labels(task, np.array([0, 0, 4])).endswith(
        "labels 0: 2 (67 %), 1: 0 (0 %), 2: 0 (0 %), 3: 0 (0 %), 4: 1 (33 %)"
    )
    many = dataclasses.replace(task, label_range=(0, 24))
    assert describe_labels(many, np.arange(25)).endswith(", 19: 1 (4 %) and 5 more")


TOML, TRAIN, DEV, PART = TASK_FILE, "tone-train.jsonl", "tone-dev.jsonl", "grades/a.csv"
MISTAKES: dict[str, tuple[str, str, str, str]] = {
    "unknown key": (
        TOML,
        'texts = ["text"]',
        'text = "text"',
        "TOML: unknown key 'tasks.tone.text'; did you mean 'tasks.tone.texts'?",
    ),
    "kind misspelt": (
        TOML,
        "classes",
        "classe",
        "TOML: tasks.tone.kind must be one of classes, binary, multilabel, regression, got classe",
    ),
    "three texts": (
        TOML,
        '["text"]',
        '["a", "b", "c"]',
        "TOML: tasks.tone: texts must name one column, or two of a pair, got",
    ),
    "same column twice": (
        TOML,
        '"answer"',
        '"question"',
        "TOML: tasks.grade: texts, label and id must name different columns",
    ),
    "no label": (TOML, 'label = "tone"', "", "TOML: tasks.tone.label is missing"),
    "label twice": (TOML, '"positive"', '"neutral"', "TOML: tasks.tone: labels must name each label once, got"),
    "one label": (
        TOML,
        '"negative", "neutral", ',
        "",
        "TOML: tasks.tone: labels, or num_labels, must be at least 2, got 1",
    ),
    "range of classes": (
        TOML,
        'title = "Tone"',
        "range = [0, 2]",
        "TOML: tasks.tone: range must be left out of kind classes",
    ),
    "range turned round": (
        TOML,
        "[0, 100]",
        "[100, 0]",
        "TOML: tasks.grade: range must be the lowest and the highest label",
    ),
    "no range": (TOML, "range = [0, 100]", "", "TOML: tasks.grade: range must be the lowest and the highest label"),
    "dev share of 0": (
        TOML,
        "0.25",
        "0",
        "TOML: tasks.grade: dev must be a share above 0 and at most 0.5, or name files, got 0",
    ),
    "dev share of 1": (
        TOML,
        "0.25",
        "1",
        "TOML: tasks.grade: dev must be a share above 0 and at most 0.5, or name files, got 1",
    ),
    "dev share as text": (
        TOML,
        "0.25",
        '"0.25"',
        "TOML: tasks.grade: dev must end in .csv, .tsv, .jsonl, .parquet or begin with hf://, or be a",
    ),
    "dev share and file": (TOML, "0.25", '[0.25, "a.csv"]', "TOML: tasks.grade.dev.0 must be text, got 0.25"),
    "dev twice": (
        TOML,
        "dev = 0.25",
        'dev = 0.25\ndev = "b.csv"',
        "TOML must be readable TOML, got: Cannot overwrite a value",
    ),
    "unknown metric": (
        TOML,
        '"spearman"',
        '"spearmen"',
        "TOML: tasks.grade: unknown metric of a regression task 'spearmen'; did you mean 'spearman'?",
    ),
    "metric of another kind": (
        TOML,
        '"spearman"',
        '"f1"',
        "TOML: tasks.grade: unknown metric of a regression task 'f1'; known: pearson, rmse, spearman",
    ),
    "weight of 0": (TOML, "weight = 2", "weight = 0", "TOML: tasks.grade: weight must be above 0, got 0"),
    "bad name": (
        TOML,
        "[tasks.tone]",
        "[tasks.Tone-1]",
        "TOML: the name of a task must be small letters, digits and underscores",
    ),
    "21 tasks": (
        TOML,
        "[tasks.tone]",
        "".join(f"[tasks.t{n}]\n" for n in range(19)) + "[tasks.tone]",
        "TOML: there must be 1 to 20 tasks, [tasks.NAME], got 21",
    ),
    "no section": (TOML, DEFINITIONS, "", "TOML: there must be 1 to 20 tasks, [tasks.NAME], got 0"),
    "section without tasks": (TOML, "[tasks.tone]", "[tone]", "TOML: unknown key 'tone'; known: tasks"),
    "not TOML": (TOML, "[tasks.tone]", "[tasks.tone", "TOML must be readable TOML, got: Expected ']'"),
    "other encoding": (
        TOML,
        "Tone",
        "T\udcffne",
        "TOML must be readable TOML, got: 'utf-8' codec can't decode byte 0xff",
    ),
    "other suffix": (
        TOML,
        "tone-dev.jsonl",
        "tone-dev.xlsx",
        "TOML: tasks.tone: dev must end in .csv, .tsv, .jsonl, .parquet or begin with hf://",
    ),
    "mixed suffixes in a list": (
        TOML,
        '"tone-dev.jsonl"',
        '["a.csv", "b.tsv"]',
        "TOML: tasks.tone: dev must name files of one suffix, got a.csv, b.tsv",
    ),
    "columns of a file with names": (
        TOML,
        'title = "Tone"',
        'columns = ["text", "tone"]',
        "TOML: tasks.tone: columns must be left out unless files end in .csv or .tsv",
    ),
    "missing file": (
        TOML,
        "tone-dev.jsonl",
        "tone-dv.jsonl",
        "data folder FOLDER lacks tone-dv.jsonl (tasks.tone.dev); ",
    ),
    "pattern without match": (
        TOML,
        "grades/*.csv",
        "grades/*.tsv",
        "TOML: tasks.grade.train must match a file, got grades/*.tsv; FOLDER/grades holds a.csv, b.csv",
    ),
    "mixed suffixes of a pattern": (PART, "", "", "TOML: tasks.grade.train must name files of one suffix, got"),
    "files with other columns": (
        PART,
        "question",
        "ask",
        "a.csv:1: column question is missing; known: answer, ask, key, points",
    ),
    "missing key": (
        DEV,
        '"tone": "positive"',
        '"tune": "positive"',
        "tone-dev.jsonl:1: key tone is missing; did you mean 'tune'?",
    ),
    "missing key in a later row": (
        DEV,
        '"tone": "neutral"',
        '"tune": "neutral"',
        "tone-dev.jsonl:3: key tone is missing; did you mean 'tune'?",
    ),
    "label out of range": (PART, ",35", ",135", "a.csv:9: column points must be a number from 0 to 100, got '135'"),
    "grade in words": (PART, ",35", ",good", "a.csv:9: column points must be a number from 0 to 100, got 'good'"),
    "grade NaN": (PART, ",35", ",nan", "a.csv:9: column points must be a number from 0 to 100, got 'nan'"),
    "cell missing": (PART, ",35", "", "a.csv:9: a line must have 4 cells, got 3, no column points"),
    "id twice": (PART, "k7,", "m1,", "b.csv:3: column key must hold each id once, got m1 of a.csv:9 again"),
    "quotation mark": (PART, "Because of 7.", '"Because of 7.', "a.csv:9: column answer must close its quotation mark"),
    "empty file": (DEV, TONE_DEV, "", "tone-dev.jsonl:1: a file must hold a JSON object per line, got an empty file"),
    "empty CSV": (PART, GRADES, "", "a.csv:1: a file must start with a header line, got an empty file"),
    "no JSON": (
        DEV,
        '{"text": "a new film"',
        '{"text: "a new film"',
        "tone-dev.jsonl:3: a line must be a JSON object, got",
    ),
    "list as text": (
        DEV,
        '"a new film"',
        '["a new film"]',
        "tone-dev.jsonl:3: column text must be text or a number, got ['a new film']",
    ),
    "latin-1": (
        DEV,
        "a new film",
        "a n\udce9w film",
        "tone-dev.jsonl:3: column text must be UTF-8 text, got byte 0xe9",
    ),
    "share too small": (
        TOML,
        "0.25",
        "0.05",
        "*.csv: tasks.grade.dev must hold out at least one whole group of rows that share texts, got",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_every_mistake_is_one_line_with_its_place(folder: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    file, right, wrong, line = MISTAKES[name]
    assert right in FILES[file]
    (folder / file).write_bytes(FILES[file].replace(right, wrong, 1).encode(errors="surrogateescape"))
    if name == "mixed suffixes of a pattern":
        (folder / TASK_FILE).write_text(DEFINITIONS.replace("grades/*.csv", "grades/*"))
        (folder / "grades" / "c.tsv").write_text("")
    message = one_line_exit(main, capsys, folder)
    assert message.startswith(line.replace("TOML", str(folder / TASK_FILE), 1).replace("FOLDER", str(folder)))


def test_a_wrong_parquet_file_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / TASK_FILE
    path.write_text(DEFINITIONS.replace("tone-dev.jsonl", "tone.parquet"))
    (folder / "tone.parquet").write_text("text,tone")
    assert one_line_exit(main, capsys, folder).startswith("tone.parquet must be a Parquet file")
    pd.DataFrame({"text": ["fine"]}).to_parquet(folder / "tone.parquet")
    assert one_line_exit(main, capsys, folder) == "tone.parquet: column tone is missing; known: text"


def test_a_byte_order_mark_is_no_mistake(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = output_of(folder, capsys)
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8-sig")
    assert output_of(folder, capsys) == expected


def test_a_folder_without_known_files_needs_definitions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "reviews.csv").write_text("text,label\n")
    message = one_line_exit(main, capsys, tmp_path)
    assert message.startswith(f"data folder {tmp_path} lacks ids-sst-dev.csv, ids-sst-train.csv, quora-dev.csv, ")
    assert message.endswith("holds reviews.csv; other files need a tasks.toml (see --help)")
    assert one_line_exit(main, capsys, tmp_path / "none").startswith("data must be a folder, got ")


def test_a_folder_with_definitions_needs_no_others(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / TASK_FILE).write_text(DEFINITIONS.split("[tasks.grade]")[0].replace("tone-", "far/tone-"))
    message = one_line_exit(main, capsys, folder)
    assert "lacks far/tone-dev.jsonl (tasks.tone.dev), far/tone-train.jsonl (tasks.tone.train); " in message
    assert "need a tasks.toml" not in message


def test_a_tilde_is_the_home_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = folder / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    (folder / TASK_FILE).write_text(DEFINITIONS.replace("tone-dev", "~/tone-dev").replace("grades/*", "~/*"))
    message = one_line_exit(main, capsys, folder)
    assert f"got no {home}/tone-dev.jsonl (tasks.tone.dev); " in message
    for name in ("tone-dev.jsonl", "grades/a.csv"):
        (folder / name).rename(home / Path(name).name)
    assert f"  dev   2 rows of {home}/tone-dev.jsonl\n" in output_of(folder, capsys)


def test_wrong_use_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert one_line_exit(main, capsys) == "DIR must name a folder (see --help), got none"
    assert one_line_exit(main, capsys, tmp_path, "--glue").startswith("--glue must be given without DIR")
    assert (
        one_line_exit(main, capsys, "--gleu")
        == "unknown flag '--gleu'; did you mean '--glue'? known: --glue, --help, --methods, -h"
    )


def test_help_shows_a_file_and_does_not_load_torch() -> None:
    code = "import sys; import mtlib.data.__main__ as d; "
    code += "assert not {'torch', 'scipy', 'pandas'} & set(sys.modules); d.main(['--help'])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "[tasks.tone]" in shown
    assert "python -m mtlib.data --glue > GLUE/tasks.toml" in shown
