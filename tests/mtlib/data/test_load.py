"""The files and rows that a configuration names, and the errors for missing ones."""

import json
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import datasets
import pandas as pd
import pytest

from mtlib.config.data import DataConfig, SourceConfig
from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig, default_task_configs
from mtlib.data.hold_out import normalise
from mtlib.data.load import MAX_PASTED_LABELS, data_tasks, find_held_sources, find_row_sources, read_data, read_held_out
from mtlib.data.row_sources import HELD
from mtlib.data.tables import Table, content_fingerprint
from mtlib.tasks import TASKS, DevFrom, RowSelection, Task, TaskFiles
from tests.one_line_error import one_line_error

SNLI = pd.DataFrame(
    {"id": ["a", "b", "c"], "sentence1": "A man.", "sentence2": ["One.", "Two.", "Three."], "label": [0, 1, 2]}
)


@pytest.fixture
def folder(tiny_folder: Path, tmp_path: Path) -> Path:
    """A copy of the tiny data."""
    return Path(shutil.copytree(tiny_folder, tmp_path / "data"))


def write(path: Path, frame: pd.DataFrame) -> None:
    path.parent.mkdir(exist_ok=True)
    frame.to_csv(path, index=False)


def config_of(
    *tasks: str,
    extra: tuple[str, ...] = (),
    sources: Mapping[str, Mapping[str, Any]] | None = None,
    hold_out: float = 0.0,
) -> TrialConfig:
    tree = json.loads(TrialConfig(stages=(StageConfig(tasks=tasks),)).to_json())
    tree["data"]["sources"] |= {name: dict(source) for name, source in (sources or {}).items()}
    tree["stages"][0]["extra_data"] = list(extra)
    tree["data"]["hold_out"] = hold_out
    return TrialConfig.from_json(json.dumps(tree))


def labels_of(table: Table) -> list[float]:
    found: list[float] = table.labels.tolist()
    return found


@pytest.mark.parametrize(
    ("kind", "cells", "words"),
    [
        ("classes", ["legal", "Größe", "legal", ""], 'labels = ["Größe", "legal"]'),
        ("classes", ["10", "9", "a"], 'labels = ["9", "10", "a"]'),
        ("classes", ["2", "1.0", "0"], "num_labels = 3"),
        ("classes", [f"{n}.5" for n in range(MAX_PASTED_LABELS + 1)], f"{MAX_PASTED_LABELS + 1} values"),
        ("multilabel", [["b", "a"], [], ["c"]], 'labels = ["a", "b", "c"]'),
        ("classes", ["", ""], "topic has 0 values"),
    ],
)
def test_classes_without_labels_are_refused_with_the_labels_of_train(
    tmp_path: Path, kind: str, cells: list[Any], words: str
) -> None:
    rows = (json.dumps({"text": "a", "topic": cell}) for cell in cells)
    (tmp_path / "topic.jsonl").write_text("\n".join(rows))
    definition = f'[tasks.topic]\nkind = "{kind}"\ntexts = ["text"]\nlabel = "topic"\nmetric = "any"\n'
    (tmp_path / "tasks.toml").write_text(f'{definition}train = "topic.jsonl"\ndev = 0.1\n')
    message = one_line_error(data_tasks, tmp_path)
    assert message.startswith(f"{tmp_path / 'tasks.toml'}: tasks.topic: labels")
    assert words in message
    (tmp_path / "topic.jsonl").unlink()
    assert "must" in one_line_error(data_tasks, tmp_path)


@pytest.mark.parametrize("text", ["[tasks]\nsst = 3\n", "tasks = [3]\n", "[tasks.sst]\nkind = 3\nlabel = 3\n"])
def test_a_task_file_of_another_shape_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "tasks.toml").write_text(text)
    assert one_line_error(data_tasks, tmp_path).startswith(f"{tmp_path / 'tasks.toml'}: ")


