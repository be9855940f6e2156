"""Encoder, PALs and tasks: every range on both sides, and settings that do not suit a task or a head."""

import dataclasses
import json
from typing import Any

import pytest

from mtlib.config.losses import LOSSES, losses_for
from mtlib.config.network import AdapterConfig, EncoderConfig, PalsConfig, TaskConfig
from mtlib.tasks import TASKS
from tests.config_cases import (
    BASE,
    PENALIZED,
    Case,
    assert_every_field_changes_the_hash,
    assert_range,
    override_error,
    undescribed_fields,
)

CASES: list[Case] = [
    ("encoder.dropout", -1e-9, "encoder.dropout must be at least 0 and below 1", 0.0),
    ("encoder.dropout", 1.0, "encoder.dropout must be at least 0 and below 1", 0.999),
    ("encoder.attention_dropout", -1e-9, "encoder.attention_dropout must be at least 0 and below 1", 0.0),
    ("encoder.attention_dropout", 1.0, "encoder.attention_dropout must be at least 0 and below 1", 0.999),
    ("encoder.max_length", 7, "encoder.max_length must be at least 8", 8),
    ("encoder.name", "", "encoder.name must be a hub name or a folder", "x"),
    ("encoder.trained_layers", [-1], "encoder.trained_layers must be layer numbers from 0", [0]),
    ("encoder.trained_layers", [3, 3], "encoder.trained_layers must not name a layer twice", [3, 4]),
    ("encoder.start_from", "", "encoder.start_from must be a folder or a file", "x"),
    ("adapter.method", "dora", "adapter.method must be one of none, lora", "lora"),
    ("adapter.rank", 0, "adapter.rank must be at least 1", 1),
    ("adapter.alpha", 0, "adapter.alpha must be above 0", 1),
    ("adapter.dropout", 1.0, "adapter.dropout must be at least 0 and below 1", 0.999),
    ("adapter.targets", ["key", "key"], "adapter.targets must not name a layer twice", ["key", "value"]),
    ("pals.size", -1, "pals.size must be at least 0", 0),
    ("pals.size", 203, "pals.size must be a multiple of pals.num_heads (12)", 204),
    ("pals.num_heads", 0, "pals.num_heads must be at least 1", 1),
    ("pals.tasks", ["qqp", "qqp"], "pals.tasks must not name a task twice", ["qqp", "sts"]),
    ("pals.placement", "beside", "pals.placement must be one of attention, layer", "layer"),
    ("pals.function", "relu", "pals.function must be one of attention, identity, low_rank", "low_rank"),
    ("tasks.sst.batch_size", 0, "tasks.sst: batch_size must be at least 1", 1),
    ("tasks.sst.loss_weight", 0.0, "tasks.sst: loss_weight must be above 0", 1e-9),
    ("tasks.sst.ordinal_alpha", 0.0, "tasks.sst: ordinal_alpha must be above 0", 1e-9),
    ("tasks.sst.dual_reduction", "max", "tasks.sst.dual_reduction must be one of mean, sum", "sum"),
    ("tasks.sst.pooling", "max", "tasks.sst.pooling must be one of cls, mean", "mean"),
    ("tasks.sst.head", "conv", "tasks.sst.head must be one of linear, cosine", "linear"),
    ("tasks.sst.hidden_units", 0, "tasks.sst: hidden_units must be at least 1, or none", 1),
    ("tasks.sst.probability_factor", 0.0, "tasks.sst: probability_factor must be above 0", 1e-9),
    ("tasks.sst.chosen_layers", [-1], "tasks.sst: chosen_layers must be layer numbers from 0", [0]),
    ("tasks.sst.chosen_layers", [1, 1], "tasks.sst: chosen_layers must not name a layer twice", [1, 2]),
    ("tasks.sst.scored_train_rows", -1, "tasks.sst: scored_train_rows must be at least 0", 0),
    ("tasks.sst.loss", "binary_cross_entropy", "tasks.sst.loss must be one of cross_entropy, ", "ordinal_log_loss"),
    ("tasks.sst.loss", "mean_squared_error", "tasks.sst.loss must be one of ", "dual_objective_cross_entropy"),
    ("tasks.qqp.loss", "ordinal_log_loss", "tasks.qqp.loss must be one of cross_entropy, ", "cross_entropy"),
    ("tasks.sts.loss", "ordinal_log_loss", "tasks.sts.loss must be one of mean_sq", "mean_squared_error"),
    ("tasks.sst.encoding", "cross", "tasks.sst.encoding must be one of single", "single"),
    ("tasks.sst.encoding", "bi", "tasks.sst.encoding must be one of single", "single"),
    ("tasks.qqp.encoding", "single", "tasks.qqp.encoding must be one of cross, cross_no_separator, bi", "bi"),
    ("tasks.sts.encoding", "single", "tasks.sts.encoding must be one of cross, ", "cross_no_separator"),
]


