"""The driver's ledger of a sweep's trials: it is updated by events and holds the records and the progress to show."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from results.records.expected_trials import status_counts
from results.records.race import RaceRecord
from results.records.trials import UNFINISHED, TrialRecord
from search_spaces.space import grid_trials
from sweeps.lanes.channel import Event
from sweeps.options import SweepPlan
from sweeps.search.trial import Trial, make_trial, num_left_to_run, queued_record


@dataclass(kw_only=True)
class Ledger:
    """The records of a sweep while it runs."""

    plan: SweepPlan
    records: dict[str, TrialRecord] = field(default_factory=dict)
    """By trial id, in order of suggestion."""
    progress: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """The progress of running trials, as in `driver.json` (`results.records.driver_file.Progress`)."""
    lanes: dict[str, str] = field(default_factory=dict)
    """Host of each open lane, by its name."""
    race: RaceRecord | None = None
    """What a race has decided so far."""

    @property
    def counts(self) -> dict[str, int]:
        """Trials by status; those not suggested yet count as queued."""
        return dict(status_counts(self.plan.facts, list(self.records.values()), self.race))

    @property
    def num_left(self) -> int:
        """The number of trials that are left to run, or run; of a race, in all rounds that it may still have."""
        counts = self.counts
        num_unfinished = sum(counts.get(status, 0) for status in UNFINISHED)
        return max(num_unfinished, num_left_to_run(self.plan, list(self.records.values()), self.race))


def open_ledger(plan: SweepPlan, known: Iterable[TrialRecord] = ()) -> Ledger:
    """Returns a ledger of the trials of a resumed sweep and of the points of a grid."""
    ledger = Ledger(plan=plan, records={record.trial_id: record for record in known}, race=plan.race)
    points = grid_trials(plan.space) if plan.options.search == "grid" else []
    for number, params in enumerate(points):
        add_trial(ledger, make_trial(plan.space, number, 0, params))
    return ledger


def add_trial(ledger: Ledger, trial: Trial) -> None:
    """Adds a queued trial, unless it is there."""
    if trial.trial_id not in ledger.records:
        ledger.records[trial.trial_id] = queued_record(trial)


def apply_event(ledger: Ledger, event: Event) -> None:
    """Updates the ledger by one event."""
    changes = {"started": on_start, "resumed": on_start, "starting_point": on_starting_point, "report": on_report}
    changes |= {"requeued": on_requeue, "ended": on_end}
    trial_id = str(event.trial_id)
    if event.kind == "lane_open":
        ledger.lanes[str(event.lane)] = event.facts["host"]
    elif event.kind in ("lane_down", "lane_closed", "lane_failed"):
        ledger.lanes.pop(str(event.lane), None)
    elif event.kind == "progress":
        ledger.progress[trial_id] = {**ledger.progress.get(trial_id, {}), **event.facts}
    elif event.kind in changes:  # others say nothing of a trial's record
        ledger.records[trial_id] = changes[event.kind](ledger.records[trial_id], event, ledger)


def on_start(record: TrialRecord, event: Event, ledger: Ledger) -> TrialRecord:
    """A lane has started the trial, or resumed it."""
    before = ledger.progress.get(record.trial_id, {}) if event.kind == "resumed" else {}
    ledger.progress[record.trial_id] = {"since": before.get("since", event.time - record.wall_seconds)}
    started = record.started or datetime.fromtimestamp(event.time, UTC).isoformat(timespec="milliseconds")
    return replace(record, status="running", host=event.facts["host"], started=started, error=None)


def on_starting_point(record: TrialRecord, event: Event, _ledger: Ledger) -> TrialRecord:
    """The trial has found its starting point."""
    reused = {name: event.facts[name] for name in ("shared_steps", "taken_from")}
    # The trial is about to repeat its earlier reports.
    return replace(record, **reused, best={}, last={}, best_epoch={}, epochs=0, steps=0)


def on_report(record: TrialRecord, event: Event, ledger: Ledger) -> TrialRecord:
    """An epoch is done; it may be scored."""
    epoch, scores = event.facts["epoch"], event.facts["scores"]
    better = {name: score for name, score in scores.items() if score > record.best.get(name, float("-inf"))}
    return replace(
        record,
        best={**record.best, **better},
        last={**record.last, **scores},
        best_epoch={**record.best_epoch, **dict.fromkeys(better, epoch)},
        epochs=epoch,
        steps=event.facts["step"],
        device_seconds=event.facts["seconds"] * ledger.plan.options.workers,
        wall_seconds=event.facts.get("wall_seconds", record.wall_seconds),
        peak_memory_bytes=event.facts.get("peak_memory_bytes", record.peak_memory_bytes),
        checkpoint=f"trials/{record.trial_id}/checkpoint",
    )


def on_requeue(record: TrialRecord, event: Event, ledger: Ledger) -> TrialRecord:
    """The trial's lane is down and the trial is queued again; the time until it has another lane does not count."""
    since = ledger.progress.pop(record.trial_id, {}).get("since")
    return replace(record, status="queued", wall_seconds=record.wall_seconds if since is None else event.time - since)


def on_end(record: TrialRecord, event: Event, ledger: Ledger) -> TrialRecord:
    """The trial has ended; one that never had a lane stays queued unless it failed."""
    how, facts = event.facts["how"], event.facts
    ledger.progress.pop(record.trial_id, None)
    if not facts["was_started"] and how == "interrupted":
        return record
    return replace(
        record,
        status=how,
        error=facts["error"],
        wall_seconds=facts.get("wall_seconds", record.wall_seconds),
        peak_memory_bytes=max(record.peak_memory_bytes, facts.get("peak_memory_bytes", 0)),
    )


def close_ledger(ledger: Ledger) -> None:
    """Marks running trials as interrupted: no more events will come."""
    for trial_id, record in ledger.records.items():
        if record.status == "running":
            ledger.records[trial_id] = replace(record, status="interrupted")
    ledger.progress.clear()
