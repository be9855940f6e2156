"""A trained sweep's selection with temperatures, and bundles of it."""

from dataclasses import replace
from pathlib import Path

from mtlib.tasks import TASKS
from results.inference.bundle.write import write_bundle
from results.inference.models import ModelSource
from results.records.selection import Selection, write_selection
from tests.results.inference.trained_sweep import FIRST, SECOND, member_of, selection_of

TEXTS = ["a film", "the good dog sleeps", "red", "very dull cat runs", "old old car", "bright road sings not"]


def select_mixed(folder: Path) -> Selection:
    """Writes a selection of both trials for every task: with temperatures or plainly."""
    members = {}
    for task in TASKS.values():
        own = [member_of(folder, FIRST, task.name, 0.75), member_of(folder, SECOND, task.name, 0.25)]
        if task.kind == "classes":
            own = [replace(one, temperature=value) for one, value in zip(own, (1.5, 0.7), strict=True)]
        members[task.name] = tuple(own)
    selection = selection_of(folder, members)
    write_selection(folder, selection)
    return selection


def source_of(folder: Path) -> ModelSource:
    """Source of a sweep's models."""
    return ModelSource(places={str(folder): folder}, device="cpu")


def make_bundle(selection: Selection, folder: Path, place: Path) -> list[str]:
    """Bundles a sweep's selection into a folder; returns the notes."""
    notes: list[str] = []
    write_bundle(selection, folder, source_of(folder), place, notes.append)
    return notes
