"""`tasks.toml`: what it defines, and every mistake in it as one line."""

import dataclasses
from pathlib import Path

import pytest

from mtlib.config.data import DataConfig
from mtlib.config.task_file import MAX_TASKS, TASK_FILE, find_tasks, read_task_file
from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig, default_task_configs
from mtlib.tasks import TASKS, Task, TaskFiles
from results.records.trials import trials_schema
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
"""


def write(folder: Path, *parts: str) -> Path:
    path = folder / TASK_FILE
    path.write_text("\n".join(parts))
    return path


def config_of(tasks: dict[str, Task], *trained: str) -> TrialConfig:
    return TrialConfig(
        stages=(StageConfig(tasks=trained),), data=DataConfig(tasks=tasks), tasks=default_task_configs(tasks)
    )


def test_every_key_becomes_part_of_a_task(tmp_path: Path) -> None:
    write(tmp_path, TONE, GRADE)
    assert find_tasks(tmp_path) == {
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


def test_without_the_file_the_tasks_are_the_built_in_ones(tmp_path: Path) -> None:
    assert find_tasks(tmp_path) == TASKS


@pytest.mark.parametrize(
    ("kind", "keys", "label_range"),
    [
        ("binary", 'labels = ["no", "yes"]', (0, 1)),
        ("binary", "", (0, 1)),
        ("classes", "num_labels = 7", (0, 6)),
        ("regression", "range = [-1.5, 2]", (-1.5, 2)),
    ],
)
def test_labels_follow_from_the_kind(tmp_path: Path, kind: str, keys: str, label_range: tuple[float, float]) -> None:
    text = TONE.replace('kind = "classes"', f'kind = "{kind}"').replace(
        'labels = ["negative", "neutral", "positive"]', keys
    )
    task = read_task_file(write(tmp_path, text))["tone"]
    assert (task.kind, task.label_range) == (kind, label_range)


def test_a_mapping_of_labels_gives_values_their_names(tmp_path: Path) -> None:
    labels = '["negative", "neutral", "positive"]'
    text = TONE.replace(labels, '{pos = "positive", "0" = "negative", "so so" = "neutral"}')
    task = read_task_file(write(tmp_path, text))["tone"]
    assert (task.labels, task.label_range) == (("positive", "negative", "neutral"), (0, 2))
    assert task.label_values == ("pos", "0", "so so")
    config = config_of({"tone": task}, "tone")
    assert TrialConfig.from_json(config.to_json()) == config
    plain = dataclasses.replace(task, label_values=())
    assert config_of({"tone": plain}, "tone").content_hash != config.content_hash


def test_metric_and_weight_may_be_chosen(tmp_path: Path) -> None:
    task = read_task_file(write(tmp_path, GRADE + 'metric = "rmse"\nweight = 2'))["grade"]
    assert (task.metric, task.weight) == ("rmse", 2)
    assert read_task_file(write(tmp_path, GRADE))["grade"].metric == "pearson"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"a.csv"', ("a.csv",)),
        ('["a.csv", "parts/b-*.csv"]', ("a.csv", "parts/b-*.csv")),
        ('"parts/*"', ("parts/*",)),
        ('"hf://x#y:validation"', ("hf://x#y:validation",)),
        ("0.5", ("tone-train.jsonl",)),
    ],
)
def test_a_split_is_a_file_a_list_a_pattern_a_data_set_or_a_share(
    tmp_path: Path, text: str, expected: tuple[str, ...]
) -> None:
    tasks = read_task_file(write(tmp_path, TONE.replace('"tone-dev.jsonl"', text)))
    files = tasks["tone"].files
    assert files is not None
    assert (files.paths("train"), files.paths("dev"), files.paths("test")) == (("tone-train.jsonl",), expected, ())
    assert files.dev_share == (0.5 if text == "0.5" else 0)
    config = config_of(tasks, "tone")
    assert TrialConfig.from_json(config.to_json()) == config


def test_a_byte_order_mark_changes_nothing(tmp_path: Path) -> None:
    path = write(tmp_path, TONE)
    plain = find_tasks(tmp_path)
    path.write_text(TONE, encoding="utf-8-sig")
    assert find_tasks(tmp_path) == plain


MISTAKES: list[tuple[str, str, str]] = [
    ("kind =", "kinde =", "unknown key 'tasks.tone.kinde'; did you mean 'tasks.tone.kind'?"),
    ('"classes"', '"class"', "tasks.tone.kind must be one of classes, binary, multilabel, regression, got class"),
    ('"classes"', '"binary"', "tasks.tone: labels must name 2 labels of kind binary, got 3"),
    ('"classes"', '"regression"', "tasks.tone: range must be the lowest and the highest label"),
    ('["text"]', '["a", "b", "c"]', "tasks.tone: texts must name one column, or two of a pair"),
    ('["text"]', "[]", "tasks.tone: texts must name one column, or two of a pair"),
    ('["text"]', '["tone"]', "tasks.tone: texts, label and id must name different columns"),
    ('["text"]', "7", "tasks.tone.texts must be a list, got 7"),
    ('label = "tone"', "label = 3", "tasks.tone.label must be text or a list, got 3"),
    ('label = "tone"', "", "tasks.tone.label is missing"),
    ('dev = "tone-dev.jsonl"', "", "tasks.tone.dev is missing"),
    (
        'dev = "tone-dev.jsonl"',
        "dev = 0",
        "tasks.tone: dev must be a share above 0 and at most 0.5, or name files, got 0",
    ),
    (
        'dev = "tone-dev.jsonl"',
        "dev = 1",
        "tasks.tone: dev must be a share above 0 and at most 0.5, or name files, got 1",
    ),
    ('dev = "tone-dev.jsonl"', "dev = 0.501", "dev must be a share above 0 and at most 0.5, or name files, got 0.501"),
    ('dev = "tone-dev.jsonl"', 'dev = "0.1"', "begin with hf://, or be a share such as 0.1, got '0.1'"),
    ('dev = "tone-dev.jsonl"', 'dev = [0.1, "a.csv"]', "tasks.tone.dev.0 must be text, got 0.1"),
    ('dev = "tone-dev.jsonl"', "dev = true", "tasks.tone.dev must be text or a number or a list, got True"),
    ('dev = "tone-dev.jsonl"', "dev = []", "tasks.tone: dev must name a file, got []"),
    ('dev = "tone-dev.jsonl"', 'dev = ["a.csv", "a.csv"]', "tasks.tone: dev must name each file once"),
    (
        'dev = "tone-dev.jsonl"',
        'dev = ["a.csv", "b.tsv"]',
        "tasks.tone: dev must name files of one suffix, got a.csv, b.tsv",
    ),
    (
        'dev = "tone-dev.jsonl"',
        'dev = ["a.csv", "hf://b"]',
        "tasks.tone: dev must name files, or one data set hf://NAME",
    ),
    ("tone-dev.jsonl", "tone-train.jsonl", "dev must name other files than train, or be a share of train such as 0.1"),
    ("tone-dev.jsonl", "./x/../tone-train.jsonl", "dev must name other files than train, or be a share of train"),
    ('"tone-dev.jsonl"', '["a.jsonl", "tone-train.jsonl"]', "such as 0.1, got tone-train.jsonl"),
    ('train = "tone-train.jsonl"', "train = 0.9", "tasks.tone.train must be text or a list, got 0.9"),
    ('train = "tone-train.jsonl"', 'train = ""', "tasks.tone: train must end in .csv, .tsv, .jsonl, .parquet or begin"),
    (
        'title = "Tone"',
        'columns = ["text", "tone"]',
        "columns must be left out unless files end in .csv or .tsv, got tone-",
    ),
    ('title = "Tone"', 'columns = ["text", "tune"]', "tasks.tone: columns must hold tone, got ['text', 'tune']"),
    ('title = "Tone"', 'columns = ["text", "text"]', "tasks.tone: columns must name each column once"),
    (
        '"neutral"',
        '" neutral"',
        "tasks.tone: labels must be words, not blank, got ['negative', ' neutral', 'positive']",
    ),
    ("tone-dev.jsonl", "tone-dev.txt", "tasks.tone: dev must end in .csv, .tsv, .jsonl, .parquet or"),
    ('"neutral"', '"negative"', "tasks.tone: labels must name each label once"),
    ('["negative", "neutral", "positive"]', '["negative"]', "tasks.tone: labels, or num_labels, must be at least 2"),
    (
        '["negative", "neutral", "positive"]',
        '{a = "good", b = "good", c = "bad"}',
        "tasks.tone: labels must name each label once, got ['good', 'good', 'bad']",
    ),
    (
        '["negative", "neutral", "positive"]',
        '{"1" = "good", "1.0" = "fine", c = "bad"}',
        "tasks.tone: labels must name each value once",
    ),
    ('["negative", "neutral", "positive"]', '{a = "good", b = 1}', "tasks.tone.labels.b must be text, got 1"),
    ('["negative", "neutral", "positive"]', '{neg = "negative"}', "labels, or num_labels, must be at least 2, got 1"),
    ('title = "Tone"', "range = [0, 1]", "tasks.tone: range must be left out of kind classes"),
    ('title = "Tone"', "num_labels = 3", "tasks.tone: num_labels must be left out of all but classes without names"),
    ('title = "Tone"', "scored_train_rows = -1", "tasks.tone: scored_train_rows must be at least 0, got -1"),
    ('title = "Tone"', 'metric = "pearson"', "tasks.tone: unknown metric of a classes task 'pearson'; known: accuracy"),
    ('title = "Tone"', "weight = 0", "weight must be above 0, got 0"),
    ("[tasks.tone]", "[tasks.Tone]", "the name of a task must be small letters, digits and underscores"),
    ("[tasks.tone]", "[tasks.overall]", "the name of a task must not be overall"),
    (
        "[tasks.tone]",
        "[tasks.epoch_tone]",
        "must not begin with epoch_, as names of columns in records do, got epoch_tone",
    ),
    ("[tasks.tone]", "[task.tone]", "unknown key 'task'; did you mean 'tasks'?"),
    ("[tasks.tone]", "[tasks.tone", "must be readable TOML, got: Expected ']'"),
]


@pytest.mark.parametrize(("right", "wrong", "line"), MISTAKES)
def test_a_mistake_is_one_line_with_the_file_and_the_key(tmp_path: Path, right: str, wrong: str, line: str) -> None:
    assert right in TONE
    path = write(tmp_path, TONE.replace(right, wrong, 1))
    message = one_line_error(find_tasks, tmp_path)
    assert message.startswith(str(path))
    assert line in message


@pytest.mark.parametrize("name", ["epoch", "epochs_tone", "tone_epoch_", "overall_"])
def test_names_near_those_of_records_are_columns_of_their_own(tmp_path: Path, name: str) -> None:
    tasks = read_task_file(write(tmp_path, TONE, TONE.replace("tasks.tone", f"tasks.{name}")))
    columns = trials_schema(list(tasks)).names
    assert len(set(columns)) == len(columns)
    assert {f"best_{name}", f"best_epoch_{name}"} <= set(columns)


@pytest.mark.parametrize(
    ("train", "dev"), [("a-*.csv", "a-dev.csv"), ("x/a.csv", "a.csv"), ("a.csv", "A.csv"), ("hf://x", "hf://x")]
)
def test_train_and_dev_may_have_similar_names(tmp_path: Path, train: str, dev: str) -> None:
    text = TONE.replace("tone-train.jsonl", train).replace("tone-dev.jsonl", dev)
    files = read_task_file(write(tmp_path, text))["tone"].files
    assert files is not None
    assert (files.train, files.dev) == (train, dev)


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "tasks = 3")
    assert one_line_error(find_tasks, tmp_path) == f"{path}: tasks must be a table of tasks, [tasks.NAME], got 3"
    write(tmp_path, "")
    assert "there must be 1 to 20 tasks, [tasks.NAME], got 0" in one_line_error(find_tasks, tmp_path)
    write(tmp_path, *(TONE.replace("tasks.tone", f"tasks.t{n}") for n in range(MAX_TASKS + 1)))
    assert "there must be 1 to 20 tasks, [tasks.NAME], got 21" in one_line_error(find_tasks, tmp_path)
    path.write_bytes(b"\xff\xfe")
    assert "must be readable TOML" in one_line_error(find_tasks, tmp_path)


def test_a_configuration_of_such_tasks_is_read_back_as_it_was(tmp_path: Path) -> None:
    tasks = read_task_file(write(tmp_path, TONE, GRADE))
    config = config_of(tasks, "tone", "grade")
    again = TrialConfig.from_json(config.to_json())
    assert again == config
    assert again.content_hash == config.content_hash
    assert again.task("tone") == tasks["tone"]
    assert config.active_tasks == ("grade", "tone")
    assert set(config.data.sources) == set(), "further sets are for tasks that are not there"
    assert (config.tasks["grade"].encoding, config.tasks["grade"].loss) == ("cross", "mean_squared_error")


def test_an_added_task_changes_no_hash_and_a_changed_one_does(tmp_path: Path) -> None:
    tone, both = read_task_file(write(tmp_path, TONE)), read_task_file(write(tmp_path, TONE, GRADE))
    before = config_of(tone, "tone")
    assert config_of(both, "tone").content_hash == before.content_hash
    assert config_of(both, "tone", "grade").content_hash != before.content_hash
    changed = {"tone": dataclasses.replace(tone["tone"], label_range=(0, 4), labels=())}
    assert config_of(changed, "tone").content_hash != before.content_hash


def test_tasks_may_be_called_as_further_sets_and_as_built_in_tasks(tmp_path: Path) -> None:
    """CFIMDB's labels, which are for five classes, do not fit this task."""
    file = write(tmp_path, *(TONE.replace("tasks.tone", f"tasks.{name}") for name in ("sst", "cfimdb", "snli", "qqp")))
    config = config_of(read_task_file(file), "sst", "cfimdb")
    assert config.data.sources == {}
    assert TrialConfig.from_json(config.to_json()) == config


def test_the_share_of_dev_rows_is_part_of_the_hash(tmp_path: Path) -> None:
    files = ['"tone-dev.jsonl"', "0.1", "0.2"]
    configs = [config_of(read_task_file(write(tmp_path, TONE.replace(files[0], dev))), "tone") for dev in files]
    assert len({config.content_hash for config in configs}) == 3


def test_a_task_that_the_file_lacks_is_refused(tmp_path: Path) -> None:
    tasks = read_task_file(write(tmp_path, TONE))
    assert one_line_error(config_of, tasks, "tune").startswith("unknown task 'tune'; did you mean 'tone'?")
    assert one_line_error(config_of, tasks, "sst").startswith("unknown task 'sst'; known: tone")
