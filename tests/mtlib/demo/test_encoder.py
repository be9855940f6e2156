"""The files of the tiny encoder, as `transformers` reads them."""

import string
from pathlib import Path

import pytest
from transformers import AutoModel, AutoTokenizer

from mtlib.demo.encoder import make_vocabulary, write_demo_encoder
from mtlib.model.encoder import load_encoder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("encoder") / "made"
    write_demo_encoder(folder, seed=0)
    return folder


def test_transformers_and_our_loader_read_the_same_encoder(folder: Path) -> None:
    model, info = AutoModel.from_pretrained(folder, output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert sum(weight.numel() for weight in model.parameters()) < 150_000
    encoder = load_encoder(str(folder))
    assert len(encoder.tokenizer) == encoder.config.vocab_size == model.config.vocab_size
    assert encoder.tokenizer.model_max_length == model.config.max_position_embeddings
    assert encoder.tokenizer.pad_token_id == model.config.pad_token_id


def test_pairs_are_joined_like_those_of_bert(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    encoded = tokenizer("Is it GOOD?", "not bad")
    pieces = ["[CLS]", "is", "i", "##t", "good", "?", "[SEP]", "not", "bad", "[SEP]"]
    assert tokenizer.convert_ids_to_tokens(encoded["input_ids"]) == pieces
    assert encoded["token_type_ids"] == [0] * 7 + [1] * 3


def test_any_ascii_text_has_word_pieces(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert "[UNK]" not in tokenizer.tokenize(f"Zyzzyva 4 u: {string.punctuation} unbelievably")
    assert tokenizer.get_vocab() == {piece: n for n, piece in enumerate(make_vocabulary())}
