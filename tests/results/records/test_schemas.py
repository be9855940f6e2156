"""Every table names itself and the version of all files."""

import json

import pyarrow as pa

from results.records.schemas import CURVES, EPOCH, PREDICTIONS, SCHEMA_VERSION, table_schema


def test_tables_have_their_name_the_version_and_their_tasks() -> None:
    for name, schema in {"curves": CURVES, "predictions": PREDICTIONS, "epoch": EPOCH}.items():
        assert schema.metadata[b"table"] == name.encode()
        assert schema.metadata[b"schema_version"] == str(SCHEMA_VERSION).encode()
    own = table_schema("mine", {"a": pa.int64()}, ("sst", "new"))
    assert json.loads(own.metadata[b"tasks"]) == ["sst", "new"]
