"""The files and rows that a configuration names, and the errors for missing ones."""

import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import datasets
import pandas as pd
import pytest

from mtlib.config.data import DataConfig, Role, SourceConfig
from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig, default_task_configs
from mtlib.data.hold_out import normalise
from mtlib.data.load import find_held_sources, find_row_sources, read_data, read_held_out
from mtlib.data.row_sources import HELD
from mtlib.data.tables import Table, content_fingerprint
from mtlib.data.token_cache import tokenize
from mtlib.demo.corpus import write_corpus
from mtlib.model.encoder import PretrainedEncoder
from mtlib.tasks import TASKS, Task, TaskFiles
from mtlib.training.evaluation import scored_train_rows
from tests.one_line_error import one_line_error
from tests.task_tables import read_folder

SNLI = pd.DataFrame(
    {"id": ["a", "b", "c"], "sentence1": "A man.", "sentence2": ["One.", "Two.", "Three."], "label": [0, 1, 2]}
)
Write = Callable[[str, pd.DataFrame], None]


@pytest.fixture
def folder(tiny_folder: Path, tmp_path: Path) -> Path:
    """A copy of the tiny data."""
    return Path(shutil.copytree(tiny_folder, tmp_path / "data"))


@pytest.fixture
def write(folder: Path) -> Write:
    """Writes a frame in the format of the file's extension."""

    def write_file(name: str, frame: pd.DataFrame) -> None:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".jsonl":
            frame.to_json(path, orient="records", lines=True)
        else:
            frame.to_csv(path, sep="\t" if path.suffix == ".tsv" else ",", index=False)

    return write_file


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


def test_without_sources_the_files_of_the_tasks_are_read(folder: Path) -> None:
    tables = read_data(config_of("sst", "sts"), folder)
    expected = read_folder(folder, ("sst", "sts"))
    assert list(tables) == list(expected)
    assert content_fingerprint(tables) == content_fingerprint(expected)
    assert all(table.num_own_rows == len(table.ids) for table in tables.values())


def test_extra_data_is_read_where_a_stage_uses_it_with_mapped_labels(folder: Path, write: Write) -> None:
    write("snli-train.csv", SNLI)
    assert ("snli", "train") not in read_data(config_of("qqp"), folder)
    tables = read_data(config_of("qqp", extra=("snli",)), folder)
    table = tables["snli", "train"]
    assert set(tables) == {("qqp", "train"), ("qqp", "dev"), ("snli", "train")}
    assert (table.task, table.ids, labels_of(table), table.num_own_rows) == ("qqp", ["a", "c"], [1, 0], 2)
    assert table.left_out == ("snli-train.csv: 1 row has label 1, which labels does not name",)


def test_a_prefix_is_before_each_text_of_its_task_and_of_its_extra_data(folder: Path, write: Write) -> None:
    write("snli-train.csv", SNLI)
    config = config_of("qqp", extra=("snli",))
    plain, prefixed = read_data(config, folder), read_data(config.override({"tasks.qqp.prefix": "query: "}), folder)
    for key, table in plain.items():
        assert prefixed[key].texts == tuple([f"query: {text}" for text in texts] for texts in table.texts)
        assert prefixed[key].ids == table.ids


def test_every_missing_file_is_named_with_its_folder(folder: Path, tmp_path: Path) -> None:
    (folder / "quora-dev.csv").unlink()
    extra = {"task": "qqp", "path": str(tmp_path / "far.jsonl")}
    message = one_line_error(read_data, config_of("qqp", extra=("snli", "far"), sources={"far": extra}), folder)
    start = f"data folder {folder} lacks quora-dev.csv, snli-train.csv; the folder holds "
    assert message.startswith(start)
    assert message.endswith(f"; and there is no {tmp_path}/far.jsonl")
    (folder / "quora-dev.csv").write_bytes((folder / "quora-train.csv").read_bytes())
    message = one_line_error(read_data, config_of("qqp", extra=("far",), sources={"far": extra}), folder)
    assert message.startswith(
        f"files outside the data folder must be there, got no {tmp_path}/far.jsonl; the folder holds no "
    )
    (tmp_path / "Far.jsonl").write_text("")
    message = one_line_error(read_data, config_of("qqp", extra=("far",), sources={"far": extra}), folder)
    assert message.endswith("/far.jsonl; did you mean 'Far.jsonl'? the folder holds Far.jsonl")


