"""Writes a bundle: a folder that predicts with the ensembles of a selection, without their sweep."""

import json
import platform
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from rich.filesize import decimal

from mtlib.checkpoints.model_card import is_hub_name
from mtlib.checkpoints.published import PLACE, published, without_places
from mtlib.config.schema import to_dict
from mtlib.runtime.storage import Location, open_folder
from results.inference.bundle.card import bundle_card
from results.inference.bundle.manifest import (
    BUNDLE_FILE,
    CARD_FILE,
    MODELS_FOLDER,
    NEEDS_FILE,
    PACKAGE,
    Bundle,
)
from results.inference.card_facts import trial_card_facts
from results.inference.models import ModelSource, find_encoders, find_trials, load_models
from results.inference.predictor import ensemble_of
from results.records.files import check_output, folder_name, write_json
from results.records.selection import SELECTION_FILE, BundledMember, Member, Selection, read_selection
from results.records.tables import read_trials
from results.records.trials import OVERALL, read_sweep

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
) -> None:
    """Writes a folder, whole or not at all. One model at a time is in memory.

    Args:
        selection: the tasks to predict and their ensembles.
        home: where its `selection.json` is, which goes into the bundle with public names of paths.
        source: where its models are, on the CPU.
        folder: where to write; missing parents are made.
        on_line: is given a line about each model, and one about the whole.
        overwrite: whether an earlier bundle in this folder is replaced.

    Raises:
        ValueError: in one line: the folder must not be replaced (see `check_output`) or cannot be written, a model
            cannot be loaded.
    """
    for chosen in selection.tasks.values():
        ensemble_of(chosen.members)  # raises ValueError if the weights are invalid
    trials = [find_trials(chosen.members, task, source) for task, chosen in selection.tasks.items()]
    configs = [config for found in trials for _, config in found]
    names = find_encoders(configs, source)
    check_output("--bundle", folder, (home, *source.places.values(), source.encoder, *names), overwrite=overwrite)

    from mtlib.checkpoints.export import written_aside
    from mtlib.runtime.environment import versions_of

    with written_aside(folder, "a bundle's folder", BUNDLE_FILE) as partial:
        folders, models = dict[ModelKey, str](), dict[str, str]()
        for task, chosen in selection.tasks.items():
            for member in chosen.members:
                if model_key(member) not in folders:
                    name = folders[model_key(member)] = f"{MODELS_FOLDER}/{len(folders) + 1}"
                    models[name] = write_model(task, member, source, partial / name)
                    on_line(f"{name}: {models[name]}, {decimal(folder_bytes(partial / name))}")
        bundle = Bundle(
            created=datetime.now(UTC).isoformat(timespec="milliseconds"),
            python=platform.python_version(),
            packages={name: version.partition("+")[0] for name, version in versions_of(NEEDED).items()},
            models=models,
            tasks={
                task: tuple(BundledMember(model=folders[model_key(own)], weight=own.weight) for own in chosen.members)
                for task, chosen in selection.tasks.items()
            },
            definitions={task: selection.definitions[task] for task in selection.tasks},
        )
        needs = "".join(f"{name}=={version}\n" for name, version in bundle.packages.items())
        (partial / NEEDS_FILE).write_text(NEEDS + needs, encoding="utf-8")
        has_methods = any(config.methods.files for config in configs)
        card = bundle_card(selection, bundle, list(filter(is_hub_name, names)), has_methods)
        (partial / CARD_FILE).write_text(card, encoding="utf-8")
        whole = json.dumps(to_dict(read_selection(home)), ensure_ascii=False)
        text = without_places(whole, [*selection.sweeps, *PLACE.findall(selection.command)])
        write_json(open_folder(partial), SELECTION_FILE, published(json.loads(text)))
        write_json(open_folder(partial), BUNDLE_FILE, published(to_dict(bundle)))
    size, tasks = decimal(folder_bytes(folder)), ", ".join(selection.tasks)
    on_line(f"{folder}: {size}, predicts {tasks} without the sweep; expected scores are in {CARD_FILE}")


def model_key(member: Member) -> ModelKey:
    """Returns what tells a member's model from others."""
    return member.sweep, member.trial, member.epoch


def write_model(task: str, member: Member, source: ModelSource, folder: Path) -> str:
    """Writes a member's model into a new folder; returns its trial and epoch, as shown to users."""
    from mtlib.checkpoints.export import export_model, publish_config
    from mtlib.stages.active_weights import active_weights

    (loaded,) = load_models([member], task, source)
    place = source.places[member.sweep]
    records = read_trials(place)
    record = next(record for record in records if record.trial_id == member.trial)
    scores = (name for name in (OVERALL, task, *record.best_epoch) if record.best_epoch.get(name) == member.epoch)
    info, root, best = read_sweep(place), open_folder(place), next(scores, task)
    facts = trial_card_facts(info, root, record, best, member.epoch, records)
    weights = active_weights(loaded.config, loaded.config.active_tasks, loaded.model.state_dict())
    export_model(loaded.config, loaded.pretrained, weights, folder, facts)
    publish_config(folder, folder)
    return f"trial {member.trial} of {folder_name(place)}, epoch {member.epoch}"


def folder_bytes(folder: Path) -> int:
    """Bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
