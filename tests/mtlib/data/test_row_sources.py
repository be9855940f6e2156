"""Row sources: files are read once, held-out rows are on one side only, other dropped rows are counted."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pytest

from mtlib.data import row_sources
from mtlib.data.hold_out import normalise
from mtlib.data.row_sources import HELD, HoldOut, RowSource, describe_sources, read_all_rows, read_tables
from mtlib.data.tables import Layout, Table, content_fingerprint
from mtlib.data.token_cache import tokenize
from mtlib.model.encoder import PretrainedEncoder
from mtlib.tasks import TASKS
from tests.one_line_error import one_line_error

LAYOUT = Layout(id_column="id", text_columns=("sentence",), label_column="sentiment")


def write(folder: Path, name: str, texts: Sequence[str]) -> RowSource:
    """Writes a file of single texts; the source of all its rows."""
    rows = [f"{name}{number},{text},{number % 5}" for number, text in enumerate(texts)]
    (folder / f"{name}.csv").write_text("\n".join(["id,sentence,sentiment", *rows]) + "\n")
    return RowSource(task=TASKS["sst"], split="train", paths=(f"{name}.csv",), own_split="train", layout=LAYOUT)


def texts_of(table: Table) -> set[str]:
    return {normalise(text) for column in table.texts for text in column}


WORDS = [f"text {number}" for number in range(40)]


@pytest.fixture
def own(tmp_path: Path) -> RowSource:
    return write(tmp_path, "own", WORDS)


@pytest.fixture
def hold_out(own: RowSource) -> HoldOut:
    return HoldOut(share=0.25, sources=(own,))


def keeping(part: RowSource, hold_out: HoldOut, split: str = "train") -> RowSource:
    return dataclasses.replace(part, hold_out=hold_out, split=split)


def test_held_out_and_remaining_rows_make_up_the_file(tmp_path: Path, own: RowSource, hold_out: HoldOut) -> None:
    train, held = (keeping(own, hold_out),), (keeping(own, hold_out, HELD),)
    tables, all_rows = read_tables([train, held], tmp_path), read_all_rows(own, tmp_path)
    assert (len(tables[held].ids), len(tables[train].ids)) == (10, 30)
    assert [tables[part].num_own_rows for part in (held, train)] == [10, 30]
    assert [(tables[part].split, tables[part].left_out) for part in (held, train)] == [(HELD, ()), ("train", ())]
    rows = {
        row: (text, label) for row, text, label in zip(all_rows.ids, *all_rows.texts, labels_of(all_rows), strict=True)
    }
    for table in tables.values():
        assert table.ids == [row for row in all_rows.ids if row in set(table.ids)], "the file's order"
        assert [rows[row] for row in table.ids] == list(zip(*table.texts, labels_of(table), strict=True))
    assert sorted(tables[held].ids + tables[train].ids) == sorted(all_rows.ids)


def labels_of(table: Table) -> list[float]:
    found: list[float] = table.labels.tolist()
    return found


def test_without_held_out_rows_a_source_is_its_whole_file(tmp_path: Path, own: RowSource) -> None:
    (table,) = read_tables([(own,)], tmp_path).values()
    assert content_fingerprint({("a", "train"): table}) == content_fingerprint(
        {("a", "train"): read_all_rows(own, tmp_path)}
    )


def test_rows_of_other_files_that_share_a_held_out_text_are_dropped_and_counted(
    tmp_path: Path, own: RowSource, hold_out: HoldOut
) -> None:
    held = (keeping(own, hold_out, HELD),)
    held_texts = read_tables([held], tmp_path)[held].texts[0]
    loud = [text.upper().replace(" ", "  ") for text in held_texts]
    extra = (keeping(write(tmp_path, "extra", ["new", *loud, "newer"]), hold_out),)
    one = (keeping(write(tmp_path, "one", ["new", held_texts[0]]), hold_out),)
    none = (keeping(write(tmp_path, "none", ["new", "text"]), hold_out),)
    tables = read_tables([extra, one, none], tmp_path)
    assert (tables[extra].ids, tables[extra].num_own_rows) == (["extra0", "extra11"], 2)
    assert tables[extra].left_out == ("extra.csv: 10 rows share a text with rows held out",)
    assert tables[one].left_out == ("one.csv: 1 row shares a text with rows held out",)
    assert (tables[none].ids, tables[none].left_out) == (["none0", "none1"], ())


def test_augmentation_is_dropped_too_and_not_counted_among_own_rows(
    tmp_path: Path, own: RowSource, hold_out: HoldOut
) -> None:
    more = dataclasses.replace(keeping(write(tmp_path, "more", [*WORDS, "new"]), hold_out), prefix="more/")
    both = (keeping(own, hold_out), more)
    table = read_tables([both], tmp_path)[both]
    assert (table.num_own_rows, len(table.ids)) == (30, 61)
    assert table.ids[29].startswith("own")
    assert all(row.startswith("more/") for row in table.ids[30:])
    assert table.left_out == ("more.csv: 10 rows share a text with rows held out",)


def test_held_out_rows_of_two_tasks_are_dropped_from_both(tmp_path: Path) -> None:
    """One file is a part of the other, so that their held-out rows differ."""
    files = [write(tmp_path, "one", WORDS), write(tmp_path, "two", WORDS[:12])]
    together = HoldOut(share=0.25, sources=tuple(files))
    train = [(keeping(part, together),) for part in files]
    held = [(keeping(part, HoldOut(share=0.25, sources=(part,)), HELD),) for part in files]
    tables = read_tables([*train, *held], tmp_path)
    held_texts = [texts_of(tables[part]) for part in held]
    assert held_texts[0] != held_texts[1]
    for part, file, own, other in zip(train, files, held_texts, reversed(held_texts), strict=True):
        texts = read_all_rows(file, tmp_path).texts[0]
        num_others = sum(text in other - own for text in texts)
        assert tables[part].texts[0] == [text for text in texts if text not in own | other]
        notes = {0: (), 1: ("1 row shares",)}.get(num_others, (f"{num_others} rows share",))
        assert tables[part].left_out == tuple(f"{file.paths[0]}: {what} a text with rows held out" for what in notes)
    assert any(tables[part].left_out for part in train)


def test_every_file_is_read_once(
    tmp_path: Path, own: RowSource, hold_out: HoldOut, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = list[RowSource]()

    def count(part: RowSource, folder: Path) -> Table:
        read.append(part)
        return read_all_rows(part, folder)

    monkeypatch.setattr(row_sources, "read_all_rows", count)
    extra = write(tmp_path, "extra", ["new"])
    train, held = (keeping(own, hold_out),), (keeping(own, hold_out, HELD),)
    tables = read_tables([train, held, (keeping(extra, hold_out),), (own, extra), train], tmp_path)
    assert len(tables) == 4
    assert sorted(part.paths[0] for part in read) == ["extra.csv", "own.csv"]


def test_a_share_that_fits_no_group_is_refused_with_its_file(tmp_path: Path) -> None:
    few = write(tmp_path, "few", ["a", "b", "c"])
    assert one_line_error(read_tables, [(keeping(few, HoldOut(share=0.3, sources=(few,))),)], tmp_path) == (
        "few.csv: data.hold_out must hold out at least one whole group of rows that share texts, got 0.3 of 3 rows"
    )
    assert len(read_tables([(keeping(few, HoldOut(share=0.34, sources=(few,))),)], tmp_path)) == 1
    same = write(tmp_path, "same", ["a", "A", " a"])
    assert one_line_error(read_tables, [(keeping(same, HoldOut(share=0.5, sources=(same,))),)], tmp_path).endswith(
        "got 0.5 of 3 rows"
    )


def test_a_file_without_remaining_rows_is_refused(tmp_path: Path, own: RowSource, hold_out: HoldOut) -> None:
    held = (keeping(own, hold_out, HELD),)
    held_texts = read_tables([held], tmp_path)[held].texts[0]
    copy = keeping(write(tmp_path, "copy", held_texts[:4]), hold_out)
    rule = "copy.csv: there must be train rows that share no text with rows held out, got none among 4"
    assert one_line_error(read_tables, [(copy,)], tmp_path) == rule


def test_unusable_rows_are_reported_for_trained_splits_only(tmp_path: Path, own: RowSource, hold_out: HoldOut) -> None:
    with (tmp_path / "own.csv").open("a") as file:
        file.write("last,,1\n")
    train, held = (keeping(own, hold_out),), (keeping(own, hold_out, HELD),)
    tables = read_tables([train, held], tmp_path)
    assert [tables[part].skipped for part in (train, held)] == [("own.csv:42: sentence is blank",), ()]


def test_held_out_rows_can_be_tokenized(
    tmp_path: Path, own: RowSource, hold_out: HoldOut, tiny_encoder: PretrainedEncoder
) -> None:
    held = (keeping(own, hold_out, HELD),)
    tables = {("sst", HELD): read_tables([held], tmp_path)[held]}
    table = tokenize(tables, tiny_encoder.tokenizer, tmp_path / "cache")["sst", HELD]
    assert (table.num_rows, table.ids) == (10, tables["sst", HELD].ids)
    assert table.labels.tolist() == labels_of(tables["sst", HELD])


def test_row_sources_are_identified_by_files_and_held_out_rows(own: RowSource, hold_out: HoldOut) -> None:
    assert describe_sources((own, dataclasses.replace(own, paths=("b.csv",)))) == "own.csv, b.csv"
    assert describe_sources((keeping(own, hold_out),)) == "own.csv; held out: sst"
