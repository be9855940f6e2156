"""The limits of one run of a sweep, --max-hours and --max-steps."""

import time
from dataclasses import dataclass, field

from sweeps.driver.trials.table import TrialTable


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Hours and optimizer steps of a run; what was trained in earlier runs, or by others, does not count."""

    max_hours: float | None = None
    max_steps: int | None = None
    began: float = field(default_factory=time.monotonic)
    """On the monotonic clock."""

    def reached(self, table: TrialTable) -> str | None:
        """Returns the limit that is reached, as it was typed; None if none is."""
        if self.max_hours is not None and time.monotonic() - self.began >= 3600 * self.max_hours:
            return f"--max-hours {self.max_hours:g}"
        if self.max_steps is not None and table.trained_steps >= self.max_steps:
            return f"--max-steps {self.max_steps}"
        return None
