"""SMART, the proximal term and SimCSE: every range on both sides."""

import dataclasses
from typing import Any

import pytest

from mtlib.config.penalties import PENALTIES, ProximalConfig
from tests.config_cases import PENALIZED, assert_range, override_error


@pytest.mark.parametrize(
    ("key", "outside", "inside"),
    [
        ("smart.weight", -1e-9, 0.0),
        ("smart.tasks", ["sst", "sst"], ["sst", "sts"]),
        ("smart.noise_std", -1e-9, 0.0),
        ("smart.step_size", 0.0, 1e-12),
        ("smart.epsilon", 0.0, 1e-12),
        ("smart.num_steps", 0, 1),
        ("smart.every_batches", 0, 1),
        ("smart.row_share", 0.0, 1e-9),
        ("smart.row_share", 1.0 + 1e-9, 1.0),
        ("proximal.weight", -1e-9, 0.0),
        ("proximal.decay", -1e-9, 0.0),
        ("proximal.decay", 1.0, 0.999),
        ("proximal.late_decay", -1e-9, 0.0),
        ("proximal.late_decay", 1.0, 0.999),
        ("proximal.early_fraction", 0.0, 1e-9),
        ("proximal.early_fraction", 1.0, 0.999),
        ("simcse.weight", -1e-9, 0.0),
        ("simcse.temperature", 0.0, 1e-9),
        ("simcse.dropout", -1e-9, 0.0),
        ("simcse.dropout", 1.0, 0.999),
    ],
)
def test_settings_have_ranges(key: str, outside: Any, inside: Any) -> None:
    assert_range(key, outside, inside)


@pytest.mark.parametrize("name", PENALTIES)
def test_every_penalty_is_off_needs_a_task_and_names_existing_fields(name: str) -> None:
    entry, settings = PENALTIES[name], PENALTIES[name].settings()
    fields = {field.name for field in dataclasses.fields(settings)}
    assert {"weight", "tasks", *entry.always_counts, *entry.inert(settings)} <= fields
    assert settings.weight == 0
    line = override_error({f"{name}.weight": 1e-9})
    assert line.startswith(f"{name}.tasks must name at least one task")


def test_random_noise_must_not_be_0_where_it_is_used() -> None:
    changes: dict[str, Any] = {"smart.mode": "random", "smart.noise_std": 0.0, "smart.weight": 1e-9}
    assert "smart.noise_std must be above 0 for mode random" in override_error(changes, PENALIZED)
    remedies: list[dict[str, Any]] = [{"smart.noise_std": 1e-30}, {"smart.weight": 0.0}, {"smart.mode": "paper"}]
    for remedy in remedies:
        assert PENALIZED.override({**changes, **remedy}).smart.tasks == ("qqp",)


def test_the_noise_of_the_paper_needs_more_than_bf16() -> None:
    changes: dict[str, Any] = {"precision": "bf16", "smart.mode": "paper", "smart.weight": 1.0}
    assert "smart.mode must not be paper under precision bf16" in override_error(changes, PENALIZED)
    remedies: list[dict[str, Any]] = [{"precision": "fp32"}, {"smart.mode": "unit_norm"}, {"smart.weight": 0.0}]
    for remedy in remedies:
        assert PENALIZED.override({**changes, **remedy}).smart.tasks == ("qqp",)


def test_the_decay_changes_only_with_a_different_late_decay() -> None:
    for late, changes in ((None, False), (0.99, False), (0.999, True), (0, True)):
        own = ProximalConfig(late_decay=late)
        assert own.decay_changes == changes == PENALTIES["proximal"].length_counts(own)
        assert PENALTIES["proximal"].inert(own) == (() if changes else ("late_decay", "early_fraction"))


TAUGHT = {"task": "sst", "role": "augment", "path": "t.parquet", "teacher_columns": [f"logit_{n}" for n in range(5)]}


def test_a_taught_task_has_a_teacher_and_a_teacher_its_task() -> None:
    source = {f"data.sources.taught.{key}": value for key, value in TAUGHT.items()}
    term = {"distillation.weight": 1.0, "distillation.tasks": ["sst"]}
    assert "must each have a source in data.sources with teacher_columns, got sst" in override_error(term, PENALIZED)
    assert PENALIZED.override({**term, **source}).distillation.tasks == ("sst",)
    for without in ({}, {**term, "distillation.weight": 0.0}, {**term, "distillation.tasks": []}):
        assert override_error({**without, **source}, PENALIZED).startswith("distillation.tasks must ")
