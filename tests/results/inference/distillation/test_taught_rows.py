"""Files of rows that teach: trials read from them what was written, of every kind of task."""

from pathlib import Path

import numpy as np
import pytest

from mtlib.config.trial import TrialConfig
from mtlib.data.load import read_data
from mtlib.tasks import TASKS
from results.inference.distillation.taught_rows import source_settings, table_of, train_rows, write_once


@pytest.mark.parametrize("has_logits", [False, True])
@pytest.mark.parametrize("name", TASKS)
def test_a_trial_reads_what_was_written(
    name: str, has_logits: bool, tiny_config: TrialConfig, tiny_folder: Path, tmp_path: Path
) -> None:
    task, path = TASKS[name], tmp_path / "rows.parquet"
    rows = train_rows(read_data(tiny_config, tiny_folder)[name, "train"]).pick(np.array([4, 1, 2]))
    logits = np.arange(3.0 * task.num_logits).reshape(3, -1) if has_logits else None
    assert write_once(path, lambda: table_of(task, rows, logits))
    assert not write_once(path, lambda: pytest.fail("written again"))
    settings = source_settings("mine", task, path, "train", has_logits=has_logits)
    table = read_data(tiny_config.override(settings), tiny_folder)[name, "train"]
    assert table.ids == rows.ids
    assert list(zip(*table.texts, strict=True)) == rows.texts
    np.testing.assert_array_equal(table.labels, rows.labels)
    if logits is None:
        assert table.teacher is None
    else:
        np.testing.assert_array_equal(table.teacher, logits)


def test_the_key_tells_rows_apart(tiny_config: TrialConfig, tiny_folder: Path) -> None:
    rows = train_rows(read_data(tiny_config, tiny_folder)["sst", "train"])
    picked = [rows.pick(np.array(numbers)) for numbers in ([0, 1], [0, 1], [1, 0], [0, 2])]
    first, again, *others = [own.key for own in picked]
    assert first == again
    assert first not in others
