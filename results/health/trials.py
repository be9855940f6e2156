"""Checks of the trials' records: what failed, and what has not ended."""

import re
from collections import defaultdict
from collections.abc import Iterator

from mtlib.runtime.command_line import counted
from mtlib.runtime.errors import first_line
from results.answers.next_commands import report_command, resume_command
from results.health.finding import Finding
from results.health.scale import train_points
from results.records.expected_trials import describe_ended, status_counts
from results.records.trials import STOPPED_BY, UNFINISHED, TrialRecord
from results.stats.texts import named, searched_text
from results.stats.trial_scores import STEP_COUNT
from results.sweep import Sweep

NOT_FINITE = re.compile(
    r"(?<![\w/\\.-])(?:nan|[-+]?inf|infinity)(?![\w/\\-])|\b(?:not|non)[- ]?finite\b|\bis infinite\b|\bdiverged\b",
    re.IGNORECASE,
)
"""Words in the reasons of trials whose loss was no longer a number; not parts of other words, nor of paths."""


def failed_trials(sweep: Sweep) -> Iterator[Finding]:
    """Failed trials by their reason."""
    reasons: dict[str, list[TrialRecord]] = defaultdict(list)
    for record in sweep.records:
        if record.status == "failed":
            reasons[first_line(ValueError(record.error or "no reason recorded"))].append(record)
    for reason, own in reasons.items():
        texts = {record.trial_id: searched_text(record.params) for record in own}
        trials = named([trial + (f" ({text})" if text else "") for trial, text in texts.items()])
        what = f"{counted(len(own), 'trial')} failed: {reason.rstrip('.')}. Failed: {trials}"
        if NOT_FINITE.search(reason):
            advice = (
                "lower the learning rate or the weight of the penalty of these configurations, or leave them out: the "
                "loss was no longer a number"
            )
            yield Finding(level="problem", what=what, advice=advice)
        else:
            later = "once the sweep has stopped, " if sweep.is_running else ""
            command = f"{resume_command(sweep.path)} --retry-failed"
            advice = f"{later}fix the cause and run them again"
            yield Finding(level="problem", what=what, advice=advice, command=command)


def early_ends(sweep: Sweep) -> Iterator[Finding]:
    """Yields the finished trials of which a stage lost its patience, with the steps that they took."""
    per_epoch = train_points(sweep, STEP_COUNT).groupby(["trial", "epoch"])["value"].sum()
    skipped = set(per_epoch[per_epoch == 0].index.get_level_values("trial"))
    ended = [f"{own.trial_id} ({own.steps:,} steps)" for own in sweep.finished if own.trial_id in skipped]
    if ended:
        what = f"A stage ended early, as its dev score had not risen, in {counted(len(ended), 'trial')}: {named(ended)}"
        advice = "raise its patience if longer trainings of the configuration score higher"
        yield Finding(level="note", what=what, advice=advice)


def unfinished_trials(sweep: Sweep) -> Iterator[Finding]:
    """Trials that have not ended."""
    counts = status_counts(sweep.info, sweep.records)
    text = ", ".join(f"{count} {status}" for status, count in counts.items() if status in UNFINISHED)
    if text:
        ended = describe_ended(sweep.info, sweep.records)
        limit = f", as {sweep.info[STOPPED_BY]} stopped the sweep" if STOPPED_BY in sweep.info else ""
        what = f"Not all trials have ended ({text}; {ended}){limit}: what is shown here will change"
        running = ("write the page again when more have", report_command(sweep.path))
        advice, command = running if sweep.is_running else ("run the others", resume_command(sweep.path))
        yield Finding(level="warning", what=what, advice=advice, command=command)
