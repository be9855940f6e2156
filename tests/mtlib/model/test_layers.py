"""Layers of encoders of several architectures: numbers, freezing, and the norms of PALs."""

from typing import Any

import pytest
import torch
from torch import nn
from transformers import (
    AlbertConfig,
    AutoModel,
    BertConfig,
    DebertaConfig,
    DebertaV2Config,
    DistilBertConfig,
    ElectraConfig,
    MegatronBertConfig,
    MobileBertConfig,
    ModernBertConfig,
    MPNetConfig,
    RobertaConfig,
    RobertaPreLayerNormConfig,
    T5Config,
    XLMRobertaConfig,
)

from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from mtlib.model.encoder import drop_pooler
from mtlib.model.encoder_inputs import encoder_arguments
from mtlib.model.layers import (
    EMBEDDINGS,
    check_fits,
    encoder_layers,
    freeze,
    has_layer_rates,
    layer_of,
    norms_of,
)
from tests.architectures import FAMILIES, small_default

BASE = TrialConfig(stages=(StageConfig(tasks=("sst", "qqp")),))
SMALL = {"hidden_size": 8, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 8, "vocab_size": 20}
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}
BERT = BertConfig(**SMALL)
DISTIL = DistilBertConfig(dim=8, n_layers=3, n_heads=2, hidden_dim=8, vocab_size=20)
MODERN = ModernBertConfig(**SMALL, **SPECIAL)
ALBERT = AlbertConfig(**SMALL, embedding_size=8)
MOBILE = MobileBertConfig(**SMALL, intra_bottleneck_size=4, true_hidden_size=4, embedding_size=4)
T5 = T5Config(d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2, vocab_size=20)
KNOWN = [
    *(kind(**SMALL) for kind in (BertConfig, RobertaConfig, XLMRobertaConfig, MPNetConfig, DebertaConfig)),
    *(kind(**SMALL) for kind in (DebertaV2Config, RobertaPreLayerNormConfig, MegatronBertConfig)),
    ElectraConfig(**SMALL, embedding_size=4),
    DISTIL,
    MODERN,
]
POST_NORM = [
    config for config in KNOWN if config.model_type in ("bert", "roberta", "xlm-roberta", "electra", "deberta")
]
POST_NORM += [DISTIL]


def name_of(value: Any) -> str | None:
    return getattr(value, "model_type", None)


def encoder_of(config: Any) -> nn.Module:
    """An encoder with random weights, without its pooler, in evaluation mode."""
    torch.manual_seed(0)
    model: nn.Module = AutoModel.from_config(config).eval()
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


@pytest.mark.parametrize("config", KNOWN, ids=name_of)
def test_layers_are_in_the_order_of_the_forward_pass(config: Any) -> None:
    encoder = encoder_of(config)
    assert call_order(encoder, list(encoder_layers(encoder, "PALs"))) == [0, 1, 2]


WITHOUT_A_LIST = {"albert", "flaubert", "squeezebert", "xlm", "xlnet"}


def outside_parameters(encoder: nn.Module) -> dict[str, nn.Parameter]:
    inside = {id(parameter) for layer in encoder_layers(encoder, "PALs") for parameter in layer.parameters()}
    return {name: parameter for name, parameter in encoder.named_parameters() if id(parameter) not in inside}


def reached_before_the_end(encoder: nn.Module) -> dict[str, bool | None]:
    """Whether the output of the last layer depends on each parameter outside the layers; None if no output does."""
    encoder.requires_grad_(True)  # RoFormer's positions are fixed
    outputs: list[Any] = []
    handle = encoder_layers(encoder, "PALs")[-1].register_forward_hook(lambda *call: outputs.append(call[2]))
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


@pytest.mark.parametrize("family", FAMILIES)
def test_every_parameter_belongs_to_the_embeddings_a_layer_or_what_comes_after_or_the_family_is_refused(
    family: str,
) -> None:
    encoder = encoder_of(small_default(family))
    if family in WITHOUT_A_LIST:
        with pytest.raises(
            ValueError, match=rf"^layer rates must be used with .*, not with {type(encoder).__name__}: "
        ):
            layer_of(encoder, "layer rates")
        return
    numbers = layer_of(encoder, "layer rates")
    assert list(numbers) == [name for name, _ in encoder.named_parameters()]
    layers = encoder_layers(encoder, "PALs")
    for number, layer in enumerate(layers):
        own = {id(parameter) for parameter in layer.parameters()}
        assert {numbers[name] for name, parameter in encoder.named_parameters() if id(parameter) in own} == {number}
    for name, is_before in reached_before_the_end(encoder).items():
        if is_before is not None:
            beside = 0 if name.startswith("encoder.conv.") else EMBEDDINGS
            assert numbers[name] == (beside if is_before else len(layers) - 1), name


def test_a_final_norm_is_of_the_last_layer() -> None:
    """One for each name that a final norm has."""
    found = {}
    for family in FAMILIES:
        if family not in WITHOUT_A_LIST:
            encoder = encoder_of(small_default(family))
            numbers = layer_of(encoder, "layer rates")
            found[family] = {name for name in outside_parameters(encoder) if numbers[name] == 2 and "weight" in name}
    assert {family: names for family, names in found.items() if names} == {
        "eurobert": {"norm.weight"},
        "esm": {"encoder.emb_layer_norm_after.weight", "contact_head.regression.weight"},
        "gemma": {"norm.weight"},
        "gemma3_text": {"norm.weight"},
        "megatron-bert": {"encoder.ln.weight"},
        "modernbert": {"final_norm.weight"},
        "roberta-prelayernorm": {"LayerNorm.weight"},
        "ultrabert": {"norm.weight"},
        "xlm-roberta-xl": {"encoder.LayerNorm.weight"},
    }


