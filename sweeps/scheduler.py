"""Which trials are stopped early: asynchronous successive halving over the best score so far, or none."""

from typing import Any

from ray.tune.schedulers import ASHAScheduler, FIFOScheduler, TrialScheduler

from sweeps.options import SweepPlan

REDUCTION = 3
"""Of the trials that reach a rung (1, 3, 9, ... scored epochs), about one in so many goes on."""


MOST_EPOCHS = 10**6
"""More than any trial has: from its `max_t` on ASHA stops every trial, even one that has just finished."""


class HalvingScheduler(ASHAScheduler):  # type: ignore[misc]
    """ASHA (Li et al. 2020) that neither stops replicates, whose configuration has proved itself, nor counts them, and
    lets a trial that has reported its last epoch complete."""

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        """The decision after a report; the last report takes its place in the rungs like any other."""
        if trial.config["replicate"] > 0:
            return str(TrialScheduler.CONTINUE)
        decision = super().on_trial_result(tune_controller, trial, result)
        return str(TrialScheduler.CONTINUE if result.get("is_last") else decision)

    def on_trial_complete(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> None:
        """Forgets the trial; its scores stay in the rungs."""
        if trial.config["replicate"] == 0:
            super().on_trial_complete(tune_controller, trial, result)


def make_scheduler(plan: SweepPlan) -> TrialScheduler:
    """The scheduler of a sweep. It counts epochs from the first overall score."""
    if plan.scheduler == "none":
        return FIFOScheduler()
    return HalvingScheduler(
        time_attr="epoch", metric="best", mode="max", max_t=MOST_EPOCHS, grace_period=1, reduction_factor=REDUCTION
    )
