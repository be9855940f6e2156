"""The network against the hidden states of transformers and heads by hand; embeddings, shared modules."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers import (
    AutoModel,
    BertConfig,
    DistilBertConfig,
    PreTrainedTokenizerFast,
    RobertaConfig,
    T5Config,
    XLNetTokenizer,
)

from mtlib.config.network import Encoding
from mtlib.config.trial import TrialConfig
from mtlib.data.batches import Batch, Inputs, make_batch
from mtlib.data.tables import Table
from mtlib.data.token_cache import Corpus, tokenize
from mtlib.model.encoder import PretrainedEncoder, embedding_layer
from mtlib.model.heads import compare_texts
from mtlib.model.multitask import MultiTaskModel, pooled
from tests.architectures import ENCODERS, NOT_ENTERED
from tests.architectures import untrained as random_encoder

ENCODED = ("sst single", "qqp cross", "qqp bi", "sts cross", "sts bi")
SMALL = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16, "vocab_size": 40}
OTHERS = {
    "bert": BertConfig(**SMALL, max_position_embeddings=40),
    "one segment": BertConfig(**SMALL, max_position_embeddings=40, type_vocab_size=1),
    "roberta": RobertaConfig(**SMALL, max_position_embeddings=40, type_vocab_size=1),
    "distilbert": DistilBertConfig(dim=16, n_layers=1, n_heads=2, hidden_dim=16, vocab_size=40),
}


def batch_of(config: TrialConfig, corpus: Corpus, task: str, rows: int = 6) -> Batch:
    """The first rows of a task's train."""
    return make_batch(
        corpus[task, "train"],
        np.arange(rows),
        encoding=config.tasks[task].encoding,
        max_length=config.encoder.max_length,
    )


@pytest.fixture(params=ENCODED)
def prepared(
    request: pytest.FixtureRequest, tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder
) -> tuple[MultiTaskModel, Batch]:
    """The tiny model in evaluation mode and a batch, in every encoding."""
    task, encoding = request.param.split()
    config = tiny_config.override({f"tasks.{task}.encoding": encoding})
    model = MultiTaskModel(config, tiny_encoder).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(5 if parameter.dim() > 1 else 1)  # so that logits differ between texts
    return model, batch_of(config, tiny_corpus, task)


def states_of(model: MultiTaskModel, inputs: Inputs) -> tuple[Tensor, ...]:
    """All hidden states of one input in transformers, from the input of the first layer to the last."""
    states: tuple[Tensor, ...] = model.encoder(
        input_ids=inputs.input_ids,
        attention_mask=inputs.attention_mask,
        token_type_ids=inputs.token_type_ids,
        output_hidden_states=True,
    ).hidden_states
    return states


@torch.no_grad()
def test_logits_are_a_linear_layer_by_hand_on_the_states_of_the_first_token(
    prepared: tuple[MultiTaskModel, Batch],
) -> None:
    model, batch = prepared
    first = torch.cat([states_of(model, inputs)[-1][:, 0] for inputs in batch.inputs], dim=1)
    weight, bias = (model.get_parameter(f"heads.{batch.task}.{part}") for part in ("weight", "bias"))
    output = model(batch)
    assert torch.allclose(output.logits, first @ weight.T + bias, atol=1e-5)
    assert output.logits.shape == (6, {"sst": 5, "qqp": 1, "sts": 1}[batch.task])
    assert output.embeddings == ()
    assert output.logits.std(0).min() > 0.01  # so that a wrong order fails


@torch.no_grad()
def test_keeping_embeddings_changes_no_logit_and_gives_the_input_of_the_first_layer(
    prepared: tuple[MultiTaskModel, Batch],
) -> None:
    model, batch = prepared
    kept = model(batch, keep=True)
    assert torch.equal(kept.logits, model(batch).logits)
    assert len(kept.embeddings) == len(batch.inputs)
    for embedded, inputs in zip(kept.embeddings, batch.inputs, strict=True):
        assert torch.equal(embedded, states_of(model, inputs)[0])


