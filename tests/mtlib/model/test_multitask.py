"""The network against the hidden states of transformers and heads by hand; embeddings, shared modules."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast, XLNetTokenizer

from mtlib.config.trial import TrialConfig
from mtlib.data.batches import Batch, Inputs, make_batch
from mtlib.data.token_cache import SIDES, Corpus
from mtlib.model.encoder import PretrainedEncoder
from mtlib.model.heads import compare_texts
from mtlib.model.multitask import MultiTaskModel, pooled
from tests.architectures import ENCODERS, untrained

ENCODED = ("sst single", "qqp cross", "sts bi")


def batch_of(config: TrialConfig, corpus: Corpus, task: str, rows: int = 6) -> Batch:
    """The first rows of a task's train."""
    return make_batch(
        corpus[task, "train"],
        np.arange(rows),
        encoding=config.tasks[task].encoding,
        max_length=config.encoder.max_length,
    )


def model_with_large_weights(config: TrialConfig, encoder: PretrainedEncoder) -> MultiTaskModel:
    """A model in evaluation mode with large weights, so that its logits differ strongly between texts."""
    model = MultiTaskModel(config, encoder).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(5 if parameter.dim() > 1 else 1)
    return model


@torch.no_grad()
@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_logits_of_several_tasks_from_one_pass_are_those_of_each(
    tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder, pooling: str
) -> None:
    """Where all are read at the first token the last layer computes no other, else it computes all."""
    changes = {"tasks.qqp.encoding": "cross", "tasks.sts.encoding": "cross", "tasks.sts.target_scale": "unit"}
    config = tiny_config.override({**changes, "tasks.qqp.pooling": "cls", "tasks.sts.pooling": pooling})
    model = model_with_large_weights(config, tiny_encoder)
    model.scale_of("sts").fit(np.array([1.0, 2.5, 4.0]))
    batch = batch_of(config, tiny_corpus, "qqp")
    for task, found in zip(("qqp", "sts"), model.logits_of_each(("qqp", "sts"), batch.inputs), strict=True):
        own = model(replace(batch, task=task)).logits
        torch.testing.assert_close(found, model.from_unit(task, own), atol=1e-4, rtol=1e-5)


def test_only_layers_of_a_tasks_own_keep_it_from_sharing_a_pass(
    tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder
) -> None:
    config = tiny_config.override({"pals.size": 8, "pals.num_heads": 2, "pals.tasks": ["sts"]})
    model = MultiTaskModel(config, tiny_encoder)
    assert [model.layers_of(task) for task in ("sst", "qqp", "sts")] == [None, None, "sts"]


@pytest.fixture(params=ENCODED)
def prepared(
    request: pytest.FixtureRequest, tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder
) -> tuple[MultiTaskModel, Batch]:
    """The tiny model in evaluation mode and a batch, in several encodings."""
    task, encoding = request.param.split()
    config = tiny_config.override({f"tasks.{task}.encoding": encoding})
    return model_with_large_weights(config, tiny_encoder), batch_of(config, tiny_corpus, task)


@torch.no_grad()
@pytest.mark.parametrize("head", ["linear", "hidden layer", "cosine"])
def test_under_bf16_a_head_computes_in_fp32(
    tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder, head: str
) -> None:
    """Otherwise hundreds of texts share few scores, and ranks and thresholds meet ties."""
    settings: dict[str, dict[str, Any]] = {
        "linear": {"tasks.sts.encoding": "cross"},
        "hidden layer": {"tasks.sts.encoding": "cross", "tasks.sts.hidden_units": 8},
        "cosine": {"tasks.sts.encoding": "bi", "tasks.sts.head": "cosine"},
    }
    model = model_with_large_weights(config := tiny_config.override(settings[head]), tiny_encoder)
    vectors = torch.randn(300, len(SIDES[config.tasks["sts"].encoding]), 32, generator=torch.Generator().manual_seed(1))
    with torch.autocast("cpu", torch.bfloat16):
        logits = model.logits_of("sts", vectors.bfloat16())
    assert torch.equal(logits, model.logits_of("sts", vectors.bfloat16().float()))  # without autocast
    assert len(torch.unique(logits)) == 300


