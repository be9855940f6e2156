"""Only the weights of the best epochs are kept, damage is detected, and a failure leaves the previous files."""

import errno
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import mtlib.checkpoints.state
from mtlib.checkpoints.best_weights import CHECKSUMS, check_weights, keep_best, weights_path
from mtlib.checkpoints.state import DiskFull, StateFolder
from tests.killed import Killed
from tests.mtlib.checkpoints.kept_files import cut, empty, fill, flip, kill, listing


@pytest.fixture
def folder(tmp_path: Path) -> StateFolder:
    return StateFolder(path=tmp_path / "trial")


@pytest.fixture
def filled(folder: StateFolder) -> dict[str, bytes]:
    return fill(folder)


def kept_epochs(folder: StateFolder) -> list[int]:
    """Epochs with weights on disk; the weights hold the epoch's number."""
    found = sorted((folder.path / "weights").glob("*.safetensors"))
    sums = json.loads((folder.path / "weights" / CHECKSUMS).read_text())
    assert sums == {path.name: zlib.crc32(path.read_bytes()) for path in found}
    numbers = [int(load_file(path)["w"][0]) for path in found]
    assert found == [weights_path(folder, number) for number in numbers]
    return numbers


def test_weights_of_the_best_epochs_are_kept_and_others_removed(folder: StateFolder) -> None:
    history: list[tuple[dict[str, int], list[int]]] = [
        ({"sst": 1, "overall": 1}, [1]),
        ({"sst": 2, "overall": 1}, [1, 2]),
        ({"sst": 2, "overall": 1}, [1, 2]),  # epoch 3 is best for nothing
        ({"sst": 2, "overall": 4}, [2, 4]),
        ({"sst": 5, "overall": 5}, [5]),
    ]
    for epoch, (best, expected) in enumerate(history, start=1):
        keep_best(folder, epoch, best, {"w": torch.full((4,), float(epoch))})
        assert kept_epochs(folder) == expected
        assert json.loads((folder.path / "best.json").read_text()) == best


def test_weights_of_an_epoch_that_is_best_for_nothing_are_not_written(
    folder: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_best(folder, 1, {"overall": 1}, {"w": torch.ones(4)})
    monkeypatch.setattr(mtlib.checkpoints.state, "save_file", kill)
    keep_best(folder, 2, {"overall": 1}, {"w": torch.ones(4)})
    assert kept_epochs(folder) == [1]


def test_keeping_the_same_epoch_again_after_a_resumption_changes_nothing(folder: StateFolder) -> None:
    for _ in range(2):
        keep_best(folder, 1, {"overall": 1}, {"w": torch.ones(4)})
    assert kept_epochs(folder) == [1]


def test_a_kill_during_writing_leaves_the_previous_best_weights(
    folder: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_best(folder, 1, {"overall": 1}, {"w": torch.ones(4)})
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", kill)
        with pytest.raises(Killed):
            keep_best(folder, 2, {"overall": 2}, {"w": torch.full((4,), 2.0)})
    best = json.loads((folder.path / "best.json").read_text())
    assert best == {"overall": 1}
    assert load_file(weights_path(folder, 1))["w"].tolist() == [1.0] * 4
    keep_best(folder, 2, {"overall": 2}, {"w": torch.full((4,), 2.0)})
    assert kept_epochs(folder) == [2]
    assert sorted(path.name for path in folder.path.iterdir()) == ["best.json", "weights"]


@pytest.mark.parametrize("damage", [cut, empty, flip, Path.unlink])
def test_damaged_weights_are_detected_and_named(damage: Callable[[Path], None], folder: StateFolder) -> None:
    for epoch, best in ((1, {"sst": 1}), (2, {"sst": 1, "overall": 2})):
        keep_best(folder, epoch, best, {"w": torch.full((40,), float(epoch))})
    check_weights(folder, 1)
    check_weights(folder, 2)
    path = weights_path(folder, 1)
    damage(path)
    with pytest.raises(ValueError, match=f"^{path} is (missing|truncated or damaged: its checksum is wrong)$"):
        check_weights(folder, 1)
    check_weights(folder, 2)


def test_weights_without_checksums_count_as_whole(folder: StateFolder) -> None:
    keep_best(folder, 1, {"sst": 1}, {"w": torch.ones(4)})
    (folder.path / "weights" / CHECKSUMS).unlink()
    flip(weights_path(folder, 1))
    check_weights(folder, 1)
    keep_best(folder, 2, {"sst": 1, "overall": 2}, {"w": torch.ones(4)})
    check_weights(folder, 1)
    flip(weights_path(folder, 2))
    with pytest.raises(ValueError, match=r"epoch-0002\.safetensors is truncated or damaged"):
        check_weights(folder, 2)


@pytest.mark.parametrize("text", ["", "[]", "null", '{"epoch-0001.safetensors": null}', "\udcff"])
def test_damaged_checksums_are_detected_and_do_not_stop_a_trial(text: str, folder: StateFolder) -> None:
    keep_best(folder, 1, {"sst": 1}, {"w": torch.ones(4)})
    (folder.path / "weights" / CHECKSUMS).write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ValueError, match=r"^checksums\.json is truncated or damaged$"):
        check_weights(folder, 1)
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
    assert not list(folder.path.glob(".*"))


def test_a_full_disk_leaves_the_previous_list_of_best_epochs(
    folder: StateFolder, filled: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*_arguments: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", no_room)
    for best in ({"overall": 2}, {"overall": 1, "sst": 1}):
        with pytest.raises(DiskFull):
            keep_best(folder, 2, best, {"w": torch.ones(4)})
        assert listing(folder) == filled
