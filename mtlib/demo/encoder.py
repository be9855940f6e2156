"""The demonstration encoder's files: configuration, weights, a WordPiece tokenizer with its own vocabulary."""

import json
import string
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from mtlib.demo.encoder_weights import (
    HIDDEN_SIZE,
    INTERMEDIATE_SIZE,
    MAX_POSITIONS,
    NUM_HEADS,
    NUM_LAYERS,
    SPECIAL_TOKENS,
    make_weights,
)
from mtlib.demo.texts import known_words


def write_demo_encoder(folder: Path, seed: int = 0) -> None:
    """Writes a tiny BERT that `AutoModel` and `AutoTokenizer` load, into a folder that is created if missing.

    The same seed, at least 0, gives the same bytes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = make_vocabulary()
    write_config(folder / "config.json", model_config(len(vocabulary)))
    save_file(make_weights(vocabulary, seed), folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    make_tokenizer(vocabulary).save(str(folder / "tokenizer.json"))
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL_TOKENS, strict=True))
    facts = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": MAX_POSITIONS, **names}
    write_config(folder / "tokenizer_config.json", facts)


def write_config(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def make_vocabulary() -> list[str]:
    """Word pieces: every word of the corpus, and single characters, into which any other ASCII word splits."""
    whole = known_words()
    characters = string.ascii_lowercase + string.digits
    single = [sign for sign in characters + string.punctuation if sign not in whole]
    return [*SPECIAL_TOKENS, *whole, *single, *(f"##{character}" for character in characters)]


def make_tokenizer(vocabulary: list[str]) -> Tokenizer:
    """BERT's lower-casing WordPiece tokenizer over this vocabulary."""
    numbers = {piece: number for number, piece in enumerate(vocabulary)}
    tokenizer = Tokenizer(models.WordPiece(numbers, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(name, numbers[name]) for name in ("[CLS]", "[SEP]")],
    )
    return tokenizer


def model_config(num_words: int) -> dict[str, Any]:
    return {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "vocab_size": num_words,
        "hidden_size": HIDDEN_SIZE,
        "num_hidden_layers": NUM_LAYERS,
        "num_attention_heads": NUM_HEADS,
        "intermediate_size": INTERMEDIATE_SIZE,
        "hidden_act": "relu",
        "max_position_embeddings": MAX_POSITIONS,
        "type_vocab_size": 2,
        "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.0,
        "initializer_range": 0.02,
        "layer_norm_eps": 1e-12,
        "pad_token_id": 0,
        "dtype": "float32",
    }