@pytest.mark.parametrize("case", CASES)
def test_values_out_of_range_are_refused_and_the_nearest_inside_is_accepted(case: Case) -> None:
    assert_range(case)


def test_every_field_changes_the_hash() -> None:
    encoder: dict[str, Any] = {"name": "x", "dropout": 0.2, "attention_dropout": 0.2, "max_length": 9}
    encoder |= {"trained_layers": [1], "start_from": "folder", "start_epoch": "sts"}
    encoder |= {"attention": "eager", "gradient_checkpointing": True}
    with_heads = PENALIZED.override({"encoder.start_from": "folder", "encoder.start_heads": True})
    hashes = {PENALIZED.override({f"encoder.{name}": value}).content_hash for name, value in encoder.items()}
    assert len(hashes | {PENALIZED.content_hash, with_heads.content_hash}) == len(encoder) + 2
    assert {*encoder, "start_heads"} == {f.name for f in dataclasses.fields(EncoderConfig)}
    adapter: dict[str, Any] = {"method": "lora", "rank": 3, "alpha": 3, "dropout": 0.2, "targets": ["key"]}
    assert_every_field_changes_the_hash("adapter", AdapterConfig, adapter)
    pals: dict[str, Any] = {"size": 12, "num_heads": 2, "tasks": ["sts"], "placement": "layer"}
    assert_every_field_changes_the_hash("pals", PalsConfig, {**pals, "function": "identity", "zero_start": True})
    task: dict[str, Any] = {"batch_size": 8, "loss": "cross_entropy", "ordinal_alpha": 2.0, "dual_reduction": "sum"}
    task |= {"encoding": "bi", "pooling": "mean", "hidden_units": 10, "cosine_projection": False, "loss_weight": 0.5}
    task |= {"probability_factor": 0.1, "chosen_layers": [0], "scored_train_rows": 5, "probe_rows": 6, "prefix": "a"}
    bi = PENALIZED.override({"tasks.qqp.encoding": "bi"})
    assert bi.override({"tasks.qqp.head": "cosine"}).content_hash != bi.content_hash  # fits a bi-encoder only
    hashes = {PENALIZED.override({f"tasks.qqp.{name}": value}).content_hash for name, value in task.items()}
    assert len(hashes | {PENALIZED.content_hash}) == len(task) + 1
    unit = PENALIZED.override({"tasks.sts.target_scale": "unit"})  # fits a regression only
    assert unit.content_hash not in {*hashes, PENALIZED.content_hash}
    assert set(json.loads(PENALIZED.to_json())["tasks"]["qqp"]) == {f.name for f in dataclasses.fields(TaskConfig)}


@pytest.mark.parametrize(
    ("text", "layers"),
    [("none", None), ("null", None), ("3", (3,)), ("[]", ()), ("", ()), ("0,1", (0, 1)), ("[0, 11]", (0, 11))],
)
def test_trained_layers_are_read_from_text(text: str, layers: tuple[int, ...] | None) -> None:
    changed = BASE.override({"encoder.trained_layers": text})
    assert changed.encoder.trained_layers == layers
    again = type(changed).from_json(changed.to_json())
    assert again.encoder.trained_layers == layers
    assert again.content_hash == changed.content_hash


@pytest.mark.parametrize("value", [None, "none", "null", "None"])
def test_start_from_accepts_every_spelling_of_none(value: str | None) -> None:
    started = BASE.override({"encoder.start_from": "runs/none"})
    assert started.encoder.start_from == "runs/none"
    assert started.override({"encoder.start_from": value}) == BASE


