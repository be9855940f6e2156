"""How messages change the table of trials: epochs, verdicts, deaths of workers and nodes, the ends of trials.

Every message may come again from a process that was restarted: of a repeated report the first one counts, the first
verdict stays, and nothing counts that comes from an earlier attempt at a trial.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from results.records.trials import OVERALL
from sweeps.driver.trials.messages import UNEXPLAINED, Message, MessageKind, TrialStatus
from sweeps.driver.trials.table import Event, LaneRow, ScoredEpoch, TrialRow, TrialTable

MAX_ERRORS, MAX_UNEXPLAINED = 2, 3
"""A trial fails after its workers have ended so often from one state on, on nodes that live on: by an error of their
own, or unexplained. What kills a process, for example to free memory, may have chosen the wrong one."""


def apply(table: TrialTable, message: Message) -> list[Event]:
    """Changes the table by a message, and returns what has happened by it."""
    with table.lock:
        if message.number is not None:
            table.waiting[message.number] = message
        return list(CHANGES[message.kind](table, message) or ())


def note(text: str) -> Event:
    """Returns the event of a line for the user."""
    return Event(kind="note", facts={"text": text})


# Lanes and their controllers


def on_workers_started(table: TrialTable, message: Message) -> Iterator[Event]:
    """A lane has workers, which are about to load, unless no trial begins any more."""
    lane, facts = str(message.lane), message.facts
    yield from free(table, lane, UNEXPLAINED)  # it had workers before, whose death nobody has reported
    if table.takes_no_trials:
        yield Event(kind="lane_closed", lane=lane, facts={"why": None})
        return
    table.lanes[lane] = LaneRow(
        nodes=frozenset(facts["nodes"]), workers=tuple(facts.get("workers", ())), gpus=frozenset(facts.get("gpus", ()))
    )


def on_wants_trial(table: TrialTable, message: Message) -> Iterator[Event]:
    """A lane has loaded what it needs and has no trial."""
    own = table.lanes.setdefault(str(message.lane), LaneRow())
    if own.host is None:
        yield Event(kind="lane_open", lane=message.lane, facts=message.facts)
    own.host, own.request, own.seen = message.facts["host"], message.number, time.monotonic()


def on_lane_failed(table: TrialTable, message: Message) -> Iterator[Event]:
    """A lane cannot load what the sweep needs, or has workers on nodes that no lane can use (`refused`, their ids)."""
    own = table.lanes.pop(str(message.lane), LaneRow())
    yield Event(kind="lane_failed", lane=message.lane, facts={**message.facts, "nodes": sorted(own.nodes)})


def on_workers_died(table: TrialTable, message: Message) -> Iterator[Event]:
    """The workers of a lane have died; Ray Train restarts them once there are resources."""
    row = table.running_on(str(message.lane))
    known = None if row is None else row.why
    yield Event(kind="lane_down", lane=message.lane, facts={"why": known or message.facts["why"]})
    yield from free(table, str(message.lane), message.facts["why"])


def on_drained(table: TrialTable, message: Message) -> Iterator[Event]:
    """Nodes of a lane are about to be taken away (`refused`); its trial has saved its state and goes on elsewhere."""
    yield Event(kind="lane_closed", lane=message.lane, facts=message.facts)
    yield from free(table, str(message.lane), message.facts["why"], is_innocent=True)


def on_lane_ended(table: TrialTable, message: Message) -> Iterator[Event]:
    """The run of a lane has ended, asked or not, which is not its trial's doing."""
    yield from free(table, str(message.lane), message.facts["why"], is_innocent=True)


