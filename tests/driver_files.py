"""The file `driver.json` of a sweep whose driver lives, has stopped, or is gone."""

import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from mtlib.runtime.storage import open_folder
from results.records.driver_file import DRIVER_FILE, Progress, own_processes
from results.records.files import write_json


def write_driver(folder: str | Path, progress: Progress | None = None, **changes: Any) -> None:
    """Writes the file as this process would if it ran the sweep, with some values changed."""
    content: Mapping[str, Any] = {
        "id": "this",
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "processes": own_processes(),
        "began": psutil.Process().create_time(),
        "time": time.time(),
        "has_stopped": False,
        "progress": {trial: dict(own) for trial, own in (progress or {}).items()},
    }
    write_json(open_folder(folder), DRIVER_FILE, {**content, **changes})
