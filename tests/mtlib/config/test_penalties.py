"""SMART, the proximal term and SimCSE: every range on both sides."""

import dataclasses
import json
from typing import Any

import pytest

from mtlib.config.penalties import PENALTIES, ProximalConfig, SimcseConfig, SmartConfig
from mtlib.config.trial import TrialConfig
from mtlib.runtime.lazy_functions import load_function
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
    ("smart.weight", -1e-9, "smart.weight must be at least 0", 0.0),
    ("smart.tasks", ["sst", "sst"], "smart.tasks must not name a task twice", ["sst", "sts"]),
    ("smart.mode", "inf", "smart.mode must be one of unit_norm, paper, random", "random"),
    ("smart.noise_std", -1e-9, "smart.noise_std must be at least 0", 0.0),
    ("smart.step_size", 0.0, "smart.step_size must be above 0", 1e-12),
    ("smart.epsilon", 0.0, "smart.epsilon must be above 0", 1e-12),
    ("smart.num_steps", 0, "smart.num_steps must be at least 1", 1),
    ("smart.reduction", "max", "smart.reduction must be one of mean, sum", "sum"),
    ("smart.masks", "same", "smart.masks must be one of independent, shared", "shared"),
    ("smart.every_batches", 0, "smart.every_batches must be at least 1", 1),
    ("smart.row_share", 0.0, "smart.row_share must be above 0 and at most 1", 1e-9),
    ("smart.row_share", 1.0 + 1e-9, "smart.row_share must be above 0 and at most 1", 1.0),
    ("proximal.weight", -1e-9, "proximal.weight must be at least 0", 0.0),
    ("proximal.tasks", ["sst", "sst"], "proximal.tasks must not name a task twice", ["sst", "sts"]),
    ("proximal.decay", -1e-9, "proximal.decay must be at least 0 and below 1", 0.0),
    ("proximal.decay", 1.0, "proximal.decay must be at least 0 and below 1", 0.999),
    ("proximal.late_decay", -1e-9, "proximal.late_decay must be at least 0 and below 1", 0.0),
    ("proximal.late_decay", 1.0, "proximal.late_decay must be at least 0 and below 1", 0.999),
    ("proximal.early_fraction", 0.0, "proximal.early_fraction must be above 0 and below 1", 1e-9),
    ("proximal.early_fraction", 1.0, "proximal.early_fraction must be above 0 and below 1", 0.999),
    ("simcse.weight", -1e-9, "simcse.weight must be at least 0", 0.0),
    ("simcse.tasks", ["sst", "sst"], "simcse.tasks must not name a task twice", ["sst", "sts"]),
    ("simcse.temperature", 0.0, "simcse.temperature must be above 0", 1e-9),
    ("simcse.projection", "relu", "simcse.projection must be one of mlp, linear, none", "none"),
    ("simcse.dropout", -1e-9, "simcse.dropout must be at least 0 and below 1", 0.0),
    ("simcse.dropout", 1.0, "simcse.dropout must be at least 0 and below 1", 0.999),
]


@pytest.mark.parametrize("case", CASES)
def test_values_out_of_range_are_refused_and_the_nearest_inside_is_accepted(case: Case) -> None:
    assert_range(case)


def test_every_field_changes_the_hash() -> None:
    smart: dict[str, Any] = {"weight": 0.5, "tasks": ["sst"], "mode": "paper", "noise_std": 1e-3, "step_size": 0.1}
    smart |= {"epsilon": 0.1, "num_steps": 2, "reduction": "sum", "masks": "shared", "every_batches": 2}
    smart |= {"row_share": 0.5}
    assert_every_field_changes_the_hash("smart", SmartConfig, smart)
    proximal: dict[str, Any] = {"weight": 1.0, "tasks": ["sst"], "decay": 0.9, "late_decay": 0.5, "early_fraction": 0.2}
    assert_every_field_changes_the_hash("proximal", ProximalConfig, proximal)
    simcse: dict[str, Any] = {"weight": 1.0, "tasks": ["sst"], "temperature": 0.1, "projection": "none", "dropout": 0.1}
    assert_every_field_changes_the_hash("simcse", SimcseConfig, simcse)


@pytest.mark.parametrize("name", ["smart", "proximal", "simcse"])
def test_a_term_with_a_weight_needs_a_task(name: str) -> None:
    line = f"{name}.tasks must name at least one task where {name}.weight is above 0, got []"
    assert override_error({f"{name}.weight": 1e-9}) == line
    assert getattr(PENALIZED.override({f"{name}.weight": 1e-9}), name).tasks == ("qqp",)
    assert getattr(BASE.override({f"{name}.weight": 0}), name).tasks == ()


def test_random_noise_must_not_be_0_where_it_is_used() -> None:
    changes: dict[str, Any] = {"smart.mode": "random", "smart.noise_std": 0.0, "smart.weight": 1e-9}
    line = "smart.noise_std must be above 0 for mode random, which has nothing else, got 0.0"
    assert override_error(changes, PENALIZED) == line
    accepted: list[dict[str, Any]] = [{"smart.noise_std": 1e-30}, {"smart.weight": 0.0}, {"smart.mode": "unit_norm"}]
    for remedy in (*accepted, {"smart.mode": "paper"}):
        assert PENALIZED.override({**changes, **remedy}).smart.tasks == ("qqp",)


def test_a_record_with_a_single_decay_is_read() -> None:
    recorded = json.loads(PENALIZED.override({"proximal.weight": 1, "proximal.decay": 0.97}).to_json())
    recorded["proximal"] = {name: recorded["proximal"][name] for name in ("weight", "tasks", "decay")}
    proximal = TrialConfig.from_json(json.dumps(recorded)).proximal
    assert (proximal.decay, proximal.late_decay, proximal.decay_changes) == (0.97, None, False)


def test_the_decay_changes_only_with_a_different_late_decay() -> None:
    for late, changes in ((None, False), (0.99, False), (0.999, True), (0, True)):
        assert ProximalConfig(late_decay=late).decay_changes == changes
    assert BASE.override({"proximal.late_decay": "none"}) == BASE
    assert BASE.override({"proximal.late_decay": "0.999"}).proximal.late_decay == 0.999


def test_the_defaults_are_those_of_bert_and_beyond() -> None:
    smart = BASE.smart
    assert (smart.num_steps, smart.noise_std, smart.epsilon, smart.step_size) == (1, 1e-5, 1e-6, 1e-3)


def test_integers_become_floats() -> None:
    assert SmartConfig(weight=3, tasks=("sst",)) == SmartConfig(weight=3.0, tasks=("sst",))
    assert type(SmartConfig(weight=3, tasks=("sst",)).weight) is float


def test_every_field_has_a_docstring() -> None:
    assert undescribed_fields("penalties.py") == []


@pytest.mark.parametrize("name", PENALTIES)
def test_every_penalty_names_its_function_and_existing_fields(name: str) -> None:
    penalty = PENALTIES[name]
    fields = {field.name for field in dataclasses.fields(penalty.settings)}
    assert callable(load_function(penalty.function))
    assert {"weight", "tasks", *penalty.always_counts, *penalty.inert(penalty.settings())} <= fields
    assert penalty.settings().weight == 0


def test_terms_and_titles_are_unique() -> None:
    terms = [term for penalty in PENALTIES.values() for term in penalty.terms]
    assert len(set(terms)) == len(terms)
    assert len({penalty.title for penalty in PENALTIES.values()}) == len(PENALTIES)
