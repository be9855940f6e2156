"""Keys of stages: equal keys give equal states, scores and predictions, bit for bit on a CPU."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mtlib.config.trial import TrialConfig
from mtlib.runtime.checksum import hash_of
from mtlib.stages.active_weights import active_parts
from mtlib.stages.draws import stage_sets
from mtlib.stages.effective_settings import effective_settings, length_counts
from mtlib.stages.plan import PlannedStage, tasks_active_by

ENVIRONMENT = "environment"
"""The part of a key that code, libraries, device, workers and threads decide."""


@dataclass(frozen=True, kw_only=True)
class Origin:
    """What a trial's result depends on besides its configuration."""

    encoder: str
    """Fingerprint of the pretrained encoder: its architecture and weights."""
    started: Mapping[str, str]
    """Digests of the weights that replaced new or pretrained ones, by part of the model."""
    data: Mapping[tuple[str, str], str]
    """Fingerprints of tables and their tokenisation, by (set, split)."""
    environment: Mapping[str, Any]
    """As `describe_environment` gives it."""


@dataclass(frozen=True, kw_only=True)
class Cut:
    """A point of a trial, after some epochs of a stage, at which its state can be kept for other trials."""

    stage: int
    """From 0."""
    epochs: int
    """The epochs of that stage, at least 1."""
    is_end: bool
    total_epochs: int
    """Over all stages."""
    total_steps: int
    """Optimizer steps over all stages."""
    key: str
    """Key of the state, with the best weights of the stage where the next stage starts from them."""
    key_with_best: str | None
    """Key of the same state with the best weights, where the next stage does not need them."""


def list_cuts(config: TrialConfig, plan: tuple[PlannedStage, ...], origin: Origin) -> list[Cut]:
    """Returns every cut of a trial, first to last:
    the ends of its stages, and of each epoch where a stage may be longer."""
    return [
        make_cut(config, plan, index, epochs, origin)
        for index, stage in enumerate(plan)
        for epochs in range(1, stage.epochs + 1)
        if epochs == stage.epochs or not length_counts(config, index)
    ]


def make_cut(config: TrialConfig, plan: tuple[PlannedStage, ...], index: int, epochs: int, origin: Origin) -> Cut:
    """Returns one cut of a trial: `epochs` epochs of stage `index` are done."""
    parts = key_parts(config, index, epochs, origin)
    is_asked = next_stage_starts_from_best(config, index)
    earlier = plan[:index]
    return Cut(
        stage=index,
        epochs=epochs,
        is_end=epochs == plan[index].epochs,
        total_epochs=sum(stage.epochs for stage in earlier) + epochs,
        total_steps=sum(stage.num_steps for stage in earlier) + plan[index].first_step(epochs),
        key=hash_of([parts, is_asked]),
        key_with_best=None if is_asked else hash_of([parts, True]),
    )


def next_stage_starts_from_best(config: TrialConfig, index: int) -> bool:
    """Returns whether the next stage starts from the best epoch of stage `index`."""
    return index + 1 < len(config.stages) and config.stages[index + 1].start_from == "best"


def key_parts(config: TrialConfig, index: int, epochs: int, origin: Origin) -> dict[str, str]:
    """Fingerprints of everything that can affect the state after `epochs` epochs of stage `index`, by kind."""
    stages, tasks = config.stages[: index + 1], tasks_active_by(config, index)
    sets = {name for stage in stages for name in stage_sets(stage)}
    wanted = [*((name, "train") for name in sets), *((task, "dev") for task in tasks)]
    parts = active_parts(config, tasks)
    num_workers = int(origin.environment.get("num_workers", 1))
    return {
        "configuration": hash_of(effective_settings(config, index, epochs, num_workers)),
        "data": hash_of([[*key, origin.data[key]] for key in sorted(wanted)]),
        "encoder": origin.encoder,
        "starting weights": hash_of({name: digest for name, digest in origin.started.items() if name in parts}),
        ENVIRONMENT: hash_of(dict(origin.environment)),
    }
