"""Batch orders and gradient methods that tests train, and pairs that cover them."""

import dataclasses
from typing import Any

from mtlib.config.trial import TrialConfig
from mtlib.data.token_cache import Corpus
from mtlib.model.encoder import PretrainedEncoder
from tests.config_cases import FIXED_ROUND_ORDERS

Changes = dict[str, Any]

ALL = ["sst", "qqp", "sts"]

ORDERS: dict[str, Changes] = {
    **{
        order: {"stages.1.order": order}
        for order in (*FIXED_ROUND_ORDERS, "sequential", "uniform", "proportional", "square_root", "annealed")
    },
    **{f"{order}, summed": {"stages.1.order": order, "stages.1.sum_losses": True} for order in FIXED_ROUND_ORDERS},
    "epoch_round_robin": {"stages.1.order": "epoch_round_robin", "stages.1.epochs": 3, "stages.1.steps_per_epoch": 12},
    "best of the first stage": {"stages.1.start_from": "best", "stages.0.epochs": 2, "stages.0.steps_per_epoch": 5},
    "new optimizer": {"stages.1.reset_optimizer": True},
    "extra data": {"stages.1.extra_data": ["cfimdb", "snli"], "stages.1.order": "annealed"},
    "augmentation": {
        "data.sources.reworded": {"task": "sst", "path": "reworded.jsonl", "role": "augment"},
        "stages.1.order": "proportional",
    },
    "unimax": {"stages.1.order": "unimax"},
    "unimax, summed": {"stages.1.order": "unimax", "stages.1.sum_losses": True},
}

SMART = {"smart.weight": 0.5, "smart.tasks": ALL, "smart.noise_std": 0.05, "smart.epsilon": 0.1}
BI = {"tasks.qqp.encoding": "bi", "tasks.sts.encoding": "bi"}
PALS = {"pals.size": 8, "pals.num_heads": 2, "pals.tasks": ALL}
LORA = {"adapter.method": "lora", "adapter.rank": 2, "optimizer.learning_rate": 1e-2}
PARTS = {"stages.0.micro_batch_size": 3, "stages.1.micro_batch_size": 1}
PROBING = {"optimizer.learning_rate": 1e-4}
"""A head fitted to the untrained encoder of these tests has large weights. At ten times this rate its losses rise to
180, and a change of all weights by 1e-7 moves them by 1e-3."""