def test_missing_files_are_found_before_any_is_read(folder: Path) -> None:
    (folder / "quora-dev.csv").write_text("wrong")
    assert "lacks snli-train.csv" in one_line_error(read_data, config_of("qqp", extra=("snli",)), folder)


GLUE = {
    "qqp": ("QQP", "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate", 'x{n}\t1\t2\tWhy "so?\tHow?\t{n}'),
    "sts": (
        "STS-B",
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore",
        '{n}\tmain\tf\t2012\t1\tnone\tnone\tA "plane.\tA car.\t{n}.500',
    ),
}


def write_glue(folder: Path, task: str, splits: tuple[str, ...] = ("train", "dev")) -> None:
    name, header, row = GLUE[task]
    (folder / name).mkdir()
    for split in splits:
        lines = [header, *(row.format(n=number) for number in range(2))]
        (folder / name / f"{split}.tsv").write_text("\n".join(lines) + "\n")


def remove_own(folder: Path, task: str, *splits: str) -> None:
    for split in splits:
        (folder / TASKS[task].file_name(split)).unlink()


def test_glue_folders_are_read_where_the_task_files_are_missing(folder: Path) -> None:
    for task in ("qqp", "sts"):
        write_glue(folder, task)
        remove_own(folder, task, "train", "dev")
    tables = read_data(config_of("sst", "qqp", "sts"), folder)
    assert tables["qqp", "dev"].texts == (['Why "so?', 'Why "so?'], ["How?", "How?"])
    assert (tables["qqp", "train"].ids, labels_of(tables["qqp", "train"])) == (["x0", "x1"], [0, 1])
    assert (tables["sts", "dev"].ids, labels_of(tables["sts", "dev"])) == (["0", "1"], [0.5, 1.5])
    assert tables["sts", "train"].texts == (['A "plane.'] * 2, ["A car."] * 2)
    assert tables["sst", "train"].path == folder / "ids-sst-train.csv"


@pytest.mark.parametrize("removed", [(), ("train",), ("dev",)])
def test_glue_is_not_read_if_one_task_file_exists(folder: Path, removed: tuple[str, ...]) -> None:
    write_glue(folder, "qqp")
    remove_own(folder, "qqp", *removed)
    if not removed:
        assert read_data(config_of("qqp"), folder)["qqp", "dev"].path == folder / "quora-dev.csv"
    else:
        assert f"lacks quora-{removed[0]}.csv;" in one_line_error(read_data, config_of("qqp"), folder)


def test_a_glue_folder_without_dev_lacks_it(folder: Path) -> None:
    write_glue(folder, "qqp", ("train",))
    remove_own(folder, "qqp", "train", "dev")
    assert f"data folder {folder} lacks QQP/dev.tsv;" in one_line_error(read_data, config_of("qqp"), folder)


def test_without_either_the_task_files_are_missing(folder: Path) -> None:
    remove_own(folder, "qqp", "train", "dev")
    assert "lacks quora-dev.csv, quora-train.csv;" in one_line_error(read_data, config_of("qqp"), folder)


PARAPHRASES = pd.DataFrame({"text": ["Fine.", "", "Bad."], "stars": [4, 3, 0]})


@pytest.mark.parametrize("name", ["paraphrases.csv", "paraphrases.tsv", "paraphrases.jsonl"])
def test_augmentation_follows_the_own_rows_and_is_not_counted_among_them(folder: Path, write: Write, name: str) -> None:
    write(name, PARAPHRASES)
    source = {"task": "sst", "role": "augment", "path": name, "text_columns": ["text"], "label_column": "stars"}
    tables, plain = (read_data(config_of("sst", sources=s), folder) for s in ({"synthetic": source}, {}))
    table, own = tables["sst", "train"], plain["sst", "train"]
    assert (table.num_own_rows, len(table.ids)) == (30, 32)
    assert table.ids == [*own.ids, "synthetic/0", "synthetic/2"]
    assert table.texts == ([*own.texts[0], "Fine.", "Bad."],)
    assert labels_of(table) == [*labels_of(own), 4, 0]
    assert len(table.skipped) == 1
    assert table.skipped[0].endswith(f"{name}:{2 if name.endswith('.jsonl') else 3}: text is blank")
    assert content_fingerprint({("sst", "dev"): tables["sst", "dev"]}) == content_fingerprint(
        {("sst", "dev"): plain["sst", "dev"]}
    )


