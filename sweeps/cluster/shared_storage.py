"""Whether the driver sees what other nodes write into a storage that is a local folder; otherwise trials are lost."""

import secrets
import time
from collections.abc import Callable
from pathlib import Path

from mtlib.runtime.errors import first_line
from mtlib.runtime.storage import Location, full_path, open_folder, write_bytes
from results.records.driver_file import read_driver

SEEN_SECONDS = 30.0
"""How long a file may take to be seen from another node: network file systems keep what a folder holds for so long."""
RULE = "--storage must be a folder that all nodes share, or a bucket (s3://...)"
PROBE = ".probe-"


def find_storage_fault(
    folder: Location, driver_id: str, is_seen: Callable[[str], bool], seconds: float = SEEN_SECONDS
) -> str | None:
    """Returns why the driver does not see what this process writes into a local folder, in a clause; None if it does.

    `is_seen` asks the driver's node for a file, and a yes may take so many seconds.
    """
    root, deadline = open_folder(folder), time.monotonic() + seconds
    while (driver := read_driver(root)) is None or driver.id != driver_id:
        if not Path(root.base_path).is_dir():
            return "there is no such folder"
        if time.monotonic() >= deadline:
            return "the folder is not the driver's"
        time.sleep(min(0.5, seconds))
    probe = f"{PROBE}{secrets.token_hex(8)}"
    try:
        write_bytes(root, probe, b"")
    except OSError as error:
        return f"it cannot be written: {first_line(error)}"
    try:
        while not is_seen(full_path(root, probe)):
            if time.monotonic() >= deadline:
                return "the driver does not see what is written"
            time.sleep(min(0.5, seconds))
    finally:
        root.delete_file(probe)
    return None
