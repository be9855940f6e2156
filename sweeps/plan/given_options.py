"""The options of a sweep, a new one or one that is resumed, from those that are given on the command line or in Python.

Options have the names of `SweepOptions` and plain values; those that are not given are not there.
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from mtlib.config.schema import check_value
from mtlib.data.files.suggestions import near_folder
from mtlib.model.hub import read_encoder_name
from mtlib.runtime.errors import require
from mtlib.runtime.program_names import DEFAULT_STORAGE, typed_command
from mtlib.runtime.storage import (
    absolute_location,
    check_answer,
    check_location,
    expanded_path,
    is_uri,
    join_location,
    split_location,
)
from results.records.trials import read_sweep
from search_spaces.claim import Claim, read_claim
from search_spaces.space import SearchSpace, space_names
from search_spaces.space_file import resolve_name
from search_spaces.space_json import as_tuples
from search_spaces.vary import VariedValues, is_range, typed, typed_value, varied_values, with_further
from sweeps.options import BEST_RACED, ENCODER_KEY, MOST_RACED, SAVED_KEYS, SweepOptions, flag_of

GivenOptions = Mapping[str, Any]
"""Options by name, `resume` as the name, folder or URI of a sweep."""

AUTO = "auto"
"""The number of GPUs for each worker that is to be measured."""

CHANGEABLE_OPTIONS = (
    "data",
    "encoder",
    "concurrent",
    "keep_gb",
    "keep_models",
    "checkpoint_steps",
    "node_wait_minutes",
    "silent_minutes",
    "log_to",
    "max_hours",
    "max_steps",
    "extend",
    "replicates",
    "replicate_best",
    "until_decided",
    "retry_failed",
    "take_over",
    "vary",
)
"""Options, besides the storage and the address, that a resume may change; data and encoder only by their place, the
grid of `vary` only by further values."""


def read_options(given: GivenOptions, default_address: str | None) -> SweepOptions:
    """Returns the options of a sweep.

    Args:
        given: those that are not at their defaults.
        default_address: the cluster where none is given; None or `local` is this machine.

    Raises:
        ValueError: a value is missing, of another type or out of range, or a resume changes what it may not.
    """
    for name in ("space", "claim", "data", "encoder", "storage", "name", "resume"):  # '' of an unset variable
        require(given.get(name) != "", f"{flag_of(name)} must not be empty, or be left out", "''")

    # Where: the cluster and the storage, which a resume is found in.
    address = given.get("address") or default_address
    address = None if address == "local" else address
    storage = read_storage(given.get("storage", DEFAULT_STORAGE))
    if "resume" in given:
        return replace(read_resumption(given, storage), address=address)
    for name in ("extend", "retry_failed", "take_over"):
        require(name not in given, f"{flag_of(name)} must come with --resume SWEEP", "none")

    # What is searched, and how.
    varied = dict(given.get("vary", {}))
    if not (given.get("space") or varied or given.get("claim")):
        known = ", ".join(space_names())
        raise ValueError(
            f"--space must name a search space, got none; known: {known}; or name a key and values by --vary"
        )
    if ENCODER_KEY in varied:  # workers, and later commands, run in other folders
        names = varied_values(varied[ENCODER_KEY])
        rule = f"--vary {ENCODER_KEY} must be hub names or folders"
        require(all(isinstance(name, str) for name in names), rule, names)
        names = tuple(read_encoder_name(name, f"--vary {ENCODER_KEY}") for name in names)
        varied[ENCODER_KEY] = typed(names) if isinstance(varied[ENCODER_KEY], str) else names
    has_range = any(map(is_range, varied.values()))

    # Together with all that is taken as it is given.
    gpus = given.get("gpus_per_worker")
    made = {
        **given,
        **read_places(given),
        "vary": varied,
        "search": given.get("search", "tpe" if has_range else "grid"),
        "methods": tuple(str(expanded_path(path).resolve()) for path in given.get("methods", ())),
        "storage": storage,
        "address": address,
        "gpus_per_worker": 1.0 if gpus == AUTO else 0.0 if gpus is None else gpus,
        "finds_gpus": gpus is None,
        "packs_gpus": gpus == AUTO,
    }
    if "claim" in given:
        check_value(str, given["claim"], "--claim")
        require("until_decided" not in given, "--until-decided must be left out with --claim", "both")
        made |= {"claim": with_read_encoders(read_claim(given["claim"])).text, "until_decided": 0.0}
    if "until_decided" in made:
        made |= race_defaults(given, made["search"])
    return SweepOptions(**made)


def with_read_encoders(claim: Claim) -> Claim:
    """Returns a claim whose encoders are hub names or absolute paths: workers, and later commands, run elsewhere."""

    def read(side: Mapping[str, str]) -> dict[str, str]:
        return {
            key: read_encoder_name(value, f"--claim {key}") if key == ENCODER_KEY else value
            for key, value in side.items()
        }

    return replace(claim, better=read(claim.better), worse=read(claim.worse))


def read_places(given: GivenOptions) -> dict[str, Any]:
    """Returns space, data and encoder, as far as they are given, so that they are found from any folder."""
    found: dict[str, Any] = {}
    if isinstance(given.get("space"), str):
        found["space"] = resolve_name(given["space"])
    if "data" in given:
        found["data"] = check_data_folder(given["data"])
    if "encoder" in given:
        found["encoder"] = read_encoder_name(given["encoder"])
    return found


def read_resumption(given: GivenOptions, storage: str) -> SweepOptions:
    """Returns the saved options of a resumed sweep, as the given ones change them; ValueError for one that may not."""
    for name in sorted(given):
        flag = flag_of(name)
        rule = f"{flag} must be left out with --resume, which continues the sweep as it began"
        rule += f" ({typed_command('status')} NAME shows what is left)" if name == "dry_run" else ""
        allowed = (*CHANGEABLE_OPTIONS, "resume", "storage", "address")
        require(name in allowed, rule, flag if isinstance(given[name], bool) else option_text(given[name]))
    changes = {name: value for name, value in given.items() if name in CHANGEABLE_OPTIONS}
    folder = find_sweep_folder(given["resume"], storage)
    begun = read_saved_options(folder)
    replicates = changes.get("replicates", begun.replicates)
    check_value(int, replicates, flag_of("replicates"))  # compared here, before `SweepOptions` checks all types
    rule = "--replicates must not be lowered with --resume, as what was trained stays"
    require(replicates >= begun.replicates, rule, replicates)
    if "until_decided" in changes and begun.until_decided is None:
        changes = race_defaults(given, begun.search) | changes
        changes["replicates"] = max(changes["replicates"], begun.replicates)
        if begun.replicate_best is not None and "replicate_best" not in given:
            changes["replicate_best"] = begun.replicate_best
    if "vary" in changes:
        changes |= add_values(begun, changes["vary"])
    if "replicate_best" in changes and begun.replicate_best is None:
        changes["chosen_by"] = begun.common_replicates
    if {"data", "encoder"} & changes.keys():
        changes["began_as_demonstration"] = begun.is_demonstration
    return replace(begun, **{**changes, **read_places(changes)})


def read_saved_options(folder: str) -> SweepOptions:
    """Returns the options of the sweep in a folder, to resume it.

    Raises:
        ValueError: the folder holds no sweep, or one whose `sweep.json` has no options that this version knows.
    """
    saved = read_sweep(folder).get("options")
    rule = "a sweep that is resumed must have in sweep.json the options that it was started with"
    names = {SAVED_KEYS.get(field.name, field.name): field.name for field in fields(SweepOptions)}
    require(isinstance(saved, dict) and set(saved) <= set(names), rule, folder)
    assert isinstance(saved, dict)
    begun = {names[key]: as_tuples(value) for key, value in saved.items()}
    data = saved["data"]
    storage, name = split_location(folder)
    place = {"name": name, "storage": storage, "data": None if data is None else Path(data)}
    return SweepOptions(**{**begun, **place, "resume": True})


def add_values(begun: SweepOptions, given: Mapping[str, VariedValues]) -> dict[str, Any]:
    """Returns the options of a resumed sweep whose grid gets the further values of `given`.

    Raises:
        ValueError: the sweep has no grid of --vary, or `given` lacks a value of it or has another key.
    """
    is_grid = begun.search == "grid" and bool(begun.vary)
    kept = f"the grid ({describe(begun.vary)})" if is_grid else "a grid that --vary began, which this sweep lacks,"
    rule = f"--vary with --resume must keep all values of {kept} and may add others"
    way = "; begin a new sweep (--name NEW) for anything else: it reuses the trials that have finished"
    wider = {key: with_further(begun.vary[key], own) for key, own in given.items() if is_grid and key in begun.vary}
    can_grow = len(wider) == len(given) and None not in wider.values() and ENCODER_KEY not in given
    require(can_grow, rule, f"{describe(given)}{way}")
    varied = {**begun.vary, **wider}
    smaller = () if varied == begun.vary else (begun.vary,)
    return {"vary": varied, "smaller_grids": (*begun.smaller_grids, *smaller)}


def option_text(value: Any) -> Any:
    """Returns a given option for a message: keys with their values as they are typed, a space by its name."""
    if isinstance(value, SearchSpace):
        return value.name
    if isinstance(value, Mapping):
        return " ".join(f"{key}={own if isinstance(own, str) else typed_value(own)}" for key, own in value.items())
    return value


def describe(varied: Mapping[str, VariedValues]) -> str:
    """Returns keys and values as they are typed after --vary."""
    return " ".join(f"{key}={typed(values)}" for key, values in varied.items())


def find_sweep_folder(name: str, storage: str) -> str:
    """Returns the folder of the sweep called `name`, in the storage, or by its path or URI;
    ValueError if there is none."""
    check_answer(name)
    is_place = is_uri(name) or len(expanded_path(name).parts) > 1
    folder = absolute_location(name) if is_place else join_location(storage, name)
    read_sweep(folder)
    return folder


def race_defaults(given: GivenOptions, search: str) -> dict[str, int]:
    """Options of a race that are not given."""
    most = {} if "replicates" in given else {"replicates": MOST_RACED}
    return most if search == "grid" or "replicate_best" in given else {**most, "replicate_best": BEST_RACED}


def read_storage(text: str) -> str:
    """Returns the folder of the storage, as an absolute path or URI; ValueError as `check_location`."""
    try:
        check_location(text)
    except ValueError as error:
        raise ValueError(f"--storage must be a folder, or a URI such as s3://bucket/sweeps: {error}") from None
    return absolute_location(text)


def check_data_folder(text: str) -> Path:
    """Returns the folder of the data, which must exist, as an absolute path."""
    folder = expanded_path(text).resolve()
    if not folder.is_dir():
        raise ValueError(f"--data must be a folder that exists, got '{text}'{near_folder(folder)}")
    return folder
