"""Checksums that detect truncated or damaged files of a trial or a store."""

import zlib
from pathlib import Path

BLOCK_BYTES = 1 << 20


def file_crc32(path: Path) -> int:
    """CRC-32 of a file, read block by block; OSError if it cannot be read."""
    value = 0
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            value = zlib.crc32(block, value)
    return value
