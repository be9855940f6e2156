"""Loading and copying of encoders, against transformers."""

import dataclasses
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
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
)

from mtlib.config.network import EncoderConfig
from mtlib.config.trial import TrialConfig
from mtlib.model.encoder import (
    PretrainedEncoder,
    build_encoder,
    check_attention,
    describe_model,
    embedding_layer,
    find_encoder,
    hidden_dropout,
    load_encoder,
    num_positions,
)
from mtlib.model.encoder_inputs import encoder_arguments
from mtlib.model.multitask import MultiTaskModel
from tests.architectures import DECODERS, ENCODER_DECODERS, ENCODERS, FAMILIES, NOT_ENTERED, small_default
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


@pytest.mark.parametrize(
    ("changes", "family"),
    [({"attention": "flash_attention_2"}, "bert"), ({"gradient_checkpointing": True}, "xlnet")],
)
def test_kernels_that_are_not_there_are_one_line(
    changes: dict[str, Any], family: str, untrained: Callable[[Any], PretrainedEncoder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    message = one_line_error(build_encoder, untrained(ENCODERS[family]), dataclasses.replace(AS_IT_IS, **changes))
    assert message.startswith(f"encoder.{next(iter(changes))}")
    assert "must be possible with this encoder on this machine: " in message


def test_flash_attention_is_built_and_not_trained_without_a_gpu(
    tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder
) -> None:
    config = tiny_config.override({"encoder.attention": "flash_attention_2", "precision": "bf16", "smart.weight": 0})
    MultiTaskModel(config, tiny_encoder)
    check_attention(config.encoder, on_gpu=True)
    check_attention(AS_IT_IS, on_gpu=False)
    with pytest.raises(ValueError, match=r"encoder\.attention must not be flash_attention_2 on the CPU"):
        check_attention(config.encoder, on_gpu=False)


def test_checkpoints_do_not_differentiate_a_frozen_encoder(tiny_encoder: PretrainedEncoder) -> None:
    encoder = build_encoder(tiny_encoder, dataclasses.replace(AS_IT_IS, gradient_checkpointing=True))
    encoder.requires_grad_(False)
    assert not encoder(input_ids=torch.tensor([[2, 7, 3]])).last_hidden_state.requires_grad


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
    with pytest.raises(ValueError, match=r"^encoder\.attention_dropout must be 0 or none for random \(t5\)"):
        build_encoder(untrained(T5), EncoderConfig(dropout=None, attention_dropout=0.1, max_length=32))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_dropout_of_0_is_none_in_every_family(family: str, untrained: Callable[[Any], PretrainedEncoder]) -> None:
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
        (BertConfig(hidden_dropout_prob=0.15, attention_probs_dropout_prob=0.35), 0.15),
        (DistilBertConfig(dropout=0.25, attention_dropout=0.35), 0.25),
        (ModernBertConfig(embedding_dropout=0.05, attention_dropout=0.35), 0.05),
        (T5, 0.0),
    ],
    ids=lambda value: getattr(value, "model_type", ""),
)
def test_the_dropout_of_hidden_states_is_known_for_every_architecture(config: Any, expected: float) -> None:
    assert hidden_dropout(config) == expected


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


@pytest.mark.parametrize("name", ["bert", "camembert", "ibert", "xlm", "deberta"])
def test_a_text_of_the_maximum_length_fits_and_a_longer_one_does_not(name: str) -> None:
    model = AutoModel.from_config(ENCODERS[name]).eval()
    longest = num_positions(model)
    assert 40 < longest <= 48  # positions of relatives of RoBERTa start after the padding token's id
    assert model(torch.full((1, longest), 5)).last_hidden_state.shape[1] == longest
    if name != "deberta":  # without a position table longer texts are accepted
        with pytest.raises((IndexError, RuntimeError)):
            model(torch.full((1, longest + 1), 5))


def test_without_a_limit_of_positions_the_longest_input_is_unlimited() -> None:
    assert num_positions(AutoModel.from_config(T5)) == sys.maxsize
    xlnet = ENCODERS["xlnet"]
    assert xlnet.max_position_embeddings == -1
    model = AutoModel.from_config(xlnet).eval()
    assert num_positions(model) == sys.maxsize
    assert model(torch.full((1, 60), 9)).last_hidden_state.shape == (1, 60, 16)


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


