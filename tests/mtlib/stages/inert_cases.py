"""For every field of the configuration another value, and whether it affects a first stage: written by hand.

The state is that of the first stage after its first epoch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Changes = dict[str, Any]

INERT = "inert"
"""The key, state, scores and predictions are equal, bit for bit."""
REACHES = "reaches"
"""The key and the state change."""
SCORES = "scores"
"""The key and the reports change; the trained weights do not."""
CAREFUL = "careful"
"""The key changes although the result may be equal: that depends on the data or on later epochs."""
BEST = "best"
"""The key changes into that of the same state with the stage's best weights."""
REFUSED = "refused"
"""No other value is valid with the other settings."""


@dataclass(frozen=True)
class Case:
    """Another value of a field, its effect on the key, and further changes of both configurations."""

    value: Any
    verdict: str
    under: Changes


Table = dict[str, list[Case]]


def case(value: Any, verdict: str, under: Changes | None = None) -> list[Case]:
    return [Case(value, verdict, under or {})]


START = "<weights>"
"""Placeholder of a folder of weights to start from."""
SAME_START = "<same weights>"
"""Placeholder of another folder with the same weights."""

BI = {f"tasks.{task}.encoding": "bi" for task in ("qqp", "sts")}
QQP: dict[str, list[Case]] = {
    "batch_size": case(3, REACHES),
    "loss": case("cross_entropy", REACHES),
    "ordinal_alpha": case(2, INERT),
    "dual_reduction": case("sum", INERT),
    "label_smoothing": case(0.1, REACHES),
    "focal_gamma": case(1, INERT),
    "encoding": case("bi", REACHES),
    "prefix": case("a film ", REACHES),
    "pooling": case("mean", REACHES),
    "head": case("cosine", REACHES, BI),
    "hidden_units": case(5, REACHES),
    "cosine_projection": case(False, INERT),
    "class_weights": case("balanced", REACHES),
    "loss_weight": case(2, REACHES),
    "target_scale": case("unit", REFUSED),
    "probability_factor": case(3, INERT),
    "chosen_layers": case([0], INERT),
    "probe_rows": case(20, REACHES),
    "scored_train_rows": case(7, SCORES),
}
"""The task that the first stage trains, alone, with a plain loss and a linear head."""


def later_task(task: str, only: Mapping[str, Any]) -> Table:
    """A task that only a later stage trains: none of its settings affects the first. It accepts `only` these values,
    or none, in place of QQP's."""
    return {
        f"tasks.{task}.{name}": [
            Case(only.get(name, own.value), REFUSED if only.get(name, 0) is None else INERT, own.under) for own in cases
        ]
        for name, cases in QQP.items()
    }


def unnamed_source(name: str, joins: str, texts: list[str]) -> Table:
    """Extra data that the first stage does not use; augmentation joins its task's rows."""
    fields = {
        "task": case("sts", INERT),
        "path": case("elsewhere.csv", INERT),
        "role": case("augment", joins),
        "text_columns": case(texts, INERT),
        "label_column": case("other", INERT),
        "id_column": case("other", INERT),
        "labels": case(["0:1"], INERT),
        "dev_split": case("validation", INERT),
        "batch_size": case(5, INERT),
        "probability_factor": case(3, INERT),
    }
    return {f"data.sources.{name}.{field}": cases for field, cases in fields.items()}


SUMMED = {"stages.1.order": "batch_round_robin", "stages.1.sum_losses": True}
LORA = {"adapter.method": "lora"}
CHOSEN_LATER = {"tasks.sst.chosen_layers": [0]}

