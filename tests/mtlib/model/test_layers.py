"""Layers of encoders of several architectures: numbers, freezing, and the norms of PALs."""

from typing import Any

import pytest
import torch
from torch import nn
from transformers import AutoModel

from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from mtlib.model.encoder import drop_pooler
from mtlib.model.encoder_inputs import encoder_arguments
from mtlib.model.layers import EMBEDDINGS, check_fits, find_layers, freeze, has_layer_rates, layer_of, norms_of
from tests.architectures import ENCODERS, small_default

BASE = TrialConfig(stages=(StageConfig(tasks=("sst", "qqp")),))
NUM_LAYERS = 3


def encoder_of(family: str, config: Any = None) -> nn.Module:
    """An encoder with random weights, without its pooler, in evaluation mode."""
    torch.manual_seed(0)
    model: nn.Module = AutoModel.from_config(config or small_default(family)).eval()
    drop_pooler(model)
    return model


def call_order(encoder: nn.Module, modules: list[nn.Module]) -> list[int]:
    """The order in which a forward pass calls the modules."""
    seen: list[int] = []

    def note(number: int) -> Any:
        return lambda *_: seen.append(number)

    for number, module in enumerate(modules):
        module.register_forward_pre_hook(note(number))
    with torch.no_grad():
        encoder(torch.tensor([[1, 5, 6, 2]]))
    return seen


def outside_parameters(encoder: nn.Module) -> dict[str, nn.Parameter]:
    inside = {id(parameter) for layer in find_layers(encoder, "PALs")[1] for parameter in layer.parameters()}
    return {name: parameter for name, parameter in encoder.named_parameters() if id(parameter) not in inside}


def reached_before_the_end(encoder: nn.Module) -> dict[str, bool | None]:
    """Whether the output of the last layer depends on each parameter outside the layers; None if no output does."""
    outputs: list[Any] = []
    handle = find_layers(encoder, "PALs")[1][-1].register_forward_hook(lambda *call: outputs.append(call[2]))
    tokens = torch.tensor([[1, 5, 6, 9, 7, 2]])
    texts = encoder_arguments(encoder.config, tokens, torch.ones_like(tokens), torch.zeros_like(tokens))
    final = encoder(**texts).last_hidden_state
    handle.remove()
    end = outputs[0] if isinstance(outputs[0], torch.Tensor) else outputs[0][0]
    own = outside_parameters(encoder)
    early, late = (
        torch.autograd.grad(states.square().sum(), list(own.values()), retain_graph=True, allow_unused=True)
        for states in (end, final)
    )
    return {
        name: None if at_end is None else before is not None
        for name, before, at_end in zip(own, early, late, strict=True)
    }


@pytest.mark.parametrize("family", ["bert", "deberta-v2", "distilbert", "electra", "esm", "modernbert", "mpnet"])
def test_every_parameter_belongs_to_the_embeddings_a_layer_or_what_comes_after(family: str) -> None:
    encoder = encoder_of(family)
    numbers = layer_of(encoder, "layer rates")
    assert list(numbers) == [name for name, _ in encoder.named_parameters()]
    layers = find_layers(encoder, "PALs")[1]
    for number, layer in enumerate(layers):
        own = {id(parameter) for parameter in layer.parameters()}
        assert {numbers[name] for name, parameter in encoder.named_parameters() if id(parameter) in own} == {number}
    for name, is_before in reached_before_the_end(encoder).items():
        if is_before is not None:
            beside = 0 if name.startswith("encoder.conv.") else EMBEDDINGS
            assert numbers[name] == (beside if is_before else len(layers) - 1), name
    if family == "esm":  # its head of contacts is in no output
        assert numbers["contact_head.regression.weight"] == len(layers) - 1


def test_an_architecture_without_a_list_of_layers_is_refused_by_name() -> None:
    encoder = encoder_of("xlnet")
    with pytest.raises(ValueError, match="not with XLNetModel: it has no known list of layers"):
        check_fits(BASE.override({"optimizer.layer_decay": 0.9}), encoder)
    check_fits(BASE.override({"encoder.trained_layers": ()}), encoder)


def test_a_parameter_at_an_unknown_place_is_refused_by_name() -> None:
    encoder = encoder_of("bert")
    encoder.register_module("adapter", nn.Linear(2, 2))
    with pytest.raises(ValueError, match=r"^layer rates must .*, not with BertModel: its adapter\.weight is not known"):
        check_fits(BASE.override({"optimizer.layer_decay": 0.9}), encoder)
    check_fits(BASE, encoder)


@pytest.mark.parametrize(("layers", "expected"), [(None, {-1, 0, 1, 2}), ((2, 0), {0, 2}), ((0, 1, 2), {0, 1, 2})])
def test_only_the_named_layers_are_trained(layers: tuple[int, ...] | None, expected: set[int]) -> None:
    encoder = encoder_of("modernbert")
    freeze(encoder, layers)
    for name, number in layer_of(encoder, "it").items():
        assert encoder.get_parameter(name).requires_grad == (number in expected)


def test_any_encoder_can_be_frozen_whole_but_not_in_part() -> None:
    encoder = encoder_of("albert")
    freeze(encoder, ())
    assert not any(parameter.requires_grad for parameter in encoder.parameters())
    with pytest.raises(ValueError, match="not with AlbertModel"):
        freeze(encoder, (0,))


@pytest.mark.parametrize("family", ["bert", "deberta", "distilbert"])
def test_norms_of_pals_are_attention_first_in_each_layer(family: str) -> None:
    encoder = encoder_of(family)
    pairs = zip(norms_of(encoder, "attention"), norms_of(encoder, "layer"), strict=True)
    assert call_order(encoder, [norm for pair in pairs for norm in pair]) == list(range(2 * NUM_LAYERS))


@pytest.mark.parametrize("family", ["modernbert", "mobilebert"])
def test_pals_are_refused_where_a_layer_lacks_the_norm_or_has_a_narrow_one(family: str) -> None:
    encoder = encoder_of(family, ENCODERS[family])
    changes = {"pals.size": 4, "pals.num_heads": 2, "pals.placement": "layer", "pals.tasks": ["sst"]}
    with pytest.raises(ValueError, match=f"not with {type(encoder).__name__}: its layers have no"):
        check_fits(BASE.override(changes), encoder)
    check_fits(BASE.override({**changes, "pals.size": 0}), encoder)


@pytest.mark.parametrize("key", ["encoder.trained_layers", "tasks.qqp.chosen_layers"])
def test_layer_numbers_must_exist_in_the_encoder(key: str) -> None:
    encoder = encoder_of("bert")
    check_fits(BASE.override({key: [0, 2], "tasks.sts.chosen_layers": [3]}), encoder)  # no stage trains sts
    with pytest.raises(ValueError, match=rf"^{key} must be layers of the encoder, 0 to 2, got 3$"):
        check_fits(BASE.override({key: [0, 3, 4]}), encoder)


@pytest.mark.parametrize("key", ["layer_decay", "chosen_scale", "other_scale"])
def test_layer_rates_are_needed_where_one_of_three_settings_is_not_1(key: str) -> None:
    assert not has_layer_rates(BASE.optimizer)
    assert has_layer_rates(BASE.override({f"optimizer.{key}": 0.5, "tasks.sst.chosen_layers": [0]}).optimizer)
