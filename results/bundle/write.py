"""Writes a bundle: a folder that predicts with the ensembles of a selection, without their sweep."""

import platform
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from mtlib.checkpoints.model_card import is_hub_name
from mtlib.errors import require
from mtlib.runtime.checksum import file_crc32
from mtlib.tasks import TASKS
from results.bundle.card import bundle_card, soup_card
from results.bundle.manifest import (
    CARD_FILE,
    LICENCE_FILE,
    MODELS_FOLDER,
    NEEDS_FILE,
    SCRIPT_FILE,
    Bundle,
    BundledModel,
    write_bundle_file,
)
from results.bundle.wheel import build_wheel
from results.inference.card_facts import trial_card_facts
from results.inference.models import LoadedModel, ModelSource, find_encoders, find_trials, load_models
from results.inference.predictor import ensemble_of, load_predictor
from results.records.files import PROJECT_FOLDER, Location, folder_name, open_folder
from results.records.selection import SELECTION_FILE, BundledMember, Member, Selection, TaskSelection
from results.records.trials import OVERALL, read_sweep, read_trials
from results.records.weights import read_bytes

if TYPE_CHECKING:
    from mtlib.checkpoints.model_card import CardFacts

NEEDED = ("huggingface_hub", "numpy", "pyarrow", "rich", "safetensors", "scipy", "tokenizers", "torch", "transformers")
"""Packages that predicting imports: a part of those that the project needs."""
NEEDS = "# What predict.py needs, in the versions that this bundle was made with; others may do, and round otherwise.\n"

SCRIPT = '''\
"""Predicts text with the models beside this file; `--help` shows how."""

import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
if sys.version_info < (3, 11):
    sys.exit("error: predicting takes Python 3.11 or later, got " + sys.version.split()[0])
sys.path[0] = str(FOLDER / "{wheel}")  # Python imports from it as from a folder

try:
    from results.predict import main

    code = main(sys.argv[1:], FOLDER)
except ModuleNotFoundError as error:
    sys.exit(f"error: {{error}} (pip install -r {{FOLDER / '{needs}'}})")
sys.exit(code)
'''


@dataclass(frozen=True, kw_only=True, eq=False)
class BundleInProgress:
    """The models of a bundle that have been written so far."""

    folder: Path
    """The bundle's, under the name that it has until it is whole."""
    num_models: int
    """How many there will be."""
    on_line: Callable[[str], None]
    models: dict[str, BundledModel] = field(default_factory=dict)
    """By folder in the bundle."""
    places: dict[tuple[str, str, int], str] = field(default_factory=dict)
    """Folder in the bundle by `model_key`."""


def write_bundle(
    selection: Selection, home: Location, source: ModelSource, folder: Path, on_line: Callable[[str], None]
) -> int:
    """Writes a new folder, whole or not at all; returns its size in bytes. One model at a time is in memory.

    Args:
        selection: the tasks to predict and their ensembles.
        home: where its `selection.json` is, which goes into the bundle as it is.
        source: where its models are, on the CPU.
        folder: where to write; missing parents are made.
        on_line: is given a line about each model.

    Raises:
        ValueError: in one line: the folder is there already or cannot be written, a model cannot be loaded, or the
            project's wheel cannot be built.
    """
    require(not folder.exists(), "--bundle must name a new folder", folder)
    trials = [find_trials(chosen.members, task, source) for task, chosen in selection.tasks.items()]
    names = find_encoders((config for found in trials for _, config in found), source)

    from mtlib.checkpoints.export import written_aside
    from mtlib.runtime.environment import versions_of

    with written_aside(folder, "a bundle's folder") as partial:
        wheel = build_wheel(partial)
        written = BundleInProgress(folder=partial, num_models=count_models(selection), on_line=on_line)
        tasks = {task: write_task(selection, task, source, written) for task in selection.tasks}
        bundle = Bundle(
            created=datetime.now(UTC).isoformat(timespec="milliseconds"),
            wheel=wheel,
            python=platform.python_version(),
            packages={name: version.partition("+")[0] for name, version in versions_of(NEEDED).items()},
            models=written.models,
            tasks=tasks,
        )
        (partial / SELECTION_FILE).write_bytes(read_bytes(open_folder(home), Path(SELECTION_FILE)))
        (partial / CARD_FILE).write_text(bundle_card(selection, bundle, list(filter(is_hub_name, names))))
        write_code(partial, bundle)
        write_bundle_file(partial, bundle)
    return folder_bytes(folder)


