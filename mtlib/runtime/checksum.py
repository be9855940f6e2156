"""Checksums that detect truncated or damaged files, and hashes of plain data."""

import hashlib
import json
import zlib
from pathlib import Path
from typing import Any

BLOCK_BYTES = 1 << 20


def file_crc32(path: Path) -> int:
    """CRC-32 of a file, read block by block; OSError if it cannot be read."""
    value = 0
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            value = zlib.crc32(block, value)
    return value


def hash_of(value: Any) -> str:
    """SHA-256, in hexadecimal, of plain data as JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