def test_ids_of_several_augmentations_are_unique(folder: Path, write: Write) -> None:
    write("more.csv", pd.DataFrame({"id": ["ssttrain0"], "sentence": ["Fine."], "sentiment": [4]}))
    source = {"task": "sst", "role": "augment", "path": "more.csv"}
    table = read_data(config_of("sst", sources={"one": source, "two": source}), folder)["sst", "train"]
    assert table.ids[30:] == ["one/ssttrain0", "two/ssttrain0"]
    assert len(set(table.ids)) == len(table.ids) == 32


def test_a_source_can_replace_train_and_dev_of_a_task(folder: Path, write: Write) -> None:
    for split, count in (("train", 3), ("validation", 2)):
        write(f"nli/{split}.jsonl", SNLI.head(count).rename(columns={"label": "gold"}))
    remove_own(folder, "qqp", "train", "dev")
    source = {
        "task": "qqp",
        "role": "replace",
        "path": "nli/{split}.jsonl",
        "dev_split": "validation",
        "label_column": "gold",
        "labels": ["0:1", "1:0", "2:0"],
    }
    tables = read_data(config_of("qqp", sources={"nli": source}), folder)
    assert [labels_of(tables["qqp", split]) for split in ("train", "dev")] == [[1, 0, 0], [1, 0]]
    assert [tables["qqp", split].split for split in ("train", "dev")] == ["train", "dev"]


@pytest.mark.parametrize("role", ["extra", "augment", "replace"])
def test_sources_of_a_task_with_named_labels_have_its_names(role: str, tmp_path: Path, write: Write) -> None:
    names = pd.DataFrame({"text": ["A.", "B."], "tone": ["good", "bad"]})
    for name in ("own.csv", "more-train.csv", "more-dev.csv"):
        write(name, names)
    task = Task(
        name="tone",
        title="Tone",
        kind="binary",
        label_range=(0, 1),
        labels=("bad", "good"),
        text_columns=("text",),
        label_column="tone",
        files=TaskFiles(train="own.csv", dev="own.csv"),
    )
    source = SourceConfig(task="tone", role=cast(Role, role), path="more-{split}.csv")
    data, extra = DataConfig(tasks={"tone": task}, sources={"more": source}), ("more",) if role == "extra" else ()
    stages, tasks = (StageConfig(tasks=("tone",), extra_data=extra),), default_task_configs({"tone": task})
    config = TrialConfig(stages=stages, data=data, tasks=tasks)
    key = ("more" if role == "extra" else "tone", "train")
    assert labels_of(read_data(config, tmp_path / "data")[key]) == [1, 0, 1, 0][: 4 if role == "augment" else 2]
    write("more-train.csv", names.replace("good", "goood"))
    message = one_line_error(read_data, config, tmp_path / "data")
    assert message.startswith("unknown label in column tone of more-train.csv:2 'goood'; did you mean 'good'?")
    mapped = config.override({"data.sources.more.labels": ["goood:0", "good:0", "bad:1"]})
    assert labels_of(read_data(mapped, tmp_path / "data")[key])[-2:] == [0, 1]
    carried = datasets.Dataset.from_dict({"text": ["A.", "B."], "tone": [0, 1]})
    for split in ("train", "dev"):
        carried.cast_column("tone", datasets.ClassLabel(names=["good", "bad"])).to_parquet(
            tmp_path / "data" / f"more-{split}.parquet"
        )
    config = config.override({"data.sources.more.path": "more-{split}.parquet"})
    assert "data.sources.more.labels" in one_line_error(read_data, config, tmp_path / "data")
    mapped = config.override({"data.sources.more.labels": ["0:1", "1:0"]})
    assert labels_of(read_data(mapped, tmp_path / "data")[key])[-2:] == [1, 0]


def test_augmentation_can_follow_replaced_rows(folder: Path, write: Write) -> None:
    write("own-train.csv", pd.DataFrame({"sentence": ["A."], "sentiment": [1]}))
    write("own-dev.csv", pd.DataFrame({"sentence": ["B."], "sentiment": [2]}))
    sources = {
        "own": {"task": "sst", "role": "replace", "path": "own-{split}.csv"},
        "more": {"task": "sst", "role": "augment", "path": "own-dev.csv"},
    }
    table = read_data(config_of("sst", sources=sources), folder)["sst", "train"]
    assert (table.ids, labels_of(table), table.num_own_rows) == (["0", "more/0"], [1, 2], 1)


