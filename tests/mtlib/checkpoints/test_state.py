"""States are restored bit for bit, a damaged one falls back to the previous, and only the newest are kept."""

import errno
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import mtlib.checkpoints.state
from mtlib.checkpoints.best_weights import keep_best, weights_file
from mtlib.checkpoints.state import (
    DiskFull,
    State,
    StateFolder,
    drop_states,
    load_state,
    newest_numbers,
    place_state,
    read_state,
    save_state,
    saved_states,
    set_aside,
)
from mtlib.runtime.storage import join_location, subfolder, write_bytes
from tests.killed import Killed
from tests.mtlib.checkpoints.kept_files import cut, flip, kill, listing, remove, state

Damage = Callable[[StateFolder, str], None]


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o002, 0o664), (0o077, 0o600)])
def test_files_of_a_state_have_the_mode_that_the_umask_gives(folder: StateFolder, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        save_state(folder, 1, state(1))
    finally:
        os.umask(before)
    files = [path for path in Path(str(folder.path)).rglob("*") if path.is_file()]
    assert len(files) > 1, "tensors and numbers"
    assert {path.stat().st_mode & 0o777 for path in files} == {mode}


def loaded_value(folder: StateFolder) -> float | None:
    """The value of the loaded state, equal in tensors and numbers; None if there is no state."""
    found = load_state(folder)
    if found is None:
        return None
    assert found.tensors["w"].tolist() == [found.numbers["value"]] * 300
    return float(found.numbers["value"])


def newest_value(folder: StateFolder) -> float | None:
    """The value of the newest state by its numbers alone."""
    found = newest_numbers(folder)
    return None if found is None else float(found["value"])


def bytes_of(tensor: torch.Tensor) -> list[int]:
    flat = tensor.detach().contiguous().flatten()
    return flat.view(torch.uint8).tolist()


def test_tensors_are_restored_bit_for_bit(folder: StateFolder) -> None:
    odd = torch.tensor([float("nan"), float("inf"), -0.0, 1e-45, 1 / 3, torch.finfo(torch.float32).max])
    tensors = {
        "odd": odd,
        "half": torch.tensor([1 / 3], dtype=torch.bfloat16),
        "count": torch.tensor(7.0),
        "whole": torch.tensor([2**62]),
        "transposed": torch.arange(6.0).reshape(2, 3).T,
        "trained": torch.nn.Parameter(torch.ones(2)),
        "nothing": torch.zeros(0, 3),
    }
    save_state(folder, 5, State(tensors=tensors, numbers={}))
    found = load_state(folder)
    assert found is not None
    assert found.tensors.keys() == tensors.keys()
    for name, tensor in tensors.items():
        back = found.tensors[name]
        assert (back.dtype, back.shape) == (tensor.dtype, tensor.shape)
        assert bytes_of(back) == bytes_of(tensor)


def test_numbers_are_restored_exactly(folder: StateFolder) -> None:
    numbers: dict[str, Any] = {
        "sums": {"sst": [0.1 + 0.2, 1e-320, 1.7976931348623157e308, -0.0], "qqp": [math.pi, math.nextafter(1, 2)]},
        "step": 2**53 + 1,
        "best": {"overall": [0.7000000000000001, 3]},
        "nothing": None,
        "text": "naïve ✓",
    }
    save_state(folder, 1, State(tensors={}, numbers=numbers))
    found = load_state(folder)
    assert found is not None
    assert found.numbers == numbers
    assert math.copysign(1, found.numbers["sums"]["sst"][3]) == -1


def test_the_newest_state_is_loaded_and_only_two_are_kept(any_folder: StateFolder) -> None:
    assert loaded_value(any_folder) is newest_value(any_folder) is None
    for step in (3, 9, 10, 200, 1000):
        save_state(any_folder, step, state(step))
        assert loaded_value(any_folder) == newest_value(any_folder) == step
    assert saved_states(any_folder) == ["state-000001000-000", "state-000000200-000"]
    assert {path.partition("/")[0] for path in listing(any_folder)} == {"state-000000200-000", "state-000001000-000"}


def test_states_after_the_same_step_do_not_replace_each_other(folder: StateFolder) -> None:
    for number in range(5):
        save_state(folder, 4, state(float(number)))
        assert loaded_value(folder) == number
        assert saved_states(folder) == [f"state-000000004-{kept:03d}" for kept in (number, number - 1) if kept >= 0]
    before = read_state(folder, saved_states(folder)[1])
    assert before is not None
    assert before.numbers == {"value": 3.0}


def test_new_states_are_kept_although_later_ones_are_damaged(folder: StateFolder) -> None:
    for step in (6, 9):
        save_state(folder, step, state(step))
    for name in saved_states(folder):
        cut(folder, f"{name}/tensors")
    assert load_state(folder) is None
    for step in (3, 4):  # the trial restarts
        save_state(folder, step, state(step))
        assert loaded_value(folder) == step
    assert saved_states(folder) == ["state-000000004-000", "state-000000003-000"]


@pytest.mark.parametrize("damage", [cut, flip, remove])
@pytest.mark.parametrize("file", ["tensors", "state.json"])
def test_a_damaged_state_is_skipped_for_the_previous_one(damage: Damage, file: str, folder: StateFolder) -> None:
    save_state(folder, 1, state(1.0))
    save_state(folder, 2, state(2.0))
    newest, before = saved_states(folder)
    damage(folder, f"{newest}/{file}")
    assert loaded_value(folder) == 1.0
    damage(folder, f"{before}/{file}")
    assert load_state(folder) is None


@pytest.mark.parametrize("step", [2, 3])
def test_a_kill_between_write_and_rename_leaves_the_last_good_state(
    step: int, folder: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_state(folder, 2, state(2.0))
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", kill)
        with pytest.raises(Killed):
            save_state(folder, step, state(3.0))
    assert loaded_value(folder) == 2.0
    save_state(folder, step, state(4.0))
    assert loaded_value(folder) == 4.0
    assert not any("/." in f"/{path}" for path in listing(folder))


@pytest.mark.parametrize("name", ["delete_file", "delete_folder"])
def test_a_kill_while_old_states_are_removed_leaves_the_new_one(
    name: str, folder: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in (1, 2):
        save_state(folder, step, state(step))
    with monkeypatch.context() as patch:
        patch.setattr(mtlib.checkpoints.state, name, kill)
        with pytest.raises(Killed):
            save_state(folder, 3, state(3))
    assert loaded_value(folder) == 3
    save_state(folder, 4, state(4))
    assert saved_states(folder) == ["state-000000004-000", "state-000000003-000"]
    assert {path.partition("/")[0] for path in listing(folder)} == {*saved_states(folder)}


def test_a_kill_before_the_numbers_leaves_the_last_good_state(any_folder: StateFolder) -> None:
    save_state(any_folder, 1, state(1.0))
    partial = "state-000000002-000/tensors"
    write_bytes(any_folder.root, partial, b"all of it, but no numbers")
    assert loaded_value(any_folder) == 1.0
    save_state(any_folder, 2, state(2.0))
    assert loaded_value(any_folder) == 2.0
    assert partial not in listing(any_folder)


def test_only_best_weights_and_states_that_were_set_aside_stay_of_a_finished_trial(any_folder: StateFolder) -> None:
    for step in (1, 2):
        save_state(any_folder, step, state(float(step)))
    newest, before = saved_states(any_folder)
    content = listing(any_folder)[f"{newest}/tensors"]
    aside = set_aside(any_folder, newest)
    assert (saved_states(any_folder), loaded_value(any_folder)) == ([before], 1.0)
    keep_best(any_folder, 1, {"overall": 1}, {"w": torch.ones(2)})
    write_bytes(any_folder.root, ".state.json.0.tmp", b"half of it")
    for _ in range(2):
        drop_states(any_folder)
        kept = listing(any_folder)
        assert load_state(any_folder) is None
        assert kept.keys() == {"best.json", "weights/checksums.json", weights_file(1)} | {
            f"{aside}/{name}" for name in ("state.json", "tensors")
        }
        assert kept[f"{aside}/tensors"] == content


def test_a_placed_state_is_a_copy(location: str) -> None:
    first, second = (StateFolder(path=join_location(location, name)) for name in ("a", "b"))
    save_state(first, 7, state(7.0))
    place_state(second, 9, subfolder(first.root, saved_states(first)[0]))
    drop_states(first)
    assert (loaded_value(second), saved_states(second)) == (7.0, ["state-000000009-000"])


def test_a_full_disk_leaves_the_previous_states(
    folder: StateFolder,
    filled: dict[str, bytes],
    full_disk: None,  # noqa: ARG001 - must be there
) -> None:
    with pytest.raises(DiskFull) as error:
        save_state(folder, 3, state(3.0))
    assert str(error.value).startswith("the disk must have room for the state after step 3, 1,200 bytes, got ")
    assert listing(folder) == filled
    assert loaded_value(folder) == 2.0


def test_another_error_is_not_changed_and_leaves_nothing(
    folder: StateFolder, filled: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    error = OSError(errno.EIO, "Input/output error")

    def fail(_tensors: Any, path: Path) -> None:
        path.write_bytes(b"half of it")
        raise error

    monkeypatch.setattr(mtlib.checkpoints.state, "save_file", fail)
    with pytest.raises(OSError) as found:
        save_state(folder, 3, state(3.0))
    assert found.value is error
    assert listing(folder) == filled
