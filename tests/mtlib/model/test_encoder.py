"""Loading and copying of encoders, against transformers."""

import dataclasses
import importlib.util
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import (
    AlbertConfig,
    AutoModel,
    AutoTokenizer,
    BertConfig,
    PreTrainedTokenizerFast,
)

from mtlib.config.network import EncoderConfig
from mtlib.data.tokenizer_facts import TOKENIZER_FILE
from mtlib.model.encoder import (
    PretrainedEncoder,
    build_encoder,
    check_attention,
    embedding_layer,
    find_encoder,
    load_encoder,
    num_positions,
)
from tests.architectures import ENCODER_DECODERS, ENCODERS, NOT_ENTERED
from tests.architectures import untrained as random_encoder
from tests.one_line_error import one_line_error

AS_IT_IS = EncoderConfig(dropout=None, max_length=32)
BIAS = "encoder.layer.1.output.dense.bias"
T5 = ENCODER_DECODERS["t5"]
"""An encoder without our names of dropout, and without positions, in its configuration."""


@pytest.fixture
def copy_of_encoder(tiny_encoder_folder: Path, tmp_path: Path) -> Path:
    """A copy of the tiny encoder's folder."""
    return Path(shutil.copytree(tiny_encoder_folder, tmp_path / "copy"))


def change_weights(folder: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    """Rewrites the weights in a folder."""
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def change_json(path: Path, **changes: Any) -> None:
    """Rewrites some keys of a file."""
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def remove_vocabulary(folder: Path) -> None:
    for path in (*folder.glob("tokenizer*"), folder / "vocab.txt"):
        path.unlink()


@pytest.fixture
def untrained(bert_tokenizer: PreTrainedTokenizerFast) -> Callable[[Any], PretrainedEncoder]:
    """Makes an encoder of any architecture with random weights."""
    return lambda config: random_encoder(config, bert_tokenizer)


def dropouts_of(model: nn.Module) -> dict[str, float]:
    return {name: module.p for name, module in model.named_modules() if isinstance(module, nn.Dropout)}


def test_a_loaded_encoder_is_that_of_transformers_without_its_pooler(
    tiny_encoder: PretrainedEncoder, tiny_encoder_folder: Path
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder_folder)
    texts = ["the cat runs", "a [SEP] road"], ["a slow car", "the dog sings very fast"]
    inputs = tokenizer(*texts, padding=True, return_tensors="pt")
    assert tiny_encoder.tokenizer(*texts) == tokenizer(*texts)
    assert inputs["token_type_ids"].max() == 1
    reference, own = AutoModel.from_pretrained(tiny_encoder_folder).eval(), build_encoder(tiny_encoder, AS_IT_IS).eval()
    with torch.no_grad():
        assert torch.equal(own(**inputs).last_hidden_state, reference(**inputs).last_hidden_state)
    saved = load_file(tiny_encoder_folder / "model.safetensors")
    kept = {key: weight for key, weight in saved.items() if not key.startswith("pooler.")}
    assert tiny_encoder.weights.keys() == kept.keys() < saved.keys()
    assert tiny_encoder.num_parameters == sum(weight.numel() for weight in kept.values())
    assert sum(parameter.numel() for parameter in own.parameters()) == tiny_encoder.num_parameters
    assert all(parameter.requires_grad for parameter in own.parameters())


def test_training_a_copy_changes_neither_the_original_nor_another_copy(tiny_encoder: PretrainedEncoder) -> None:
    before = {key: weight.clone() for key, weight in tiny_encoder.weights.items()}
    state = torch.get_rng_state()
    first, second = (build_encoder(tiny_encoder, AS_IT_IS) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), state)
    with torch.no_grad():
        for parameter in first.parameters():
            parameter.add_(1)
    for key, weight in second.state_dict().items():
        assert torch.equal(weight, before[key])
        assert torch.equal(tiny_encoder.weights[key], before[key])


