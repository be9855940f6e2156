"""A folder with small states and weights, and functions that damage them."""

from pathlib import Path
from typing import Any

import torch

from mtlib.checkpoints.best_weights import keep_best
from mtlib.checkpoints.state import State, StateFolder, save_state
from tests.killed import Killed


def state(value: float) -> State:
    """A state identified by its value."""
    return State(tensors={"w": torch.full((300,), value)}, numbers={"value": value})


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def kill(*_arguments: Any, **_named: Any) -> None:
    raise Killed


def listing(folder: StateFolder) -> dict[str, bytes]:
    """Every file below a folder, hidden ones too, and its content."""
    return {str(path): path.read_bytes() for path in folder.path.rglob("*") if path.is_file()}


def fill(folder: StateFolder) -> dict[str, bytes]:
    """Two states and the weights of an epoch; all files."""
    for step in (1, 2):
        save_state(folder, step, state(float(step)))
    keep_best(folder, 1, {"overall": 1}, {"w": torch.ones(4)})
    return listing(folder)
