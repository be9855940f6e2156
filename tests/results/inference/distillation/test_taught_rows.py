"""Files of rows that teach: trials read from them what was written, of every kind of task."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mtlib.config.trial import TrialConfig
from mtlib.data.load import read_data
from mtlib.tasks import TASKS
from results.inference.distillation.taught_rows import TaughtRows, source_settings, table_of, train_rows, write_once


@pytest.mark.parametrize("name", TASKS)
def test_a_trial_reads_what_was_written(name: str, tiny_config: TrialConfig, tiny_folder: Path, tmp_path: Path) -> None:
    task, path = TASKS[name], tmp_path / "rows.parquet"
    rows = train_rows(read_data(tiny_config, tiny_folder)[name, "train"])
    logits = np.arange(1.0 * len(rows.ids) * task.num_logits).reshape(len(rows.ids), -1)
    assert write_once(path, lambda: table_of(task, rows, logits))
    assert not write_once(path, lambda: pytest.fail("written again"))
    settings = source_settings("mine", task, path, "train")
    table = read_data(tiny_config.override(settings), tiny_folder)[name, "train"]
    assert table.ids == rows.ids
    assert list(zip(*table.texts, strict=True)) == rows.texts
    np.testing.assert_array_equal(table.labels, rows.labels)
    np.testing.assert_array_equal(table.teacher, logits)


def test_the_key_tells_rows_apart(tiny_config: TrialConfig, tiny_folder: Path) -> None:
    rows = train_rows(read_data(tiny_config, tiny_folder)["sst", "train"])
    unlabelled = TaughtRows(ids=rows.ids, texts=rows.texts, labels=None)
    reversed_rows = TaughtRows(ids=rows.ids, texts=rows.texts[::-1], labels=rows.labels)
    first, again, *others = [own.key for own in (rows, replace(rows), unlabelled, reversed_rows)]
    assert first == again
    assert first not in others
