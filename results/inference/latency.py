"""What one text takes: the latency of each candidate's model, measured once for all candidates of one network."""

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mtlib.config.schema import to_dict
from mtlib.config.trial import TrialConfig
from mtlib.tasks import Task
from results.ensembles.candidates import Candidate, Pool
from results.ensembles.ensemble import Ensemble
from results.inference.models import LoadedModel, ModelSource, find_encoders, load_pretrained
from results.inference.predictor import Predictor, predict_texts
from results.ranking.bootstrap import Floats
from results.records.trials import read_trials

NUM_TEXTS = 20
"""Texts that latency is measured on."""
NUM_TIMES = 5
"""How often each of them is timed."""
ONLY_TRAINING = {
    "encoder": ("dropout", "attention_dropout", "trained_layers", "start_from", "start_epoch", "start_heads"),
    "pals": ("tasks", "zero_start"),
    "task": (
        "batch_size",
        "chosen_layers",
        "dual_reduction",
        "loss",
        "loss_weight",
        "ordinal_alpha",
        "probability_factor",
        "scored_train_rows",
    ),
}
"""Settings that change weights, or one of a head's outputs, but not what a text takes."""

Clock = Callable[[], float]
"""Says the time, in seconds."""


def find_latencies(
    pool: Pool, source: ModelSource, texts: Sequence[tuple[str, ...]], clock: Clock = time.perf_counter
) -> Floats:
    """What one text takes by each candidate's model, on this machine, on the source's device, with torch's threads.

    Weights change no speed and need not have been kept: each network is built from its configuration and the pretrained
    encoder, measured, and let go.

    Args:
        pool: the candidates.
        source: where their sweeps and encoders are, and the device.
        texts: of the pool's task, from `choose_texts`.
        clock: what measures.

    Returns:
        (candidates,), milliseconds.

    Raises:
        ValueError: in one line: an encoder cannot be had, does not fit, or stands for several; there is no such device.
    """
    configs = read_configs(pool.candidates, source)
    find_encoders(configs, source)
    found: dict[str, float] = {}
    for config in configs:
        network = describe_network(config, pool.task)
        if network not in found:
            found[network] = measure_latency(build_untrained(config, source), pool.task, texts, clock)
    return np.array([found[describe_network(config, pool.task)] for config in configs])


def measure_latency(
    model: LoadedModel, task: Task, texts: Sequence[tuple[str, ...]], clock: Clock = time.perf_counter
) -> float:
    """What one text takes by one model: cut into word pieces, a batch of its own, on the device where the model is.

    It is that of this machine, this device, and this number of threads. All texts are predicted once to warm up, then
    `NUM_TIMES` times, and each text's fastest time counts: what else is running makes others slower, and none faster.

    Args:
        model: ready to predict.
        task: one of its tasks.
        texts: as `predict_texts` takes them; at least one.
        clock: what measures.

    Returns:
        Milliseconds, the median over texts.
    """
    predictor = Predictor(task=task, models=(model,), ensemble=Ensemble(members=(0,), weights=(1.0,)))
    taken = np.array([[time_text(predictor, text, clock) for text in texts] for _ in range(1 + NUM_TIMES)])
    return 1000 * float(np.median(taken[1:].min(axis=0)))


def time_text(predictor: Predictor, text: tuple[str, ...], clock: Clock) -> float:
    """Seconds that one text takes."""
    start = clock()
    predict_texts(predictor, [text])
    return clock() - start


def choose_texts(texts: Sequence[tuple[str, ...]], count: int = NUM_TEXTS) -> list[tuple[str, ...]]:
    """Texts of all lengths, evenly spaced in the order of their lengths, so that the median is a middling text's.

    Args:
        texts: one or two by row.
        count: how many; all where there are no more.

    Returns:
        The shortest first.
    """
    ordered = sorted(texts, key=lambda row: sum(map(len, row)))
    count = min(count, len(ordered))
    return [ordered[(2 * place + 1) * len(ordered) // (2 * count)] for place in range(count)]


def read_configs(candidates: Sequence[Candidate], source: ModelSource) -> list[TrialConfig]:
    """Each candidate's configuration, read once for each trial."""
    records = {
        (sweep, record.trial_id): record.config
        for sweep in dict.fromkeys(candidate.sweep for candidate in candidates)
        for record in read_trials(source.places[sweep])
    }
    trials = dict.fromkeys((candidate.sweep, candidate.trial) for candidate in candidates)
    configs = {trial: TrialConfig.from_json(records[trial]) for trial in trials}
    return [configs[candidate.sweep, candidate.trial] for candidate in candidates]


def describe_network(config: TrialConfig, task: Task) -> str:
    """All settings that can change what a text of a task takes; equal for configurations of one network."""
    has_pals = config.pals.size > 0 and task.name in config.pals.tasks
    tree = {
        "encoder": leave_out(config.encoder, "encoder"),
        "pals": leave_out(config.pals, "pals") if has_pals else None,
        "task": leave_out(config.tasks[task.name], "task"),
        "is_relational": task.name in config.relational_tasks,
        "precision": config.precision,
    }
    return json.dumps(tree, sort_keys=True)


def leave_out(group: object, name: str) -> dict[str, Any]:
    """The fields of a group of settings without those of training alone."""
    return {field: value for field, value in to_dict(group).items() if field not in ONLY_TRAINING[name]}


def build_untrained(config: TrialConfig, source: ModelSource) -> LoadedModel:
    """A configuration's network as it begins, ready to predict."""
    from mtlib.model.multitask import MultiTaskModel
    from mtlib.runtime.environment import choose_device

    device = choose_device(source.device)
    pretrained = load_pretrained(source.encoder or config.encoder.name, source)
    model = MultiTaskModel(config, pretrained).eval().to(device)
    return LoadedModel(name="an untrained network", model=model, config=config, pretrained=pretrained)
