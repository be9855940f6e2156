from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from transformers import PreTrainedTokenizerFast

from mtlib.config.network import Encoding
from mtlib.data.batches import Batch, Inputs, make_batch, moved, some_rows
from mtlib.data.tables import Table
from mtlib.data.token_cache import Corpus, TokenTable, tokenize

SIZES = [1, 2, 7, 16]


def batch_of(
    corpus: Corpus, rows: list[int], encoding: Encoding, max_length: int = 64, rank: int = 0, world_size: int = 1
) -> Batch:
    return make_batch(
        only_table(corpus),
        np.array(rows),
        encoding=encoding,
        max_length=max_length,
        rank=rank,
        world_size=world_size,
    )


def only_table(corpus: Corpus) -> TokenTable:
    (table,) = corpus.values()
    return table


def corpus_of(table: Table, tokenizer: PreTrainedTokenizerFast, folder: Path) -> Corpus:
    return tokenize({(table.task, table.split): table}, tokenizer, folder)


def assert_as_tokenizer(inputs: Inputs, tokenizer: PreTrainedTokenizerFast, max_length: int, *texts: list[str]) -> None:
    """Compares with the output of the tokenizer, with its padding and truncation."""
    options = {"padding": True, "return_tensors": "pt", "return_token_type_ids": True}
    expected = tokenizer(*texts, truncation="longest_first", max_length=max_length, **options)
    for field in fields(Inputs):
        torch.testing.assert_close(getattr(inputs, field.name), expected[field.name], rtol=0, atol=0)


