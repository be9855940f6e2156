"""What the table of trials answers to lanes and to Tune: trials, verdicts and reports, as soon as they are there."""

import time
from collections.abc import Mapping
from typing import Any

from results.records.trials import OVERALL
from sweeps.driver.trials.changes import explain_death, is_unwanted, started
from sweeps.driver.trials.messages import Assignment, Message, Verdict
from sweeps.driver.trials.table import Event, LaneRow, TrialRow, TrialTable

IDLE_SECONDS = 60.0
"""Time limit of a request for a trial: the lane's other workers wait in a collective, which times out."""
MOST_PROGRESS = 20.0
"""Progress messages a second of all lanes together: each costs the channel a millisecond, nearly all of it Ray's own. A
lane sends its next progress a second after the last one, once that is answered; with more lanes than this the answers
wait. A stop is answered at once."""
LONGEST_PROGRESS = 20.0
"""Seconds for which the answer to a lane's progress waits at most: a lane that is silent for longer is looked at."""
WAITING = object()
"""In place of an answer that is not known yet."""


def settle(table: TrialTable) -> tuple[dict[int, Any], list[Event]]:
    """Returns the answers that can be given now, by number of the message, and what happens by them.

    A lane that gets a trial has it from now on in the table.
    """
    answers: dict[int, Any] = {}
    events: list[Event] = []
    with table.lock:
        for number, message in list(table.waiting.items()):
            answer = answer_lane(table, message, events) if message.trial_id is None else answer_trial(table, message)
            if answer is not WAITING:
                if message.kind in ("epoch", "past_epochs"):
                    table.rows[str(message.trial_id)].seen = time.monotonic()
                del table.waiting[number]
                answers[number] = answer
    return answers, events


# Trials


def answer_trial(table: TrialTable, message: Message) -> Any:
    """Returns the answer to a message about a trial, `WAITING` if there is none yet."""
    row = table.rows[str(message.trial_id)]
    if message.kind == "wants_report":
        return next_report(row, message.facts["num_seen"])
    if message.kind == "progress":
        if table.is_stopped or is_unwanted(row, message.attempt):
            return True
        seconds = min(len(table.lanes) / MOST_PROGRESS - 1, LONGEST_PROGRESS)
        return WAITING if time.monotonic() - row.seen < seconds else False
    if message.kind == "past_epochs":
        return verdict_on_past(table, row, message)
    return verdict_on(table, row, message.attempt, message.facts)


def next_report(row: TrialRow, num_seen: int) -> Any:
    """Returns what Tune gets of a trial's next scored epoch after `num_seen`, or of its end, which has a status.

    Tune's schedulers and searchers see `epoch`, which counts overall scores, and `best`.
    """
    seen = row.reports[: num_seen + 1]
    is_end = len(seen) <= num_seen
    if is_end and row.end is None:
        return WAITING
    return {
        "epoch": len(seen),
        "trained_epochs": seen[-1].epoch if seen else 0,
        "best": seen[-1].best if seen else float("-inf"),
        "is_last": seen[-1].is_last if seen else False,
        "status": row.end if is_end else "",
        "done": is_end,
    }


def verdict_on(table: TrialTable, row: TrialRow, attempt: int, report: Mapping[str, Any]) -> "Verdict | object":
    """Returns the verdict on an epoch, `WAITING` until the scheduler has decided.

    It is not asked about an epoch without an overall score, nor about the last one.
    """
    if is_unwanted(row, attempt):
        return "end"
    is_asked = OVERALL in report["scores"] and not report["is_last"]
    if is_asked and report["epoch"] not in row.verdicts:
        return "end" if table.is_stopped else WAITING
    if is_asked and row.verdicts[report["epoch"]]:
        return "stop"
    return "leave" if table.takes_no_trials else "go"


def verdict_on_past(table: TrialTable, row: TrialRow, message: Message) -> Any:
    """Returns the past epoch after which a trial stops, None if it goes on, `end` as in `Verdict`."""
    for report in message.facts["epochs"]:
        verdict = verdict_on(table, row, message.attempt, report)
        if verdict in ("end", WAITING):
            return verdict
        if verdict == "stop":
            return report["epoch"]
    return None


# Lanes


def answer_lane(table: TrialTable, message: Message, events: list[Event]) -> Any:
    """Returns the answer to a lane, `WAITING` if there is none yet; adds what happens by it to `events`.

    A lane that has workers hears whether it may load; one that wants a trial gets an `Assignment`, `wait` if it must
    ask again, or `close`.
    """
    name = str(message.lane)
    own = table.lanes.get(name)
    if message.kind == "workers_started":
        return own is not None
    if own is None or own.request != message.number:  # its workers have died since
        return "close"
    if is_surplus(table):
        del table.lanes[name]
        events.append(Event(kind="lane_closed", lane=name, facts={"why": None}))
        return "close"
    row = next_for(table, own)
    if row is None:
        return "wait" if time.monotonic() - own.seen > IDLE_SECONDS else WAITING
    table.queue.remove(row)
    why = None if row.why is None else explain_death(table, row.nodes, row.why)
    row.lane, row.attempt, row.seen, row.why, row.cause = name, row.attempt + 1, time.monotonic(), None, "trial"
    facts = {"host": own.host, "workers": own.workers, "attempt": row.attempt, "why": why}
    events.append(started(row, facts))
    return Assignment(trial=row.description, attempt=row.attempt, has_gpu_alone=row.needs_gpu_alone)


def is_surplus(table: TrialTable) -> bool:
    """Returns whether an idle lane is one too many:
    no trial waits, and there is work for fewer lanes than are open."""
    has_work = table.max_lanes is None or len(table.open_lanes) <= table.max_lanes
    return table.takes_no_trials or not (table.queue or has_work)


def next_for(table: TrialTable, lane: LaneRow) -> TrialRow | None:
    """Returns the queued trial that a lane may begin now.

    A trial that needs a GPU alone waits for the one with the fewest others, where no lane takes another meanwhile.
    """
    first_alone = next((row for row in table.queue if row.needs_gpu_alone), None)
    beside = running_beside(table, lane)
    if any(row.needs_gpu_alone for row in beside):
        return None
    if first_alone is not None:
        opened = [other for other in table.lanes.values() if other.host is not None]
        freest = min(opened, key=lambda other: (len(running_beside(table, other)), sorted(other.gpus)))
        if freest.gpus & lane.gpus:
            return None if beside else first_alone
    return next((row for row in table.queue if not row.needs_gpu_alone), None)


def running_beside(table: TrialTable, lane: LaneRow) -> list[TrialRow]:
    """Returns the trials on the GPUs of a lane, its own included."""
    if not lane.gpus:
        return []
    names = {name for name, other in table.lanes.items() if other.gpus & lane.gpus}
    return [row for row in table.rows.values() if row.runs and row.lane in names]
