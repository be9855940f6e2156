"""`tasks.toml`: what it defines, and mistakes in it as one line."""

import dataclasses
from pathlib import Path

import pytest

from mtlib.config.data import DataConfig
from mtlib.config.task_file import MAX_TASKS, TASK_FILE, read_task_file
from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig, default_task_configs
from mtlib.tasks import DevFrom, FileFormat, RowSelection, Task, TaskFiles
from tests.one_line_error import one_line_error

TONE = """\
[tasks.tone]
title = "Tone"
kind = "classes"
labels = ["negative", "neutral", "positive"]
texts = ["text"]
label = "tone"
train = "tone-train.jsonl"
dev = "tone-dev.jsonl"
"""
GRADE = """\
[tasks.grade]
kind = "regression"
range = [0, 100]
texts = ["left", "right"]
label = "score"
id = "key"
train = "grade-train.parquet"
dev = "grade-dev.parquet"
test = "grade-test.parquet"
scored_train_rows = 5
metric = "rmse"
weight = 2
"""
LABELS, DEV = '["negative", "neutral", "positive"]', '"tone-dev.jsonl"'


def write(folder: Path, *parts: str) -> Path:
    path = folder / TASK_FILE
    path.write_text("\n".join(parts))
    return path


def config_of(tasks: dict[str, Task], *trained: str) -> TrialConfig:
    return TrialConfig(
        stages=(StageConfig(tasks=trained),), data=DataConfig(tasks=tasks), tasks=default_task_configs(tasks)
    )


def test_every_key_becomes_part_of_a_task(tmp_path: Path) -> None:
    path = write(tmp_path, "\N{ZERO WIDTH NO-BREAK SPACE}" + TONE, GRADE)  # a byte order mark
    assert read_task_file(path) == {
        "grade": Task(
            name="grade",
            title="grade",
            kind="regression",
            label_range=(0, 100),
            text_columns=("left", "right"),
            label_column="score",
            files=TaskFiles(
                train="grade-train.parquet", dev="grade-dev.parquet", test="grade-test.parquet", id_column="key"
            ),
            scored_train_rows=5,
            metric="rmse",
            weight=2,
        ),
        "tone": Task(
            name="tone",
            title="Tone",
            kind="classes",
            label_range=(0, 2),
            labels=("negative", "neutral", "positive"),
            text_columns=("text",),
            label_column="tone",
            files=TaskFiles(train="tone-train.jsonl", dev="tone-dev.jsonl"),
        ),
    }


@pytest.mark.parametrize(
    ("kind", "keys", "label_range"),
    [
        ("binary", 'labels = ["no", "yes"]', (0, 1)),
        ("binary", "", (0, 1)),
        ("classes", "num_labels = 7", (0, 6)),
        ("classes", 'labels = {pos = "positive", "0" = "negative", "so so" = "neutral"}', (0, 2)),
        ("multilabel", 'labels = ["a", "b"]', (0, 1)),
        ("regression", "range = [-1.5, 2]", (-1.5, 2)),
    ],
)
def test_labels_follow_from_the_kind(tmp_path: Path, kind: str, keys: str, label_range: tuple[float, float]) -> None:
    text = TONE.replace('"classes"', f'"{kind}"').replace(f"labels = {LABELS}", keys)
    tasks = read_task_file(write(tmp_path, text))
    assert (tasks["tone"].kind, tasks["tone"].label_range) == (kind, label_range)
    assert tasks["tone"].label_values == (("pos", "0", "so so") if "pos" in keys else ())
    config = config_of(tasks, "tone")
    assert TrialConfig.from_json(config.to_json()) == config


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('["a.csv", "parts/b-*.csv"]', ("a.csv", "parts/b-*.csv")),
        ('"hf://x#y:validation"', ("hf://x#y:validation",)),
        ("0.5", ("tone-train.jsonl",)),
    ],
)
def test_a_split_is_a_file_a_list_a_pattern_a_data_set_or_a_share(
    tmp_path: Path, text: str, expected: tuple[str, ...]
) -> None:
    tasks = read_task_file(write(tmp_path, TONE.replace(DEV, text)))
    files = tasks["tone"].files
    assert files is not None
    assert (files.paths("train"), files.paths("dev"), files.paths("test")) == (("tone-train.jsonl",), expected, ())
    assert files.dev_share == (0.5 if text == "0.5" else 0)
    config = config_of(tasks, "tone")
    assert TrialConfig.from_json(config.to_json()) == config


