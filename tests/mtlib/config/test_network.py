"""Encoder, adapters, PALs and tasks: every range, and settings that do not suit a task or a head."""

from dataclasses import replace
from typing import Any

import pytest

from mtlib.config.network import TaskConfig, check_task
from mtlib.tasks import TASKS
from tests.config_cases import BASE, PENALIZED, assert_range, override_error


@pytest.mark.parametrize(
    ("key", "outside", "inside"),
    [
        ("encoder.dropout", -1e-9, 0.0),
        ("encoder.attention_dropout", 1.0, 0.999),
        ("encoder.max_length", 7, 8),
        ("encoder.name", "", "x"),
        ("encoder.trained_layers", [-1], [0]),
        ("encoder.trained_layers", [3, 3], [3, 4]),
        ("encoder.start_from", "", "x"),
        ("adapter.rank", 0, 1),
        ("adapter.alpha", 0, 1),
        ("adapter.dropout", -1e-9, 0.0),
        ("adapter.dropout", 1.0, 0.999),
        ("adapter.targets", ["key", "key"], ["key", "value"]),
        ("pals.size", -1, 0),
        ("pals.size", 203, 204),  # of 12 heads
        ("pals.num_heads", 0, 1),
        ("pals.tasks", ["qqp", "qqp"], ["qqp", "sts"]),
        ("tasks.sst.batch_size", 0, 1),
        ("tasks.sst.class_weights", [0.0, 1.0, 1.0, 1.0, 1.0], [1e-9, 1.0, 1.0, 1.0, 1.0]),
        ("tasks.sst.loss_weight", 0.0, 1e-9),
        ("tasks.sst.probability_factor", 0.0, 1e-9),
        ("tasks.sst.chosen_layers", [-1], [0]),
        ("tasks.sst.probe_rows", -1, 0),
        ("tasks.sst.scored_train_rows", -1, 0),
        # What suits a task:
        ("tasks.sst.loss", "binary_cross_entropy", "ordinal_log_loss"),
        ("tasks.sst.encoding", "cross", "single"),
        ("tasks.qqp.encoding", "single", "bi"),
        ("tasks.qqp.class_weights", [1.0], [1.0, 3.0]),
        ("tasks.qqp.target_scale", "unit", "raw"),
        ("tasks.sts.class_weights", "balanced", None),
    ],
)
def test_settings_have_ranges(key: str, outside: Any, inside: Any) -> None:
    assert_range(key, outside, inside)


def test_start_heads_needs_start_from() -> None:
    for start_from in (None, "none"):
        changes = {"encoder.start_heads": True, "encoder.start_from": start_from}
        assert "encoder.start_heads must be false" in override_error(changes)
    assert BASE.override({"encoder.start_heads": True, "encoder.start_from": "x"}).encoder.start_heads


def test_only_attention_needs_a_size_divisible_by_its_heads() -> None:
    changes = {"pals.size": 204, "pals.num_heads": 5}
    assert "multiple of pals.num_heads (5)" in override_error(changes, PENALIZED)
    assert PENALIZED.override({**changes, "pals.function": "low_rank"}).pals.size == 204


def test_a_cosine_is_not_enough_for_classes() -> None:
    """The loss suits binary tasks too, for which it is."""
    config = TaskConfig(loss="focal", encoding="bi", head="cosine")
    check_task(TASKS["qqp"], config)
    with pytest.raises(ValueError, match=r"tasks\.qqp\.head must not be cosine for kind classes.* 3 numbers"):
        check_task(replace(TASKS["qqp"], kind="classes", label_range=(0, 2)), config)
