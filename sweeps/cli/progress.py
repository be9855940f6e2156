"""The display of a running sweep: a live table on a terminal, plain lines elsewhere."""

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console

from mtlib.runtime.command_line import duration
from mtlib.runtime.console import PLAIN_WIDTH, PrintedTable, ShowLines, redrawn_lines, show_lines, table_lines
from results.answers.race_words import progress_words
from results.records.trial_folder import log_path
from results.records.trials import TrialRecord
from results.stats.texts import value_text
from sweeps.cli.sweep_state import best_text, progress_text, score_texts
from sweeps.cli.time_left import seconds_left
from sweeps.driver.ledger import Ledger
from sweeps.driver.run_sweep import OnEvent
from sweeps.lanes.channel import Event

MAX_TRIAL_LINES = 12
"""Running trials that the live table shows."""
PLAIN_SECONDS = 45.0
"""A log without a terminal gets a line of the running trials' steps after so long without another line."""
STATUSES_SHOWN = ("complete", "reused", "pruned", "failed", "interrupted", "running", "queued")


@contextlib.contextmanager
def show_progress(console: Console) -> Iterator[OnEvent]:
    """Yields the function that `run_plan` calls with each event.

    A terminal has a live table; any other console gets a line for each start, report and end of a trial, and in
    long epochs of the steps.

    Raises:
        BrokenPipeError: standard output is closed.
    """
    started, ledgers = time.time(), list[Ledger]()
    try:
        if not console.is_terminal:
            yield plain_printer(lambda lines: show_lines(lines, console.file), started)
            return
        with redrawn_lines(console, lambda width: live_lines(ledgers, started, width)) as show_above:

            def on_event(event: Event, ledger: Ledger) -> None:
                ledgers[:] = [ledger]
                show_above(lasting_lines(event))

            yield on_event
    except SystemExit as error:  # rich raises it when standard output is closed
        raise BrokenPipeError from error


def plain_printer(show: ShowLines, started: float) -> OnEvent:
    """Shows the lines of each event for a log."""
    printed = time.monotonic()

    def on_event(event: Event, ledger: Ledger) -> None:
        nonlocal printed
        lines = plain_lines(event, ledger, started)
        if not lines and time.monotonic() - printed >= PLAIN_SECONDS:
            running = list(ledger.progress.items())[:MAX_TRIAL_LINES]
            steps = (f"{name} {progress_text(progress)}" for name, progress in running)
            lines = ["; ".join([summary(ledger, started), *steps])]
        if lines:
            show(lines)
            printed = time.monotonic()

    return on_event


def plain_lines(event: Event, ledger: Ledger, started: float) -> list[str]:
    """Returns the lines of an event for a log."""
    lines, name, records = lasting_lines(event), str(event.trial_id), ledger.records
    if event.kind in ("started", "resumed"):
        lines.append(f"{name} starts: {params_text(records[name])}")
    elif event.kind == "report" and not event.facts.get("is_replayed"):
        texts = score_texts(records[name], ledger.plan.tasks) if event.facts["scores"] else ["not scored"]
        lines.append(f"{name} epoch {records[name].epochs}: {', '.join(texts)}")
    elif event.kind == "ended" and event.facts["was_started"]:
        lines.append(f"{name} {records[name].status} after {duration(records[name].wall_seconds)}")
        lines.append(summary(ledger, started))
    return lines


def lasting_lines(event: Event) -> list[str]:
    """Lines of an event that stay on a terminal too: notes, failures, lanes that open or are lost."""
    if event.kind == "note":
        return [event.facts["text"]]
    if event.kind == "lane_open":
        return [f"{event.lane} is open on {event.facts['host']}"]
    if event.kind == "lane_down":
        return [f"{event.lane} is down: {event.facts['why']}; Ray restarts its workers"]
    if event.kind == "lane_failed":
        return [f"{event.lane} cannot open: {event.facts['why']}"]
    if event.kind == "lane_closed":
        why = event.facts["why"]
        return [f"{event.lane} {'is idle and has released its resources' if why is None else f'closes: {why}'}"]
    if event.kind == "requeued":
        return [f"{event.trial_id} waits for a free lane: {event.facts['why']}"]
    if event.kind == "resumed":
        return [f"{event.trial_id} continues from its last state: {event.facts['why'] or 'its lane was restarted'}"]
    if event.kind == "starting_point":
        return begin_lines(str(event.trial_id), event.facts)
    if event.kind == "stage_finished" and event.facts["why_not"]:
        return [f"{event.trial_id}: stage {event.facts['stage']} is not kept for others: {event.facts['why_not']}"]
    if event.kind == "ended" and event.facts["how"] == "failed":
        return [f"{event.trial_id} failed: {event.facts['error']} (log: {log_path(str(event.trial_id))})"]
    return []


def begin_lines(trial_id: str, facts: Mapping[str, Any]) -> list[str]:
    """Returns what a trial reuses, and a note on its own earlier work."""
    notes = list(facts["notes"])
    if facts["taken_from"]:
        return [*notes, f"{trial_id} is equal to {facts['taken_from']}, which is reused"]
    if facts["shared_steps"]:
        return [*notes, f"{trial_id} reuses {facts['shared_steps']:,} steps that were trained before"]
    return [*notes, f"{trial_id} continues after epoch {facts['epochs']}"] if facts["epochs"] else notes


def params_text(record: TrialRecord) -> str:
    """Searched values as text."""
    return ", ".join(f"{key}={value_text(value)}" for key, value in record.params.items())


def live_lines(ledgers: list[Ledger], started: float, width: int = PLAIN_WIDTH) -> list[str]:
    """Returns the summary, and the running trials in a table."""
    if not ledgers:
        return [f"opening lanes ... {duration(time.time() - started)}"]
    ledger = ledgers[0]
    if not ledger.progress:
        return [f"{'' if ledger.lanes else 'opening lanes; '}{summary(ledger, started)}"]
    rows = [running_cells(ledger, trial_id) for trial_id in list(ledger.progress)[:MAX_TRIAL_LINES]]
    table = PrintedTable(titles=("trial", "searched", "place", "newest dev scores"), rows=rows, has_rule=False)
    hidden = len(ledger.progress) - MAX_TRIAL_LINES
    return [summary(ledger, started), *table_lines(width, table), *([f"and {hidden} more"] if hidden > 0 else [])]


def running_cells(ledger: Ledger, trial_id: str) -> tuple[str, ...]:
    """Returns a running trial: its values, its epoch and step, its newest scores."""
    record, progress = ledger.records[trial_id], ledger.progress[trial_id]
    scores = "  ".join(score_texts(record, ledger.plan.tasks))
    return trial_id, params_text(record), progress_text(progress), scores


def summary(ledger: Ledger, started: float) -> str:
    """`3 complete, 1 pruned, 2 running, 1 queued; best overall 0.673 (0002-r0); 1:05 elapsed, about 0:40 left`."""
    counts = ledger.counts
    parts = [", ".join(f"{counts[status]} {status}" for status in STATUSES_SHOWN if counts.get(status))]
    if best := best_text(list(ledger.records.values()), ledger.plan.space.metric, ledger.plan.tasks):
        parts.append(f"best {best}")
    if ledger.race is not None and (decided := progress_words(ledger.race)):
        parts.append(decided)
    elapsed = f"{duration(time.time() - started)} elapsed"
    left = seconds_left(
        ledger.records, ledger.progress, time.time(), num_left=counts.get("queued", 0), num_lanes=len(ledger.lanes)
    )
    parts.append(elapsed if left is None else f"{elapsed}, about {duration(left)} left")
    return "; ".join(part for part in parts if part)
