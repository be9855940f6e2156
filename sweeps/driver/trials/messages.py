"""The messages that change the table of trials, or ask it for something.

Lanes, Ray Train's controllers, Tune and the driver tell messages; some of them wait for an answer. Tune's trials and
the controllers load this file, so it imports nothing that takes time.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

TrialStatus = Literal["complete", "reused", "pruned", "failed", "interrupted"]
"""Status of a trial that has left its lane."""

ErrorCause = Literal["trial", "storage", "shared_gpu"]
"""What an error that ends a worker comes from: perhaps the trial, a disk, or memory of a GPU that others use too."""

Verdict = Literal["go", "leave", "stop", "end"]
"""On an epoch: train on; save a state and leave, as the sweep ends; stop, by the scheduler; end without a state after
this epoch, as the sweep ended before the scheduler's verdict, which the resumed trial would skip, or the trial is
another lane's now.
"""

UNEXPLAINED = "a worker process died, possibly out of memory"

MessageKind = Literal[
    "workers_started",
    "wants_trial",
    "lane_failed",
    "starting_point",
    "past_epochs",
    "stage_finished",
    "waits",
    "progress",
    "epoch",
    "drained",
    "worker_error",
    "left",
    "workers_died",
    "suggested",
    "wants_report",
    "verdict",
    "tune_failed",
    "lane_ended",
    "kill",
    "nodes",
    "stop",
    "wind_down",
]
"""From a lane, those up to `left`: it has workers; it asks for a trial; it cannot open; where its trial starts from;
the epochs that the trial has from before; a stage is done; a bucket does not answer; steps are done; an epoch is
done; it leaves nodes that are drained; an error ends a worker; the trial has left. From a controller: `workers_died`.
From Tune and its searcher, those up to `tune_failed`: a trial is to be trained; its process in Tune asks for its next
scored epoch; the scheduler has decided on one; Tune cannot go on. From the driver, the others: the run of a lane has
ended; workers are killed; which nodes live; everything stops; nothing more begins.
"""


@dataclass(frozen=True, kw_only=True)
class Message:
    """Something that is told to the table, or asked."""

    kind: MessageKind
    lane: str | None = None
    trial_id: str | None = None
    attempt: int = 0
    """The attempt at the trial that the sender belongs to; of an earlier attempt nothing counts any more."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    number: int | None = None
    """Given by the channel to a message whose sender waits for an answer."""


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """A trial for a lane to train."""

    trial: Mapping[str, Any]
    """Its `sweeps.driver.trials.table.TrialRow.description`."""
    attempt: int
    """How often a lane has begun it; messages of an earlier attempt are void."""
    has_gpu_alone: bool = False
    """Whether no other trial of the sweep is on its GPU."""

    @property
    def trial_id(self) -> str:
        return str(self.trial["trial_id"])
