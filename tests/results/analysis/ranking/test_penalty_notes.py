"""Each penalty is compared with nothing and with the loss, as the loss that is trained weights it."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import pandas as pd
import pytest

from mtlib.config.penalties import PENALTIES
from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from mtlib.tasks import TASKS
from results.analysis.ranking.note import Note
from results.analysis.ranking.penalty_notes import overwhelming_penalties, penalty_ratios, vanishing_penalties
from results.records.trials import TrialRecord
from tests.results.conftest import build_record

BASE = TrialConfig(stages=(StageConfig(tasks=("sst", "qqp", "sts")),))
ON: dict[str, dict[str, Any]] = {name: {f"{name}.weight": 0.5, f"{name}.tasks": ("sst",)} for name in PENALTIES}
Points = Mapping[tuple[str, int, str, str], float]


def curves(points: Points, split: str = "train") -> pd.DataFrame:
    """Curves with these values by trial, epoch, task and metric."""
    rows = [(*where[:3], split, where[3], value) for where, value in points.items()]
    return pd.DataFrame(rows, columns=["trial", "epoch", "task", "split", "metric", "value"])


def records(*changes: Mapping[str, Any]) -> list[TrialRecord]:
    """A trial for each change of the base configuration."""
    return [build_record(number, config=BASE.override(change).to_json()) for number, change in enumerate(changes)]


def vanishing(points: Points, *changes: Mapping[str, Any], split: str = "train") -> list[Note]:
    return list(vanishing_penalties(curves(points, split), records(*(changes or ({},) * 4)), TASKS))


def last_ratio(name: str, penalty: float, loss: float = 1.0, **settings: Any) -> float:
    """The ratio of a penalty of weight 0.5 on SST."""
    change = ON[name] | {f"{name}.{key}": value for key, value in settings.items()} | {"tasks.sst.batch_size": 8}
    points = {
        ("0000-r0", 1, "sst", "loss"): loss,
        ("0000-r0", 1, "sst", PENALTIES[name].terms[0]): penalty,
    }
    return penalty_ratios(curves(points), records(change), name)["sst"]["0000-r0"]


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
    assert "in 2 trials, " in sst.what
    assert sst.what.endswith("(largest mean penalty: 0001-r0 3.1e-07, 0002-r0 9.0e-06)")
    assert "penalty on QQP" in qqp.what
    assert "in 1 trial, " in qqp.what
    assert qqp.what.endswith(": 0003-r0 0.0e+00)")


@pytest.mark.parametrize(("value", "is_named"), [(0.99e-5, True), (1e-5, False), (1.01e-5, False), (0.3, False)])
def test_boundary_of_a_vanishing_penalty(value: float, is_named: bool) -> None:
    points = {("0001-r0", 1, "sst", "smart_penalty"): 1e-9, ("0001-r0", 2, "sst", "smart_penalty"): value}
    assert bool(vanishing(points)) is is_named


@pytest.mark.parametrize("value", [-1.3, 0.0, 1e-9, 7.0])
def test_a_penalty_that_may_be_negative_has_no_note_about_its_size(
    value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a confidence penalty, the negative entropy of predictions (Pereyra et al. 2017)."""
    monkeypatch.setitem(PENALTIES, "simcse", dataclasses.replace(PENALTIES["simcse"], is_signed=True))
    points = {("0000-r0", 1, "sst", "loss"): 1.0, ("0000-r0", 1, "sst", "simcse"): value}
    assert vanishing(points, ON["simcse"]) == []
    assert list(overwhelming_penalties(curves(points), records(ON["simcse"]), TASKS)) == []


def test_only_training_penalties_count_and_without_one_there_is_no_note() -> None:
    point = {("0001-r0", 1, "sst", "smart_penalty"): 1e-9}
    assert vanishing({}) == []
    assert vanishing({("0001-r0", 1, "sst", "loss"): 1e-9}) == []
    assert vanishing(point, split="dev") == []
    assert len(vanishing(point)) == 1


