"""Files of rows that teach: trials read from them what was written, of every kind of task."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mtlib.config.trial import TrialConfig
from mtlib.data.load import configured_source, own_source, read_data
from mtlib.data.row_sources import read_tables
from mtlib.runtime.storage import open_folder
from mtlib.tasks import TASKS, TaskFiles
from results.inference.distillation.taught_rows import TaughtRows, source_settings, table_of, train_rows
from results.records.files import write_parquet


@pytest.mark.parametrize("name", TASKS)
def test_a_trial_reads_what_was_written(name: str, tiny_config: TrialConfig, tiny_folder: Path, tmp_path: Path) -> None:
    task, path = TASKS[name], tmp_path / "rows.parquet"
    rows = train_rows(task, read_data(tiny_config, tiny_folder)[name, "train"])
    logits = np.arange(1.0 * len(rows.ids) * task.num_logits).reshape(len(rows.ids), -1)
    write_parquet(open_folder(tmp_path), path.name, table_of(task, rows, logits))
    settings = source_settings("mine", task, path, "train")
    table = read_data(tiny_config.override(settings), tiny_folder)[name, "train"]
    assert table.ids == rows.ids
    assert list(zip(*table.texts, strict=True)) == rows.texts
    np.testing.assert_array_equal(table.labels, rows.labels)
    np.testing.assert_array_equal(table.teacher, logits)


def test_the_key_tells_rows_apart(tiny_config: TrialConfig, tiny_folder: Path) -> None:
    rows = train_rows(TASKS["sst"], read_data(tiny_config, tiny_folder)["sst", "train"])
    unlabelled = TaughtRows(ids=rows.ids, texts=rows.texts, labels=None)
    reversed_rows = TaughtRows(ids=rows.ids, texts=rows.texts[::-1], labels=rows.labels)
    grouped = replace(rows, further={"doc": ["1"] * len(rows.ids)})
    first, again, *others = [own.key for own in (rows, replace(rows), unlabelled, reversed_rows, grouped)]
    assert first == again
    assert first not in others


def test_rows_that_teach_keep_their_groups_and_slices(tiny_config: TrialConfig, tmp_path: Path) -> None:
    files = TaskFiles(train="own.csv", dev="dev.csv", group_columns=("doc",), slice_columns=("source", "doc"))
    task = replace(TASKS["sst"], files=files)
    (tmp_path / "own.csv").write_text("sentence,sentiment,doc,source\nred,0,7,web\nblue,1,,\n")
    own = (own_source(task, files, "train"),)
    table = read_tables([own], tmp_path)[own]
    path = tmp_path / "rows.parquet"
    write_parquet(open_folder(tmp_path), path.name, table_of(task, train_rows(task, table), np.zeros((2, 5))))
    data = replace(tiny_config.data, tasks={**tiny_config.data.tasks, "sst": task})
    config = replace(tiny_config, data=data).override(source_settings("mine", task, path, "train"))
    taught = (configured_source(config, "mine", "train"),)
    again = read_tables([taught], tmp_path)[taught]
    assert (again.groups, again.slices) == (table.groups, table.slices)
    assert again.groups[0][1] == ""