def test_start_heads_needs_start_from() -> None:
    line = "encoder.start_heads must be false without encoder.start_from, got True"
    assert override_error({"encoder.start_heads": True}) == line
    assert override_error({"encoder.start_heads": True, "encoder.start_from": "none"}) == line
    assert BASE.override({"encoder.start_heads": True, "encoder.start_from": "x"}).encoder.start_heads
    assert BASE.override({"encoder.start_heads": False}) == BASE


def test_different_trained_layers_are_different_configurations() -> None:
    layers: list[Any] = [None, [], [0], [11]]
    assert len({BASE.override({"encoder.trained_layers": value}).content_hash for value in layers}) == 4


@pytest.mark.parametrize("value", ["all", "1.5", 3, [True], ["x"], [1.5]])
def test_trained_layers_must_be_a_list_of_whole_numbers(value: Any) -> None:
    assert "encoder.trained_layers" in override_error({"encoder.trained_layers": value})


def test_pals_with_a_size_need_a_task() -> None:
    line = "pals.tasks must name at least one task where pals.size is above 0, got []"
    assert override_error({"pals.size": 12}) == line
    assert BASE.override({"pals.size": 12, "pals.tasks": "sst"}).pals.tasks == ("sst",)


@pytest.mark.parametrize("function", ["identity", "low_rank"])
def test_only_attention_needs_a_size_divisible_by_its_heads(function: str) -> None:
    assert "multiple of pals.num_heads (5)" in override_error({"pals.size": 204, "pals.num_heads": 5}, PENALIZED)
    changed = PENALIZED.override({"pals.size": 204, "pals.num_heads": 5, "pals.function": function})
    assert changed.pals.size == 204


COSINE = {"tasks.qqp.encoding": "bi", "tasks.qqp.head": "cosine"}


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"tasks.qqp.encoding": "cross"}, "tasks.qqp: head cosine must have encoding bi, got cross"),
        ({"tasks.qqp.hidden_units": 5}, "tasks.qqp: head cosine must have hidden_units none, got 5"),
        (
            {"tasks.qqp.loss": "cross_entropy"},
            "tasks.qqp: head cosine must have loss binary_cross_entropy or ",
        ),
    ],
)
def test_a_cosine_head_needs_a_bi_encoder_no_hidden_layer_and_a_loss_of_one_value(
    changes: dict[str, Any], line: str
) -> None:
    assert BASE.override(COSINE).tasks["qqp"].head == "cosine"
    assert override_error({**COSINE, **changes}).startswith(line)


def test_a_cosine_head_is_refused_for_single_texts() -> None:
    assert "head cosine must have encoding bi, got single" in override_error({"tasks.sst.head": "cosine"})


def test_regression_accepts_a_cosine_head() -> None:
    changed = BASE.override({"tasks.sts.encoding": "bi", "tasks.sts.head": "cosine"})
    assert changed.tasks["sts"].loss == "mean_squared_error"


@pytest.mark.parametrize("name", TASKS)
def test_every_loss_suits_tasks_of_its_kind_only(name: str) -> None:
    every = set(LOSSES)
    fitting = losses_for(TASKS[name].kind)
    for loss in every:
        if loss in fitting:
            assert BASE.override({f"tasks.{name}.loss": loss}).tasks[name].loss == loss
        else:
            assert override_error({f"tasks.{name}.loss": loss}).startswith(f"tasks.{name}.loss must be one of")


def test_every_field_has_a_docstring() -> None:
    assert undescribed_fields("network.py") == []


def test_class_weights_are_a_word_or_a_number_for_each_class() -> None:
    assert BASE.override({"tasks.sst.class_weights": "balanced"}).tasks["sst"].class_weights == "balanced"
    assert BASE.override({"tasks.qqp.class_weights": "[1, 3]"}).tasks["qqp"].class_weights == (1, 3)
    line = "tasks.sst.class_weights.0 must be a number, got 'balancd'; besides a list it may be balanced"
    assert override_error({"tasks.sst.class_weights": "balancd"}) == line