def test_flash_attention_is_refused_in_one_line_where_it_cannot_be(
    tiny_encoder: PretrainedEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    flash = dataclasses.replace(AS_IT_IS, attention="flash_attention_2")
    assert "must not be flash_attention_2 on the CPU" in one_line_error(check_attention, flash, False)
    build_encoder(tiny_encoder, flash)  # a GPU elsewhere may train it
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)  # without the package
    assert "must be possible with this encoder on this machine: " in one_line_error(build_encoder, tiny_encoder, flash)


def test_both_dropouts_of_bert_are_the_settings_or_its_own(untrained: Callable[[Any], PretrainedEncoder]) -> None:
    encoder = untrained(BertConfig(**ENCODERS["bert"].to_dict() | {"hidden_dropout_prob": 0.15}))
    for hidden, attention, expected in ((0.25, 0.5, (0.25, 0.5)), (0, 0, (0, 0)), (None, None, (0.15, 0.1))):
        config = EncoderConfig(dropout=hidden, attention_dropout=attention, max_length=32)
        found = dropouts_of(build_encoder(encoder, config))
        assert {p for name, p in found.items() if "attention.self" not in name} == {expected[0]}
        assert {p for name, p in found.items() if "attention.self" in name} == {expected[1]}
    assert encoder.config.hidden_dropout_prob == 0.15


def test_a_dropout_that_an_encoder_lacks_is_refused(untrained: Callable[[Any], PretrainedEncoder]) -> None:
    with pytest.raises(ValueError, match=r"^encoder\.dropout must be 0 or none for random \(t5\), .*, got 0\.1$"):
        build_encoder(untrained(T5), EncoderConfig(dropout=0.1, max_length=32))


@pytest.mark.parametrize(("limit", "longest"), [(40, 40), (10**30, 64)])
def test_the_longest_input_is_limited_by_tokenizer_and_positions(
    limit: int, longest: int, copy_of_encoder: Path
) -> None:
    change_json(copy_of_encoder / "tokenizer_config.json", model_max_length=limit)
    encoder = load_encoder(str(copy_of_encoder))
    assert encoder.max_length == longest
    build_encoder(encoder, EncoderConfig(max_length=longest))
    with pytest.raises(ValueError, match=rf"^encoder\.max_length must be at most {longest} for .*, got {longest + 1}$"):
        build_encoder(encoder, EncoderConfig(max_length=longest + 1))


@pytest.mark.parametrize("name", ["bert", "camembert", "ibert", "xlm"])
def test_a_text_of_the_maximum_length_fits_and_a_longer_one_does_not(name: str) -> None:
    model = AutoModel.from_config(ENCODERS[name]).eval()
    longest = num_positions(model)
    assert 40 < longest <= 48  # positions of relatives of RoBERTa start after the padding token's id
    assert model(torch.full((1, longest), 5)).last_hidden_state.shape[1] == longest
    with pytest.raises((IndexError, RuntimeError)):
        model(torch.full((1, longest + 1), 5))


def test_an_encoder_with_relative_positions_reads_texts_of_any_length() -> None:
    assert num_positions(AutoModel.from_config(ENCODERS["xlnet"])) == sys.maxsize


def test_the_fingerprint_depends_on_weights_and_architecture_alone(
    tiny_encoder: PretrainedEncoder, copy_of_encoder: Path
) -> None:
    def fingerprint() -> str:
        return load_encoder(str(copy_of_encoder)).fingerprint

    change_weights(
        copy_of_encoder, lambda weights: [weights.pop(f"pooler.dense.{part}") for part in ("weight", "bias")]
    )
    assert find_encoder(str(copy_of_encoder)).fingerprint == fingerprint() == tiny_encoder.fingerprint
    change_json(copy_of_encoder / "config.json", layer_norm_eps=1e-7)
    other_architecture = fingerprint()
    change_weights(copy_of_encoder, lambda weights: weights[BIAS][0].add_(1e-3))
    assert len({tiny_encoder.fingerprint, other_architecture, fingerprint()}) == 3


