"""The trials of a stopped sweep that are left to run, by its records."""

from collections.abc import Sequence

from results.records.expected_trials import expected_trials
from results.records.race import RaceRecord
from results.records.trials import UNFINISHED, TrialRecord
from sweeps.options import SweepPlan
from sweeps.search.trial import known_configurations, left_to_run


def is_sweep_over(plan: SweepPlan, records: Sequence[TrialRecord]) -> bool:
    """Returns whether nothing is left to run."""
    return num_left_to_run(plan, records, plan.race) == 0


def num_left_to_run(plan: SweepPlan, records: Sequence[TrialRecord], race: RaceRecord | None) -> int:
    """Trials of known configurations that have not ended, and the configurations that have not been sampled."""
    known = known_configurations(plan, records)
    return len(left_to_run(plan, known, race)) + plan.num_configurations - len(known)


def describe_progress(plan: SweepPlan, known: Sequence[TrialRecord]) -> list[str]:
    """Returns the numbers of trials that have ended and that have begun, in a line."""
    if is_sweep_over(plan, known):
        return [f"All {len(known)} trials have ended: nothing is left to do."]
    num_ended = sum(record.status not in UNFINISHED for record in known)
    num_begun = sum(record.status in UNFINISHED and record.epochs > 0 for record in known)
    expected = expected_trials(plan.facts, known, plan.race)
    return [f"{num_ended} of {expected} trials have ended; {num_begun} of the others had begun and will continue."]
