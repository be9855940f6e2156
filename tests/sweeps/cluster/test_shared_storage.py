"""A folder that the driver does not share is found, and nothing is left in one that it does."""

from pathlib import Path
from unittest.mock import Mock

import pytest

from results.records.driver_file import DRIVER_FILE
from sweeps.cluster import shared_storage
from sweeps.cluster.shared_storage import find_storage_fault
from tests.driver_files import write_driver


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A sweep's folder, which driver `d` runs."""
    write_driver(tmp_path, id="d")
    return tmp_path


def is_there(path: str) -> bool:
    return Path(path).is_file()


def test_shared_folder_has_no_fault_and_keeps_no_file(folder: Path) -> None:
    asked: list[str] = []

    def sees_at_the_third_time(path: str) -> bool:
        asked.append(path)
        return len(asked) == 3 and is_there(path)

    assert find_storage_fault(folder, "d", sees_at_the_third_time, 5.0) is None
    assert len(set(asked)) == 1
    assert list(folder.iterdir()) == [folder / DRIVER_FILE]


@pytest.mark.parametrize(
    ("place", "driver", "fault"),
    [
        ("", "other", "the folder is not the driver's"),
        ("nowhere", "d", "there is no such folder"),
        ("", "d", "the driver does not see what is written"),
    ],
)
def test_folder_of_this_node_alone_is_a_fault(folder: Path, place: str, driver: str, fault: str) -> None:
    assert find_storage_fault(folder / place, driver, lambda _path: False, 0.1) == fault
    assert list(folder.iterdir()) == [folder / DRIVER_FILE]


def test_folder_that_cannot_be_written_is_a_fault(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_storage, "write_bytes", Mock(side_effect=OSError("Read-only file system")))
    assert find_storage_fault(folder, "d", is_there, 0.1) == "it cannot be written: Read-only file system"
