"""The checks of a sweep together: the worst finding comes first, and one that cannot be made leaves the others."""

from dataclasses import replace
from pathlib import Path

from results.health.checks import find_problems
from results.health.finding import WORST_FIRST
from results.sweep import Sweep
from tests.results.conftest import build_record
from tests.results.health.given import only, sweep_of
from tests.results.page.recorded_sweep import with_records, write_recorded_sweep


def test_sound_sweep_has_no_problem(recorded_sweep: Sweep) -> None:
    found = find_problems(recorded_sweep)
    assert [finding.what for finding in found if finding.level == "problem"] == []


def test_check_that_cannot_be_made_leaves_the_others_and_the_worst_come_first(tmp_path: Path) -> None:
    terms = {("sst", "smart_penalty"): 1e-8, ("qqp", "smart_penalty"): 9.0}
    sweep = write_recorded_sweep(tmp_path / "mine", weights=(0.3, 1.0), terms=terms)
    old = [replace(record, config='{"of": "an older version"}') for record in sweep.records]
    records = [replace(old[0], status="failed", error="boom"), *old[1:]]
    found = find_problems(with_records(tmp_path / "mine", records))
    assert "boom" in found[0].what
    assert any("is numerically nothing" in finding.what for finding in found)
    skipped = only([finding for finding in found if finding.what.startswith("Not checked: ")])
    assert skipped.what.startswith("Not checked: penalties that overwhelm the loss, as ")
    assert skipped.command == f"python results/report.py {tmp_path / 'mine'}"
    levels = [WORST_FIRST.index(finding.level) for finding in found]
    assert levels == sorted(levels)
    assert len(set(levels)) == 3


def test_checks_of_a_sweep_that_has_just_begun_find_nothing_or_say_why() -> None:
    sweep = sweep_of([build_record(0, status="running", best={}, best_epoch={}, epochs=0, steps=0)])
    assert all(finding.level != "problem" for finding in find_problems(sweep))