@torch.no_grad()
def test_passing_embeddings_equals_the_plain_pass(prepared: tuple[MultiTaskModel, Batch]) -> None:
    model, batch = prepared
    plain, kept = model(batch), model(batch, keep=True).embeddings
    for keep in (False, True):
        again = model(batch, embeddings=kept, keep=keep)
        assert torch.equal(again.logits, plain.logits)
        assert len(again.embeddings) == (len(kept) if keep else 0)
        assert all(torch.equal(one, other) for one, other in zip(again.embeddings, kept, strict=False))


@torch.no_grad()
def test_each_passed_embedding_replaces_its_own_input(prepared: tuple[MultiTaskModel, Batch]) -> None:
    torch.manual_seed(0)
    model, batch = prepared
    plain, kept = model(batch).logits, model(batch, keep=True).embeddings
    for index in range(len(kept)):
        moved = [text + (place == index) * torch.randn_like(text) for place, text in enumerate(kept)]
        output = model(batch, embeddings=moved, keep=True)
        assert (output.logits - plain).abs().amax(1).min() > 1e-3
        assert all(torch.equal(one, other) for one, other in zip(output.embeddings, moved, strict=True))
        assert torch.equal(model(batch).logits, plain)  # and only in that pass


def test_keeping_embeddings_does_not_change_dropout(prepared: tuple[MultiTaskModel, Batch]) -> None:
    model, batch = prepared
    model.train()
    logits = []
    for keep in (False, True, False):
        torch.manual_seed(3)
        logits.append(model(batch, keep=keep).logits)
    assert torch.equal(logits[0], logits[1])
    assert torch.equal(logits[0], logits[2])
    assert not torch.equal(logits[0], model(batch).logits)


def test_kept_embeddings_are_differentiable(prepared: tuple[MultiTaskModel, Batch]) -> None:
    model, batch = prepared
    output = model(batch, keep=True)
    for embedded in output.embeddings:
        (gradient,) = torch.autograd.grad(output.logits.sum(), embedded, retain_graph=True)
        assert (gradient.abs().amax(dim=(1, 2)) > 0).all()
    words = model.get_parameter("encoder.embeddings.word_embeddings.weight")
    (gradient,) = torch.autograd.grad(sum(part.sum() for part in output.embeddings), words)
    assert gradient.abs().max() > 0


