"""A resumed sweep: its stored options, its checks, and the trials that run again."""

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mtlib.config.trial import TrialConfig
from mtlib.tasks import TASKS as TASK_FILES
from mtlib.tasks import TaskFiles
from results.records.examples import read_groups, read_hold_out
from results.records.trials import TrialRecord, read_sweep, sweep_tasks, write_sweep, write_trials
from search_spaces.domain import Float
from search_spaces.space import SearchSpace
from sweeps.driver.ledger import Ledger, add_trial, open_ledger
from sweeps.driver.resume import (
    changed_code,
    describe_resume,
    read_saved_options,
    relocate,
    requeue_failed,
    resume_sweep,
)
from sweeps.options import SweepOptions, SweepPlan, saved_options
from sweeps.search.trial_spec import make_spec
from sweeps.setup.create import create_sweep
from sweeps.setup.inputs import SweepInputs, read_inputs
from sweeps.setup.provenance import describe_code
from tests.sweeps.conftest import UNUSUAL_OPTIONS

ENCODER: Any = SimpleNamespace(fingerprint="fingerprint", num_parameters=7)
OTHER_ENCODER: Any = SimpleNamespace(fingerprint="another", num_parameters=7)
TASKS = ("sst", "qqp", "sts")
SST_IN_FILES = dataclasses.replace(TASK_FILES["sst"], title="Films", files=TaskFiles(train="train.csv", dev="dev.csv"))


@pytest.fixture
def options(tmp_path: Path) -> SweepOptions:
    """Options of a sweep, none at its default."""
    mirror = f"file://{tmp_path}/copies"
    return SweepOptions(data=tmp_path / "data", storage=tmp_path / "storage", mirror=mirror, **UNUSUAL_OPTIONS)


@pytest.fixture
def inputs(tiny_config: TrialConfig) -> SweepInputs:
    space = SearchSpace(name="tiny", question="?", base=tiny_config, ranges={"smart.weight": Float(low=0, high=3)})
    rows = {(task, split): 5 for task in TASKS for split in ("train", "dev")}
    return SweepInputs(
        space=space, data_folder=Path("/data"), num_rows=rows, fingerprint="abc", skipped=(), left_out=(), notes=()
    )


def test_all_options_but_place_and_single_command_options_are_saved(options: SweepOptions) -> None:
    names = {field.name for field in dataclasses.fields(SweepOptions)}
    of_one_command = {"address", "resume", "extend", "retry_failed", "dry_run", "max_hours", "max_steps"}
    kept = names - {"name", "storage", *of_one_command}
    assert set(saved_options(options)) == {*(kept - {"set"}), "changes"}


def test_no_example_option_is_at_its_default(options: SweepOptions) -> None:
    """Otherwise a lost field would not be noticed."""
    plain = SweepOptions(space="smart_lambda", name="mine", storage=options.storage)
    own, theirs = saved_options(options), saved_options(plain)
    assert {key for key in own if own[key] == theirs[key]} == {"space"}


def test_options_are_read_back_from_the_sweeps_file(options: SweepOptions) -> None:
    write_sweep(options.folder, {"options": saved_options(options)})
    back = read_saved_options(options.folder, {})
    assert back == dataclasses.replace(
        options, resume=True, address=None, dry_run=False, max_hours=None, max_steps=None
    )


@pytest.mark.parametrize("search", ["grid", "random"])
def test_default_options_are_read_back(search: Any, tmp_path: Path) -> None:
    plain = SweepOptions(space="smart_lambda", name="mine", storage=tmp_path, search=search)
    write_sweep(plain.folder, {"options": saved_options(plain)})
    back = read_saved_options(plain.folder, {})
    assert back == dataclasses.replace(plain, resume=True, trials=plain.num_drawn)
    assert back.num_drawn == plain.num_drawn


def test_moved_sweep_resumes_in_its_new_place(options: SweepOptions, tmp_path: Path) -> None:
    write_sweep(options.folder, {"options": saved_options(options)})
    moved = tmp_path / "elsewhere" / "renamed"
    moved.parent.mkdir()
    options.folder.rename(moved)
    assert read_saved_options(moved, {}).folder == moved


def test_new_options_replace_stored_ones(options: SweepOptions) -> None:
    write_sweep(options.folder, {"options": saved_options(options)})
    own = {"concurrent": 1, "keep_gb": 3.5, "keep_models": 1, "checkpoint_steps": 9, "address": "local"}
    back = read_saved_options(options.folder, own)
    assert {name: getattr(back, name) for name in own} == own


