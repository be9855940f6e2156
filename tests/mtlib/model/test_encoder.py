"""Loading and copying of encoders, against transformers."""

import contextlib
import dataclasses
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from huggingface_hub import get_session
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from torch import Tensor, nn
from transformers import (
    AutoModel,
    AutoTokenizer,
    BertConfig,
    DistilBertConfig,
    ModernBertConfig,
    PreTrainedTokenizerFast,
    RobertaConfig,
    T5Config,
    XLNetTokenizer,
)

from mtlib.config.network import EncoderConfig
from mtlib.config.trial import TrialConfig
from mtlib.model.encoder import (
    PretrainedEncoder,
    build_encoder,
    describe_model,
    embedding_layer,
    find_encoder,
    hidden_dropout,
    load_encoder,
    num_positions,
)
from mtlib.model.encoder_inputs import encoder_arguments
from mtlib.model.layers import encoder_layers
from mtlib.model.multitask import MultiTaskModel
from tests.architectures import DECODERS, ENCODER_DECODERS, ENCODERS, FAMILIES, NOT_ENTERED, small_default
from tests.one_line_error import one_line_error

AS_IT_IS = EncoderConfig(dropout=None, max_length=32)
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1}
T5 = T5Config(d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2, vocab_size=40)
"""An encoder without our names of dropout, and without positions, in its configuration."""
SMALL = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16, "vocab_size": 40}


@pytest.fixture
def copy_of_encoder(tiny_encoder_folder: Path, tmp_path: Path) -> Path:
    """A copy of the tiny encoder's folder."""
    return Path(shutil.copytree(tiny_encoder_folder, tmp_path / "copy"))


def change_weights(folder: Path, change: Callable[[dict[str, Tensor]], None]) -> None:
    """Rewrites the weights in a folder."""
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def change_config(folder: Path, **changes: Any) -> None:
    """Rewrites some keys of a folder's configuration."""
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def untrained(config: Any, longest: int = 512) -> PretrainedEncoder:
    """An encoder of any architecture with random weights."""
    torch.manual_seed(0)
    model = AutoModel.from_config(config)
    weights = {key: weight for key, weight in model.state_dict().items() if not key.startswith("pooler.")}
    return PretrainedEncoder(
        name="random",
        config=config,
        weights=weights,
        tokenizer=SimpleNamespace(model_max_length=longest),
        fingerprint="",
        max_length=min(longest, num_positions(model)),
    )


def dropouts_of(model: nn.Module) -> dict[str, float]:
    return {name: module.p for name, module in model.named_modules() if isinstance(module, nn.Dropout)}


def test_a_copy_gives_the_hidden_states_of_transformers(
    tiny_encoder: PretrainedEncoder, tiny_encoder_folder: Path
) -> None:
    inputs = AutoTokenizer.from_pretrained(tiny_encoder_folder)(
        ["the cat runs", "a road"], ["a slow car", "the dog sings very fast"], padding=True, return_tensors="pt"
    )
    reference = AutoModel.from_pretrained(tiny_encoder_folder).eval()
    own = build_encoder(tiny_encoder, AS_IT_IS).eval()
    with torch.no_grad():
        assert torch.equal(own(**inputs).last_hidden_state, reference(**inputs).last_hidden_state)
    assert inputs["token_type_ids"].max() == 1


def test_an_encoder_is_found_in_its_folder(tiny_encoder_folder: Path, tiny_encoder: PretrainedEncoder) -> None:
    assert find_encoder(str(tiny_encoder_folder)).fingerprint == tiny_encoder.fingerprint


def test_a_missing_folder_is_not_looked_up_on_the_hub(tmp_path: Path, requests: list[str]) -> None:
    with pytest.raises(ValueError, match=r"or be replaced with --encoder, got no folder /.*/gone$"):
        find_encoder(str(tmp_path / "gone"))
    assert requests == []


def test_the_tokenizer_is_that_of_the_folder(tiny_encoder: PretrainedEncoder, tiny_encoder_folder: Path) -> None:
    text = "the dog [SEP] unheard sings"
    assert tiny_encoder.tokenizer(text) == AutoTokenizer.from_pretrained(tiny_encoder_folder)(text)
    assert tiny_encoder.tokenizer.is_fast