def test_no_hook_remains_after_an_error_of_the_encoder(
    prepared: tuple[MultiTaskModel, Batch], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, batch = prepared
    model(batch, keep=True)
    layer = embedding_layer(model.encoder)
    assert not layer._forward_hooks

    def fail(*_arguments: Any, **_named: Any) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(model, "has_bert_layers", False)
    monkeypatch.setattr(model.get_submodule("encoder.encoder"), "forward", fail)
    with pytest.raises(RuntimeError, match="out of memory"):
        model(batch, keep=True)
    assert not layer._forward_hooks


def test_only_the_head_of_the_batch_gets_a_gradient(prepared: tuple[MultiTaskModel, Batch]) -> None:
    model, batch = prepared
    model(batch).logits.sum().backward()
    heads = {name for name, parameter in model.heads.named_parameters() if parameter.grad is not None}
    assert heads == {f"{batch.task}.weight", f"{batch.task}.bias"}
    assert model.get_parameter("encoder.embeddings.word_embeddings.weight").grad is not None


def test_only_active_tasks_have_a_head(tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder) -> None:
    assert set(MultiTaskModel(tiny_config, tiny_encoder).heads) == {"sst", "qqp", "sts"}
    one = tiny_config.override({"stages.1.tasks": "qqp"})
    assert set(MultiTaskModel(one, tiny_encoder).heads) == {"qqp"}


@pytest.mark.parametrize(("setting", "probability"), [(None, 0.1), (0, 0.0), (0.25, 0.25)])
def test_the_heads_dropout_is_the_setting_or_that_of_the_encoder(
    setting: float | None, probability: float, tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder
) -> None:
    assert tiny_encoder.config.hidden_dropout_prob == 0.1
    model = MultiTaskModel(tiny_config.override({"encoder.dropout": setting}), tiny_encoder)
    assert model.dropout.p == probability


def test_dropout_precedes_the_head(
    tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder
) -> None:
    model = MultiTaskModel(tiny_config, tiny_encoder).eval()
    seen: list[Tensor] = []
    model.heads["sst"].register_forward_hook(lambda _module, given, _output: seen.append(given[0][0]))
    model.dropout.train()
    model.dropout.p = 0.5
    model(batch_of(tiny_config, tiny_corpus, "sst", 30))
    assert 0.4 < (seen[0] == 0).float().mean() < 0.6


def test_dropout_comes_after_the_comparison_of_a_pairs_texts(
    tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder
) -> None:
    config = tiny_config.override({"tasks.qqp.encoding": "cross_and_bi", "encoder.dropout": 0.25})
    model, stream = MultiTaskModel(config, tiny_encoder), torch.Generator().manual_seed(0)
    pair, first, second = (torch.randn(500, tiny_encoder.config.hidden_size, generator=stream) for _ in range(3))
    _, difference, _ = model.train().head_inputs("qqp", torch.stack((pair, first, first), dim=1))
    assert (difference == 0).all()  # with masks of their own equal texts differ

    vectors = torch.stack((pair, first, second), dim=1)
    torch.manual_seed(0)
    dropped = torch.cat(model.head_inputs("qqp", vectors), dim=1)
    kept = torch.cat(model.eval().head_inputs("qqp", vectors), dim=1)
    assert torch.allclose(kept, torch.cat((pair, *compare_texts(first, second)), dim=1))
    is_kept = dropped != 0
    assert is_kept.float().mean().item() == pytest.approx(0.75, abs=0.01)
    assert torch.allclose(dropped[is_kept], kept[is_kept] / 0.75, atol=1e-6)


def untrained(config: Any) -> PretrainedEncoder:
    """An encoder of any architecture with random weights."""
    torch.manual_seed(0)
    weights = {key: part for key, part in AutoModel.from_config(config).state_dict().items() if "pooler" not in key}
    return PretrainedEncoder(
        name="random", config=config, weights=weights, tokenizer=None, fingerprint="", max_length=38
    )


def random_batch(seed: int = 0) -> Batch:
    """Pairs of word pieces with both segments."""
    ids = torch.randint(5, 40, (4, 10), generator=torch.Generator().manual_seed(seed))
    inputs = Inputs(
        input_ids=ids, attention_mask=torch.ones_like(ids), token_type_ids=(torch.arange(10) >= 5).long().expand(4, 10)
    )
    return Batch(
        task="qqp",
        inputs=(inputs,),
        labels=torch.zeros(4),
        rows=np.arange(4),
        num_rows=4,
        positions=np.arange(4),
        is_empty=False,
    )


@pytest.fixture
def model_of(tiny_config: TrialConfig) -> Callable[[Any], MultiTaskModel]:
    def build(config: Any) -> MultiTaskModel:
        return MultiTaskModel(tiny_config, untrained(config)).eval()

    return build


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("name", OTHERS)
def test_segments_are_passed_only_to_encoders_with_several(
    name: str, keep: bool, model_of: Callable[[Any], MultiTaskModel]
) -> None:
    model, batch = model_of(OTHERS[name]), random_batch()
    given: list[dict[str, Any]] = []
    embeddings = embedding_layer(model.encoder)
    embeddings.register_forward_pre_hook(lambda _module, _plain, named: given.append(named), with_kwargs=True)
    model(batch, keep=keep)
    segments = given[0].get("token_type_ids")
    assert (segments is not None) == (name == "bert")
    if segments is not None:
        assert torch.equal(segments, batch.inputs[0].token_type_ids)


@torch.no_grad()
@pytest.mark.parametrize("name", OTHERS)
def test_other_encoders_accept_embeddings_like_bert(name: str, model_of: Callable[[Any], MultiTaskModel]) -> None:
    model, batch = model_of(OTHERS[name]), random_batch()
    kept = model(batch, keep=True)
    assert torch.equal(kept.logits, model(batch).logits)
    assert torch.equal(model(batch, embeddings=kept.embeddings).logits, kept.logits)


@torch.no_grad()
@pytest.mark.parametrize("name", [name for name in ENCODERS if name not in NOT_ENTERED])
def test_passing_embeddings_changes_nothing_in_any_encoder_with_an_entry_for_noise(
    name: str, tiny_config: TrialConfig, bert_tokenizer: PreTrainedTokenizerFast
) -> None:
    encoder, batch = random_encoder(ENCODERS[name], bert_tokenizer), random_batch()
    model = MultiTaskModel(tiny_config.override({"encoder.dropout": None}), encoder).eval()
    kept = model(batch, keep=True)
    assert torch.equal(model(batch, embeddings=kept.embeddings).logits, kept.logits)
    assert (model(batch).logits - model(random_batch(seed=1)).logits).abs().min() > 0


def test_padding_and_segments_reach_the_encoder(
    tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder
) -> None:
    model = MultiTaskModel(tiny_config, tiny_encoder).eval()
    whole = batch_of(tiny_config, tiny_corpus, "qqp", 20)
    lengths = whole.inputs[0].attention_mask.sum(1)
    shortest = int(lengths.argmin())
    alone = make_batch(
        tiny_corpus["qqp", "train"],
        np.array([shortest]),
        encoding="cross",
        max_length=32,
    )
    assert alone.inputs[0].input_ids.shape[1] < whole.inputs[0].input_ids.shape[1]
    with torch.no_grad():
        assert torch.allclose(model(whole).logits[shortest], model(alone).logits[0], atol=1e-6)
        segments = Inputs(
            input_ids=alone.inputs[0].input_ids,
            attention_mask=alone.inputs[0].attention_mask,
            token_type_ids=1 - alone.inputs[0].token_type_ids,
        )
        swapped = Batch(**{**vars(alone), "inputs": (segments,)})
        assert not torch.allclose(model(swapped).logits, model(alone).logits, atol=1e-6)


def test_smart_is_refused_for_an_encoder_without_an_entry_for_noise(tiny_config: TrialConfig) -> None:
    without = untrained(T5Config(d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2, vocab_size=40))
    plain = tiny_config.override({"encoder.dropout": None, "smart.weight": 0})
    assert isinstance(MultiTaskModel(plain, without), nn.Module)
    with pytest.raises(ValueError, match=r"^SMART .*, not with T5Model: it has no module called 'embeddings'$"):
        MultiTaskModel(plain.override({"smart.weight": 0.1}), without)


@pytest.mark.parametrize("name", NOT_ENTERED)
def test_an_encoder_without_an_entry_for_noise_trains_without_smart(
    name: str, tiny_config: TrialConfig, bert_tokenizer: PreTrainedTokenizerFast
) -> None:
    encoder, config = random_encoder(ENCODERS[name], bert_tokenizer), tiny_config.override({"encoder.dropout": None})
    with pytest.raises(ValueError, match=r"^SMART must be used with "):
        MultiTaskModel(config, encoder)
    MultiTaskModel(config.override({"smart.weight": 0}), encoder)


def test_logits_are_fp32_under_bf16(
    tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder
) -> None:
    model, batch = MultiTaskModel(tiny_config, tiny_encoder).eval(), batch_of(tiny_config, tiny_corpus, "sst")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = model(batch).logits
    assert half.dtype == torch.float32
    assert not torch.equal(half, model(batch).logits)
    assert torch.allclose(half, model(batch).logits, atol=0.05)


def model_with_large_weights(config: TrialConfig, encoder: PretrainedEncoder) -> MultiTaskModel:
    """A model in evaluation mode with large weights, so that its logits differ strongly between texts."""
    model = MultiTaskModel(config, encoder).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(5 if parameter.dim() > 1 else 1)
    return model


@torch.no_grad()
@pytest.mark.parametrize("encoding", ["cross", "bi"])
def test_mean_pooling_matches_a_loop_over_tokens(
    encoding: str, tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder
) -> None:
    config = tiny_config.override({"tasks.qqp.pooling": "mean", "tasks.qqp.encoding": encoding})
    model, batch = model_with_large_weights(config, tiny_encoder), batch_of(config, tiny_corpus, "qqp", 12)
    vectors = model(batch).vectors
    assert vectors.shape == (12, len(batch.inputs), 32)
    for index, inputs in enumerate(batch.inputs):
        lengths = inputs.attention_mask.sum(1).tolist()
        assert len(set(lengths)) > 2
        states = states_of(model, inputs)[-1]
        for row, length in enumerate(lengths):
            mean = torch.stack([states[row, token] for token in range(length)]).mean(0)
            assert torch.allclose(vectors[row, index], mean, atol=1e-5)
    weight, bias = (model.get_parameter(f"heads.qqp.{part}") for part in ("weight", "bias"))
    assert torch.allclose(model(batch).logits, vectors.flatten(1) @ weight.T + bias, atol=1e-5)


def test_last_pooling_takes_the_last_token_before_the_padding() -> None:
    hidden, mask = torch.randn(3, 4, 8), torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0]])
    found = pooled(hidden, mask, "last", is_read_last=False)
    assert torch.equal(found, torch.stack([hidden[0, 3], hidden[1, 1], hidden[2, 0]]))


