"""What to distrust in a sweep, or to change before the next one; what its answer says is not repeated here."""

from collections.abc import Mapping

from mtlib.runtime.errors import reason_of
from results.answers.next_commands import report_command
from results.health.equal_trainings import equal_trainings
from results.health.finding import WORST_FIRST, Check, Finding
from results.health.lost_rows import dropped_rows, lost_ends
from results.health.outputs import constant_predictions, weak_dev_sets
from results.health.repeated_texts import repeated_texts
from results.health.scale import mostly_clipped, overwhelming_penalties, starved_tasks, vanishing_penalties
from results.health.trials import early_ends, failed_trials, unfinished_trials
from results.sweep import Sweep

CHECKS: Mapping[str, Check] = {
    "failed trials": failed_trials,
    "trials that have not ended": unfinished_trials,
    "stages that ended early": early_ends,
    "predictions that are all the same": constant_predictions,
    "dev sets that show little": weak_dev_sets,
    "texts that occur twice": repeated_texts,
    "rows that lose their end": lost_ends,
    "rows that are left out": dropped_rows,
    "tasks that others starve": starved_tasks,
    "tasks whose steps are clipped": mostly_clipped,
    "penalties that are numerically nothing": vanishing_penalties,
    "penalties that overwhelm the loss": overwhelming_penalties,
    "configurations that trained the same": equal_trainings,
}
"""By what they look for. Another one is a function and a line here."""
BELOW_RANKING: tuple[Check, ...] = (
    weak_dev_sets,
    constant_predictions,
    vanishing_penalties,
    starved_tasks,
    mostly_clipped,
    equal_trainings,
    early_ends,
)
"""Checks whose findings are printed below the ranking too: they say what its scores do not show."""


def find_problems(sweep: Sweep) -> list[Finding]:
    """Returns all findings about a sweep, ended or running; a check that cannot be made is one of them.

    Args:
        sweep: with its files: predictions are read.

    Returns:
        The findings, the worst first; empty if nothing is suspicious.
    """
    found: list[Finding] = []
    for name, check in CHECKS.items():
        try:
            for finding in check(sweep):
                found.append(finding)  # also of a check that fails later
        except ValueError as error:
            what = f"Not checked: {name}, as {reason_of(error)}"
            advice = "fix the cause, then write the page again"
            found.append(Finding(level="note", what=what, advice=advice, command=report_command(sweep.path)))
    return sorted(found, key=lambda finding: WORST_FIRST.index(finding.level))