def test_without_a_folder_or_a_task_file_the_built_in_tasks_are_there(tmp_path: Path) -> None:
    assert data_tasks(None) == data_tasks(tmp_path) == TASKS


def test_extra_data_is_read_where_a_stage_uses_it_with_mapped_labels(folder: Path) -> None:
    write(folder / "snli-train.csv", SNLI)
    assert ("snli", "train") not in read_data(config_of("qqp"), folder)
    tables = read_data(config_of("qqp", extra=("snli",)), folder)
    table = tables["snli", "train"]
    assert set(tables) == {("qqp", "train"), ("qqp", "dev"), ("snli", "train")}
    assert (table.task, table.ids, labels_of(table), table.num_own_rows) == ("qqp", ["a", "c"], [1, 0], 2)
    assert table.left_out == ("snli-train.csv: 1 row has label 1, which labels does not name",)


def test_a_prefix_is_before_each_text_of_its_task_and_of_its_extra_data(folder: Path) -> None:
    write(folder / "snli-train.csv", SNLI)
    config = config_of("qqp", extra=("snli",))
    plain, prefixed = read_data(config, folder), read_data(config.override({"tasks.qqp.prefix": "query: "}), folder)
    for key, table in plain.items():
        assert prefixed[key].texts == tuple([f"query: {text}" for text in texts] for texts in table.texts)
        assert prefixed[key].ids == table.ids


def test_every_missing_file_is_named_with_its_folder(folder: Path, tmp_path: Path) -> None:
    (folder / "quora-dev.csv").unlink()
    (folder / "quora-train.csv").write_text("wrong: no file is read before all are there")
    extra = {"task": "qqp", "path": str(tmp_path / "far.jsonl")}
    message = one_line_error(read_data, config_of("qqp", extra=("snli", "far"), sources={"far": extra}), folder)
    assert message.startswith(f"data folder {folder} lacks quora-dev.csv, snli-train.csv; ")
    assert message.endswith(f"; and there is no {tmp_path}/far.jsonl")


GLUE = {
    "qqp": ("QQP", "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate", 'x{n}\t1\t2\tWhy "so?\tHow?\t{n}'),
    "sts": (
        "STS-B",
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore",
        '{n}\tmain\tf\t2012\t1\tnone\tnone\tA "plane.\tA car.\t{n}.500',
    ),
}


def test_glue_folders_are_read_where_the_task_files_are_missing(folder: Path) -> None:
    for task, (name, header, row) in GLUE.items():
        (folder / name).mkdir()
        lines = [header, *(row.format(n=number) for number in range(2))]
        for split in ("train", "dev"):
            (folder / name / f"{split}.tsv").write_text("\n".join(lines) + "\n")
            (folder / TASKS[task].file_name(split)).unlink()
    tables = read_data(config_of("sst", "qqp", "sts"), folder)
    assert tables["qqp", "dev"].texts == (['Why "so?', 'Why "so?'], ["How?", "How?"])
    assert (tables["qqp", "train"].ids, labels_of(tables["qqp", "train"])) == (["x0", "x1"], [0, 1])
    assert (tables["sts", "dev"].ids, labels_of(tables["sts", "dev"])) == (["0", "1"], [0.5, 1.5])
    assert tables["sts", "train"].texts == (['A "plane.'] * 2, ["A car."] * 2)
    assert tables["sst", "train"].path == folder / "ids-sst-train.csv"


def test_augmentation_follows_the_own_rows_and_is_not_counted_among_them(folder: Path) -> None:
    name = "paraphrases.csv"
    write(folder / name, pd.DataFrame({"text": ["Fine.", "", "Bad."], "stars": [4, 3, 0]}))
    source = {"task": "sst", "role": "augment", "path": name, "text_columns": ["text"], "label_column": "stars"}
    tables, plain = (read_data(config_of("sst", sources=s), folder) for s in ({"synthetic": source}, {}))
    table, own = tables["sst", "train"], plain["sst", "train"]
    assert (table.num_own_rows, len(table.ids)) == (30, 32)
    assert table.ids == [*own.ids, "synthetic/0", "synthetic/2"]
    assert table.texts == ([*own.texts[0], "Fine.", "Bad."],)
    assert labels_of(table) == [*labels_of(own), 4, 0]
    assert table.skipped == ("paraphrases.csv:3: text is blank",)


