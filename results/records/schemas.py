"""The columns of a sweep's tables, and the version of all its files together."""

import json
from collections.abc import Mapping, Sequence

import pyarrow as pa

SCHEMA_VERSION = 4
"""Version of all files together; a sweep of another version is refused."""


def table_schema(table: str, columns: Mapping[str, pa.DataType], tasks: Sequence[str] = ()) -> pa.Schema:
    """Returns a schema with the table's name, the schema version and the tasks in its metadata."""
    metadata = {"table": table, "schema_version": str(SCHEMA_VERSION), "tasks": json.dumps(list(tasks))}
    return pa.schema(list(columns.items()), metadata=metadata)


CURVES = table_schema(
    "curves",
    {
        "trial": pa.string(),
        "step": pa.int64(),  # optimizer steps done, over all stages
        "epoch": pa.int64(),  # from 1, over all stages
        "task": pa.string(),  # or "overall"
        "split": pa.string(),
        "metric": pa.string(),
        "value": pa.float64(),
        "seconds": pa.float64(),  # of work on the trial so far
    },
)

PREDICTIONS = table_schema(
    "predictions",
    {
        "id": pa.string(),
        "trial": pa.string(),
        "epoch": pa.int64(),
        "label": pa.float32(),  # NaN where there is none, or where there are several
        "labels": pa.list_(pa.int32()),  # numbers of the labels of a multi-label task, ascending; null of other tasks
        "logits": pa.list_(pa.float32()),  # as the head gives them, not clipped
    },
)

BARE_EPOCH = table_schema("epoch", {name: PREDICTIONS.field(name).type for name in ("id", "label", "labels", "logits")})
"""As `EPOCH`, of files that were written before it had the columns `task` and `split`."""

EPOCH = table_schema(
    "epoch",
    {
        "task": pa.dictionary(pa.int32(), pa.string()),
        "split": pa.dictionary(pa.int32(), pa.string()),
        **{field.name: field.type for field in BARE_EPOCH},
    },
)
"""Predictions as an epoch's file keeps them: trial and epoch follow from its place."""
