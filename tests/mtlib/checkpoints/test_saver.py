"""A saver writes what a trial holds at the moment of the call, in order, and no error of its thread is lost."""

import errno
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load

import mtlib.checkpoints.saver
from mtlib.checkpoints.best_weights import keep_best, read_best, read_weights
from mtlib.checkpoints.saver import Saver
from mtlib.checkpoints.state import State, StateFolder, load_state, newest_numbers, save_state, saved_states
from mtlib.runtime.storage import list_files


@pytest.fixture(params=[False, True], ids=["at once", "in the background"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> StateFolder:
    return StateFolder(path=tmp_path / "trial", in_background=request.param)


@pytest.fixture
def in_background(tmp_path: Path) -> StateFolder:
    return StateFolder(path=tmp_path / "trial", in_background=True)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Nothing is written until it is set."""
    event = threading.Event()

    def after(write: Any) -> Any:
        def wait(*arguments: Any) -> None:
            assert event.wait(60)
            write(*arguments)

        return wait

    for write in (save_state, keep_best):
        monkeypatch.setattr(mtlib.checkpoints.saver, write.__name__, after(write))
    yield event
    event.set()


def state(tensor: torch.Tensor) -> State:
    return State(tensors={"w": tensor}, numbers={})


def saved_values(folder: StateFolder) -> list[float]:
    found = load_state(folder)
    assert found is not None
    values: list[float] = found.tensors["w"].tolist()
    return values


def refuse(*_arguments: Any) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_everything_is_written_at_the_end(folder: StateFolder) -> None:
    with Saver(folder) as saver:
        saver.keep(1, {"overall": 1}, {"w": torch.ones(1)})
        saver.save(5, state(torch.ones(2)), {"overall": 1})
    assert (saved_values(folder), read_best(folder)) == ([1, 1], {"overall": 1})


def test_what_is_saved_and_kept_does_not_change_with_later_steps(
    in_background: StateFolder, gate: threading.Event
) -> None:
    trained, sums, best = torch.ones(2), {"sst": {"loss": (1.5, 8)}}, {"overall": 1}
    with Saver(in_background) as saver:
        saver.save(1, State(tensors={"w": trained}, numbers={"sums": sums}), {})
        trained.zero_()
        sums["sst"]["loss"] = (3.0, 16)
        gate.set()
        saver.wait()
        gate.clear()
        trained.fill_(1)
        saver.keep(1, best, {"w": trained})
        trained.zero_()
        best["overall"] = 2
        gate.set()
    assert saved_values(in_background) == [1, 1]
    assert newest_numbers(in_background) == {"sums": {"sst": {"loss": [1.5, 8]}}}
    assert read_best(in_background) == {"overall": 1}
    assert load(read_weights(in_background, 1))["w"].tolist() == [1, 1]


def test_trial_trains_on_until_it_saves_again(in_background: StateFolder, gate: threading.Event) -> None:
    with Saver(in_background) as saver:
        saver.save(1, state(torch.ones(1)), {})
        assert saved_states(in_background) == []
        threading.Timer(0.05, gate.set).start()
        saver.save(2, state(torch.full((1,), 2.0)), {})
        assert "state-000000001-000" in saved_states(in_background)
        saver.wait()
        assert saved_states(in_background) == ["state-000000002-000", "state-000000001-000"]


@pytest.mark.parametrize("how", ["keep", "end"])
def test_error_of_the_thread_is_raised_at_the_next_call(
    how: str, in_background: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mtlib.checkpoints.saver, "save_state", refuse)

    def save_and_call() -> None:
        with Saver(in_background) as saver:
            saver.save(1, state(torch.ones(1)), {})
            if how == "keep":
                saver.keep(2, {"overall": 2}, {"w": torch.ones(1)})
            assert how == "end"

    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        save_and_call()
    assert list_files(in_background.root, "") == []


@pytest.mark.parametrize("can_write", [True, False])
def test_error_of_training_goes_through_and_what_was_given_is_written_if_it_can(
    can_write: bool, in_background: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def save_and_fail() -> None:
        with Saver(in_background) as saver:
            saver.save(1, state(torch.ones(1)), {})
            raise ZeroDivisionError

    if not can_write:
        monkeypatch.setattr(mtlib.checkpoints.saver, "save_state", refuse)
    before = threading.active_count()
    with pytest.raises(ZeroDivisionError):
        save_and_fail()
    assert threading.active_count() == before
    assert len(saved_states(in_background)) == can_write


def test_states_are_not_closer_than_the_least_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with Saver(StateFolder(path=tmp_path, least_seconds=60)) as saver:
        assert saver.wants_state()
        saver.save(1, state(torch.ones(1)), {})
        now[0] += 59.9
        assert (saver.wants_state(), saver.wants_state(always=True)) == (False, True)
        now[0] += 0.2
        assert saver.wants_state()
    with Saver(StateFolder(path=tmp_path)) as saver:
        saver.save(2, state(torch.ones(1)), {})
        assert saver.wants_state()


def test_states_are_due_every_so_many_steps(tmp_path: Path) -> None:
    with Saver(StateFolder(path=tmp_path, checkpoint_steps=3)) as saver:
        assert [step for step in range(1, 10) if saver.is_due(step)] == [3, 6, 9]


def test_weights_that_a_saved_state_needs_stay_until_the_next_state(folder: StateFolder) -> None:
    """From the state of epoch 1 the trial may resume, and must find that epoch's weights."""
    weights = {"w": torch.ones(1)}
    with Saver(folder) as saver:
        saver.keep(1, {"overall": 1}, weights)
        saver.save(10, state(torch.ones(1)), {"overall": 1})
        saver.keep(2, {"overall": 2}, weights)
        saver.keep(3, {"overall": 3}, weights)
        saver.wait()
        read_weights(folder, 1)
        with pytest.raises(ValueError, match="epoch-0002"):
            read_weights(folder, 2)
        saver.save(30, state(torch.ones(1)), {"overall": 3})
        saver.keep(4, {"overall": 4}, weights)
        saver.wait()
        read_weights(folder, 3)
        with pytest.raises(ValueError, match="epoch-0001"):
            read_weights(folder, 1)


def test_other_workers_write_nothing(folder: StateFolder) -> None:
    with Saver(folder, is_writer=False) as saver:
        assert not saver.wants_state(always=True)
        saver.keep(1, {"overall": 1}, {"w": torch.ones(1)})
    assert list_files(folder.root, "") == []
