"""Writes a bundle: a folder that predicts with the ensembles of a selection, without their sweep."""

import platform
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from mtlib.checkpoints.model_card import is_hub_name
from mtlib.runtime.checksum import file_crc32
from mtlib.runtime.storage import Location, open_folder, read_bytes
from results.inference.bundle.card import bundle_card
from results.inference.bundle.manifest import (
    BUNDLE_FILE,
    CARD_FILE,
    MODELS_FOLDER,
    NEEDS_FILE,
    PACKAGE,
    Bundle,
    BundledModel,
    write_bundle_file,
)
from results.inference.card_facts import trial_card_facts
from results.inference.models import ModelSource, find_encoders, find_trials, load_models
from results.inference.predictor import ensemble_of
from results.records.files import check_output, folder_name
from results.records.selection import SELECTION_FILE, BundledMember, Member, Selection, TaskSelection
from results.records.tables import read_trials
from results.records.trials import OVERALL, read_sweep

if TYPE_CHECKING:
    from mtlib.checkpoints.model_card import CardFacts

NEEDED = (PACKAGE, "numpy", "pyarrow", "safetensors", "scipy", "tokenizers", "torch", "transformers")
"""Packages whose versions may change a prediction."""
NEEDS = "# The versions that this bundle was made with; others may do, and round otherwise.\n"


ModelKey = tuple[str, str, int]
"""Sweep, trial and epoch of a model."""


def write_bundle(
    selection: Selection,
    home: Location,
    source: ModelSource,
    folder: Path,
    on_line: Callable[[str], None],
    *,
    overwrite: bool = False,
) -> int:
    """Writes a folder, whole or not at all; returns its size in bytes. One model at a time is in memory.

    Args:
        selection: the tasks to predict and their ensembles.
        home: where its `selection.json` is, which goes into the bundle as it is.
        source: where its models are, on the CPU.
        folder: where to write; missing parents are made.
        on_line: is given a line about each model.
        overwrite: whether an earlier bundle in this folder is replaced.

    Raises:
        ValueError: in one line: the folder must not be replaced (see `check_output`) or cannot be written, a model
            cannot be loaded.
    """
    for chosen in selection.tasks.values():
        ensemble_of(chosen.members)  # raises ValueError if the weights are invalid
    trials = [find_trials(chosen.members, task, source) for task, chosen in selection.tasks.items()]
    names = find_encoders((config for found in trials for _, config in found), source)
    check_output("--bundle", folder, (home, *source.places.values(), source.encoder, *names), overwrite=overwrite)

    from mtlib.checkpoints.export import written_aside
    from mtlib.runtime.environment import versions_of

    with written_aside(folder, "a bundle's folder", BUNDLE_FILE) as partial:
        places, models = write_models(selection, source, partial, on_line)
        bundle = Bundle(
            created=datetime.now(UTC).isoformat(timespec="milliseconds"),
            python=platform.python_version(),
            packages={name: version.partition("+")[0] for name, version in versions_of(NEEDED).items()},
            models=models,
            tasks={task: bundled_members(chosen, places) for task, chosen in selection.tasks.items()},
            definitions={task: selection.definitions[task] for task in selection.tasks},
        )
        (partial / SELECTION_FILE).write_bytes(read_bytes(open_folder(home), SELECTION_FILE))
        (partial / CARD_FILE).write_text(
            bundle_card(selection, bundle, list(filter(is_hub_name, names))), encoding="utf-8"
        )
        needs = "".join(f"{name}=={version}\n" for name, version in bundle.packages.items())
        (partial / NEEDS_FILE).write_text(NEEDS + needs, encoding="utf-8")
        write_bundle_file(partial, bundle)
    return folder_bytes(folder)


def write_models(
    selection: Selection, source: ModelSource, folder: Path, on_line: Callable[[str], None]
) -> tuple[dict[ModelKey, str], dict[str, BundledModel]]:
    """Writes each model once, one after another; returns their folders in the bundle, and what is in these."""
    wanted: dict[ModelKey, tuple[str, Member]] = {}  # with the first task that needs it
    for task, chosen in selection.tasks.items():
        for member in chosen.members:
            wanted.setdefault((member.sweep, member.trial, member.epoch), (task, member))
    places, models = dict[ModelKey, str](), dict[str, BundledModel]()
    for number, (key, (task, member)) in enumerate(wanted.items(), 1):
        place = places[key] = f"{MODELS_FOLDER}/{number}"
        models[place] = write_model(task, member, source, folder / place)
        size = format_bytes(folder_bytes(folder / place))
        on_line(f"model {number} of {len(wanted)}: {place}, {models[place].origin}, {size}")
    return places, models


def bundled_members(chosen: TaskSelection, places: Mapping[ModelKey, str]) -> tuple[BundledMember, ...]:
    """A task's ensemble of the models in these folders."""
    return tuple(
        BundledMember(
            model=places[member.sweep, member.trial, member.epoch],
            weight=member.weight,
            temperature=member.temperature,
        )
        for member in chosen.members
    )


def write_model(task: str, member: Member, source: ModelSource, folder: Path) -> BundledModel:
    """Writes a member's model into a new folder."""
    from mtlib.checkpoints.export import export_model

    (loaded,) = load_models([member], task, source)
    facts = member_card_facts(member, task, source)
    export_model(loaded.config, loaded.pretrained, loaded.model.state_dict(), folder, facts)
    files = {path.name: file_crc32(path) for path in sorted(folder.iterdir()) if path.name != CARD_FILE}
    origin = f"trial {member.trial} of {folder_name(member.sweep)}, epoch {member.epoch}"
    return BundledModel(origin=origin, files=files)


def member_card_facts(member: Member, task: str, source: ModelSource) -> "CardFacts":
    """The facts of a member's model card."""
    place = source.places[member.sweep]
    records = read_trials(place)
    record = next(record for record in records if record.trial_id == member.trial)
    scores = (name for name in (OVERALL, task, *record.best_epoch) if record.best_epoch.get(name) == member.epoch)
    info, root, best = read_sweep(place), open_folder(place), next(scores, task)
    return trial_card_facts(info, root, record, best, member.epoch, len(records))


def folder_bytes(folder: Path) -> int:
    """Bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def format_bytes(num_bytes: int) -> str:
    """`438.0 MB`."""
    return f"{num_bytes / 1e9:,.2f} GB" if num_bytes >= 1e9 else f"{num_bytes / 1e6:,.1f} MB"
