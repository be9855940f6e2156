"""Hints for missing files and folders."""

from pathlib import Path

from mtlib.data.files.suggestions import MAX_LISTED_FILES, describe_folder, near_folder


def test_the_files_of_a_table_format_are_listed_by_name_up_to_a_limit(tmp_path: Path) -> None:
    for name in ("b.csv", "a.TSV", "notes.md"):
        (tmp_path / name).touch()
    (tmp_path / "c.csv").mkdir()
    assert describe_folder(tmp_path) == f"{tmp_path} holds a.TSV, b.csv"
    assert describe_folder(tmp_path, (".py",)) == f"{tmp_path} holds no .py file"
    for number in range(MAX_LISTED_FILES):
        (tmp_path / f"more{number}.csv").touch()
    assert describe_folder(tmp_path).endswith("and 2 more")
    assert describe_folder(tmp_path / "gone").endswith("gone cannot be read (No such file or directory)")


def test_the_folder_beside_with_a_near_name_is_suggested(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    assert near_folder(tmp_path / "dat") == f"; did you mean {tmp_path}/data?"
    assert near_folder(tmp_path / "results") == ""
    assert near_folder(tmp_path / "gone" / "data") == ""