def test_only_the_pooler_is_left_out(tiny_encoder: PretrainedEncoder, tiny_encoder_folder: Path) -> None:
    saved = load_file(tiny_encoder_folder / "model.safetensors")
    kept = {key: weight for key, weight in saved.items() if not key.startswith("pooler.")}
    assert len(kept) < len(saved)
    assert tiny_encoder.weights.keys() == kept.keys()
    assert all(torch.equal(tiny_encoder.weights[key], weight) for key, weight in kept.items())
    assert tiny_encoder.num_parameters == sum(weight.numel() for weight in kept.values())
    built = build_encoder(tiny_encoder, AS_IT_IS)
    assert sum(parameter.numel() for parameter in built.parameters()) == tiny_encoder.num_parameters
    assert all(parameter.requires_grad for parameter in built.parameters())


def test_training_a_copy_changes_neither_the_original_nor_another_copy(tiny_encoder: PretrainedEncoder) -> None:
    before = {key: weight.clone() for key, weight in tiny_encoder.weights.items()}
    first, second = (build_encoder(tiny_encoder, AS_IT_IS) for _ in range(2))
    with torch.no_grad():
        for parameter in first.parameters():
            parameter.add_(1)
    for key, weight in second.state_dict().items():
        assert torch.equal(weight, before[key])
        assert torch.equal(tiny_encoder.weights[key], before[key])


def test_building_a_copy_does_not_use_the_global_stream(tiny_encoder: PretrainedEncoder) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    build_encoder(tiny_encoder, AS_IT_IS)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize(
    ("changes", "family"),
    [({"attention": "flash_attention_2"}, "bert"), ({"gradient_checkpointing": True}, "xlnet")],
)
def test_kernels_that_are_not_there_are_one_line(
    changes: dict[str, Any], family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(ValueError, match=r"must be possible with this encoder on this machine: ") as caught:
        build_encoder(untrained(ENCODERS[family]), dataclasses.replace(AS_IT_IS, **changes))
    assert str(caught.value).startswith(f"encoder.{next(iter(changes))}")
    assert len(str(caught.value).splitlines()) == 1


def test_a_machine_without_a_gpu_builds_what_a_gpu_trains_with_flash_attention(
    tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder
) -> None:
    changes = {"encoder.attention": "flash_attention_2", "precision": "bf16", "smart.weight": 0}
    MultiTaskModel(tiny_config.override(changes), tiny_encoder)


def test_checkpoints_do_not_differentiate_a_frozen_encoder(tiny_encoder: PretrainedEncoder) -> None:
    encoder = build_encoder(tiny_encoder, dataclasses.replace(AS_IT_IS, gradient_checkpointing=True))
    encoder.requires_grad_(False)
    assert not encoder(input_ids=torch.tensor([[2, 7, 3]])).last_hidden_state.requires_grad


def test_both_dropouts_are_set_in_bert(tiny_encoder: PretrainedEncoder) -> None:
    model = build_encoder(tiny_encoder, EncoderConfig(dropout=0.25, attention_dropout=0.5, max_length=32))
    found = dropouts_of(model)
    assert {name: p for name, p in found.items() if "attention.self" in name} == {
        f"encoder.layer.{layer}.attention.self.dropout": 0.5 for layer in range(2)
    }
    assert {p for name, p in found.items() if "attention.self" not in name} == {0.25}
    assert "embeddings.dropout" in found


def test_without_a_setting_the_dropout_is_that_of_the_encoder(tiny_encoder: PretrainedEncoder) -> None:
    own = dataclasses.replace(tiny_encoder, config=type(tiny_encoder.config)(**{**tiny_encoder.config.to_dict()}))
    own.config.hidden_dropout_prob, own.config.attention_probs_dropout_prob = 0.15, 0.35
    assert set(dropouts_of(build_encoder(own, AS_IT_IS)).values()) == {0.15, 0.35}
    zero = EncoderConfig(dropout=0, attention_dropout=0, max_length=32)
    assert set(dropouts_of(build_encoder(own, zero)).values()) == {0.0}
    assert (own.config.hidden_dropout_prob, own.config.attention_probs_dropout_prob) == (0.15, 0.35)


def test_dropouts_of_other_architectures_are_set() -> None:
    distil = untrained(DistilBertConfig(dim=16, n_layers=1, n_heads=2, hidden_dim=16, vocab_size=40))
    modern = untrained(ModernBertConfig(**SMALL, **SPECIAL))
    for encoder in (distil, modern):
        changed = build_encoder(encoder, EncoderConfig(dropout=0.25, attention_dropout=0.5, max_length=32))
        config: Any = changed.config
        assert config.attention_dropout == 0.5
        assert 0.25 in (getattr(config, "dropout", None), getattr(config, "mlp_dropout", None))
        assert 0.25 in dropouts_of(changed).values()


def test_a_dropout_that_an_encoder_lacks_is_refused_by_name() -> None:
    unknown = untrained(T5)
    with pytest.raises(ValueError, match=r"^encoder\.dropout must be 0 or none for random \(t5\), .*, got 0\.1$"):
        build_encoder(unknown, EncoderConfig(dropout=0.1, max_length=32))
    with pytest.raises(ValueError, match=r"^encoder\.attention_dropout must be 0 or none for random"):
        build_encoder(unknown, EncoderConfig(dropout=None, attention_dropout=0.1, max_length=32))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_dropout_of_0_is_none_in_every_family(family: str) -> None:
    """Families that have no dropout at all, such as EuroBERT and Gemma, take 0 too."""
    zero = EncoderConfig(dropout=0, attention_dropout=0, max_length=32)
    model = build_encoder(untrained(small_default(family)), zero).train()
    assert not any(dropouts_of(model).values())
    if family != "yoso":  # it samples where tokens look
        tokens = torch.tensor([[1, 5, 6, 9, 7, 2]])
        texts = encoder_arguments(model.config, tokens, torch.ones_like(tokens), torch.zeros_like(tokens))
        training, evaluating = (model.train(mode)(**texts).last_hidden_state for mode in (True, False))
        assert torch.allclose(training, evaluating, atol=1e-5)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (BertConfig(**SMALL, hidden_dropout_prob=0.15, attention_probs_dropout_prob=0.35), 0.15),
        (DistilBertConfig(dropout=0.25, attention_dropout=0.35), 0.25),
        (ModernBertConfig(**SPECIAL, embedding_dropout=0.05, attention_dropout=0.35), 0.05),
        (T5, 0.0),
    ],
    ids=lambda value: getattr(value, "model_type", value),
)
def test_the_dropout_of_hidden_states_is_known_for_every_architecture(config: Any, expected: float) -> None:
    assert hidden_dropout(config) == expected


