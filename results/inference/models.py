"""Loads the models of an ensemble's members from the weights that their sweeps keep."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from mtlib.config.trial import TrialConfig
from mtlib.runtime.errors import require, require_name
from mtlib.runtime.program_names import typed_command
from mtlib.runtime.storage import Location, is_file, open_folder
from results.ensembles.candidates import describe_candidate
from results.records.selection import SELECTION_FILE, Member, Selection, place_of
from results.records.tables import read_trials
from results.records.trials import SWEEP_FILE, TrialRecord, read_sweep, sweep_encoders, sweep_tokenizer
from results.records.weights import read_trial_weights

if TYPE_CHECKING:  # `results` must load without torch
    from mtlib.model.encoder import PretrainedEncoder
    from mtlib.model.multitask import MultiTaskModel


@dataclass(frozen=True, kw_only=True, eq=False)
class LoadedModel:
    """One trained model."""

    name: str
    """For messages."""
    model: "MultiTaskModel"
    """In evaluation mode, on the device where it is to predict."""
    config: TrialConfig
    """How it was trained; encoding, longest input, precision and batch size of predictions are its own, but for fp32
    where bf16 would be emulated, which is many times slower."""
    pretrained: "PretrainedEncoder"
    """The pretrained encoder, for its tokenizer; models of one encoder share it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelSource:
    """Where models are loaded from, and the device they are loaded to."""

    places: Mapping[str, Location]
    """The current place of each sweep that members name."""
    encoder: str | None = None
    """Name or folder that replaces the pretrained encoder of all members; None: as their trials name it."""
    device: str = "auto"
    """`auto` (a GPU if there is one), `cpu` or `cuda`."""
    loaded: "dict[tuple[str, str], PretrainedEncoder]" = field(default_factory=dict)
    """Encoders that have been loaded already, by name and by what makes their tokenizer."""
    models: "dict[tuple[str, str, int], LoadedModel] | None" = None
    """Models that have been loaded already, by sweep, trial and epoch, for ensembles of several tasks that are kept
    together; None where each is loaded for itself."""


def find_sweeps(selection: Selection, home: Location) -> dict[str, Location]:
    """Returns the place of each sweep of a selection by its name there.

    Where the folder of an older selection has moved, its first sweep is at `home`, the folder's present place: it was
    written there, unless --output named another folder.
    """
    is_named = place_of(home) in selection.sweeps or "--output" in selection.command
    own = None if is_named or not is_file(open_folder(home), SWEEP_FILE) else next(iter(selection.sweeps), None)
    return {sweep: home if sweep == own else sweep for sweep in selection.sweeps}


def load_models(members: Sequence[Member], task: str, source: ModelSource) -> tuple[LoadedModel, ...]:
    """Loads the model of each member, at least one, for predicting a task.

    Raises:
        ValueError: in one line: a sweep or a trial is not there, has not learned the task, or has not kept its weights;
            the encoder cannot be loaded or differs; `source.encoder` would replace several; there is no such device.
    """
    from mtlib.checkpoints.export import build_model
    from mtlib.model.encoder import find_encoder
    from mtlib.runtime.environment import choose_device

    trials = find_trials(members, task, source)
    find_encoders([config for _, config in trials], source)
    device = choose_device(source.device)
    infos = {sweep: read_sweep(source.places[sweep]) for sweep in {member.sweep for member in members}}
    models = []
    for member, (record, config) in zip(members, trials, strict=True):
        key = member.sweep, member.trial, member.epoch
        if source.models is not None and key in source.models:
            models.append(source.models[key])
            continue
        place = source.places[member.sweep]
        name = describe_candidate(member)
        weights = read_trial_weights(open_folder(place), record, member.epoch)
        tokenizer = sweep_tokenizer(infos[member.sweep], config.encoder.name)
        wanted = source.encoder or config.encoder.name, tokenizer.source
        if wanted not in source.loaded:
            source.loaded[wanted] = find_encoder(*wanted)
        pretrained = source.loaded[wanted]
        config = without_emulation(config, on_gpu=device.type == "cuda")
        check_frozen_encoder(config, pretrained, place)
        model = build_model(config, pretrained, weights, f"weights must fit the configuration of {name}")
        models.append(LoadedModel(name=name, model=model.to(device), config=config, pretrained=pretrained))
        if source.models is not None:
            source.models[key] = models[-1]
    return tuple(models)


def without_emulation(config: TrialConfig, *, on_gpu: bool) -> TrialConfig:
    """Returns a trial's configuration, in fp32 if this machine would emulate its bf16."""
    from mtlib.runtime.bf16 import has_bf16

    is_emulated = config.precision == "bf16" and not has_bf16(on_gpu=on_gpu)
    return config.override({"precision": "fp32"}) if is_emulated else config


def check_frozen_encoder(config: TrialConfig, pretrained: "PretrainedEncoder", sweep: Location) -> None:
    """Raises ValueError if weights lack those of a frozen encoder, and it is not the one that the sweep began with."""
    wanted = sweep_encoders(read_sweep(sweep)).get(config.encoder.name, pretrained.fingerprint)
    rule = f"the encoder must be the one beside which adapters of {sweep} were trained"
    require(
        not config.has_frozen_encoder or wanted == pretrained.fingerprint, rule, f"other weights in {pretrained.name}"
    )


def find_trials(members: Sequence[Member], task: str, source: ModelSource) -> list[tuple[TrialRecord, TrialConfig]]:
    """Returns each member's trial and its configuration; ValueError if it is not there or has not learned the task."""
    records: dict[str, dict[str, TrialRecord]] = {}
    for sweep in dict.fromkeys(member.sweep for member in members):
        require_name(sweep, source.places, "sweep of a selection")
        place = source.places[sweep]
        select = typed_command("select")
        rule = f"the sweep of a member must be at the path recorded in {SELECTION_FILE} (or run {select} again)"
        require(is_file(open_folder(place), SWEEP_FILE), rule, f"no sweep at {place}")
        records[sweep] = {record.trial_id: record for record in read_trials(place)}
    read_config, found = cache(TrialConfig.from_json), []  # once for all epochs of a trial
    for member in members:
        require_name(member.trial, records[member.sweep], f"trial of {source.places[member.sweep]}")
        record = records[member.sweep][member.trial]
        config = read_config(record.config)
        require_name(task, config.active_tasks, f"task of {describe_candidate(member)}")
        found.append((record, config))
    return found


def find_encoders(configs: Iterable[TrialConfig], source: ModelSource) -> list[str]:
    """Returns the pretrained encoders of models; ValueError if there are several and `source.encoder` replaces them."""
    names = sorted({config.encoder.name for config in configs})
    is_one = source.encoder is None or len(names) == 1
    require(is_one, "--encoder can replace a single pretrained encoder only", f"models of {', '.join(names)}")
    return names