def states_of(model: MultiTaskModel, inputs: Inputs) -> tuple[Tensor, ...]:
    """All hidden states of one input in transformers, from the input of the first layer to the last."""
    states: tuple[Tensor, ...] = model.encoder(
        input_ids=inputs.input_ids,
        attention_mask=inputs.attention_mask,
        token_type_ids=inputs.token_type_ids,
        output_hidden_states=True,
    ).hidden_states
    return states


def linear_by_hand(model: MultiTaskModel, task: str, vectors: Tensor) -> Tensor:
    return vectors @ model.get_parameter(f"heads.{task}.weight").T + model.get_parameter(f"heads.{task}.bias")


@torch.no_grad()
def test_logits_are_a_linear_layer_by_hand_on_the_states_of_the_first_token(
    prepared: tuple[MultiTaskModel, Batch],
) -> None:
    model, batch = prepared
    first = torch.cat([states_of(model, inputs)[-1][:, 0] for inputs in batch.inputs], dim=1)
    output = model(batch)
    assert torch.allclose(output.logits, linear_by_hand(model, batch.task, first), atol=1e-5)
    assert torch.allclose(output.vectors.flatten(1), first, atol=1e-5)
    assert output.embeddings == ()
    assert output.logits.std(0).min() > 0.01  # so that a wrong order fails


@torch.no_grad()
def test_keeping_and_passing_embeddings_changes_no_logit(prepared: tuple[MultiTaskModel, Batch]) -> None:
    model, batch = prepared
    plain, kept = model(batch), model(batch, keep=True)
    assert torch.equal(kept.logits, plain.logits)
    for embedded, inputs in zip(kept.embeddings, batch.inputs, strict=True):
        assert torch.equal(embedded, states_of(model, inputs)[0])
    for keep in (False, True):
        again = model(batch, embeddings=kept.embeddings, keep=keep)
        assert torch.equal(again.logits, plain.logits)
        assert len(again.embeddings) == (len(batch.inputs) if keep else 0)


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


@pytest.mark.parametrize(("setting", "probability"), [(None, 0.1), (0, 0.0), (0.25, 0.25)])
def test_the_heads_dropout_is_the_setting_or_that_of_the_encoder(
    setting: float | None, probability: float, tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder
) -> None:
    model = MultiTaskModel(tiny_config.override({"encoder.dropout": setting}), tiny_encoder)
    assert model.dropout.p == probability


def test_dropout_precedes_the_head_and_follows_the_comparison_of_a_pairs_texts(
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


def test_smart_is_refused_for_an_encoder_without_an_entry_for_noise(
    tiny_config: TrialConfig, bert_tokenizer: PreTrainedTokenizerFast
) -> None:
    encoder, config = untrained(ENCODERS["xlnet"], bert_tokenizer), tiny_config.override({"encoder.dropout": None})
    with pytest.raises(ValueError, match=r"^SMART must be used with "):
        MultiTaskModel(config, encoder)
    MultiTaskModel(config.override({"smart.weight": 0}), encoder)


@torch.no_grad()
def test_logits_are_fp32_under_bf16(
    tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder
) -> None:
    model, batch = MultiTaskModel(tiny_config, tiny_encoder).eval(), batch_of(tiny_config, tiny_corpus, "sst")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = model(batch).logits
    assert half.dtype == torch.float32
    assert not torch.equal(half, model(batch).logits)
    assert torch.allclose(half, model(batch).logits, atol=0.05)


HIDDEN = torch.randn(3, 4, 8, generator=torch.Generator().manual_seed(0))
MASK = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0]])
LAST = torch.stack([HIDDEN[0, 3], HIDDEN[1, 1], HIDDEN[2, 0]])