def test_padding_is_left_out_of_the_mean_and_gets_no_gradient() -> None:
    hidden = torch.randn(3, 4, 8, requires_grad=True)
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0]])
    found = pooled(hidden, mask, "mean", is_read_last=False)
    assert torch.allclose(found[1], hidden[1, :2].mean(0))
    assert torch.allclose(found[2], hidden[2, 0])
    (gradient,) = torch.autograd.grad(found.sum(), hidden)
    assert gradient[1, :2].tolist() == [[0.5] * 8] * 2
    assert not gradient[mask == 0].any()
    assert torch.equal(pooled(hidden, mask, "mean", is_read_last=True), found)


def test_a_text_is_read_at_its_first_or_its_last_token() -> None:
    hidden, mask = torch.randn(3, 4, 8), torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0]])
    assert torch.equal(pooled(hidden, mask, "cls", is_read_last=False), hidden[:, 0])
    last = torch.stack([hidden[0, 3], hidden[1, 1], hidden[2, 0]])
    assert torch.equal(pooled(hidden, mask, "cls", is_read_last=True), last)


@torch.no_grad()
@pytest.mark.parametrize("encoding", ["cross", "bi"])
def test_xlnet_is_read_at_the_token_that_transformers_reads(
    encoding: Encoding, tiny_config: TrialConfig, pair_table: Table, xlnet_tokenizer: XLNetTokenizer, tmp_path: Path
) -> None:
    encoder = random_encoder(ENCODERS["xlnet"], xlnet_tokenizer)
    config = tiny_config.override({"smart.weight": 0, "tasks.qqp.encoding": encoding})
    model = model_with_large_weights(config, encoder)
    tables = {("qqp", "train"): pair_table}
    table = tokenize(tables, xlnet_tokenizer, tmp_path)["qqp", "train"]
    batch = make_batch(table, np.arange(12), encoding=encoding, max_length=200)
    assert len({*batch.inputs[0].attention_mask.sum(1).tolist()}) > 3
    first, second = (list(texts[:12]) for texts in pair_table.texts)
    inputs: tuple[tuple[Any, ...], ...] = ((first, second),) if encoding == "cross" else ((first,), (second,))
    for index, texts in enumerate(inputs):
        own = xlnet_tokenizer(*texts, padding=True, return_token_type_ids=True, return_tensors="pt")
        assert own["attention_mask"][:, 0].sum() < 12  # left padding
        expected = model.encoder(**own).last_hidden_state[:, -1]
        assert torch.allclose(model(batch).vectors[:, index], expected, atol=1e-5)
    assert model(batch).vectors.std(0).min() > 0.01


