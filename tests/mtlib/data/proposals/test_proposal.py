"""Proposed definitions are read by the tasks' own reader, and what they are unsure of is a comment."""

import gzip
import json
import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import datasets
import pandas as pd
import pytest

from mtlib.config.task_file import tasks_of_tree
from mtlib.data.__main__ import config_of, main
from mtlib.data.load import data_tasks, find_row_sources, read_all
from mtlib.data.proposals.proposal import suggest_tasks
from tests.one_line_error import one_line_error

TEXTS = ["the opening is lovely \U0001f600", 'they said "no" and went', "nothing new in any scene", "it is a short one"]
FRAME = pd.DataFrame({"key": range(4), "review": TEXTS, "tone": ["good", "bad", "so so", "good"]})
WRITERS: dict[str, Callable[[Path], object]] = {
    "csv": lambda path: FRAME.to_csv(path, index=False),
    "tsv": lambda path: FRAME.to_csv(path, sep="\t", index=False),
    "jsonl": lambda path: FRAME.to_json(path, orient="records", lines=True),
    "json": lambda path: FRAME.to_json(path, orient="records"),
    "parquet": lambda path: FRAME.to_parquet(path),
    "xlsx": lambda path: FRAME.to_excel(path, index=False),
}


def propose(folder: Path) -> tuple[dict[str, Any], list[str]]:
    """The tasks that are proposed, which can be read as a whole, and what is unsure."""
    lines = list(suggest_tasks(folder))
    assert not [line for line in lines if len(line.splitlines()) > 1]
    unsure = [line.partition("# unsure: ")[2] for line in lines if "# unsure: " in line]
    tree = tomllib.loads("\n".join(lines))
    assert not tree or tasks_of_tree(tree)
    return tree.get("tasks", {}), unsure


PLAIN = b"text,label\nit is one text,no\nit is not one,yes\n"


@pytest.mark.parametrize("form", WRITERS)
def test_a_proposal_defines_tasks_that_are_read(form: str, tmp_path: Path) -> None:
    for split in ("train", "validation"):
        WRITERS[form](tmp_path / f"{split}.{form}")
    tasks, unsure = propose(tmp_path)
    assert unsure == []
    assert tasks == {
        "task": {
            "kind": "classes",
            "labels": ["bad", "good", "so so"],
            "texts": ["review"],
            "label": "tone",
            "id": "key",
            "train": f"train.{form}",
            "dev": f"validation.{form}",
        }
    }
    (tmp_path / "tasks.toml").write_text("\n".join(suggest_tasks(tmp_path)))
    found = data_tasks(tmp_path)
    tables = read_all(find_row_sources(config_of(found), tmp_path), tmp_path)
    assert tables["task", "train"].texts == tables["task", "dev"].texts == (TEXTS,)


def test_rows_are_shown_as_they_are_read(tmp_path: Path) -> None:
    WRITERS["tsv"](tmp_path / "train.tsv")
    lines = list(suggest_tasks(tmp_path))
    assert lines[-2:] == [
        "#   review: 'the opening is lovely \U0001f600'  tone: 'good'",
        "#   review: 'they said \"no\" and went'  tone: 'bad'",
    ]
    assert "dev = 0.1  # a share of train, as no file is for dev by its name" in lines


def labelled(*labels: object) -> dict[str, object]:
    """Twenty texts or more, so that some can be dev, with these labels in turn."""
    count = 20 // len(labels) + 1
    return {"text": [f"this is text {at} of all" for at in range(count * len(labels))], "label": list(labels) * count}