def test_a_source_can_replace_train_and_dev_of_a_task(folder: Path) -> None:
    for split, count in (("train", 3), ("validation", 2)):
        write(folder / f"nli/{split}.csv", SNLI.head(count).rename(columns={"label": "gold"}))
    source = {
        "task": "qqp",
        "role": "replace",
        "path": "nli/{split}.csv",
        "dev_split": "validation",
        "label_column": "gold",
        "labels": ["0:1", "1:0", "2:0"],
    }
    tables = read_data(config_of("qqp", sources={"nli": source}), folder)
    assert [labels_of(tables["qqp", split]) for split in ("train", "dev")] == [[1, 0, 0], [1, 0]]
    assert [tables["qqp", split].split for split in ("train", "dev")] == ["train", "dev"]


TONE = Task(
    name="tone",
    title="Tone",
    kind="binary",
    label_range=(0, 1),
    labels=("bad", "good"),
    text_columns=("text",),
    label_column="tone",
    files=TaskFiles(train="own.csv", dev="dev.csv"),
)


def test_no_other_set_is_trained_on_dev_rows_that_are_drawn_from_train(tmp_path: Path) -> None:
    tasks = {"tone": replace(TONE, files=TaskFiles(train="own.csv", dev=0.25))}
    tasks["mood"] = replace(TONE, name="mood", files=TaskFiles(train="mood.csv", dev="own.csv"))
    for name in ("own.csv", "mood.csv"):
        texts = [f"{name} {number}" for number in range(40)]
        pd.DataFrame({"text": texts, "tone": ["good", "bad"] * 20}).to_csv(tmp_path / name, index=False)
    config = TrialConfig(
        stages=(StageConfig(tasks=("tone", "mood")),), data=DataConfig(tasks=tasks), tasks=default_task_configs(tasks)
    )
    drawn = read_data(config, tmp_path)["tone", "dev"].texts[0]
    with (tmp_path / "mood.csv").open("a") as file:
        file.write(f"{drawn[0].upper()},good\n{drawn[1]},bad\n")
    again = {"task": "tone", "role": "augment", "path": "own.csv"}
    tables = read_data(config.override({f"data.sources.again.{key}": value for key, value in again.items()}), tmp_path)
    (line,) = tables["mood", "train"].left_out
    assert line.startswith("2 of 42 train rows of mood.csv (4.8%) share a text with dev rows of tone (2): ")
    assert (tables["tone", "train"].num_own_rows, len(tables["tone", "train"].ids)) == (30, 60)
    assert not texts_of([tables["tone", "train"]]) & set(map(normalise, drawn))


def test_extra_data_of_a_task_with_named_labels_has_its_names(tmp_path: Path) -> None:
    for name in ("own.csv", "dev.csv", "more.csv"):
        pd.DataFrame({"text": ["A.", "B."], "tone": ["good", "bad"]}).to_csv(tmp_path / name, index=False)
    data = DataConfig(tasks={"tone": TONE}, sources={"more": SourceConfig(task="tone", path="more.csv")})
    stages, tasks = (StageConfig(tasks=("tone",), extra_data=("more",)),), default_task_configs({"tone": TONE})
    config = TrialConfig(stages=stages, data=data, tasks=tasks)
    assert labels_of(read_data(config, tmp_path)["more", "train"]) == [1, 0]
    mapped = config.override({"data.sources.more.labels": ["good:0", "bad:1"]})
    assert labels_of(read_data(mapped, tmp_path)["more", "train"]) == [0, 1]
    (tmp_path / "more.csv").write_text("text,tone\nA.,goood\n")
    message = one_line_error(read_data, config, tmp_path)
    assert message.startswith("unknown label in column tone of more.csv:2 'goood'; did you mean 'good'?")


