"""Which trials are stopped early: asynchronous successive halving over the best score so far, or none."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from ray.tune.schedulers import ASHAScheduler, FIFOScheduler, TrialScheduler

from sweeps.driver.trials.table import TrialTable

FIRST_RUNG = 1
"""Epochs with an overall score after which trials are compared for the first time."""
REDUCTION_FACTOR = 3
"""About one in so many of the trials that reach a rung continues; the next rung is after so many times its epochs."""
MAX_EPOCHS = 10**6
"""More than any trial has: ASHA stops every trial that reaches its `max_t`, even one that has just finished."""


class HalvingScheduler(ASHAScheduler):  # type: ignore[misc]
    """ASHA (Li et al. 2020) over first trainings of configurations: replicates are neither stopped nor counted.

    A trial that has reported its last epoch completes. Rungs know trials by our ids, which survive a resume.
    """

    def replay(self, trial_id: str, scores: Iterable[tuple[int, float]]) -> None:
        """Enters what a trial reported before the sweep was resumed: scored epoch and best score so far, in order."""
        super().on_trial_add(None, SimpleNamespace(trial_id=trial_id))
        for epoch, best in scores:
            self._decide(trial_id, epoch, best)

    def on_trial_add(self, tune_controller: Any, trial: Any) -> None:
        """Enters a trial under our id."""
        super().on_trial_add(tune_controller, SimpleNamespace(trial_id=trial.config["trial"]["trial_id"]))

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:  # noqa: ARG002
        """Returns the decision after a report; the last report enters the rungs like any other."""
        if trial.config["trial"]["replicate"] > 0:
            return str(TrialScheduler.CONTINUE)
        decision = self._decide(trial.config["trial"]["trial_id"], result["epoch"], result["best"])
        return str(TrialScheduler.CONTINUE if result.get("is_last") else decision)

    def on_trial_complete(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> None:
        """Nothing: a trial's scores stay in the rungs."""

    def on_trial_remove(self, tune_controller: Any, trial: Any) -> None:
        """Nothing: a trial's scores stay in the rungs."""

    def _decide(self, trial_id: str, epoch: int, best: float) -> str:
        """ASHA's decision after a scored epoch with the best score so far."""
        return str(super().on_trial_result(None, SimpleNamespace(trial_id=trial_id), {"epoch": epoch, "best": best}))


def make_scheduler(table: TrialTable) -> TrialScheduler:
    """Returns the scheduler of a sweep, which knows the past epochs of the table's trials. It counts epochs with an
    overall score."""
    if table.plan.options.scheduler == "none":
        return FIFOScheduler()
    scheduler = HalvingScheduler(
        time_attr="epoch",
        metric="best",
        mode="max",
        max_t=MAX_EPOCHS,
        grace_period=FIRST_RUNG,
        reduction_factor=REDUCTION_FACTOR,
    )
    for trial_id, row in table.rows.items():
        if row.past:
            scheduler.replay(trial_id, row.past)
    return scheduler
