"""A file of weights that cannot be read is called what it is."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from mtlib.model.weight_files import check_finite, fault_of_files


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    save_file({"a": torch.ones(40), "b": torch.zeros(3, 2)}, path, metadata={"format": "pt"})
    return path


@pytest.mark.parametrize("num_bytes", [80, -1])  # within the header, within the data
def test_a_cut_file_is_called_cut_with_its_size(weights: Path, num_bytes: int) -> None:
    assert fault_of_files([weights]) is None
    whole = weights.read_bytes()
    weights.write_bytes(whole[:num_bytes])
    with pytest.raises(Exception, match=r"header|metadata"):
        load_file(weights)
    fault = fault_of_files([weights])
    assert fault is not None
    assert fault.startswith(f"model.safetensors is cut off after {len(whole[:num_bytes])}")
    assert (f"{len(whole)} bytes" in fault) == (num_bytes < 0)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"PK\x03\x04" + b"x" * 40, "no safetensors file"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 90868376\n", "a Git-LFS pointer"),
        (b"\n<!DOCTYPE html><html>Sign in</html>", "a web page"),
    ],
)
def test_a_file_that_is_something_else_is_called_what_it_is(weights: Path, content: bytes, fault: str) -> None:
    weights.write_bytes(content)
    assert str(fault_of_files([weights])).startswith(f"model.safetensors is {fault}")


def test_the_first_file_with_a_fault_is_named(weights: Path, tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_bytes(b"")
    assert fault_of_files([weights, tmp_path, tmp_path / "missing", tmp_path / "vocab.txt"]) == "vocab.txt is empty"


def test_weights_must_be_finite() -> None:
    check_finite("they must be finite", [("a", torch.ones(3)), ("b", torch.tensor([5]))])
    broken = [("a", torch.ones(3)), ("b", torch.tensor([1, float("nan")])), ("c", torch.tensor([float("-inf")]))]
    with pytest.raises(ValueError, match=r"^they must be finite, got NaN or infinity in 2 of them, first b$"):
        check_finite("they must be finite", broken)
