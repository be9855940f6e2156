"""Word pieces of tables: tokenised once into an Arrow file, which is mapped into memory.

The cache holds word pieces without special tokens, independent of the maximum length and of the encoding.
"""

import hashlib
import importlib.metadata
import itertools
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

from mtlib.config.network import Encoding
from mtlib.data.tables import Table, content_fingerprint
from mtlib.data.tokenizer_facts import (
    SpecialTokens,
    find_special_tokens,
    tokenizer_fingerprint,
    truncate_longest_first,
    word_pieces_of_texts,
)
from mtlib.runtime.checksum import hash_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Key = TypeVar("Key")

CACHE_VERSION = 1  # of the file's layout; caches of another version are ignored
TOKENIZER_CHUNK_ROWS = 10_000  # texts per call of the tokenizer
TOKENS_NAME, CHECKSUM_NAME = "tokens.arrow", "tokens.sha256"
SIDES: dict[str, tuple[tuple[int, ...], ...]] = {
    "single": ((0,),),
    "cross": ((0, 1),),
    "cross_no_separator": ((0, 1),),
    "bi": ((0,), (1,)),
    "cross_and_bi": ((0, 1), (0,), (1,)),
}
"""By encoding, the texts of each input of a row."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TokenTable:
    """The word pieces of one table, as read-only views of memory that processes share."""

    task: str
    """The task whose head it trains."""
    num_own_rows: int
    """Number of the set's own rows, which come first; the others are augmentation."""
    id_column: pa.Array
    labels: np.ndarray
    """(rows,) float32, NaN for a missing label; of several labels (rows, num_classes), 0 or 1."""
    teacher: np.ndarray | None = None
    """As in `mtlib.data.tables.Table`."""
    pieces: tuple[np.ndarray, ...]
    """Per text column the word pieces of all rows, concatenated: (pieces,) int32."""
    offsets: tuple[np.ndarray, ...]
    """Per text column: row r has pieces offsets[r] up to offsets[r + 1]: (rows + 1,) int64."""
    special: SpecialTokens
    fingerprint: str
    """SHA-256 of content, tokenizer and version of `tokenizers`."""

    @property
    def num_rows(self) -> int:
        return len(self.labels)

    @property
    def num_bytes(self) -> int:
        teacher = () if self.teacher is None else (self.teacher,)
        arrays = (self.id_column, self.labels, *teacher, *self.pieces, *self.offsets)
        return sum(int(array.nbytes) for array in arrays)

    @cached_property
    def ids(self) -> list[str]:
        """Converted on first use."""
        ids: list[str] = self.id_column.to_pylist()
        return ids

    def lengths(self, encoding: Encoding, max_length: int) -> np.ndarray:
        """(rows,) tokens of each row's input, special tokens included, cut to `max_length`; the longest of several."""
        longest: np.ndarray = self.input_lengths(np.arange(self.num_rows), encoding, max_length).max(axis=0)
        return longest

    def input_lengths(self, rows: np.ndarray, encoding: Encoding, max_length: int) -> np.ndarray:
        """(inputs, rows) tokens of each input, special tokens included, cut to `max_length`; padding does not count."""
        lengths = []
        for sides in SIDES[encoding]:
            num_special = self.special.template(encoding, len(sides)).num_special
            lengths.append(self.kept_pieces(rows, sides, max_length - num_special).sum(axis=0) + num_special)
        return np.stack(lengths)

    def kept_pieces(self, rows: np.ndarray, sides: tuple[int, ...], budget: int) -> np.ndarray:
        """Number of word pieces of each text after truncation to `budget` per input: (sides, rows) int64."""
        lengths = np.stack([self.offsets[side][rows + 1] - self.offsets[side][rows] for side in sides])
        return truncate_longest_first(lengths, budget)


Corpus = Mapping[tuple[str, str], TokenTable]
"""All tables of a trial by (set, split), tokenised by one tokenizer."""


def tokenize(
    tables: Mapping[Key, Table], tokenizer: "PreTrainedTokenizerBase", cache_folder: Path
) -> dict[Key, TokenTable]:
    """Word pieces of all tables, from the cache if it has them.

    Each table has a folder under `cache_folder`, named by a hash of its content and the tokenizer, and written under a
    temporary name. A damaged one is rebuilt. If several processes build the same one, the first to finish wins.
    `cache_folder` is created if missing.

    Raises:
        ValueError: the tokenizer has no padding token.
    """
    special = find_special_tokens(tokenizer)
    fingerprint, library = tokenizer_fingerprint(tokenizer), importlib.metadata.version("tokenizers")
    cache_folder.mkdir(parents=True, exist_ok=True)
    corpus = {}
    for key, table in tables.items():
        content = content_fingerprint({(table.task, table.split): table})
        path = cache_folder / hash_of([str(CACHE_VERSION), library, fingerprint, content])
        tokens = open_cache(path)
        if tokens is None:
            tokens = build_cache(table, tokenizer, path)
        corpus[key] = view_tokens(table, tokens, special, path.name)
    return corpus