PALS: dict[str, Any] = {"pals.size": 8, "pals.num_heads": 2, "pals.tasks": "qqp"}
ALONE: dict[str, dict[str, Any]] = {
    "mean": {"tasks.qqp.pooling": "mean"},
    "mean, bi-encoder": {"tasks.qqp.pooling": "mean", "tasks.qqp.encoding": "bi"},
    "cosine": {"tasks.qqp.head": "cosine", "tasks.qqp.encoding": "bi"},
    "pals": PALS,
    "pals beside the layer": {**PALS, "pals.placement": "layer", "tasks.qqp.pooling": "mean"},
    "relational": {"relational_tasks": "qqp,sts"},
}


@torch.no_grad()
@pytest.mark.parametrize("name", ALONE)
def test_logits_depend_neither_on_padding_nor_on_other_rows(
    name: str, tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder
) -> None:
    config = tiny_config.override(ALONE[name])
    model, table = model_with_large_weights(config, tiny_encoder), tiny_corpus["qqp", "train"]
    whole = batch_of(config, tiny_corpus, "qqp", 20)
    logits, widths = model(whole).logits, set()
    for row in range(20):
        alone = make_batch(table, np.array([row]), encoding=config.tasks["qqp"].encoding, max_length=32)
        widths.add(alone.inputs[0].input_ids.shape[1])
        assert torch.allclose(model(alone).logits[0], logits[row], atol=2e-5)
    assert len(widths) > 2
    assert logits.std() > 1e-3