def test_row_sources_are_equal_exactly_where_the_rows_are(folder: Path) -> None:
    base = config_of("sst", "qqp", extra=("snli",), hold_out=0.2)
    own, held = find_row_sources(base, folder), find_held_sources(base, folder)
    for same in ({"seed": 5}, {"data.sources.snli.batch_size": 3}, {"data.bucket_batches": 2}):
        assert find_row_sources(base.override(same), folder) == own
    for key, value in (("labels", ["0:1"]), ("path", "y.csv")):
        other = find_row_sources(base.override({f"data.sources.snli.{key}": value}), folder)
        assert {name for name in own if own[name] != other[name]} == {("snli", "train")}
    other = find_row_sources(base.override({"data.hold_out": 0.3}), folder)
    assert {name for name in own if own[name] == other[name]} == {("sst", "dev"), ("qqp", "dev")}
    assert list(held) == [("sst", HELD), ("qqp", HELD)]
    assert held["qqp", HELD] == find_held_sources(config_of("qqp", hold_out=0.2), folder)["qqp", HELD]
    assert hash(tuple(own.items())) == hash(tuple(find_row_sources(base, folder).items()))


ALL = ("sst", "qqp", "sts")


def texts_of(tables: Iterable[Table]) -> set[str]:
    return {normalise(text) for table in tables for column in table.texts for text in column}


def test_no_held_out_text_is_in_any_train_table(folder: Path) -> None:
    """Extra data and augmentation repeat all train rows of their task in capitals."""
    pairs, texts = (pd.read_csv(folder / TASKS[task].file_name("train"), sep="\t") for task in ("qqp", "sst"))
    for side in ("sentence1", "sentence2"):
        pairs[side] = pairs[side].str.upper()
    new_pairs = SNLI.rename(columns={"label": "is_duplicate"}).head(2)
    write(folder / "pairs.csv", pd.concat([pairs, new_pairs])[list(pairs)[1:]])
    texts["sentence"] = "  " + texts["sentence"].str.title()
    write(folder / "texts.csv", texts[["id", "sentence", "sentiment"]])
    sources = {
        "pairs": {"task": "qqp", "path": "pairs.csv"},
        "texts": {"task": "sst", "path": "texts.csv", "role": "augment"},
    }
    config = config_of(*ALL, extra=("pairs",), sources=sources, hold_out=0.2)
    held, tables = read_held_out(config, folder), read_data(config, folder)
    train = {name: table for (name, split), table in tables.items() if split == "train"}
    assert set(train) == {*ALL, "pairs"}
    assert not texts_of(held.values()) & texts_of(train.values())
    assert [len(held[task].ids) for task in ALL] == [6, 14, 4]
    assert [train[task].num_own_rows for task in ALL] == [24, 56, 18]
    assert (len(train["sst"].ids), len(train["pairs"].ids)) == (48, 58)
    assert (
        train["sst"]
        .left_out[0]
        .startswith("6 of 30 train rows of texts.csv (20.0%) share a text with rows held out of sst")
    )
    assert train["pairs"].left_out[0].startswith("14 of 72 train rows of pairs.csv (19.4%)")
    assert all(len(tables[task, "dev"].ids) == 13 for task in ALL), "dev is as it was"


def test_held_out_rows_depend_neither_on_other_tasks_nor_on_the_order_of_the_file(folder: Path) -> None:
    both = read_held_out(config_of(*ALL, hold_out=0.2), folder)
    for change in ({"seed": 3}, {"replicate": 1}, {"stages.0.epochs": 5}):
        again = read_held_out(config_of(*ALL, hold_out=0.2).override(change), folder)
        assert [table.ids for table in again.values()] == [table.ids for table in both.values()]
    (alone,) = read_held_out(config_of("qqp", hold_out=0.2), folder).values()
    assert (alone.split, alone.task, alone.skipped) == (HELD, "qqp", ())
    assert content_fingerprint({("a", HELD): alone}) == content_fingerprint({("a", HELD): both["qqp"]})
    path = folder / TASKS["qqp"].file_name("train")
    header, *lines = path.read_text().splitlines()
    path.write_text("\n".join([header, *reversed(lines)]) + "\n")
    assert read_held_out(config_of("qqp", hold_out=0.2), folder)["qqp"].ids == alone.ids[::-1]


