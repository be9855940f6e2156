"""The limits of one run of a sweep, --max-hours and --max-steps."""

import time

from sweeps.driver.trials.table import TrialTable


def reached_limit(table: TrialTable, began: float) -> str | None:
    """Returns the limit of a run that is reached, as it was typed; None if none is.

    `began` is the start of the run on the monotonic clock. What was trained in earlier runs, or by others, does not
    count.
    """
    options = table.plan.options
    if options.max_hours is not None and time.monotonic() - began >= 3600 * options.max_hours:
        return f"--max-hours {options.max_hours:g}"
    if options.max_steps is not None and table.trained_steps >= options.max_steps:
        return f"--max-steps {options.max_steps}"
    return None
