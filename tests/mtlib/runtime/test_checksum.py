"""Checksums of files of any number of blocks, and hashes of plain data."""

import zlib
from pathlib import Path

import pytest

from mtlib.runtime.checksum import BLOCK_BYTES, file_crc32, hash_of


@pytest.mark.parametrize("size", [0, BLOCK_BYTES + 7])
def test_the_checksum_is_the_crc_of_all_bytes(size: int, tmp_path: Path) -> None:
    content = bytes(number % 251 for number in range(size))
    (tmp_path / "file").write_bytes(content)
    assert file_crc32(tmp_path / "file") == zlib.crc32(content)


def test_the_hash_depends_on_the_order_of_lists_and_not_of_keys() -> None:
    assert hash_of({"a": 1, "b": [1, 2]}) == hash_of({"b": [1, 2], "a": 1})
    assert hash_of([1, 2]) != hash_of([2, 1])
    assert hash_of({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
