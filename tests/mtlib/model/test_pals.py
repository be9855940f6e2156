"""Projected attention: values against slow loops, both placements by hand, removal of hooks."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from scipy.stats import kstest
from torch import Tensor, nn
from transformers import AutoModel, BertConfig, DebertaConfig, DistilBertConfig, ModernBertConfig, RobertaConfig

from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from mtlib.model.encoder import PretrainedEncoder, build_encoder
from mtlib.model.pals import LowRank, Pals, beside_layers, make_pals

BASE = TrialConfig(stages=(StageConfig(tasks=("sst", "qqp", "sts")),)).override(
    {"pals.size": 8, "pals.num_heads": 2, "pals.tasks": ["sst", "qqp"]}
)
WIDTH, LAYERS = 32, 2
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 40}
DISTIL = DistilBertConfig(dim=32, n_layers=2, n_heads=4, hidden_dim=64, vocab_size=40)
IDS = torch.tensor([[2, 7, 8, 9, 3], [2, 11, 3, 0, 0]])
MASK = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
PLACEMENTS = ("attention", "layer")
FUNCTIONS = ("attention", "identity", "low_rank")


@pytest.fixture
def encoder(tiny_encoder: PretrainedEncoder, tiny_config: TrialConfig) -> nn.Module:
    return build_encoder(tiny_encoder, tiny_config.encoder).eval()


def large_pals(changes: dict[str, Any] | None = None, scale: float = 20.0) -> Any:
    """Modules with large weights, so that attention is far from uniform, and biases other than 0."""
    pals = make_pals(BASE.override(changes or {}), "sst", WIDTH, LAYERS)
    stream = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for name, parameter in pals.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(0, 0.1, generator=stream)
            parameter.mul_(scale)
    return pals


def states(encoder: nn.Module, pals: Pals | LowRank | None = None, ids: Tensor = IDS, mask: Tensor = MASK) -> Tensor:
    """Hidden states of a pass, with the modules if given."""
    if pals is None:
        hidden: Tensor = encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        return hidden
    with beside_layers(pals, encoder, mask):
        return states(encoder, None, ids, mask)


def attention_by_hand(pals: Pals, layer: int, hidden: Tensor, mask: Tensor) -> Tensor:
    """TS(h) with a loop over rows, heads and tokens."""
    v_e, v_d = pals.down.weight, pals.up.weight
    mixing: Any = pals.mixing[layer]
    size, width = len(v_e), len(v_e) // pals.num_heads
    q_matrix, k_matrix, v_matrix = mixing.weight[:size], mixing.weight[size : 2 * size], mixing.weight[2 * size :]
    result = torch.zeros_like(hidden)
    for row in range(len(hidden)):
        real = [token for token in range(hidden.shape[1]) if mask[row, token]]
        small = [v_e @ hidden[row, token] for token in range(hidden.shape[1])]
        for token in range(hidden.shape[1]):
            heads = []
            for head in range(pals.num_heads):
                part = slice(head * width, (head + 1) * width)
                query = (q_matrix @ small[token])[part]
                scores = [float(query @ (k_matrix @ small[other])[part]) / math.sqrt(width) for other in real]
                total = sum(math.exp(score) for score in scores)
                weighted = [
                    math.exp(s) / total * (v_matrix @ small[o])[part] for s, o in zip(scores, real, strict=True)
                ]
                heads.append(torch.stack(weighted).sum(0))
            result[row, token] = v_d @ torch.cat(heads)
    return result


@pytest.mark.parametrize("num_heads", [1, 2, 4])
def test_attention_matches_a_slow_loop(num_heads: int) -> None:
    pals = large_pals({"pals.num_heads": num_heads})
    hidden = torch.randn(2, 5, WIDTH, generator=torch.Generator().manual_seed(1))
    for layer in range(LAYERS):
        with torch.no_grad():
            expected = attention_by_hand(pals, layer, hidden, MASK)
            assert torch.allclose(pals(layer, hidden, MASK.bool()), expected, rtol=1e-4, atol=1e-4)
            assert expected.abs().max() > 1


def test_identity_pals_have_two_matrices() -> None:
    pals, hidden = large_pals({"pals.function": "identity"}), torch.randn(2, 5, WIDTH)
    for layer in range(LAYERS):
        expected = hidden @ pals.down.weight.T @ pals.up.weight.T
        assert torch.allclose(pals(layer, hidden, MASK.bool()), expected, atol=1e-4)
    assert {name for name, _ in pals.named_parameters()} == {"down.weight", "up.weight"}


def test_low_rank_layers_match_a_slow_loop() -> None:
    pals, hidden = large_pals({"pals.function": "low_rank"}), torch.randn(2, 5, WIDTH)
    for layer in range(LAYERS):
        weights = {name: pals.get_parameter(name) for name, _ in pals.named_parameters() if f".{layer}." in name}
        v_e, b_e, v_d, b_d = (
            weights[f"{part}.{layer}.{kind}"] for part in ("down", "up") for kind in ("weight", "bias")
        )
        with torch.no_grad():
            found = pals(layer, hidden, MASK.bool())
            for row, token in itertools.product(range(2), range(5)):
                small = v_e @ hidden[row, token] + b_e
                gelu = torch.tensor([x * (1 + math.erf(x / math.sqrt(2))) / 2 for x in small.tolist()])
                assert torch.allclose(found[row, token], v_d @ gelu + b_d, rtol=1e-4, atol=1e-4)
        assert found.abs().max() > 1


@pytest.mark.parametrize("function", ["identity", "low_rank"])
def test_low_rank_layers_accept_a_size_not_divisible_by_the_heads(function: str) -> None:
    pals = large_pals({"pals.function": function, "pals.size": 3, "pals.num_heads": 2})
    assert pals(0, torch.randn(1, 4, WIDTH), torch.ones(1, 4).bool()).shape == (1, 4, WIDTH)


def layer_by_hand(layer: Any, hidden: Tensor, mask: Tensor, added: Tensor, placement: str) -> Tensor:
    """A BERT layer from its submodules, with TS(h) added as in the formula."""
    bias = torch.where(mask.bool(), 0.0, -1e9)[:, None, None, :]
    attended = layer.attention.output.dense(layer.attention.self(hidden, bias)[0])
    inside, outside = (added, 0) if placement == "attention" else (0, added)
    a = layer.attention.output.LayerNorm(hidden + attended + inside)
    result: Tensor = layer.output.LayerNorm(a + layer.output.dense(layer.intermediate(a)) + outside)
    return result


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_pass_matches_layers_assembled_by_hand(placement: str, function: str, encoder: Any) -> None:
    pals = large_pals({"pals.placement": placement, "pals.function": function}, scale=5.0)
    with torch.no_grad():
        hidden = encoder.embeddings(input_ids=IDS)
        for number, layer in enumerate(encoder.encoder.layer):
            added = pals(number, hidden, MASK.bool())
            hidden = layer_by_hand(layer, hidden, MASK, added, placement)
        assert torch.allclose(states(encoder, pals), hidden, atol=1e-5)
        assert (states(encoder) - hidden).abs().max() > 0.1


def test_the_two_placements_differ(encoder: nn.Module) -> None:
    first, second = (states(encoder, large_pals({"pals.placement": placement})) for placement in PLACEMENTS)
    assert not torch.allclose(first, second, atol=1e-2)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize(
    "config",
    [BertConfig(**SMALL), RobertaConfig(**SMALL, pad_token_id=0), DebertaConfig(**SMALL), DISTIL],
    ids=lambda config: config.model_type,
)
def test_zero_initialised_modules_change_nothing_in_any_architecture(
    config: Any, placement: str, function: str
) -> None:
    torch.manual_seed(0)
    encoder = AutoModel.from_config(config).eval()
    changes = {"pals.placement": placement, "pals.function": function}
    zero = make_pals(BASE.override({**changes, "pals.zero_start": True}), "sst", WIDTH, LAYERS)
    assert torch.equal(states(encoder, zero), states(encoder))
    assert not torch.allclose(states(encoder, large_pals(changes)), states(encoder), atol=1e-2)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_zero_initialised_modules_learn(function: str, encoder: nn.Module) -> None:
    pals = make_pals(BASE.override({"pals.zero_start": True, "pals.function": function}), "sst", WIDTH, LAYERS)
    optimizer = torch.optim.SGD(pals.parameters(), lr=1.0)
    before = {name: value.detach().clone() for name, value in pals.named_parameters()}
    moved = []
    for _ in range(2):
        optimizer.zero_grad()
        torch.autograd.backward(states(encoder, pals)[:, 0, 0].sum())
        optimizer.step()
        moved.append({name for name, value in pals.named_parameters() if not torch.equal(value, before[name])})
    assert moved == [{name for name in before if name.startswith("up.")}, set(before)]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_padding_does_not_change_the_states_of_text(placement: str, function: str, encoder: nn.Module) -> None:
    pals = large_pals({"pals.placement": placement, "pals.function": function})
    alone = states(encoder, pals, IDS[1:, :3], MASK[1:, :3])
    assert torch.allclose(states(encoder, pals)[1:, :3], alone, atol=1e-5)


def test_the_papers_modules_for_eight_tasks_have_0_13_times_the_weights_of_bert() -> None:
    config = BASE.override({"pals.size": 204, "pals.num_heads": 12})
    pals = make_pals(config, "sst", 768, 12)
    count = sum(parameter.numel() for parameter in pals.parameters())
    assert count == 2 * 768 * 204 + 12 * 3 * 204**2 == 1_811_520
    with torch.device("meta"):
        bert = sum(parameter.numel() for parameter in AutoModel.from_config(BertConfig()).parameters())
    assert round(1 + 8 * count / bert, 2) == 1.13  # Stickland and Murray 2019


def test_low_rank_layers_have_as_many_weights_as_in_the_authors_code() -> None:
    # In the code of Stickland and Murray: 12 times nn.Linear(768, 100) and nn.Linear(100, 768), low_rank_config.json.
    own = make_pals(BASE.override({"pals.size": 100, "pals.function": "low_rank"}), "sst", 768, 12)
    counts = {"weight": 0, "bias": 0}
    for name, parameter in own.named_parameters():
        counts[name.split(".")[-1]] += parameter.numel()
    assert counts == {"weight": 12 * 2 * 768 * 100, "bias": 12 * (100 + 768)}
    assert [f"{counts['weight'] / 1e6:.2f}", f"{sum(counts.values()) / 1e6:.2f}"] == ["1.84", "1.85"]
    shared = make_pals(BASE.override({"pals.size": 100, "pals.function": "identity"}), "sst", 768, 12)
    assert sum(parameter.numel() for parameter in shared.parameters()) == 2 * 768 * 100  # .15 million


def test_layers_of_a_task_share_only_the_two_projections() -> None:
    shapes = {name: tuple(value.shape) for name, value in large_pals().state_dict().items()}
    assert shapes == {
        "down.weight": (8, 32),
        "up.weight": (32, 8),
        "mixing.0.weight": (24, 8),
        "mixing.1.weight": (24, 8),
    }


def test_low_rank_layers_share_nothing() -> None:
    shapes = {
        name: tuple(value.shape) for name, value in large_pals({"pals.function": "low_rank"}).state_dict().items()
    }
    assert shapes == {
        f"{part}.{layer}.{name}": shape
        for layer in range(2)
        for part, kinds in (
            ("down", {"weight": (8, 32), "bias": (8,)}),
            ("up", {"weight": (32, 8), "bias": (32,)}),
        )
        for name, shape in kinds.items()
    }


@pytest.mark.parametrize(("function", "part"), [("attention", "mixing"), ("low_rank", "down"), ("low_rank", "up")])
def test_a_change_in_one_layer_does_not_affect_the_layers_below(function: str, part: str, encoder: Any) -> None:
    pals = large_pals({"pals.function": function})

    def both() -> tuple[Tensor, Tensor]:
        with torch.no_grad(), beside_layers(pals, encoder, MASK):
            found = encoder(input_ids=IDS, attention_mask=MASK, output_hidden_states=True).hidden_states
        return found[1], found[2]

    before = both()
    with torch.no_grad():
        pals.get_parameter(f"{part}.1.weight").mul_(-2)
    after = both()
    assert torch.equal(after[0], before[0])
    assert not torch.allclose(after[1], before[1], atol=1e-2)


def num_hooks(encoder: nn.Module) -> int:
    return sum(len(module._forward_pre_hooks) + len(module._forward_hooks) for module in encoder.modules())


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_no_hook_remains_after_a_pass_or_an_error(placement: str, encoder: nn.Module) -> None:
    pals, before, plain = large_pals({"pals.placement": placement}), num_hooks(encoder), states(encoder)
    states(encoder, pals)
    assert num_hooks(encoder) == before
    with beside_layers(pals, encoder, MASK):
        assert num_hooks(encoder) == before + 2 * LAYERS
    rule = "^PALs need layers that keep the number of tokens, which BertLayer does not, got 5 for 2$"
    with pytest.raises(ValueError, match=rule), beside_layers(pals, encoder, MASK[:, :2]):  # a mask of the wrong shape
        encoder(input_ids=IDS, attention_mask=MASK)
    assert num_hooks(encoder) == before
    assert torch.equal(states(encoder), plain)


def test_passes_of_two_tasks_do_not_affect_each_other(encoder: nn.Module) -> None:
    first, second = large_pals(), make_pals(BASE, "qqp", WIDTH, LAYERS)
    expected = states(encoder, first), states(encoder, second)
    assert not torch.equal(*expected)
    with beside_layers(first, encoder, MASK):
        assert torch.equal(states(encoder), expected[0])
        assert torch.equal(states(encoder), expected[0])
    assert torch.equal(states(encoder, second), expected[1])


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_bf16_passes_are_close_with_gradients_in_full_precision(
    placement: str, function: str, encoder: nn.Module
) -> None:
    pals = large_pals({"pals.placement": placement, "pals.function": function}, scale=5.0)
    full = states(encoder, pals).detach()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = states(encoder, pals)
    torch.autograd.backward(half.float()[:, 0].square().sum())
    assert torch.allclose(half.float(), full, atol=0.15)
    assert all(parameter.grad is not None and parameter.grad.dtype == torch.float32 for parameter in pals.parameters())


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_modules_have_no_dropout(function: str) -> None:
    pals, hidden = large_pals({"pals.function": function}).train(), torch.randn(2, 5, WIDTH)
    assert torch.equal(pals(0, hidden, MASK.bool()), pals(0, hidden, MASK.bool()))


def test_an_architecture_with_pre_layer_norm_is_refused_by_name() -> None:
    special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}
    encoder = AutoModel.from_config(ModernBertConfig(**SMALL, **special))
    with (
        pytest.raises(ValueError, match=r"^PALs with pals.placement attention .*, not with ModernBertModel"),
        beside_layers(large_pals(), encoder, MASK),
    ):
        pass


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("zero_start", [False, True])
def test_weights_are_normal_with_deviation_0_02_except_for_a_zero_start(zero_start: bool, function: str) -> None:
    changes = {"pals.size": 60, "pals.zero_start": zero_start, "pals.function": function}
    pals = make_pals(BASE.override(changes), "sst", 100, 2)
    for name, value in pals.state_dict().items():
        if name.endswith("bias") or (zero_start and name.startswith("up.")):
            assert not value.any()
        else:
            assert kstest(value.flatten().numpy(), "norm", args=(0, 0.02)).pvalue > 1e-3, name


def values_of(config: TrialConfig, task: str = "sst", layers: int = LAYERS) -> list[float]:
    return [float(value.flatten()[0]) for value in make_pals(config, task, WIDTH, layers).state_dict().values()]


@pytest.mark.parametrize(
    "other",
    [
        lambda: values_of(BASE, "qqp"),
        lambda: values_of(BASE.override({"seed": 1})),
        lambda: values_of(BASE.override({"replicate": 1})),
    ],
    ids=["task", "seed", "replicate"],
)
def test_every_matrix_of_every_task_seed_and_replicate_has_its_own_stream(
    other: Callable[[], list[float]],
) -> None:
    assert len({*values_of(BASE), *other()}) == 8


def test_every_low_rank_matrix_has_its_own_stream() -> None:
    low_rank = BASE.override({"pals.function": "low_rank"})
    first = [value for config in (low_rank, low_rank.override({"seed": 1})) for value in values_of(config) if value]
    assert len({*first, *values_of(BASE)}) == 2 * 4 + 4
    assert values_of(low_rank, layers=3)[:4] == values_of(low_rank)[:4]


def test_weights_depend_on_task_and_seed_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    before = values_of(BASE)
    assert torch.equal(torch.rand(3), expected)
    inert = {"optimizer.learning_rate": 1e-3, "tasks.sst.batch_size": 4, "pals.tasks": ["sst"], "pals.zero_start": True}
    assert values_of(BASE.override(inert)) == [0 if index == 1 else value for index, value in enumerate(before)]
    assert values_of(BASE, layers=3)[:4] == before
