"""`precision=auto` is resolved once per sweep: bf16 where no trial refuses it and all machines have it."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mtlib.model.encoder import PretrainedEncoder
from mtlib.tasks import TASKS
from results.records.trials import read_sweep
from search_spaces.presets import general
from search_spaces.vary import vary
from sweeps.options import SweepOptions
from sweeps.plan import precision
from sweeps.plan.create import create_sweep
from sweeps.plan.inputs import SweepInputs
from sweeps.plan.precision import describe_precision, fit_encoders
from tests.prepared import prepare_rows, prepared_with
from tests.sweeps.plan.conftest import Build

Vary = Callable[..., SweepInputs]
Machine = Callable[[bool], list[bool]]
Encoders = dict[str, PretrainedEncoder]
BASE = {"encoder.max_length": 32, "stages.0.tasks": ("sst",)}


@pytest.fixture
def encoders(tiny_encoder_folder: Path, tiny_encoder: PretrainedEncoder) -> Encoders:
    """By its name in configurations."""
    return {str(tiny_encoder_folder): tiny_encoder}


@pytest.fixture
def varied(inputs: SweepInputs, tiny_encoder_folder: Path) -> Vary:
    """Inputs that vary keys of the general settings."""

    def build(changes: dict[str, Any], **typed: str) -> SweepInputs:
        base = general(TASKS).override({**BASE, "encoder.name": str(tiny_encoder_folder), **changes})
        keys = {key.replace("__", "."): text for key, text in (typed or {"smart__weight": "0,1"}).items()}
        return dataclasses.replace(inputs, space=vary(base, "overall", keys))

    return build


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine with instructions for bf16, or without; notes for which device they are asked for."""

    def build(has_it: bool) -> list[bool]:
        asked: list[bool] = []

        def answer(*, on_gpu: bool) -> bool:
            asked.append(on_gpu)
            return has_it

        monkeypatch.setattr(precision, "has_bf16", answer)
        return asked

    return build


def precisions(inputs: SweepInputs) -> set[str]:
    return {config.precision for config in inputs.space.configs}


@pytest.mark.parametrize(("has_it", "expected"), [(True, "bf16"), (False, "fp32")])
@pytest.mark.parametrize(("gpus", "device"), [(0, "processor"), (0.5, "GPU")])
def test_instructions_of_the_device_decide_for_all_trials(
    options: Build,
    varied: Vary,
    encoders: Encoders,
    machine: Machine,
    has_it: bool,
    expected: str,
    gpus: float,
    device: str,
) -> None:
    asked = machine(has_it)
    found = fit_encoders(options(gpus_per_worker=gpus), varied({}), encoders)
    assert precisions(found) == {expected}
    (line,) = describe_precision(found)
    assert expected in line
    assert device in line
    assert asked == [device == "GPU"]


@pytest.mark.parametrize("given", ["fp32", "bf16"])
def test_given_precision_stays_and_is_not_explained(
    options: Build,
    varied: Vary,
    encoders: Encoders,
    machine: Machine,
    given: str,
) -> None:
    asked = machine(True)
    before = varied({"precision": given})
    found = fit_encoders(options(), before, encoders)
    assert found is before
    assert describe_precision(found) == []
    assert asked == []


def test_setting_of_one_trial_that_refuses_bf16_decides_for_all(
    options: Build, varied: Vary, encoders: Encoders, machine: Machine
) -> None:
    machine(True)
    found = fit_encoders(options(), varied({"smart.weight": 1.0}, smart__mode="unit_norm,paper"), encoders)
    assert precisions(found) == {"fp32"}
    (line,) = describe_precision(found)
    assert "smart.mode must not be paper under precision bf16" in line


def test_encoder_that_refuses_bf16_is_trained_in_fp32(
    options: Build,
    varied: Vary,
    encoders: Encoders,
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine(True)
    checked = []

    def check(_options: SweepOptions, inputs: SweepInputs, _encoders: Encoders) -> None:
        checked.append(inputs.space.base.precision)
        if checked[-1] == "bf16":
            raise ValueError("encoder must take a step in bf16")

    monkeypatch.setattr(precision, "check_encoders_fit", check)
    found = fit_encoders(options(), varied({}), encoders)
    assert checked == ["bf16", "fp32"]
    assert describe_precision(found) == ["Precision: fp32 (auto): encoder must take a step in bf16"]


def test_searched_precision_is_left_to_the_trials(
    options: Build, varied: Vary, encoders: Encoders, machine: Machine
) -> None:
    asked = machine(True)
    found = fit_encoders(options(), varied({}, precision="bf16,fp32"), encoders)
    assert [config.precision for config in found.space.configs] == ["fp32", "bf16", "fp32"]
    assert describe_precision(found) == []
    assert asked == []


@pytest.mark.parametrize("begun_in", ["bf16", "fp32"])
def test_resumed_sweep_keeps_the_precision_that_it_began_with(
    options: Build,
    tiny_folder: Path,
    encoders: Encoders,
    tiny_encoder_folder: Path,
    machine: Machine,
    begun_in: str,
) -> None:
    machine(begun_in == "bf16")
    places = {"data": tiny_folder, "encoder": str(tiny_encoder_folder)}
    changes = {"encoder.max_length": "32"}
    begun = options(space=None, vary={"smart.weight": "0,1"}, set=changes, **places)
    inputs = fit_encoders(begun, prepare_rows(begun), encoders)
    create_sweep(prepared_with(begun, inputs, encoders), "")
    info = read_sweep(begun.folder)
    assert (info["base"]["precision"], info["precision_reason"]) == (begun_in, inputs.precision_reason)
    asked = machine(begun_in != "bf16")
    resumed = dataclasses.replace(begun, resume=True)
    found = fit_encoders(resumed, prepare_rows(resumed), encoders)
    assert found.space == inputs.space
    assert describe_precision(found) == describe_precision(inputs)
    assert asked == []
