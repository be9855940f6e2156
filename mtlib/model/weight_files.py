"""Finds why weights cannot be loaded or trained: files that are damaged or no weights, and NaN or infinity."""

import json
from collections.abc import Iterable
from pathlib import Path

from torch import Tensor

from mtlib.runtime.errors import require

POINTER = b"version https://git-lfs.github.com/spec/"
"""Beginning of the short text that Git keeps in place of a large file until `git lfs pull` fetches it."""
WEB_PAGES = (b"<!doctype", b"<html")
HEAD_BYTES = 256
"""Bytes read of each file: a pointer of Git LFS, or a web page up to its first tag, is shorter."""


def fault_of_files(paths: Iterable[Path]) -> str | None:
    """Names the first faulty file and its fault, in a clause; None if no fault is seen."""
    found = ((path.name, fault_of_file(path)) for path in paths if path.is_file())
    try:
        return next((f"{name} is {fault}" for name, fault in found if fault), None)
    except OSError:  # the error that asks for the reason names what cannot be read
        return None


def fault_of_file(path: Path) -> str | None:
    """Says in a few words why a file holds no weights, e.g. `a web page`; None if no fault is seen."""
    with path.open("rb") as stream:
        head = stream.read(HEAD_BYTES)
    if not head:
        return "empty"
    if head.startswith(POINTER):
        return "a Git-LFS pointer in place of the file, which `git lfs pull` fetches"
    if head.lstrip().lower().startswith(WEB_PAGES):
        return "a web page"
    return fault_of_safetensors(path) if path.suffix == ".safetensors" else None


def fault_of_safetensors(path: Path) -> str | None:
    """As `fault_of_file`, for safetensors: 8 bytes with the length of the header, the header with all offsets, data."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        length, first = int.from_bytes(stream.read(8), "little"), stream.read(1)
        if first != b"{":
            return "no safetensors file"
        if 8 + length > size:
            return f"cut off after {size:,} bytes, in its header"
        header = first + stream.read(length - 1)
    try:
        tensors = {name: entry for name, entry in json.loads(header).items() if name != "__metadata__"}
        wanted = 8 + length + max((entry["data_offsets"][1] for entry in tensors.values()), default=0)
    except (ValueError, LookupError, TypeError):
        return "no safetensors file"
    return f"cut off after {size:,} of {wanted:,} bytes" if size < wanted else None


def check_finite(rule: str, weights: Iterable[tuple[str, Tensor]]) -> None:
    """Raises ValueError that begins with `rule` if a weight, of pairs of name and tensor, holds NaN or infinity."""
    damaged = [name for name, weight in weights if not weight.isfinite().all()]
    require(not damaged, rule, f"NaN or infinity in {len(damaged)} of them, first {', '.join(damaged[:1])}")
