"""Creating a sweep: the files written before Ray starts."""

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mtlib.config.trial import TrialConfig
from mtlib.data.load import read_held_out
from results.records.examples import HoldOutRecord, held_out_rows, read_hold_out
from results.records.schemas import SCHEMA_VERSION
from results.records.tables import write_trials
from results.records.trials import TrialRecord, read_sweep
from sweeps.driver.ledger import queued_record
from sweeps.driver.resume import read_saved_options
from sweeps.search.trial_spec import TrialSpec
from sweeps.setup.create import create_sweep, discard_unstarted
from sweeps.setup.inputs import SweepInputs
from tests.sweeps.setup.conftest import Build

ENCODER: Any = SimpleNamespace(fingerprint="0123456789abcdef", num_parameters=7)


def test_created_sweep_has_a_complete_folder(options: Build, inputs: SweepInputs, tmp_path: Path) -> None:
    plan = create_sweep(options(seed=5, replicates=2), inputs, ENCODER, ["--space", "smart_lambda", "--seed", "5"])
    assert plan.options.folder == tmp_path / "storage" / "first"
    info = read_sweep(plan.options.folder)
    assert info == json.loads((plan.options.folder / "sweep.json").read_text())
    assert info["schema_version"] == SCHEMA_VERSION
    assert (info["name"], info["seed"], info["replicates"], info["search"]) == ("first", 5, 2, "grid")
    assert info["space"]["hash"] == inputs.space.content_hash
    assert info["base"]["optimizer"]["learning_rate"] == 2e-5
    assert info["command"] == "python sweeps/run.py --space smart_lambda --seed 5"
    assert info["data"] == {
        "folder": "/data",
        "fingerprint": "abc",
        "tables": {"sst-train": "ab", "sst-dev": "c"},
        "rows": {"sst-train": 3, "sst-dev": 2},
        "skipped": ["sst.csv:2: x is blank", "sst.csv: 7 rows have x 9, which labels does not name"],
    }
    assert info["encoder"] == {"name": inputs.space.base.encoder.name, "fingerprint": ENCODER.fingerprint}
    assert set(info["code"]) == {"sources", "libraries"}
    assert read_saved_options(plan.options.folder, {}) == options(seed=5, replicates=2, resume=True)
    assert {"git", "packages", "python", "hardware", "created"} <= set(info)


def test_mirror_gets_the_record_at_once(options: Build, inputs: SweepInputs, tmp_path: Path) -> None:
    create_sweep(options(mirror=f"file://{tmp_path}/copy/"), inputs, ENCODER, [])
    assert read_sweep(tmp_path / "copy" / "first")["name"] == "first"


def test_held_out_rows_are_recorded_and_copied(
    options: Build, inputs: SweepInputs, tiny_config: TrialConfig, tiny_folder: Path, tmp_path: Path
) -> None:
    held = read_held_out(tiny_config.override({"data.hold_out": 0.2}), tiny_folder)
    given = options(hold_out=0.2, mirror=f"file://{tmp_path}/copy")
    plan = create_sweep(given, dataclasses.replace(inputs, held_out=held), ENCODER, [])
    record = read_hold_out(plan.options.folder)
    assert record == HoldOutRecord(share=0.2, tasks=held_out_rows(held)) == read_hold_out(tmp_path / "copy" / "first")
    assert read_saved_options(plan.options.folder, {}).hold_out == 0.2


@pytest.mark.parametrize("mirror", [None, "file://{}/file/below"])
def test_unwritable_storage_is_one_line(
    options: Build, inputs: SweepInputs, tmp_path: Path, mirror: str | None
) -> None:
    (tmp_path / "file").write_text("in the way")
    places: dict[str, Any] = {"mirror": mirror.format(tmp_path)} if mirror else {"storage": tmp_path / "file"}
    with pytest.raises(ValueError, match="--storage must be a place that can be written") as raised:
        create_sweep(options(**places), inputs, ENCODER, [])
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "storage" / "first").exists()


def record_of(inputs: SweepInputs, status: str) -> TrialRecord:
    spec = TrialSpec(number=0, replicate=0, params={"smart.weight": 0.0}, config=inputs.space.base)
    return dataclasses.replace(queued_record(spec), status=status)


def test_folder_with_a_returned_trial_is_kept(options: Build, inputs: SweepInputs) -> None:
    plan = create_sweep(options(), inputs, ENCODER, [])
    returned = dataclasses.replace(record_of(inputs, "queued"), started="2026-01-01T00:00:00+00:00")
    write_trials(plan.options.folder, [returned], ("sst",))
    discard_unstarted(plan.options.folder)
    assert plan.options.folder.exists()


@pytest.mark.parametrize(("status", "is_kept"), [("queued", False), ("interrupted", True), ("complete", True)])
def test_folder_is_discarded_only_if_no_trial_started(
    options: Build, inputs: SweepInputs, status: str, is_kept: bool
) -> None:
    plan = create_sweep(options(), inputs, ENCODER, [])
    write_trials(plan.options.folder, [record_of(inputs, status)], ("sst",))
    discard_unstarted(plan.options.folder)
    assert plan.options.folder.exists() == is_kept
