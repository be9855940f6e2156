"""Suggestions for missing files: unused files of the same split and task."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mtlib.config.data import TABLE_SUFFIXES
from mtlib.data.file_suggestions import MAX_LISTED_FILES, describe_folder, describe_missing, near_folder, nearest_file


def make_files(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


@pytest.mark.parametrize(
    ("name", "others", "meant"),
    [
        ("ids-sst-dev.csv", ["IDS_SST_dev.csv", "sst-train.csv"], "IDS_SST_dev.csv"),
        ("mine-train.csv", ["mine-training.tsv", "other.csv"], "mine-training.tsv"),
        ("mine-train.csv", ["mine-train.tsv", "mine.csv"], "mine.csv"),
        ("qoura-dev.csv", ["quora-dev.csv", "quora-train.csv"], "quora-dev.csv"),
        ("dev.tsv", ["valid.tsv"], "valid.tsv"),
        ("mine.csv", ["mine-train.csv"], "mine-train.csv"),
        ("mine-train.csv", ["mine-dev.csv"], None),
        ("mine.csv", ["mine-dev.csv"], None),
        ("train.tsv", ["dev.tsv"], None),
        ("sst-dev.csv", ["sts-dev.csv"], None),  # a file of another task
    ],
)
def test_the_file_of_the_same_split_with_the_nearest_name_is_suggested(
    name: str, others: list[str], meant: str | None
) -> None:
    assert nearest_file(name, others) == meant


def test_a_used_file_is_listed_but_not_suggested(tmp_path: Path) -> None:
    make_files(tmp_path, "mine.csv", "readme.md")
    missing = ["mine-train.csv"]
    assert describe_missing(tmp_path, missing) == "did you mean 'mine.csv'? the folder holds mine.csv"
    assert describe_missing(tmp_path, missing, used=["mine.csv"]) == "the folder holds mine.csv"
    assert describe_missing(tmp_path, missing, used=["below/mine.csv"]).startswith("did you mean 'mine.csv'?")


def test_each_missing_file_gets_its_own_suggestion(tmp_path: Path) -> None:
    make_files(tmp_path, "mines-train.csv", "mine2-dev.csv")
    line = describe_missing(tmp_path, ["far-dev.csv", "mine-dev.csv", "mine-train.csv"])
    assert line == (
        "did you mean 'mine2-dev.csv' for mine-dev.csv, 'mines-train.csv' for mine-train.csv? "
        "the folder holds mine2-dev.csv, mines-train.csv"
    )


def test_files_one_folder_below_or_above_are_found(tmp_path: Path) -> None:
    make_files(tmp_path, "data/a.csv", "data/b.csv", "half/a.csv", "data/deep/x.csv")
    hint = f"did you mean the folder {tmp_path}/data, which has"
    assert describe_missing(tmp_path, ["a.csv", "b.csv"]) == f"{hint} them?"
    assert describe_missing(tmp_path / "data" / "deep", ["b.csv"]) == f"{hint} it?"


def test_unreadable_folders_are_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_files(tmp_path, "data/locked/a.csv", "data/open/a.csv")
    is_file, listed = os.path.isfile, Path.iterdir

    def refuse(path: Path) -> Iterator[Path]:
        if path.name == "locked":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return listed(path)

    # simulates missing permission; root may read all folders
    monkeypatch.setattr(os.path, "isfile", lambda path: Path(path).parent.name != "locked" and is_file(path))
    monkeypatch.setattr(Path, "iterdir", refuse)
    assert describe_missing(tmp_path / "data", ["a.csv"]).startswith(f"did you mean the folder {tmp_path}/data/open, ")
    assert (
        describe_missing(tmp_path / "data" / "locked", ["x"])
        == "the folder holds no .csv, .tsv, .jsonl or .parquet file"
    )


def test_the_folder_of_the_missing_file_is_listed(tmp_path: Path) -> None:
    make_files(tmp_path, "QQP/train.tsv", "top.csv")
    assert describe_missing(tmp_path, ["QQP/dev.tsv"], used=["QQP/train.tsv"]) == f"{tmp_path}/QQP holds train.tsv"
    assert describe_missing(tmp_path, ["gone/dev.tsv"]) == f"there is no folder {tmp_path}/gone"


def test_a_full_folder_is_listed_in_part_and_an_empty_one_is_named(tmp_path: Path) -> None:
    names = [f"{number:02}.csv" for number in range(MAX_LISTED_FILES + 2)]
    make_files(tmp_path, *names, "below/x.txt")
    assert (
        describe_folder(tmp_path, "it", TABLE_SUFFIXES) == f"it holds {', '.join(names[:MAX_LISTED_FILES])} and 2 more"
    )
    assert describe_folder(tmp_path / "below", "it", (".txt",)) == "it holds x.txt"


def test_a_mistyped_folder_suggests_its_sibling(tmp_path: Path) -> None:
    make_files(tmp_path, "data/a.csv", "other/a.csv", "date.csv")
    assert near_folder(tmp_path / "dat") == f"; did you mean {tmp_path}/data?"
    assert near_folder(tmp_path / "zzz") == ""
    assert near_folder(tmp_path / "gone" / "data") == ""