def test_a_split_may_say_which_rows_of_its_files_it_takes_and_where_their_labels_are(tmp_path: Path) -> None:
    train = '{files = {"so so" = "a.txt", bad = ["b.txt", "c*.txt"]}, first = 5}'
    dev = '{files = ["d.txt"], labels = "d.labels"}'
    test = '{files = "e.txt", where = {part = ["x", 2, true], other = "y"}}'
    text = TONE.replace('"tone-train.jsonl"', train).replace(DEV, f'{dev}\ntest = {test}\nformat = "lines"\n')
    text += 'leave_out = ["-"]\nencoding = "latin-1"\nseparator = "@"\nquoting = "none"'
    tasks = read_task_file(write(tmp_path, text))
    files = tasks["tone"].files
    assert files is not None
    assert files.paths("train") == ("a.txt", "b.txt", "c*.txt")
    assert files.rows("train") == RowSelection(first=5, file_labels=("so so", "bad", "bad"))
    assert (files.paths("dev"), files.rows("dev")) == (("d.txt",), RowSelection(label_files=("d.labels",)))
    where = (("part", "x", "2", "true"), ("other", "y"))
    assert (files.paths("test"), files.rows("test")) == (("e.txt",), RowSelection(where=where))
    assert files.left_out == ("-",)
    assert files.format == FileFormat(name="lines", encoding="latin-1", separator="@", quoting="none")
    config = config_of(tasks, "tone")
    assert TrialConfig.from_json(config.to_json()) == config


@pytest.mark.parametrize(
    ("after", "text"),
    [
        ('"2024-06-01"', "2024-06-01"),
        ("2024-06-01", "2024-06-01"),
        ("2024-06-01T12:00:00Z", "2024-06-01 12:00:00+00:00"),
        ("7", "7"),
        ("0.5", "0.5"),
    ],
)
def test_rows_may_be_dev_by_their_date_and_have_groups_and_slices(tmp_path: Path, after: str, text: str) -> None:
    keys = 'group = "doc"\nslices = ["source", "doc"]\ngroup_file = "g.csv"\n'
    keys += f'dev_from = {{column = "day", after = {after}}}'
    tasks = read_task_file(write(tmp_path, TONE.replace(f"dev = {DEV}", keys)))
    files = tasks["tone"].files
    assert files == TaskFiles(
        train="tone-train.jsonl",
        dev_from=DevFrom(column="day", after=text),
        group_columns=("doc",),
        group_file="g.csv",
        slice_columns=("source", "doc"),
    )
    assert (files.paths("dev"), files.takes_dev_from_train) == (("tone-train.jsonl",), True)
    config = config_of(tasks, "tone")
    assert TrialConfig.from_json(config.to_json()) == config