def free(table: TrialTable, lane: str, why: str, *, is_innocent: bool = False) -> Iterator[Event]:
    """Queues the trial of a lane without workers again, before all others, unless it has killed them too often."""
    own, row = table.lanes.pop(lane, None), table.running_on(lane)
    if own is None or row is None:
        return
    row.lane, row.nodes = None, own.nodes
    max_kills = MAX_ERRORS if row.why else MAX_UNEXPLAINED
    row.why = explain_death(table, own.nodes, row.why or why)
    if row.cause == "shared_gpu" and not row.needs_gpu_alone:
        row.needs_gpu_alone, is_innocent = True, True
        row.why = f"{row.why}; it is tried again alone on a GPU"
    kills = row.kills if is_innocent else [*row.kills, own.nodes]
    row.kills = [nodes for nodes in kills if nodes <= table.alive or not table.alive]
    if table.takes_no_trials or row.record.status == "pruned":
        yield end(row, "interrupted", None, lane=lane)
    elif row.cause == "storage":
        yield end(row, "interrupted", row.why, lane=lane)
    elif len(row.kills) >= max_kills:
        yield end(row, "failed", f"its workers died {max_kills} times at one place: {row.why}", lane=lane)
    else:
        table.queue.appendleft(row)
        yield requeued(row, lane)


def requeued(row: TrialRow, lane: str) -> Event:
    """Notes that a trial is queued again; the time until it has another lane does not count."""
    since = (row.progress or {}).get("since")
    wall_seconds = row.record.wall_seconds if since is None else time.time() - since
    row.record = replace(row.record, status="queued", wall_seconds=wall_seconds)
    row.progress, row.step = None, None
    return Event(kind="requeued", lane=lane, trial_id=row.trial_id, record=row.record, facts={"why": row.why})


def explain_death(table: TrialTable, nodes: frozenset[str], why: str) -> str:
    """Returns why workers on these nodes died: with a node, as far as that is known by now, or as was reported."""
    lost = nodes - table.alive if table.alive else frozenset()
    return f"node {', '.join(node[:8] for node in sorted(lost))} died" if lost else why


# Trials on lanes


def hear(table: TrialTable, message: Message) -> TrialRow:
    """Returns the trial that a lane speaks of, of which something was heard now."""
    row = table.rows[str(message.trial_id)]
    row.seen = time.monotonic()
    return row


def is_unwanted(row: TrialRow, attempt: int) -> bool:
    """Returns whether a trial has ended, or is another lane's: the worker has outlived its attempt."""
    return row.end is not None or row.attempt != attempt or row.lane is None


def started(row: TrialRow, facts: Mapping[str, Any]) -> Event:
    """Notes that a lane has the trial, for the first time in this run or again."""
    now, is_first = time.time(), row.attempt == 1
    row.progress, row.step = {"since": now - row.record.wall_seconds}, None
    begun = row.record.started or datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds")
    row.record = replace(row.record, status="running", host=facts["host"], started=begun, error=None)
    kind: Any = "started" if is_first else "resumed"
    return Event(kind=kind, lane=row.lane, trial_id=row.trial_id, record=row.record, facts=facts, time=now)


def on_starting_point(table: TrialTable, message: Message) -> Iterator[Event]:
    """A trial has found its starting point, and is about to send its epochs from before."""
    row, facts = hear(table, message), message.facts
    if is_unwanted(row, message.attempt):
        return
    if facts["state"] != row.state:
        row.state, row.kills = facts["state"], []
    row.past_epochs, row.step = facts["epochs"], None
    reused = {name: facts[name] for name in ("shared_steps", "taken_from")}
    row.record = replace(row.record, **reused, best={}, last={}, best_epoch={}, epochs=0, steps=0)
    yield event_of(row, message)


def on_past_epochs(table: TrialTable, message: Message) -> None:
    """A trial goes on after epochs that were trained before, by itself or by others."""
    row = hear(table, message)
    if not is_unwanted(row, message.attempt):
        for report in message.facts["epochs"]:
            record_epoch(table, row, report)


def on_epoch(table: TrialTable, message: Message) -> Iterator[Event]:
    """A trial has trained an epoch."""
    row, report = hear(table, message), message.facts
    if is_unwanted(row, message.attempt):
        return
    count_trained(table, row, report["step"])
    # An epoch is not new if its lane went back to an earlier state, or if it took no step.
    is_new = report["epoch"] > row.record.epochs and report["step"] > row.record.steps
    record_epoch(table, row, report)
    row.points = [point for point in report["points"] if point["split"] == "train"]
    if is_new:
        yield Event(kind="report", lane=row.lane, trial_id=row.trial_id, record=row.record, facts=report)