def count_models(selection: Selection) -> int:
    """How many models a bundle of this selection holds: each trial's epoch once, and each soup."""
    chosen = selection.tasks.values()
    single = {model_key(member) for one in chosen if not one.is_soup for member in one.members}
    return len(single) + sum(one.is_soup for one in chosen)


def model_key(member: Member) -> tuple[str, str, int]:
    """The sweep, trial and epoch that identify a model."""
    return member.sweep, member.trial, member.epoch


def write_task(
    selection: Selection, task: str, source: ModelSource, written: BundleInProgress
) -> tuple[BundledMember, ...]:
    """Writes those models of a task's ensemble that are not written yet."""
    chosen = selection.tasks[task]
    if chosen.is_soup:
        (soup,) = load_predictor(selection, task, source).models
        return (BundledMember(model=write_soup(soup, chosen, task, source, written), weight=1.0),)
    ensemble_of(chosen.members)  # raises ValueError if the weights are invalid
    return tuple(
        BundledMember(
            model=write_member(member, task, source, written),
            weight=member.weight,
            knots=member.knots,
            temperature=member.temperature,
        )
        for member in chosen.members
    )


def write_member(member: Member, task: str, source: ModelSource, written: BundleInProgress) -> str:
    """Writes a member's model, unless another task has it too; returns its folder in the bundle."""
    key = model_key(member)
    if key not in written.places:
        (loaded,) = load_models((member,), task, source)
        facts = member_card_facts(member, task, source)
        written.places[key] = write_model(loaded, member_origin(member), facts, written)
    return written.places[key]


def write_soup(
    soup: LoadedModel, chosen: TaskSelection, task: str, source: ModelSource, written: BundleInProgress
) -> str:
    """Writes a soup, with a card that names its models; returns its folder in the bundle."""
    origins = [member_origin(member) for member in chosen.members]
    facts = member_card_facts(chosen.members[0], task, source)
    card = soup_card(TASKS[task].title, origins)
    return write_model(soup, f"mean of {len(origins)} models' weights", facts, written, card)


def write_model(
    loaded: LoadedModel, origin: str, facts: "CardFacts", written: BundleInProgress, card: str | None = None
) -> str:
    """Writes one model into a folder of its own, whose name in the bundle is returned."""
    from mtlib.checkpoints.export import export_model

    number = len(written.models) + 1
    place = f"{MODELS_FOLDER}/{number}"
    folder = written.folder / place
    export_model(loaded.config, loaded.pretrained, loaded.model.state_dict(), folder, facts)
    if card is not None:
        (folder / CARD_FILE).write_text(card)
    files = {path.name: file_crc32(path) for path in sorted(folder.iterdir()) if path.name != CARD_FILE}
    written.models[place] = BundledModel(origin=origin, files=files)
    written.on_line(f"model {number} of {written.num_models}: {place}, {origin}, {format_bytes(folder_bytes(folder))}")
    return place


def member_origin(member: Member) -> str:
    """A member's trial and epoch, without the path of its sweep."""
    return f"trial {member.trial} of {folder_name(member.sweep)}, epoch {member.epoch}"


def member_card_facts(member: Member, task: str, source: ModelSource) -> "CardFacts":
    """The facts of a member's model card."""
    place = source.places[member.sweep]
    records = read_trials(place)
    record = next(record for record in records if record.trial_id == member.trial)
    scores = (name for name in (OVERALL, task, *record.best_epoch) if record.best_epoch.get(name) == member.epoch)
    info, root, best = read_sweep(place), open_folder(place), next(scores, task)
    return trial_card_facts(info, root, record, best, member.epoch, len(records))


def write_code(folder: Path, bundle: Bundle) -> None:
    """Writes what predicts with a bundle, what that needs, and the licence of it."""
    needs = "".join(f"{name}=={version}\n" for name, version in bundle.packages.items())
    (folder / SCRIPT_FILE).write_text(SCRIPT.format(wheel=bundle.wheel, needs=NEEDS_FILE))
    (folder / NEEDS_FILE).write_text(NEEDS + needs)
    (folder / LICENCE_FILE).write_bytes((PROJECT_FOLDER / LICENCE_FILE).read_bytes())


def folder_bytes(folder: Path) -> int:
    """Bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def format_bytes(num_bytes: int) -> str:
    """`438.0 MB`."""
    return f"{num_bytes / 1e9:,.2f} GB" if num_bytes >= 1e9 else f"{num_bytes / 1e6:,.1f} MB"