METHODS: dict[str, Changes] = {
    "plain": {},
    "smart, unit norm": SMART,
    "smart, paper": {**SMART, "smart.mode": "paper"},
    "smart, paper, bi-encoder": {**SMART, **BI, "smart.mode": "paper"},
    "smart, random, every second batch": {**SMART, "smart.mode": "random", "smart.every_batches": 2},
    "smart, half of the rows, shared masks": {**SMART, "smart.row_share": 0.5, "smart.masks": "shared"},
    "smart, shared masks, two steps": {**SMART, "smart.masks": "shared", "smart.num_steps": 2},
    "mean teacher": {"proximal.weight": 1, "proximal.tasks": ALL, "proximal.decay": 0.9},
    "mean teacher, late decay": {
        "proximal.weight": 1,
        "proximal.tasks": ALL,
        "proximal.decay": 0.5,
        "proximal.late_decay": 0.95,
        "proximal.early_fraction": 0.4,
    },
    "simcse": {"simcse.weight": 0.3, "simcse.tasks": ALL},
    "simcse, bi-encoder": {"simcse.weight": 0.3, "simcse.tasks": ALL, "simcse.projection": "linear", **BI},
    "pals": PALS,
    "pals, beside the layer, encoder frozen": {**PALS, "pals.placement": "layer", "encoder.trained_layers": []},
    "low rank": {**PALS, "pals.function": "low_rank"},
    "low rank, one for all layers": {**PALS, "pals.function": "identity", "pals.zero_start": True},
    "learned weights": {"loss_weighting": "uncertainty"},
    "learned weights, IMTL-L": {"loss_weighting": "imtl_l"},
    "linear probing": {**PROBING, **{f"tasks.{task}.probe_rows": 40 for task in ALL}},
    "linear probing, mean teacher": {
        **PROBING,
        "tasks.sst.probe_rows": 40,
        "proximal.weight": 1,
        "proximal.tasks": ALL,
    },
    "ordinal": {"tasks.sst.loss": "ordinal_log_loss"},
    "dual objective, weights": {
        "tasks.sst.loss": "dual_objective_cross_entropy",
        "tasks.sst.dual_reduction": "sum",
        "tasks.qqp.loss_weight": 2,
    },
    "two logits, no separator": {"tasks.qqp.loss": "cross_entropy", "tasks.qqp.encoding": "cross_no_separator"},
    "cosine": {**BI, "tasks.qqp.head": "cosine", "tasks.sts.head": "cosine", "tasks.sts.cosine_projection": False},
    "relational, hidden, mean pooling": {
        "relational_tasks": ["qqp", "sts"],
        "tasks.sst.hidden_units": 7,
        **{f"tasks.{task}.pooling": "mean" for task in ALL},
    },
    "layer decay, head rate, slanted": {
        "optimizer.layer_decay": 0.8,
        "optimizer.head_learning_rate": 3e-3,
        "optimizer.schedule": "slanted_triangular",
        "optimizer.decay_biases_and_norms": False,
    },
    "clipped, cosine": {"optimizer.clip_norm": 1.5, "optimizer.schedule": "cosine"},
    "one layer": {"encoder.trained_layers": [1]},
    "empty shard": {"tasks.sst.batch_size": 1, **SMART},
    "polynomial-decay averaging": {"optimizer.average_power": 1},
    "micro-batches, smart": {**SMART, **PARTS, "smart.row_share": 0.5, "loss_weighting": "uncertainty"},
    "checkpointing, smart, shared masks": {
        **SMART,
        "smart.masks": "shared",
        "encoder.gradient_checkpointing": True,
    },
    "lora, smart, layer decay": {**LORA, **SMART, "adapter.dropout": 0.1, "optimizer.layer_decay": 0.8},
    "lora, pals, averages": {
        **LORA,
        **PALS,
        "adapter.targets": ["key", "output.dense"],
        "optimizer.average_power": 1,
        "proximal.weight": 1,
        "proximal.tasks": ALL,
    },
}

ALTERNATING_ONLY: dict[str, Changes] = {
    "layers by task": {
        "optimizer.chosen_scale": 2,
        "optimizer.other_scale": 0.5,
        "tasks.sst.chosen_layers": [1],
        "tasks.qqp.chosen_layers": [0],
    },
}
SUMMED_ONLY: dict[str, Changes] = {
    **{
        name: {"gradients": name}
        for name in ("pcgrad", "mgda", "upgrad", "dualproj", "imtl_g", "aligned_mtl", "fairgrad", "gradvac")
    },
    "excess_mtl": {"gradients": "excess_mtl", "excess_mtl_warmup_steps": 1},
    **{name: {"loss_weighting": name} for name in ("famo", "dwa", "stch")},
    "famo, smart": {"loss_weighting": "famo", **SMART},
    "lora, pcgrad, micro-batches": {**LORA, **PARTS, "gradients": "pcgrad"},
}

EVERY_METHOD = {**METHODS, **ALTERNATING_ONLY, **SUMMED_ONLY}


def fits(order: str, method: str) -> bool:
    """Whether a combination is valid."""
    is_summed = "summed" in order
    return not (method in ALTERNATING_ONLY and is_summed) and not (method in SUMMED_ONLY and not is_summed)


def cover() -> list[tuple[str, str]]:
    """Each method once, with the orders in turn; every order occurs at least once."""
    pairs, orders = [], list(ORDERS)
    for method in EVERY_METHOD:
        order = next(order for order in orders if fits(order, method))
        orders.append(orders.pop(orders.index(order)))
        pairs.append((order, method))
    return pairs


COVER = cover()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Material:
    config: TrialConfig
    corpus: Corpus
    encoder: PretrainedEncoder