def record_epoch(table: TrialTable, row: TrialRow, report: Mapping[str, Any]) -> None:
    """Adds an epoch to the trial's record, and, if it is scored and new, to what Tune hears."""
    epoch, scores, record = report["epoch"], report["scores"], row.record
    better = {name: score for name, score in scores.items() if score > record.best.get(name, float("-inf"))}
    if OVERALL in better:
        row.constant = report.get("constant", {})
    if epoch > record.epochs:
        row.record = replace(
            record,
            best={**record.best, **better},
            last={**record.last, **scores},
            best_epoch={**record.best_epoch, **dict.fromkeys(better, epoch)},
            epochs=epoch,
            steps=report["step"],
            device_seconds=report["seconds"] * table.plan.options.workers,
            wall_seconds=report.get("wall_seconds", record.wall_seconds),
            peak_memory_bytes=report.get("peak_memory_bytes", record.peak_memory_bytes),
            checkpoint=f"trials/{record.trial_id}/checkpoint",
        )
    if OVERALL in scores and epoch > (row.reports[-1].epoch if row.reports else 0):
        best = max(report["score"], row.reports[-1].best if row.reports else float("-inf"))
        row.reports.append(ScoredEpoch(epoch=epoch, best=best, is_last=report["is_last"]))


def on_progress(table: TrialTable, message: Message) -> Iterator[Event]:
    """A trial has done steps."""
    row = hear(table, message)
    if is_unwanted(row, message.attempt):
        return
    count_trained(table, row, message.facts["step"])
    row.progress = {**(row.progress or {}), **message.facts}
    yield event_of(row, message)


def count_trained(table: TrialTable, row: TrialRow, step: int) -> None:
    """Counts the steps that were trained since the trial was last heard of; progress begins at its first step."""
    table.trained_steps += max(0, step - (step - 1 if row.step is None else row.step))
    row.step = step


def on_waits(table: TrialTable, message: Message) -> Iterator[Event]:
    """A worker waits for a bucket."""
    hear(table, message)
    yield Event(kind="note", facts={**message.facts, "is_wait": True})


def on_stage_finished(table: TrialTable, message: Message) -> Iterator[Event]:
    """A trial has finished a stage, which is kept for others if it could be."""
    row = hear(table, message)
    row.num_stages = max(row.num_stages, message.facts["stage"] + 1)
    yield event_of(row, message)


def on_worker_error(table: TrialTable, message: Message) -> None:
    """An error is about to end a worker; of several workers the first says why, the others lose their peers."""
    row = hear(table, message)
    if row.attempt == message.attempt:
        row.why = row.why or message.facts["why"]
        row.cause = message.facts["cause"] if row.cause == "trial" else row.cause


def on_left(table: TrialTable, message: Message) -> Iterator[Event]:
    """A trial has left its lane."""
    row, facts = hear(table, message), message.facts
    if not is_unwanted(row, message.attempt):
        yield end(row, facts["status"], facts["error"], **facts["spent"])


def end(row: TrialRow, how: TrialStatus, error: str | None, *, lane: str | None = None, **spent: float | int) -> Event:
    """Ends a trial; one that never had a lane stays queued on record unless it failed.

    `lane` is the one that it has lost. `spent` are `wall_seconds` and `peak_memory_bytes`, as far as they are known.
    """
    was_started, record = row.attempt > 0, row.record
    if record.status == "pruned" and how == "interrupted":  # the scheduler's verdict, and its end, are on record
        how = "pruned"
    planned = (row.progress or {}).get("num_steps", 0)
    row.end, row.needs_gpu_alone, row.progress, row.points = how, False, None, ()
    if was_started or how != "interrupted":
        row.record = replace(
            record,
            status=how,
            error=error,
            wall_seconds=spent.get("wall_seconds", record.wall_seconds),
            peak_memory_bytes=int(max(record.peak_memory_bytes, spent.get("peak_memory_bytes", 0))),
        )
    facts = {**spent, "how": how, "error": error, "was_started": was_started, "planned_steps": planned}
    return Event(kind="ended", lane=lane or row.lane, trial_id=row.trial_id, record=row.record, facts=facts)


