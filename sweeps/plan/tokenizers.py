"""Decides whether `AutoTokenizer` reads the texts of a sweep, or the encoder's own `tokenizer.json`."""

import dataclasses
import heapq
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest

from mtlib.data.cut_rows import find_cut_rows, most_cut
from mtlib.data.tables import Table
from mtlib.data.tokenizer_facts import (
    TOKENIZER_FILE,
    SpecialTokens,
    Template,
    find_special_tokens,
    word_pieces_of_texts,
)
from mtlib.model.encoder import PretrainedEncoder, with_file_tokenizer
from mtlib.runtime.checksum import hash_of
from mtlib.runtime.errors import require
from results.records.trials import TokenizerRecord, read_sweep, sweep_tokenizer
from sweeps.options import SweepOptions
from sweeps.plan.inputs import SweepInputs

NUM_COMPARED = 2_000
"""Texts that both tokenizers read: enough to meet what one text of a thousand has."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SampledTokens:
    """Everything of a sample that reaches a trial, as one tokenizer reads it."""

    pieces: Sequence[Sequence[int]]
    """Ids of each text's word pieces, without special tokens."""
    templates: tuple[Template, ...]
    """The special tokens around a text, and around a pair where the data has pairs."""
    pad: tuple[int, int]
    """As in `SpecialTokens`."""


def fit_tokenizers(
    options: SweepOptions, inputs: SweepInputs, encoders: Mapping[str, PretrainedEncoder]
) -> tuple[SweepInputs, dict[str, PretrainedEncoder], list[str]]:
    """Returns the inputs with a record of each tokenizer, the encoders with their tokenizers, and lines to show.

    A new sweep reads texts as `tokenizer.json` says where `AutoTokenizer` reads them otherwise: the encoder was
    pretrained with the tokens of the file. A resumed sweep reads them as it began. Of a new sweep the inputs and the
    lines have the train rows that are too long for `encoder.max_length`.

    Raises:
        ValueError: one line: a resumed sweep would read other tokens than when it began, or the file cannot be used.
    """
    texts, has_pairs = sample_texts(inputs.tables.values())
    begun = read_sweep(options.folder) if options.resume else None
    fitted, records, lines = dict[str, PretrainedEncoder](), dict[str, TokenizerRecord](), list[str]()
    for name, encoder in encoders.items():
        recorded = None if begun is None else sweep_tokenizer(begun, name)
        if recorded is None:
            chosen, read, difference = choose_tokenizer(encoder, texts, has_pairs)
            lines.extend(difference)
        else:
            chosen = with_file_tokenizer(encoder) if recorded.source == TOKENIZER_FILE else encoder
            read = read_sample(chosen, texts, has_pairs)
        tokens = hash_of([json.dumps(dataclasses.astuple(read))])
        rule = f"the tokens of {name} must be what they were when the sweep began"
        why = f"others: its {TOKENIZER_FILE}, or the version of transformers or tokenizers, has changed"
        require(recorded is None or recorded.tokens in (None, tokens), rule, why)
        fitted[name], records[name] = chosen, TokenizerRecord(source=chosen.tokenizer_source, tokens=tokens)
    tokenizers = {name: encoder.tokenizer for name, encoder in fitted.items()}
    cut_rows = find_cut_rows(inputs.space.configs, inputs.rows("train"), tokenizers) if begun is None else []
    lines += [f"{rows.sentence(inputs.space.base.task(rows.task).title)}." for rows in most_cut(cut_rows)]
    return dataclasses.replace(inputs, tokenizers=records, cut_rows=cut_rows), fitted, lines


def choose_tokenizer(
    encoder: PretrainedEncoder, texts: Sequence[str], has_pairs: bool
) -> tuple[PretrainedEncoder, SampledTokens, list[str]]:
    """Returns an encoder with the tokenizer of a new sweep, what that makes of a sample, and a line if it is not what
    `AutoTokenizer` makes."""
    auto = read_sample(encoder, texts, has_pairs)
    if encoder.tokenizer_json is None:
        return encoder, auto, []
    by_file = with_file_tokenizer(encoder)
    file = read_sample(by_file, texts, has_pairs)
    if auto == file:  # `AutoTokenizer` stays, and with it all fingerprints of tokens that were trained on before
        return encoder, auto, []
    return by_file, file, [describe_difference(encoder, auto, file)]


def sample_texts(tables: Iterable[Table]) -> tuple[list[str], bool]:
    """Returns some distinct texts of tables, the same ones in whatever order the rows are, and whether the tables have
    pairs; where they have none, the special tokens of pairs do not matter."""
    columns = [table.texts for table in tables]
    texts = {text for pair in columns for column in pair for text in column}
    chosen = heapq.nsmallest(NUM_COMPARED, texts, key=lambda text: (zlib.crc32(text.encode()), text))
    return chosen, any(len(pair) == 2 for pair in columns)


def read_sample(encoder: PretrainedEncoder, texts: Sequence[str], has_pairs: bool) -> SampledTokens:
    """Returns what an encoder's tokenizer makes of a sample; ValueError as `find_special_tokens`."""
    special: SpecialTokens = find_special_tokens(encoder.tokenizer)
    return SampledTokens(
        pieces=word_pieces_of_texts(encoder.tokenizer, texts) if texts else [],
        templates=(special.single, special.pair) if has_pairs else (special.single,),
        pad=special.pad,
    )


def describe_difference(encoder: PretrainedEncoder, auto: SampledTokens, file: SampledTokens) -> str:
    """Returns a line that says which tokens are read, and how the two tokenizers differ."""
    found, pairs = list[str](), list(zip(auto.pieces, file.pieces, strict=True))
    different = [pair for pair in pairs if pair[0] != pair[1]]
    if different:
        first = next(pair for pair in zip_longest(*different[0]) if pair[0] != pair[1])
        names = ("nothing" if one is None else repr(encoder.tokenizer.convert_ids_to_tokens(one)) for one in first)
        found.append(f"{len(different):,} of {len(pairs):,} texts otherwise, e.g. {' for '.join(names)}")
    if auto.templates != file.templates:
        around = "texts" if auto.templates[0] != file.templates[0] else "pairs"
        found.append(f"other special tokens around {around}")
    if auto.pad != file.pad:
        found.append("another token for padding")
    return f"Tokens: as {TOKENIZER_FILE} of {encoder.name} says; AutoTokenizer reads {', and '.join(found)}"