def test_a_folder_that_is_gone_is_one_line(tmp_path: Path) -> None:
    assert "cannot be loaded" in loading_error(tmp_path / "gone")
    with pytest.raises(ValueError, match=r"must exist, or be replaced with --encoder, got no folder /.*/gone$"):
        find_encoder(str(tmp_path / "gone"))


def loading_error(folder: Path) -> str:
    """The error of loading an encoder; it names the folder."""
    message = one_line_error(load_encoder, str(folder))
    assert str(folder) in message
    return message


@pytest.mark.skipif(importlib.util.find_spec("sentencepiece") is not None, reason="sentencepiece would read it")
def test_a_tokenizer_that_sentencepiece_reads_names_that_package(tmp_path: Path) -> None:
    """What transformers raises names another one."""
    AlbertConfig().save_pretrained(tmp_path)
    (tmp_path / "spiece.model").write_bytes(b"pieces")
    assert "pip install sentencepiece" in loading_error(tmp_path)


@pytest.mark.parametrize(
    ("file", "content", "fault"),
    [
        ("config.json", b"<!DOCTYPE html><html>Sign in</html>", "config.json is a web page"),
        ("model.safetensors", b"\x00" * 64, "model.safetensors is no safetensors file"),
        ("model.safetensors", None, "cannot be loaded"),
        ("tokenizer.json", b"{", "cannot be loaded"),
    ],
)
def test_a_damaged_file_is_one_line_that_says_what_it_is(
    file: str, content: bytes | None, fault: str, copy_of_encoder: Path
) -> None:
    (copy_of_encoder / file).unlink()
    if content is not None:
        (copy_of_encoder / file).write_bytes(content)
    assert fault in loading_error(copy_of_encoder)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"hidden_size": "64"}, "field 'hidden_size': TypeError: Field 'hidden_size' expected int, got str"),
        ({"hidden_act": "geluu"}, "'geluu' of config.json is not known"),
    ],
)
def test_a_refused_configuration_has_its_reason(changes: dict[str, Any], reason: str, copy_of_encoder: Path) -> None:
    change_json(copy_of_encoder / "config.json", **changes)
    assert reason in loading_error(copy_of_encoder)


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "0.auto_model.", "_orig_mod.module.", "module.bert."])
def test_weights_of_a_wrapped_model_are_loaded(
    prefix: str, copy_of_encoder: Path, tiny_encoder: PretrainedEncoder
) -> None:
    def wrap(weights: dict[str, Any]) -> None:
        for name in list(weights):
            weights[f"{prefix}{name}"] = weights.pop(name)

    change_weights(copy_of_encoder, wrap)
    assert load_encoder(str(copy_of_encoder)).fingerprint == tiny_encoder.fingerprint


def test_names_of_weights_that_are_not_the_architectures_are_shown(copy_of_encoder: Path) -> None:
    change_weights(copy_of_encoder, lambda weights: weights.update({"mine.bias": weights.pop(BIAS)}))
    assert "; 1 others are not the architecture's, first mine.bias" in loading_error(copy_of_encoder)


def test_a_checkpoint_must_have_all_weights(copy_of_encoder: Path) -> None:
    change_json(copy_of_encoder / "config.json", num_hidden_layers=3)
    assert " must have all its weights, 16 are missing, first encoder.layer.2." in loading_error(copy_of_encoder)
    change_json(copy_of_encoder / "config.json", num_hidden_layers=2, intermediate_size=48)
    assert " must have all its weights, 6 are of another size" in loading_error(copy_of_encoder)


def test_weights_that_are_not_finite_are_refused_by_name(copy_of_encoder: Path) -> None:
    change_weights(copy_of_encoder, lambda weights: weights[BIAS][3].fill_(torch.nan))
    message = loading_error(copy_of_encoder)
    assert "finite" in message
    assert message.endswith(f"first {BIAS}")


