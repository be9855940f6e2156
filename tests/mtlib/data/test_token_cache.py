"""Word pieces are those of the tokenizer, cached by content, and rebuilt where a cache is damaged."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from transformers import PreTrainedTokenizerFast

from mtlib.data import token_cache as tokens
from mtlib.data.tables import Table
from mtlib.data.token_cache import CHECKSUM_NAME, TOKENS_NAME, Corpus, TokenTable, open_cache, tokenize


def tokenize_one(table: Table, tokenizer: PreTrainedTokenizerFast, folder: Path) -> TokenTable:
    return tokenize({(table.task, table.split): table}, tokenizer, folder)[table.task, table.split]


def only_cache(folder: Path) -> Path:
    """The only entry of a cache folder; other files are an error."""
    (entry,) = folder.iterdir()
    return entry


def test_word_pieces_match_the_tokenizer_and_ids_and_labels_the_table(
    pair_table: Table, tokenizer: PreTrainedTokenizerFast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "TOKENIZER_CHUNK_ROWS", 7)
    several = np.random.default_rng(0).integers(0, 2, (50, 3)).astype(np.float32)
    for labels in (pair_table.labels, several):
        given = replace(pair_table, labels=labels, num_own_rows=20)
        built, cached = (tokenize_one(given, tokenizer, tmp_path) for _ in range(2))
        for table in (built, cached):
            for side, texts in enumerate(pair_table.texts):
                expected = tokenizer(texts, add_special_tokens=False)["input_ids"]
                assert [pieces_of(table, side, row).tolist() for row in range(50)] == expected
            assert (table.task, table.num_rows, table.num_own_rows) == ("qqp", 50, 20)
            assert table.ids == pair_table.ids
            np.testing.assert_array_equal(table.labels, labels)
            assert table.labels.dtype == np.float32


@pytest.mark.parametrize("max_length", [8, 64])
def test_lengths_match_the_tokenizer(
    pair_table: Table, tokenizer: PreTrainedTokenizerFast, tmp_path: Path, max_length: int
) -> None:
    table = tokenize_one(pair_table, tokenizer, tmp_path)

    def lengths(*texts: list[str]) -> list[int]:
        encoded = tokenizer(*texts, truncation="longest_first", max_length=max_length)["input_ids"]
        return [len(ids) for ids in encoded]

    first, second = pair_table.texts
    assert table.lengths("cross", max_length).tolist() == lengths(first, second)
    assert table.lengths("single", max_length).tolist() == lengths(first)
    kept = tokenizer(first, second, truncation="longest_first", max_length=max_length - 2, add_special_tokens=False)
    assert table.lengths("cross_no_separator", max_length).tolist() == [len(ids) + 2 for ids in kept["input_ids"]]
    longer = [max(pair) for pair in zip(lengths(first), lengths(second), strict=True)]
    assert table.lengths("bi", max_length).tolist() == longer


def test_a_cached_table_is_not_tokenized_again_and_outlives_its_mapped_file(
    pair_table: Table, bert_tokenizer: PreTrainedTokenizerFast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = {("qqp", "train"): pair_table}
    first = tokenize(tables, bert_tokenizer, tmp_path)
    monkeypatch.delattr(tokens, "tokenize_texts")
    second = tokenize(tables, bert_tokenizer, tmp_path)
    (table,) = second.values()
    arrays = [table.labels, *table.pieces, *table.offsets]
    assert not any(array.flags.owndata or array.flags.writeable for array in arrays)
    shutil.rmtree(tmp_path)
    assert_equal(first, second)


def test_a_fingerprint_depends_on_content_tokenizer_and_library_and_not_on_the_place(
    single_table: Table,
    bert_tokenizer: PreTrainedTokenizerFast,
    roberta_tokenizer: PreTrainedTokenizerFast,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fingerprint(table: Table, tokenizer: PreTrainedTokenizerFast = bert_tokenizer) -> str:
        return tokenize_one(table, tokenizer, tmp_path / "cache").fingerprint

    own, (texts,), labels = fingerprint(single_table), single_table.texts, single_table.labels
    assert fingerprint(replace(single_table, path=Path("elsewhere.csv"), skipped=("line 3",))) == own
    assert tokenize_one(single_table, bert_tokenizer, tmp_path / "other cache").fingerprint == own
    changed = [
        replace(single_table, texts=(["another", *texts[1:]],)),
        replace(single_table, labels=np.array([(labels[0] + 1) % 5, *labels[1:]], dtype=np.float32)),
        replace(single_table, num_own_rows=len(texts) - 1),
        replace(single_table, split="dev"),
    ]
    prints = {own, fingerprint(single_table, roberta_tokenizer), *map(fingerprint, changed)}
    monkeypatch.setattr("importlib.metadata.version", lambda _name: "0.0.1")
    prints.add(fingerprint(single_table))
    assert len(prints) == len(list((tmp_path / "cache").iterdir())) == len(changed) + 3


def flip_a_byte(entry: Path) -> None:
    data = bytearray((entry / TOKENS_NAME).read_bytes())
    data[len(data) // 2] ^= 1
    (entry / TOKENS_NAME).write_bytes(data)


def replace_by_a_file(entry: Path) -> None:
    shutil.rmtree(entry)
    entry.write_text("not a folder")


DAMAGES: list[Callable[[Path], object]] = [
    flip_a_byte,
    replace_by_a_file,
    lambda entry: (entry / CHECKSUM_NAME).unlink(),
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_cache_is_rebuilt(
    damage: Callable[[Path], object], pair_table: Table, bert_tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    tables = {("qqp", "train"): pair_table}
    whole = tokenize(tables, bert_tokenizer, tmp_path / "whole")
    tokenize(tables, bert_tokenizer, tmp_path / "cache")
    damage(only_cache(tmp_path / "cache"))
    assert open_cache(only_cache(tmp_path / "cache")) is None
    mended = tokenize(tables, bert_tokenizer, tmp_path / "cache")
    assert_equal(mended, whole)
    assert open_cache(only_cache(tmp_path / "cache")) is not None


def test_a_build_overtaken_by_another_is_harmless(
    pair_table: Table,
    bert_tokenizer: PreTrainedTokenizerFast,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tables, write, overtaken = {("qqp", "train"): pair_table}, tokens.write_cache, list[Corpus]()
    whole = tokenize(tables, bert_tokenizer, tmp_path / "whole")

    def write_after_another(table: Table, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
        monkeypatch.setattr(tokens, "write_cache", write)
        overtaken.append(tokenize(tables, bert_tokenizer, tmp_path / "cache"))
        write(table, tokenizer, folder)

    monkeypatch.setattr(tokens, "write_cache", write_after_another)
    assert_equal(tokenize(tables, bert_tokenizer, tmp_path / "cache"), whole)
    assert_equal(overtaken[0], whole)
    assert open_cache(only_cache(tmp_path / "cache")) is not None


def assert_equal(one: Corpus, other: Corpus) -> None:
    assert list(one) == list(other)
    for key, table in one.items():
        same = other[key]
        assert table.ids == same.ids
        np.testing.assert_array_equal(table.labels, same.labels)
        for array, other_array in zip(table.pieces + table.offsets, same.pieces + same.offsets, strict=True):
            np.testing.assert_array_equal(array, other_array)


def pieces_of(table: TokenTable, side: int, row: int) -> np.ndarray:
    """The word pieces of a text, without special tokens."""
    start, end = table.offsets[side][row : row + 2]
    return table.pieces[side][start:end]
