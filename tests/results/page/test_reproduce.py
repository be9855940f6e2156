"""The commands that run a sweep again follow from `sweep.json`, also where it lacks facts."""

from dataclasses import replace

from results.page.content import Listing, TextTable
from results.page.reproduce import data_table, provenance, reproduction_blocks
from results.sweep import Sweep
from tests.results.page.recorded_sweep import sweep_info


def test_all_commands_are_listed(recorded_sweep: Sweep) -> None:
    resumed = [{"command": "python sweeps/run.py --resume mine", "time": "2024"}]
    sweep = replace(recorded_sweep, info={**recorded_sweep.info, "resumed": resumed})
    commands = next(block for block in reproduction_blocks(sweep) if isinstance(block, Listing))
    assert commands.text.splitlines() == [
        "python sweeps/run.py --space smart_lambda --name mine",
        "python sweeps/run.py --resume mine",
    ]


def test_versions_data_and_machine_are_named() -> None:
    found = dict(provenance(sweep_info("mine", precision_reason="no bf16 here")))
    assert found["Revision"] == "0123abc, with changes that were not committed"
    assert found["Packages"] == "torch 2.13.0"
    assert found["Machine"] == "EPYC, 2 CPUs, 16 GiB, no GPU"
    assert found["Per trial"] == "workers: 1, CPUs per worker: 1, GPUs per worker: 0.0"
    assert found["Precision"] == "fp32 (no bf16 here)"
    assert found["Encoder"].startswith("tiny (def")


def test_what_is_not_recorded_of_a_machine_is_left_out() -> None:
    found = dict(provenance(sweep_info("mine", hardware={"processor": "EPYC", "memory_bytes": None}, num_workers=None)))
    assert found["Machine"] == "EPYC, no GPU"
    assert found["Per trial"] == "CPUs per worker: 1, GPUs per worker: 0.0"
    old = dict(provenance({"name": "old"}))
    assert old["Machine"] == old["Per trial"] == old["Encoder"] == ""


def test_data_have_rows_and_fingerprints() -> None:
    assert data_table(sweep_info("mine")).rows == [["sst-train", "abcabcabcabc", "8,544"]]
    unknown = data_table({"data": {"tables": {"sst-dev": "abc" * 20}}})
    assert unknown.rows == [["sst-dev", "abcabcabcabc", ""]]


def test_record_without_any_of_it_is_shown_too(recorded_sweep: Sweep) -> None:
    first, *others = reproduction_blocks(replace(recorded_sweep, info={"name": "old"}))
    assert isinstance(first, Listing)
    assert first.text == "not recorded"
    assert not any(isinstance(block, TextTable) and block.title == "Data" for block in others)
