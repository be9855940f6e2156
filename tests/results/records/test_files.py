"""Files are written whole or not at all, and a damaged or foreign one is named in one line."""

from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mtlib.runtime.storage import PatientHandler, open_folder
from results.records.files import (
    check_output,
    check_version,
    find_sweep,
    read_json,
    read_parquet,
    write_json,
    write_parquet,
)
from tests.one_line_error import one_line_error

METADATA = {"table": "letters", "schema_version": "1", "tasks": "[]"}
SCHEMA = pa.schema([("letter", pa.string()), ("count", pa.int64())], metadata=METADATA)
TABLE = pa.Table.from_pylist([{"letter": "a", "count": 1}, {"letter": "b", "count": 2}], schema=SCHEMA)


def test_written_table_is_read_back_and_replaced(tmp_path: Path) -> None:
    root = open_folder(tmp_path / "new" / "folder")
    for table in (TABLE, TABLE.slice(0, 1)):
        write_parquet(root, "deep/table.parquet", table)
        assert read_parquet(root, "deep/table.parquet", SCHEMA).equals(table, check_metadata=True)
    assert [path.name for path in (tmp_path / "new/folder/deep").iterdir()] == ["table.parquet"]
    with pytest.raises(FileNotFoundError):
        read_parquet(root, "table.parquet", SCHEMA)


@pytest.mark.parametrize("is_before", [True, False])
def test_interrupted_write_leaves_the_old_file_or_the_new_one(
    tmp_path: Path, kill_at_rename: Callable[[int, bool], type[BaseException]], is_before: bool
) -> None:
    root = open_folder(tmp_path)
    write_json(root, "value.json", {"value": "old"})
    with pytest.raises(ValueError, match="Out of range float"):
        write_json(root, "value.json", {"value": float("nan")})
    with pytest.raises(kill_at_rename(1, is_before)):
        write_json(root, "value.json", {"value": "new"})
    assert read_json(root, "value.json") == {"value": "old" if is_before else "new"}
    assert [path.name for path in tmp_path.iterdir()] == ["value.json"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:0],
        lambda content: content[:-1],
        lambda content: content.replace(b"PAR1", b"a,1\n"),
        lambda content: content[:30] + bytes([content[30] ^ 255]) + content[31:],
    ],
    ids=["empty", "last byte missing", "no Parquet", "one byte flipped in a page"],
)
def test_damaged_table_is_named_in_one_line(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    root, path = open_folder(tmp_path), tmp_path / "table.parquet"
    write_parquet(root, "table.parquet", TABLE)
    path.write_bytes(damage(path.read_bytes()))
    message = one_line_error(read_parquet, root, "table.parquet", SCHEMA)
    assert message.startswith(f"{path}: truncated or damaged: ")


def test_table_that_cannot_be_fetched_is_not_damaged(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    root = open_folder(bucket)
    write_parquet(root, "table.parquet", TABLE)
    error = OSError("AWS Error NETWORK_CONNECTION during GetObject operation")
    for name in ("open_input_file", "open_input_stream"):
        monkeypatch.setattr(PatientHandler, name, Mock(side_effect=error))
    with pytest.raises(OSError, match="NETWORK_CONNECTION"):
        read_parquet(root, "table.parquet", SCHEMA)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (SCHEMA.with_metadata(None), "table must be letters, got none"),
        (SCHEMA.with_metadata({**METADATA, "schema_version": "2"}), "schema version must be 1, got 2"),
        (SCHEMA.remove(0), "column 'letter' is missing"),
        (SCHEMA.set(1, pa.field("count", pa.float64())), "column 'count' must be int64, got double"),
        (SCHEMA.append(pa.field("more", pa.int64())), "columns must be letter, count, got letter, count, more"),
    ],
)
def test_table_of_another_schema_is_named_with_the_first_difference(
    tmp_path: Path, found: pa.Schema, message: str
) -> None:
    pq.write_table(found.empty_table(), tmp_path / "table.parquet")
    error = one_line_error(read_parquet, open_folder(tmp_path), "table.parquet", SCHEMA)
    assert error == f"{tmp_path / 'table.parquet'}: {message}"


@pytest.mark.parametrize(
    ("text", "message"), [('{"value": ', "truncated or damaged: "), ("[1]", "must be a JSON object, got list")]
)
def test_damaged_json_is_named_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "value.json").write_text(text)
    error = one_line_error(read_json, open_folder(tmp_path), "value.json")
    assert error.startswith(f"{tmp_path / 'value.json'}: {message}")


@pytest.mark.parametrize("overwrite", [True, False])
def test_an_output_is_no_input_and_no_folder_that_holds_one(tmp_path: Path, overwrite: bool) -> None:
    given = tmp_path / "data" / "mine.csv"
    given.parent.mkdir()
    given.write_text("mine")
    (tmp_path / "symbolic.csv").symlink_to(given)
    (tmp_path / "hard.csv").hardlink_to(given)
    (tmp_path / "folder").symlink_to(given.parent)
    names = [given, tmp_path / "symbolic.csv", tmp_path / "hard.csv", tmp_path / "folder" / "mine.csv"]
    outputs: list[Path | str] = [*names, given.as_uri(), given.parent, tmp_path / "folder", tmp_path]
    for output in outputs:
        message = one_line_error(check_output, "--output", output, [None, "gone", given], overwrite=overwrite)
        assert message.startswith("--output must not overwrite what is read, ")
    for output in (tmp_path / "new.csv", given.parent / "new.csv", tmp_path / "new" / "folder"):
        check_output("--output", output, [given], overwrite=overwrite)


def test_what_is_there_needs_a_request(tmp_path: Path, bucket: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link.csv").symlink_to(tmp_path / "gone.csv")
    write_json(open_folder(bucket), "mine.json", {})
    for output in (tmp_path / "folder", (tmp_path / "link.csv").as_uri(), bucket.replace("?", "/mine.json?")):
        message = one_line_error(check_output, "--output", output, [], overwrite=False)
        assert message == f"--output must be new, or be overwritten with --overwrite, got {output}"
        check_output("--output", output, [tmp_path / "other.csv"], overwrite=True)
    check_output("--output", bucket.replace("?", "/other.json?"), [], overwrite=False)


def test_a_sweep_is_found_by_its_path_or_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert find_sweep("mine") == f"{tmp_path}/multitask-sweeps/mine"
    for given in ("a/mine", "./a/b", "file:///mine"):
        assert find_sweep(given) == given
    (tmp_path / "mine").mkdir()
    assert find_sweep("mine") == "mine"


def test_a_file_of_another_version_names_what_to_do_about_it() -> None:
    check_version({"schema_version": 2}, "a.json", "schema_version", 2)
    line = one_line_error(check_version, {}, "a.json", "schema_version", 2, "make it again")
    assert line == "a.json: schema version must be 2 (make it again), got none"
    line = one_line_error(check_version, {"version": 1}, "a.json", "version", 2)
    assert line == "a.json: version must be 2, got 1"
