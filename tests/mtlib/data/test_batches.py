"""Batches are what the tokenizer returns with padding and truncation, and shards are parts of them."""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import PreTrainedTokenizerFast

from mtlib.config.network import Encoding
from mtlib.data.batches import Batch, Inputs, make_batch, moved, some_rows
from mtlib.data.tables import Table
from mtlib.data.token_cache import TokenTable, tokenize

NAMES = [field.name for field in fields(Inputs)]
BATCHES = [np.random.default_rng(0).integers(0, 40, size).tolist() for size in (1, 7, 16)]
"""Rows, which may repeat."""
Tokenize = Callable[[Table], TokenTable]


@pytest.fixture
def tokenized(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> Tokenize:
    """The word pieces of a table by each tokenizer in turn."""
    return lambda table: tokenize({"set": table}, tokenizer, tmp_path)["set"]


@pytest.fixture
def pairs(pair_table: Table, bert_tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> TokenTable:
    return tokenize({"set": pair_table}, bert_tokenizer, tmp_path)["set"]


def batch_of(table: TokenTable, rows: list[int], encoding: Encoding, max_length: int = 64, **shard: int) -> Batch:
    return make_batch(table, np.array(rows), encoding=encoding, max_length=max_length, **shard)


def assert_as_tokenizer(inputs: Inputs, tokenizer: PreTrainedTokenizerFast, max_length: int, *texts: list[str]) -> None:
    """Compares with the output of the tokenizer, with its padding and truncation."""
    options: dict[str, Any] = {"padding": True, "return_tensors": "pt", "return_token_type_ids": True}
    expected = tokenizer(*texts, truncation="longest_first", max_length=max_length, **options)
    for name in NAMES:
        torch.testing.assert_close(getattr(inputs, name), expected[name], rtol=0, atol=0)


@pytest.mark.parametrize("max_length", [8, 64])
def test_pairs_match_the_tokenizer(
    pair_table: Table, tokenizer: PreTrainedTokenizerFast, tokenized: Tokenize, max_length: int
) -> None:
    """In one input, in two that are padded separately, in all three, and as one text."""
    table = tokenized(pair_table)
    for rows in BATCHES:
        texts = [[column[row] for row in rows] for column in pair_table.texts]
        (cross,) = batch_of(table, rows, "cross", max_length).inputs
        assert_as_tokenizer(cross, tokenizer, max_length, *texts)
        both = batch_of(table, rows, "bi", max_length).inputs
        for inputs, column in zip(both, texts, strict=True):
            assert_as_tokenizer(inputs, tokenizer, max_length, column)
        three = batch_of(table, rows, "cross_and_bi", max_length).inputs
        for inputs, same in zip(three, (cross, *both), strict=True):
            assert all(torch.equal(getattr(inputs, name), getattr(same, name)) for name in NAMES)
        options = {"truncation": "longest_first", "max_length": max_length - 2, "add_special_tokens": False}
        pieces = tokenizer(*texts, **options)["input_ids"]
        (one,) = batch_of(table, rows, "cross_no_separator", max_length).inputs
        assert [ids[mask == 1].tolist() for ids, mask in zip(one.input_ids, one.attention_mask, strict=True)] == [
            [tokenizer.cls_token_id, *ids, tokenizer.sep_token_id] for ids in pieces
        ]
        assert not one.token_type_ids.any()


def test_single_texts_match_the_tokenizer(
    single_table: Table, tokenizer: PreTrainedTokenizerFast, tokenized: Tokenize
) -> None:
    table = tokenized(single_table)
    for rows in BATCHES:
        (inputs,) = batch_of(table, rows, "single", 10).inputs
        assert_as_tokenizer(inputs, tokenizer, 10, [single_table.texts[0][row] for row in rows])


def test_a_batch_holds_copies_of_labels_and_tokens_and_all_its_tensors_move(
    pairs: TokenTable, pair_table: Table
) -> None:
    for _ in range(2):  # writing to a batch does not change the table
        batch = batch_of(pairs, [3, 9, 4], "bi")
        assert batch.labels.dtype == torch.float32
        assert batch.labels.tolist() == pair_table.labels[[3, 9, 4]].tolist()
        batch.labels.fill_(99)
    there = moved(batch, torch.device("meta"))
    assert all(tensor.is_meta for tensor in (there.labels, *(getattr(i, name) for i in there.inputs for name in NAMES)))
    assert (there.task, there.num_rows, there.rows is batch.rows) == ("qqp", 3, True)


@pytest.mark.parametrize("encoding", ["cross", "bi"])
def test_shards_together_are_the_global_batch_and_some_rows_those_of_a_shard(
    encoding: Encoding, pairs: TokenTable
) -> None:
    rows = [9, 4, 31, 4, 0, 22, 17]
    whole = batch_of(pairs, rows, encoding)
    parts = [batch_of(pairs, rows, encoding, rank=rank, world_size=3) for rank in range(3)]
    assert [part.positions.tolist() for part in parts] == [[0, 3, 6], [1, 4], [2, 5]]
    for part in (*parts, some_rows(parts[0], np.array([2, 0]))):
        places = torch.from_numpy(part.positions)
        assert (part.task, part.num_rows, part.is_empty) == ("qqp", 7, False)
        assert part.rows.tolist() == [rows[place] for place in part.positions]
        assert torch.equal(part.labels, whole.labels[places])
        for inputs, given in zip(part.inputs, whole.inputs, strict=True):
            assert all(torch.equal(getattr(inputs, name), getattr(given, name)[places]) for name in NAMES)


def test_a_worker_without_rows_gets_the_first_row_as_filler(pairs: TokenTable) -> None:
    parts = [batch_of(pairs, [7, 8], "cross", rank=rank, world_size=3) for rank in range(3)]
    assert [part.is_empty for part in parts] == [False, False, True]
    assert (parts[2].rows.tolist(), parts[2].positions.tolist(), parts[2].num_rows) == ([7], [0], 2)
    with pytest.raises(AssertionError, match="at least one row"):
        batch_of(pairs, [], "cross")
