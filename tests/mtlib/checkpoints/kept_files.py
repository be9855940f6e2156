"""A folder with small states and weights, and functions that damage them."""

from typing import Any

import torch

from mtlib.checkpoints.best_weights import keep_best
from mtlib.checkpoints.state import State, StateFolder, save_state
from mtlib.runtime.storage import delete_file, list_files, read_bytes, write_bytes
from tests.killed import Killed


def state(value: float) -> State:
    """A state identified by its value."""
    return State(tensors={"w": torch.full((300,), value)}, numbers={"value": value})


def cut(folder: StateFolder, path: str) -> None:
    write_bytes(folder.root, path, read_bytes(folder.root, path)[:-20])


def flip(folder: StateFolder, path: str) -> None:
    data = bytearray(read_bytes(folder.root, path))
    data[len(data) // 2] ^= 1
    write_bytes(folder.root, path, bytes(data))


def remove(folder: StateFolder, path: str) -> None:
    delete_file(folder.root, path)


def kill(*_arguments: Any, **_named: Any) -> None:
    raise Killed


def listing(folder: StateFolder) -> dict[str, bytes]:
    """Every file below a folder, hidden ones too, and its content."""
    return {info.path: read_bytes(folder.root, info.path) for info in list_files(folder.root, "")}


def fill(folder: StateFolder) -> dict[str, bytes]:
    """Two states and the weights of an epoch; all files."""
    for step in (1, 2):
        save_state(folder, step, state(float(step)))
    keep_best(folder, 1, {"overall": 1}, {"w": torch.ones(4)})
    return listing(folder)
