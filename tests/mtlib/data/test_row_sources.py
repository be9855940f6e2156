"""Row sources: files are read once, rows set apart are on one side only, other dropped rows are counted."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest

from mtlib.data.row_labels import Layout
from mtlib.data.row_sources import (
    HELD,
    HoldOut,
    RowSource,
    are_apart,
    check_files,
    check_splits_differ,
    files_of,
    read_all_rows,
    read_tables,
    read_unlabelled,
)
from mtlib.data.tables import Table
from mtlib.tasks import TASKS, FileFormat, RowSelection, TaskFiles
from tests.one_line_error import one_line_error

LAYOUT = Layout(id_column="id", text_columns=("sentence",), label_column="sentiment")
WORDS = [f"text {number}" for number in range(40)]


def write(folder: Path, name: str, texts: Sequence[str]) -> RowSource:
    """Writes a file of single texts; the source of all its rows."""
    rows = [f"{name}{number},{text},{number % 5}" for number, text in enumerate(texts)]
    (folder / f"{name}.csv").write_text("\n".join(["id,sentence,sentiment", *rows]) + "\n")
    return RowSource(task=TASKS["sst"], split="train", paths=(f"{name}.csv",), own_split="train", layout=LAYOUT)


def read(source: RowSource, folder: Path) -> Table:
    return read_tables([(source,)], folder)[(source,)]


def rows_of(table: Table) -> list[tuple[str, str, float]]:
    return list(zip(table.ids, *table.texts, table.labels.tolist(), strict=True))


@pytest.fixture
def own(tmp_path: Path) -> RowSource:
    return write(tmp_path, "own", WORDS)


@pytest.fixture
def hold_out(own: RowSource) -> HoldOut:
    return HoldOut(share=0.25, sources=(own,))


def keeping(source: RowSource, hold_out: HoldOut, split: str = "train") -> RowSource:
    return dataclasses.replace(source, hold_out=hold_out, split=split)


def test_held_out_and_remaining_rows_make_up_the_file(tmp_path: Path, own: RowSource, hold_out: HoldOut) -> None:
    everything = read_all_rows(own, tmp_path)
    assert rows_of(read(own, tmp_path)) == rows_of(everything)
    with (tmp_path / "own.csv").open("a") as file:
        file.write("last,,1\n")
    train, held = (keeping(own, hold_out),), (keeping(own, hold_out, HELD),)
    tables = read_tables([train, held], tmp_path)
    assert [(tables[part].split, tables[part].num_own_rows) for part in (held, train)] == [(HELD, 10), ("train", 30)]
    assert [(tables[part].skipped, tables[part].left_out) for part in (held, train)] == [
        ((), ()),
        (("own.csv:42: sentence is blank",), ()),
    ]
    kept, rest = (rows_of(tables[part]) for part in (held, train))
    assert sorted(kept + rest) == sorted(rows_of(everything))
    for rows in (kept, rest):
        assert rows == [row for row in rows_of(everything) if row in rows], "the file's order"


def test_rows_of_other_files_that_share_a_held_out_text_are_dropped_and_counted(
    tmp_path: Path, own: RowSource, hold_out: HoldOut
) -> None:
    held_texts = read(keeping(own, hold_out, HELD), tmp_path).texts[0]
    loud = [text.upper().replace(" ", "  ") for text in held_texts]
    extra = read(keeping(write(tmp_path, "extra", ["new", *loud, "newer"]), hold_out), tmp_path)
    assert (extra.ids, extra.num_own_rows) == (["extra0", "extra11"], 2)
    assert extra.left_out[0].startswith(
        "10 of 12 train rows of extra.csv (83.3%) share a text with rows held out of sst"
    )
    copy = keeping(write(tmp_path, "copy", held_texts[:4]), hold_out)
    assert one_line_error(read, copy, tmp_path) == (
        "copy.csv: there must be train rows that share no text with rows held out of sst, got none among 4"
    )


def test_a_share_that_fits_no_group_is_refused_with_its_file(tmp_path: Path) -> None:
    few = write(tmp_path, "few", ["a", "A", " a"])
    message = one_line_error(read, keeping(few, HoldOut(share=0.5, sources=(few,))), tmp_path)
    assert message.startswith("few.csv: data.hold_out must hold out at least one whole group of rows")


def test_drawn_dev_rows_and_train_rows_make_up_the_file_and_nothing_of_dev_is_trained_or_held_out(
    tmp_path: Path, own: RowSource
) -> None:
    drawing = dataclasses.replace(own, dev_share=0.25)
    hold_out = HoldOut(share=0.25, sources=(drawing,))
    dev, train, held = (
        read(source, tmp_path)
        for source in (
            dataclasses.replace(drawing, split="dev"),
            dataclasses.replace(drawing, hold_out=hold_out, drawn_dev=(drawing,)),
            dataclasses.replace(drawing, hold_out=hold_out, split=HELD),
        )
    )
    assert [table.split for table in (dev, train, held)] == ["dev", "train", HELD]
    assert np.bincount(dev.labels.astype(int)).tolist() == [2] * 5, "each class has its share"
    assert sorted(rows_of(dev) + rows_of(train) + rows_of(held)) == sorted(rows_of(read_all_rows(own, tmp_path)))
    extra = dataclasses.replace(write(tmp_path, "extra", [*dev.texts[0], "new"]), drawn_dev=(drawing,))
    assert read(extra, tmp_path).left_out[0].startswith("10 of 11 train rows of extra.csv (90.9%)")


def test_rows_dropped_for_a_text_in_dev_are_counted_by_the_task_of_dev_with_what_it_does_to_the_labels(
    tmp_path: Path, own: RowSource
) -> None:
    drawing = dataclasses.replace(own, dev_share=0.25)
    other = dataclasses.replace(drawing, task=dataclasses.replace(drawing.task, name="other"), dev_share=0.5)
    first = read(dataclasses.replace(drawing, split="dev"), tmp_path).texts[0]
    second = read(dataclasses.replace(other, split="dev"), tmp_path).texts[0]
    extra = write(tmp_path, "extra", [*sorted({*first, *second}), *(f"new {number}" for number in range(20))])
    extra = dataclasses.replace(extra, drawn_dev=(drawing, other))
    table = read(extra, tmp_path)
    num_dropped = len({*first, *second})
    assert table.dropped is not None
    assert table.dropped.share == num_dropped / (num_dropped + 20)
    for words in (
        f"{num_dropped} of {num_dropped + 20} train rows",
        "dev rows of sst (10) and dev rows of other (20): ",
    ):
        assert words in table.dropped.sentence
    assert table.left_out == (table.dropped.sentence,)
    assert read(dataclasses.replace(extra, drawn_dev=()), tmp_path).dropped is None


def test_files_of_a_pattern_are_read_by_name_and_numbered_through(tmp_path: Path, own: RowSource) -> None:
    for name in ("b", "a"):
        write(tmp_path, name, [f"{name} one", f"{name} two"])
    layout = dataclasses.replace(LAYOUT, id_column="", is_numbered=True)
    several = dataclasses.replace(own, paths=("?.csv",), layout=layout)
    assert [path.name for path in files_of(several, tmp_path)] == ["a.csv", "b.csv"]
    assert rows_of(read(several, tmp_path))[1:3] == [("1", "a two", 1), ("2", "b one", 0)]


@pytest.mark.parametrize("pattern", ["**/*.csv", "parts/**/*.csv", "**/[a-z]*.csv", "{folder}/**/*.csv"])
def test_each_file_is_read_once_by_all_links_that_lead_to_it(tmp_path: Path, pattern: str) -> None:
    parts = tmp_path / "parts"
    (parts / "deep").mkdir(parents=True)
    source = write(parts, "a", ["one", "two"])
    write(parts / "deep", "b", ["three"])
    for link in ("self", "again", "deep/up", "deep/back"):  # with two links to itself a folder has names without end
        (parts / link).symlink_to(parts)
    (parts / "linked.csv").symlink_to(parts / "a.csv")
    (parts / "deep" / "hard.csv").hardlink_to(parts / "a.csv")
    found = dataclasses.replace(source, paths=(pattern.format(folder=tmp_path),))
    layout = dataclasses.replace(LAYOUT, id_column="", is_numbered=True)
    assert sorted(read(dataclasses.replace(found, layout=layout), tmp_path).texts[0]) == ["one", "three", "two"]


def test_a_linked_folder_is_entered(tmp_path: Path, own: RowSource) -> None:
    (tmp_path / "far").mkdir()
    write(tmp_path / "far", "a", ["one"])
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "link").symlink_to(tmp_path / "far")
    found = files_of(dataclasses.replace(own, paths=("parts/**/*.csv",)), tmp_path)
    assert found == [tmp_path / "parts" / "link" / "a.csv"]


def named(train: str | tuple[str, ...], dev: str | float, test: str = "") -> RowSource:
    """The train rows of a task of `tasks.toml`."""
    files = TaskFiles(train=train, dev=dev, test=test)
    task = dataclasses.replace(TASKS["sst"], files=files)
    return RowSource(task=task, split="train", paths=files.paths("train"), own_split="train", layout=LAYOUT)


@pytest.mark.parametrize(
    ("source", "names"),
    [
        (named("*.csv", "dev.csv"), "dev.csv"),
        (named("**/*.csv", "./dev.csv"), "dev.csv"),
        (named("t*.csv", "*v.csv", "t?st.csv"), "test.csv"),
        (named("hard.csv", "dev.csv"), "hard.csv"),
        (named(("train.csv", "link.csv"), "dev.csv"), "link.csv"),
        (named("folder/*.csv", "dev.csv"), "folder/dev.csv"),
    ],
)
def test_no_file_of_train_has_dev_or_test_rows(source: RowSource, names: str, tmp_path: Path) -> None:
    for name in ("train", "dev", "test"):
        write(tmp_path, name, WORDS)
    (tmp_path / "link.csv").symlink_to(tmp_path / "dev.csv")
    (tmp_path / "hard.csv").hardlink_to(tmp_path / "dev.csv")
    (tmp_path / "folder").symlink_to(tmp_path)
    error = one_line_error(check_files, [(source,)], tmp_path)
    assert "must name other files than train" in error
    assert f"/{names} of {', '.join(source.paths)}" in error
    check_files([(named("train.csv", "dev.csv", "test.csv"),)], tmp_path)


def test_a_file_is_named_once_for_a_split(tmp_path: Path, own: RowSource) -> None:
    (tmp_path / "link.csv").symlink_to(tmp_path / "own.csv")
    for twice in (("own.csv", "./own.csv"), ("own.csv", "link.csv"), ("o*.csv", "l*.csv")):
        error = one_line_error(files_of, dataclasses.replace(own, paths=twice), tmp_path)
        assert "must name each file once, got " in error
        assert error.endswith(twice[1].replace("*", "ink"))


def test_a_data_set_in_the_data_folder_is_read(tmp_path: Path, own: RowSource) -> None:
    columns = {"id": ["a", "b"], "sentence": ["one", "two"], "sentiment": [3, 4]}
    datasets.Dataset.from_dict(columns).save_to_disk(tmp_path / "saved")
    source = dataclasses.replace(own, paths=("hf://saved",))
    assert rows_of(read(source, tmp_path)) == [("a", "one", 3), ("b", "two", 4)]


def test_several_labels_may_be_lists(tmp_path: Path, own: RowSource) -> None:
    task = dataclasses.replace(TASKS["sst"], kind="multilabel", metric="")
    (tmp_path / "a.jsonl").write_text('{"id": "a", "sentence": "one", "sentiment": [0, 4]}')
    table = read(dataclasses.replace(own, task=task, paths=("a.jsonl",)), tmp_path)
    assert table.labels.tolist() == [[1, 0, 0, 0, 1]]


def test_unlabelled_rows_need_no_label_column(tmp_path: Path, own: RowSource) -> None:
    (tmp_path / "own.csv").write_text("id,sentence\na,one\nb,\n")
    assert read_unlabelled(own, tmp_path) == ([["one"]], ["own.csv:3: sentence is blank"])


@pytest.mark.parametrize("dev", ["hf:///ds:train", "hf:///ds#en:train"])
@pytest.mark.parametrize("train", ["hf:///ds", "hf:///ds:train", "hf:///ds#en"])
def test_one_split_of_a_data_set_is_not_train_and_dev(train: str, dev: str) -> None:
    task = dataclasses.replace(TASKS["sst"], files=TaskFiles(train=train, dev=dev))
    if ("#" in train) != ("#" in dev):
        check_splits_differ(task)  # another configuration has other rows
    else:
        assert "tasks.sst.dev must name another split than train" in one_line_error(check_splits_differ, task)
    check_splits_differ(dataclasses.replace(task, files=TaskFiles(train=train, dev=0.1)))


PARTS = ["train", "dev", "train", "test"]


def with_parts(folder: Path, **selection: Any) -> RowSource:
    """A file of a task of `tasks.toml` whose column `part` says the split of each row."""
    rows = [f"{number},text {number},{number},{part}" for number, part in enumerate(PARTS)]
    (folder / "all.csv").write_text("\n".join(["id,sentence,sentiment,part", *rows]))
    return dataclasses.replace(named("all.csv", "dev.csv"), selection=RowSelection(**selection))


@pytest.mark.parametrize(
    ("selection", "ids", "left_out"),
    [
        ({"where": (("part", "train"),)}, ["0", "2"], ["1 row: part is dev", "1 row: part is test"]),
        ({"where": (("part", "dev", "test"),)}, ["1", "3"], ["2 rows: part is train"]),
        (
            {"where": (("part", "train"), ("id", "2.0"))},
            ["2"],
            ["1 row: id is 0", "1 row: part is dev", "1 row: part is test"],
        ),
        (
            {"where": (("part", "train"),), "first": 1},
            ["0"],
            ["1 row: part is dev", "1 row: only the first 1 are used", "1 row: part is test"],
        ),
    ],
)
def test_rows_are_selected_by_values_and_counted(
    selection: dict[str, Any], ids: list[str], left_out: list[str], tmp_path: Path
) -> None:
    table = read(with_parts(tmp_path, **selection), tmp_path)
    assert table.ids == ids
    assert list(table.left_out) == [f"all.csv: {line}" for line in left_out]


def test_a_column_that_says_the_split_is_used_or_the_rows_are_refused(tmp_path: Path) -> None:
    message = one_line_error(read, with_parts(tmp_path), tmp_path)
    assert message == (
        "all.csv: column part says which rows are for which split (train 2, dev 1, test 1): tasks.sst.train must say "
        'which it takes, one value or a list, such as train = {files = "all.csv", where = {part = "train"}}'
    )
    missing = one_line_error(read, with_parts(tmp_path, where=(("prt", "train"),)), tmp_path)
    assert missing.startswith("all.csv:1: column prt is missing; did you mean 'part'?")


def test_a_selection_that_leaves_nothing_says_what_was_there(tmp_path: Path) -> None:
    message = one_line_error(read, with_parts(tmp_path, where=(("part", "Train"),)), tmp_path)
    assert message.startswith("all.csv: there must be usable rows, got none; all.csv: 2 rows: part is train; ")


def test_other_rows_of_the_train_file_may_be_dev(tmp_path: Path) -> None:
    files = TaskFiles(
        train="all.csv",
        dev="all.csv",
        train_rows=RowSelection(where=(("part", "train"),)),
        dev_rows=RowSelection(where=(("part", "dev"),)),
    )
    train = with_parts(tmp_path, where=(("part", "train"),))
    check_files([(dataclasses.replace(train, task=dataclasses.replace(train.task, files=files)),)], tmp_path)


def test_a_column_says_the_split_also_where_some_rows_are_for_none(tmp_path: Path) -> None:
    source = with_parts(tmp_path)
    text = (tmp_path / "all.csv").read_text()
    (tmp_path / "all.csv").write_text(f"{text}\n4,text 4,4,unlabeled\n5,text 5,1,\n")
    assert "column part says which rows are for which split" in one_line_error(read, source, tmp_path)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([("part", "train")], [("part", "dev")], True),
        ([("part", "1")], [("part", "1.0")], False),
        ([("lang", "en", "de")], [("lang", "en")], False),
        ([], [("part", "dev")], False),
        ([("part", "train")], [("lang", "en")], False),
        ([("part", "train"), ("lang", "en")], [("lang", "de")], True),
    ],
)
def test_selections_are_apart_where_they_want_other_values_of_one_column(
    first: list[tuple[str, ...]], second: list[tuple[str, ...]], expected: bool
) -> None:
    assert are_apart(RowSelection(where=tuple(first)), RowSelection(where=tuple(second))) == expected


def test_labels_may_lie_in_files_of_their_own(tmp_path: Path) -> None:
    for name, lines in {"a": "one\ntwo\n", "b": "three\n", "a.labels": "1\n3\n", "b.labels": "4\n"}.items():
        (tmp_path / name).write_text(lines)
    source = dataclasses.replace(named(("a", "b"), 0.1), format=FileFormat(name="lines"))
    source = dataclasses.replace(source, layout=dataclasses.replace(LAYOUT, id_column="", is_numbered=True))
    given = RowSelection(label_files=("a.labels", "b.labels"))
    table = read(dataclasses.replace(source, selection=given), tmp_path)
    assert rows_of(table) == [("0", "one", 1), ("1", "two", 3), ("2", "three", 4)]
    by_file = RowSelection(file_labels=("2", "0"))
    table = read(dataclasses.replace(source, selection=by_file), tmp_path)
    assert rows_of(table) == [("0", "one", 2), ("1", "two", 2), ("2", "three", 0)]
    for files, words in (
        (("a.labels",), "tasks.sst.train must name a file of labels for each file of texts, got 1 for 2"),
        (("a.labels", "a.labels"), "a.labels must have a label for each line of b, got no more after a.labels:2"),
        (("b.labels", "b.labels"), "b.labels must have a label for each line of a, got no more after a:2"),
        (("a.labels", "c.labels"), "must be a readable file, got: No such file or directory"),
    ):
        wrong = dataclasses.replace(source, selection=RowSelection(label_files=files))
        assert words in one_line_error(read, wrong, tmp_path)


def test_a_file_that_fits_both_readings_of_its_marks_gets_a_line(tmp_path: Path) -> None:
    (tmp_path / "own.tsv").write_text('id\tsentence\tsentiment\na\t"fine"\t1\nb\tbad\t0\n')
    table = read(named("own.tsv", 0.1), tmp_path)
    assert rows_of(table)[0] == ("a", '"fine"', 1)
    assert [line for line in table.notes if 'tasks.sst.quoting = "standard" would read fine' in line]
    source = dataclasses.replace(named("own.tsv", 0.1), format=FileFormat(quoting="standard"))
    assert rows_of(read(source, tmp_path))[0] == ("a", "fine", 1)
    assert read(source, tmp_path).notes == ()