@pytest.mark.parametrize(
    ("labels", "keys", "num_unsure"),
    [
        ([0, 1, 1], {"kind": "binary"}, 0),
        ([0, 1, 2], {"kind": "classes", "num_labels": 3}, 0),
        ([1, 2, 3], {"kind": "classes", "labels": {"1": "label 1", "2": "label 2", "3": "label 3"}}, 1),
        (["no", "yes"], {"kind": "binary", "labels": ["no", "yes"]}, 0),
        (["it", "5"], {"kind": "binary", "labels": {"5": "label 5", "it": "label it"}}, 1),
        ([0.5, 2, 4.5], {"kind": "regression", "range": [0.5, 4.5]}, 1),
        (range(30), {"kind": "regression", "range": [0, 29]}, 1),
        ([["a", "b"], [], ["c"]], {"kind": "multilabel", "labels": ["a", "b", "c"]}, 0),
        ([["a"], ["b"]], {"kind": "binary", "labels": ["a", "b"]}, 0),
        (["1,2", "10"], {"kind": "multilabel", "labels": {"1": "label 1", "2": "label 2", "10": "label 10"}}, 1),
        ([True, False], {"kind": "binary", "labels": ["false", "true"]}, 0),
    ],
)
def test_the_kind_follows_from_the_labels(labels: Any, keys: dict[str, Any], num_unsure: int, tmp_path: Path) -> None:
    content = labelled(*labels)
    (tmp_path / "train.json").write_text(json.dumps(content))
    tasks, unsure = propose(tmp_path)
    kind_keys = ("kind", "labels", "num_labels", "range")
    assert {key: value for key, value in tasks["task"].items() if key in kind_keys} == keys
    assert len(unsure) == num_unsure


def test_a_column_that_says_the_split_selects_rows(tmp_path: Path) -> None:
    content = labelled("a", "b", "a")
    frame = pd.DataFrame({**content, "the part": ["TRAIN", "TRAIN", "TRIAL", "TRAIN", "TEST", "TRIAL", "TEST"] * 3})
    frame.to_csv(tmp_path / "all.txt", sep="\t", index=False)
    tasks, _ = propose(tmp_path)
    assert tasks["task"]["format"] == "tsv"
    assert tasks["task"]["train"] == {"files": "all.txt", "where": {"the part": ["TRAIN"]}}
    assert tasks["task"]["dev"]["where"] == {"the part": ["TRIAL"]}
    assert tasks["task"]["test"]["where"] == {"the part": ["TEST"]}


def test_files_with_other_columns_are_tasks_of_their_own(tmp_path: Path) -> None:
    for name, column in (("one", "text"), ("two", "question")):
        (tmp_path / name).mkdir()
        frame = pd.DataFrame(labelled("a", "b")).rename(columns={"text": column})
        for split in ("train", "dev"):
            frame.to_csv(tmp_path / name / f"{split}.csv", index=False)
    tasks, _ = propose(tmp_path)
    assert [(own["texts"], own["train"], own["dev"]) for own in tasks.values()] == [
        (["text"], "one/train.csv", "one/dev.csv"),
        (["question"], "two/train.csv", "two/dev.csv"),
    ]


@pytest.mark.parametrize(
    ("name", "content", "keys", "unsure"),
    [
        (
            "train.tsv",
            "a first short text\t0\na second short text\t1\n",
            {"columns": ["column1", "column2"], "texts": ["column1"], "label": "column2"},
            ["the first line looks like a row, not like names of columns: name them in columns"],
        ),
        (
            "train.csv",
            "text,label\na café too far,no\nit is not one,yes\n".encode("latin-1"),
            {"encoding": "latin-1"},
            [],
        ),
        (
            "train.tsv",
            'text\tlabel\n"a short one here"\tno\nit is not one\tyes\n',
            {},
            ['the cells in quotation marks may be quoted: quoting = "standard", or "none"'],
        ),
        (
            "train.jsonl",
            '{"text": "line \u2028 of some text", "label": "a"}\n{"text": "a second short text", "label": "b"}\n',
            {"labels": ["a", "b"]},
            [],
        ),
        ("train.csv.gz", gzip.compress(PLAIN, mtime=0), {"label": "label"}, []),
        (
            "train.txt",
            "__label__a it opens in a town\n__label__b the end is near\n",
            {"format": "fasttext", "texts": ["text"], "label": "label", "labels": ["a", "b"]},
            [],
        ),
        (
            "export.json",
            json.dumps([{"text": f"a short one here {at}", "cats": {"a": at % 2, "b": at > 8}} for at in range(20)]),
            {"label": "cats", "kind": "multilabel", "labels": ["a", "b"]},
            ["the files look like exports of spaCy; their labels: cats"],
        ),
        (
            "export.json",
            json.dumps(
                [
                    {
                        "id": at,
                        "data": {"text": f"a short one here {at}"},
                        "annotations": [
                            {"result": [{"from_name": "tone", "type": "choices", "value": {"choices": [name]}}]}
                        ],
                    }
                    for at, name in enumerate(("a", "b") * 10)
                ]
            ),
            {"label": "tone", "labels": ["a", "b"], "texts": ["text"]},
            ["the files look like exports of Label Studio; their labels: tone"],
        ),
    ],
)
def test_what_a_proposal_is_unsure_of_is_a_comment(
    name: str, content: str | bytes, keys: dict[str, Any], unsure: list[str], tmp_path: Path
) -> None:
    for split in ("train", "dev"):
        (tmp_path / name.replace("train", split)).write_bytes(
            content if isinstance(content, bytes) else content.encode()
        )
    tasks, found = propose(tmp_path)
    assert {key: tasks["task"].get(key) for key in keys} == keys
    assert found == unsure


