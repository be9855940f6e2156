"""Steps on a device whose tensors have no data: no operation mixes devices, and the host reads nothing in a step.

The device `meta` stands for a GPU: it refuses operands of another device, and to be read.
"""

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import mtlib.loss.smart
from mtlib.config.gradient_methods import GRADIENT_METHODS
from mtlib.config.losses import LOSSES
from mtlib.config.penalties import PENALTIES
from mtlib.config.trial import TrialConfig
from mtlib.data.batches import make_batch, moved
from mtlib.data.token_cache import Corpus
from mtlib.loss.class_weights import all_class_weights
from mtlib.loss.clean_pass import Place
from mtlib.loss.gradient_aggregation import gradients_by_task, gramian_of
from mtlib.loss.objective import Objective
from mtlib.model.encoder import PretrainedEncoder
from mtlib.model.multitask import MultiTaskModel
from mtlib.tasks import TASKS
from mtlib.training.clipping import clip_gradients
from mtlib.training.optimizer import make_optimizer
from mtlib.training.weight_average import averaged_copy, update_average
from search_spaces.presets import bert_and_beyond, general, my_pal_bert, triple_threat, tuning_up_bert

GPU = torch.device("meta")
PRESETS: dict[str, Callable[[], TrialConfig]] = {
    "bert_and_beyond": bert_and_beyond,
    "triple_threat": triple_threat,
    "tuning_up_bert": tuning_up_bert,
    "my_pal_bert": my_pal_bert,
    "general": lambda: general(TASKS),
}
ALL = "sst,qqp,sts"
TAUGHT = {
    f"data.sources.taught_{name}.{key}": value
    for name, task in TASKS.items()
    for key, value in {
        "task": name,
        "path": "taught.parquet",
        "role": "train",
        "teacher_columns": [f"logit_{number}" for number in range(task.num_logits)],
    }.items()
}
"""Sources with a teacher, which are not read here."""
CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    **{f"penalty {name}": {**TAUGHT, f"{name}.weight": 1, f"{name}.tasks": ALL} for name in PENALTIES},
    "smart of some rows": {"smart.weight": 1, "smart.tasks": ALL, "smart.row_share": 0.5},
    "smart, paper mode": {"smart.weight": 1, "smart.tasks": ALL, "smart.mode": "paper"},
    **{
        f"loss {name}": {f"tasks.{task}.loss": name}
        for name, loss in LOSSES.items()
        for task in ("sst", "qqp")
        if TASKS[task].kind in loss.functions
    },
    "class weights": {"tasks.sst.class_weights": "balanced"},
    "two texts": {"tasks.qqp.encoding": "bi", "tasks.sts.encoding": "bi", "tasks.sts.head": "cosine"},
    "pair and texts": {"tasks.qqp.encoding": "cross_and_bi", "tasks.sts.pooling": "mean"},
    "last token": {"tasks.sst.pooling": "last"},
    "pals": {"pals.size": 8, "pals.num_heads": 2, "pals.tasks": ALL},
    "low rank": {"pals.size": 8, "pals.function": "low_rank", "pals.placement": "layer", "pals.tasks": ALL},
    "unit scale": {"tasks.sts.target_scale": "unit"},
    "relational": {"relational_tasks": "qqp,sts"},
    "learned weights": {"loss_weighting": "uncertainty"},
    "layer rates": {"optimizer.layer_decay": 0.9},
    "average": {"optimizer.average_power": 1},
}
SUMS = {"stages.0.tasks": ALL, "stages.0.sum_losses": True, "stages.0.order": "max_size_cycle"}


@pytest.fixture(autouse=True)
def _without_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device has no autocast, and no generator of random numbers."""
    monkeypatch.setattr(torch, "autocast", lambda *_words, **_options: contextlib.nullcontext())
    monkeypatch.setattr(mtlib.loss.smart, "first_noise", lambda _batch, texts, _seed: [*map(torch.randn_like, texts)])


def build(config: TrialConfig, encoder: PretrainedEncoder, corpus: Corpus) -> Objective:
    model = MultiTaskModel(config, encoder).to(GPU).train()
    teacher = averaged_copy(model).requires_grad_(False) if config.needs_teacher else None
    weights = all_class_weights(config, corpus, GPU)
    return Objective(config, model, teacher, {}, weights)


def batches_of(config: TrialConfig, corpus: Corpus) -> tuple[list[Any], list[Place]]:
    """A batch of each task, on the device; with a teacher's logits where a task has a teacher."""
    batches = []
    for name in config.active_tasks:
        table = corpus[name, "train"]
        if config.distillation.weight > 0:
            table = replace(table, teacher=np.zeros((table.num_rows, TASKS[name].num_logits), dtype=np.float32))
        batch = make_batch(table, np.arange(6), encoding=config.tasks[name].encoding, max_length=32)
        batches.append(moved(batch, GPU))
    return batches, [Place(noise_seed=1, turn=0, full_size=6) for _ in batches]


def take_fake_step(config: TrialConfig, encoder: PretrainedEncoder, corpus: Corpus) -> None:
    """What a step does on the device, until the host reads its losses."""
    objective = build(config, encoder, corpus)
    batches, places = batches_of(config, corpus)
    loss, details = objective(batches, places)
    loss.backward()
    norm = clip_gradients(make_optimizer(config, objective.model, config.active_tasks), 1.0)
    assert norm is not None
    assert loss.device.type == details.device.type == norm.device.type == "meta"
    if config.optimizer.average_power is not None:
        update_average(averaged_copy(objective.model), objective.model, 0.5)


def tiny(config: TrialConfig) -> TrialConfig:
    """A preset with the tiny encoder's name and layers."""
    layers = {f"tasks.{task}.chosen_layers": [0] for task in config.active_tasks if config.tasks[task].chosen_layers}
    pals = {"pals.size": 8, "pals.num_heads": 2} if config.pals.size else {}
    return config.override({"encoder.name": "tiny", "encoder.max_length": 32, **layers, **pals})


@pytest.mark.parametrize("case", CASES)
def test_a_step_mixes_no_devices_and_reads_nothing(
    case: str, tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder, tiny_corpus: Corpus
) -> None:
    take_fake_step(tiny_config.override({"smart.weight": 0, **CASES[case]}), tiny_encoder, tiny_corpus)


@pytest.mark.parametrize("name", PRESETS)
def test_a_step_of_each_preset_mixes_no_devices_and_reads_nothing(
    name: str, tiny_encoder: PretrainedEncoder, tiny_corpus: Corpus
) -> None:
    take_fake_step(tiny(PRESETS[name]()), tiny_encoder, tiny_corpus)


def test_gradients_are_combined_with_one_read(
    tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder, tiny_corpus: Corpus
) -> None:
    config = tiny_config.override(
        {"smart.weight": 0, **SUMS, "gradients": next(iter(GRADIENT_METHODS.keys() - {"sum"}))}
    )
    objective = build(config, tiny_encoder, tiny_corpus)
    parameters = list(objective.model.parameters())
    gradients, _ = gradients_by_task(objective, parameters, *batches_of(config, tiny_corpus))
    shared = [parts for parts in zip(*gradients, strict=True) if sum(part is not None for part in parts) > 1]
    assert gramian_of(shared, len(gradients)).device.type == "meta"
