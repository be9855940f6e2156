"""Configurations with equal losses in all trainings are named; those that only begin alike are not."""

from typing import Any

from results.health.equal_trainings import equal_trainings
from results.records.trials import TrialRecord
from tests.results.conftest import build_record
from tests.results.health.given import sweep_of


def rows_of(losses: dict[str, list[float]]) -> list[Any]:
    """The train losses of trials by epoch, and scores that differ."""
    return [
        (trial, epoch, "sst", split, metric, value)
        for number, (trial, own) in enumerate(losses.items())
        for epoch, loss in enumerate(own, 1)
        for split, metric, value in (("train", "loss", loss), ("dev", "loss", loss + 1), ("train", "tokens", number))
    ]


def record_of(trial: str, **changes: Any) -> TrialRecord:
    number, replicate = trial.split("-r")
    return build_record(int(number), int(replicate), **changes)


def named_by(losses: dict[str, list[float]], others: Any = (), **changes: Any) -> list[str]:
    """The findings on trials with these losses and other points."""
    records = [record_of(trial, **changes) for trial in losses]
    return [found.what for found in equal_trainings(sweep_of(records, [*rows_of(losses), *others]))]


def test_equal_losses_in_all_replicates_are_named() -> None:
    first, again, other = [0.5, 0.4], [0.6, 0.3], [0.5, 0.41]
    losses = {"0000-r0": first, "0001-r0": other, "0002-r0": first, "0002-r1": again, "0000-r1": again}
    (found,) = named_by({**losses, "0001-r1": again})
    assert found.startswith("0000 (weight=0), 0002 (weight=1) trained the same")


def test_one_other_replicate_loss_or_score_is_enough_to_tell_them_apart() -> None:
    alike = {"0000-r0": [0.5, 0.4], "0001-r0": [0.5, 0.4]}
    assert len(named_by(alike)) == 1
    assert named_by({**alike, "0000-r1": [0.2, 0.1], "0001-r1": [0.2, 0.3]}) == []
    assert named_by({**alike, "0000-r1": [0.2, 0.1]}) == []
    assert named_by({"0000-r0": [0.5, 0.4], "0001-r0": [0.5]}) == []
    scores = [(trial, 1, "sst", "dev", "accuracy", number / 10) for number, trial in enumerate(alike)]
    assert named_by(alike, scores) == []


def test_same_configuration_drawn_twice_and_unfinished_trials_are_not_named() -> None:
    alike = {"0000-r0": [0.5, 0.4], "0001-r0": [0.5, 0.4]}
    assert named_by(alike, config_hash="same") == []
    assert named_by(alike, status="running") == []