LINES = [f"this is line {at} of all" for at in range(20)]
CLASSES = ["a", "b"] * 10
LABELLED = list(zip(LINES, CLASSES, strict=True))
TABLE = ["text,label", *(f"{line},{name}" for line, name in LABELLED)]
IN_FOLDERS = {
    f"{split}/{name}/{at}.txt": [f"{LINES[at]} {split}"]
    for split in ("train", "test")
    for name in "ab"
    for at in range(9)
}
Files = dict[str, list[str]]


@pytest.mark.parametrize(
    ("files", "keys"),
    [
        (  # a label a line, and the names of the labels
            {"train_text.txt": LINES, "train_labels.txt": ["0", "2"] * 10, "mapping.txt": ["0\tno", "1\tso", "2\tyes"]},
            {"labels": ["no", "so", "yes"], "train": {"files": "train_text.txt", "labels": "train_labels.txt"}},
        ),
        (
            {"train/seq.in": LINES, "train/label": CLASSES, "valid/seq.in": LINES[:9], "valid/label": CLASSES[:9]},
            {
                "train": {"files": "train/seq.in", "labels": "train/label"},
                "dev": {"files": "valid/seq.in", "labels": "valid/label"},
            },
        ),
        (  # a file for each class
            {"rt.neg": LINES[:9], "rt.pos": LINES[9:]},
            {"labels": ["neg", "pos"], "train": {"files": {"neg": "rt.neg", "pos": "rt.pos"}}},
        ),
        (  # a folder for each class
            IN_FOLDERS,
            {
                "format": "text",
                "label": "folder",
                "labels": ["a", "b"],
                "train": "train/*/*.txt",
                "test": "test/*/*.txt",
            },
        ),
        (  # a label before each line
            {"data.train": [f"{name.upper()}:fine {line}" for line, name in LABELLED]},
            {"labels": ["A", "B"], "pattern": r"(?P<label>[^\s:]+):(?P<detail>[^\s:]+) (?P<text>.*)"},
        ),
        (
            {"all.txt": [f"{name}: {line}" for line, name in LABELLED]},
            {"labels": ["a", "b"], "pattern": r"(?P<label>[^\s:]+):\s+(?P<text>.*)"},
        ),
        (  # a separator other than tabs
            {"all.txt": [f"{line}@{name}" for line, name in LABELLED]},
            {"labels": ["a", "b"], "format": "tsv", "separator": "@", "columns": ["column1", "column2"]},
        ),
        (  # lists in JSON, and an array for each split
            {"all.json": [json.dumps(LABELLED)]},
            {"labels": ["a", "b"], "columns": ["column1", "column2"]},
        ),
        (
            {"all.json": [json.dumps({"train": LABELLED[:12], "val": LABELLED[12:]})]},
            {"labels": ["a", "b"], "train": "all.json", "dev": "all.json"},
        ),
        (  # folders of splits, test without labels
            {
                "train/set.csv": TABLE,
                "dev/set.csv": TABLE[:5],
                "test/set.csv": ["text", "a text without a label"],
                "LICENSE": ["a text of many words"],
            },
            {"train": "train/set.csv", "dev": "dev/set.csv", "test": "test/set.csv"},
        ),
        ({"device.csv": TABLE}, {"train": "device.csv", "dev": 0.1}),  # `dev` is no word of it
    ],
)
def test_files_that_belong_together_are_one_task_that_is_read(
    files: Files, keys: dict[str, Any], tmp_path: Path
) -> None:
    folder = tmp_path / "train"  # the names of folders above do not count
    for name, lines in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("\n".join([*lines, ""]))
    tasks, unsure = propose(folder)
    assert list(tasks) == ["task"]
    assert {key: tasks["task"].get(key) for key in keys} == keys
    assert not [line for line in unsure if "cannot be read" in line]
    assert "# rows as they were read:" in list(suggest_tasks(folder))


