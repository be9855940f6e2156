"""What the table says of a whole sweep: how many trials there are and are left, also of a race and a resumed sweep."""

import pytest

from results.records.race import RaceRecord, RoundDecision
from sweeps.driver.run_sweep import close_table
from sweeps.driver.trials.table import open_table
from tests.local_table import LocalTable
from tests.sweeps.conftest import MakePlan
from tests.sweeps.driver.trials.test_changes import begin


def end(local: LocalTable, how: str, name: str, score: float | None = None) -> None:
    """A trial has a lane of its own and ends."""
    begin(local, name, name)
    if score is not None:
        local.report(1, score, name=name, is_last=True)
    error = "it broke" if how == "failed" else None
    local.tell("left", name, status=how, error=error, spent={})


def test_trials_without_a_lane_stay_queued_at_an_interruption(make_plan: MakePlan) -> None:
    local = LocalTable(make_plan())
    end(local, "interrupted", "0000-r0")
    begin(local, "0002-r0")
    assert local.table.counts == {"interrupted": 1, "queued": 1, "running": 1}
    close_table(local.table)
    assert (local.table.counts, local.table.progress) == ({"interrupted": 2, "queued": 1}, {})


@pytest.mark.parametrize(
    ("options", "ends", "counts"),
    [
        ({"replicates": 3}, (), {"queued": 9}),
        ({"replicates": 3}, ("pruned",), {"pruned": 1, "queued": 6}),
        ({"replicates": 3}, ("failed", "complete"), {"failed": 1, "complete": 1, "queued": 5}),
        ({"replicates": 3}, ("interrupted",), {"interrupted": 1, "queued": 8}),
        ({"replicates": 4, "replicate_best": 2}, (), {"queued": 3 + 2 * 3}),
        ({"replicates": 4, "replicate_best": 2}, ("pruned", "pruned"), {"pruned": 2, "queued": 1 + 3}),
    ],
)
def test_replicates_are_expected_unless_the_first_training_is_pruned_or_fails(
    make_plan: MakePlan, options: dict[str, int], ends: tuple[str, ...], counts: dict[str, int]
) -> None:
    local = LocalTable(make_plan(**options))
    for number, how in enumerate(ends):
        end(local, how, f"{number:04d}-r0")
    assert local.table.counts == counts


def test_known_trials_stay_and_missing_grid_points_are_added(make_plan: MakePlan) -> None:
    before = LocalTable(make_plan())
    end(before, "complete", "0001-r0", 0.5)
    known, past = before.table.records["0001-r0"], [(1, 0.5)]
    table = open_table(before.plan, [known], {"0001-r0": past})
    assert (table.records["0001-r0"], table.rows["0001-r0"].past) == (known, past)
    assert table.counts == {"complete": 1, "queued": 2}


def test_race_has_lanes_for_all_rounds_that_it_may_have(make_plan: MakePlan) -> None:
    """Its progress shows those that are expected; a lane must not wait for the end of a round."""
    local = LocalTable(make_plan(replicates=9, until_decided=0.0))
    for number in range(3):
        end(local, "complete", f"{number:04d}-r0", 0.5)
    second = RoundDecision(num_rounds=2, open=(0, 1), worse=(2,), expected_rounds=(3, 3))
    local.table.race = RaceRecord(decisions=(second,))
    assert (local.table.counts["queued"], local.table.num_left) == (2 + 2 + 1, 8 + 8 + 1)
