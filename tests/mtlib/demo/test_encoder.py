"""The files of the tiny encoder, as `transformers` reads them."""

import string
from pathlib import Path

import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from mtlib.demo.encoder import make_vocabulary, write_demo_encoder
from mtlib.model.encoder import load_encoder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("encoder") / "made"
    write_demo_encoder(folder, seed=0)
    return folder


def test_transformers_loads_every_weight(folder: Path) -> None:
    model, info = AutoModel.from_pretrained(folder, output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert sum(weight.numel() for weight in model.parameters()) < 150_000


def test_our_loader_gives_a_tokenizer_and_finite_outputs(folder: Path) -> None:
    encoder = load_encoder(str(folder))
    model = AutoModel.from_pretrained(folder).eval()
    inputs = encoder.tokenizer("Why do teachers help students?", "Why are pupils helped?", return_tensors="pt")
    assert torch.isfinite(model(**inputs).last_hidden_state).all()
    assert len(encoder.tokenizer) == encoder.config.vocab_size == len(make_vocabulary())


def test_pairs_are_joined_like_those_of_bert(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    encoded = tokenizer("Is it GOOD?", "not bad")
    assert tokenizer.convert_ids_to_tokens(encoded["input_ids"]) == [
        *("[CLS]", "is", "i", "##t", "good", "?", "[SEP]"),
        *("not", "bad", "[SEP]"),
    ]
    assert encoded["token_type_ids"] == [0] * 7 + [1] * 3


def test_padding_does_not_change_the_first_state(folder: Path) -> None:
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    alone = model(**tokenizer(["the plot is dull"], return_tensors="pt")).last_hidden_state[0, 0]
    texts = ["the plot is dull", "the plot is dull and the cast is very good"]
    padded = model(**tokenizer(texts, padding=True, return_tensors="pt")).last_hidden_state[0, 0]
    assert torch.allclose(alone, padded, atol=1e-5)


def test_any_ascii_text_has_word_pieces(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert "[UNK]" not in tokenizer.tokenize(f"Zyzzyva 4 u: {string.punctuation} unbelievably")
    assert tokenizer.tokenize("naïve") == ["n", "##a", "##i", "##v", "##e"]


def test_the_vocabulary_is_unique_and_that_of_the_tokenizer(folder: Path) -> None:
    vocabulary = make_vocabulary()
    assert len(set(vocabulary)) == len(vocabulary)
    assert (folder / "vocab.txt").read_text().split("\n")[:-1] == vocabulary
    assert AutoTokenizer.from_pretrained(folder).get_vocab() == {piece: n for n, piece in enumerate(vocabulary)}
