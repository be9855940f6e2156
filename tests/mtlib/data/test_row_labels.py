"""Labels of rows from their cells, and columns of 0 and 1 in every format."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mtlib.config.task_file import find_tasks
from mtlib.data.__main__ import config_of
from mtlib.data.load import read_data
from mtlib.data.row_labels import LabelReader, Layout
from mtlib.tasks import Task
from tests.one_line_error import one_line_error

COLUMNS = ("toxic", "insult", "threat")
TASK = Task(
    name="tone",
    title="Tone",
    kind="multilabel",
    label_range=(0, 2),
    labels=COLUMNS,
    text_columns=("text",),
    label_column="",
    indicator_columns=COLUMNS,
)
TASK_FILE = """
[tasks.tone]
kind = "multilabel"
texts = ["text"]
label = ["toxic", "insult", "threat"]
train = "train.{suffix}"
dev = "dev.{suffix}"
"""


def read_one(*cells: str) -> Sequence[float]:
    """The label in the cells of a row."""
    layout = Layout(id_column="", text_columns=("text",), indicator_columns=COLUMNS)
    label = LabelReader(TASK, layout).read("f.csv:7", cells)
    assert isinstance(label, np.ndarray)
    found: Sequence[float] = label.tolist()
    return found


def test_an_indicator_is_0_or_1_in_any_spelling() -> None:
    assert read_one("0", "1", "1.0") == [0, 1, 1]
    assert read_one("true", "False", "TRUE") == [1, 0, 1]
    for wrong in ("2", "-1", "0.5", "yes"):
        message = one_line_error(read_one, "0", "1", wrong)
        assert message == f"f.csv:7: column threat must be 0 or 1, got {wrong}"


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet"])
def test_columns_of_0_and_1_are_several_labels(suffix: str, tmp_path: Path) -> None:
    labels = np.array([[0, 0, 1], [1, 1, 0], [0, 0, 0]])
    table = pd.DataFrame({"text": ["a", "b", "c"], **dict(zip(COLUMNS, labels.T, strict=True)), "other": 5})
    table = table[["insult", "text", "other", "threat", "toxic"]]
    for split in ("train", "dev"):
        path = tmp_path / f"{split}.{suffix}"
        if suffix == "parquet":
            table.to_parquet(path)
        elif suffix == "jsonl":
            path.write_text("".join(f"{json.dumps(row)}\n" for row in table.astype(object).to_dict("records")))
        else:
            table.to_csv(path, sep="\t" if suffix == "tsv" else ",", index=False)
    (tmp_path / "tasks.toml").write_text(TASK_FILE.format(suffix=suffix))
    task = find_tasks(tmp_path)["tone"]
    assert (task.class_names, task.num_logits) == (COLUMNS, 3)
    found = read_data(config_of(find_tasks(tmp_path)), tmp_path)["tone", "train"]
    np.testing.assert_array_equal(found.labels, labels)


def test_a_row_with_a_blank_indicator_is_skipped_and_named(tmp_path: Path) -> None:
    (tmp_path / "tasks.toml").write_text(TASK_FILE.format(suffix="csv"))
    for split in ("train", "dev"):
        (tmp_path / f"{split}.csv").write_text("text,toxic,insult,threat\na,1,,0\nb,0,0,0\n")
    found = read_data(config_of(find_tasks(tmp_path)), tmp_path)["tone", "dev"]
    assert (found.texts, found.skipped) == ((["b"],), ("dev.csv:2: insult is blank",))
