"""Special tokens, truncation and fingerprint of a tokenizer, and the tokenizer that a `tokenizer.json` describes."""

import hashlib
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mtlib.config.network import Encoding
from mtlib.runtime.checksum import hash_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

AUTO_TOKENIZER, TOKENIZER_FILE = "AutoTokenizer", "tokenizer.json"
"""What a tokenizer is made by: `AutoTokenizer` for the class of a model, or as this file of the encoder says."""
SAMPLE_TEXTS = 64
"""Texts by which it is seen whether a tokenizer does more than its backend."""
ORIGIN_KEYS = ("name_or_path", "is_local", "local_files_only")  # of a saved tokenizer: where it was loaded from


@dataclass(frozen=True, kw_only=True)
class Template:
    """The special tokens around one text or two, e.g. `[CLS] a [SEP] b [SEP]`."""

    special: tuple[tuple[tuple[int, int], ...], ...]
    """(token id, segment id) of each special token: before the first text, between texts, after the last."""
    text_segments: tuple[int, ...]
    """Segment id of each text's word pieces."""

    @property
    def num_special(self) -> int:
        return sum(len(part) for part in self.special)


@dataclass(frozen=True, kw_only=True)
class SpecialTokens:
    """The special tokens of a tokenizer."""

    single: Template
    pair: Template
    pad: tuple[int, int]
    """Token id and segment id of padding."""

    def template(self, encoding: Encoding, num_texts: int) -> Template:
        """Returns the special tokens around the one text or both texts of an input.

        With `cross_no_separator` two texts have those of one, and its segment: `[CLS] a b [SEP]`.
        """
        if num_texts == 1:
            return self.single
        if encoding != "cross_no_separator":
            return self.pair
        before, after = self.single.special
        return Template(special=(before, (), after), text_segments=self.single.text_segments * 2)


def find_special_tokens(tokenizer: "PreTrainedTokenizerBase") -> SpecialTokens:
    """Returns the special tokens of a tokenizer, found by encoding two short texts.

    Raises:
        ValueError: the tokenizer has no padding token, or finds nothing in a text.
    """
    kind = type(tokenizer).__name__
    if tokenizer.pad_token_id is None:
        raise ValueError(f"an encoder's tokenizer must have a padding token, got a {kind} without")
    if not all(word_pieces_of_texts(tokenizer, ["a", "b"])):
        raise ValueError(f"an encoder's tokenizer must cut texts into word pieces, got a {kind} that finds none")
    return SpecialTokens(
        single=find_template(tokenizer, "a"),
        pair=find_template(tokenizer, "a", "b"),
        pad=(tokenizer.pad_token_id, tokenizer.pad_token_type_id),
    )


def word_pieces_of_texts(tokenizer: "PreTrainedTokenizerBase", texts: Sequence[str]) -> list[list[int]]:
    """Ids of the word pieces of each of at least one text, without special tokens.

    The library makes a dictionary of lists for every text, which takes longer than to find the word pieces. So its
    backend is asked itself, unless the tokenizer's class does more than that with the first texts.
    """
    first = called_tokenizer(tokenizer, texts[:SAMPLE_TEXTS])  # which also ends the backend's truncation and padding
    if len(texts) > SAMPLE_TEXTS and tokenizer.is_fast:
        found = tokenizer.backend_tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        pieces = [encoding.ids for encoding in found]
        if pieces[:SAMPLE_TEXTS] == first:
            return pieces
    return first + (called_tokenizer(tokenizer, texts[SAMPLE_TEXTS:]) if len(texts) > SAMPLE_TEXTS else [])


