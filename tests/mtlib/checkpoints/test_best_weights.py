"""Only the weights of the best epochs are kept, damage is detected, and a failure leaves the previous files."""

import json
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load

from mtlib.checkpoints.best_weights import CHECKSUMS_FILE, check_best, keep_best, read_best, read_weights, weights_file
from mtlib.checkpoints.state import DiskFull, StateFolder
from mtlib.runtime.storage import full_path, list_files, read_bytes, write_bytes
from tests.killed import Killed
from tests.mtlib.checkpoints.kept_files import cut, flip, kill, listing, remove

Damage = Callable[[StateFolder, str], None]


def kept_epochs(folder: StateFolder) -> list[int]:
    """Epochs whose weights are kept; the weights hold the epoch's number."""
    files = [info.path for info in list_files(folder.root, "weights") if info.path != CHECKSUMS_FILE]
    contents = {path: read_bytes(folder.root, path) for path in files}
    sums = {path.removeprefix("weights/"): zlib.crc32(content) for path, content in contents.items()}
    assert json.loads(read_bytes(folder.root, CHECKSUMS_FILE)) == sums
    numbers = [int(load(content)["w"][0]) for content in contents.values()]
    assert files == [weights_file(number) for number in numbers]
    assert list(contents.values()) == [read_weights(folder, number) for number in numbers]
    return numbers


def test_weights_of_the_best_epochs_are_kept_and_others_removed(any_folder: StateFolder) -> None:
    history: list[tuple[dict[str, int], list[int]]] = [
        ({"sst": 1, "overall": 1}, [1]),
        ({"sst": 2, "overall": 1}, [1, 2]),
        ({"sst": 2, "overall": 1}, [1, 2]),  # epoch 3 is best for nothing
        ({"sst": 2, "overall": 4}, [2, 4]),
        ({"sst": 5, "overall": 5}, [5]),
    ]
    for epoch, (best, expected) in enumerate(history, start=1):
        for _ in range(2):  # a trial that resumed keeps the same weights again
            keep_best(any_folder, epoch, best, {"w": torch.full((4,), float(epoch))})
        assert kept_epochs(any_folder) == expected
        assert read_best(any_folder) == best


def test_weights_that_a_saved_state_needs_stay(folder: StateFolder) -> None:
    """A trial that resumes from a state before epoch 2 has its best weights."""
    for epoch, needed, kept in ((1, frozenset(), [1]), (2, {1}, [1, 2]), (3, {1}, [1, 3]), (4, {3}, [3, 4])):
        keep_best(folder, epoch, {"overall": epoch}, {"w": torch.full((4,), float(epoch))}, needed)
        assert (kept_epochs(folder), read_best(folder)) == (kept, {"overall": epoch})


def test_a_kill_during_writing_leaves_the_previous_best_weights(
    folder: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_best(folder, 1, {"overall": 1}, {"w": torch.ones(4)})
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", kill)
        with pytest.raises(Killed):
            keep_best(folder, 2, {"overall": 2}, {"w": torch.full((4,), 2.0)})
    assert read_best(folder) == {"overall": 1}
    assert load(read_weights(folder, 1))["w"].tolist() == [1.0] * 4
    keep_best(folder, 2, {"overall": 2}, {"w": torch.full((4,), 2.0)})
    assert kept_epochs(folder) == [2]
    assert listing(folder).keys() == {"best.json", CHECKSUMS_FILE, weights_file(2)}


@pytest.mark.parametrize("damage", [cut, flip, remove])
def test_damaged_weights_are_detected_and_named(damage: Damage, folder: StateFolder) -> None:
    for epoch, best in ((1, {"sst": 1}), (2, {"sst": 1, "overall": 2})):
        keep_best(folder, epoch, best, {"w": torch.full((40,), float(epoch))})
    assert check_best(folder) == {"sst": 1, "overall": 2}
    damage(folder, weights_file(1))
    path = full_path(folder.root, weights_file(1))
    with pytest.raises(ValueError, match=f"^{path} is (missing|truncated or damaged: its checksum is wrong)$"):
        check_best(folder)
    read_weights(folder, 2)


@pytest.mark.parametrize("text", ["", '{"epoch-0001.safetensors": null}'])
def test_damaged_checksums_are_detected_and_do_not_stop_a_trial(text: str, folder: StateFolder) -> None:
    keep_best(folder, 1, {"sst": 1}, {"w": torch.ones(4)})
    write_bytes(folder.root, CHECKSUMS_FILE, text.encode())
    with pytest.raises(ValueError, match=r"checksums\.json is truncated or damaged$"):
        read_weights(folder, 1)
    keep_best(folder, 2, {"sst": 2}, {"w": torch.full((4,), 2.0)})
    assert kept_epochs(folder) == [2]


def test_a_full_disk_leaves_the_previous_weights(
    folder: StateFolder,
    filled: dict[str, bytes],
    full_disk: None,  # noqa: ARG001 - must be there
) -> None:
    with pytest.raises(DiskFull, match=r"^the disk must have room for the weights of epoch 2, 16 bytes, got \d"):
        keep_best(folder, 2, {"overall": 2}, {"w": torch.ones(4)})
    assert listing(folder) == filled
