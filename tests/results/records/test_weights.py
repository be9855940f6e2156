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
from tests.one_line_error import one_line_error
from tests.results.inference.trained_sweep import FIRST, kept_epoch


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


def truncate_without_checksums(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:99])
    path.with_name("checksums.json").unlink()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (Path.unlink, "is missing (a sweep deletes those of trials that are not among the best"),
        (lambda path: path.write_bytes(path.read_bytes()[:99]), "is truncated or damaged: its checksum is wrong"),
        (truncate_without_checksums, "is truncated or damaged: "),
        (lambda path: path.with_name("checksums.json").write_text("{"), "checksums.json is truncated or damaged"),
    ],
)
def test_unusable_weights_are_one_line(
    trained_folder: Path, tmp_path: Path, damage: Callable[[Path], object], message: str
) -> None:
    folder = shutil.copytree(trained_folder, tmp_path / "mine")
    damage(kept_file(folder))
    line = one_line_error(read, folder)
    assert line.startswith(f"weights must be whole, {kept_file(folder).parent}/")
    assert message in line


def test_trial_without_a_checkpoint_has_no_weights(trained_folder: Path) -> None:
    record, root = read_trials(trained_folder)[2], open_folder(trained_folder)
    line = one_line_error(read_trial_weights, root, record, 1)
    assert line.startswith("trial 0002-r0 (pruned) must have kept weights, got none (a sweep deletes")
    assert one_line_error(read_trial_weights, root, replace(record, epochs=0), 1).endswith("got none")
