"""What is left to do of a sweep that has stopped, found out from its records."""

from collections.abc import Mapping, Sequence

from results.records.trials import UNFINISHED, TrialRecord
from sweeps.options import SweepPlan
from sweeps.search.trial_spec import TrialSpec, unfinished_specs


def find_unfinished(plan: SweepPlan, known: Sequence[TrialRecord]) -> list[TrialSpec]:
    """Trials that have not ended, of the configurations that are on record."""
    by_number: dict[int, list[TrialRecord]] = {}
    for record in known:
        by_number.setdefault(record.number, []).append(record)
    return [spec for number in sorted(by_number) for spec in unfinished_specs(plan, by_number[number])]


def num_new_configurations(plan: SweepPlan, known: Sequence[TrialRecord]) -> int:
    """Configurations that are not on record yet."""
    return plan.num_configurations - len({record.number for record in known})


def is_over(plan: SweepPlan, known: Sequence[TrialRecord]) -> bool:
    """Whether nothing is left to do."""
    return not find_unfinished(plan, known) and num_new_configurations(plan, known) == 0


def describe_progress(plan: SweepPlan, known: Sequence[TrialRecord]) -> list[str]:
    """How much of a sweep is done, and how much is left."""
    if is_over(plan, known):
        return [f"All {len(known)} trials have ended: nothing is left to do."]
    num_ended = sum(record.status not in UNFINISHED for record in known)
    begun = sum(record.status in UNFINISHED and record.epochs > 0 for record in known)
    expected = plan.num_configurations * plan.replicates
    return [f"{num_ended} of {expected} trials have ended; {begun} of the others had begun and go on."]


def list_pending(plan: SweepPlan, known: Sequence[TrialRecord], before: Mapping[str, TrialRecord]) -> list[str]:
    """A line for every trial that is to be run, as it was left, and one for the configurations that come new."""
    specs, new = find_unfinished(plan, known), num_new_configurations(plan, known)
    states = [(spec.trial_id, before.get(spec.trial_id)) for spec in specs]
    lines = [f"  {trial_id}  {'queued' if record is None else describe_state(record)}" for trial_id, record in states]
    lines += [f"  {new} configuration{'s' * (new != 1)} that no trial has been given yet"] if new else []
    return ["To be run:", *lines] if lines else []


def describe_state(record: TrialRecord) -> str:
    """A trial's status, and how far it had come."""
    return record.status + (f" behind epoch {record.epochs}" if record.epochs else "")