@pytest.mark.parametrize(
    ("pooling", "is_read_last", "expected"),
    [
        ("cls", False, HIDDEN[:, 0]),
        ("cls", True, LAST),
        ("last", False, LAST),
        ("mean", False, torch.stack([HIDDEN[0].mean(0), HIDDEN[1, :2].mean(0), HIDDEN[2, 0]])),
    ],
)
def test_a_text_is_read_at_one_token_or_as_the_mean_without_padding(
    pooling: str, is_read_last: bool, expected: Tensor
) -> None:
    hidden = HIDDEN.clone().requires_grad_()
    found = pooled(hidden, MASK, pooling, is_read_last)
    assert torch.allclose(found, expected)
    (gradient,) = torch.autograd.grad(found.sum(), hidden)
    assert not gradient[MASK == 0].any()


@torch.no_grad()
def test_xlnet_is_read_at_the_token_that_transformers_reads(
    tiny_config: TrialConfig, xlnet_tokenizer: XLNetTokenizer
) -> None:
    config = tiny_config.override({"smart.weight": 0})
    model = model_with_large_weights(config, untrained(ENCODERS["xlnet"], xlnet_tokenizer))
    texts = ["the cat sat", "a road", "the film"], ["a", "un cat sat the road", "a film"]
    left, right = (
        xlnet_tokenizer(*texts, padding=True, padding_side=side, return_token_type_ids=True, return_tensors="pt")
        for side in ("left", "right")
    )
    expected = model.encoder(**left).last_hidden_state[:, -1]
    vectors = model.encode_texts("qqp", [Inputs(**right)])[0]
    assert torch.allclose(vectors[:, 0], expected, atol=1e-5)
    assert expected.std(0).min() > 0.01


PALS: dict[str, Any] = {"pals.size": 8, "pals.num_heads": 2, "pals.tasks": "qqp"}
ALONE: dict[str, dict[str, Any]] = {
    "mean, bi-encoder": {"tasks.qqp.pooling": "mean", "tasks.qqp.encoding": "bi"},
    "pals beside the layer": {**PALS, "pals.placement": "layer", "tasks.qqp.pooling": "mean"},
}


@torch.no_grad()
@pytest.mark.parametrize("name", ALONE)
def test_logits_depend_neither_on_padding_nor_on_other_rows(
    name: str, tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder
) -> None:
    config = tiny_config.override(ALONE[name])
    model, table = model_with_large_weights(config, tiny_encoder), tiny_corpus["qqp", "train"]
    logits, widths = model(batch_of(config, tiny_corpus, "qqp", 10)).logits, set()
    for row in range(10):
        alone = make_batch(table, np.array([row]), encoding=config.tasks["qqp"].encoding, max_length=32)
        widths.add(alone.inputs[0].input_ids.shape[1])
        assert torch.allclose(model(alone).logits[0], logits[row], atol=2e-5)
    assert len(widths) > 2
    assert logits.std() > 1e-3


def test_only_relational_tasks_use_the_relational_layer(
    tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder
) -> None:
    changes = {"relational_tasks": "qqp,sts", "tasks.qqp.encoding": "bi", "tasks.sts.encoding": "bi"}
    config = tiny_config.override(changes)
    model = model_with_large_weights(config, tiny_encoder)
    shared = [model.get_parameter(f"relational.{part}") for part in ("weight", "bias")]
    for task in ("qqp", "sts"):
        batch = batch_of(config, tiny_corpus, task)
        states = torch.cat([states_of(model, inputs)[-1][:, 0] for inputs in batch.inputs], dim=1)
        expected = linear_by_hand(model, task, states @ shared[0].T + shared[1])
        assert torch.allclose(model(batch).logits, expected, atol=1e-4)
    sst = model(batch_of(config, tiny_corpus, "sst")).logits.sum()
    assert [part is None for part in torch.autograd.grad(sst, shared, allow_unused=True)] == [True, True]


