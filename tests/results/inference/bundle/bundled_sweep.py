"""Bundles of a trained sweep."""

from pathlib import Path

from results.inference.bundle.write import write_bundle
from results.records.selection import Selection
from tests.results.inference.trained_sweep import source_of

TEXTS = ["a film", "the good dog sleeps", "red", "very dull cat runs", "old old car", "bright road sings not"]


def make_bundle(selection: Selection, folder: Path, place: Path) -> list[str]:
    """Bundles a sweep's selection into a folder; returns the notes."""
    notes: list[str] = []
    write_bundle(selection, folder, source_of(folder), place, notes.append)
    return notes
