"""Special tokens, truncation and fingerprints of fast tokenizers and of those in Python."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer
from transformers import ByT5Tokenizer, PreTrainedTokenizerFast, XLNetTokenizer

from mtlib.data.tokenizer_facts import (
    Template,
    find_special_tokens,
    is_read_last,
    tokenizer_fingerprint,
    truncate_longest_first,
)


def test_special_tokens_stand_where_the_tokenizer_puts_them(
    bert_tokenizer: PreTrainedTokenizerFast, roberta_tokenizer: PreTrainedTokenizerFast, xlnet_tokenizer: XLNetTokenizer
) -> None:
    """`[CLS] a [SEP] b [SEP]`, `<s> a </s></s> b </s>`, `a <sep> b <sep> <cls>` and `a </s> b </s>`."""
    tokenizers = bert_tokenizer, roberta_tokenizer, xlnet_tokenizer, ByT5Tokenizer()
    bert, roberta, xlnet, byt5 = map(find_special_tokens, tokenizers)
    assert bert.single == Template(special=(((2, 0),), ((3, 0),)), text_segments=(0,))
    assert bert.pair == Template(special=(((2, 0),), ((3, 0),), ((3, 1),)), text_segments=(0, 1))
    assert bert.template("cross_no_separator", 2) == Template(special=(((2, 0),), (), ((3, 0),)), text_segments=(0, 0))
    assert roberta.pair == Template(special=(((0, 0),), ((2, 0), (2, 0)), ((2, 0),)), text_segments=(0, 0))
    assert xlnet.pair == Template(special=((), ((4, 0),), ((4, 1), (3, 2))), text_segments=(0, 1))
    assert byt5.pair == Template(special=((), ((1, 0),), ((1, 0),)), text_segments=(0, 0))
    assert (bert.pair.num_special, roberta.pair.num_special, bert.pad, roberta.pad) == (3, 4, (0, 0), (1, 0))
    assert list(map(is_read_last, tokenizers)) == [False, False, True, False]


def test_a_tokenizer_without_padding_is_refused(roberta_tokenizer: PreTrainedTokenizerFast) -> None:
    bare = PreTrainedTokenizerFast(tokenizer_object=roberta_tokenizer.backend_tokenizer)
    with pytest.raises(ValueError, match="must have a padding token"):
        find_special_tokens(bare)


def test_truncation_matches_the_tokenizer_for_all_short_pairs(bert_tokenizer: PreTrainedTokenizerFast) -> None:
    texts = ["cat " * count for count in range(10)]
    firsts, seconds = zip(*itertools.product(texts, texts), strict=True)
    for budget in (1, 7, 8, 19):
        encoded = bert_tokenizer(
            list(firsts), list(seconds), truncation="longest_first", max_length=budget + 3, return_token_type_ids=True
        )
        second = [sum(segments) - 1 for segments in encoded["token_type_ids"]]
        first = [len(ids) - 3 - count for ids, count in zip(encoded["input_ids"], second, strict=True)]
        lengths = np.array(list(itertools.product(range(10), range(10)))).T
        assert truncate_longest_first(lengths, budget).tolist() == [first, second]
    assert truncate_longest_first(np.array([[0, 3, 4, 5]]), 4).tolist() == [[0, 3, 4, 4]]


@pytest.mark.parametrize("kind", ["fast", "python"])
def test_the_fingerprint_depends_neither_on_the_folder_nor_on_earlier_calls(
    kind: str, bert_tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    tokenizer = bert_tokenizer if kind == "fast" else ByT5Tokenizer()
    prints = {tokenizer_fingerprint(tokenizer)}
    tokenizer(["the cat", "sat"], truncation=True, max_length=3, padding=True)
    for name in ("one", "two"):
        tokenizer.save_pretrained(tmp_path / name)
        prints |= {tokenizer_fingerprint(one) for one in (tokenizer, type(tokenizer).from_pretrained(tmp_path / name))}
    assert len(prints) == 1


def test_the_fingerprint_depends_on_vocabulary_case_padding_and_settings(
    bert_tokenizer: PreTrainedTokenizerFast,
) -> None:
    state = bert_tokenizer.backend_tokenizer.to_str()
    others = state.replace('"film"', '"movie"'), state.replace('"lowercase":true', '"lowercase":false')
    prints = {
        tokenizer_fingerprint(PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(text), pad_token=pad))
        for text, pad in ((state, "[PAD]"), (state, "[UNK]"), *((other, "[PAD]") for other in others))
    }
    prints |= {tokenizer_fingerprint(ByT5Tokenizer()), tokenizer_fingerprint(ByT5Tokenizer(extra_ids=5))}
    assert len(prints) == 6