def test_the_longest_input_is_the_number_of_positions(tiny_encoder: PretrainedEncoder) -> None:
    assert tiny_encoder.max_length == 64
    build_encoder(tiny_encoder, EncoderConfig(max_length=64))
    with pytest.raises(ValueError, match=r"^encoder\.max_length must be at most 64 for .*, got 65$"):
        build_encoder(tiny_encoder, EncoderConfig(max_length=65))


@pytest.mark.parametrize(("limit", "longest"), [(40, 40), (64, 64), (10**30, 64)])
def test_the_longest_input_is_limited_by_tokenizer_and_positions(
    limit: int, longest: int, copy_of_encoder: Path
) -> None:
    path = copy_of_encoder / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "model_max_length": limit}))
    assert load_encoder(str(copy_of_encoder)).max_length == longest


def test_without_a_position_table_the_limit_is_that_of_the_configuration() -> None:
    modern = ModernBertConfig(**SMALL, **SPECIAL, max_position_embeddings=96)
    assert num_positions(AutoModel.from_config(modern)) == 96
    assert num_positions(AutoModel.from_config(T5)) == sys.maxsize


@pytest.mark.parametrize("tokenizer_limit", [32, 10**30])
def test_the_longest_input_of_a_roberta_fits(tokenizer_limit: int) -> None:
    # Positions start after the padding token's id: 34 of them are 32 tokens.
    roberta = untrained(RobertaConfig(**SMALL, max_position_embeddings=34, pad_token_id=1), tokenizer_limit)
    model = build_encoder(roberta, EncoderConfig(max_length=32)).eval()
    assert model(torch.full((1, 32), 5)).last_hidden_state.shape == (1, 32, 16)
    with pytest.raises(ValueError, match=r"encoder\.max_length must be at most 32"):
        build_encoder(roberta, EncoderConfig(max_length=33))