ALONE: Table = {
    "encoder.name": case("another", INERT),
    "encoder.dropout": case(0.2, REACHES),
    "encoder.attention_dropout": case(0.2, REACHES),
    "encoder.max_length": case(12, REACHES),
    "encoder.trained_layers": case([1], REACHES),
    "encoder.start_from": case(START, REACHES),
    "encoder.start_epoch": case("qqp", INERT),
    "encoder.start_heads": case(True, REACHES, {"encoder.start_from": START}),
    "encoder.attention": case("eager", CAREFUL),
    "encoder.gradient_checkpointing": case(True, CAREFUL),
    "adapter.method": case("lora", REACHES),
    "adapter.rank": case(3, INERT) + case(3, REACHES, LORA),
    "adapter.alpha": case(3, INERT),
    "adapter.dropout": case(0.3, INERT),
    "adapter.targets": case(["key"], INERT),
    "pals.size": case(8, INERT, {"pals.tasks": ["sst"], "pals.num_heads": 2}),
    "pals.num_heads": case(4, INERT),
    "pals.tasks": case(["qqp"], INERT),
    "pals.placement": case("layer", INERT),
    "pals.function": case("identity", INERT),
    "pals.zero_start": case(True, INERT),
    **later_task("sst", {"loss": "ordinal_log_loss", "encoding": None, "head": None, "target_scale": None}),
    **{f"tasks.qqp.{name}": cases for name, cases in QQP.items()},
    **later_task("sts", {"loss": None, "class_weights": None, "target_scale": "unit"}),
    "stages.0.tasks": case(["qqp", "sts"], REACHES) + case(["sst"], REACHES),
    "stages.0.extra_data": case(["snli"], REACHES),
    "stages.0.order": case("annealed", INERT),
    "stages.0.annealing": case(0.5, INERT),
    "stages.0.max_passes": case(1, INERT),
    "stages.0.sum_losses": case(True, INERT),
    "stages.0.epochs": case(3, INERT),
    "stages.0.score_every": case(2, SCORES, {"stages.0.epochs": 3}) + case(3, INERT, {"stages.0.epochs": 1}),
    "stages.0.steps_per_epoch": case(5, REACHES) + case(None, REACHES),
    "stages.0.micro_batch_size": case(2, REACHES),
    "stages.0.start_from": case("best", REFUSED),
    "stages.0.reset_optimizer": case(True, INERT),
    "stages.1.tasks": case(["sst", "qqp"], INERT) + case(["sts"], INERT, {"smart.tasks": ["sst", "sts"]}),
    "stages.1.extra_data": case(["cfimdb", "snli"], INERT),
    "stages.1.order": case("annealed", INERT),
    "stages.1.annealing": case(0.5, INERT),
    "stages.1.max_passes": case(1, INERT),
    "stages.1.sum_losses": case(True, INERT),
    "stages.1.epochs": case(7, INERT),
    "stages.1.score_every": case(2, INERT),
    "stages.1.steps_per_epoch": case(9, INERT),
    "stages.1.micro_batch_size": case(2, INERT),
    "stages.1.start_from": case("best", BEST),
    "stages.1.reset_optimizer": case(True, INERT),
    "optimizer.learning_rate": case(2e-3, REACHES),
    "optimizer.head_learning_rate": case(2e-3, REACHES) + case(1e-3, INERT),  # 1e-3 is the rate itself
    "optimizer.weight_decay": case(0.1, REACHES),
    "optimizer.decay_biases_and_norms": case(False, REACHES) + case(False, INERT, {"optimizer.weight_decay": 0}),
    "optimizer.layer_decay": case(0.9, REACHES),
    "optimizer.chosen_scale": case(2, INERT, CHOSEN_LATER),
    "optimizer.other_scale": case(2, REACHES, CHOSEN_LATER),
    "optimizer.beta1": case(0.8, REACHES),
    "optimizer.beta2": case(0.99, REACHES),
    "optimizer.epsilon": case(1e-6, REACHES),
    "optimizer.schedule": case("slanted_triangular", REACHES),
    "optimizer.warmup_fraction": case(0.5, INERT),
    "optimizer.average_power": case(1.0, REACHES),
    "smart.weight": case(2, INERT),
    "smart.tasks": case(["sst", "sts"], INERT) + case(["qqp"], REACHES) + case(["qqp"], INERT, {"smart.weight": 0}),
    "smart.mode": case("random", INERT),
    "smart.noise_std": case(1e-3, INERT),
    "smart.step_size": case(1e-2, INERT),
    "smart.epsilon": case(1e-2, INERT),
    "smart.num_steps": case(2, INERT),
    "smart.reduction": case("sum", INERT),
    "smart.masks": case("shared", INERT),
    "smart.every_batches": case(2, INERT),
    "smart.row_share": case(0.5, INERT),
    "proximal.weight": case(1, REACHES, {"proximal.tasks": ["sst"]}),  # the teacher is in the state
    "proximal.tasks": case(["qqp"], INERT),
    "proximal.decay": case(0.9, INERT),
    "proximal.late_decay": case(0.5, INERT),
    "proximal.early_fraction": case(0.5, INERT),
    "simcse.weight": case(1, INERT, {"simcse.tasks": ["sst"]}),
    "simcse.tasks": case(["qqp"], INERT),
    "simcse.temperature": case(0.1, INERT),
    "simcse.projection": case("none", INERT),
    "simcse.dropout": case(0.2, INERT),
    **unnamed_source("cfimdb", INERT, ["a"]),
    **unnamed_source("snli", REACHES, ["a", "b"]),
    "data.bucket_by_length": case(False, REACHES),
    "data.bucket_batches": case(0, REACHES) + case(1, INERT, {"data.bucket_by_length": False}),
    "data.hold_out": case(0.2, REACHES),
    "evaluation.batch_size": case(5, SCORES),
    "evaluation.batch_tokens": case(40, SCORES),
    "relational_tasks": case(["sst"], INERT) + case(["sts", "qqp"], REACHES),
    "loss_weighting": case("uncertainty", REACHES) + case("famo", INERT, SUMMED),
    "gradients": case("pcgrad", INERT, SUMMED),
    **{name: case(0.75, INERT) for name in ("cagrad_c", "fairgrad_alpha", "gradvac_beta", "excess_mtl_step_size")},
    "excess_mtl_warmup_steps": case(7, INERT),
    **{name: case(0.75, INERT) for name in ("famo_learning_rate", "famo_weight_decay", "dwa_temperature", "stch_mu")},
    "precision": case("bf16", REACHES),
    "seed": case(1, REACHES),
    "replicate": case(1, REACHES),
}
"""QQP alone, then all three; SMART on SST only; everything else is off."""


