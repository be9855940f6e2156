"""Low-rank adapters against `peft`'s own models, a formula by hand, and its table of families."""

import sys
from typing import Any

import pytest
import torch
from peft import get_peft_model
from peft.utils import TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING
from torch import Tensor, nn
from transformers import AutoModel

from mtlib.config.trial import TrialConfig
from mtlib.model.adapters import adapter_settings, target_layers
from mtlib.model.bert_layers import encode_bert
from mtlib.model.encoder import PretrainedEncoder, build_encoder
from mtlib.model.multitask import MultiTaskModel
from mtlib.stages.active_weights import active_weights
from tests.architectures import ENCODERS

LORA = {"adapter.method": "lora", "adapter.rank": 3, "adapter.alpha": 12, "encoder.dropout": 0}
IDS = torch.tensor([[2, 7, 8, 9, 3], [2, 11, 3, 0, 0]])
MASK = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
QUERY = "encoder.layer.0.attention.self.query"


@pytest.fixture
def config(tiny_config: TrialConfig) -> TrialConfig:
    return tiny_config.override({**LORA, "encoder.attention_dropout": 0})


def moved(model: nn.Module) -> nn.Module:
    """The model with every trained weight changed."""
    stream = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in (one for one in model.parameters() if one.requires_grad):
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=stream))
    return model


def states(model: Any) -> Tensor:
    """Hidden states by our layers, as tasks that read all tokens see them."""
    return encode_bert(model.encoder, model.encoder.embeddings(input_ids=IDS), MASK, None, only_first=False)


def test_states_and_gradients_are_those_of_a_model_of_peft(
    config: TrialConfig, tiny_encoder: PretrainedEncoder
) -> None:
    ours: Any = moved(MultiTaskModel(config, tiny_encoder)).train()
    base = build_encoder(tiny_encoder, config.encoder)
    theirs = get_peft_model(base, adapter_settings(base, config.adapter)).train()
    theirs.get_base_model().load_state_dict(ours.encoder.state_dict())
    found, expected, keep = states(ours), theirs(input_ids=IDS, attention_mask=MASK).last_hidden_state, MASK.bool()
    torch.testing.assert_close(found[keep], expected[keep], rtol=1e-5, atol=1e-5)
    for states_of in (found, expected):
        torch.autograd.backward(states_of[keep].square()[:, :7].sum())
    own = {name: part.grad for name, part in ours.encoder.named_parameters() if part.requires_grad}
    for name, part in theirs.get_base_model().named_parameters():
        if part.requires_grad:
            torch.testing.assert_close(own[name], part.grad, rtol=1e-5, atol=1e-5 * float(part.grad.abs().max()))


def test_a_layer_is_its_formula_and_starts_as_pretrained(config: TrialConfig, tiny_encoder: PretrainedEncoder) -> None:
    model, x = MultiTaskModel(config, tiny_encoder), torch.randn(4, 32)
    layer: Any = model.encoder.get_submodule(QUERY)
    w, b = tiny_encoder.weights[f"{QUERY}.weight"], tiny_encoder.weights[f"{QUERY}.bias"]
    torch.testing.assert_close(layer(x), x @ w.T + b, rtol=1e-5, atol=1e-6)
    moved(model)
    down, up = layer.lora_A["default"].weight, layer.lora_B["default"].weight
    assert down.shape == (3, 32)
    torch.testing.assert_close(layer(x), x @ (w + 12 / 3 * up @ down).T + b, rtol=1e-5, atol=1e-5)


def test_new_weights_depend_on_the_trial_alone(config: TrialConfig, tiny_encoder: PretrainedEncoder) -> None:
    def drawn(config: TrialConfig) -> list[Tensor]:
        weights = MultiTaskModel(config, tiny_encoder).encoder.named_parameters()
        return [weight.detach() for name, weight in weights if ".lora_A." in name]

    torch.manual_seed(7)
    before = torch.get_rng_state()
    first = drawn(config)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(8)
    again, other = drawn(config), drawn(config.override({"replicate": 1}))
    assert all(map(torch.equal, first, again))
    assert not any(map(torch.equal, first, other))
    bound = 1 / 32**0.5  # of nn.Linear, which draws uniform numbers
    assert 0.9 * bound < max(float(value.abs().max()) for value in first) <= bound


def test_only_adapters_and_heads_are_trained_and_kept(config: TrialConfig, tiny_encoder: PretrainedEncoder) -> None:
    model = MultiTaskModel(config, tiny_encoder)
    trained = {name for name, weight in model.named_parameters() if weight.requires_grad}
    assert {name for name in trained if name.startswith("encoder.")} == {
        f"encoder.encoder.layer.{layer}.attention.self.{name}.lora_{side}.default.weight"
        for layer in (0, 1)
        for name in ("query", "value")
        for side in "AB"
    }
    assert active_weights(config, config.active_tasks, model.state_dict()).keys() == trained
    started = config.override({"encoder.start_from": "folder"})  # nothing else has these weights of the encoder
    assert active_weights(started, config.active_tasks, model.state_dict()).keys() == model.state_dict().keys()


def test_queries_and_values_are_found_in_every_family_that_peft_knows() -> None:
    known = TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING
    families = [name for name in ENCODERS if name in known]
    assert len(families) >= 6
    for name in families:
        assert set(target_layers(AutoModel.from_config(ENCODERS[name]), ())) == set(known[name]), name


def test_a_layer_that_is_not_linear_is_refused_with_the_right_ones(
    config: TrialConfig, tiny_encoder: PretrainedEncoder
) -> None:
    with pytest.raises(ValueError, match=r"adapter\.targets.*query"):
        MultiTaskModel(config.override({"adapter.targets": ["embeddings.LayerNorm"]}), tiny_encoder)


def test_without_known_layers_they_must_be_named() -> None:
    encoder = AutoModel.from_config(ENCODERS["xlnet"])
    with pytest.raises(ValueError, match=r"must name .* XLNetModel \(layer_1, layer_2\)"):
        target_layers(encoder, ())
    assert target_layers(encoder, ("ff.layer_1",)) == ("ff.layer_1",)


def test_a_missing_package_is_one_line(
    config: TrialConfig, tiny_encoder: PretrainedEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(ValueError, match="needs peft: pip install"):
        MultiTaskModel(config, tiny_encoder)