@pytest.mark.parametrize("name", PENALTIES)
def test_every_penalty_that_vanishes_is_named_with_its_setting(name: str) -> None:
    (note,) = vanishing({("0000-r0", 1, "sst", PENALTIES[name].terms[0]): 1e-9}, ON[name])
    assert note.what.startswith(f"The {PENALTIES[name].title} penalty on SST")
    assert note.advice.startswith(f"raise {name}.weight")


def test_vanishing_penalty_of_the_paper_needs_another_mode() -> None:
    change = {**ON["smart"], "smart.mode": "paper"}
    (note,) = vanishing({("0000-r0", 1, "sst", "smart_penalty"): 1e-9}, change)
    assert note.advice == "choose smart.mode unit_norm or random, or a larger smart.epsilon"


@pytest.mark.parametrize("name", PENALTIES)
def test_ratio_is_the_weighted_penalty_over_the_loss(name: str) -> None:
    assert last_ratio(name, penalty=3.0, loss=2.0) == pytest.approx(0.5 * 3 / 2)


def test_penalty_summed_over_the_batch_counts_once_for_each_row() -> None:
    assert last_ratio("smart", penalty=3.0, loss=2.0, reduction="sum") == pytest.approx(8 * 0.5 * 3 / 2)


def test_penalty_of_every_third_batch_counts_a_third() -> None:
    assert last_ratio("smart", penalty=3.0, loss=2.0, every_batches=3) == pytest.approx(0.5 * 3 / 2 / 3)


def test_last_epoch_with_both_counts_and_a_loss_of_0_has_no_ratio() -> None:
    points = {
        ("0000-r0", 1, "sst", "loss"): 1.0,
        ("0000-r0", 1, "sst", "smart_penalty"): 9.0,
        ("0000-r0", 2, "sst", "loss"): 1.0,
        ("0000-r0", 2, "sst", "smart_penalty"): 4.0,
        ("0000-r0", 3, "sst", "loss"): 1.0,
        ("0000-r0", 1, "qqp", "loss"): 0.0,
        ("0000-r0", 1, "qqp", "smart_penalty"): 1.0,
    }
    change = {**ON["smart"], "smart.tasks": ("sst", "qqp")}
    assert penalty_ratios(curves(points), records(change), "smart") == {"sst": {"0000-r0": pytest.approx(2.0)}}


@pytest.mark.parametrize(("penalty", "is_named"), [(2.0, False), (2.02, True)])
def test_boundary_of_an_overwhelming_penalty(penalty: float, is_named: bool) -> None:
    points = {("0000-r0", 1, "sst", "loss"): 1.0, ("0000-r0", 1, "sst", "simcse"): penalty}
    assert bool(list(overwhelming_penalties(curves(points), records(ON["simcse"]), TASKS))) is is_named


@pytest.mark.parametrize(
    ("reduction", "advice"),
    [
        ("mean", "set smart.weight to at most 0.1"),
        ("sum", "set smart.weight to at most 0.1, or smart.reduction to mean, which does not grow with the batch"),
    ],
)
def test_advice_against_an_overwhelming_penalty_fits_its_reduction(reduction: str, advice: str) -> None:
    change = {**ON["smart"], "smart.reduction": reduction, "tasks.sst.batch_size": 8}
    points: dict[tuple[str, int, str, str], float] = {}
    for trial, penalty in (("0000-r0", 10.0), ("0001-r0", 4.0)):
        points |= {(trial, 1, "sst", "loss"): 1.0}
        points |= {(trial, 1, "sst", "smart_penalty"): penalty / (8 if reduction == "sum" else 1)}
    (note,) = overwhelming_penalties(curves(points), records(change, change), TASKS)
    assert note.what == (
        "The SMART penalty on SST, times its weight, is larger than the loss in 2 trials, most in 0000-r0 (5.0 times): "
        "0000-r0, 0001-r0"
    )
    assert note.advice == advice