def event_of(row: TrialRow, message: Message) -> Event:
    """Returns a lane's message as the event of the same kind."""
    kind: Any = message.kind
    return Event(kind=kind, lane=row.lane, trial_id=row.trial_id, record=row.record, facts=message.facts)


# Tune and the searcher


def on_suggested(table: TrialTable, message: Message) -> Iterator[Event]:
    """A trial is to be trained."""
    row = table.add(message.facts["trial"])
    if table.takes_no_trials:
        yield end(row, "interrupted", None)
    else:
        table.queue.append(row)


def on_wants_report(table: TrialTable, message: Message) -> Iterator[Event]:
    """A trial's process in Tune asks for a report; one that asks for the first again was restarted."""
    row, num_seen = table.rows[str(message.trial_id)], message.facts["num_seen"]
    if num_seen == 0 and row.has_process:
        yield note(f"{row.trial_id} goes on: only its process in Ray Tune died, and was started again")
    row.has_process = True


def on_verdict(table: TrialTable, message: Message) -> None:
    """The scheduler has decided on a report; the first verdict stays."""
    row, epoch, stop = table.rows[str(message.trial_id)], message.facts["epoch"], message.facts["stop"]
    if row.verdicts.setdefault(epoch, stop) and row.end is None:
        row.record = replace(row.record, status="pruned")


def on_tune_failed(_table: TrialTable, message: Message) -> Iterator[Event]:
    """Tune cannot keep a process for a trial."""
    yield Event(kind="failed", facts=message.facts)


# The driver


def on_kill(table: TrialTable, message: Message) -> None:
    """The driver kills the workers of a trial, which is how they will die."""
    table.rows[str(message.trial_id)].why = message.facts["why"]


def on_nodes(table: TrialTable, message: Message) -> None:
    """How many lanes there is work for, and which nodes live; idle lanes beyond that close."""
    table.max_lanes, table.alive = message.facts["max_lanes"], frozenset(message.facts["alive"])


def on_stop(table: TrialTable, _message: Message) -> Iterator[Event]:
    """Everything stops: queued trials end, running ones at their next step, lanes close."""
    table.is_stopped = True
    yield from end_queued(table)


def on_wind_down(table: TrialTable, _message: Message) -> Iterator[Event]:
    """The sweep ends: queued trials end now, running ones after their next epoch, idle lanes close."""
    table.is_winding_down = True
    yield from end_queued(table)


def end_queued(table: TrialTable) -> Iterator[Event]:
    """Ends the trials that no lane has."""
    while table.queue:
        yield end(table.queue.popleft(), "interrupted", None)


CHANGES: Mapping[MessageKind, Callable[[TrialTable, Message], Iterator[Event] | None]] = {
    "workers_started": on_workers_started,
    "wants_trial": on_wants_trial,
    "lane_failed": on_lane_failed,
    "workers_died": on_workers_died,
    "lane_ended": on_lane_ended,
    "drained": on_drained,
    "starting_point": on_starting_point,
    "past_epochs": on_past_epochs,
    "epoch": on_epoch,
    "progress": on_progress,
    "stage_finished": on_stage_finished,
    "waits": on_waits,
    "worker_error": on_worker_error,
    "left": on_left,
    "suggested": on_suggested,
    "wants_report": on_wants_report,
    "verdict": on_verdict,
    "tune_failed": on_tune_failed,
    "kill": on_kill,
    "nodes": on_nodes,
    "stop": on_stop,
    "wind_down": on_wind_down,
}
"""What each kind of message does, and what happens by it, if anything."""