def test_added_configurations_are_stored(options: SweepOptions) -> None:
    asked = dataclasses.replace(options, extend=4)
    write_sweep(options.folder, {"options": saved_options(asked)})
    back = read_saved_options(options.folder, {})
    assert (back.trials, back.extend, back.num_drawn) == (13, 0, 13)
    assert read_saved_options(options.folder, {"extend": 2}).num_drawn == 15


@pytest.mark.parametrize("info", [{}, {"options": None}, {"options": {"unknown": 1}}])
def test_sweep_without_stored_options_is_refused(info: dict[str, Any], tmp_path: Path) -> None:
    write_sweep(tmp_path / "old", info)
    with pytest.raises(ValueError, match=r"must have in sweep\.json the options that it was started with, got .*old"):
        read_saved_options(tmp_path / "old", {})


def with_base(inputs: SweepInputs, **changes: Any) -> SweepInputs:
    dotted = {key.replace("__", "."): value for key, value in changes.items()}
    base = inputs.space.base.override(dotted)
    return dataclasses.replace(inputs, space=dataclasses.replace(inputs.space, base=base))


def test_changed_code_is_reported() -> None:
    assert changed_code({"code": describe_code()}) == []
    older = {"code": {**describe_code(), "sources": "other"}}
    (line,) = changed_code(older)
    assert line == (
        "Note: mtlib or a library has changed since the sweep began. Finished trials were trained with the old code, "
        "the others will be trained with the new code; unfinished trials start over. Their scores may not be "
        "comparable."
    )


# Pending trials.


@pytest.fixture
def resumable_sweep(options: SweepOptions, inputs: SweepInputs) -> Callable[..., SweepOptions]:
    """A sweep with trials of some statuses, and its stored options, some replaced."""

    def build(*statuses: str, **own: Any) -> SweepOptions:
        first = dataclasses.replace(options, mirror=None, trials=len(statuses), replicates=1, replicate_best=None)
        plan = create_sweep(first, inputs, ENCODER, ["--space", "tiny"])
        ledger = Ledger(plan=plan)
        records: list[TrialRecord] = []
        for number, status in enumerate(statuses):
            spec = make_spec(plan.space, number, 0, {"smart.weight": float(number)})
            add_trial(ledger, spec)
            error = "it broke" if status == "failed" else None
            records.append(dataclasses.replace(ledger.records[spec.trial_id], status=status, error=error))
        write_trials(plan.options.folder, records, TASKS)
        return read_saved_options(plan.options.folder, own)

    return build


STATUSES = ("complete", "reused", "pruned", "failed", "interrupted", "running", "queued")


def test_unfinished_trials_are_queued_and_finished_ones_stay(
    resumable_sweep: Callable[..., SweepOptions], inputs: SweepInputs
) -> None:
    resumed = resume_sweep(resumable_sweep(*STATUSES), inputs, ENCODER, ["--resume", "mine"])
    statuses = [record.status for record in resumed.known]
    assert statuses == ["complete", "reused", "pruned", "failed", *["queued"] * 3]
    assert resumed.known[3].error == "it broke"
    assert resumed.notes == ("4 of 7 trials have ended; 0 of the others had begun and will continue.",)
    assert resumed.plan.options == resumable_options(resumed.plan.options.folder)
    assert (resumed.plan.space, resumed.plan.data_folder) == (inputs.space, inputs.data_folder)


def resumable_options(folder: Path) -> SweepOptions:
    return read_saved_options(folder, {})


def test_failed_trials_are_queued_on_request(resumable_sweep: Callable[..., SweepOptions], inputs: SweepInputs) -> None:
    resumed = resume_sweep(resumable_sweep(*STATUSES, retry_failed=True), inputs, ENCODER, [])
    assert [record.status for record in resumed.known] == ["complete", "reused", "pruned", *["queued"] * 4]
    assert all(record.error is None for record in resumed.known)


@pytest.mark.parametrize("status", STATUSES)
def test_only_failed_trials_are_retried(
    resumable_sweep: Callable[..., SweepOptions], inputs: SweepInputs, status: str
) -> None:
    options = resumable_sweep("complete")
    (record,) = resume_sweep(options, inputs, ENCODER, []).known
    record = dataclasses.replace(record, status=status)
    assert requeue_failed(record, options, ()) == record
    assert requeue_failed(record, options, {record.trial_id}) == record
    asked = dataclasses.replace(options, retry_failed=True)
    assert requeue_failed(record, asked, ()).status == ("queued" if status == "failed" else status)
    assert requeue_failed(record, asked, {record.trial_id}).status == "queued"


