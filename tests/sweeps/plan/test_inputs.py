"""The inputs of a sweep: the rows that its configurations read, each file once."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from mtlib.data.__main__ import config_of
from mtlib.data.load import data_tasks, read_data
from mtlib.data.row_sources import HELD, RowSource, read_all_rows
from mtlib.data.tables import Table, content_fingerprint
from results.records.examples import held_out_rows
from search_spaces.domain import Choice
from search_spaces.space import grid_configs, load_space
from sweeps.plan.inputs import read_inputs, read_points
from tests.one_line_error import one_line_error
from tests.sweeps.plan.conftest import space_with
from tests.task_tables import read_folder

OF_SST = TrialConfig(stages=(StageConfig(tasks=("sst",)),))


def test_rows_are_those_of_the_files(tiny_folder: Path) -> None:
    space = load_space("smart_lambda")
    inputs, tables = read_inputs(space, tiny_folder), read_folder(tiny_folder, ("sst", "qqp", "sts"))
    assert inputs.fingerprint == content_fingerprint(tables)
    assert inputs.num_rows == {key: len(table.ids) for key, table in tables.items()}
    assert inputs.train_rows_of(space.base) == {"sst": 30, "qqp": 70, "sts": 22}


def test_only_trained_tasks_are_read(tiny_folder: Path) -> None:
    def tasks_read(**changes: Any) -> set[str]:
        return {task for (task, _), _ in read_points(space_with(OF_SST, **changes), tiny_folder)}

    assert tasks_read() == {"sst"}
    assert tasks_read(grid={"stages.0.tasks": (("sst",), ("sts",))}) == {"sst", "sts"}
    assert tasks_read(ranges={"stages.0.tasks": Choice(values=(("sts",), ("qqp",)))}) == {"sst", "qqp", "sts"}


EXTRA_ROWS = "id,sentence,sentiment\na,fine,1\nb,dull,0\nc,odd,2\n"
"""In the layout of CFIMDB, with a label that its mapping does not name."""


@pytest.fixture
def folder(tiny_folder: Path, tmp_path: Path) -> Path:
    """The tiny corpus with an extra set."""
    shutil.copytree(tiny_folder, tmp_path / "data")
    (tmp_path / "data" / "ids-cfimdb-train.csv").write_text(EXTRA_ROWS)
    return tmp_path / "data"


def test_each_point_has_its_own_rows_and_each_file_is_read_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "more.csv").write_text(EXTRA_ROWS + "d,,2\n")
    changes = {"task": "sst", "path": "more.csv", "role": "extra"}
    base = OF_SST.override({f"data.sources.more.{key}": value for key, value in changes.items()})
    grid = {"data.sources.more.role": ("extra", "augment"), "optimizer.learning_rate": (1e-5, 2e-5)}
    read = list[RowSource]()

    def count(part: RowSource, place: Path) -> Table:
        read.append(part)
        return read_all_rows(part, place)

    monkeypatch.setattr("mtlib.data.row_sources.read_all_rows", count)
    inputs = read_inputs(space_with(base, grid=grid), folder)
    assert len(read) == len(set(read)) == 3  # train, augmentation, dev
    assert [inputs.train_rows_of(config)["sst"] for config in grid_configs(inputs.space)] == [30, 30, 33, 33]
    assert inputs.train_rows_of(inputs.space.base) == {"sst": 30}
    assert inputs.skipped == ("more.csv:5: sentence is blank",)
    tables = read_folder(folder, ("sst",))
    assert inputs.fingerprint != content_fingerprint(tables)
    (augmented,) = set(inputs.fingerprints) - {"sst-train", "sst-dev"}
    assert "more.csv" in augmented
    own = {f"{name}-{split}": content_fingerprint({(name, split): table}) for (name, split), table in tables.items()}
    assert inputs.fingerprints == {**own, augmented: inputs.fingerprints[augmented]}
    assert inputs.fingerprints[augmented] != own["sst-train"]


def test_missing_data_of_any_point_is_one_line(folder: Path) -> None:
    (folder / "ids-sst-dev.csv").unlink()
    base = TrialConfig(stages=(StageConfig(tasks=("sst", "qqp")),))
    space = space_with(base, grid={"stages.0.extra_data": ((), ("snli",))})
    assert "lacks ids-sst-dev.csv, snli-train.csv;" in one_line_error(read_inputs, space, folder)


def test_held_out_rows_reach_no_trial(tiny_folder: Path) -> None:
    base = load_space("smart_lambda").base.override({"data.hold_out": 0.2})
    inputs = read_inputs(space_with(base, grid={"smart.weight": (0.0, 1.0)}), tiny_folder)
    assert {task: len(table.ids) for task, table in inputs.held_out.items()} == {"sst": 6, "qqp": 14, "sts": 4}
    assert inputs.train_rows_of(base) == {"sst": 24, "qqp": 56, "sts": 18}
    assert [inputs.num_rows[task, HELD] for task in inputs.held_out] == [6, 14, 4]
    for config in grid_configs(inputs.space):
        for (name, split), table in read_data(config, tiny_folder).items():
            assert split == "dev" or not set(table.ids) & set(inputs.held_out[name].ids)
    rows = held_out_rows(inputs.held_out)
    assert {f"{task}-held": own.fingerprint for task, own in rows.items()}.items() <= inputs.fingerprints.items()


def test_rows_are_held_out_of_the_same_files_in_all_trials(folder: Path) -> None:
    rows = "".join(f"{number},Text {number}.,1\n" for number in range(9))
    for split in ("train", "dev"):
        (folder / f"other-{split}.csv").write_text(f"id,sentence,sentiment\n{rows}")
    source = {"task": "sst", "path": "other-{split}.csv"}
    base = OF_SST.override({f"data.sources.other.{key}": value for key, value in source.items()})
    grid = {"data.sources.other.role": ("extra", "replace")}
    assert read_inputs(space_with(base, grid=grid), folder).held_out == {}
    held = space_with(base.override({"data.hold_out": 0.2}), grid=grid)
    rule = "--hold-out must find a task's train rows in the same place in all trials"
    assert one_line_error(read_inputs, held, folder).startswith(rule)


def test_how_files_were_read_is_noted_once(tmp_path: Path) -> None:
    for name in ("train", "dev"):
        (tmp_path / f"{name}.tsv").write_text('text\tlabel\n"fine"\t1\nbad\t0\n')
    text = '[tasks.tone]\nkind = "binary"\ntexts = ["text"]\nlabel = "label"\ntrain = "train.tsv"\ndev = "dev.tsv"\n'
    (tmp_path / "tasks.toml").write_text(text)
    inputs = read_inputs(
        space_with(config_of(data_tasks(tmp_path)), grid={"optimizer.learning_rate": (1e-5, 2e-5)}), tmp_path
    )
    assert [note.partition(":")[0] for note in inputs.notes] == [
        f"{tmp_path.name}/train.tsv",
        f"{tmp_path.name}/dev.tsv",
    ]
