"""The train rows that are longer than `encoder.max_length` and lose their end, before all rows are tokenised."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mtlib.config.network import Encoding
from mtlib.config.trial import TrialConfig
from mtlib.data.tables import Table, prefixed_table
from mtlib.data.token_cache import SIDES
from mtlib.data.tokenizer_facts import find_special_tokens, word_pieces_of_texts

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

MAX_TOKENISED = 256
"""Rows of a task that are tokenised, spread evenly over the lengths of the texts that may be too long."""
CHARACTERS_OF_A_TOKEN = 12
"""Rows with more characters for each token of `max_length` are cut, without a look at their tokens; English has 4 to 5.
"""


@dataclass(frozen=True, kw_only=True)
class CutRows:
    """Train rows of a task that trials of one kind cut."""

    task: str
    encoder: str
    """Its name in the configuration."""
    encoding: Encoding
    max_length: int
    share: float
    """Of the task's train rows; estimated where more than `MAX_TOKENISED` rows may be too long."""
    prefix: str = ""
    """What the trials put before each text."""

    def is_of(self, config: TrialConfig) -> bool:
        """Returns whether trials of a configuration cut these rows."""
        if self.task not in config.active_tasks:
            return False
        encoder, settings = config.encoder, config.tasks[self.task]
        own = (encoder.name, encoder.max_length, settings.encoding, settings.prefix)
        return own == (self.encoder, self.max_length, self.encoding, self.prefix)

    def sentence(self, title: str) -> str:
        """Returns what happens to the rows, without a full stop; `title` is the task's."""
        share = f"About {self.share:.1%}" if self.share >= 0.001 else "Less than 0.1%"
        rows = f"{share} of the train rows of {title}"
        return f"{rows} are longer than {self.max_length} tokens (encoder.max_length) and lose their end"


def find_cut_rows(
    configs: Iterable[TrialConfig], tables: Mapping[str, Table], tokenizers: Mapping[str, "PreTrainedTokenizerBase"]
) -> list[CutRows]:
    """Returns the rows that each kind of trial cuts, the largest share first; nothing of kinds that cut none.

    Args:
        configs: of all trials.
        tables: the train rows of the tasks to look at, by name.
        tokenizers: of the encoders to look at, by their names in the configurations.
    """
    kinds = dict.fromkeys(
        (task, config.encoder.name, config.tasks[task].encoding, config.encoder.max_length, config.tasks[task].prefix)
        for config in configs
        for task in config.active_tasks
        if task in tables and config.encoder.name in tokenizers
    )
    found = [
        CutRows(
            task=task,
            encoder=encoder,
            encoding=encoding,
            max_length=max_length,
            share=share_cut(prefixed_table(tables[task], prefix), tokenizers[encoder], encoding, max_length),
            prefix=prefix,
        )
        for task, encoder, encoding, max_length, prefix in kinds
    ]
    return sorted((rows for rows in found if rows.share > 0), key=lambda rows: -rows.share)


def most_cut(found: Iterable[CutRows]) -> list[CutRows]:
    """Returns for each task the first of its rows, which are most where they are in the order of `find_cut_rows`."""
    first: dict[str, CutRows] = {}
    for rows in found:
        first.setdefault(rows.task, rows)
    return list(first.values())


def share_cut(table: Table, tokenizer: "PreTrainedTokenizerBase", encoding: Encoding, max_length: int) -> float:
    """Returns the share of rows with an input of more than `max_length` tokens, special ones included."""
    special, num_texts = find_special_tokens(tokenizer), len(table.texts)
    texts = list(zip(*table.texts, strict=True))
    num_bytes = np.array([sum(len(text.encode()) for text in row) for row in texts])
    is_cut = np.array([sum(map(len, row)) for row in texts]) > CHARACTERS_OF_A_TOKEN * max_length
    # A token has a byte of the text or more, but for the special ones and one that some tokenizers begin a text with.
    unsure = np.flatnonzero(~is_cut & (num_bytes + num_texts + special.pair.num_special > max_length))
    if len(unsure) == 0:
        return float(is_cut.mean())
    by_length, num_sampled = unsure[np.argsort(num_bytes[unsure], kind="stable")], min(len(unsure), MAX_TOKENISED)
    rows = by_length[((np.arange(num_sampled) + 0.5) * len(unsure) / num_sampled).astype(int)]
    columns = ([texts[row][side] for row in rows] for side in range(num_texts))
    pieces = np.array([[*map(len, word_pieces_of_texts(tokenizer, column))] for column in columns])
    lengths = [
        pieces[list(sides)].sum(axis=0) + special.template(encoding, len(sides)).num_special
        for sides in SIDES[encoding]
    ]
    num_cut = is_cut.sum() + len(unsure) * np.mean(np.max(lengths, axis=0) > max_length)
    return float(num_cut / len(texts))
