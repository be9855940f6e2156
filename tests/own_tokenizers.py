"""Encoders with own tokenizers, trained by `tokenizers` and wrapped in the class of a model, as courses teach."""

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    AutoModel,
    BertConfig,
    BertTokenizerFast,
    DebertaConfig,
    DebertaTokenizerFast,
    DistilBertConfig,
    DistilBertTokenizerFast,
    ElectraConfig,
    ElectraTokenizerFast,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaTokenizerFast,
)

TEXTS = ("The Old Dog sleeps", "Ein schöner Film", "DON'T stop, the cat", "a very slow film")
SHAPE = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
BERT_NAMES, ROBERTA_NAMES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"), ("<pad>", "<unk>", "<s>", "</s>", "<mask>")

FAMILIES = {
    "bert, cased": (BertTokenizerFast, BertConfig(**SHAPE)),
    "distilbert, cut at white space": (
        DistilBertTokenizerFast,
        DistilBertConfig(dim=16, n_layers=1, n_heads=2, hidden_dim=32),
    ),
    "electra, with accents": (ElectraTokenizerFast, ElectraConfig(**SHAPE, embedding_size=16)),
    "roberta, lower case": (RobertaTokenizerFast, RobertaConfig(**SHAPE)),
    "deberta, one separator in pairs": (DebertaTokenizerFast, DebertaConfig(**SHAPE)),
}
"""By what their `tokenizer.json` says and the rebuilt class does not: the class, and the encoder's configuration."""


def letter_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer whose tokens are the letters from a to h."""
    names = ("[PAD]", "[UNK]", *"abcdefgh")
    letters = Tokenizer(models.WordLevel({name: number for number, name in enumerate(names)}, "[UNK]"))
    letters.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    return PreTrainedTokenizerFast(tokenizer_object=letters, pad_token="[PAD]", unk_token="[UNK]")


def train_tokenizer(family: str) -> Tokenizer:
    """Trains the tokenizer of a family on `TEXTS`."""
    return train_bytes(family) if family.startswith(("roberta", "deberta")) else train_word_pieces(family)


def train_word_pieces(family: str) -> Tokenizer:
    lower = normalizers.BertNormalizer(lowercase=True, strip_accents=False)
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.NFC() if "cased" in family else lower
    is_bare = "white space" in family
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit() if is_bare else pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=300, special_tokens=list(BERT_NAMES), show_progress=False)
    tokenizer.train_from_iterator(TEXTS, trainer)
    return with_template(tokenizer, "[CLS]", "[SEP]")


def train_bytes(family: str) -> Tokenizer:
    names = ROBERTA_NAMES if "roberta" in family else BERT_NAMES
    tokenizer = Tokenizer(models.BPE(unk_token=names[1]))
    if "lower case" in family:
        tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    letters = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=list(names), initial_alphabet=letters, show_progress=False
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    return with_template(tokenizer, names[2], names[3])


def with_template(tokenizer: Tokenizer, first: str, last: str) -> Tokenizer:
    """Puts special tokens around texts as BERT does: `[CLS] a [SEP] b [SEP]`, the second text with segment 1."""
    numbers = [(name, tokenizer.token_to_id(name)) for name in (first, last)]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{first} $A {last}", pair=f"{first} $A {last} $B:1 {last}:1", special_tokens=numbers
    )
    return tokenizer


def write_own_encoder(folder: Path, family: str) -> Tokenizer:
    """Writes an encoder of a family with random weights; returns the tokenizer that it was meant to have."""
    wrapper, config = FAMILIES[family]
    tokenizer = train_tokenizer(family)
    wrapper(tokenizer_object=tokenizer, model_max_length=64).save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))  # the wrapper of DeBERTa changes the template as it saves
    config.vocab_size = tokenizer.get_vocab_size()
    torch.manual_seed(0)
    AutoModel.from_config(config).save_pretrained(folder)
    return tokenizer
