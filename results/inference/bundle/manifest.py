"""Reads and writes `bundle.json`, a bundle's ensembles and models, and loads them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from mtlib.runtime.errors import require, require_name
from mtlib.runtime.program_names import typed_command
from mtlib.runtime.storage import Location, is_file, local_path, open_folder
from mtlib.tasks import TASKS, Task
from results.inference.models import LoadedModel, without_emulation
from results.inference.predictor import Predictor, ensemble_of
from results.records.files import read_dataclass
from results.records.selection import BundledMember

BUNDLE_FILE = "bundle.json"
CARD_FILE, NEEDS_FILE = "README.md", "requirements.txt"
PACKAGE = "multitask-sweeps"
"""The package that predicts with a bundle."""
MODELS_FOLDER = "models"


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """The content of `bundle.json`."""

    version: int = 2
    created: str
    """ISO 8601, UTC."""
    python: str
    """Version that it was made with."""
    packages: Mapping[str, str]
    """Versions of what predicting needs, as it was made with."""
    models: Mapping[str, str]
    """The trial and epoch of each, as shown to users, by folder in the bundle."""
    tasks: Mapping[str, tuple[BundledMember, ...]]
    """Each task's ensemble."""
    definitions: Mapping[str, Task] = field(default_factory=lambda: TASKS)
    """The definitions of these tasks."""

    def __post_init__(self) -> None:
        for task, members in self.tasks.items():
            require_name(task, self.definitions, "task")
            require(bool(members), f"the ensemble of {task} must have members", "none")
            for member in members:
                require_name(member.model, self.models, "model")


def find_bundle(home: Location) -> Path | None:
    """Returns the folder of a bundle, None if there is none; ValueError if it is not on a disk of this machine."""
    if not is_file(open_folder(home), BUNDLE_FILE):
        return None
    path = local_path(home)
    if path is None:
        raise ValueError(f"a bundle must be copied to a disk of this machine to predict with it, got {home}")
    return path


def read_bundle(folder: Path) -> Bundle:
    """Reads `bundle.json`; ValueError if it is damaged, of another version, or names a model elsewhere."""
    bundle: Bundle = read_dataclass(open_folder(folder), BUNDLE_FILE, Bundle, make_bundle_again())
    for name in bundle.models:  # also one that a link leads to
        is_inside = (folder / name).resolve().is_relative_to(folder.resolve())
        require(is_inside, f"{folder / BUNDLE_FILE}: a model must be a folder inside the bundle", name)
    return bundle


def make_bundle_again() -> str:
    """Returns what to do about a bundle of another version."""
    return f"make it again with {typed_command('predict')} SWEEP --bundle, or install its {NEEDS_FILE}"


def load_bundled(
    folder: Path, bundle: Bundle, task: str, device: str = "auto", loaded: dict[str, LoadedModel] | None = None
) -> Predictor:
    """Loads the ensemble of one of a bundle's tasks.

    Args:
        device: `auto` (a GPU if there is one), `cpu` or `cuda`.
        loaded: models that have been loaded for other tasks, by folder in the bundle; gets those that are loaded here.

    Raises:
        ValueError: in one line: a model is missing or damaged, or there is no such device.
    """
    members = bundle.tasks[task]
    loaded = {} if loaded is None else loaded
    for name in (own.model for own in members if own.model not in loaded):
        loaded[name] = load_model_folder(folder / name, device)
    models = tuple(loaded[own.model] for own in members)
    return Predictor(task=bundle.definitions[task], models=models, ensemble=ensemble_of(members))


def load_model_folder(folder: Path, device: str) -> LoadedModel:
    """Loads one model of a bundle, or an exported one; of its encoder only the tokenizer is kept."""
    from mtlib.checkpoints.export import load_exported
    from mtlib.runtime.environment import choose_device

    place = choose_device(device)
    exported = load_exported(folder)
    pretrained = replace(exported.pretrained, weights={})  # the model has them already
    config = without_emulation(exported.config, on_gpu=place.type == "cuda")
    return LoadedModel(name=str(folder), model=exported.model.to(place), config=config, pretrained=pretrained)
