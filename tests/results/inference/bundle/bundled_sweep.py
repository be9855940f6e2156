"""Bundles of a trained sweep."""

from pathlib import Path

from results.inference.bundle.write import write_bundle
from results.inference.models import ModelSource
from results.records.selection import Selection

TEXTS = ["a film", "the good dog sleeps", "red", "very dull cat runs", "old old car", "bright road sings not"]


def source_of(folder: Path) -> ModelSource:
    """Source of a sweep's models."""
    return ModelSource(places={str(folder): folder}, device="cpu")


def make_bundle(selection: Selection, folder: Path, place: Path) -> list[str]:
    """Bundles a sweep's selection into a folder; returns the notes."""
    notes: list[str] = []
    write_bundle(selection, folder, source_of(folder), place, notes.append)
    return notes
