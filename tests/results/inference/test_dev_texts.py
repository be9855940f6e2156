"""Dev texts are those that trials were scored on, in the requested order; changed data are one line."""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from mtlib.data.tables import content_fingerprint
from mtlib.tasks import TASKS
from results.inference.dev_texts import data_folder, read_dev_texts
from results.records.tables import write_trials
from results.records.trials import write_sweep
from tests.one_line_error import one_line_error
from tests.results.conftest import build_record
from tests.task_tables import read_folder


def sweep_of(
    folder: Path, data: Path | None, changes: Mapping[str, Any] | None = None, tables: Mapping[str, str] | None = None
) -> Path:
    """A sweep with a trial of SST alone and one of all tasks, with its data folder recorded."""
    stages = [StageConfig(tasks=tuple(TASKS)[:1]), StageConfig(tasks=tuple(TASKS))]
    configs = [TrialConfig(stages=(stage,)).override(changes or {}) for stage in stages]
    records = [build_record(number, config=config.to_json()) for number, config in enumerate(configs)]
    recorded = {} if data is None else {"data": {"folder": str(data), "tables": dict(tables or {})}}
    write_sweep(folder, {"name": folder.name, **recorded})
    write_trials(folder, records, tuple(TASKS))
    return folder


def frame_of(data: Path, task: str) -> pd.DataFrame:
    """The dev rows as pandas reads them, by id."""
    frame: pd.DataFrame = pd.read_csv(data / TASKS[task].file_name("dev"), sep="\t").set_index("id")
    return frame


@pytest.mark.parametrize("task", TASKS)
def test_texts_are_those_of_the_file_in_the_order_of_the_ids(task: str, tiny_folder: Path, tmp_path: Path) -> None:
    frame = frame_of(tiny_folder, task)
    columns, ids = list(TASKS[task].text_columns), [str(name) for name in frame.index]
    for wanted in (ids, ids[::-1], ids[3:5]):
        found = read_dev_texts(sweep_of(tmp_path / "sweep", tiny_folder), task, wanted)
        assert found == tuple(tuple(frame.loc[name, columns]) for name in wanted)
    assert read_dev_texts(tmp_path / "sweep", task) == read_dev_texts(tmp_path / "sweep", task, ids)


def test_replacing_source_is_read(tiny_folder: Path, tmp_path: Path) -> None:
    shutil.copy(tiny_folder / "ids-sst-dev.csv", tmp_path / "mine-dev.csv")
    changes = {
        "data.sources.mine.task": "sst",
        "data.sources.mine.role": "replace",
        "data.sources.mine.path": str(tmp_path / "mine-{split}.csv"),
    }
    (tmp_path / "empty").mkdir()
    found = read_dev_texts(sweep_of(tmp_path / "sweep", tmp_path / "empty", changes), "sst")
    assert found == read_dev_texts(sweep_of(tmp_path / "plain", tiny_folder), "sst")
    assert "lacks quora-dev.csv" in one_line_error(read_dev_texts, tmp_path / "sweep", "qqp")


def test_missing_or_unrecorded_data_ask_for_the_flag(tiny_folder: Path, tmp_path: Path) -> None:
    gone = sweep_of(tmp_path / "gone", tmp_path / "no-data")
    silent = sweep_of(tmp_path / "silent", None)
    moved = "the data folder of {} must be at the path recorded in sweep.json, or be named with --data"
    moved += ", got no folder {}"
    assert one_line_error(read_dev_texts, gone, "sst") == moved.format(gone, tmp_path / "no-data")
    unknown = f"--data must name the data folder, which {silent} does not, got none"
    assert one_line_error(read_dev_texts, silent, "sst") == unknown
    other = tmp_path / "other"
    assert one_line_error(read_dev_texts, silent, "sst", None, other) == moved.format(silent, other)
    for sweep in (gone, silent):
        assert len(read_dev_texts(sweep, "sst", data=tiny_folder)) == 13
        assert data_folder(sweep, tiny_folder) == tiny_folder


def test_unscored_rows_are_refused(tiny_folder: Path, tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path / "sweep", tiny_folder)
    ids = [str(name) for name in frame_of(tiny_folder, "sst").index]
    line = one_line_error(read_dev_texts, sweep, "sst", [*ids, "another"])
    assert line.startswith("rows of sst-dev must be those that were scored, got none with the id another in /")
    assert "dev must be those" in one_line_error(read_dev_texts, sweep, "sst", ["another"])


@pytest.mark.parametrize("column", ["sentence", "sentiment", "id"])
def test_changed_rows_are_refused_where_fingerprints_are_recorded(
    column: str, tiny_folder: Path, tmp_path: Path
) -> None:
    tables = read_folder(tiny_folder, ["sst"], ["dev"])
    noted = {"sst-train": "0", "sst-dev": content_fingerprint(tables)}
    data = shutil.copytree(tiny_folder, tmp_path / "data")
    sweep = sweep_of(tmp_path / "sweep", data, tables=noted)
    assert len(read_dev_texts(sweep, "sst")) == 13
    lines = (data / "ids-sst-dev.csv").read_text().splitlines()
    cells = lines[5].split("\t")
    place = lines[0].split("\t").index(column)
    cells[place] = {"sentence": "another film", "sentiment": str(4 - int(cells[-1])), "id": "another"}[column]
    lines[5] = "\t".join(cells)
    (data / "ids-sst-dev.csv").write_text("\n".join(lines) + "\n")
    rule = f"^rows of sst-dev must be those that {re.escape(str(sweep))} was scored on, got different rows in "
    with pytest.raises(ValueError, match=rule):
        read_dev_texts(sweep, "sst")


def test_rows_of_any_recorded_file_are_accepted(tiny_folder: Path, tmp_path: Path) -> None:
    own = content_fingerprint(read_folder(tiny_folder, ["sst"], ["dev"]))
    sweep = sweep_of(tmp_path / "sweep", tiny_folder, tables={"sst-dev": "0", "sst-dev (mine-dev.csv)": own})
    assert len(read_dev_texts(sweep, "sst")) == 13
    sweep_of(tmp_path / "sweep", tiny_folder, tables={"sst-dev": "0", "sst-device": own})
    assert "got different rows in" in one_line_error(read_dev_texts, sweep, "sst")


def test_repeated_id_is_allowed_where_all_rows_are_requested(tiny_folder: Path, tmp_path: Path) -> None:
    data = shutil.copytree(tiny_folder, tmp_path / "data")
    path = data / "ids-sst-dev.csv"
    path.write_text(path.read_text().replace("sstdev4\t", "sstdev5\t"))
    frame = pd.read_csv(path, sep="\t")
    sweep, ids = sweep_of(tmp_path / "sweep", data), [str(name) for name in frame["id"]]
    assert [own for (own,) in read_dev_texts(sweep, "sst", ids)] == list(frame["sentence"])
    line = one_line_error(read_dev_texts, sweep, "sst", ids[:3])
    assert "ids must be there once where rows are picked by them, got 1 twice" in line


def test_task_that_no_trial_has_is_one_line(tiny_folder: Path, tmp_path: Path) -> None:
    sweep, config = sweep_of(tmp_path / "sweep", tiny_folder), TrialConfig(stages=(StageConfig(tasks=("sst",)),))
    write_trials(sweep, [build_record(0, config=config.to_json())], tuple(TASKS))
    assert one_line_error(read_dev_texts, sweep, "qqp") == f"there must be a trial that learns qqp, got none in {sweep}"
