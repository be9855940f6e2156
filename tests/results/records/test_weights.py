"""Stored weights are read as written, and any fault is one line."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from mtlib.runtime.storage import open_folder
from results.records.tables import read_trials
from results.records.weights import read_trial_weights
from tests.results.inference.trained_sweep import FIRST, kept_epoch


@pytest.fixture
def folder(trained_folder: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return shutil.copytree(trained_folder, tmp_path / "mine")


def kept_file(folder: Path) -> Path:
    epoch = kept_epoch(folder, FIRST, "overall")
    return folder / "trials" / FIRST / "checkpoint" / "weights" / f"epoch-{epoch:04d}.safetensors"


def read(folder: Path, place: str | None = None) -> dict[str, torch.Tensor]:
    record = read_trials(folder)[0]
    return read_trial_weights(open_folder(place or folder), record, kept_epoch(folder, FIRST, "overall"))


@pytest.mark.parametrize("is_uri", [False, True])
def test_weights_are_read_as_written(trained_folder: Path, is_uri: bool) -> None:
    found = read(trained_folder, trained_folder.as_uri() if is_uri else None)
    kept = load_file(kept_file(trained_folder))
    assert found.keys() == kept.keys() != set()
    assert all(torch.equal(found[name], kept[name]) for name in kept)


def test_weights_without_checksums_are_accepted(folder: Path) -> None:
    kept_file(folder).with_name("checksums.json").unlink()
    assert read(folder).keys() == load_file(kept_file(folder)).keys()


def flip_last_bit(path: Path) -> None:
    """Changes the last bit."""
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


def truncate_without_checksums(path: Path) -> None:
    """Truncates weights from before checksums were stored."""
    path.write_bytes(path.read_bytes()[:99])
    path.with_name("checksums.json").unlink()


FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "deleted": (
        lambda path: path.unlink(),
        " is missing (a sweep deletes those of trials that are not ",
    ),
    "all deleted": (lambda path: shutil.rmtree(path.parent), " is missing (a sweep deletes"),
    "half": (lambda path: path.write_bytes(path.read_bytes()[:99]), " is truncated or damaged: "),
    "half, no sums": (truncate_without_checksums, " is truncated or damaged: "),
    "a bit": (flip_last_bit, " is truncated or damaged: its checksum is wrong"),
    "half the sums": (
        lambda path: path.with_name("checksums.json").write_text('{"epo'),
        "/weights/checksums.json is truncated or damaged",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_unusable_weights_are_one_line(fault: str, folder: Path) -> None:
    damage, message = FAULTS[fault]
    path = kept_file(folder)
    damage(path)
    with pytest.raises(ValueError) as caught:
        read(folder)
    assert str(caught.value).startswith(f"weights must be whole, {path.parent}/")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_trial_without_a_checkpoint_has_no_weights(trained_folder: Path) -> None:
    record = read_trials(trained_folder)[2]
    root = open_folder(trained_folder)
    with pytest.raises(
        ValueError, match=r"^trial 0002-r0 \(pruned\) must have kept weights, got none \(a sweep deletes"
    ):
        read_trial_weights(root, record, 1)
    with pytest.raises(ValueError, match=r"must have kept weights, got none$"):
        read_trial_weights(root, replace(record, epochs=0), 1)
