"""Penalties are compared with nothing and with the loss, as training weights it, and gradients with each other."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

from mtlib.config.penalties import PENALTIES
from results.health.finding import Finding
from results.health.scale import (
    MAX_RATIO,
    mostly_clipped,
    overwhelming_penalties,
    penalty_ratios,
    starved_tasks,
    vanishing_penalties,
)
from tests.results.health.given import only, records, sweep_of

ON: dict[str, dict[str, Any]] = {name: {f"{name}.weight": 0.5, f"{name}.tasks": ("sst",)} for name in PENALTIES}
Points = Mapping[tuple[str, int, str, str], float]


def rows_of(points: Points, split: str = "train") -> list[Any]:
    """Points with these values by trial, epoch, task and metric."""
    return [(*where[:3], split, where[3], value) for where, value in points.items()]


def vanishing(points: Points, *changes: Mapping[str, Any], split: str = "train") -> list[Finding]:
    return list(vanishing_penalties(sweep_of(records(*(changes or ({},) * 4)), rows_of(points, split))))


def overwhelming(points: Points, *changes: Mapping[str, Any]) -> list[Finding]:
    return list(overwhelming_penalties(sweep_of(records(*changes), rows_of(points))))


def starved(norms: Mapping[str, float], **changes: Any) -> list[Finding]:
    """The findings on one trial with these norms by task, and these keys, dots as two underscores."""
    change = {key.replace("__", "."): value for key, value in changes.items()}
    points = {("0000-r0", 1, task, "gradient_norm"): norm for task, norm in norms.items()}
    return list(starved_tasks(sweep_of(records(change), rows_of(points))))


def test_vanishing_penalties_are_listed_by_task_with_trials_and_maximum() -> None:
    qqp, sst = vanishing(
        {
            ("0001-r0", 1, "sst", "smart_penalty"): 2.6e-7,
            ("0001-r0", 2, "sst", "smart_penalty"): 3.14e-7,
            ("0001-r0", 1, "qqp", "smart_penalty"): 0.02,
            ("0002-r0", 1, "sst", "smart_penalty"): 9e-6,
            ("0003-r0", 1, "qqp", "smart_penalty"): 0.0,
        }
    )
    assert sst.what.startswith("The SMART penalty on SST is numerically nothing")
    assert sst.what.endswith("(largest mean penalty: 0001-r0 3.1e-07, 0002-r0 9.0e-06)")
    assert "in 1 trial, " in qqp.what
    assert qqp.what.endswith(": 0003-r0 0.0e+00)")


@pytest.mark.parametrize(("value", "is_named"), [(0.99e-5, True), (1e-5, False), (0.3, False)])
def test_boundary_of_a_vanishing_penalty(value: float, is_named: bool) -> None:
    points = {("0001-r0", 1, "sst", "smart_penalty"): 1e-9, ("0001-r0", 2, "sst", "smart_penalty"): value}
    assert bool(vanishing(points)) is is_named
    assert vanishing(points, split="dev") == []


@pytest.mark.parametrize("value", [-1.3, 0.0, 7.0])
def test_a_penalty_that_may_be_negative_is_not_judged_by_its_size(
    value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a confidence penalty, the negative entropy of predictions (Pereyra et al. 2017)."""
    monkeypatch.setitem(PENALTIES, "simcse", dataclasses.replace(PENALTIES["simcse"], is_signed=True))
    points = {("0000-r0", 1, "sst", "loss"): 1.0, ("0000-r0", 1, "sst", "simcse"): value}
    assert vanishing(points, ON["simcse"]) == []
    assert overwhelming(points, ON["simcse"]) == []


@pytest.mark.parametrize(
    ("name", "settings", "factor"),
    [
        ("simcse", {}, 1.0),
        ("smart", {"smart.reduction": "sum"}, 8.0),
        ("smart", {"smart.every_batches": 3}, 1 / 3),
    ],
)
def test_ratio_is_the_penalty_as_training_weights_it_over_the_loss(
    name: str, settings: dict[str, Any], factor: float
) -> None:
    change = ON[name] | settings | {"tasks.sst.batch_size": 8}
    points = {("0000-r0", 1, "sst", "loss"): 2.0, ("0000-r0", 1, "sst", PENALTIES[name].terms[0]): 3.0}
    ratios = penalty_ratios(sweep_of(records(change), rows_of(points)), name)
    assert ratios.to_dict() == {("sst", "0000-r0"): pytest.approx(factor * 0.5 * 3 / 2)}