@dataclass(frozen=True)
class Base:
    """A configuration, and the cases whose condition it turns."""

    changes: Mapping[str, Any]
    differing: Table


LATER_TASKS = {"stages.1.tasks": case(["sst", "qqp"], INERT)}
TEACHER = {"proximal.weight": 1, "proximal.tasks": ["sst"]}
TWO = {"stages.0.tasks": ["qqp", "sts"], "stages.0.steps_per_epoch": 6}
SUMS = {**TWO, **SUMMED, "stages.0.sum_losses": True}
PALS = {"pals.size": 8, "pals.num_heads": 2}
CHOSEN = {"optimizer.chosen_scale": 2, "optimizer.other_scale": 0.5, "tasks.qqp.chosen_layers": [0]}
BASES: dict[str, Base] = {
    "alone": Base({}, ALONE),
    "smart": Base(
        {"smart.tasks": ["qqp", "sst"], "smart.noise_std": 1e-2},
        {
            "smart.weight": case(2, REACHES),
            "smart.tasks": case(["qqp"], INERT) + case(["qqp", "sst", "sts"], INERT) + case(["sst"], REACHES),
            "smart.mode": case("paper", REACHES),
            "smart.num_steps": case(2, REACHES) + case(2, INERT, {"smart.mode": "random"}),
            "smart.row_share": case(0.5, REACHES),
        },
    ),
    "pals": Base(
        {**PALS, "pals.tasks": ["qqp"]},
        {
            "pals.size": case(4, REACHES),
            "pals.num_heads": case(4, REACHES) + case(5, INERT, {"pals.function": "identity"}),
            "pals.tasks": case(["sst", "qqp"], INERT) + case(["sst"], REACHES),
            "pals.placement": case("layer", REACHES),
        },
    ),
    "pals of a later task": Base(
        {**PALS, "pals.tasks": ["sst"]},
        {**LATER_TASKS, "pals.size": case(4, INERT), "pals.tasks": case(["sst", "sts"], INERT)},
    ),
    "annealed": Base(
        {**TWO, "stages.0.order": "annealed", "stages.0.epochs": 3},
        {
            "stages.0.tasks": case(["sts", "qqp"], REACHES) + case(["qqp"], REACHES),
            "stages.0.order": case("sequential", REACHES),
            # The first epoch's exponent is 1 for any number of epochs.
            "stages.0.annealing": case(0.5, CAREFUL),
            "stages.0.epochs": case(2, CAREFUL),
            "stages.0.max_passes": case(1, INERT),
            "tasks.sts.batch_size": case(3, REACHES),
            "tasks.qqp.probability_factor": case(9, REACHES),
            "tasks.sst.probability_factor": case(9, INERT),
        },
    ),
    "summed": Base(
        {**SUMS, "gradients": "gradvac"},
        {
            "gradients": case("pcgrad", REACHES) + case("sum", REACHES),
            "gradvac_beta": case(0.75, REACHES),
            "cagrad_c": case(0.75, INERT),
            "stages.0.sum_losses": case(False, REACHES),
            "stages.0.order": case("max_size_cycle", REACHES),
            "stages.1.order": case("max_size_cycle", INERT),
            "tasks.sts.probability_factor": case(3, INERT),
        },
    ),
    "summed, weighted": Base(
        {**SUMS, "loss_weighting": "famo"},
        {
            "loss_weighting": case("stch", REACHES) + case("fixed", REACHES),
            "famo_learning_rate": case(0.75, REACHES),
            "stch_mu": case(0.75, INERT),
        },
    ),
    "focal": Base(
        {"tasks.qqp.loss": "focal"},
        {"tasks.qqp.focal_gamma": case(1, REACHES), "tasks.qqp.label_smoothing": case(0.1, INERT)},
    ),
    "cosine": Base(
        {"tasks.qqp.encoding": "bi", "tasks.qqp.head": "cosine"},
        {
            "encoder.start_heads": case(True, INERT, {"encoder.start_from": START}),  # no other loss suits QQP
            "tasks.qqp.cosine_projection": case(False, REACHES),
            "tasks.qqp.probe_rows": case(20, INERT),
        },
    ),
    "triangle": Base(
        {"optimizer.schedule": "slanted_triangular"},
        {"optimizer.warmup_fraction": case(0.5, REACHES), "stages.0.epochs": case(3, REACHES)},
    ),
    "scales": Base(
        CHOSEN,
        {
            "tasks.qqp.chosen_layers": case([1], REACHES) + case([1], INERT, {"optimizer.chosen_scale": 0.5}),
            "optimizer.chosen_scale": case(3, REACHES) + case(0.5, REACHES),
            "optimizer.other_scale": case(0.4, REACHES),
        },
    ),
    "scales of a later task": Base(
        {**CHOSEN, "tasks.qqp.chosen_layers": [], "tasks.sst.chosen_layers": [0]},
        {
            **LATER_TASKS,
            "optimizer.chosen_scale": case(3, INERT),
            "tasks.qqp.chosen_layers": case([1], REACHES),
            "tasks.sst.chosen_layers": case([1], INERT),
        },
    ),
    "teacher of a later task": Base(
        TEACHER,
        {
            **LATER_TASKS,
            "proximal.weight": case(2, INERT) + case(0, REACHES),
            "proximal.tasks": case(["sts"], INERT) + case(["qqp"], REACHES),
            "proximal.decay": case(0.9, REACHES),
            "proximal.late_decay": case(0.5, REACHES) + case(0.99, INERT),  # .99 is the decay itself
        },
    ),
    "teacher of a later task whose decay changes": Base(
        {**TEACHER, "proximal.late_decay": 0.5},
        {
            "proximal.late_decay": case(0.6, REACHES) + case(None, REACHES),
            "proximal.early_fraction": case(0.5, REACHES),
            "stages.0.epochs": case(3, REACHES),
        },
    ),
    "relational": Base(
        {"relational_tasks": ["qqp", "sts"]},
        {"relational_tasks": case(["qqp"], INERT) + case(["sts", "qqp"], INERT) + case(["sts"], REACHES)},
    ),
    "extra data, drawn": Base(
        {"stages.0.extra_data": ["snli"], "stages.0.steps_per_epoch": 6, "stages.0.order": "uniform"},
        {
            "data.sources.snli.path": case("same-snli.csv", INERT) + case("other-snli.csv", REACHES),
            "data.sources.snli.text_columns": case(["same1", "sentence2"], INERT),
            "data.sources.snli.label_column": case("same_label", INERT) + case("turned_label", REACHES),
            "data.sources.snli.id_column": case("same_id", INERT) + case("label", CAREFUL),
            "data.sources.snli.labels": case(["2:0", "0:1"], INERT) + case(["0:1", "1:0", "2:0"], REACHES),
            "data.sources.snli.batch_size": case(5, REACHES),
            "data.sources.snli.probability_factor": case(9, REACHES)
            + case(9, INERT, {"stages.0.order": "batch_round_robin"}),
            "stages.0.extra_data": case([], REACHES),
            "tasks.qqp.probability_factor": case(9, REACHES),
        },
    ),
    "started": Base(
        {"encoder.start_from": START},
        {
            "encoder.start_from": case(SAME_START, INERT) + case(None, REACHES),
            "encoder.start_epoch": case("qqp", REACHES),
        },
    ),
}
"""Each turns a condition of `effective_settings`; cases that do not depend on it are in `ALONE`."""