def test_a_cross_encoded_pair_by_hand(
    make_table: Callable[..., Table], bert_tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    table = make_table("qqp", ["the cat sat", "cat"], ["a road", "?"], labels=[1, 0])
    (inputs,) = batch_of(corpus_of(table, bert_tokenizer, tmp_path), [0, 1], "cross").inputs
    assert inputs.input_ids.tolist() == [[2, 4, 5, 6, 3, 7, 9, 3], [2, 5, 3, 13, 3, 0, 0, 0]]
    assert inputs.attention_mask.tolist() == [[1] * 8, [1, 1, 1, 1, 1, 0, 0, 0]]
    assert inputs.token_type_ids.tolist() == [[0, 0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 0, 0, 0]]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("max_length", [8, 9, 13, 64])
def test_cross_encoded_pairs_match_the_tokenizer(
    pair_table: Table, tokenizer: PreTrainedTokenizerFast, tmp_path: Path, max_length: int, size: int
) -> None:
    corpus = corpus_of(pair_table, tokenizer, tmp_path)
    for rows in random_batches(size, corpus):
        texts = [[column[row] for row in rows] for column in pair_table.texts]
        (inputs,) = batch_of(corpus, rows, "cross", max_length).inputs
        assert_as_tokenizer(inputs, tokenizer, max_length, *texts)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("max_length", [8, 9, 13, 64])
def test_pairs_without_separator_are_the_word_pieces_inside_the_special_tokens_of_one_text(
    pair_table: Table, tokenizer: PreTrainedTokenizerFast, tmp_path: Path, max_length: int, size: int
) -> None:
    corpus = corpus_of(pair_table, tokenizer, tmp_path)
    for rows in random_batches(size, corpus):
        texts = [[column[row] for row in rows] for column in pair_table.texts]
        options = {"truncation": "longest_first", "max_length": max_length - 2, "add_special_tokens": False}
        pieces = tokenizer(*texts, **options)["input_ids"]
        expected = [[tokenizer.cls_token_id, *ids, tokenizer.sep_token_id] for ids in pieces]
        (inputs,) = batch_of(corpus, rows, "cross_no_separator", max_length).inputs
        width = max(map(len, expected))
        padded = [ids + [tokenizer.pad_token_id] * (width - len(ids)) for ids in expected]
        assert inputs.input_ids.tolist() == padded
        assert inputs.attention_mask.sum(dim=1).tolist() == [len(ids) for ids in expected]
        assert not inputs.token_type_ids.any()


def test_a_pair_without_separator_equals_one_text_of_both(
    pair_table: Table, bert_tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    rows = list(range(20))
    texts = [" ".join(column[row] for column in pair_table.texts) for row in rows]
    (inputs,) = batch_of(corpus_of(pair_table, bert_tokenizer, tmp_path), rows, "cross_no_separator").inputs
    assert_as_tokenizer(inputs, bert_tokenizer, 64, texts)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("max_length", [8, 9, 64])
def test_bi_encoded_pairs_are_two_inputs_padded_separately(
    pair_table: Table, tokenizer: PreTrainedTokenizerFast, tmp_path: Path, max_length: int, size: int
) -> None:
    corpus = corpus_of(pair_table, tokenizer, tmp_path)
    for rows in random_batches(size, corpus):
        batch = batch_of(corpus, rows, "bi", max_length)
        for inputs, texts in zip(batch.inputs, pair_table.texts, strict=True):
            assert_as_tokenizer(inputs, tokenizer, max_length, [texts[row] for row in rows])


@pytest.mark.parametrize("size", SIZES)
def test_single_texts_match_the_tokenizer(
    single_table: Table, tokenizer: PreTrainedTokenizerFast, tmp_path: Path, size: int
) -> None:
    corpus = corpus_of(single_table, tokenizer, tmp_path)
    for rows in random_batches(size, corpus):
        (inputs,) = batch_of(corpus, rows, "single", 10).inputs
        assert_as_tokenizer(inputs, tokenizer, 10, [single_table.texts[0][row] for row in rows])


def random_batches(size: int, corpus: Corpus) -> list[list[int]]:
    """20 batches; rows may repeat."""
    stream = np.random.default_rng(size)
    batches: list[list[int]] = stream.integers(0, only_table(corpus).num_rows, (20, size)).tolist()
    return batches


def test_tensors_are_int64_and_labels_float32(
    pair_table: Table, bert_tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    batch = batch_of(corpus_of(pair_table, bert_tokenizer, tmp_path), [3, 9, 4], "cross")
    assert {getattr(batch.inputs[0], field.name).dtype for field in fields(Inputs)} == {torch.int64}
    assert batch.labels.dtype == torch.float32
    assert batch.labels.tolist() == pair_table.labels[[3, 9, 4]].tolist()
    assert (batch.task, batch.num_rows, batch.is_empty) == ("qqp", 3, False)


def test_writing_to_a_batch_does_not_change_the_cache(
    single_table: Table, bert_tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    corpus = corpus_of(single_table, bert_tokenizer, tmp_path)
    batch = batch_of(corpus, [0, 1], "single")
    batch.labels.fill_(99)
    batch.inputs[0].input_ids.fill_(99)
    again = batch_of(corpus, [0, 1], "single")
    assert not (again.labels == 99).any()
    assert not (again.inputs[0].input_ids == 99).any()


@pytest.mark.parametrize("encoding", ["cross", "bi", "cross_and_bi"])
@pytest.mark.parametrize("world_size", [2, 3, 5])
def test_shards_together_are_the_global_batch(
    encoding: Encoding,
    world_size: int,
    pair_table: Table,
    bert_tokenizer: PreTrainedTokenizerFast,
    tmp_path: Path,
) -> None:
    corpus, rows = corpus_of(pair_table, bert_tokenizer, tmp_path), [9, 4, 31, 4, 0, 22, 17]
    whole = batch_of(corpus, rows, encoding)
    parts = [batch_of(corpus, rows, encoding, rank=rank, world_size=world_size) for rank in range(world_size)]
    assert sorted(np.concatenate([part.positions for part in parts])) == list(range(7))
    for part in parts:
        places = torch.from_numpy(part.positions)
        assert (part.num_rows, part.is_empty) == (7, False)
        assert part.rows.tolist() == [rows[place] for place in part.positions]
        assert torch.equal(part.labels, whole.labels[places])
        for inputs, whole_inputs in zip(part.inputs, whole.inputs, strict=True):
            for field in fields(Inputs):
                assert torch.equal(getattr(inputs, field.name), getattr(whole_inputs, field.name)[places])


def test_a_pair_encoded_both_ways_has_the_inputs_of_both(
    pair_table: Table, bert_tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    corpus = corpus_of(pair_table, bert_tokenizer, tmp_path)
    for rows in random_batches(5, corpus):  # 12 tokens cut most pairs, and some texts
        both, cross, bi = (batch_of(corpus, rows, name, 12).inputs for name in ("cross_and_bi", "cross", "bi"))
        assert len(both) == 3
        for found, expected in zip(both, cross + bi, strict=True):
            for field in fields(Inputs):
                assert torch.equal(getattr(found, field.name), getattr(expected, field.name))


def test_a_worker_without_rows_gets_the_first_row_as_filler(
    pair_table: Table, bert_tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    corpus = corpus_of(pair_table, bert_tokenizer, tmp_path)
    parts = [batch_of(corpus, [7, 8], "cross", rank=rank, world_size=3) for rank in range(3)]
    assert [part.is_empty for part in parts] == [False, False, True]
    assert (parts[2].rows.tolist(), parts[2].positions.tolist(), parts[2].num_rows) == ([7], [0], 2)
    assert torch.equal(parts[2].inputs[0].input_ids, parts[0].inputs[0].input_ids)


def test_a_row_depends_on_its_batch_only_through_padding(
    pair_table: Table, bert_tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    corpus = corpus_of(pair_table, bert_tokenizer, tmp_path)
    (alone,), (together,) = (batch_of(corpus, rows, "cross").inputs for rows in ([5], [5, *range(50)]))
    width = alone.input_ids.shape[1]
    assert torch.equal(together.input_ids[:1, :width], alone.input_ids)
    assert not together.attention_mask[0, width:].any()


def test_a_text_without_word_pieces_has_only_special_tokens(
    make_table: Callable[..., Table], bert_tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    table = make_table("qqp", ["\u200b", "cat"], ["\u200b", "\u200b"], labels=[0, 1])
    (inputs,) = batch_of(corpus_of(table, bert_tokenizer, tmp_path), [0, 1], "cross").inputs
    assert inputs.input_ids.tolist() == [[2, 3, 3, 0], [2, 5, 3, 3]]
    assert inputs.token_type_ids.tolist() == [[0, 0, 1, 0], [0, 0, 0, 1]]


def test_lengths_are_the_width_of_a_batch(
    pair_table: Table, bert_tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    corpus = corpus_of(pair_table, bert_tokenizer, tmp_path)
    for encoding in get_args(Encoding):
        lengths = only_table(corpus).lengths(encoding, 16)
        for rows in random_batches(5, corpus):
            widths = [inputs.input_ids.shape[1] for inputs in batch_of(corpus, rows, encoding, 16).inputs]
            assert max(widths) == lengths[rows].max()


def test_tensors_are_moved_to_the_device(
    single_table: Table, bert_tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    corpus = corpus_of(single_table, bert_tokenizer, tmp_path)
    batch = moved(batch_of(corpus, [0], "single", 8), torch.device("meta"))
    assert {batch.labels.device.type, batch.inputs[0].input_ids.device.type} == {"meta"}


@pytest.mark.parametrize("places", [[2], [0, 3], [3, 1, 0, 2]])
@pytest.mark.parametrize("encoding", ["cross", "bi"])
def test_some_rows_are_those_of_the_shard_with_its_padding(
    encoding: Encoding, places: list[int], pair_table: Table, bert_tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    whole = batch_of(corpus_of(pair_table, bert_tokenizer, tmp_path), list(range(7)), encoding, rank=0, world_size=2)
    part = some_rows(whole, np.array(places))
    assert (part.task, part.num_rows, part.is_empty) == (whole.task, 7, False)
    assert part.positions.tolist() == [2 * place for place in places]
    assert part.rows.tolist() == whole.rows[places].tolist()
    assert torch.equal(part.labels, whole.labels[places])
    for own, given in zip(part.inputs, whole.inputs, strict=True):
        for field in fields(Inputs):
            assert torch.equal(getattr(own, field.name), getattr(given, field.name)[places])


def test_an_empty_batch_is_an_assertion_error(
    single_table: Table, bert_tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    with pytest.raises(AssertionError, match="at least one row"):
        batch_of(corpus_of(single_table, bert_tokenizer, tmp_path), [], "single")


def test_all_tensors_of_a_batch_move(
    pair_table: Table, bert_tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    batch = batch_of(corpus_of(pair_table, bert_tokenizer, tmp_path), [0, 1, 2], "bi")
    there = moved(batch, torch.device("meta"))
    tensors = [there.labels, *(getattr(one, field.name) for one in there.inputs for field in fields(Inputs))]
    assert len(tensors) == 7
    assert all(tensor.is_meta for tensor in tensors)
    assert (there.task, there.num_rows, there.rows is batch.rows) == (pair_table.task, 3, True)
