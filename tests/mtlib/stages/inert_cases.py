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

PAIR = ("qqp", "sts")
BI = {f"tasks.{task}.encoding": "bi" for task in PAIR}
OTHER_LOSS = {"sst": "ordinal_log_loss", "qqp": "cross_entropy", "sts": "mean_squared_error"}


def active_task(task: str) -> Table:
    """A task that the first stage trains, alone, with a plain loss and a linear head."""
    is_pair = task in PAIR
    fields = {
        "batch_size": case(3, REACHES),
        "loss": case(OTHER_LOSS[task], REFUSED if task == "sts" else REACHES),
        "ordinal_alpha": case(2, INERT),
        "dual_reduction": case("sum", INERT),
        "encoding": case("bi", REACHES if is_pair else REFUSED),
        "pooling": case("mean", REACHES),
        "head": case("cosine", *((REACHES, {f"tasks.{task}.encoding": "bi"}) if is_pair else (REFUSED,))),
        "hidden_units": case(5, REACHES),
        "cosine_projection": case(False, INERT),
        "loss_weight": case(2, REACHES),
        "target_scale": case("unit", REACHES if task == "sts" else REFUSED),
        "probability_factor": case(3, INERT),
        "chosen_layers": case([0], INERT),
        "probe_rows": case(20, REACHES),
        "scored_train_rows": case(7, SCORES),
    }
    return {f"tasks.{task}.{name}": cases for name, cases in fields.items()}


def later_task(task: str) -> Table:
    """A task that only a later stage trains: none of its settings affects the first."""
    is_allowed = {"loss": task != "sts", "encoding": task in PAIR, "head": task in PAIR, "target_scale": task == "sts"}
    return {
        key: [
            Case(found.value, INERT if is_allowed.get(key.rpartition(".")[2], True) else REFUSED, found.under)
            for found in cases
        ]
        for key, cases in active_task(task).items()
    }


def unnamed_source(name: str, joins: str) -> Table:
    """Extra data that the first stage does not use; augmentation joins its task's rows."""
    fields = {
        "task": case("sts", INERT),
        "path": case("elsewhere.csv", INERT),
        "role": case("augment", joins),
        "text_columns": case(["a", "b"] if name == "snli" else ["a"], INERT),
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
    "encoder.trained_layers": case([1], REACHES) + case([], REACHES),
    "encoder.start_from": case(START, REACHES),
    "encoder.start_epoch": case("qqp", INERT),
    "encoder.start_heads": case(True, REACHES, {"encoder.start_from": START}),
    "encoder.attention": case("eager", CAREFUL),
    "encoder.gradient_checkpointing": case(True, CAREFUL),
    "adapter.method": case("lora", REACHES),
    "adapter.rank": case(3, INERT) + case(3, REACHES, LORA),
    "adapter.alpha": case(3, INERT) + case(3, REACHES, LORA),
    "adapter.dropout": case(0.3, INERT) + case(0.3, REACHES, LORA),
    "adapter.targets": case(["key"], INERT) + case(["key"], REACHES, LORA),
    "pals.size": case(8, INERT, {"pals.tasks": ["sst"], "pals.num_heads": 2}),
    "pals.num_heads": case(4, INERT),
    "pals.tasks": case(["qqp"], INERT),
    "pals.placement": case("layer", INERT),
    "pals.function": case("identity", INERT) + case("low_rank", INERT),
    "pals.zero_start": case(True, INERT),
    **later_task("sst"),
    **active_task("qqp"),
    **later_task("sts"),
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
    "optimizer.decay_biases_and_norms": case(False, REACHES),
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
    "smart.tasks": case(["sst", "sts"], INERT) + case(["qqp"], REACHES),
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
    **unnamed_source("cfimdb", INERT),
    **unnamed_source("snli", REACHES),
    "data.bucket_by_length": case(False, REACHES),
    "data.bucket_batches": case(0, REACHES),
    "data.hold_out": case(0.2, REACHES),
    "evaluation.batch_size": case(5, SCORES),
    "evaluation.batch_tokens": case(40, SCORES),
    "relational_tasks": case(["sst"], INERT) + case(["sts", "qqp"], REACHES),
    "loss_weighting": case("uncertainty", REACHES),
    "gradients": case("pcgrad", INERT, SUMMED),
    "precision": case("bf16", REACHES),
    "seed": case(1, REACHES),
    "replicate": case(1, REACHES),
}
"""QQP alone, then all three; SMART on SST only; everything else is off."""