@pytest.fixture
def cached(tiny_encoder_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tiny encoder in the hub's cache as `someone/tiny`; its folder."""
    folder = tmp_path / "models--someone--tiny"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("0" * 40)
    shutil.copytree(tiny_encoder_folder, folder / "snapshots" / ("0" * 40))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
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


@pytest.mark.parametrize("file", ["config.json", "model.safetensors", "vocabulary"])
def test_missing_files_are_requested_from_the_hub(file: str, cached: Path, requests: list[str]) -> None:
    if file == "vocabulary":
        remove_vocabulary(cached)
    else:
        (cached / file).unlink()
    message = one_line_error(load_encoder, "someone/tiny")
    assert message.startswith("encoder 'someone/tiny' is neither a local folder nor complete in ")
    assert "hub cannot be queried (no network)" in message
    assert requests


def test_a_cached_decoder_is_refused_without_a_request_to_the_hub(cached: Path, requests: list[str]) -> None:
    DECODERS["llama"].save_pretrained(cached)
    with pytest.raises(ValueError, match=r"later tokens \(llama\)$"):
        load_encoder("someone/tiny")
    assert requests == []


def test_a_folder_causes_no_request_to_the_hub(copy_of_encoder: Path, tmp_path: Path, requests: list[str]) -> None:
    load_encoder(str(copy_of_encoder))
    (copy_of_encoder / "config.json").unlink()
    assert "cannot be loaded" in loading_error(copy_of_encoder)
    assert "cannot be loaded" in loading_error(tmp_path / "gone")
    with pytest.raises(ValueError, match=r"must exist, or be replaced with --encoder, got no folder /.*/gone$"):
        find_encoder(str(tmp_path / "gone"))
    assert requests == []


def loading_error(folder: Path) -> str:
    """The error of loading an encoder; it names the folder."""
    message = one_line_error(load_encoder, str(folder))
    assert str(folder) in message
    return message


@pytest.mark.parametrize(
    ("file", "content", "fault"),
    [
        ("config.json", b"[]", "cannot be loaded"),
        ("config.json", b"<!DOCTYPE html><html>Sign in</html>", "config.json is a web page"),
        ("config.json", b'{"model_type": "bert", "hidden_size": "wide"}', "cannot be loaded"),
        ("model.safetensors", b"\x00" * 64, "model.safetensors is no safetensors file"),
        ("model.safetensors", None, "cannot be loaded"),
        ("tokenizer.json", b"", "tokenizer.json is empty"),
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


def test_a_file_that_is_not_read_is_not_blamed(copy_of_encoder: Path) -> None:
    (copy_of_encoder / "pytorch_model.bin").write_bytes(b"")
    load_encoder(str(copy_of_encoder))
    (copy_of_encoder / "model.safetensors").write_bytes(b"\x00" * 64)
    assert "model.safetensors is no safetensors file" in loading_error(copy_of_encoder)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"intermediate_size": 48}, "6 are of another size, first encoder.layer.0.intermediate.dense.bias"),
        ({"num_hidden_layers": 3}, "16 are missing, first encoder.layer.2.attention.output.LayerNorm.bias"),
    ],
)
def test_a_checkpoint_must_have_all_weights(changes: dict[str, Any], fault: str, copy_of_encoder: Path) -> None:
    change_json(copy_of_encoder / "config.json", **changes)
    assert loading_error(copy_of_encoder).endswith(f" must have all its weights, {fault}")


def test_weights_that_are_not_finite_are_refused_by_name(copy_of_encoder: Path) -> None:
    change_weights(copy_of_encoder, lambda weights: weights[BIAS][3].fill_(torch.nan))
    message = loading_error(copy_of_encoder)
    assert "finite" in message
    assert message.endswith(f"first {BIAS}")


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


def test_a_tokenizer_that_cannot_encode_a_text_is_one_line(copy_of_encoder: Path) -> None:
    words = Tokenizer(WordLevel({"[PAD]": 0, "word": 1}))  # no [UNK] for any other word
    PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]").save_pretrained(copy_of_encoder)
    assert " cannot be loaded: WordLevel error: Missing [UNK] token" in loading_error(copy_of_encoder)


def test_a_decoder_is_refused_before_its_weights_are_read(tmp_path: Path) -> None:
    DECODERS["llama"].save_pretrained(tmp_path)
    assert "later tokens (llama)" in loading_error(tmp_path)


def test_a_model_that_always_calls_its_pooler_does_without_it(bert_tokenizer: PreTrainedTokenizerFast) -> None:
    encoder = describe_model("random", AutoModel.from_config(ENCODERS["squeezebert"]), bert_tokenizer)
    assert not any(key.startswith("pooler") for key in encoder.weights)
    built = build_encoder(encoder, AS_IT_IS)
    assert built(torch.tensor([[5, 6, 7]])).last_hidden_state.shape == (1, 3, 16)


@torch.no_grad()
@pytest.mark.parametrize("name", [name for name in ENCODERS if name not in (*NOT_ENTERED, "ibert")])
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
    if name not in ("albert", "electra", "rembert"):
        assert torch.equal(moved, first)


@pytest.mark.parametrize("name", NOT_ENTERED)
def test_an_architecture_without_an_entry_for_noise_is_refused_by_name(name: str) -> None:
    model = AutoModel.from_config(ENCODERS[name])
    with pytest.raises(ValueError, match=rf"^SMART .*, not with {type(model).__name__}: {NOT_ENTERED[name]}"):
        embedding_layer(model)
