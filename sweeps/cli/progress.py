"""The display of a running sweep: a live table on a terminal, plain lines elsewhere."""

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console

from mtlib.metrics.constant_prediction import collapsed_tasks
from mtlib.runtime.command_line import duration, in_words
from mtlib.runtime.console import PLAIN_WIDTH, PrintedTable, ShowLines, redrawn_lines, show_lines, table_lines
from results.answers.race_words import progress_words
from results.records.trial_folder import log_path
from results.records.trials import COMPLETED, TrialRecord
from results.stats.texts import value_text
from sweeps.cli.sweep_state import best_text, progress_text, score_texts
from sweeps.cli.time_left import seconds_left
from sweeps.driver.run_sweep import OnEvent
from sweeps.driver.trials.table import Event, TrialRow, TrialTable

MAX_TRIAL_LINES = 12
"""Running trials that the live table shows."""
PLAIN_SECONDS = 15.0
"""A log without a terminal gets a line of the running trials' steps after so long without another line."""
STATUSES_SHOWN = ("complete", "reused", "pruned", "failed", "interrupted", "running", "queued")


@contextlib.contextmanager
def show_progress(console: Console, table: TrialTable) -> Iterator[OnEvent]:
    """Yields the function that `run_plan` calls with each event of a table of trials.

    A terminal has a live table; any other console gets a line for each start, report and end of a trial, and in
    long epochs of the steps.

    Raises:
        BrokenPipeError: standard output is closed.
    """
    started = time.time()
    try:
        if not console.is_terminal:
            yield plain_printer(lambda lines: show_lines(lines, console.file), table, started)
            return
        with redrawn_lines(console, lambda width: live_lines(table, started, width)) as show_above:
            yield lambda event: show_above([*lasting_lines(event), *notes_on_end(event, table)])
    except SystemExit as error:  # rich raises it when standard output is closed
        raise BrokenPipeError from error


def plain_printer(show: ShowLines, table: TrialTable, started: float) -> OnEvent:
    """Shows the lines of each event for a log."""
    printed = time.monotonic()

    def on_event(event: Event) -> None:
        nonlocal printed
        lines = plain_lines(event, table, started)
        if not lines and time.monotonic() - printed >= PLAIN_SECONDS:
            running = list(table.progress.items())[:MAX_TRIAL_LINES]
            steps = (f"{name} {progress_text(progress)}" for name, progress in running)
            lines = ["; ".join([summary(table, started), *steps])]
        if lines:
            show(lines)
            printed = time.monotonic()

    return on_event


def plain_lines(event: Event, table: TrialTable, started: float) -> list[str]:
    """Returns the lines of an event for a log."""
    lines, name, record = lasting_lines(event), event.trial_id, event.record
    if record is None:
        return lines
    if event.kind in ("started", "resumed"):
        lines.append(f"{name} starts: {params_text(record)}")
    elif event.kind == "report":
        texts = score_texts(record, table.plan.tasks) if event.facts["scores"] else ["not scored"]
        lines.append(f"{name} epoch {record.epochs}: {', '.join(texts)}")
    elif event.kind == "ended" and event.facts["was_started"]:
        lines.append(f"{name} {record.status} after {duration(record.wall_seconds)}")
        lines += notes_on_end(event, table)
        lines.append(summary(table, started))
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


def notes_on_end(event: Event, table: TrialTable) -> list[str]:
    """Returns what is worth a line of a trial that has ended: that a patience ran out, and collapses."""
    record, facts = event.record, event.facts
    if event.kind != "ended" or record is None or facts["how"] not in COMPLETED:
        return []
    steps = f"{record.steps:,} of {facts['planned_steps']:,} steps"
    early = [f"{event.trial_id}: a stage ended early, as its dev score no longer rose: {steps}"]
    is_early: bool = record.steps < facts["planned_steps"]
    return [*early * is_early, *collapse_lines(event, table)]


def collapse_lines(event: Event, table: TrialTable) -> list[str]:
    """Returns of which tasks a trial that has ended gives nearly all dev rows one prediction, in a line, and whether
    others of its configuration do not: of those that were trained since the sweep was started or resumed."""
    row = table.rows[str(event.trial_id)]
    titles = [table.plan.tasks[task].title for task, is_one in row.constant.items() if is_one]
    alike = [one for one in list(table.rows.values()) if one.record.number == row.record.number]
    collapsed = collapsed_tasks({one.trial_id: one.constant for one in alike if one.record.status in COMPLETED})
    why = "; it collapsed: other trainings of its configuration learned" if row.trial_id in collapsed else ""
    return [f"{row.trial_id} gives nearly all dev rows of {in_words(titles)} one prediction{why}"] if titles else []


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


def live_lines(table: TrialTable, started: float, width: int = PLAIN_WIDTH) -> list[str]:
    """Returns the summary, and the running trials in a table."""
    running = [row for row in list(table.rows.values()) if row.progress is not None]
    if not running:
        return [f"{'' if table.open_lanes else 'opening lanes; '}{summary(table, started)}"]
    rows = [running_cells(row, table) for row in running[:MAX_TRIAL_LINES]]
    printed = PrintedTable(titles=("trial", "searched", "place", "newest dev scores"), rows=rows, has_rule=False)
    hidden = len(running) - MAX_TRIAL_LINES
    return [summary(table, started), *table_lines(width, printed), *([f"and {hidden} more"] if hidden > 0 else [])]


def running_cells(row: TrialRow, table: TrialTable) -> tuple[str, ...]:
    """Returns a running trial: its values, its epoch and step, its newest scores."""
    scores = "  ".join(score_texts(row.record, table.plan.tasks))
    return row.trial_id, params_text(row.record), progress_text(row.progress or {}), scores


def summary(table: TrialTable, started: float) -> str:
    """`3 complete, 1 pruned, 2 running, 1 queued; best overall 0.673 (0002-r0); 1:05 elapsed, about 0:40 left`."""
    counts = table.counts
    parts = [", ".join(f"{counts[status]} {status}" for status in STATUSES_SHOWN if counts.get(status))]
    if best := best_text(list(table.records.values()), table.plan.space.metric, table.plan.tasks):
        parts.append(f"best {best}")
    if table.race is not None and (decided := progress_words(table.race)):
        parts.append(decided)
    elapsed = f"{duration(time.time() - started)} elapsed"
    left = seconds_left(
        table.records, table.progress, time.time(), num_left=counts.get("queued", 0), num_lanes=len(table.open_lanes)
    )
    parts.append(elapsed if left is None else f"{elapsed}, about {duration(left)} left")
    return "; ".join(part for part in parts if part)