SMART_FIELDS = (
    *("weight", "noise_std", "step_size", "epsilon", "num_steps", "reduction", "masks", "every_batches", "row_share"),
)
PALS_FIELDS = ("size", "num_heads", "placement", "function", "zero_start")


def verdicts(group: str, names: tuple[str, ...], verdict: str) -> Table:
    """The values of some fields in `ALONE`, with another verdict."""
    keys = [f"{group}.{name}" for name in names]
    return {key: [Case(found.value, verdict, {}) for found in ALONE[key]] for key in keys}


def refused(*keys: str) -> Table:
    return {key: [Case(found.value, REFUSED, found.under) for found in ALONE[key]] for key in keys}


@dataclass(frozen=True)
class Base:
    """A configuration, and the cases that differ from `ALONE`."""

    changes: Mapping[str, Any]
    differing: Table


SMART = {"smart.tasks": ["qqp", "sst"], "smart.noise_std": 1e-2}
SMART_ON = {
    **verdicts("smart", SMART_FIELDS, REACHES),
    "smart.tasks": case(["qqp"], INERT) + case(["qqp", "sst", "sts"], INERT) + case(["sst"], REACHES),
    "smart.mode": case("paper", REACHES) + case("random", REACHES),
}
PALS = {"pals.size": 8, "pals.num_heads": 2}
PALS_ON = {
    **refused("encoder.gradient_checkpointing"),
    **verdicts("pals", PALS_FIELDS, REACHES),
    "pals.size": case(4, REACHES),
    "pals.tasks": case(["sst", "qqp"], INERT) + case(["sst"], REACHES),
}
LATER_TASKS = {"stages.1.tasks": case(["sst", "qqp"], INERT)}
PALS_LATER = {
    **refused("encoder.gradient_checkpointing"),
    **verdicts("pals", PALS_FIELDS, INERT),
    "pals.tasks": case(["sst", "sts"], INERT),
    **LATER_TASKS,
}
TWO = {"stages.0.tasks": ["qqp", "sts"], "stages.0.steps_per_epoch": 6}
TWO_SETS: Table = {
    **active_task("sts"),
    "stages.0.tasks": case(["sts", "qqp"], REACHES) + case(["qqp"], REACHES),
    "stages.0.order": case("sequential", REACHES),
    "stages.0.sum_losses": case(True, REACHES),
    "stages.0.steps_per_epoch": case(5, REACHES) + case(None, REACHES),
    "stages.1.tasks": case(["sst"], INERT),
    "smart.tasks": case(["sst", "sts"], REACHES) + case(["qqp"], REACHES),
}
DRAWN: Table = {
    **TWO_SETS,
    "stages.0.sum_losses": case(True, REFUSED),
    "tasks.qqp.probability_factor": case(9, REACHES),
    "tasks.sts.probability_factor": case(9, REACHES),
}
CHOSEN = {"optimizer.chosen_scale": 2, "optimizer.other_scale": 0.5, "tasks.qqp.chosen_layers": [0]}
WITHOUT_SUMS = refused("stages.1.sum_losses", "gradients")
SST_ALONE: Table = {
    **active_task("sst"),
    **later_task("qqp"),
    "stages.0.tasks": case(["qqp"], REACHES),
    "stages.0.extra_data": case(["cfimdb"], REACHES),
    "stages.1.tasks": case(["qqp"], INERT),
    "encoder.start_epoch": case("sst", INERT),
    "optimizer.chosen_scale": case(2, INERT, {"tasks.qqp.chosen_layers": [0]}),
    "optimizer.other_scale": case(2, REACHES, {"tasks.qqp.chosen_layers": [0]}),
    "smart.tasks": case(["sts", "qqp"], INERT) + case(["sst"], REACHES),
    "simcse.weight": case(1, INERT, {"simcse.tasks": ["qqp"]}),
    "proximal.weight": case(1, REACHES, {"proximal.tasks": ["qqp"]}),
    "pals.size": case(8, INERT, {"pals.tasks": ["qqp"], "pals.num_heads": 2}),
    "relational_tasks": case(["qqp"], INERT) + case(["sst"], REACHES),
    **unnamed_source("cfimdb", REACHES),
    **unnamed_source("snli", INERT),
}
SST = {"stages.0.tasks": ["sst"], "smart.tasks": ["qqp"]}
EXTRA = {"stages.0.extra_data": ["snli"], "stages.0.steps_per_epoch": 6}
NAMED_SOURCE: Table = {
    "data.sources.snli.task": case("sts", REFUSED),
    "data.sources.snli.path": case("same-snli.csv", INERT) + case("other-snli.csv", REACHES),
    "data.sources.snli.role": case("augment", REFUSED),
    "data.sources.snli.text_columns": case(["same1", "sentence2"], INERT) + case(["sentence2", "sentence1"], REACHES),
    "data.sources.snli.label_column": case("same_label", INERT) + case("turned_label", REACHES),
    "data.sources.snli.id_column": case("same_id", INERT) + case("label", CAREFUL),
    "data.sources.snli.labels": case(["2:0", "0:1"], INERT) + case(["0:1", "1:0", "2:0"], REACHES),
    "data.sources.snli.batch_size": case(5, REACHES),
    "stages.0.tasks": case(["sts"], REFUSED) + case(["qqp", "sts"], REACHES),
    "stages.0.extra_data": case([], REACHES),
    "stages.0.order": case("sequential", REACHES),
    "stages.0.sum_losses": case(True, REACHES),
}

