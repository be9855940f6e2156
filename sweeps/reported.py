"""What the scheduler had judged of a sweep that goes on: the reports of trials, as far as they count already."""

import itertools
from collections.abc import Sequence

from mtlib.checkpoint import newest_numbers
from mtlib.config import TrialConfig
from mtlib.plan import first_scored_epoch
from results.epochs import read_curves
from results.records import TrialRecord
from results.recovery import MAIN_METRICS
from sweeps.lane_trial import states_of
from sweeps.options import SweepPlan
from sweeps.take_over import epochs_of
from sweeps.trial_spec import ENDED


def reported_before(plan: SweepPlan, known: Sequence[TrialRecord]) -> dict[str, list[tuple[int, float]]]:
    """What the scheduler has judged of first trainings of configurations: scored epoch and best score so far."""
    if plan.scheduler == "none":
        return {}
    curves = read_curves(plan.folder).to_pylist()
    metric = MAIN_METRICS[plan.space.metric]
    found: dict[str, list[tuple[int, float]]] = {}
    for record in known:
        if record.replicate > 0:
            continue
        first, judged = first_scored_epoch(TrialConfig.from_json(record.config)), num_judged(plan, record)
        points = [
            p for p in curves if (p["trial"], p["task"], p["split"]) == (record.trial_id, plan.space.metric, "dev")
        ]
        scores = {p["epoch"]: p["value"] for p in points if p["metric"] == metric and first <= p["epoch"] <= judged}
        bests = itertools.accumulate((scores[epoch] for epoch in sorted(scores)), max)
        found[record.trial_id] = [(e - first + 1, best) for e, best in zip(sorted(scores), bests, strict=True)]
    return found


def num_judged(plan: SweepPlan, record: TrialRecord) -> int:
    """Epochs of a trial behind which it has gone on, or ended; a newer one will be reported again, and judged then."""
    if record.status in ENDED:
        return record.epochs
    numbers = newest_numbers(states_of(plan.folder, record.trial_id, plan.state_steps))
    return 0 if numbers is None else epochs_of(TrialConfig.from_json(record.config), numbers)
