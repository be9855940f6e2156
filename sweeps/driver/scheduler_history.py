"""The reports on which the scheduler of a resumed sweep had already decided."""

import itertools
from collections.abc import Sequence

from mtlib.checkpoints.state import newest_numbers, saved_states
from mtlib.config.trial import TrialConfig
from mtlib.stages.plan import overall_epochs
from mtlib.tasks import score_of
from results.records.epochs import read_curves
from results.records.recovery import is_main_score
from results.records.trials import UNFINISHED, TrialRecord
from sweeps.options import SweepPlan
from sweeps.reuse.finished_trials import REUSED_WORK_FILE, trial_folder
from sweeps.reuse.starting_point import epochs_of


def decided_reports(plan: SweepPlan, known: Sequence[TrialRecord]) -> dict[str, list[tuple[int, float]]]:
    """Decided reports of first trainings of configurations, by trial id: scored epoch and best score so far."""
    if plan.options.scheduler == "none":
        return {}
    curves = read_curves(plan.options.folder).to_pylist()
    tasks = plan.tasks
    found: dict[str, list[tuple[int, float]]] = {}
    for record in known:
        if record.replicate > 0:
            continue
        last = num_decided_epochs(plan, record)
        counted = [epoch for epoch in overall_epochs(TrialConfig.from_json(record.config)) if epoch <= last]
        wanted = {"trial": record.trial_id, "task": plan.space.metric}
        points = [point for point in curves if wanted.items() <= point.items() and is_main_score(point, tasks)]
        decided = [point for point in points if point["epoch"] in counted]
        scores = {point["epoch"]: score_of(plan.space.metric, point["value"], tasks) for point in decided}
        bests = itertools.accumulate((scores[epoch] for epoch in sorted(scores)), max)
        found[record.trial_id] = [(counted.index(e) + 1, best) for e, best in zip(sorted(scores), bests, strict=True)]
    return found


def num_decided_epochs(plan: SweepPlan, record: TrialRecord) -> int:
    """Epochs of a trial after which it continued, or ended. A newer epoch is reported again and decided on then.

    Reused epochs are reported before the trial continues. Until it has saved a state of its own, the scheduler may not
    have decided on them, so none count.
    """
    if record.status not in UNFINISHED:
        return record.epochs
    folder = trial_folder(plan.options, record.trial_id)
    numbers, has_reused = newest_numbers(folder.states), (folder.path / REUSED_WORK_FILE).exists()
    if numbers is None or (has_reused and len(saved_states(folder.states)) == 1):
        return 0
    return epochs_of(TrialConfig.from_json(record.config), numbers)
