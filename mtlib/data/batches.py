"""Batches from word pieces: special tokens, truncation, padding, and the shard of a batch for one worker."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np
import torch

from mtlib.config.network import Encoding
from mtlib.data.token_cache import SIDES, TokenTable
from mtlib.data.tokenizer_facts import Template


@dataclass(frozen=True, kw_only=True, eq=False)
class Inputs:
    """The inputs of an encoder, each (rows, tokens) int64."""

    input_ids: torch.Tensor
    attention_mask: torch.Tensor
    """1 for tokens, 0 for padding."""
    token_type_ids: torch.Tensor
    """Segment ids as the tokenizer gives them; not for encoders with a single segment."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Batch:
    """One worker's shard of a global batch of one task."""

    task: str
    inputs: tuple[Inputs, ...]
    """One for `single`, `cross` and `cross_no_separator`; two, first and second text, for `bi`; all three for
    `cross_and_bi`, the pair first."""
    labels: torch.Tensor
    """(rows,) float32; NaN for a missing label."""
    teacher: torch.Tensor | None = None
    """(rows, num_logits) float32, a teacher's logits, NaN for a row without; None where no row of the table has any."""
    rows: np.ndarray
    """Row numbers of this shard in the table."""
    num_rows: int
    """Rows of the global batch."""
    positions: np.ndarray
    """Position of each row of this shard in the global batch, from 0."""
    is_empty: bool
    """Whether there are fewer rows than workers and this shard has none. It then holds row 0 of the global batch, which
    must get weight 0."""


def make_batch(
    table: TokenTable,
    rows: np.ndarray,
    *,
    encoding: Encoding,
    max_length: int,
    rank: int = 0,
    world_size: int = 1,
) -> Batch:
    """Builds one worker's shard of a global batch, on the CPU: every world_size-th row from `rank` on.

    Inputs are padded on the right to the longest of the global batch (each of several inputs to its own longest), so
    that neither positions nor shapes depend on the number of workers.

    Args:
        rows: (global rows,) row numbers in `table`, at least one.
        encoding: `single` for one text; for pairs `cross` (both in one input), `cross_no_separator` (both in one input,
            as one text), `bi` (two inputs) or `cross_and_bi` (three).
        max_length: longest input in word pieces, special tokens included; the longer text of a pair is cut first.
        rank: this worker, from 0.
        world_size: number of workers, at least 1.
    """
    assert len(rows) > 0, "a batch has at least one row"
    positions = np.arange(len(rows))[rank::world_size]
    is_empty = len(positions) == 0
    if is_empty:
        positions = np.zeros(1, dtype=np.int64)
    return Batch(
        task=table.task,
        inputs=tuple(make_inputs(table, rows, positions, sides, encoding, max_length) for sides in SIDES[encoding]),
        labels=torch.from_numpy(table.labels[rows[positions]]),
        teacher=None if table.teacher is None else torch.from_numpy(table.teacher[rows[positions]]),
        rows=rows[positions],
        num_rows=len(rows),
        positions=positions,
        is_empty=is_empty,
    )


def ready_for(batch: Batch, device: torch.device) -> Batch:
    """Returns the batch on the CPU, for a GPU in memory from which it copies while the CPU goes on."""
    return with_tensors(batch, torch.Tensor.pin_memory) if device.type == "cuda" else batch


def moved(batch: Batch, device: torch.device) -> Batch:
    """Returns the batch on a device; from pinned memory without waiting for the copy."""
    return with_tensors(batch, lambda tensor: tensor.to(device, non_blocking=True))


def with_tensors(batch: Batch, change: Callable[[torch.Tensor], torch.Tensor]) -> Batch:
    """Returns the batch with all its tensors changed."""
    names = [field.name for field in fields(Inputs)]
    inputs = tuple(replace(one, **{name: change(getattr(one, name)) for name in names}) for one in batch.inputs)
    teacher = None if batch.teacher is None else change(batch.teacher)
    return replace(batch, inputs=inputs, labels=change(batch.labels), teacher=teacher)


def some_rows(batch: Batch, places: np.ndarray) -> Batch:
    """Returns the rows of a shard at these places of it, from 0, at least one; their padding stays."""
    index = index_on(batch.labels.device, places)
    part = with_tensors(batch, lambda tensor: tensor[index])
    return replace(part, rows=batch.rows[places], positions=batch.positions[places])


def index_on(device: torch.device, places: np.ndarray) -> torch.Tensor:
    """Numbers of rows on a device, without waiting for what a GPU computes."""
    return torch.from_numpy(places).to(device, non_blocking=True)


def make_inputs(
    table: TokenTable,
    rows: np.ndarray,
    positions: np.ndarray,
    sides: tuple[int, ...],
    encoding: Encoding,
    max_length: int,
) -> Inputs:
    """Returns the inputs of the rows at `positions` with the texts `sides`, padded to the longest of all `rows`."""
    template = table.special.template(encoding, len(sides))
    kept = table.kept_pieces(rows, sides, max_length - template.num_special)  # (sides, global rows)
    width = int(kept.sum(axis=0).max()) + template.num_special
    own = rows[positions]
    texts = [(table.pieces[side], table.offsets[side][own]) for side in sides]
    arrays = fill_template(template, texts, kept[:, positions], width, table.special.pad)
    ids, mask, segments = map(torch.from_numpy, arrays)
    return Inputs(input_ids=ids, attention_mask=mask, token_type_ids=segments)


def fill_template(
    template: Template,
    texts: list[tuple[np.ndarray, np.ndarray]],
    kept: np.ndarray,
    width: int,
    pad: tuple[int, int],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Arranges word pieces and special tokens.

    Args:
        template: the special tokens around as many texts as there are.
        texts: per text all word pieces of its column, and the offset of each row's first: (rows,).
        kept: (texts, rows), number of word pieces of each text that are kept.
        width: tokens per row.
        pad: token id and segment id of padding.

    Returns:
        Token ids, attention mask and segment ids, each (rows, width) int64.
    """
    num_rows = kept.shape[1]
    ids = np.full((num_rows, width), pad[0], dtype=np.int64)
    segments = np.full((num_rows, width), pad[1], dtype=np.int64)
    column, every_row = np.arange(width), np.arange(num_rows)
    end = np.zeros(num_rows, dtype=np.int64)  # of each row so far
    for number, special in enumerate(template.special):
        for token, segment in special:
            ids[every_row, end], segments[every_row, end] = token, segment
            end += 1
        if number < len(texts):
            (pieces, starts), start = texts[number], end
            end = start + kept[number]
            is_text = (column >= start[:, None]) & (column < end[:, None])  # (rows, width)
            source = (starts - start)[:, None] + column
            ids[is_text] = pieces[source[is_text]]
            segments[is_text] = template.text_segments[number]
    return ids, (column < end[:, None]).astype(np.int64), segments