def called_tokenizer(tokenizer: "PreTrainedTokenizerBase", texts: Sequence[str]) -> list[list[int]]:
    """As `word_pieces_of_texts`, by the tokenizer itself."""
    return list(tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"])


def tokenizer_of_file(content: str, like: "PreTrainedTokenizerBase") -> "PreTrainedTokenizerFast":
    """Returns the tokenizer that the content of a `tokenizer.json` describes.

    `AutoTokenizer` takes only vocabulary and merges from that file where `tokenizer_config.json` names the class of a
    model, and builds normalizer, pre-tokenizer and template anew (transformers 5.23).

    Args:
        like: what `AutoTokenizer` makes of the same folder: names of special tokens, the longest text, the side of
            padding and the inputs of the model are its own. Truncation and padding of the file are dropped.
    """
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    described = Tokenizer.from_str(content)
    described.no_truncation()
    described.no_padding()
    return PreTrainedTokenizerFast(
        tokenizer_object=described,
        model_max_length=like.model_max_length,
        padding_side=like.padding_side,
        pad_token_type_id=like.pad_token_type_id,
        model_input_names=like.model_input_names,
        **like.special_tokens_map,
    )


def is_read_last(tokenizer: "PreTrainedTokenizerBase") -> bool:
    """Returns whether a tokenizer puts [CLS] at the end of a text (XLNet) instead of its start.

    The backend is used because calling the tokenizer would change its truncation settings, which are saved with it.
    """
    ids = tokenizer.backend_tokenizer.encode("a").ids if tokenizer.is_fast else tokenizer("a")["input_ids"]
    text = [token for token in ids if token != tokenizer.pad_token_id]
    return tokenizer.cls_token_id in text[-1:] and tokenizer.cls_token_id not in text[:-1]


def tokenizer_fingerprint(tokenizer: "PreTrainedTokenizerBase") -> str:
    """SHA-256, in hexadecimal, of everything that determines a tokenizer's output, but not of its origin."""
    special = repr(find_special_tokens(tokenizer))
    if not tokenizer.is_fast:
        return hash_of([special, *saved_files(tokenizer)])
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    state["truncation"] = state["padding"] = None  # set by the last call
    return hash_of([special, json.dumps(state)])


def truncate_longest_first(lengths: np.ndarray, budget: int) -> np.ndarray:
    """Lengths after truncation of the longer text first, then of both equally.

    Args:
        lengths: (1, rows) or (2, rows), word pieces of each text.
        budget: maximum number of word pieces of a row, at least 0.

    Returns:
        As `lengths`. If both are cut and the budget is odd, the longer text keeps one more (the second if they are
        equal).

    Source: `LongestFirst` of the `tokenizers` library. Tokenizers in Python give the odd one to the first text.
    """
    if len(lengths) == 1:
        return np.minimum(lengths, budget)  # type: ignore[no-any-return]
    shorter = np.minimum(lengths.min(axis=0), budget // 2)
    longer = np.minimum(lengths.max(axis=0), budget - shorter)
    is_first_longer = lengths[0] > lengths[1]
    return np.where(is_first_longer, [longer, shorter], [shorter, longer])


def find_template(tokenizer: "PreTrainedTokenizerBase", *texts: str) -> Template:
    """Returns the special tokens before, between and after the word pieces of `texts`.

    Segment ids are requested explicitly: ALBERT's tokenizer and the generic one of transformers 5 omit them otherwise.
    """
    encoded = tokenizer(*texts, return_special_tokens_mask=True, return_token_type_ids=True)
    tokens = list(zip(encoded["input_ids"], encoded["token_type_ids"], strict=True))
    special: list[list[tuple[int, int]]] = [[]]
    text_segments, position = [], 0
    for text in texts:
        while encoded["special_tokens_mask"][position]:
            special[-1].append(tokens[position])
            position += 1
        text_segments.append(tokens[position][1])
        position += len(word_pieces_of_texts(tokenizer, [text])[0])
        special.append([])
    special[-1] = tokens[position:]
    return Template(special=tuple(tuple(part) for part in special), text_segments=tuple(text_segments))


def saved_files(tokenizer: "PreTrainedTokenizerBase") -> list[str]:
    """Names and hashes of the files that a tokenizer saves, without unset keys and keys about its origin."""
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        files = {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}
    settings = json.loads(files.pop("tokenizer_config.json"))
    kept = {key: value for key, value in settings.items() if key not in ORIGIN_KEYS and value is not None}
    hashes = [f"{name} {hashlib.sha256(data).hexdigest()}" for name, data in files.items()]
    return [json.dumps(kept, sort_keys=True), *hashes]