BASES: dict[str, Base] = {
    "alone": Base({}, {}),
    "smart": Base(SMART, SMART_ON),
    "smart, paper": Base(
        {**SMART, "smart.mode": "paper", "smart.epsilon": 0.1},
        SMART_ON | {"smart.mode": case("unit_norm", REACHES), "precision": case("bf16", REFUSED)},
    ),
    "smart, random": Base(
        {**SMART, "smart.mode": "random"},
        SMART_ON | {"smart.mode": case("paper", REACHES)} | verdicts("smart", ("step_size", "num_steps"), INERT),
    ),
    "smart, weight 0": Base(
        {"smart.weight": 0, "smart.tasks": ["qqp"]},
        {"smart.tasks": case(["qqp", "sst"], INERT) + case([], INERT), "smart.weight": case(1, REACHES)},
    ),
    "pals": Base({**PALS, "pals.tasks": ["qqp"]}, PALS_ON | {"pals.num_heads": case(4, REACHES)}),
    **{
        f"{function} beside layers": Base(
            {**PALS, "pals.tasks": ["qqp"], "pals.function": function},
            PALS_ON
            | {"pals.num_heads": case(5, INERT)}
            | {"pals.function": case("attention", REACHES) + case(other, REACHES)},
        )
        for function, other in (("identity", "low_rank"), ("low_rank", "identity"))
    },
    "pals of a later task": Base({**PALS, "pals.tasks": ["sst"]}, PALS_LATER | {"pals.size": case(4, INERT)}),
    "two sets": Base({**TWO, "stages.0.order": "batch_round_robin"}, TWO_SETS),
    "uniform": Base({**TWO, "stages.0.order": "uniform"}, DRAWN),
    "annealed": Base(
        {**TWO, "stages.0.order": "annealed", "stages.0.epochs": 3},
        # The first epoch's exponent is 1 for any number of epochs.
        DRAWN | {"stages.0.annealing": case(0.5, CAREFUL), "stages.0.epochs": case(2, CAREFUL)},
    ),
    "not annealed": Base(
        {**TWO, "stages.0.order": "annealed", "stages.0.annealing": 0},
        DRAWN | {"stages.0.annealing": case(0.5, CAREFUL)},
    ),
    "summed": Base(
        {**TWO, **SUMMED, "stages.0.sum_losses": True, "gradients": "mgda"},
        TWO_SETS
        | {
            "encoder.trained_layers": case([1], REACHES) + case([], REFUSED),
            "gradients": case("pcgrad", REACHES) + case("sum", REACHES),
            "stages.0.sum_losses": case(False, REACHES),
            "stages.0.order": case("max_size_cycle", REACHES) + case("uniform", REFUSED),
            "stages.1.sum_losses": case(False, INERT),
            "stages.1.order": case("max_size_cycle", INERT) + case("annealed", REFUSED),
            **refused("optimizer.chosen_scale", "optimizer.other_scale"),
            "relational_tasks": case(["sst"], INERT),
        },
    ),
    "sst, ordinal": Base(
        {**SST, "tasks.sst.loss": "ordinal_log_loss"},
        SST_ALONE
        | {
            "tasks.sst.ordinal_alpha": case(2, REACHES),
            "tasks.sst.loss": case("dual_objective_cross_entropy", REACHES),
        },
    ),
    "sst, dual": Base(
        {**SST, "tasks.sst.loss": "dual_objective_cross_entropy"},
        SST_ALONE | {"tasks.sst.dual_reduction": case("sum", REACHES)},
    ),
    "cosine": Base(
        {"tasks.qqp.encoding": "bi", "tasks.qqp.head": "cosine"},
        {
            **refused("tasks.qqp.loss", "tasks.qqp.hidden_units"),
            "tasks.qqp.encoding": case("cross", REFUSED),
            "encoder.start_heads": case(True, INERT, {"encoder.start_from": START}),  # no other loss suits QQP
            "tasks.qqp.cosine_projection": case(False, REACHES),
            "tasks.qqp.probe_rows": case(20, INERT),
            "tasks.qqp.head": case("linear", REACHES),
            "relational_tasks": case(["sst"], INERT) + case(["qqp"], REFUSED),
        },
    ),
    "triangle": Base(
        {"optimizer.schedule": "slanted_triangular"},
        {
            "optimizer.schedule": case("constant", REACHES),
            "optimizer.warmup_fraction": case(0.5, REACHES),
            "stages.0.epochs": case(3, REACHES),
        },
    ),
    "scales": Base(
        CHOSEN,
        {
            **WITHOUT_SUMS,
            "tasks.qqp.chosen_layers": case([1], REACHES),
            "optimizer.chosen_scale": case(3, REACHES) + case(0.5, REACHES),
            "optimizer.other_scale": case(0.4, REACHES),
        },
    ),
    "one scale": Base(
        {**CHOSEN, "optimizer.chosen_scale": 0.5},
        {
            **WITHOUT_SUMS,
            "tasks.qqp.chosen_layers": case([1], INERT),
            "optimizer.chosen_scale": case(3, REACHES),
            "optimizer.other_scale": case(0.4, REACHES),
        },
    ),
    "scales of a later task": Base(
        {**CHOSEN, "tasks.qqp.chosen_layers": [], "tasks.sst.chosen_layers": [0]},
        {
            **LATER_TASKS,
            **WITHOUT_SUMS,
            "optimizer.chosen_scale": case(3, INERT) + case(0.5, INERT),
            "tasks.qqp.chosen_layers": case([1], REACHES),
            "tasks.sst.chosen_layers": case([1], INERT),
        },
    ),
    "head rate": Base({"optimizer.head_learning_rate": 3e-3}, {"optimizer.head_learning_rate": case(None, REACHES)}),
    "no decay": Base({"optimizer.weight_decay": 0}, {"optimizer.decay_biases_and_norms": case(False, INERT)}),
    "teacher of a later task": Base(
        {"proximal.weight": 1, "proximal.tasks": ["sst"]},
        {
            **LATER_TASKS,
            "proximal.weight": case(2, INERT) + case(0, REACHES),
            "proximal.tasks": case(["sts"], INERT),
            "proximal.decay": case(0.9, REACHES),
            "proximal.late_decay": case(0.5, REACHES) + case(0.99, INERT),
        },
    ),
    "teacher of a later task whose decay changes": Base(
        {"proximal.weight": 1, "proximal.tasks": ["sst"], "proximal.late_decay": 0.5},
        {
            **LATER_TASKS,
            "proximal.weight": case(2, INERT) + case(0, REACHES),
            "proximal.tasks": case(["sts"], INERT),
            "proximal.decay": case(0.9, REACHES, {"proximal.early_fraction": 0.5}),
            "proximal.late_decay": case(0.6, REACHES) + case(None, REACHES),
            "proximal.early_fraction": case(0.5, REACHES),
            "stages.0.epochs": case(3, REACHES),
        },
    ),
    "teacher": Base(
        {"proximal.weight": 1, "proximal.tasks": ["qqp"]},
        {
            "proximal.weight": case(2, REACHES),
            "proximal.tasks": case(["sst", "qqp"], INERT) + case(["sst"], REACHES),
            "proximal.decay": case(0.9, REACHES),
            "proximal.late_decay": case(0.5, REACHES) + case(0.99, INERT),  # .99 is the decay itself
        },
    ),
    "teacher whose decay changes": Base(
        {"proximal.weight": 1, "proximal.tasks": ["qqp"], "proximal.late_decay": 0.5, "proximal.early_fraction": 0.3},
        {
            "proximal.weight": case(2, REACHES),
            "proximal.tasks": case(["sst", "qqp"], INERT) + case(["sst"], REACHES),
            "proximal.decay": case(0.9, REACHES),
            "proximal.late_decay": case(0.6, REACHES) + case(None, REACHES),
            "proximal.early_fraction": case(0.6, REACHES),
            "stages.0.epochs": case(3, REACHES),
        },
    ),
    "simcse": Base(
        {"simcse.weight": 1, "simcse.tasks": ["qqp"]},
        {
            "encoder.trained_layers": case([1], REACHES) + case([], REFUSED),
            **verdicts("simcse", ("temperature", "projection", "dropout"), REACHES),
            **refused("stages.0.micro_batch_size", "stages.1.micro_batch_size"),
            "simcse.weight": case(2, REACHES),
            "simcse.tasks": case(["sst", "qqp"], INERT) + case(["sst"], REACHES),
        },
    ),
    "learned weights": Base(
        {"loss_weighting": "uncertainty"},
        {
            "loss_weighting": case("fixed", REACHES),
            **refused(*(f"tasks.{task}.loss_weight" for task in ("sst", "qqp", "sts"))),
        },
    ),
    "relational": Base(
        {"relational_tasks": ["qqp", "sts"]},
        {
            "relational_tasks": case(["qqp"], INERT) + case(["sts", "qqp"], INERT) + case(["sts"], REACHES),
            "tasks.qqp.encoding": case("bi", REFUSED),
            "tasks.sts.encoding": case("bi", REFUSED),
            **refused("tasks.qqp.head", "tasks.sts.head"),
        },
    ),
    "no buckets": Base(
        {"data.bucket_by_length": False},
        {"data.bucket_by_length": case(True, REACHES), "data.bucket_batches": case(1, INERT)},
    ),
    "extra data": Base(EXTRA, NAMED_SOURCE),
    "extra data, drawn": Base(
        {**EXTRA, "stages.0.order": "uniform"},
        {
            **NAMED_SOURCE,
            "stages.0.sum_losses": case(True, REFUSED),
            "tasks.qqp.probability_factor": case(9, REACHES),
            "data.sources.snli.probability_factor": case(9, REACHES),
        },
    ),
    "started": Base(
        {"encoder.start_from": START},
        {
            "encoder.start_from": case(SAME_START, INERT) + case(None, REACHES),
            "encoder.start_epoch": case("qqp", REACHES),
            "encoder.start_heads": case(True, REACHES),
        },
    ),
    "started with heads": Base(
        {"encoder.start_from": START, "encoder.start_heads": True},
        {
            "encoder.start_from": case(SAME_START, INERT) + case(None, REFUSED),
            "encoder.start_epoch": case("qqp", REACHES),
            "encoder.start_heads": case(False, REACHES),
            "tasks.qqp.probe_rows": case(20, CAREFUL),
        },
    ),
}
