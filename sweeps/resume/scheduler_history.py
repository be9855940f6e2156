"""What the scheduler had judged of a sweep that goes on: the reports of trials, as far as they count already."""

import itertools
from collections.abc import Sequence

from mtlib.checkpoints.state import newest_numbers, saved_states
from mtlib.config.trial import TrialConfig
from mtlib.stages.plan import first_scored_epoch
from results.records.epochs import read_curves
from results.records.recovery import MAIN_METRICS
from results.records.trials import UNFINISHED, TrialRecord
from sweeps.lanes.worker_trial import states_folder
from sweeps.options import SweepPlan
from sweeps.reuse.finished_trials import REUSED_WORK_FILE
from sweeps.reuse.starting_point import epochs_of


def judged_reports(plan: SweepPlan, known: Sequence[TrialRecord]) -> dict[str, list[tuple[int, float]]]:
    """What the scheduler has judged of first trainings of configurations: scored epoch and best score so far."""
    if plan.scheduler == "none":
        return {}
    curves = read_curves(plan.folder).to_pylist()
    metric = MAIN_METRICS[plan.space.metric]
    found: dict[str, list[tuple[int, float]]] = {}
    for record in known:
        if record.replicate > 0:
            continue
        first, judged = first_scored_epoch(TrialConfig.from_json(record.config)), num_judged_epochs(plan, record)
        points = [
            p for p in curves if (p["trial"], p["task"], p["split"]) == (record.trial_id, plan.space.metric, "dev")
        ]
        scores = {p["epoch"]: p["value"] for p in points if p["metric"] == metric and first <= p["epoch"] <= judged}
        bests = itertools.accumulate((scores[epoch] for epoch in sorted(scores)), max)
        found[record.trial_id] = [(e - first + 1, best) for e, best in zip(sorted(scores), bests, strict=True)]
    return found


def num_judged_epochs(plan: SweepPlan, record: TrialRecord) -> int:
    """Epochs of a trial behind which it has gone on, or ended; a newer one will be reported again, and judged then.

    Epochs that it has taken over are reported before it goes on: until it has saved a state of its own they may not be
    judged, so all are.
    """
    if record.status not in UNFINISHED:
        return record.epochs
    states = states_folder(plan.folder, record.trial_id, plan.checkpoint_steps)
    numbers, has_taken = newest_numbers(states), (states.path.parent / REUSED_WORK_FILE).exists()
    if numbers is None or (has_taken and len(saved_states(states)) == 1):
        return 0
    return epochs_of(TrialConfig.from_json(record.config), numbers)