def test_without_a_share_nothing_is_held_out_and_the_split_is_refused(folder: Path) -> None:
    config = config_of(*ALL)
    assert all(part.hold_out is None for parts in find_row_sources(config, folder).values() for part in parts)
    assert find_held_sources(config, folder) == {}
    assert one_line_error(read_held_out, config, folder).startswith("data.hold_out must be above 0 where")


QUOTED = 'text\tlabel\n"say ""x"""\tno\nplain\tyes\n'
BARE = 'text\tlabel\nsay "x\tno\nplain\tyes\n'
BOTH = 'text\tlabel\n"x"\tno\nplain\tyes\n'


def with_tables(folder: Path, train: str, dev: str, keys: str = "") -> Path:
    """A folder whose one task has these files."""
    (folder / "train.tsv").write_text(train)
    (folder / "dev.tsv").write_text(dev)
    names = 'kind = "binary"\nlabels = ["no", "yes"]\ntexts = ["text"]\nlabel = "label"\n'
    files = 'train = "train.tsv"\ndev = "dev.tsv"\n'
    (folder / "tasks.toml").write_text(f"[tasks.tone]\n{names}{files}{keys}")
    return folder


@pytest.mark.parametrize(
    ("train", "dev", "quoting"),
    [
        (QUOTED, QUOTED, "standard"),
        (QUOTED, BOTH, "standard"),
        (BOTH, QUOTED, "standard"),
        (BARE, BOTH, "none"),
        (BOTH, BOTH, "unclear"),
        ("text\tlabel\na\tno\n", QUOTED, "standard"),
        ("text\tlabel\na\tno\n", "text\tlabel\na\tno\n", ""),
    ],
)
def test_the_files_of_a_task_show_its_quoting(train: str, dev: str, quoting: str, tmp_path: Path) -> None:
    files = data_tasks(with_tables(tmp_path, train, dev))["tone"].files
    assert files is not None
    assert files.format.quoting == quoting


def test_missing_files_of_labels_are_named_with_the_others(tmp_path: Path) -> None:
    keys = 'kind = "binary"\nlabels = ["no", "yes"]\ntexts = ["text"]\nlabel = "label"\nformat = "lines"\ndev = 0.1\n'
    (tmp_path / "tasks.toml").write_text(f'[tasks.tone]\n{keys}train = {{files = "a.txt", labels = "~/no.labels"}}\n')
    (tmp_path / "a.txt").touch()
    tasks = data_tasks(tmp_path)
    config = TrialConfig(
        stages=(StageConfig(tasks=("tone",)),), data=DataConfig(tasks=tasks), tasks=default_task_configs(tasks)
    )
    message = one_line_error(read_data, config, tmp_path)
    assert f"must be there, got no {Path.home()}/no.labels (tasks.tone.train)" in message


def test_files_that_differ_in_quoting_are_refused_unless_it_is_given(tmp_path: Path) -> None:
    message = one_line_error(data_tasks, with_tables(tmp_path, QUOTED, BARE))
    assert message.startswith("the TSV files of tasks.tone must be alike in their quoting: write one of them again")
    assert message.endswith(", got standard in train.tsv and none in dev.tsv")
    files = data_tasks(with_tables(tmp_path, QUOTED, BARE, 'quoting = "none"'))["tone"].files
    assert files is not None
    assert files.format.quoting == "none"