def test_a_folder_without_the_file_that_tokenised_the_training_is_refused(copy_of_encoder: Path) -> None:
    (copy_of_encoder / TOKENIZER_FILE).unlink()
    assert load_encoder(str(copy_of_encoder)).tokenizer_json is None
    with pytest.raises(ValueError, match=r"must come with the tokenizer\.json with which it was trained, got none$"):
        load_encoder(str(copy_of_encoder), TOKENIZER_FILE)


def test_a_token_without_an_embedding_is_refused(copy_of_encoder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(copy_of_encoder)
    room = len(load_file(copy_of_encoder / "model.safetensors")["embeddings.word_embeddings.weight"]) - len(tokenizer)
    tokenizer.add_tokens([f"word{number}" for number in range(room)])
    tokenizer.save_pretrained(copy_of_encoder)
    load_encoder(str(copy_of_encoder))
    tokenizer.add_tokens(["one-more"])
    tokenizer.save_pretrained(copy_of_encoder)
    assert "token 'one-more' with id " in loading_error(copy_of_encoder)


def test_an_encoder_with_code_of_its_own_is_refused_without_a_question(copy_of_encoder: Path) -> None:
    """As NeoBERT, whose configuration names classes in files of its repository."""
    (copy_of_encoder / "model.py").write_text("raise SystemExit('it was run')")
    own = {"AutoConfig": "model.NeoBERTConfig", "AutoModel": "model.NeoBERT"}
    change_json(copy_of_encoder / "config.json", model_type="neobert", auto_map=own)
    assert "code of its own" in loading_error(copy_of_encoder)


def test_a_folder_without_a_vocabulary_is_refused(copy_of_encoder: Path) -> None:
    remove_vocabulary(copy_of_encoder)
    assert loading_error(copy_of_encoder).endswith(" must come with its tokenizer, got no vocabulary")


@torch.no_grad()
@pytest.mark.parametrize("name", ["albert", "bert", "deberta-v2", "distilbert", "longformer", "modernbert", "mpnet"])
def test_only_linear_maps_of_single_tokens_follow_the_embedding_layer(name: str) -> None:
    torch.manual_seed(0)
    model = AutoModel.from_config(ENCODERS[name])
    for parameter in model.parameters():
        parameter.add_(torch.randn_like(parameter) * 0.1)
    ids = torch.arange(5, 13)[None]  # Longformer pads to a multiple of 8

    def entered(embedded: Tensor | None) -> tuple[Tensor, Tensor]:
        """Output of the embedding layer, replaced if given, and input of the first layer."""
        seen: list[Tensor] = []

        def swap(_module: nn.Module, _arguments: Any, output: Tensor) -> Tensor:
            seen.append(output if embedded is None else embedded)
            return seen[-1]

        handle = embedding_layer(model).register_forward_hook(swap)
        states = model(input_ids=ids, attention_mask=torch.ones_like(ids), output_hidden_states=True).hidden_states
        handle.remove()
        return seen[0], states[0]

    first, second = torch.randn(2, *entered(None)[0].shape)
    (_, moved), (_, other), (_, again) = entered(first), entered(second), entered(first)
    assert torch.equal(again, moved)  # with dropout on: there must be none after the entry
    assert torch.allclose(entered(0.3 * first + 0.7 * second)[1], 0.3 * moved + 0.7 * other, atol=1e-4)  # no LayerNorm
    assert torch.allclose(entered(first.flip(1))[1], moved.flip(1), atol=1e-5)  # no positions
    if name != "albert":
        assert torch.equal(moved, first)


@pytest.mark.parametrize("name", ["xlm", "xlnet"])
def test_an_architecture_without_an_entry_for_noise_is_refused_by_name(name: str) -> None:
    model = AutoModel.from_config(ENCODERS[name])
    with pytest.raises(ValueError, match=rf"^SMART .*, not with {type(model).__name__}: {NOT_ENTERED[name]}"):
        embedding_layer(model)