@pytest.mark.parametrize(("reduction", "advice"), [("mean", "0.1"), ("sum", "smart.reduction to mean")])
def test_advice_against_an_overwhelming_penalty_fits_its_reduction(reduction: str, advice: str) -> None:
    change = {**ON["smart"], "smart.reduction": reduction, "tasks.sst.batch_size": 8}
    points: dict[tuple[str, int, str, str], float] = {}
    for trial, penalty in (("0000-r0", 10.0), ("0001-r0", 4.0)):
        points |= {(trial, 1, "sst", "loss"): 1.0}
        points |= {(trial, 1, "sst", "smart_penalty"): penalty / (8 if reduction == "sum" else 1)}
    found = only(overwhelming(points, change, change))
    assert "larger than the loss in 2 trials, most in 0000-r0 (5.0 times)" in found.what
    assert found.advice.startswith("set smart.weight to at most 0.1")
    assert found.advice.count("smart.reduction") == (reduction == "sum")
    assert advice in found.advice


@pytest.mark.parametrize(
    ("norms", "changes", "advice"),
    [
        ({"sst": 2.0, "qqp": 1.9, "sts": 65.0}, {}, "tasks.sts.target_scale=unit"),
        ({"sst": 1.0, "qqp": 25.0}, {"tasks__qqp__loss_weight": 2}, "tasks.qqp.loss_weight=0.08"),
        ({"sst": 1.0, "sts": 32.0}, {"tasks__sts__target_scale": "unit"}, "tasks.sts.loss_weight=0.031"),
        (
            {"sst": 1.0, "qqp": 25.0},
            {"loss_weighting": "uncertainty"},
            "loss_weighting=fixed and tasks.qqp.loss_weight=0.04",
        ),
        (
            {"sst": 0.5, "qqp": 6.0, "sts": 20.0},
            {},
            "tasks.qqp.loss_weight=0.083 and tasks.sts.target_scale=unit",
        ),
    ],
)
def test_a_starved_task_gets_settings_that_make_norms_equal(
    norms: Mapping[str, float], changes: Mapping[str, Any], advice: str
) -> None:
    assert only(starved(norms, **changes)).advice == f"set {advice}"


@pytest.mark.parametrize(("ratio", "is_named"), [(MAX_RATIO, False), (1.001 * MAX_RATIO, True)])
def test_boundary_of_the_ratio_of_gradients(ratio: float, is_named: bool) -> None:
    assert bool(starved({"sst": 0.5, "qqp": 0.5 * ratio})) is is_named
    assert starved({"sst": 0.0, "qqp": 0.5 * ratio}) == []  # without any gradient: not a matter of scale


def test_several_trials_are_one_finding_for_each_starved_task() -> None:
    norms = {"0000-r0": (1.0, 20.0), "0001-r0": (1.0, 50.0), "0002-r0": (1.0, 2.0), "0003-r0": (30.0, 1.0)}
    points = {(trial, 1, "sst", "gradient_norm"): sst for trial, (sst, _) in norms.items()}
    points |= {(trial, 1, "qqp", "gradient_norm"): qqp for trial, (_, qqp) in norms.items()}
    of_qqp, of_sst = starved_tasks(sweep_of(records({}, {}, {}, {}), rows_of(points)))
    assert of_qqp.what.startswith("SST's gradients are 30 times those of QQP in the first steps (trial 0003-r0)")
    assert "QQP's gradients are 50 times those of SST in the first steps (2 trials, most in 0001-r0)" in of_sst.what


def test_trials_are_counted_where_more_than_half_of_a_tasks_steps_are_clipped() -> None:
    """Over all epochs, by their steps."""
    shares = {"0000-r0": (0.9, 0.2), "0001-r0": (0.5, 0.0), "0002-r0": (0.6, 0.1)}
    points: dict[tuple[str, int, str, str], float] = {}
    for trial, (sts, sst) in shares.items():
        points |= {(trial, 1, "sts", "clipped_steps"): 1.0, (trial, 2, "sts", "clipped_steps"): (sts * 10 - 1) / 9}
        points |= {(trial, 1, "sts", "steps"): 10.0, (trial, 2, "sts", "steps"): 90.0}
        points |= {(trial, 1, "sst", "clipped_steps"): sst, (trial, 1, "sst", "steps"): 5.0}
    found = only(mostly_clipped(sweep_of(records({}, {}, {}), rows_of(points))))
    assert found.what == "Most steps of a task were clipped in 2 trials (in 0000-r0 20% of SST and 90% of STS)"
    alone = {**points, ("0003-r0", 1, "qqp", "clipped_steps"): 1.0, ("0003-r0", 1, "qqp", "steps"): 4.0}
    found = only(mostly_clipped(sweep_of(records({}, {}, {}, {}), rows_of(alone))))
    assert found.what == "Most steps of a task were clipped in 3 trials (in 0003-r0 100% of QQP)"
    unclipped = {key: value for key, value in points.items() if key[3] == "steps"}
    assert list(mostly_clipped(sweep_of(records({}, {}, {}), rows_of(unclipped)))) == []
