import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from transformers import PreTrainedTokenizerFast

from mtlib.config.network import Encoding
from mtlib.data import token_cache as tokens
from mtlib.data.tables import Table
from mtlib.data.token_cache import CHECKSUM_NAME, SIDES, TOKENS_NAME, Corpus, TokenTable, open_cache, tokenize
from tests.task_tables import read_folder

BUILDER = """
import sys, time
from pathlib import Path
from transformers import PreTrainedTokenizerFast
from mtlib.data.token_cache import tokenize
from tests.task_tables import read_folder

data, encoder, cache, own, other = map(Path, sys.argv[1:])
tables, tokenizer = read_folder(data, ["qqp"]), PreTrainedTokenizerFast.from_pretrained(encoder)
own.touch()
while not other.exists():
    time.sleep(0.001)
corpus = tokenize(tables, tokenizer, cache)
table = corpus["qqp", "train"]
print(table.fingerprint, table.num_rows, table.pieces[0].sum(), table.pieces[1].sum())
"""


def tokenize_one(table: Table, tokenizer: PreTrainedTokenizerFast, folder: Path) -> TokenTable:
    return tokenize({(table.task, table.split): table}, tokenizer, folder)[table.task, table.split]


def only_cache(folder: Path) -> Path:
    """The only entry of a cache folder; other files are an error."""
    (entry,) = folder.iterdir()
    return entry


