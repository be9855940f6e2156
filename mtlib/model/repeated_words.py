"""Texts of one repeated word, of any lengths: rows with which any model can be tried."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from mtlib.config.trial import TrialConfig
from mtlib.data.batches import Batch, make_batch
from mtlib.data.token_cache import TokenTable
from mtlib.data.tokenizer_facts import find_special_tokens, word_pieces_of_texts
from mtlib.model.encoder import PretrainedEncoder
from mtlib.tasks import Task


def table_of_texts(task: Task, pretrained: PretrainedEncoder, lengths: Sequence[int]) -> TokenTable:
    """Texts of one repeated word, with labels 0 and 1 in turn:
    rows of the given numbers of word pieces, in each text column."""
    special = find_special_tokens(pretrained.tokenizer)  # refuses a tokenizer that finds no word piece
    word, num_texts = word_pieces_of_texts(pretrained.tokenizer, ["a"])[0][0], len(task.text_columns)
    labels = (np.arange(len(lengths)) % 2).astype(np.float32)
    has_several = task.kind_entry.has_several_labels
    return TokenTable(
        task=task.name,
        num_own_rows=len(lengths),
        id_column=pa.array([str(row) for row in range(len(lengths))]),
        labels=np.repeat(labels[:, None], task.num_classes, axis=1) if has_several else labels,
        pieces=(np.full(sum(lengths), word, dtype=np.int32),) * num_texts,
        offsets=(np.concatenate([[0], np.cumsum(lengths)]),) * num_texts,
        special=special,
        fingerprint="",
    )


def text_batch(table: TokenTable, config: TrialConfig, rows: Sequence[int], max_length: int) -> Batch:
    """Returns a batch of some rows in the configured encoding, of at most `max_length` tokens."""
    return make_batch(table, np.array(rows), encoding=config.tasks[table.task].encoding, max_length=max_length)
