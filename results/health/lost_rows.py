"""Checks of what the data lost before training: rows without their end, and rows left out for a text in dev."""

import shlex
from collections.abc import Iterator

from mtlib.data.cut_rows import most_cut
from mtlib.data.repeats import DroppedRows
from results.health.finding import Finding
from results.records.trials import DROPPED_ROWS_KEY, sweep_cut_rows
from results.sweep import Sweep

MAX_CUT = 0.05
"""Share of a task's train rows that may lose their end without a finding. A score over 1,000 dev rows has a 95 %
interval of about 2.5 % to either side: reading the ends of fewer rows, of which half change at most, does not leave it.
"""
MAX_DROPPED = 0.1
"""Share of a task's train rows that may be left out without a finding: without them the share of a class is off by .1
at most, and where scores grow with the logarithm of the rows, a twentieth of what ten times the rows gain is lost."""


def lost_ends(sweep: Sweep) -> Iterator[Finding]:
    """Yields each task whose train rows are often cut, as by the kind of trial that cuts most of them."""
    for rows in most_cut(sweep_cut_rows(sweep.info)):
        if rows.share > MAX_CUT:
            yield Finding(
                level="warning",
                what=rows.sentence(sweep.tasks[rows.task].title),
                advice="raise encoder.max_length as far as the encoder reads, or keep the part of texts that decides",
            )


def dropped_rows(sweep: Sweep) -> Iterator[Finding]:
    """Yields each task of which many train rows were left out for a text in dev or held-out rows."""
    data = sweep.info.get("data") or {}
    for fields in (data.get(DROPPED_ROWS_KEY) or {}).values():
        rows = DroppedRows(**fields)
        if rows.share > MAX_DROPPED:
            yield Finding(
                level="warning",
                what=f"Left out: {rows.sentence}",
                advice="draw dev of all tasks at once (docs/tasks.md, tasks that share texts), or a smaller share",
                command=f"python -m mtlib.data {shlex.quote(str(data.get('folder')))}",
            )