MISTAKES: list[tuple[str, str, str]] = [
    ('"classes"', '"binary"', "tasks.tone: labels must name 2 labels"),
    ('"classes"', '"regression"', "tasks.tone: range must be the lowest and the highest label"),
    ('"classes"', '"regression"\nrange = [0, 1]', "labels must be left out of kind regression"),
    ('["text"]', '["a", "b", "c"]', "tasks.tone: texts must name one column, or two"),
    ('["text"]', '["tone"]', "must name different columns"),
    (f"dev = {DEV}", "", "dev, or dev_from in its place, must be given, got neither"),
    (DEV, '0.1\ndev_from = {column = "day", after = 3}', "dev, or dev_from in its place, must be given, got both"),
    (f"dev = {DEV}", 'dev_from = {column = "day"}', "tasks.tone.dev_from.after is missing"),
    (f"dev = {DEV}", 'dev_from = {column = "day", after = "soon"}', "dev_from must compare numbers, or dates or times"),
    (f"dev = {DEV}", 'dev_from = {column = "day", after = 12:30:00}', "tasks.tone.dev_from.after must be text or a"),
    (f"dev = {DEV}", 'dev_from = {column = "tone", after = 3}', "dev_from must name other columns than label"),
    ('title = "Tone"', 'group = ["doc", "doc"]', "group must name each column once"),
    ('title = "Tone"', 'group = ["doc", ""]', "group must name columns, got ['doc', '']"),
    ('title = "Tone"', 'slices = ["tone"]', "slices must name other columns than label, got ['tone']"),
    ('title = "Tone"', 'id = "key"\nslices = ["key"]', "slices must not name the column of the ids"),
    ('title = "Tone"', 'slices = ["id"]', "or one that is called id, got ['id']"),
    (
        'title = "Tone"',
        'format = "fasttext"\ngroup = "doc"',
        "group must be left out, as files of format fasttext",
    ),
    ('title = "Tone"', 'columns = ["text", "tone"]\nslices = ["source"]', "columns must hold source"),
    (
        'title = "Tone"',
        "format = 'lines'\npattern = '(?P<text>.)(?P<tone>.)'\ngroup = 'doc'",
        "pattern must have a group (?P<NAME>...) for each of doc, text, tone",
    ),
    (DEV, "0", "dev must be a share above 0 and at most 0.5"),
    (DEV, "0.501", "dev must be a share above 0 and at most 0.5"),
    (DEV, '"0.1"', "or be a share such as 0.1, got '0.1'"),
    (DEV, "[]", "tasks.tone: dev must name a file"),
    (DEV, '["a.csv", "a.csv"]', "dev must name each file once"),
    (DEV, '"tone-dev.txt"', "tasks.tone: dev must end in .csv"),
    ('title = "Tone"', 'columns = ["text", "tune"]', "columns must hold tone"),
    ('"neutral"', '"negative"', "labels must name each label once"),
    (LABELS, '{"1" = "good", "1.0" = "fine", c = "bad"}', "labels must name each value once"),
    ('title = "Tone"', "range = [0, 1]", "range must be left out of kind classes"),
    (f"labels = {LABELS}", "num_labels = 1", "must be at least 2, got 1"),
    ('title = "Tone"', "scored_train_rows = -1", "scored_train_rows must be at least 0"),
    (DEV, '["a.csv", "b.tsv"]', "dev must name files of one format, got a.csv, b.tsv"),
    (DEV, '{files = "a.jsonl", first = -1}', "first must be at least 0, got -1"),
    (DEV, '{file = "a.jsonl"}', "unknown key 'tasks.tone.dev.file'; did you mean 'tasks.tone.dev.files'?"),
    (DEV, '{files = {a = "a.jsonl"}, labels = "b.txt"}', "labels must be left out where files are given by label"),
    (DEV, '{files = "hf://x", labels = "b.txt"}', "labels beside the texts must be those of files, not of a data set"),
    ('title = "Tone"', 'format = "tvs"', "tasks.tone.format must be"),
    (
        'title = "Tone"',
        'encoding = "latin-11"',
        "encoding must be one that Python knows, such as latin-1, got latin-11",
    ),
    ('title = "Tone"', 'separator = "::"', "separator must be one character, other than a line feed or a quotation"),
    ('title = "Tone"', 'quoting = "all"', "tasks.tone.quoting must be"),
    ('title = "Tone"', "pattern = '(?P<text>.*)'", 'pattern must come with format = "lines", got no format'),
    (
        'title = "Tone"',
        "format = 'lines'\npattern = '(?P<text>'",
        "pattern must be a regular expression, got (?P<text>: ",
    ),
    (
        'title = "Tone"',
        "format = 'lines'\npattern = '(?P<text>.*)'",
        "pattern must have a group (?P<NAME>...) for each of",
    ),
    (
        'title = "Tone"',
        "format = 'lines'",
        "train must have files by label, a file of labels or a pattern, as lines are",
    ),
    ('title = "Tone"', "format = 'jsonl'\ncolumns = ['text', 'tone']", "columns must be left out unless the format of"),
    ("[tasks.tone]", "[tasks.Tone]", "small letters, digits and underscores"),
    ("[tasks.tone]", "[tasks.overall]", "the name of a task must not be overall"),
    ("[tasks.tone]", "[tasks.tone", "must be readable TOML"),
    (TONE, "", "there must be 1 to 20 tasks"),
    (TONE, "".join(TONE.replace("tone]", f"t{n}]") for n in range(MAX_TASKS + 1)), "1 to 20 tasks"),
]


@pytest.mark.parametrize(("right", "wrong", "words"), MISTAKES)
def test_a_mistake_is_one_line_with_the_file_and_the_key(tmp_path: Path, right: str, wrong: str, words: str) -> None:
    assert right in TONE
    path = write(tmp_path, TONE.replace(right, wrong, 1))
    message = one_line_error(read_task_file, path)
    assert message.startswith(str(path))
    assert words in message


def test_an_added_task_changes_no_hash_and_a_changed_one_does(tmp_path: Path) -> None:
    tone, both = read_task_file(write(tmp_path, TONE)), read_task_file(write(tmp_path, TONE, GRADE))
    before = config_of(tone, "tone").content_hash
    assert config_of(both, "tone").content_hash == before
    assert config_of(both, "tone", "grade").content_hash != before
    wider = {"tone": dataclasses.replace(tone["tone"], label_range=(0, 4), labels=())}
    shares = [read_task_file(write(tmp_path, TONE.replace(DEV, share))) for share in ("0.1", "0.2")]
    assert len({before, *(config_of(tasks, "tone").content_hash for tasks in (wider, *shares))}) == 4


@pytest.mark.parametrize("split", ["train", "dev"])
def test_lines_have_no_columns_to_select_rows_by(tmp_path: Path, split: str) -> None:
    plain = '{files = {negative = "a", neutral = "b"}}'
    filtered = '{files = {negative = "a", neutral = "b"}, where = {part = "x"}}'
    text = TONE.replace('"tone-train.jsonl"', filtered if split == "train" else plain)
    text = text.replace(DEV, f'{filtered if split == "dev" else plain}\nformat = "lines"')
    message = one_line_error(read_task_file, write(tmp_path, text))
    assert f"{split}.where must be left out, as lines have no columns" in message
