"""Creating a sweep: the files written before Ray starts."""

import dataclasses
import errno
import json
from pathlib import Path
from typing import Any
from unittest.mock import ANY, Mock

import pytest

from mtlib.config.trial import TrialConfig
from mtlib.data.cut_rows import CutRows
from mtlib.data.load import read_held_out
from mtlib.data.repeats import DroppedRows
from mtlib.runtime.storage import open_folder, write_bytes
from results.records.examples import HoldOutRecord, held_out_rows, read_hold_out
from results.records.schemas import SCHEMA_VERSION
from results.records.trials import read_sweep, sweep_cut_rows
from sweeps.plan.create import create_sweep, discard_unstarted
from sweeps.plan.given_options import read_saved_options
from sweeps.plan.inputs import SweepInputs
from tests.mtlib.conftest import build_table
from tests.prepared import prepared_with
from tests.sweeps.plan.conftest import Build


def test_created_sweep_has_a_complete_folder(options: Build, inputs: SweepInputs, tmp_path: Path) -> None:
    plan = create_sweep(prepared_with(options(seed=5, replicates=2), inputs), "python sweeps/run.py --seed 5")
    assert plan.options.folder == f"{tmp_path}/storage/first"
    info = read_sweep(plan.options.folder)
    assert {**info, "crc32": ANY} == json.loads(Path(plan.options.folder, "sweep.json").read_text())
    assert info["schema_version"] == SCHEMA_VERSION
    assert (info["name"], info["seed"], info["replicates"], info["search"]) == ("first", 5, 2, "grid")
    assert info["space"]["hash"] == inputs.space.content_hash
    assert info["base"]["optimizer"]["learning_rate"] == 2e-5
    assert info["command"] == "python sweeps/run.py --seed 5"
    assert info["data"] == {
        "folder": "/data",
        "fingerprint": "abc",
        "tables": {"sst-train": "ab", "sst-dev": "c"},
        "rows": {"sst-train": 3, "sst-dev": 2},
        "skipped": ["sst.csv:2: x is blank", "sst.csv: 7 rows have x 9, which labels does not name"],
        "repeats": {},
        "cut_rows": [],
        "dropped_rows": {},
    }
    assert info["encoder"] == {"name": inputs.space.base.encoder.name, "fingerprint": "fingerprint"}
    assert set(info["code"]) == {"sources", "libraries"}
    assert read_saved_options(plan.options.folder) == options(seed=5, replicates=2, resume=True)
    assert {"git", "packages", "python", "hardware", "created"} <= set(info)


def test_held_out_rows_are_recorded(
    options: Build, inputs: SweepInputs, tiny_config: TrialConfig, tiny_folder: Path
) -> None:
    held = read_held_out(tiny_config.override({"data.hold_out": 0.2}), tiny_folder)
    plan = create_sweep(prepared_with(options(hold_out=0.2), dataclasses.replace(inputs, held_out=held)), "")
    record = read_hold_out(plan.options.folder)
    assert record == HoldOutRecord(share=0.2, tasks=held_out_rows(held))
    assert read_saved_options(plan.options.folder).hold_out == 0.2


def test_repeated_and_contradicting_texts_are_recorded(options: Build, inputs: SweepInputs) -> None:
    tables: Any = {
        (("sst", "train"), ()): build_table("sst", ["a", "A ", "b", "b", "c"], labels=[1, 2, 3, 3, 4]),
        (("sst", "dev"), ()): build_table("sst", ["B", "d", "c"]),
        (("qqp", "dev"), ()): build_table("qqp", ["a"], ["b"]),
    }
    data = dataclasses.replace(inputs, tables=tables)
    info = read_sweep(create_sweep(prepared_with(options(), data), "").options.folder)
    assert info["data"]["repeats"] == {"sst": {"dev_rows_in_train": 2, "contradictions": 1}}


def test_cut_and_dropped_rows_are_recorded_so_that_they_can_be_read_back(options: Build, inputs: SweepInputs) -> None:
    dropped = DroppedRows(share=0.6, sentence="6 of 10 rows")
    cut = CutRows(task="sst", encoder="tiny", encoding="single", max_length=8, share=0.5)
    train, dev = dataclasses.replace(build_table("sst", ["a"]), dropped=dropped), build_table("sst", ["b"])
    tables: Any = {(("sst", "train"), ()): train, (("sst", "dev"), ()): dev}
    data = dataclasses.replace(inputs, tables=tables, cut_rows=[cut])
    info = read_sweep(create_sweep(prepared_with(options(), data), "").options.folder)
    assert sweep_cut_rows(info) == [cut]
    assert DroppedRows(**info["data"]["dropped_rows"]["sst"]) == dropped


def test_a_disk_that_is_full_leaves_the_name_free(
    options: Build, inputs: SweepInputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    full_disk = Mock(side_effect=OSError(errno.ENOSPC, "No space left on device"))
    with monkeypatch.context() as patch:
        patch.setattr("sweeps.plan.create.write_sweep", full_disk)
        with pytest.raises(ValueError, match="No space left on device"):
            create_sweep(prepared_with(options(), inputs), "")
    create_sweep(prepared_with(options(), inputs), "")


@pytest.mark.parametrize("is_kept", [False, True])
def test_folder_is_discarded_only_if_no_trial_started(options: Build, inputs: SweepInputs, is_kept: bool) -> None:
    plan = create_sweep(prepared_with(options(), inputs), "")
    if is_kept:
        write_bytes(open_folder(plan.options.folder), "trials/0000-r0/trial.json", b"{}")
    discard_unstarted(plan.options.folder)
    assert Path(plan.options.folder).exists() == is_kept