def test_trials_name_the_encoders_current_place(
    resumable_sweep: Callable[..., SweepOptions], inputs: SweepInputs
) -> None:
    options = resumable_sweep("complete", "queued")
    before = resume_sweep(options, inputs, ENCODER, []).known
    moved = with_base(inputs, encoder__name="elsewhere")
    known = resume_sweep(options, moved, ENCODER, []).known
    for old, new in zip(before, known, strict=True):
        was, config = TrialConfig.from_json(old.config), TrialConfig.from_json(new.config)
        assert config == was.override({"encoder.name": "elsewhere"}) != was
        assert new == dataclasses.replace(old, config=config.to_json(), config_hash=config.content_hash)
        assert relocate(new, moved.space) is new
        assert relocate(new, inputs.space) == old, "moved back"


def test_trials_and_the_record_of_the_sweep_get_the_present_files_of_tasks(
    resumable_sweep: Callable[..., SweepOptions], inputs: SweepInputs
) -> None:
    options = resumable_sweep("complete", "queued")
    renamed = with_base(inputs, data__tasks={**TASK_FILES, "sst": SST_IN_FILES})
    for record in resume_sweep(options, renamed, ENCODER, []).known:
        assert TrialConfig.from_json(record.config).task("sst") == SST_IN_FILES
    assert sweep_tasks(read_sweep(options.folder))["sst"] == SST_IN_FILES


def test_searched_encoder_stays_as_drawn(inputs: SweepInputs) -> None:
    space = dataclasses.replace(inputs.space, grid={"encoder.name": ("tiny", "other")}, ranges={})
    options = SweepOptions(space="tiny", name="mine", storage=Path("/storage"))
    ledger = open_ledger(SweepPlan(options=options, space=space, data_folder=inputs.data_folder))
    assert [relocate(record, space) for record in ledger.records.values()] == list(ledger.records.values())


