"""The trials of a stopped sweep that are left to run, by its records."""

from collections.abc import Mapping, Sequence

from results.records.race import RaceRecord
from results.records.trials import UNFINISHED, TrialRecord
from sweeps.options import SweepPlan
from sweeps.search.trial import known_configurations, left_to_run, num_expected_trials, trial_id_of


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
    expected = num_expected_trials(plan.options, plan.num_configurations, known, plan.space.metric, plan.race)
    return [f"{num_ended} of {expected} trials have ended; {num_begun} of the others had begun and will continue."]


def list_pending(plan: SweepPlan, records: Sequence[TrialRecord], before: Mapping[str, TrialRecord]) -> list[str]:
    """Returns a line for each trial to be run, with its last status,
    and one for the configurations yet to be sampled."""
    known = known_configurations(plan, records)
    num_new = plan.num_configurations - len(known)
    states = [(name, before.get(name)) for name in (trial_id_of(*pair) for pair in left_to_run(plan, known, plan.race))]
    lines = [f"  {trial_id}  {'queued' if record is None else describe_state(record)}" for trial_id, record in states]
    lines += [f"  {num_new} configuration{'s' * (num_new != 1)} that no trial has been given yet"] if num_new else []
    return ["To be run:", *lines] if lines else []


def describe_state(record: TrialRecord) -> str:
    """Returns a trial's status and its last epoch."""
    return record.status + (f" after epoch {record.epochs}" if record.epochs else "")
