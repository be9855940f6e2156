"""Suggestions for missing files: unused files of the same split and task."""

from pathlib import Path

import pytest

from mtlib.data.file_suggestions import describe_missing, nearest_file


def make_files(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


@pytest.mark.parametrize(
    ("name", "others", "meant"),
    [
        ("ids-sst-dev.csv", ["IDS_SST_dev.csv", "sst-train.csv"], "IDS_SST_dev.csv"),
        ("mine-train.csv", ["mine-train.tsv", "mine.csv"], "mine.csv"),
        ("dev.tsv", ["valid.tsv"], "valid.tsv"),
        ("mine-train.csv", ["mine-dev.csv"], None),
        ("sst-dev.csv", ["sts-dev.csv"], None),  # a file of another task
    ],
)
def test_the_file_of_the_same_split_with_the_nearest_name_is_suggested(
    name: str, others: list[str], meant: str | None
) -> None:
    assert nearest_file(name, others) == meant


def test_each_missing_file_gets_its_own_suggestion_which_is_no_used_file(tmp_path: Path) -> None:
    make_files(tmp_path, "mines-train.csv", "mine2-dev.csv")
    line = describe_missing(tmp_path, ["far-dev.csv", "mine-dev.csv", "mine-train.csv"])
    assert line == (
        "did you mean 'mine2-dev.csv' for mine-dev.csv, 'mines-train.csv' for mine-train.csv? "
        "the folder holds mine2-dev.csv, mines-train.csv"
    )
    line = describe_missing(tmp_path, ["mine-train.csv"], used=["mines-train.csv"])
    assert line == "the folder holds mine2-dev.csv, mines-train.csv"