def test_torn_journal_is_repaired_and_reported(
    resumable_sweep: Callable[..., SweepOptions], inputs: SweepInputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = resumable_sweep("complete", "queued")
    monkeypatch.setattr("sweeps.search.study.repair_journal", lambda folder: f"{folder.name}: a line was torn")
    assert "mine: a line was torn" in resume_sweep(options, inputs, ENCODER, []).notes


def test_preview_describes_pending_trials_and_changes_nothing(
    resumable_sweep: Callable[..., SweepOptions], inputs: SweepInputs
) -> None:
    options = resumable_sweep(*STATUSES, retry_failed=True, extend=2)
    before = files_of(options.folder)
    assert describe_resume(options, inputs, ENCODER.fingerprint) == [
        "3 of 9 trials have ended; 0 of the others had begun and will continue.",
        "To be run:",
        "  0003-r0  failed",
        "  0004-r0  interrupted",
        "  0005-r0  running",
        "  0006-r0  queued",
        "  2 configurations that no trial has been given yet",
    ]
    assert files_of(options.folder) == before


@pytest.mark.parametrize("encoder", [ENCODER.fingerprint, None])
def test_preview_makes_the_checks_of_resuming(
    encoder: str | None, resumable_sweep: Callable[..., SweepOptions], inputs: SweepInputs
) -> None:
    options = resumable_sweep("queued")
    describe_resume(options, with_base(inputs, encoder__name="elsewhere"), encoder)
    with pytest.raises(ValueError, match="the search space must be what it was"):
        describe_resume(options, with_base(inputs, optimizer__learning_rate=0.5), encoder)
    with pytest.raises(ValueError, match="the data must be what it was"):
        describe_resume(options, dataclasses.replace(inputs, fingerprint="other"), encoder)
    with pytest.raises(ValueError, match="the encoder must be what it was"):
        describe_resume(options, inputs, "another")


def test_sweep_is_over_unless_failed_trials_are_retried(
    resumable_sweep: Callable[..., SweepOptions], inputs: SweepInputs
) -> None:
    options = resumable_sweep("complete", "reused", "pruned", "failed")
    assert resume_sweep(options, inputs, ENCODER, []).is_over
    assert not resume_sweep(dataclasses.replace(options, retry_failed=True), inputs, ENCODER, []).is_over
    assert not resume_sweep(dataclasses.replace(options, extend=1), inputs, ENCODER, []).is_over


def test_sweep_file_records_resuming_and_new_options(
    resumable_sweep: Callable[..., SweepOptions], inputs: SweepInputs
) -> None:
    options = resumable_sweep("complete", "queued", extend=3, concurrent=1)
    before = read_sweep(options.folder)
    plan = resume_sweep(options, inputs, ENCODER, ["--resume", "mine", "--extend", "3"]).plan
    assert (plan.options.num_drawn, plan.options.concurrent) == (5, 1)
    resume_sweep(resumable_options(options.folder), inputs, ENCODER, ["--resume", "mine"])
    info = read_sweep(options.folder)
    commands = [entry["command"] for entry in info["resumed"]]
    assert commands == [
        "python sweeps/run.py --resume mine --extend 3",
        "python sweeps/run.py --resume mine",
    ]
    changed = {key for key in info if info[key] != before.get(key)}
    assert changed == {"resumed", "options", "num_trials"}
    assert (info["num_trials"], info["options"]["trials"], info["options"]["concurrent"]) == (5, 5, 1)


def test_resumed_sweep_holds_out_the_same_rows(tiny_folder: Path, tmp_path: Path) -> None:
    options = SweepOptions(space="smart_lambda", name="mine", storage=tmp_path, data=tiny_folder, hold_out=0.2)
    inputs = read_inputs(options)
    plan = create_sweep(options, inputs, ENCODER, [])
    record = read_hold_out(plan.options.folder)
    requeue_failed = read_saved_options(plan.options.folder, {})
    assert resume_sweep(requeue_failed, read_inputs(requeue_failed), ENCODER, []).plan.space == plan.space
    assert (plan.space.base.data.hold_out, read_hold_out(plan.options.folder)) == (0.2, record)
    with pytest.raises(ValueError, match=r"base.data.hold_out was 0.2, is 0.1"):
        resume_sweep(requeue_failed, read_inputs(dataclasses.replace(requeue_failed, hold_out=0.1)), ENCODER, [])


def test_groups_of_dev_rows_are_recorded_mirrored_and_added_to_earlier_sweeps(
    tiny_folder: Path, tmp_path: Path
) -> None:
    data, dev = Path(shutil.copytree(tiny_folder, tmp_path / "data")), TASK_FILES["qqp"].file_name("dev")
    rows = (data / dev).read_text().splitlines()
    shared = [*rows, "\t".join(["99", "added", "new", rows[2].split("\t")[2].upper(), "0.0"])]
    (data / dev).write_text("\n".join(shared) + "\n")
    mirror = f"file://{tmp_path}/copies"
    options = SweepOptions(space="smart_lambda", name="mine", storage=tmp_path, data=data, mirror=mirror)
    inputs = read_inputs(options)
    folder = create_sweep(options, inputs, ENCODER, []).options.folder
    ids = inputs.dev["qqp"].ids
    groups = read_groups(folder, "qqp", ids)
    assert groups is not None
    assert groups[ids.index("added")] == groups[1]
    assert len(set(groups)) == len(ids) - 1
    assert read_groups(f"{mirror}/mine", "qqp", ids) is not None
    shutil.rmtree(folder / "examples")
    resumed = read_saved_options(folder, {})
    resume_sweep(resumed, read_inputs(resumed), ENCODER, [])
    again = read_groups(folder, "qqp", ids)
    assert again is not None
    assert again.tolist() == groups.tolist()
    assert {path.name for path in (folder / "examples").iterdir()} == {f"{task}-dev.parquet" for task in TASKS}


def test_changed_hold_out_rows_are_detected(tiny_folder: Path, tmp_path: Path) -> None:
    data = Path(shutil.copytree(tiny_folder, tmp_path / "data"))
    options = SweepOptions(space="smart_lambda", name="mine", storage=tmp_path, data=data, hold_out=0.2)
    inputs = read_inputs(options)
    plan = create_sweep(options, inputs, ENCODER, [])
    path, row = data / "sts-train.csv", inputs.held_out["sts"].ids[0]
    lines = [
        line.rpartition("\t")[0] + "\t4.99" if f"\t{row}\t" in line else line for line in path.read_text().splitlines()
    ]
    path.write_text("\n".join(lines) + "\n")
    resumed = read_saved_options(plan.options.folder, {})
    with pytest.raises(ValueError, match=r"^the data must be .* began, got other rows of sts-held in "):
        resume_sweep(resumed, read_inputs(resumed), ENCODER, [])


def test_refused_sweep_is_left_unchanged(resumable_sweep: Callable[..., SweepOptions], inputs: SweepInputs) -> None:
    options = resumable_sweep("running", extend=3)
    before = files_of(options.folder)
    with pytest.raises(ValueError, match="the encoder must be what it was"):
        resume_sweep(options, inputs, OTHER_ENCODER, [])
    assert files_of(options.folder) == before


def files_of(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