def test_a_parameter_at_an_unknown_place_is_refused_by_name() -> None:
    encoder = encoder_of(BERT)
    encoder.register_module("adapter", nn.Linear(2, 2))
    with pytest.raises(ValueError, match=r"^layer rates must .*, not with BertModel: its adapter\.weight is not known"):
        check_fits(BASE.override({"optimizer.layer_decay": 0.9}), encoder)
    with pytest.raises(ValueError, match=r"^encoder\.trained_layers must .*: its adapter\.weight is not known"):
        freeze(encoder, (0,))
    check_fits(BASE, encoder)


@pytest.mark.parametrize("config", [ALBERT, T5], ids=name_of)
def test_an_architecture_without_a_list_of_layers_is_refused_by_name(config: Any) -> None:
    encoder = encoder_of(config)
    rule = rf"^PALs must be used with .*, not with {type(encoder).__name__}: it has no known list of layers$"
    with pytest.raises(ValueError, match=rule):
        encoder_layers(encoder, "PALs")
    with pytest.raises(ValueError, match=r"^layer rates must be used with "):
        check_fits(BASE.override({"optimizer.layer_decay": 0.9}), encoder)
    check_fits(BASE.override({"encoder.trained_layers": ()}), encoder)
    check_fits(BASE, encoder)


def test_an_empty_list_of_layers_is_refused() -> None:
    with pytest.raises(ValueError, match="not with BertModel"):
        encoder_layers(encoder_of(BertConfig(**{**SMALL, "num_hidden_layers": 0})), "PALs")


def trained(encoder: nn.Module) -> set[int]:
    """Numbers of the trained layers; the parameters of a layer must be all trained or all frozen."""
    numbers, states = layer_of(encoder, "it"), dict[int, set[bool]]()
    for name, parameter in encoder.named_parameters():
        states.setdefault(numbers[name], set()).add(parameter.requires_grad)
    assert all(len(state) == 1 for state in states.values())
    return {number for number, state in states.items() if state == {True}}


@pytest.mark.parametrize(
    ("layers", "expected"), [(None, {-1, 0, 1, 2}), ((), set()), ((1,), {1}), ((2, 0), {0, 2}), ((0, 1, 2), {0, 1, 2})]
)
@pytest.mark.parametrize("config", [BERT, DISTIL, MODERN], ids=name_of)
def test_only_the_named_layers_are_trained(layers: tuple[int, ...] | None, expected: set[int], config: Any) -> None:
    encoder = encoder_of(config)
    freeze(encoder, layers)
    assert trained(encoder) == expected


def test_any_encoder_can_be_frozen_whole_but_not_in_part() -> None:
    encoder = encoder_of(ALBERT)
    freeze(encoder, None)
    assert all(parameter.requires_grad for parameter in encoder.parameters())
    freeze(encoder, ())
    assert not any(parameter.requires_grad for parameter in encoder.parameters())
    with pytest.raises(ValueError, match="not with AlbertModel"):
        freeze(encoder, (0,))


@pytest.mark.parametrize("config", POST_NORM, ids=name_of)
def test_norms_of_pals_are_attention_first_in_each_layer(config: Any) -> None:
    encoder = encoder_of(config)
    pairs = zip(norms_of(encoder, "attention"), norms_of(encoder, "layer"), strict=True)
    assert call_order(encoder, [norm for pair in pairs for norm in pair]) == list(range(6))


@pytest.mark.parametrize("placement", ["attention", "layer"])
@pytest.mark.parametrize("config", [MODERN, MOBILE, RobertaPreLayerNormConfig(**SMALL)], ids=name_of)
def test_pals_are_refused_where_a_layer_lacks_the_norm(config: Any, placement: str) -> None:
    encoder = encoder_of(config)
    changes = {"pals.size": 4, "pals.num_heads": 2, "pals.placement": placement, "pals.tasks": ["sst"]}
    rule = (
        rf"^PALs with pals.placement {placement} must .*, not with {type(encoder).__name__}: its layers have no known"
    )
    with pytest.raises(ValueError, match=rule):
        check_fits(BASE.override(changes), encoder)
    check_fits(BASE.override({**changes, "pals.size": 0}), encoder)


@pytest.mark.parametrize("key", ["encoder.trained_layers", "tasks.qqp.chosen_layers"])
def test_layer_numbers_must_exist_in_the_encoder(key: str) -> None:
    encoder = encoder_of(BERT)
    check_fits(BASE.override({key: [0, 2]}), encoder)
    with pytest.raises(ValueError, match=rf"^{key} must be layers of the encoder, 0 to 2, got 3$"):
        check_fits(BASE.override({key: [0, 3, 4]}), encoder)


def test_layers_of_untrained_tasks_are_not_checked() -> None:
    check_fits(BASE.override({"tasks.sts.chosen_layers": [3]}), encoder_of(BERT))


@pytest.mark.parametrize("key", ["layer_decay", "chosen_scale", "other_scale"])
def test_layer_rates_are_needed_where_one_of_three_settings_is_not_1(key: str) -> None:
    assert not has_layer_rates(BASE.optimizer)
    assert has_layer_rates(BASE.override({f"optimizer.{key}": 0.5, "tasks.sst.chosen_layers": [0]}).optimizer)
