"""Weights that no selection could use go, all others stay, and what is left is whole at any moment."""

import json
import random
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from mtlib.checkpoints.best_weights import check_weights, keep_best
from mtlib.checkpoints.state import State, StateFolder, save_state
from results.records.trials import TrialRecord
from sweeps.driver.ledger import queued_record
from sweeps.reuse.weight_pruning import KeptWeights, best_trials, prune_weights
from sweeps.search.trial_spec import TrialSpec
from tests.mtlib.config.config_cases import BASE

NAMES = ("overall", "sst", "qqp")


QUEUED = queued_record(TrialSpec(number=0, replicate=0, params={}, config=BASE))


def record(number: int, best: dict[str, float], status: str = "complete", replicate: int = 0) -> TrialRecord:
    trial_id = f"{number:04d}-r{replicate}"
    return replace(QUEUED, trial_id=trial_id, number=number, replicate=replicate, status=status, best=best, epochs=3)


def states_of(folder: Path, trial: TrialRecord) -> StateFolder:
    return StateFolder(path=folder / "trials" / trial.trial_id / "checkpoint")


def train(folder: Path, trial: TrialRecord) -> None:
    """Leaves what training does: QQP is best in epoch 1, SST in epoch 2, overall in epoch 2 as well."""
    for epoch, best in ((1, {"qqp": 1}), (2, {"qqp": 1, "sst": 2, "overall": 2})):
        keep_best(states_of(folder, trial), epoch, best, {"w": torch.full((3,), float(epoch))})


def left(folder: Path, trial: TrialRecord) -> tuple[dict[str, int] | None, list[int]]:
    """What `best.json` says, and the epochs whose weights are there, each of them whole."""
    states = states_of(folder, trial)
    path = states.path / "best.json"
    best = json.loads(path.read_text()) if path.exists() else None
    epochs = sorted(int(file.stem[-4:]) for file in (states.path / "weights").glob("epoch-*"))
    for epoch in epochs:
        check_weights(states, epoch)
    assert best is None or set(best.values()) <= set(epochs)
    return best, epochs


WHOLE = ({"overall": 2, "qqp": 1, "sst": 2}, [1, 2])


def test_for_each_name_its_best_trials_keep_its_best_epoch(tmp_path: Path) -> None:
    trials = [
        record(0, {"overall": 0.5, "sst": 0.1, "qqp": 0.9}),
        record(1, {"overall": 0.7, "sst": 0.8, "qqp": 0.2}, "pruned"),
        record(2, {"overall": 0.6, "sst": 0.7, "qqp": 0.3}, "reused"),
    ]
    for trial in trials:
        train(tmp_path, trial)
    prune_weights(tmp_path, trials, 3)
    assert [left(tmp_path, trial) for trial in trials] == [WHOLE] * 3
    prune_weights(tmp_path, trials, 2)
    assert [left(tmp_path, trial) for trial in trials] == [
        ({"qqp": 1}, [1]),
        ({"overall": 2, "sst": 2}, [2]),
        WHOLE,
    ]
    prune_weights(tmp_path, trials, 1)
    assert [left(tmp_path, trial) for trial in trials] == [
        ({"qqp": 1}, [1]),
        ({"overall": 2, "sst": 2}, [2]),
        ({}, []),
    ]


@pytest.mark.parametrize("status", ["running", "queued", "interrupted"])
def test_what_may_still_write_is_left_alone_and_outdoes_nobody(status: str, tmp_path: Path) -> None:
    trials = [record(0, {"overall": 0.9}, status), record(1, {"overall": 0.5})]
    for trial in trials:
        train(tmp_path, trial)
    prune_weights(tmp_path, trials, 1)
    assert left(tmp_path, trials[0]) == WHOLE
    assert left(tmp_path, trials[1]) == ({"overall": 2}, [2])


def test_a_failed_trial_keeps_nothing_unless_it_can_go_on(tmp_path: Path) -> None:
    trials = [record(0, {"overall": 0.9}, "failed"), record(1, {"overall": 0.8}, "failed"), record(2, {"overall": 0.1})]
    for trial in trials:
        train(tmp_path, trial)
    save_state(states_of(tmp_path, trials[1]), 1, State(tensors={}, numbers={}))
    prune_weights(tmp_path, trials, 1)
    assert [left(tmp_path, trial) for trial in trials] == [({}, []), WHOLE, ({"overall": 2}, [2])]


def test_of_equal_scores_the_earlier_trials_is_the_better_whoever_ended_first() -> None:
    trials = [record(1, {"sst": 0.5}), record(0, {"sst": 0.5}, replicate=1), record(0, {"sst": 0.5})]
    assert best_trials(trials, 1) == {"0000-r0": {"sst"}, "0000-r1": set(), "0001-r0": set()}
    assert best_trials(trials, 2) == {"0000-r0": {"sst"}, "0000-r1": {"sst"}, "0001-r0": set()}
    assert best_trials([], 1) == {}


@pytest.mark.parametrize("seed", range(3))
def test_cleaning_after_every_trial_leaves_what_cleaning_at_the_end_does(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    trials = [record(number, {name: draw.randrange(5) / 5 for name in NAMES}) for number in range(12)]
    draw.shuffle(trials)
    pruned: KeptWeights = {}
    for number, trial in enumerate(trials):
        for place in ("often", "once"):
            train(tmp_path / place, trial)
        waiting = [replace(other, status="queued") for other in trials[number + 1 :]]
        prune_weights(tmp_path / "often", [*trials[: number + 1], *waiting], 2, pruned)
    prune_weights(tmp_path / "once", trials, 2)
    found = [left(tmp_path / "often", trial) for trial in trials]
    assert found == [left(tmp_path / "once", trial) for trial in trials]
    assert [sum(name in (best or {}) for best, _ in found) for name in NAMES] == [2, 2, 2]


def test_a_kill_between_the_list_and_the_weights_is_made_good_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial, better = record(0, {"overall": 0.1, "qqp": 0.9}), record(1, {"overall": 0.9})
    train(tmp_path, trial)

    def fail(_path: Path) -> None:
        raise PermissionError

    pruned: KeptWeights = {}
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", fail)
        prune_weights(tmp_path, [trial, better], 1, pruned)
    assert left(tmp_path, trial) == ({"qqp": 1}, [1, 2])
    prune_weights(tmp_path, [trial, better], 1, pruned)
    assert left(tmp_path, trial) == ({"qqp": 1}, [1])


@pytest.mark.parametrize("text", ["", "[", None])
def test_a_trial_whose_list_is_damaged_or_missing_is_left_alone(text: str | None, tmp_path: Path) -> None:
    trial = record(0, {}, "failed")
    train(tmp_path, trial)
    best = states_of(tmp_path, trial).path / "best.json"
    best.unlink() if text is None else best.write_text(text)
    prune_weights(tmp_path, [trial, record(1, {"overall": 0.5})], 1)
    assert len(list((best.parent / "weights").glob("epoch-*"))) == 2


def test_looking_again_at_a_thousand_trials_takes_a_moment(tmp_path: Path) -> None:
    trials = [record(number, dict.fromkeys(NAMES, number / 1000)) for number in range(1000)]
    pruned: KeptWeights = {}
    prune_weights(tmp_path, trials, 20, pruned)
    started = time.perf_counter()
    for _ in range(10):
        prune_weights(tmp_path, trials, 20, pruned)
    assert (time.perf_counter() - started) / 10 < 0.1
