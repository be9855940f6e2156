"""Weights that no selection can use are deleted, all others stay, and a trial's weights are whole at any moment."""

import json
import random
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


def write_weights(folder: Path, trial: TrialRecord) -> None:
    """Writes what training leaves: QQP is best in epoch 1, SST and overall in epoch 2."""
    for epoch, best in ((1, {"qqp": 1}), (2, {"qqp": 1, "sst": 2, "overall": 2})):
        keep_best(states_of(folder, trial), epoch, best, {"w": torch.full((3,), float(epoch))})


def remaining_weights(folder: Path, trial: TrialRecord) -> tuple[dict[str, int] | None, list[int]]:
    """Epochs in `best.json`, and epochs with weights, each of them whole."""
    states = states_of(folder, trial)
    path = states.path / "best.json"
    best = json.loads(path.read_text()) if path.exists() else None
    epochs = sorted(int(file.stem[-4:]) for file in (states.path / "weights").glob("epoch-*"))
    for epoch in epochs:
        check_weights(states, epoch)
    assert best is None or set(best.values()) <= set(epochs)
    return best, epochs


WHOLE = ({"overall": 2, "qqp": 1, "sst": 2}, [1, 2])


def test_best_trials_of_each_task_keep_its_best_epoch(tmp_path: Path) -> None:
    trials = [
        record(0, {"overall": 0.5, "sst": 0.1, "qqp": 0.9}),
        record(1, {"overall": 0.7, "sst": 0.8, "qqp": 0.2}, "pruned"),
        record(2, {"overall": 0.6, "sst": 0.7, "qqp": 0.3}, "reused"),
    ]
    for trial in trials:
        write_weights(tmp_path, trial)
    prune_weights(tmp_path, trials, 3)
    assert [remaining_weights(tmp_path, trial) for trial in trials] == [WHOLE] * 3
    prune_weights(tmp_path, trials, 2)
    assert [remaining_weights(tmp_path, trial) for trial in trials] == [
        ({"qqp": 1}, [1]),
        ({"overall": 2, "sst": 2}, [2]),
        WHOLE,
    ]
    prune_weights(tmp_path, trials, 1)
    assert [remaining_weights(tmp_path, trial) for trial in trials] == [
        ({"qqp": 1}, [1]),
        ({"overall": 2, "sst": 2}, [2]),
        ({}, []),
    ]


@pytest.mark.parametrize("status", ["running", "queued", "interrupted"])
def test_unfinished_trials_are_not_pruned_and_not_ranked(status: str, tmp_path: Path) -> None:
    trials = [record(0, {"overall": 0.9}, status), record(1, {"overall": 0.5})]
    for trial in trials:
        write_weights(tmp_path, trial)
    prune_weights(tmp_path, trials, 1)
    assert remaining_weights(tmp_path, trials[0]) == WHOLE
    assert remaining_weights(tmp_path, trials[1]) == ({"overall": 2}, [2])


def test_failed_trial_keeps_nothing_unless_it_can_continue(tmp_path: Path) -> None:
    trials = [record(0, {"overall": 0.9}, "failed"), record(1, {"overall": 0.8}, "failed"), record(2, {"overall": 0.1})]
    for trial in trials:
        write_weights(tmp_path, trial)
    save_state(states_of(tmp_path, trials[1]), 1, State(tensors={}, numbers={}))
    prune_weights(tmp_path, trials, 1)
    assert [remaining_weights(tmp_path, trial) for trial in trials] == [({}, []), WHOLE, ({"overall": 2}, [2])]


def test_ties_go_to_the_earlier_trial_in_any_order_of_finishing() -> None:
    trials = [record(1, {"sst": 0.5}), record(0, {"sst": 0.5}, replicate=1), record(0, {"sst": 0.5})]
    assert best_trials(trials, 1) == {"0000-r0": {"sst"}, "0000-r1": set(), "0001-r0": set()}
    assert best_trials(trials, 2) == {"0000-r0": {"sst"}, "0000-r1": {"sst"}, "0001-r0": set()}
    assert best_trials([], 1) == {}


@pytest.mark.parametrize("seed", range(3))
def test_pruning_after_every_trial_equals_pruning_at_the_end(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    trials = [record(number, {name: draw.randrange(5) / 5 for name in NAMES}) for number in range(12)]
    draw.shuffle(trials)
    pruned: KeptWeights = {}
    for number, trial in enumerate(trials):
        for place in ("often", "once"):
            write_weights(tmp_path / place, trial)
        waiting = [replace(other, status="queued") for other in trials[number + 1 :]]
        prune_weights(tmp_path / "often", [*trials[: number + 1], *waiting], 2, pruned)
    prune_weights(tmp_path / "once", trials, 2)
    found = [remaining_weights(tmp_path / "often", trial) for trial in trials]
    assert found == [remaining_weights(tmp_path / "once", trial) for trial in trials]
    assert [sum(name in (best or {}) for best, _ in found) for name in NAMES] == [2, 2, 2]


def test_kill_between_list_and_weights_is_repaired_by_the_next_pruning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial, better = record(0, {"overall": 0.1, "qqp": 0.9}), record(1, {"overall": 0.9})
    write_weights(tmp_path, trial)

    def fail(_path: Path) -> None:
        raise PermissionError

    pruned: KeptWeights = {}
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", fail)
        prune_weights(tmp_path, [trial, better], 1, pruned)
    assert remaining_weights(tmp_path, trial) == ({"qqp": 1}, [1, 2])
    prune_weights(tmp_path, [trial, better], 1, pruned)
    assert remaining_weights(tmp_path, trial) == ({"qqp": 1}, [1])


@pytest.mark.parametrize("text", ["", "[", None])
def test_trial_with_a_damaged_or_missing_list_is_not_pruned(text: str | None, tmp_path: Path) -> None:
    trial = record(0, {}, "failed")
    write_weights(tmp_path, trial)
    best = states_of(tmp_path, trial).path / "best.json"
    best.unlink() if text is None else best.write_text(text)
    prune_weights(tmp_path, [trial, record(1, {"overall": 0.5})], 1)
    assert len(list((best.parent / "weights").glob("epoch-*"))) == 2
