"""Dev texts are those that trials were scored on, in the requested order; changed data are one line."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from mtlib.data.tables import content_fingerprint
from mtlib.tasks import TASKS
from results.inference.dev_texts import data_folder, pick_texts, read_dev_table
from results.records.tables import write_trials
from results.records.trials import write_sweep
from tests.one_line_error import one_line_error
from tests.results.conftest import build_record
from tests.task_tables import read_folder


def sweep_of(
    folder: Path, data: Path | None, changes: Mapping[str, Any] | None = None, tables: Mapping[str, str] | None = None
) -> Path:
    """A sweep with a trial of SST alone and one of SST and QQP, with its data folder recorded."""
    configs = [TrialConfig(stages=(StageConfig(tasks=tasks),)) for tasks in (("sst",), ("sst", "qqp"))]
    texts = [config.override(changes or {}).to_json() for config in configs]
    recorded = {} if data is None else {"data": {"folder": str(data), "tables": dict(tables or {})}}
    write_sweep(folder, {"name": folder.name, **recorded})
    write_trials(folder, [build_record(number, config=text) for number, text in enumerate(texts)], tuple(TASKS))
    return folder


def frame_of(data: Path, task: str) -> pd.DataFrame:
    """The dev rows as pandas reads them, by id."""
    frame: pd.DataFrame = pd.read_csv(data / TASKS[task].file_name("dev"), sep="\t").set_index("id")
    return frame


def texts_of(sweep: Path, task: str, ids: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    return pick_texts(read_dev_table(sweep, task), ids)


@pytest.mark.parametrize("task", ["sst", "qqp"])
def test_texts_are_those_of_the_file_in_the_order_of_the_ids(task: str, tiny_folder: Path, tmp_path: Path) -> None:
    sweep, frame = sweep_of(tmp_path / "sweep", tiny_folder), frame_of(tiny_folder, task)
    columns, ids = list(TASKS[task].text_columns), [str(name) for name in frame.index]
    for wanted in (ids, ids[::-1], ids[3:5]):
        assert texts_of(sweep, task, wanted) == tuple(tuple(frame.loc[name, columns]) for name in wanted)
    message = one_line_error(texts_of, sweep, task, [*ids, "another"])
    assert message.startswith(f"rows of {task}-dev must be those that were scored, got none with the id another in /")


def test_replacing_source_is_read(tiny_folder: Path, tmp_path: Path) -> None:
    shutil.copy(tiny_folder / "ids-sst-dev.csv", tmp_path / "mine-dev.csv")
    source = {"task": "sst", "role": "replace", "path": str(tmp_path / "mine-{split}.csv")}
    (tmp_path / "empty").mkdir()
    changes = {f"data.sources.mine.{key}": value for key, value in source.items()}
    found = read_dev_table(sweep_of(tmp_path / "sweep", tmp_path / "empty", changes), "sst")
    assert found.texts == read_dev_table(sweep_of(tmp_path / "plain", tiny_folder), "sst").texts
    assert "lacks quora-dev.csv" in one_line_error(read_dev_table, tmp_path / "sweep", "qqp")


def test_missing_or_unrecorded_data_ask_for_the_flag(tiny_folder: Path, tmp_path: Path) -> None:
    gone, silent = sweep_of(tmp_path / "gone", tmp_path / "no-data"), sweep_of(tmp_path / "silent", None)
    message = one_line_error(data_folder, gone)
    assert "or be named with --data" in message
    assert message.endswith(f"got no folder {tmp_path / 'no-data'}")
    assert one_line_error(data_folder, silent).startswith("--data must name the data folder")
    assert one_line_error(data_folder, silent, tmp_path / "other").endswith(f"got no folder {tmp_path / 'other'}")
    for sweep in (gone, silent):
        assert len(read_dev_table(sweep, "sst", data=tiny_folder).ids) == 13


@pytest.mark.parametrize("column", ["sentence", "sentiment", "id"])
def test_changed_rows_are_refused_where_fingerprints_are_recorded(
    column: str, tiny_folder: Path, tmp_path: Path
) -> None:
    own = content_fingerprint(read_folder(tiny_folder, ["sst"], ["dev"]))
    data = shutil.copytree(tiny_folder, tmp_path / "data")
    for noted in ({"sst-train": "0", "sst-dev": own}, {"sst-dev": "0", "sst-dev (mine-dev.csv)": own}, {}):
        sweep = sweep_of(tmp_path / "sweep", data, tables=noted)
        assert len(read_dev_table(sweep, "sst").ids) == 13
    sweep = sweep_of(tmp_path / "sweep", data, tables={"sst-dev": own, "sst-device": "0"})
    frame = frame_of(data, "sst").reset_index()
    changed: dict[str, Any] = {
        "sentence": "another film",
        "sentiment": (int(frame["sentiment"][5]) + 1) % 5,
        "id": "another",
    }
    frame[column] = [changed[column] if row == 5 else value for row, value in enumerate(frame[column])]
    frame.to_csv(data / "ids-sst-dev.csv", sep="\t", index=False)
    message = one_line_error(read_dev_table, sweep, "sst")
    assert message.startswith(f"rows of sst-dev must be those that {sweep} was scored on, got different rows in ")
