"""Every table names itself and the version of all files."""

import json

import pyarrow as pa

from results.records.schemas import CURVES, EPOCH, PREDICTIONS, SCHEMA_VERSION, table_schema
from results.records.trials import trials_schema


def test_tables_have_their_name_the_version_and_their_tasks() -> None:
    schemas = {"curves": CURVES, "predictions": PREDICTIONS, "epoch": EPOCH, "trials": trials_schema(("sst",))}
    for name, schema in schemas.items():
        assert schema.metadata[b"table"] == name.encode()
        assert schema.metadata[b"schema_version"] == str(SCHEMA_VERSION).encode()
    own = table_schema("mine", {"a": pa.int64()}, ("sst", "new"))
    assert json.loads(own.metadata[b"tasks"]) == ["sst", "new"]


def test_epochs_keep_predictions_in_columns_of_the_same_types() -> None:
    assert set(EPOCH.names) < set(PREDICTIONS.names)
    assert all(EPOCH.field(name).type == PREDICTIONS.field(name).type for name in EPOCH.names)