def grouped_frame(num_rows: int, stem: str = "text") -> pd.DataFrame:
    """Rows of four to a document, with a date, and labels in turn; the last document has no number."""
    frame = pd.DataFrame(
        {"text": [f"{stem} {row}" for row in range(num_rows)], "tone": ["good", "bad"] * (num_rows // 2)}
    )
    frame["doc"] = [str(row // 4) if row < num_rows - 4 else "" for row in range(num_rows)]
    frame["day"] = [f"2024-{1 + row % 12:02}-01" for row in range(num_rows)]
    return frame


def tones(**files: TaskFiles) -> TrialConfig:
    """A configuration of tasks of texts with two tones, by their files."""
    tasks = {name: replace(TONE, name=name, files=own) for name, own in files.items()}
    return TrialConfig(
        stages=(StageConfig(tasks=tuple(tasks)),), data=DataConfig(tasks=tasks), tasks=default_task_configs(tasks)
    )


def of_documents(dev: float = 0.25, **fields: Any) -> TaskFiles:
    return TaskFiles(**{"train": "own.csv", "dev": dev, "group_columns": ("doc",), **fields})


def documents_of(table: Table) -> set[str]:
    return set(table.groups[0]) - {""}


def save(frame: pd.DataFrame, path: Path) -> None:
    """Writes a file in the format of its name."""
    match path.suffix:
        case ".csv":
            frame.to_csv(path, index=False)
        case ".xlsx":
            frame.to_excel(path, index=False)
        case ".parquet":
            frame.to_parquet(path)
        case _:
            path.write_text("".join(f"{json.dumps(row)}\n" for row in frame.to_dict("records")))


@pytest.mark.parametrize("name", ["own.csv", "own.jsonl", "own.parquet", "own.xlsx"])
def test_documents_are_on_one_side_of_dev_and_of_held_out_rows_in_every_format(tmp_path: Path, name: str) -> None:
    save(grouped_frame(80), tmp_path / name)
    config = tones(tone=of_documents(train=name, slice_columns=("doc", "day"))).override({"data.hold_out": 0.2})
    tables = read_data(config, tmp_path)
    train, dev, held = tables["tone", "train"], tables["tone", "dev"], read_held_out(config, tmp_path)["tone"]
    assert [len(table.ids) for table in (train, dev, held)] == [48, 20, 12]
    assert sorted(int(id_) for table in (train, dev, held) for id_ in table.ids) == list(range(80))
    documents = [documents_of(table) for table in (train, dev, held)]
    assert sum(map(len, documents)) == len(set().union(*documents)) == 19
    for table in (train, dev, held):
        assert table.slices["doc"] == ["" if int(row) >= 76 else str(int(row) // 4) for row in table.ids]
    assert train.left_out == ()


def test_a_document_for_each_row_gives_the_rows_of_a_task_without_documents(tmp_path: Path) -> None:
    frame = grouped_frame(80)
    frame["text"] = [f"text {row // 3}" for row in range(80)]
    frame["doc"] = range(80)
    save(frame, tmp_path / "own.csv")
    both = [
        tones(tone=of_documents(group_columns=columns)).override({"data.hold_out": 0.2}) for columns in ((), ("doc",))
    ]
    before, after = ({**read_data(own, tmp_path), **read_held_out(own, tmp_path)} for own in both)
    assert {key: table.ids for key, table in before.items()} == {key: table.ids for key, table in after.items()}


def test_tasks_of_the_same_train_files_share_documents_and_others_texts_alone(tmp_path: Path) -> None:
    frame, other = grouped_frame(80), grouped_frame(80, "other")
    other.loc[0, "text"] = "text 0"
    save(frame, tmp_path / "own.csv")
    save(other, tmp_path / "other.csv")
    where = RowSelection(where=(("tone", "good"),))
    config = tones(
        tone=of_documents(), mood=of_documents(dev=0.1, train_rows=where), far=of_documents(train="other.csv")
    )
    tables = read_data(config, tmp_path)
    dev = {name: tables[name, "dev"] for name in config.active_tasks}
    apart = documents_of(dev["tone"]) | documents_of(dev["mood"])
    for name in ("tone", "mood"):
        train, is_apart = tables[name, "train"], bool(apart - documents_of(dev[name]))
        assert not documents_of(train) & apart
        assert any("share a text or a group with dev rows of" in line for line in train.left_out) == is_apart
    assert apart == documents_of(dev["tone"]) > documents_of(dev["mood"])
    far = tables["far", "train"]
    assert not documents_of(far) & documents_of(tables["tone", "train"]), "5 of one file is not 5 of another"
    assert len(far.ids) in (60, 59)


def test_a_source_in_place_of_train_has_documents_and_augmentation_has_not(tmp_path: Path) -> None:
    save(grouped_frame(80), tmp_path / "own.csv")
    again = grouped_frame(80, "reworded")
    save(again, tmp_path / "again.csv")
    config = tones(tone=of_documents())
    documents = documents_of(read_data(config, tmp_path)["tone", "dev"])
    for role, num_rows in (("train", 60), ("augment", 140)):
        source = {"task": "tone", "role": role, "path": "again.csv"}
        tables = read_data(config.override({f"data.sources.x.{key}": value for key, value in source.items()}), tmp_path)
        assert documents_of(tables["tone", "dev"]) == documents
        assert len(tables["tone", "train"].ids) == num_rows
    save(again.drop(columns="doc"), tmp_path / "again.csv")
    tables = read_data(config.override({f"data.sources.x.{key}": value for key, value in source.items()}), tmp_path)
    assert len(tables["tone", "train"].ids) == 140


AFTER = DevFrom(column="day", after="2024-10-01")


@pytest.mark.parametrize("name", ["own.csv", "own.jsonl", "own.parquet", "own.xlsx"])
@pytest.mark.parametrize("is_typed", [True, False])
def test_later_rows_are_dev_and_rows_with_their_texts_or_documents_are_counted(
    tmp_path: Path, name: str, is_typed: bool
) -> None:
    if is_typed and name == "own.jsonl":
        pytest.skip("JSON has no dates")
    frame = grouped_frame(80)
    frame.loc[0, "text"] = frame["text"][10].upper()
    frame["day"] = pd.to_datetime(frame["day"]) if is_typed else frame["day"]
    save(frame, tmp_path / name)
    files = TaskFiles(train=name, dev_from=AFTER)
    plain = read_data(tones(tone=files), tmp_path)
    assert plain["tone", "dev"].ids == [str(row) for row in range(80) if row % 12 in (10, 11)]
    (line,) = plain["tone", "train"].left_out
    assert line.startswith(f"1 of 68 train rows of {name} (1.5%) share a text with dev rows of tone (1): ")
    grouped = read_data(tones(tone=replace(files, group_columns=("doc",))), tmp_path)
    assert grouped["tone", "dev"].ids == plain["tone", "dev"].ids
    assert not documents_of(grouped["tone", "dev"]) & documents_of(grouped["tone", "train"])
    (line,) = grouped["tone", "train"].left_out
    assert " train rows of " in line
    assert "share a text or a group with dev rows of tone" in line


def test_rows_are_held_out_of_those_that_share_nothing_with_later_ones(tmp_path: Path) -> None:
    frame = grouped_frame(120)
    frame["text"] = [f"text {row % 50}" for row in range(120)]
    save(frame, tmp_path / "own.csv")
    config = tones(tone=TaskFiles(train="own.csv", dev_from=AFTER)).override({"data.hold_out": 0.3})
    tables, held = read_data(config, tmp_path), read_held_out(config, tmp_path)["tone"]
    parts = [texts_of([table]) for table in (tables["tone", "train"], tables["tone", "dev"], held)]
    assert not parts[0] & parts[1] | parts[0] & parts[2] | parts[1] & parts[2]
    assert held.ids
    count = int(tables["tone", "train"].left_out[0].split()[0])
    assert sum(len(table.ids) for table in (tables["tone", "train"], tables["tone", "dev"], held)) + count == 120


def later_than(after: str, column: str = "day") -> TaskFiles:
    return TaskFiles(train="own.csv", dev_from=DevFrom(column=column, after=after))


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (later_than("2025-01-01"), "tasks.tone.dev_from must have rows on both sides of 2025-01-01, got 0 of 24"),
        (later_than("2023-01-01"), "tasks.tone.dev_from must have rows on both sides of 2023-01-01, got 24 of 24"),
        (later_than("7"), "own.csv:2: column day must be a date or a number, as 7 is, got '2024-01-01'"),
        (later_than("7", "dai"), "own.csv:1: column dai is missing; did you mean 'day'?"),
        (of_documents(group_columns=("dok",)), "own.csv:1: column dok is missing; did you mean 'doc'?"),
        (of_documents(group_columns=(), slice_columns=("dok",)), "own.csv:1: column dok is missing; did you mean"),
        (of_documents(group_file="no.csv"), "lacks no.csv (tasks.tone.group_file)"),
        (of_documents(group_file="own.csv"), "own.csv:1: column group is missing"),
        (of_documents(group_file="twice.csv"), "twice.csv:3: column text must hold each text once, got 'A  B'"),
        (of_documents(group_file="blank.csv"), "blank.csv:2: text and group must not be blank, got 'a' and ''"),
        (of_documents(group_columns=("all",)), "hold out at least one whole group of rows that share texts or groups"),
    ],
)
def test_mistakes_in_dates_groups_and_their_file_are_one_line(tmp_path: Path, files: TaskFiles, message: str) -> None:
    save(grouped_frame(24).assign(all="x"), tmp_path / "own.csv")
    (tmp_path / "twice.csv").write_text("text,group\na b,1\nA  B,2\n")
    (tmp_path / "blank.csv").write_text("text,group\na,\n")
    assert message in one_line_error(read_data, tones(tone=files), tmp_path)


def test_texts_of_a_group_file_are_on_one_side(tmp_path: Path) -> None:
    save(grouped_frame(80), tmp_path / "own.csv")
    near = pd.DataFrame({"text": [f"Text {row}" for row in range(40)], "group": [row // 10 for row in range(40)]})
    save(near, tmp_path / "near.csv")
    config = tones(tone=TaskFiles(train="own.csv", dev=0.5, group_file="near.csv"))
    tables = read_data(config, tmp_path)
    sides = [documents_of(tables["tone", split]) for split in ("train", "dev")]
    assert not sides[0] & sides[1]
    assert len(sides[0] | sides[1]) == 4


def test_a_split_of_a_saved_data_set_has_groups_and_dates(tmp_path: Path) -> None:
    frame = grouped_frame(80).assign(day=pd.to_datetime(grouped_frame(80)["day"]))
    datasets.Dataset.from_pandas(frame).save_to_disk(tmp_path / "saved")
    files = TaskFiles(train="hf://saved", dev_from=AFTER, group_columns=("doc",))
    tables = read_data(tones(tone=files), tmp_path)
    assert len(tables["tone", "dev"].ids) == 12
    assert not documents_of(tables["tone", "dev"]) & documents_of(tables["tone", "train"])


@pytest.mark.parametrize("name", ["own.csv", "own.jsonl", "own.parquet", "own.xlsx"])
def test_a_slice_that_says_which_rows_are_for_which_split_is_not_read_as_train_alone(tmp_path: Path, name: str) -> None:
    frame = grouped_frame(80).assign(part=["train", "test"] * 40)
    save(frame, tmp_path / name)
    files = of_documents(train=name, slice_columns=("part", "doc"))
    message = one_line_error(read_data, tones(tone=files), tmp_path)
    assert message.startswith(f"{name}: column part says which rows are for which split (train 40, test 40): ")
    where = RowSelection(where=(("part", "train"),))
    assert set(read_data(tones(tone=replace(files, train_rows=where)), tmp_path)["tone", "dev"].slices["part"]) == {
        "train"
    }