@torch.no_grad()
@pytest.mark.parametrize("head", ["linear", "cosine"])
def test_logits_of_a_scaled_regression_are_deviations_from_its_mean_label(
    head: str, tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder
) -> None:
    changes = {"tasks.sts.encoding": "bi", "tasks.sts.head": head, "tasks.sts.target_scale": "unit"}
    config = tiny_config.override(changes)
    model = MultiTaskModel(config, tiny_encoder).eval()
    model.scale_of("sts").fit(np.array([1.0, 5.0]))  # mean 3, deviation 2
    output = model(batch_of(config, tiny_corpus, "sts"))
    found = model.heads["sts"](model.head_inputs("sts", output.vectors))
    assert torch.allclose(output.logits, (found - 3) / 2 if head == "cosine" else found)  # a cosine gives labels
    assert torch.allclose(model.from_unit("sts", output.logits), 3 + 2 * output.logits)
    assert model.to_unit("qqp", found) is found


def test_pals_of_a_task_do_not_change_the_other_tasks(
    tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder
) -> None:
    config = tiny_config.override({"encoder.attention": "eager"})  # by hooks, not by our own layers
    with_pals = config.override({**PALS, "pals.tasks": "qqp,sts"})
    model, plain = (model_with_large_weights(one, tiny_encoder) for one in (with_pals, config))
    assert set(model.pals) == {"qqp", "sts"}
    batches = {task: batch_of(config, tiny_corpus, task) for task in ("sst", "qqp", "sts")}
    before = {task: model(batch).logits.detach() for task, batch in batches.items()}
    assert torch.equal(before["sst"], plain(batches["sst"]).logits)
    assert not torch.allclose(before["qqp"], plain(batches["qqp"]).logits, atol=1e-3)
    model(batches["qqp"]).logits.sum().backward()
    reached = {name.split(".")[0] for name, part in model.pals.named_parameters() if part.grad is not None}
    assert reached == {"qqp"}
    with torch.no_grad():
        for parameter in model.pals["qqp"].parameters():
            parameter.add_(torch.randn_like(parameter))
    after = {task: model(batch).logits for task, batch in batches.items()}
    assert [task for task in batches if not torch.equal(after[task], before[task])] == ["qqp"]


def test_only_trained_layers_change(
    tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder
) -> None:
    config = tiny_config.override({"encoder.trained_layers": [1], **PALS})
    model = MultiTaskModel(config, tiny_encoder)
    model(batch_of(config, tiny_corpus, "qqp")).logits.sum().backward()
    moved = {name for name, part in model.named_parameters() if part.grad is not None}
    assert {name.removeprefix("encoder.encoder.layer.").split(".")[0] for name in moved} == {"1", "heads", "pals"}


def test_unused_modules_are_not_built(tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder) -> None:
    def groups(changes: dict[str, Any]) -> set[str]:
        weights = MultiTaskModel(tiny_config.override(changes), tiny_encoder).state_dict()
        return {name if name.startswith("log_variances.") else name.split(".")[0] for name in weights}

    assert groups({}) == {"encoder", "heads"}
    assert groups({"pals.tasks": "qqp", "simcse.tasks": "qqp"}) == {"encoder", "heads"}  # of size and weight 0
    everything: dict[str, Any] = {**PALS, "relational_tasks": "sts", "loss_weighting": "uncertainty"}
    everything |= {"simcse.weight": 1, "simcse.tasks": "sst", "tasks.sts.target_scale": "unit"}
    learned = {f"log_variances.{task}" for task in ("sst", "qqp", "sts")}
    assert groups(everything) == {"encoder", "heads", "pals", "relational", "projection", "label_scales", *learned}
    one = tiny_config.override({"stages.1.tasks": "qqp"})
    assert set(MultiTaskModel(one, tiny_encoder).heads) == {"qqp"}