def test_word_pieces_match_the_tokenizer(pair_table: Table, tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    table = tokenize_one(pair_table, tokenizer, tmp_path)
    for side, texts in enumerate(pair_table.texts):
        for row, text in enumerate(texts):
            assert pieces_of(table, side, row).tolist() == tokenizer(text, add_special_tokens=False)["input_ids"]
            assert pieces_of(table, side, row).dtype == np.int32


def test_texts_of_several_chunks_keep_their_order(
    pair_table: Table, bert_tokenizer: PreTrainedTokenizerFast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = tokenize_one(pair_table, bert_tokenizer, tmp_path / "whole")
    monkeypatch.setattr(tokens, "TOKENIZER_CHUNK_ROWS", 7)
    parts = tokenize_one(pair_table, bert_tokenizer, tmp_path / "parts")
    for side in range(2):
        np.testing.assert_array_equal(parts.pieces[side], whole.pieces[side])
        np.testing.assert_array_equal(parts.offsets[side], whole.offsets[side])


@pytest.mark.parametrize("max_length", [8, 9, 16, 64])
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


def test_every_encoding_of_the_configuration_is_known() -> None:
    assert set(SIDES) == set(get_args(Encoding))


def test_ids_and_labels_are_cached(
    single_table: Table, bert_tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    table = tokenize_one(single_table, bert_tokenizer, tmp_path)
    assert (table.task, table.num_rows) == ("sst", 40)
    assert table.ids == single_table.ids
    np.testing.assert_array_equal(table.labels, single_table.labels)
    assert table.labels.dtype == np.float32


def test_several_labels_are_cached(pair_table: Table, tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    labels = np.random.default_rng(0).integers(0, 2, (len(pair_table.ids), 3)).astype(np.float32)
    several = replace(pair_table, labels=labels)
    for _ in range(2):  # built, and read
        np.testing.assert_array_equal(tokenize_one(several, tokenizer, tmp_path).labels, labels)


def test_the_number_of_own_rows_is_kept(
    single_table: Table, bert_tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    tables = {("one", "train"): single_table, ("two", "train"): replace(single_table, num_own_rows=7)}
    found = tokenize(tables, bert_tokenizer, tmp_path)
    assert [found[name, "train"].num_own_rows for name in ("one", "two")] == [40, 7]
    assert {table.task for table in found.values()} == {"sst"}


def test_a_text_without_word_pieces_is_empty(
    make_table: Callable[..., Table], bert_tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    table = tokenize_one(make_table("sst", ["\u200b", "cat", "\u200b"]), bert_tokenizer, tmp_path)
    assert [pieces_of(table, 0, row).tolist() for row in range(3)] == [[], [5], []]
    assert table.lengths("single", 8).tolist() == [2, 3, 2]


def test_a_cached_table_is_not_tokenized_again(
    pair_table: Table, bert_tokenizer: PreTrainedTokenizerFast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = {("qqp", "train"): pair_table}
    first = tokenize(tables, bert_tokenizer, tmp_path)
    monkeypatch.delattr(tokens, "tokenize_texts")
    second = tokenize(tables, bert_tokenizer, tmp_path)
    assert_equal(first, second)


def test_arrays_are_views_of_the_mapped_file(
    pair_table: Table, bert_tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    table = tokenize_one(pair_table, bert_tokenizer, tmp_path)
    arrays = [table.labels, *table.pieces, *table.offsets]
    assert not any(array.flags.owndata or array.flags.writeable for array in arrays)
    shutil.rmtree(tmp_path)
    assert (
        pieces_of(table, 0, 0).tolist() == bert_tokenizer(pair_table.texts[0][0], add_special_tokens=False)["input_ids"]
    )


def test_another_tokenizer_text_or_id_makes_a_new_entry(
    single_table: Table,
    bert_tokenizer: PreTrainedTokenizerFast,
    roberta_tokenizer: PreTrainedTokenizerFast,
    tmp_path: Path,
) -> None:
    entries = [
        tokenize_one(table, tokenizer, tmp_path)
        for table, tokenizer in (
            (single_table, bert_tokenizer),
            (single_table, roberta_tokenizer),
            (replace(single_table, texts=([*single_table.texts[0][1:], "new"],)), bert_tokenizer),
            (replace(single_table, ids=[*single_table.ids[1:], "new"]), bert_tokenizer),
        )
    ]
    assert len(list(tmp_path.iterdir())) == 4
    assert len({entry.fingerprint for entry in entries}) == 4


def test_a_tables_fingerprint_depends_on_content_and_tokenizer_and_not_on_its_path(
    single_table: Table,
    bert_tokenizer: PreTrainedTokenizerFast,
    roberta_tokenizer: PreTrainedTokenizerFast,
    tmp_path: Path,
) -> None:
    def fingerprint(table: Table, tokenizer: PreTrainedTokenizerFast = bert_tokenizer) -> str:
        return tokenize_one(table, tokenizer, tmp_path / tokenizer.name_or_path / str(len(table.ids))).fingerprint

    own, (texts,), labels = fingerprint(single_table), single_table.texts, single_table.labels
    assert fingerprint(replace(single_table, path=Path("elsewhere.csv"), skipped=("line 3",))) == own
    assert tokenize_one(single_table, bert_tokenizer, tmp_path / "other cache").fingerprint == own
    changed = [
        replace(single_table, texts=(["another", *texts[1:]],)),
        replace(single_table, labels=np.array([(labels[0] + 1) % 5, *labels[1:]], dtype=np.float32)),
        replace(single_table, ids=["another", *single_table.ids[1:]]),
        replace(single_table, num_own_rows=len(texts) - 1),
        replace(single_table, split="dev"),
        replace(single_table, ids=single_table.ids[1:], texts=(texts[1:],), labels=labels[1:]),
    ]
    prints = {own, fingerprint(single_table, roberta_tokenizer), *map(fingerprint, changed)}
    assert len(prints) == len(changed) + 2
    assert all(len(name) == 64 for name in prints)


def test_another_version_of_the_tokenizers_library_changes_the_fingerprint(
    single_table: Table, bert_tokenizer: PreTrainedTokenizerFast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tokenize_one(single_table, bert_tokenizer, tmp_path).fingerprint
    monkeypatch.setattr("importlib.metadata.version", lambda _name: "0.0.1")
    assert tokenize_one(single_table, bert_tokenizer, tmp_path).fingerprint != before


def test_each_table_of_a_corpus_has_its_own_fingerprint(tiny_corpus: Corpus) -> None:
    assert len({table.fingerprint for table in tiny_corpus.values()}) == len(tiny_corpus) == 6


def flip_a_byte(entry: Path) -> None:
    data = bytearray((entry / TOKENS_NAME).read_bytes())
    data[len(data) // 2] ^= 1
    (entry / TOKENS_NAME).write_bytes(data)


def cut_in_half(entry: Path) -> None:
    data = (entry / TOKENS_NAME).read_bytes()
    (entry / TOKENS_NAME).write_bytes(data[: len(data) // 2])


def replace_by_a_file(entry: Path) -> None:
    shutil.rmtree(entry)
    entry.write_text("not a folder")


DAMAGES: list[Callable[[Path], object]] = [
    flip_a_byte,
    cut_in_half,
    replace_by_a_file,
    lambda entry: (entry / TOKENS_NAME).unlink(),
    lambda entry: (entry / CHECKSUM_NAME).unlink(),
    lambda entry: (entry / CHECKSUM_NAME).write_bytes(b"\xff"),
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


@pytest.mark.parametrize("damage", [None, flip_a_byte])
def test_a_build_overtaken_by_another_is_harmless(
    damage: Callable[[Path], None] | None,
    pair_table: Table,
    bert_tokenizer: PreTrainedTokenizerFast,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tables, write, overtaken = {("qqp", "train"): pair_table}, tokens.write_cache, list[Corpus]()
    whole = tokenize(tables, bert_tokenizer, tmp_path / "whole")
    if damage:
        tokenize(tables, bert_tokenizer, tmp_path / "cache")
        damage(only_cache(tmp_path / "cache"))

    def write_after_another(table: Table, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
        monkeypatch.setattr(tokens, "write_cache", write)
        overtaken.append(tokenize(tables, bert_tokenizer, tmp_path / "cache"))
        write(table, tokenizer, folder)

    monkeypatch.setattr(tokens, "write_cache", write_after_another)
    assert_equal(tokenize(tables, bert_tokenizer, tmp_path / "cache"), whole)
    assert_equal(overtaken[0], whole)
    assert open_cache(only_cache(tmp_path / "cache")) is not None


def test_a_failed_build_leaves_nothing(
    pair_table: Table, bert_tokenizer: PreTrainedTokenizerFast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tokens, "write_cache", fail)
    with pytest.raises(KeyboardInterrupt):
        tokenize({("qqp", "train"): pair_table}, bert_tokenizer, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_two_processes_can_build_at_once(bert_tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    data, encoder, cache = (tmp_path / name for name in ("data", "encoder", "cache"))
    data.mkdir()
    rows = "".join(f"id{row}\tthe cat sat {row}\ta road {row} ?\t{row % 2}.0\n" for row in range(4000))
    for split in ("train", "dev"):
        (data / f"quora-{split}.csv").write_text("id\tsentence1\tsentence2\tis_duplicate\n" + rows)
    bert_tokenizer.save_pretrained(encoder)
    tokenize(read_folder(data, ["qqp"], ["dev"]), PreTrainedTokenizerFast.from_pretrained(encoder), cache)
    flip_a_byte(only_cache(cache))  # train is built, and dev is rebuilt
    first, second = run_builders(data, encoder, cache, [tmp_path / "one", tmp_path / "two"])
    assert first == second
    assert first.split()[1] == "4000"
    assert len(list(cache.iterdir())) == 2  # train and dev, and no unfinished folder
    assert all(open_cache(entry) is not None for entry in cache.iterdir())


def run_builders(data: Path, encoder: Path, cache: Path, flags: list[Path]) -> list[str]:
    """Output of two processes that build the cache at the same time."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", BUILDER, *map(str, (data, encoder, cache, own, other))],
            stdout=subprocess.PIPE,
            cwd=Path(tokens.__file__).parents[2],
            text=True,
        )
        for own, other in (flags, reversed(flags))
    ]
    outputs = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    return outputs


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