def test_the_fingerprint_depends_on_content_and_not_on_the_folder(
    tiny_encoder: PretrainedEncoder, copy_of_encoder: Path
) -> None:
    assert load_encoder(str(copy_of_encoder)).fingerprint == tiny_encoder.fingerprint

    def nudge(weights: dict[str, Tensor]) -> None:
        weights["encoder.layer.1.output.dense.bias"][0] += 1e-3

    change_weights(copy_of_encoder, nudge)
    assert load_encoder(str(copy_of_encoder)).fingerprint != tiny_encoder.fingerprint


def test_the_fingerprint_depends_on_the_architecture(tiny_encoder: PretrainedEncoder, copy_of_encoder: Path) -> None:
    change_config(copy_of_encoder, layer_norm_eps=1e-7)
    assert load_encoder(str(copy_of_encoder)).fingerprint != tiny_encoder.fingerprint


def test_loading_twice_gives_the_same_model_without_a_pooler_in_the_checkpoint(
    tiny_encoder: PretrainedEncoder, copy_of_encoder: Path
) -> None:
    def drop_pooler(weights: dict[str, Tensor]) -> None:
        for key in [key for key in weights if key.startswith("pooler.")]:
            del weights[key]

    change_weights(copy_of_encoder, drop_pooler)
    assert load_encoder(str(copy_of_encoder)).fingerprint == tiny_encoder.fingerprint


