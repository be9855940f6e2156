"""Configurations with equal losses in all trainings are named; those that only begin alike are not."""

from typing import Any

import pandas as pd

from results.analysis.ranking.equal_trainings import equal_trainings
from results.records.trials import TrialRecord
from tests.results.conftest import build_record


def curves(losses: dict[str, list[float]]) -> pd.DataFrame:
    """The train losses of trials by epoch, and scores that differ."""
    rows = [
        (trial, epoch, "sst", split, metric, value)
        for number, (trial, own) in enumerate(losses.items())
        for epoch, loss in enumerate(own, 1)
        for split, metric, value in (("train", "loss", loss), ("dev", "loss", loss + 1), ("train", "tokens", number))
    ]
    return pd.DataFrame(rows, columns=["trial", "epoch", "task", "split", "metric", "value"])


def named_by(losses: dict[str, list[float]], **changes: Any) -> list[str]:
    """The notes on trials with these losses."""
    return [note.what for note in equal_trainings(curves(losses), [record_of(trial, **changes) for trial in losses])]


def record_of(trial: str, **changes: Any) -> TrialRecord:
    number, replicate = trial.split("-r")
    return build_record(int(number), int(replicate), **changes)


def test_equal_losses_in_all_replicates_are_named() -> None:
    first, again, other = [0.5, 0.4], [0.6, 0.3], [0.5, 0.41]
    losses = {"0000-r0": first, "0001-r0": other, "0002-r0": first, "0002-r1": again, "0000-r1": again}
    assert named_by({**losses, "0001-r1": again}) == [
        "0000 (weight=0), 0002 (weight=1) trained the same, with equal losses and scores in every replicate"
    ]


def test_one_other_replicate_or_loss_is_enough_to_tell_them_apart() -> None:
    assert named_by({"0000-r0": [0.5, 0.4], "0001-r0": [0.5, 0.4], "0000-r1": [0.2, 0.1], "0001-r1": [0.2, 0.3]}) == []
    assert named_by({"0000-r0": [0.5, 0.4], "0001-r0": [0.5, 0.4], "0000-r1": [0.2, 0.1]}) == []
    assert named_by({"0000-r0": [0.5, 0.4], "0001-r0": [0.5]}) == []


def test_another_dev_score_is_enough_to_tell_them_apart() -> None:
    alike = {"0000-r0": [0.5], "0001-r0": [0.5]}
    scores = [(trial, 1, "sst", "dev", "accuracy", number / 10) for number, trial in enumerate(alike)]
    points = pd.concat([curves(alike), pd.DataFrame(scores, columns=curves({}).columns)])
    assert list(equal_trainings(points, [record_of(trial) for trial in alike])) == []


def test_same_configuration_drawn_twice_and_unfinished_trials_are_not_named() -> None:
    alike = {"0000-r0": [0.5, 0.4], "0001-r0": [0.5, 0.4]}
    assert len(named_by(alike)) == 1
    assert named_by(alike, config_hash="same") == []
    assert named_by(alike, status="running") == []
    assert list(equal_trainings(curves({}), [])) == []