def view_tokens(table: Table, tokens: pa.Table, special: SpecialTokens, fingerprint: str) -> TokenTable:
    """Zero-copy views of a mapped file, which has one chunk per column."""
    texts = [tokens.column(f"pieces_{side}").chunk(0) for side in range(len(table.texts))]
    return TokenTable(
        task=table.task,
        num_own_rows=table.num_own_rows,
        id_column=tokens.column("id").chunk(0),
        labels=array_of(tokens.column("label").chunk(0)),
        teacher=None if table.teacher is None else array_of(tokens.column("teacher").chunk(0)),
        pieces=tuple(text.values.to_numpy() for text in texts),
        offsets=tuple(text.offsets.to_numpy() for text in texts),
        special=special,
        fingerprint=fingerprint,
    )


def build_cache(table: Table, tokenizer: "PreTrainedTokenizerBase", path: Path) -> pa.Table:
    """Tokenises a table into the folder `path`, unless another process was first; returns it mapped."""
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".building-", ignore_cleanup_errors=True) as temporary:
        built = Path(temporary) / "built"
        built.mkdir()
        write_cache(table, tokenizer, built)
        own = open_cache(built)
        publish_cache(built, path, aside=Path(temporary) / "damaged")
        shared = open_cache(path)
    assert own is not None, "a file just written has its checksum"
    return own if shared is None else shared  # a mapped file outlives its name


def write_cache(table: Table, tokenizer: "PreTrainedTokenizerBase", folder: Path) -> None:
    """Writes the Arrow file and, after it, its checksum."""
    columns: dict[str, Any] = {"id": pa.array(table.ids, pa.string()), "label": column_of(table.labels)}
    if table.teacher is not None:
        columns["teacher"] = column_of(table.teacher)
    for side, texts in enumerate(table.texts):
        columns[f"pieces_{side}"] = tokenize_texts(tokenizer, texts)
    batch = pa.record_batch(columns)
    with pa.ipc.new_file(str(folder / TOKENS_NAME), batch.schema) as writer:
        writer.write_batch(batch)
    (folder / CHECKSUM_NAME).write_text(file_sha256(folder / TOKENS_NAME))


def column_of(labels: np.ndarray) -> pa.Array:
    """Labels as an Arrow array: a number for each row, or a list of as many as there are columns."""
    values = pa.array(labels.reshape(-1), pa.float32())
    return values if labels.ndim == 1 else pa.FixedSizeListArray.from_arrays(values, labels.shape[1])


def array_of(column: pa.Array) -> np.ndarray:
    """Returns the inverse of `column_of`, without a copy."""
    if not pa.types.is_fixed_size_list(column.type):
        return np.asarray(column.to_numpy())
    return np.asarray(column.flatten().to_numpy()).reshape(-1, column.type.list_size)


def tokenize_texts(tokenizer: "PreTrainedTokenizerBase", texts: list[str]) -> pa.LargeListArray:
    """Word pieces of each text without special tokens, as a list of int32 per row."""
    pieces, lengths = [], [0]
    for start in range(0, len(texts), TOKENIZER_CHUNK_ROWS):
        chunk = texts[start : start + TOKENIZER_CHUNK_ROWS]
        found = word_pieces_of_texts(tokenizer, chunk)
        pieces.append(np.fromiter(itertools.chain.from_iterable(found), dtype=np.int32))
        lengths.extend(map(len, found))
    return pa.LargeListArray.from_arrays(np.cumsum(lengths, dtype=np.int64), np.concatenate(pieces))


def publish_cache(built: Path, path: Path, aside: Path) -> None:
    """Renames `built` to `path`, unless there is an undamaged cache; a damaged one is moved to `aside`."""
    with suppress(OSError):  # there is a folder: that of a faster process, or a damaged one
        built.rename(path)
        return
    if open_cache(path) is None:
        with suppress(OSError):  # another process is repairing it too; either result is right
            path.rename(aside)
            built.rename(path)


def open_cache(folder: Path) -> pa.Table | None:
    """Returns the table in a cache folder, mapped into memory; None if it is missing or its checksum is wrong."""
    try:
        if (folder / CHECKSUM_NAME).read_bytes() != file_sha256(folder / TOKENS_NAME).encode():
            return None
        return pa.ipc.open_file(pa.memory_map(str(folder / TOKENS_NAME))).read_all()
    except OSError:
        return None


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