@pytest.fixture
def cached(tiny_encoder_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tiny encoder in the hub's cache as `someone/tiny`, on a machine without a network; its folder."""
    folder = tmp_path / "models--someone--tiny"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("0" * 40)
    shutil.copytree(tiny_encoder_folder, folder / "snapshots" / ("0" * 40))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("transformers.utils.hub.constants.HF_HUB_CACHE", str(tmp_path))
    return folder / "snapshots" / ("0" * 40)


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Requested addresses below `someone/tiny`; every request fails."""
    requested: list[str] = []

    def refuse(_client: Any, request: Any, **_: Any) -> None:
        if "someone/tiny" in str(request.url):
            requested.append(str(request.url))
        raise OSError("no network")

    monkeypatch.setattr(type(get_session()), "send", refuse)
    monkeypatch.setattr("time.sleep", lambda _: None)  # between attempts
    return requested


@pytest.mark.usefixtures("cached")
def test_a_cached_encoder_is_loaded_without_a_request_to_the_hub(
    requests: list[str], tiny_encoder: PretrainedEncoder
) -> None:
    loaded = load_encoder("someone/tiny")
    assert requests == []
    assert loaded.fingerprint == tiny_encoder.fingerprint
    assert loaded.tokenizer("the dog sings") == tiny_encoder.tokenizer("the dog sings")


@pytest.mark.parametrize("file", ["config.json", "model.safetensors"])
def test_missing_files_are_requested_from_the_hub(file: str, cached: Path, requests: list[str]) -> None:
    (cached / file).unlink()
    rule = r"^encoder 'someone/tiny' is neither a local folder nor complete in \S+, and .* hub cannot be queried \(no"
    with pytest.raises(ValueError, match=rule):
        load_encoder("someone/tiny")
    assert len({*requests}) == 1  # one request for all files


def test_a_cache_without_a_vocabulary_is_not_enough(cached: Path, requests: list[str]) -> None:
    for path in (*cached.glob("tokenizer*"), cached / "vocab.txt"):
        path.unlink()
    with pytest.raises(ValueError, match=r"^encoder 'someone/tiny' [^\n]+$"):
        load_encoder("someone/tiny")
    assert requests


def test_a_folder_causes_no_request_to_the_hub(copy_of_encoder: Path, requests: list[str]) -> None:
    load_encoder(str(copy_of_encoder))
    (copy_of_encoder / "config.json").unlink()
    with pytest.raises(ValueError, match="cannot be loaded"):
        load_encoder(str(copy_of_encoder))
    assert requests == []


def loading_error(folder: Path) -> str:
    """The error of loading an encoder; it names the folder."""
    message = one_line_error(load_encoder, str(folder))
    assert str(folder) in message
    return message


def test_a_missing_folder_is_one_line(tmp_path: Path) -> None:
    assert loading_error(tmp_path / "nothing").startswith(f"encoder '{tmp_path}/nothing' cannot be loaded: ")


@pytest.mark.parametrize("file", ["config.json", "model.safetensors", "tokenizer.json"])
@pytest.mark.parametrize("content", [b"", b"{", b"\x00" * 64, b"5", b"[]"], ids=["empty", "cut", "zeros", "5", "[]"])
def test_a_damaged_file_is_one_line(file: str, content: bytes, copy_of_encoder: Path) -> None:
    (copy_of_encoder / file).write_bytes(content)
    loading_error(copy_of_encoder)


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 90868376\n"


@pytest.mark.parametrize("file", ["config.json", "model.safetensors", "tokenizer.json"])
@pytest.mark.parametrize(
    ("content", "fault"),
    [(POINTER, "a Git-LFS pointer"), (b"<!DOCTYPE html><html>Sign in</html>", "a web page"), (b"", "empty")],
    ids=["pointer", "page", "empty"],
)
def test_a_file_that_is_something_else_is_called_what_it_is(
    file: str, content: bytes, fault: str, copy_of_encoder: Path
) -> None:
    (copy_of_encoder / file).write_bytes(content)
    assert f"{file} is {fault}" in loading_error(copy_of_encoder)


def test_a_file_that_is_not_read_is_not_blamed(copy_of_encoder: Path) -> None:
    (copy_of_encoder / "pytorch_model.bin").write_bytes(POINTER)
    load_encoder(str(copy_of_encoder))
    (copy_of_encoder / "model.safetensors").write_bytes(b"\x00" * 64)
    assert "model.safetensors is no safetensors file" in loading_error(copy_of_encoder)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused_by_name(value: float, copy_of_encoder: Path) -> None:
    def damage(weights: dict[str, Tensor]) -> None:
        weights["encoder.layer.1.output.dense.bias"][3] = value

    change_weights(copy_of_encoder, damage)
    message = loading_error(copy_of_encoder)
    assert "finite" in message
    assert message.endswith("first encoder.layer.1.output.dense.bias")


def test_a_token_without_an_embedding_is_refused(copy_of_encoder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(copy_of_encoder)
    embeddings = load_file(copy_of_encoder / "model.safetensors")["embeddings.word_embeddings.weight"]
    room = len(embeddings) - len(tokenizer)
    tokenizer.add_tokens([f"word{number}" for number in range(room)])
    tokenizer.save_pretrained(copy_of_encoder)
    load_encoder(str(copy_of_encoder))
    tokenizer.add_tokens(["one-more"])
    tokenizer.save_pretrained(copy_of_encoder)
    expected = f"{len(embeddings):,} embeddings, and token 'one-more' with id {len(embeddings)}"
    assert expected in loading_error(copy_of_encoder)


def test_an_encoder_with_code_of_its_own_is_refused_without_a_question(copy_of_encoder: Path) -> None:
    """As NeoBERT, whose configuration names classes in files of its repository."""
    (copy_of_encoder / "model.py").write_text("raise SystemExit('it was run')")
    own = {"AutoConfig": "model.NeoBERTConfig", "AutoModel": "model.NeoBERT"}
    change_config(copy_of_encoder, model_type="neobert", auto_map=own)
    assert "code of its own" in loading_error(copy_of_encoder)


@pytest.mark.parametrize("file", ["config.json", "model.safetensors"])
def test_a_folder_that_lacks_a_file_is_one_line(file: str, copy_of_encoder: Path) -> None:
    (copy_of_encoder / file).unlink()
    loading_error(copy_of_encoder)


def test_a_folder_without_a_vocabulary_is_refused(copy_of_encoder: Path) -> None:
    for path in (*copy_of_encoder.glob("tokenizer*"), copy_of_encoder / "vocab.txt"):
        path.unlink()
    assert loading_error(copy_of_encoder).endswith(" must come with its tokenizer, got no vocabulary")


def test_a_tokenizer_that_cannot_encode_a_text_is_one_line(copy_of_encoder: Path) -> None:
    words = Tokenizer(WordLevel({"[PAD]": 0, "word": 1}))  # no [UNK] for any other word
    PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]").save_pretrained(copy_of_encoder)
    assert " cannot be loaded: WordLevel error: Missing [UNK] token" in loading_error(copy_of_encoder)


def test_weights_of_another_size_are_one_line(copy_of_encoder: Path) -> None:
    change_config(copy_of_encoder, intermediate_size=48)
    assert loading_error(copy_of_encoder).endswith(
        " must have all its weights, 6 are of another size, first encoder.layer.0.intermediate.dense.bias"
    )


@pytest.mark.parametrize("changes", [{"hidden_size": "wide"}, {"hidden_act": "none such"}, {"model_type": "none such"}])
def test_an_invalid_configuration_is_one_line(changes: dict[str, Any], copy_of_encoder: Path) -> None:
    change_config(copy_of_encoder, **changes)
    assert " cannot be loaded: " in loading_error(copy_of_encoder)


def test_a_checkpoint_that_lacks_a_layer_is_refused(copy_of_encoder: Path) -> None:
    change_config(copy_of_encoder, num_hidden_layers=3)
    assert loading_error(copy_of_encoder).endswith(
        " must have all its weights, 16 are missing, first encoder.layer.2.attention.output.LayerNorm.bias"
    )


def test_a_checkpoint_that_lacks_a_single_weight_is_refused_by_its_name(copy_of_encoder: Path) -> None:
    def drop_one(weights: dict[str, Tensor]) -> None:
        del weights["encoder.layer.1.output.dense.bias"]

    change_weights(copy_of_encoder, drop_one)
    assert loading_error(copy_of_encoder).endswith("1 are missing, first encoder.layer.1.output.dense.bias")


def save(config: Any, folder: Path, tokenizer: PreTrainedTokenizerFast) -> Path:
    """A folder with a model of random weights, and a tokenizer."""
    AutoModel.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("name", ["llama", "gpt2", "bert, as a decoder"])
def test_a_decoder_is_refused_by_its_type(name: str, bert_tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    config = DECODERS[name]
    message = loading_error(save(config, tmp_path, bert_tokenizer))
    assert message.endswith(f"whose first token does not attend to later tokens ({config.model_type})")


@pytest.mark.parametrize("name", ENCODER_DECODERS)
def test_an_encoder_decoder_is_refused_by_its_type(
    name: str, bert_tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    assert loading_error(save(ENCODER_DECODERS[name], tmp_path, bert_tokenizer)).endswith(
        f"got an encoder-decoder ({name})"
    )


def test_a_decoder_is_refused_before_its_weights_are_read(tmp_path: Path) -> None:
    DECODERS["llama"].save_pretrained(tmp_path)
    assert "later tokens (llama)" in loading_error(tmp_path)


@pytest.mark.usefixtures("cached")
def test_a_cached_decoder_is_refused_without_a_request_to_the_hub(cached: Path, requests: list[str]) -> None:
    DECODERS["llama"].save_pretrained(cached)
    with pytest.raises(ValueError, match=r"later tokens \(llama\)$"):
        load_encoder("someone/tiny")
    assert requests == []


def test_xlnet_has_unlimited_positions_and_is_read_at_its_last_token(
    xlnet_tokenizer: XLNetTokenizer, bert_tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    config = ENCODERS["xlnet"]
    assert config.max_position_embeddings == -1
    loaded = load_encoder(str(save(config, tmp_path / "own", xlnet_tokenizer)))
    assert loaded.is_read_last
    model = build_encoder(loaded, EncoderConfig(max_length=10**4)).eval()
    assert model(torch.full((1, 60), 9)).last_hidden_state.shape == (1, 60, 16)
    assert not load_encoder(str(save(config, tmp_path / "other", bert_tokenizer))).is_read_last


@pytest.mark.parametrize("name", ["squeezebert", "layoutlm", "bert"])
def test_no_model_needs_its_pooler(name: str, bert_tokenizer: PreTrainedTokenizerFast) -> None:
    encoder = describe_model("random", AutoModel.from_config(ENCODERS[name]), bert_tokenizer)
    assert not any(key.startswith("pooler") for key in encoder.weights)
    built = build_encoder(encoder, AS_IT_IS)
    assert built(torch.tensor([[5, 6, 7]])).last_hidden_state.shape == (1, 3, 16)


@pytest.mark.parametrize("name", ["bert", "camembert", "ibert", "mpnet", "xlm", "yoso", "deberta", "distilbert"])
def test_a_text_of_the_maximum_length_fits_and_a_longer_one_does_not(name: str) -> None:
    model = AutoModel.from_config(ENCODERS[name]).eval()
    longest = num_positions(model)
    assert 40 < longest <= 48
    assert model(torch.full((1, longest), 5)).last_hidden_state.shape[1] == longest
    if name != "deberta":  # without a position table longer texts are accepted
        with pytest.raises((IndexError, RuntimeError)):
            model(torch.full((1, longest + 1), 5))


def test_the_embedding_layer_gives_the_input_of_the_first_layer(tiny_encoder: PretrainedEncoder) -> None:
    model = build_encoder(tiny_encoder, AS_IT_IS).eval()
    ids = torch.tensor([[2, 5, 6, 3]])
    layer = embedding_layer(model)
    with torch.no_grad():
        states = model(ids, output_hidden_states=True).hidden_states
        assert torch.equal(layer(input_ids=ids), states[0])


def built_of(config: Any) -> nn.Module:
    """A model with random weights and biases."""
    torch.manual_seed(0)
    model: nn.Module = AutoModel.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def entered_first_layer(model: nn.Module, embedded: Tensor) -> Tensor:
    """The input of the first layer when the embedding layer's output is replaced."""
    seen: list[Tensor] = []

    def note(_layer: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        seen.append(arguments[0] if arguments else named["hidden_states"])

    ids = torch.full(embedded.shape[:2], 7)
    handles = [embedding_layer(model).register_forward_hook(lambda *_: embedded)]
    with contextlib.suppress(ValueError):  # no known list of layers
        handles.append(encoder_layers(model, "a test")[0].register_forward_pre_hook(note, with_kwargs=True))
    states = model(input_ids=ids, attention_mask=torch.ones_like(ids), output_hidden_states=len(handles) == 1)
    for handle in handles:
        handle.remove()
    return (seen or states.hidden_states)[0]


@torch.no_grad()
@pytest.mark.parametrize("name", [name for name in ENCODERS if name not in (*NOT_ENTERED, "ibert")])
def test_only_linear_maps_of_single_tokens_follow_the_embedding_layer(name: str) -> None:
    model = built_of(ENCODERS[name])
    ids = torch.arange(5, 13)[None]  # Longformer pads to a multiple of 8
    kept: list[Tensor] = []
    handle = embedding_layer(model).register_forward_hook(lambda *given: kept.append(given[2]))
    model(input_ids=ids, attention_mask=torch.ones_like(ids))
    handle.remove()
    first, second = torch.randn(2, *kept[0].shape)
    moved = entered_first_layer(model, first)  # with dropout on: there must be none after the entry
    assert torch.equal(entered_first_layer(model, first), moved)
    mixed = entered_first_layer(model, 0.3 * first + 0.7 * second)
    assert torch.allclose(mixed, 0.3 * moved + 0.7 * entered_first_layer(model, second), atol=1e-4)  # no LayerNorm
    assert torch.allclose(entered_first_layer(model, first.flip(1)), moved.flip(1), atol=1e-5)  # no positions
    if name not in ("albert", "electra", "rembert"):
        assert torch.equal(moved, first)


@pytest.mark.parametrize("name", NOT_ENTERED)
def test_an_architecture_without_an_entry_for_noise_is_refused_by_name(name: str) -> None:
    model = AutoModel.from_config(ENCODERS[name])
    with pytest.raises(ValueError, match=rf"^SMART .*, not with {type(model).__name__}: {NOT_ENTERED[name]}"):
        embedding_layer(model)
