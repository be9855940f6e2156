import copy
import itertools
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, models, processors
from transformers import ByT5Tokenizer, PreTrainedTokenizerFast, XLNetTokenizer

from mtlib.data.tokenizer_facts import (
    Template,
    find_special_tokens,
    is_read_last,
    tokenizer_fingerprint,
    truncate_longest_first,
)


def test_the_second_segment_of_a_bert_like_pair_begins_with_the_second_text(
    bert_tokenizer: PreTrainedTokenizerFast,
) -> None:
    special = find_special_tokens(bert_tokenizer)
    assert special.pair == Template(special=(((2, 0),), ((3, 0),), ((3, 1),)), text_segments=(0, 1))
    assert special.single == Template(special=(((2, 0),), ((3, 0),)), text_segments=(0,))
    assert (special.pair.num_special, special.single.num_special, special.pad) == (3, 2, (0, 0))


def test_a_roberta_like_pair_has_two_separators_and_one_segment(roberta_tokenizer: PreTrainedTokenizerFast) -> None:
    special = find_special_tokens(roberta_tokenizer)
    assert special.pair == Template(special=(((0, 0),), ((2, 0), (2, 0)), ((2, 0),)), text_segments=(0, 0))
    assert (special.pair.num_special, special.single.num_special, special.pad) == (4, 2, (1, 0))


def test_a_tokenizer_written_in_python_is_supported() -> None:
    special = find_special_tokens(ByT5Tokenizer())
    assert special.pair == Template(special=((), ((1, 0),), ((1, 0),)), text_segments=(0, 0))  # a </s> b </s>


def test_two_texts_as_one_have_the_special_tokens_and_segment_of_one(
    bert_tokenizer: PreTrainedTokenizerFast, roberta_tokenizer: PreTrainedTokenizerFast
) -> None:
    bert, roberta, byt5 = map(find_special_tokens, (bert_tokenizer, roberta_tokenizer, ByT5Tokenizer()))
    assert bert.pair_without_separator == Template(special=(((2, 0),), (), ((3, 0),)), text_segments=(0, 0))
    assert roberta.pair_without_separator == Template(special=(((0, 0),), (), ((2, 0),)), text_segments=(0, 0))
    assert byt5.pair_without_separator == Template(special=((), (), ((1, 0),)), text_segments=(0, 0))  # a b </s>


def test_a_tokenizer_without_padding_is_refused(roberta_tokenizer: PreTrainedTokenizerFast) -> None:
    bare = PreTrainedTokenizerFast(tokenizer_object=roberta_tokenizer.backend_tokenizer)
    with pytest.raises(ValueError, match=r"must have a padding token, got a .* without"):
        find_special_tokens(bare)


def test_a_tokenizer_without_word_pieces_is_refused() -> None:
    blind = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()), pad_token="<pad>")
    assert blind("a")["input_ids"] == []
    with pytest.raises(ValueError, match=r"must cut texts into word pieces, got a .* that finds none$"):
        find_special_tokens(blind)


def test_an_xlnet_pair_ends_with_its_class_token(xlnet_tokenizer: XLNetTokenizer) -> None:
    special = find_special_tokens(xlnet_tokenizer)
    assert special.single == Template(special=((), ((4, 0), (3, 2))), text_segments=(0,))
    assert special.pair == Template(special=((), ((4, 0),), ((4, 1), (3, 2))), text_segments=(0, 1))


def test_a_text_is_read_at_its_end_where_only_the_end_has_a_class_token(
    bert_tokenizer: PreTrainedTokenizerFast, roberta_tokenizer: PreTrainedTokenizerFast, xlnet_tokenizer: XLNetTokenizer
) -> None:
    assert is_read_last(xlnet_tokenizer)
    assert not any(map(is_read_last, (bert_tokenizer, roberta_tokenizer, ByT5Tokenizer())))
    around = Tokenizer.from_str(bert_tokenizer.backend_tokenizer.to_str())
    around.post_processor = processors.TemplateProcessing(single="[CLS] $A [CLS]", special_tokens=[("[CLS]", 2)])
    assert not is_read_last(PreTrainedTokenizerFast(tokenizer_object=around, cls_token="[CLS]", pad_token="[PAD]"))


def test_finding_the_read_position_does_not_change_padding_and_truncation(xlnet_tokenizer: XLNetTokenizer) -> None:
    tokenizer = copy.deepcopy(xlnet_tokenizer)
    tokenizer.backend_tokenizer.enable_padding(direction="right", pad_id=5, length=9)
    tokenizer.backend_tokenizer.enable_truncation(20)
    before = tokenizer.backend_tokenizer.to_str()
    assert is_read_last(tokenizer)
    assert tokenizer.backend_tokenizer.to_str() == before


def test_truncation_matches_the_tokenizer_for_all_short_pairs(bert_tokenizer: PreTrainedTokenizerFast) -> None:
    texts = ["cat " * count for count in range(10)]
    firsts, seconds = zip(*itertools.product(texts, texts), strict=True)
    for budget in range(1, 20):
        encoded = bert_tokenizer(
            list(firsts), list(seconds), truncation="longest_first", max_length=budget + 3, return_token_type_ids=True
        )
        second = [sum(segments) - 1 for segments in encoded["token_type_ids"]]
        first = [len(ids) - 3 - count for ids, count in zip(encoded["input_ids"], second, strict=True)]
        lengths = np.array(list(itertools.product(range(10), range(10)))).T
        assert truncate_longest_first(lengths, budget).tolist() == [first, second]


def test_truncation_of_one_text_keeps_the_maximum_length() -> None:
    assert truncate_longest_first(np.array([[0, 3, 4, 5]]), 4).tolist() == [[0, 3, 4, 4]]


def test_the_fingerprint_does_not_depend_on_earlier_calls(bert_tokenizer: PreTrainedTokenizerFast) -> None:
    before = tokenizer_fingerprint(bert_tokenizer)
    bert_tokenizer(["the cat", "sat"], truncation=True, max_length=3, padding=True)
    assert tokenizer_fingerprint(bert_tokenizer) == before


@pytest.mark.parametrize("kind", ["fast", "python"])
def test_the_fingerprint_does_not_depend_on_the_folder(
    kind: str, bert_tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    tokenizer = bert_tokenizer if kind == "fast" else ByT5Tokenizer()
    prints = {tokenizer_fingerprint(tokenizer)}
    for name in ("one", "two"):
        tokenizer.save_pretrained(tmp_path / name)
        prints.add(tokenizer_fingerprint(type(tokenizer).from_pretrained(tmp_path / name)))
    assert len(prints) == 1


def test_the_fingerprint_depends_on_vocabulary_case_and_padding(bert_tokenizer: PreTrainedTokenizerFast) -> None:
    state = bert_tokenizer.backend_tokenizer.to_str()
    changes = [
        (state, "[PAD]"),
        (state.replace('"film"', '"movie"'), "[PAD]"),
        (state.replace('"lowercase":true', '"lowercase":false'), "[PAD]"),
        (state, "[UNK]"),
    ]
    prints = {tokenizer_fingerprint(load(text, pad)) for text, pad in changes}
    assert len(prints) == len(changes)


def test_the_fingerprint_of_a_python_tokenizer_depends_on_its_settings() -> None:
    assert tokenizer_fingerprint(ByT5Tokenizer()) != tokenizer_fingerprint(ByT5Tokenizer(extra_ids=5))


def load(state: str, pad: str) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer.from_str(state)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=pad)