def write(folder: Path, files: Mapping[str, Sequence[str] | bytes]) -> None:
    """Writes files of these lines or bytes."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        lines = content if isinstance(content, bytes) else "\n".join([*content, ""]).encode()
        (folder / name).write_bytes(lines)


UNLABELLED = ["text", *LINES]
ITEMS = [{"text": line, "label": name} for line, name in LABELLED]
PARTS = [
    "text,label,part",
    *(f"{line},{name},{' Train' if at % 3 else 'test'}" for at, (line, name) in enumerate(LABELLED)),
]
CONTROLS = ["x\x7f", "y\x85z"]
NUMBERED = ["text,label", *(f"{line} {at},{at % 2}" for at, line in enumerate(LINES))]


@pytest.mark.parametrize(
    ("files", "keys", "doubts"),
    [
        (  # only one file is for train by its name
            {"train.csv": TABLE, "extra.csv": TABLE, "more_reviews.csv": TABLE},
            {"train": "train.csv"},
            ["extra.csv is not used", "more_reviews.csv is not used"],
        ),
        (
            {"TrainSet.csv": TABLE, "DevSet.csv": TABLE, "TestSet.csv": TABLE},
            {"train": "TrainSet.csv", "dev": "DevSet.csv", "test": "TestSet.csv"},
            [],
        ),
        (
            {"train-1.csv": TABLE, "train-2.csv": TABLE},
            {"train": ["train-1.csv", "train-2.csv"]},
            ["train has 2 files"],
        ),
        ({"train.csv": TABLE, "dev.tsv": ["text\tlabel", "a text\ta"]}, {"dev": 0.1}, ["dev.tsv is not used: files"]),
        (
            {"de.csv": PARTS, "en.csv": [line.replace("this", "that") for line in PARTS]},
            {
                "train": {"files": ["de.csv", "en.csv"], "where": {"part": ["Train"]}},
                "dev": 0.1,
                "test": {"files": ["de.csv", "en.csv"], "where": {"part": ["test"]}},
            },
            ["train has 2 files"],
        ),
        ({"all.json": [json.dumps({"train": ITEMS, "test": ITEMS})]}, {"dev": 0.1, "test": "all.json"}, []),
        (
            {
                f"20news-{split}/{name}/{at}": [LINES[at]]
                for split in ("train", "test")
                for name in "ab"
                for at in range(9)
            },
            {"train": "20news-train/*/*", "test": "20news-test/*/*"},
            ["each file seems to be one text"],
        ),
        (  # an encoding of any file; files of test are read too
            {
                "train.csv": TABLE,
                "dev.csv": "\n".join([*TABLE, "caf\u00e9,a"]).encode("latin-1"),
                "test.csv": ["text,", "a,b,c"],
            },
            {"encoding": "latin-1", "test": None},
            ['test = "test.csv", but it cannot be read so: test.csv:2: a line must have 2 cells'],
        ),
        (  # names of files that are patterns
            {"a[1]/train?.csv": TABLE},
            {"train": "a[[]1]/train[?].csv", "dev": 0.1},
            [],
        ),
        (  # what lies beside files of any split is named
            {f"{split}/{name}": LINES for split in ("train", "dev") for name in ("seq.in", "seq.out")}
            | {"train/label": CLASSES, "dev/label": CLASSES},
            {"train": {"files": "train/seq.in", "labels": "train/label"}},
            ["train/seq.out has as many lines too", "dev/seq.out has as many lines too"],
        ),
        (  # neither notes, programs nor hidden files are rows
            {
                "citation_intent.csv": TABLE,
                "LICENSE": LINES,
                ".git/HEAD": LINES,
                ".ipynb_checkpoints/train.csv": TABLE,
                "plot.png": b"\x89PNG\0",
            },
            {"train": "citation_intent.csv"},
            ["not read: plot.png: text must hold no zero byte"],
        ),
        (
            {"train.csv": TABLE, "notes.txt": LINES},
            {"train": "train.csv"},
            ["not used: notes.txt: lines are texts alone"],
        ),
        (
            {"train.csv": TABLE, **{f"logs/{at}/{name}.log": LINES for at in range(300) for name in "ab"}},
            {"train": "train.csv"},
            ["not used: logs/0/a.log"],
        ),
        (
            {"data/train.csv": NUMBERED, "labels.txt": ["no", "yes"]},
            {"labels": ["no", "yes"]},
            ["the names of labels come from labels.txt: no, yes"],
        ),
        (
            {"train.csv": NUMBERED, "label_names.txt": ["no", "yes"], "slot_label.txt": ["x", "y", "z"]},
            {"labels": ["no", "yes"]},
            ["the names of labels come from label_names.txt, not from slot_label.txt"],
        ),
        (
            {"train.csv": TABLE, "labels.txt": ["no", "yes"]},
            {"labels": ["a", "b"]},
            ["not used: labels.txt: it may list"],
        ),
        (
            {
                "train.csv": [
                    "text,label",
                    *(f'{line},"{"joy" if at % 2 else "joy, fear"}"' for at, line in enumerate(LINES)),
                ]
            },
            {"kind": "binary"},
            ['cells seem to hold several labels: kind = "multilabel" with labels = ["fear", "joy"]'],
        ),
        (
            {"train.csv": ["text,label", *(f"this is text {at},{at % 77}" for at in range(770))]},
            {"kind": "classes", "num_labels": 77},
            ['or scores, kind = "regression"'],
        ),
        (
            {
                "train.csv": [
                    "text,label",
                    *(f"{line},{CONTROLS[at % 2]}" for at, line in enumerate(LINES)),
                ]
            },
            {"labels": CONTROLS},
            [],
        ),
        ({"train.csv": ["text, label", *(f"{line}, {name}" for line, name in LABELLED)]}, {"label": "label"}, []),
    ],
)
def test_every_file_is_in_a_key_or_a_doubt(
    files: Mapping[str, Sequence[str] | bytes], keys: dict[str, Any], doubts: list[str], tmp_path: Path
) -> None:
    write(tmp_path, files)
    tasks, unsure = propose(tmp_path)
    assert list(tasks) == ["task"]
    assert {key: tasks["task"].get(key) for key in keys} == keys
    assert len(unsure) == len(doubts)
    assert all(line.startswith(doubt) for line, doubt in zip(unsure, doubts, strict=True))


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        ({"test.csv": TABLE}, "no file is for train, as test.csv is for test by its name"),
        ({"dev.csv": TABLE, "test.csv": UNLABELLED}, "no file is for train, as dev.csv is for dev by its name"),
        (
            {"train.csv": ["id,label", *(f"{at},{name}" for at, name in enumerate(CLASSES))]},
            "no column looks like texts",
        ),
        ({"train.csv": UNLABELLED}, "train.csv:1: column label is missing"),
        (
            {"train.csv": ["text,label", *(f"{line},a" for line in LINES)]},
            "unknown label in column label of train.csv:2",
        ),
    ],
)
def test_no_task_is_better_than_one_that_cannot_be_read(
    files: Mapping[str, Sequence[str]], fault: str, tmp_path: Path
) -> None:
    write(tmp_path, files)
    tasks, unsure = propose(tmp_path)
    assert tasks == {}
    assert unsure[-1].startswith(f"these files cannot be read so: {fault}")


def test_at_most_as_many_tasks_as_a_file_may_have_are_proposed(tmp_path: Path) -> None:
    write(tmp_path, {f"{at}/train.csv": TABLE for at in range(50)})
    tasks, unsure = propose(tmp_path)
    assert len(tasks) == 20
    assert unsure.count("these files cannot be read so: there must be at most 20 tasks") == 20
    assert unsure[-1].startswith("not read: ")


def test_tasks_that_can_be_read_are_numbered(tmp_path: Path) -> None:
    write(tmp_path, {"a/test.csv": TABLE, "b/train.csv": TABLE, "c/train.csv": TABLE})
    tasks, _ = propose(tmp_path)
    assert {name: own["train"] for name, own in tasks.items()} == {"task1": "b/train.csv", "task2": "c/train.csv"}
    assert "# [tasks.task3]" in list(suggest_tasks(tmp_path))


def test_names_of_files_that_are_no_text_are_not_read(tmp_path: Path) -> None:
    write(tmp_path, {"train.csv": TABLE, os.fsdecode(b"tr\xffain.csv"): TABLE})
    tasks, (line,) = propose(tmp_path)
    assert tasks["task"]["train"] == "train.csv"
    assert line == "not read: tr\\udcffain.csv: the name of a file must be UTF-8"


def test_other_columns_that_may_be_labels_are_named(tmp_path: Path) -> None:
    frame = pd.DataFrame({**labelled("a", "b"), "part": "x", "score": range(22), "intent": ["c", "d"] * 11})
    frame.to_csv(tmp_path / "train.csv", index=False)
    tasks, unsure = propose(tmp_path)
    assert tasks["task"]["label"] == "label"
    assert unsure == ["these columns may be labels: label, intent, score"]


def test_files_that_are_not_read_are_named(tmp_path: Path) -> None:
    WRITERS["csv"](tmp_path / "train.csv")
    (tmp_path / "more.parquet").write_bytes(b"\0\1")
    (tmp_path / "empty.csv").touch()
    assert [line.partition(": ")[0] for line in propose(tmp_path)[1] if "not read" in line] == ["not read"] * 2
    assert "# unsure: not read: empty.csv: a file must have rows, got none" in list(suggest_tasks(tmp_path))


def test_a_proposal_that_cannot_be_read_is_a_comment_that_says_why(tmp_path: Path) -> None:
    frame = pd.DataFrame(labelled("a", "b"))
    frame.to_csv(tmp_path / "train.csv", index=False)
    frame.replace({"label": {"b": "c"}}).to_csv(tmp_path / "dev.csv", index=False)
    tasks, (line,) = propose(tmp_path)
    assert line.startswith("these files cannot be read so: unknown label in column label of dev.csv:3 'c'")
    assert tasks == {}
    assert '# dev = "dev.csv"' in list(suggest_tasks(tmp_path))


def test_names_of_classes_in_parquet_files_are_proposed(tmp_path: Path) -> None:
    features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["no", "yes"])})
    datasets.Dataset.from_dict(labelled(1, 0), features=features).to_parquet(tmp_path / "train.parquet")
    tasks, unsure = propose(tmp_path)
    assert (tasks["task"]["labels"], unsure) == (["no", "yes"], [])


def test_a_folder_without_rows_is_refused(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("Data.")
    (tmp_path / "empty.csv").touch()
    (tmp_path / "broken.parquet").write_bytes(b"\0\1")
    message = one_line_error(lambda: list(suggest_tasks(tmp_path)))
    assert message.startswith(f"{tmp_path} must hold a file with rows, got broken.parquet: ")
    assert message.endswith("empty.csv: a file must have rows, got none")


@pytest.mark.parametrize("is_redirected", [False, True])
def test_the_command_prints_a_proposal_to_save(
    is_redirected: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    WRITERS["csv"](tmp_path / "train.csv")
    if is_redirected:
        (tmp_path / "tasks.toml").touch()  # as the shell does before the command runs
    assert main([str(tmp_path)]) == 0
    printed = capsys.readouterr()
    assert tomllib.loads(printed.out)["tasks"]["task"]["train"] == "train.csv"
    assert f"{tmp_path} has no tasks.toml: a proposal for one follows" in printed.err
