"""Checks of the data that a sweep began with: dev rows that train has too, and texts with contradicting labels."""

import shlex
from collections.abc import Iterator

from mtlib.runtime.command_line import counted
from results.health.finding import Finding
from results.sweep import Sweep

MAX_OVERLAP = 0.01
"""Share of dev rows with the texts of a train row above which it is a warning."""


def repeated_texts(sweep: Sweep) -> Iterator[Finding]:
    """Yields what `sweep.json` has of repeated texts, task by task; nothing of sweeps that do not have it."""
    data = sweep.info.get("data") or {}
    command = f"python -m mtlib.data {shlex.quote(str(data.get('folder')))}"
    for name, counts in (data.get("repeats") or {}).items():
        title, overlap, contradictions = sweep.tasks[name].title, counts["dev_rows_in_train"], counts["contradictions"]
        if overlap:
            share = overlap / data["rows"][f"{name}-dev"]
            have = "has" if overlap == 1 else "have"
            yield Finding(
                level="warning" if share > MAX_OVERLAP else "note",
                what=f"{counted(overlap, 'dev row')} of {title} ({share:.1%}) {have} the texts of a train row, which "
                "makes its dev scores too good",
                advice="remove these rows from train",
                command=command,
            )
        if contradictions:
            yield Finding(
                level="note",
                what=f"{counted(contradictions, 'text')} of {title} in several train rows with labels that differ",
                advice="correct the labels, or leave these rows out",
                command=f"{command} --contradictions",
            )