@pytest.mark.parametrize("is_absolute", [True, False])
@pytest.mark.parametrize("in_path", [True, False])
def test_a_saved_dataset_can_replace_a_task(
    folder: Path, is_absolute: bool, in_path: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", folder / "cache")
    splits = {"train": datasets.Dataset.from_pandas(SNLI), "validation": datasets.Dataset.from_pandas(SNLI.head(2))}
    if in_path:
        for split, rows in splits.items():
            rows.save_to_disk(folder / "nli" / split)
    else:
        datasets.DatasetDict(splits).save_to_disk(folder / "nli")
    path = f"hf://{f'{folder}/' if is_absolute else ''}nli{'/{split}' if in_path else ''}"
    source = {"task": "qqp", "role": "replace", "path": path, "dev_split": "validation", "labels": ["0:1", "2:0"]}
    source["label_column"] = "label"
    tables = read_data(config_of("qqp", sources={"nli": source}), folder)
    assert (tables["qqp", "train"].ids, labels_of(tables["qqp", "train"])) == (["a", "c"], [1, 0])
    assert (tables["qqp", "dev"].ids, labels_of(tables["qqp", "dev"])) == (["a"], [1])
    assert tables["qqp", "dev"].left_out[0].endswith(": 1 row has label 1, which labels does not name")


def test_only_formats_with_a_reader_are_allowed() -> None:
    for name in ("x.csv", "x.tsv", "x.jsonl", "x.parquet", "hf://x"):
        assert config_of("sst", extra=("x",), sources={"x": {"task": "sst", "path": name}}).train_sets == ("sst", "x")
    rule = "data.sources.x: path must end in .csv, .tsv, .jsonl, .parquet or begin with hf://, got 'x.xlsx'"
    with pytest.raises(ValueError) as caught:
        config_of("sst", sources={"x": {"task": "sst", "path": "x.xlsx"}})
    assert str(caught.value) == rule
    with pytest.raises(ValueError) as caught:
        config_of("sst", sources={"x": {"task": "sst", "path": "x-*.csv"}})
    assert str(caught.value) == "data.sources.x: path must name one file, not a pattern, got x-*.csv"


def test_row_sources_are_equal_exactly_where_the_rows_are(folder: Path) -> None:
    base = config_of("sst", "qqp", extra=("snli",))
    own_sources = find_row_sources(base, folder)
    for same in ({"optimizer.learning_rate": 1e-4}, {"data.sources.snli.batch_size": 3}, {"data.bucket_batches": 2}):
        assert find_row_sources(base.override(same), folder) == own_sources
    for other in (
        {"data.sources.snli.labels": ["0:1"]},
        {"data.sources.snli.path": "y.csv"},
        {"stages.0.tasks": "qqp"},
    ):
        assert find_row_sources(base.override(other), folder) != own_sources
    assert hash(tuple(own_sources.items())) == hash(tuple(find_row_sources(base, folder).items()))


ALL = ("sst", "qqp", "sts")


def texts_of(tables: Iterable[Table]) -> set[str]:
    return {normalise(text) for table in tables for column in table.texts for text in column}


def test_no_held_out_text_is_in_any_train_table(folder: Path, write: Write) -> None:
    """Extra data and augmentation repeat all train rows of their task in capitals."""
    pairs, texts = (pd.read_csv(folder / TASKS[task].file_name("train"), sep="\t") for task in ("qqp", "sst"))
    for side in ("sentence1", "sentence2"):
        pairs[side] = pairs[side].str.upper()
    write("pairs.csv", pd.concat([pairs, SNLI.rename(columns={"label": "is_duplicate"}).head(2)])[list(pairs)[1:]])
    write("texts.csv", texts.assign(sentence="  " + texts["sentence"].str.title())[["id", "sentence", "sentiment"]])
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
    assert train["sst"].left_out == ("texts.csv: 6 rows share a text with rows held out",)
    assert train["pairs"].left_out == ("pairs.csv: 14 rows share a text with rows held out",)
    assert all(len(tables[task, "dev"].ids) == 13 for task in ALL), "dev is as it was"


@pytest.fixture(scope="module")
def demo_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demonstration's corpus."""
    folder = tmp_path_factory.mktemp("demonstration")
    write_corpus(folder)
    return folder


@pytest.mark.parametrize("share", [0.05, 0.1, 0.5])
def test_whole_groups_of_the_demonstration_are_held_out_near_the_share(demo_data: Path, share: float) -> None:
    config = config_of(*ALL, hold_out=share)
    held, tables = read_held_out(config, demo_data), read_data(config, demo_data)
    assert not texts_of(held.values()) & texts_of(tables[task, "train"] for task in ALL)
    for task, table in read_data(config_of(*ALL), demo_data).items():
        if task[1] == "train":
            assert share * len(table.ids) - 1 < len(held[task[0]].ids) <= share * len(table.ids)
            assert not set(held[task[0]].ids) & set(tables[task].ids)


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


def test_rows_of_glue_files_and_of_replaced_tasks_are_held_out(folder: Path, write: Write) -> None:
    write_glue(folder, "sts")
    lines = ["\t".join(["x"] * 7 + [f"A {n}.", f"B {n}.", "1.5"]) for n in range(10)]
    with (folder / "STS-B" / "train.tsv").open("a") as file:
        file.write("\n".join(lines) + "\n")
    remove_own(folder, "sts", "train", "dev")
    for split, count in (("train", 10), ("dev", 2)):
        write(f"own-{split}.csv", pd.DataFrame({"sentence": [f"S {n}." for n in range(count)], "sentiment": 1}))
    sources = {"own": {"task": "sst", "role": "replace", "path": "own-{split}.csv"}}
    config = config_of("sst", "sts", sources=sources, hold_out=0.3)
    held, tables = read_held_out(config, folder), read_data(config, folder)
    assert [table.path.name for table in held.values()] == ["own-train.csv", "train.tsv"]
    assert [len(table.ids) for table in held.values()] == [3, 3]  # GLUE's two equal rows are one group
    assert [len(tables[task, "train"].ids) for task in held] == [7, 9]


def test_without_a_share_nothing_is_held_out_and_the_split_is_refused(folder: Path) -> None:
    config = config_of(*ALL)
    assert all(part.hold_out is None for parts in find_row_sources(config, folder).values() for part in parts)
    assert find_held_sources(config, folder) == {}
    with pytest.raises(ValueError) as caught:
        read_held_out(config, folder)
    assert str(caught.value) == "data.hold_out must be above 0 where rows held out are asked for, got 0.0"


def test_the_held_out_split_is_among_the_row_sources(folder: Path) -> None:
    config = config_of(*ALL, extra=("snli",), hold_out=0.2)
    own_sources = find_row_sources(config, folder)
    assert own_sources == find_row_sources(config.override({"seed": 5, "stages.0.epochs": 9}), folder)
    assert hash(tuple(own_sources.items())) == hash(tuple(find_row_sources(config, folder).items()))
    other = find_row_sources(config.override({"data.hold_out": 0.3}), folder)
    assert {key for key in own_sources if own_sources[key] == other[key]} == {(task, "dev") for task in ALL}
    fewer = find_row_sources(config_of("qqp", extra=("snli",), hold_out=0.2), folder)
    assert {key for key in fewer if own_sources[key] == fewer[key]} == {("qqp", "dev")}
    held = find_held_sources(config, folder)
    assert list(held) == [(task, HELD) for task in ALL]
    assert held["qqp", HELD] == find_held_sources(config_of("qqp", hold_out=0.2), folder)["qqp", HELD]


def test_a_share_that_holds_out_no_row_of_a_task_is_one_line(folder: Path, write: Write) -> None:
    for split in ("train", "dev"):
        write(f"few-{split}.csv", pd.DataFrame({"sentence": ["A.", "B.", "C."], "sentiment": [1, 2, 3]}))
    sources = {"few": {"task": "sst", "role": "replace", "path": "few-{split}.csv"}}
    message = one_line_error(read_data, config_of("sst", "sts", sources=sources, hold_out=0.2), folder)
    rule = "few-train.csv: data.hold_out must hold out at least one whole group of rows that share texts"
    assert message == f"{rule}, got 0.2 of 3 rows"


def test_scored_train_rows_are_taken_from_the_trained_ones(
    folder: Path, tiny_encoder: PretrainedEncoder, tmp_path: Path
) -> None:
    config = config_of("sst", hold_out=0.2).override({"tasks.sst.scored_train_rows": 100})
    tables, held = read_data(config, folder), read_held_out(config, folder)["sst"]
    corpus = tokenize(tables, tiny_encoder.tokenizer, tmp_path / "cache")
    ids = [corpus["sst", "train"].ids[row] for row in scored_train_rows(config, corpus, "sst")]
    assert ids == tables["sst", "train"].ids
    assert not set(ids) & set(held.ids)
