"""The next trial: no stage is trained twice at a time, lanes idle only when they must, and no trial starves."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mtlib.config.trial import TrialConfig
from mtlib.runtime.environment import describe_environment
from sweeps.driver.trials.stage_order import StageKeys, choose_startable, done_ends, find_stage_keys
from tests.training_inputs import load_from_files


def keys(*ends: str, cuts: Sequence[str] = ()) -> StageKeys:
    """A trial with one-epoch stages, by the keys of their ends."""
    return StageKeys(ends=ends, epochs=tuple(range(1, len(ends) + 1)), cuts=frozenset((*ends, *cuts)))


def test_shorter_trial_precedes_a_longer_one_that_continues_it() -> None:
    long, short, other = keys("ten", cuts=["two"]), keys("two"), keys("else")
    assert choose_startable([long, short]) == 1
    assert choose_startable([long, other, short]) == 1, "only a trial that continues another waits for it"
    assert choose_startable([long], running=[short]) is None
    assert choose_startable([long]) == 0
    assert choose_startable([long, keys("ten", cuts=["two"])]) == 0, "equal trials keep their order"


def test_nearest_to_its_end_is_first_then_the_stage_that_most_wait_for() -> None:
    trials = [keys("x", "x.y"), keys("a", "a.c"), keys("a", "a.b", "a.b.c")]
    assert choose_startable(trials, done={"a", "a.b"}) == 2
    assert choose_startable([keys("p", "1"), keys("q", "2"), keys("q", "3"), keys("r", "4")]) == 1
    assert choose_startable([]) is None


@pytest.mark.parametrize(("past", "finished", "done"), [(0, 0, 0), (1, 0, 1), (2, 1, 2), (0, 2, 2), (3, 0, 3)])
def test_stages_before_the_starting_point_and_finished_ones_are_done(past: int, finished: int, done: int) -> None:
    row: Any = SimpleNamespace(past_epochs=past, num_stages=finished)
    assert done_ends(keys("a", "b", "c"), row) == ["a", "b", "c"][:done]


@dataclass
class Lanes:
    """Lanes that train random plans: stages are stored as they end, some trials fail."""

    stream: random.Random
    num_lanes: int
    pending: list[tuple[str, StageKeys]]
    done: set[str] = field(default_factory=set)
    running: dict[str, tuple[StageKeys, int]] = field(default_factory=dict)
    """By trial: its keys, and its number of finished stages."""
    kept: set[str] = field(default_factory=set)
    given: list[str] = field(default_factory=list)

    def assign(self) -> None:
        """Assigns trials until no lane is free or none may start; then checks the stages in training."""
        while len(self.running) < self.num_lanes:
            waiting = [found for _, found in self.pending]
            index = choose_startable(waiting, [found for found, _ in self.running.values()], self.done)
            if index is None:
                assert all(found.cuts & self.stages_in_training() for found in waiting), "a lane idles without need"
                break
            trial, found = self.pending.pop(index)
            done = next((at for at in range(len(found.ends), 0, -1) if found.ends[at - 1] in self.kept), 0)
            self.done.update(found.ends[:done])
            self.running[trial] = (found, done)
            self.given.append(trial)
        ends = [name for found, done in self.running.values() for name in found.ends[done:]]
        assert len(ends) == len(set(ends)), "no stage is trained twice at a time"

    def stages_in_training(self) -> set[str]:
        return {name for found, done in self.running.values() for name in found.ends[done:]}

    def advance(self) -> None:
        """One running trial finishes a stage, ends or fails."""
        trial = self.stream.choice(sorted(self.running))
        found, done = self.running[trial]
        if done == len(found.ends) or self.stream.random() < 0.1:
            del self.running[trial]
            return
        self.kept.add(found.ends[done])
        self.done.add(found.ends[done])
        self.running[trial] = (found, done + 1)


def random_trials(stream: random.Random) -> list[tuple[str, StageKeys]]:
    """Trials of up to three stages, many of which share their first stages; some are equal."""
    plans = [[stream.choice("abc") for _ in range(stream.randint(1, 3))] for _ in range(stream.randint(0, 14))]
    ends = [tuple("".join(plan[: at + 1]) + "." for at in range(len(plan))) for plan in plans]
    return [(str(number), keys(*names)) for number, names in enumerate(ends)]


@pytest.mark.parametrize("seed", range(20))
def test_random_plans_are_all_trained_without_training_a_stage_twice(seed: int) -> None:
    stream = random.Random(seed)
    pending = random_trials(stream)
    lanes = Lanes(stream, stream.randint(1, 4), list(pending))
    for _ in range(1000):
        lanes.assign()
        if not lanes.running:
            break
        lanes.advance()
    assert not lanes.pending
    assert sorted(lanes.given) == sorted(name for name, _ in pending)


CHANGES: tuple[dict[str, object], ...] = (
    {},
    {"replicate": 1},
    {"smart.weight": 0.0},
    {"tasks.sst.batch_size": 4},
    {"tasks.qqp.batch_size": 4},
    {"stages.1.epochs": 3},
    {"optimizer.schedule": "constant"},
    {"optimizer.schedule": "constant", "stages.1.epochs": 3},
    {"optimizer.schedule": "constant", "stages.1.epochs": 1},
)


def test_stage_keys_are_equal_exactly_where_loaded_keys_are(
    tiny_config: TrialConfig, tiny_folder: Path, tiny_encoder_folder: Path, tmp_path: Path
) -> None:
    """The keys are found without loading anything; the keys of the cuts need all that was loaded."""
    base = tiny_config.override({"encoder.name": str(tiny_encoder_folder), "smart.tasks": ["sst"]})
    configs = [base.override(changes) for changes in CHANGES]
    found = [find_stage_keys(config, tiny_folder, 1) for config in configs]
    here = describe_environment("cpu")
    known = [load_from_files(config, tiny_folder, tmp_path, here) for config in configs]
    names = [set(one.ends) for one in found]
    real = [{cut.key for cut in one.cuts if cut.is_end} for one in known]
    all_keys = [{key for cut in one.cuts for key in (cut.key, cut.key_with_best)} - {None} for one in known]
    for first in range(len(configs)):
        assert found[first].epochs == tuple(cut.total_epochs for cut in known[first].cuts if cut.is_end)
        for second in range(len(configs)):
            assert len(names[first] & names[second]) == len(real[first] & real[second])
            passed = len(found[first].cuts & names[second])
            assert passed == len(all_keys[first] & real[second])
    assert names[0] & names[3]
    assert not names[0] & names[4]
    assert found[7].cuts & names[8]