def test_only_relational_tasks_use_the_relational_layer(
    tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder
) -> None:
    config = tiny_config.override(
        {"relational_tasks": "qqp,sts", "tasks.qqp.encoding": "bi", "tasks.sts.encoding": "bi"}
    )
    model = model_with_large_weights(config, tiny_encoder)
    assert {name for name in model.state_dict() if name.startswith("relational.")} == {
        "relational.weight",
        "relational.bias",
    }
    shared = [model.get_parameter(f"relational.{part}") for part in ("weight", "bias")]
    gradients, summed = [], torch.zeros(())
    for task in ("qqp", "sts"):
        batch = batch_of(config, tiny_corpus, task)
        states = torch.cat([states_of(model, inputs)[-1][:, 0] for inputs in batch.inputs], dim=1)
        weight, bias = (model.get_parameter(f"heads.{task}.{part}") for part in ("weight", "bias"))
        expected = (states @ shared[0].T + shared[1]) @ weight.T + bias
        logits = model(batch).logits
        assert torch.allclose(logits, expected, atol=1e-4)
        gradients.append(torch.autograd.grad(logits.square().sum(), shared, retain_graph=True))
        summed = summed + logits.square().sum()
    for own, other, both in zip(*gradients, torch.autograd.grad(summed, shared), strict=True):
        assert own.any()
        assert other.any()
        assert torch.allclose(own + other, both, rtol=1e-4, atol=1e-4)
    sst = model(batch_of(config, tiny_corpus, "sst")).logits.sum()
    assert [part is None for part in torch.autograd.grad(sst, shared, allow_unused=True)] == [True, True]


