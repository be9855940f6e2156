"""The limits of one run of a sweep, --max-hours and --max-steps: what has been used, and which is reached."""

import time
from dataclasses import dataclass, field

from sweeps.lanes.channel import Event


@dataclass(kw_only=True)
class Limits:
    """Counts hours and optimizer steps of a run; what was trained in earlier runs, or by others, does not count."""

    max_hours: float | None = None
    max_steps: int | None = None
    began: float = field(default_factory=time.monotonic)
    """On the monotonic clock."""
    num_steps: int = 0
    """Optimizer steps that were trained."""
    places: dict[str, int] = field(default_factory=dict)
    """The newest known step of each trial since it last started or was resumed."""

    def count(self, event: Event) -> None:
        """Counts the steps that an event shows."""
        trial_id = str(event.trial_id)
        if event.kind in ("started", "resumed", "starting_point", "requeued"):
            self.places.pop(trial_id, None)
        elif event.kind in ("progress", "report") and not event.facts.get("is_replayed"):
            step = event.facts["step"]
            self.num_steps += max(0, step - self.places.get(trial_id, step - 1))  # progress begins at the first step
            self.places[trial_id] = step

    @property
    def reached(self) -> str | None:
        """The limit that is reached, as it was typed; None if none is."""
        if self.max_hours is not None and time.monotonic() - self.began >= 3600 * self.max_hours:
            return f"--max-hours {self.max_hours:g}"
        if self.max_steps is not None and self.num_steps >= self.max_steps:
            return f"--max-steps {self.max_steps}"
        return None
