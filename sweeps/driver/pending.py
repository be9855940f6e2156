"""The trials of a stopped sweep that are left to run, by its records."""

from collections.abc import Mapping, Sequence

from results.records.trials import UNFINISHED, TrialRecord
from sweeps.options import SweepPlan
from sweeps.search.trial_spec import TrialSpec, completed_trials, further_specs, unfinished_specs


def find_unfinished(plan: SweepPlan, known: Sequence[TrialRecord]) -> list[TrialSpec]:
    """Trials that have not ended, of the configurations on record.

    Further replicates of the best configurations are among them once these can be chosen.
    """
    by_number: dict[int, list[TrialRecord]] = {}
    for record in known:
        by_number.setdefault(record.number, []).append(record)
    found = [spec for number in sorted(by_number) for spec in unfinished_specs(plan, by_number[number])]
    is_open = any(spec.replicate < plan.options.common_replicates for spec in found)
    if plan.options.replicate_best is None or is_open or num_new_configurations(plan, known) > 0:
        return found
    ids = {record.trial_id for record in known}
    return [*found, *further_specs(plan, completed_trials(plan, known), ids)]


def num_new_configurations(plan: SweepPlan, known: Sequence[TrialRecord]) -> int:
    """Configurations that are not on record yet."""
    return plan.num_configurations - len({record.number for record in known})


def is_sweep_over(plan: SweepPlan, known: Sequence[TrialRecord]) -> bool:
    """Whether nothing is left to run."""
    return not find_unfinished(plan, known) and num_new_configurations(plan, known) == 0


def describe_progress(plan: SweepPlan, known: Sequence[TrialRecord]) -> list[str]:
    """The numbers of trials that have ended and that have begun, in a line."""
    if is_sweep_over(plan, known):
        return [f"All {len(known)} trials have ended: nothing is left to do."]
    num_ended = sum(record.status not in UNFINISHED for record in known)
    num_begun = sum(record.status in UNFINISHED and record.epochs > 0 for record in known)
    expected = plan.options.num_trials(plan.num_configurations)
    return [f"{num_ended} of {expected} trials have ended; {num_begun} of the others had begun and will continue."]


def list_pending(plan: SweepPlan, known: Sequence[TrialRecord], before: Mapping[str, TrialRecord]) -> list[str]:
    """A line for each trial to be run, with its last status, and one for the configurations yet to be sampled."""
    num_new = num_new_configurations(plan, known)
    states = [(spec.trial_id, before.get(spec.trial_id)) for spec in find_unfinished(plan, known)]
    lines = [f"  {trial_id}  {'queued' if record is None else describe_state(record)}" for trial_id, record in states]
    lines += [f"  {num_new} configuration{'s' * (num_new != 1)} that no trial has been given yet"] if num_new else []
    return ["To be run:", *lines] if lines else []


def describe_state(record: TrialRecord) -> str:
    """A trial's status and its last epoch."""
    return record.status + (f" after epoch {record.epochs}" if record.epochs else "")