@torch.no_grad()
@pytest.mark.parametrize("placement", ["attention", "layer"])
def test_pals_of_a_task_do_not_change_the_other_tasks(
    placement: str, tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder
) -> None:
    config = tiny_config.override({**PALS, "pals.tasks": "qqp,sts", "pals.placement": placement})
    model, plain = model_with_large_weights(config, tiny_encoder), model_with_large_weights(tiny_config, tiny_encoder)
    assert set(model.pals) == {"qqp", "sts"}
    batches = {task: batch_of(config, tiny_corpus, task) for task in ("sst", "qqp", "sts")}
    before = {task: model(batch).logits for task, batch in batches.items()}
    assert torch.equal(before["sst"], plain(batches["sst"]).logits)
    assert not torch.allclose(before["qqp"], plain(batches["qqp"]).logits, atol=1e-3)
    for parameter in model.pals["qqp"].parameters():
        parameter.add_(torch.randn_like(parameter))
    after = {task: model(batch).logits for task, batch in batches.items()}
    assert torch.equal(after["sst"], before["sst"])
    assert torch.equal(after["sts"], before["sts"])
    assert not torch.allclose(after["qqp"], before["qqp"], atol=1e-3)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_a_step_of_a_task_changes_only_its_own_pals(
    tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder
) -> None:
    model = model_with_large_weights(tiny_config.override({**PALS, "pals.tasks": "sst,qqp"}), tiny_encoder)
    model(batch_of(tiny_config, tiny_corpus, "qqp")).logits.sum().backward()
    reached = {name.split(".")[0] for name, part in model.pals.named_parameters() if part.grad is not None}
    assert reached == {"qqp"}
    assert all(part.grad is not None for part in model.pals["qqp"].parameters())


@pytest.mark.parametrize(
    ("trained", "moving"),
    [(None, {"embeddings", "0", "1"}), ((), set()), ((1,), {"1"}), ((0, 1), {"0", "1"})],
)
def test_only_trained_layers_change(
    trained: tuple[int, ...] | None,
    moving: set[str],
    tiny_config: TrialConfig,
    tiny_corpus: Corpus,
    tiny_encoder: PretrainedEncoder,
) -> None:
    config = tiny_config.override({"encoder.trained_layers": None if trained is None else list(trained), **PALS})
    model = model_with_large_weights(config, tiny_encoder)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model(batch_of(config, tiny_corpus, "qqp")).logits.square().sum().backward()
    torch.optim.SGD([part for part in model.parameters() if part.grad is not None], lr=0.1).step()
    moved = {name for name, tensor in model.state_dict().items() if not torch.equal(tensor, before[name])}
    layers = {name.removeprefix("encoder.").removeprefix("encoder.layer.").split(".")[0] for name in moved}
    assert layers - {"heads", "pals"} == moving
    assert {"heads.qqp.weight", "pals.qqp.up.weight"} <= moved


def test_unused_modules_are_not_built(tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder) -> None:
    model = MultiTaskModel(tiny_config, tiny_encoder)
    assert (model.relational, model.projection) == (None, None)
    assert {name.split(".")[0] for name in model.state_dict()} == {"encoder", "heads"}
    inert = {"pals.tasks": "qqp", "simcse.tasks": "qqp", "proximal.tasks": "qqp"}  # their sizes and weights are 0
    assert MultiTaskModel(tiny_config.override(inert), tiny_encoder).state_dict().keys() == model.state_dict().keys()
    everything: dict[str, Any] = {**PALS, "relational_tasks": "sts", "loss_weighting": "uncertainty"}
    everything |= {"simcse.weight": 1, "simcse.tasks": "sst"}
    full = MultiTaskModel(tiny_config.override(everything), tiny_encoder)
    groups = {"encoder", "heads", "pals", "relational", "projection", "log_variances"}
    assert {name.split(".")[0] for name in full.state_dict()} == groups
    assert {f"log_variances.{task}" for task in ("sst", "qqp", "sts")} <= set(full.state_dict())
