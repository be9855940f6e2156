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


def cases(group: str, verdict: str, **values: Any) -> Table:
    """A case with the same verdict for each of some fields of a group."""
    return {f"{group}.{name}" if group else name: case(value, verdict) for name, value in values.items()}


BI = {f"tasks.{task}.encoding": "bi" for task in ("qqp", "sts")}
SUMMED = {"stages.1.order": "batch_round_robin", "stages.1.sum_losses": True}
LORA = {"adapter.method": "lora"}
CHOSEN_LATER = {"tasks.sst.chosen_layers": [0]}
OF_TASK: dict[str, Any] = {
    "batch_size": 3,
    "prefix": "a film ",
    "pooling": "mean",
    "label_smoothing": 0.1,
    "hidden_units": 5,
    "loss_weight": 2,
    "probe_rows": 20,
}
"""Settings that count where a task is trained, whichever it is."""
OF_OTHER_METHODS: dict[str, Any] = {
    "ordinal_alpha": 2,
    "dual_reduction": "sum",
    "focal_gamma": 1,
    "cosine_projection": False,
    "probability_factor": 3,
    "chosen_layers": [0],
}
"""Settings that count only with another loss, head, order or rate."""
OF_SOURCE: dict[str, Any] = {
    "task": "sts",
    "path": "elsewhere.csv",
    "label_column": "other",
    "id_column": "other",
    "labels": ["0:1"],
    "dev_split": "validation",
    "batch_size": 5,
    "probability_factor": 3,
}
OF_STAGE: dict[str, Any] = {"annealing": 0.5, "max_passes": 1, "reset_optimizer": True}

ALONE: Table = {
    **cases(
        "encoder", REACHES, dropout=0.2, attention_dropout=0.2, max_length=12, trained_layers=[1], start_from=START
    ),
    **cases("encoder", INERT, name="another", start_epoch="qqp"),
    **cases("encoder", CAREFUL, attention="eager", gradient_checkpointing=True),
    "encoder.start_heads": case(True, REACHES, {"encoder.start_from": START}),
    **cases("adapter", INERT, alpha=3, dropout=0.3, targets=["key"]),
    "adapter.method": case("lora", REACHES),
    "adapter.rank": case(3, INERT) + case(3, REACHES, LORA),
    **cases("pals", INERT, num_heads=4, tasks=["qqp"], placement="layer", function="identity", zero_start=True),
    "pals.size": case(8, INERT, {"pals.tasks": ["sst"], "pals.num_heads": 2}),
    # QQP, which the first stage trains, has a plain loss and a linear head.
    **cases("tasks.qqp", REACHES, **OF_TASK, loss="cross_entropy", encoding="bi", class_weights="balanced"),
    **cases("tasks.qqp", INERT, **OF_OTHER_METHODS),
    "tasks.qqp.head": case("cosine", REACHES, BI),
    "tasks.qqp.target_scale": case("unit", REFUSED),
    "tasks.qqp.scored_train_rows": case(7, SCORES),
    # The other tasks follow in the second stage.
    **cases(
        "tasks.sst", INERT, **OF_TASK, **OF_OTHER_METHODS, scored_train_rows=7, loss="focal", class_weights="balanced"
    ),
    **cases("tasks.sst", REFUSED, encoding="bi", head="cosine", target_scale="unit"),
    **cases("tasks.sts", INERT, **OF_TASK, **OF_OTHER_METHODS, scored_train_rows=7, encoding="bi", target_scale="unit"),
    **cases("tasks.sts", REFUSED, loss="focal", class_weights="balanced"),
    "tasks.sts.head": case("cosine", INERT, BI),
    **cases("stages.0", INERT, **OF_STAGE, order="annealed", sum_losses=True, epochs=3),
    **cases("stages.0", REACHES, extra_data=["snli"], micro_batch_size=2),
    "stages.0.tasks": case(["qqp", "sts"], REACHES) + case(["sst"], REACHES),
    "stages.0.score_every": case(2, SCORES, {"stages.0.epochs": 3}) + case(3, INERT, {"stages.0.epochs": 1}),
    "stages.0.steps_per_epoch": case(5, REACHES) + case(None, REACHES),
    "stages.0.patience": case(1, INERT),
    "stages.0.start_from": case("best", REFUSED),
    **cases("stages.1", INERT, **OF_STAGE, order="annealed", sum_losses=True, epochs=7, score_every=2),
    **cases("stages.1", INERT, extra_data=["cfimdb", "snli"], steps_per_epoch=9, micro_batch_size=2, patience=1),
    "stages.1.tasks": case(["sst", "qqp"], INERT) + case(["sts"], INERT, {"smart.tasks": ["sst", "sts"]}),
    "stages.1.start_from": case("best", BEST),
    **cases("optimizer", REACHES, learning_rate=2e-3, weight_decay=0.1, layer_decay=0.9, beta1=0.8, beta2=0.99),
    **cases("optimizer", REACHES, epsilon=1e-6, schedule="slanted_triangular", average_power=1.0, clip_norm=1.0),
    "optimizer.head_learning_rate": case(2e-3, REACHES) + case(1e-3, INERT),  # 1e-3 is the rate itself
    "optimizer.decay_biases_and_norms": case(False, REACHES) + case(False, INERT, {"optimizer.weight_decay": 0}),
    "optimizer.chosen_scale": case(2, INERT, CHOSEN_LATER),
    "optimizer.other_scale": case(2, REACHES, CHOSEN_LATER),
    "optimizer.warmup_fraction": case(0.5, INERT),
    **cases("smart", INERT, weight=2, mode="random", noise_std=1e-3, step_size=1e-2, epsilon=1e-2, num_steps=2),
    **cases("smart", INERT, reduction="sum", masks="shared", every_batches=2, row_share=0.5),
    "smart.tasks": case(["sst", "sts"], INERT) + case(["qqp"], REACHES) + case(["qqp"], INERT, {"smart.weight": 0}),
    **cases("proximal", INERT, tasks=["qqp"], decay=0.9, late_decay=0.5, early_fraction=0.5),
    "proximal.weight": case(1, REACHES, {"proximal.tasks": ["sst"]}),  # the teacher is in the state
    **cases("simcse", INERT, tasks=["qqp"], temperature=0.1, projection="none", dropout=0.2),
    "simcse.weight": case(1, INERT, {"simcse.tasks": ["sst"]}),
    **cases("distillation", INERT, tasks=["qqp"], temperature=2, label_weight=0.5),
    "distillation.weight": case(1, REFUSED, {"distillation.tasks": ["qqp"]}),  # no data have a teacher
    **{f"data.sources.{name}.teacher_columns": case(["a"], REFUSED) for name in ("cfimdb", "snli")},
    # Extra data that the first stage does not use; augmentation joins its task's rows.
    **cases("data.sources.cfimdb", INERT, **OF_SOURCE, text_columns=["a"], role="augment"),
    **cases("data.sources.snli", INERT, **OF_SOURCE, text_columns=["a", "b"]),
    "data.sources.snli.role": case("augment", REACHES),
    **cases("data", REACHES, bucket_by_length=False, hold_out=0.2),
    "data.bucket_batches": case(0, REACHES) + case(1, INERT, {"data.bucket_by_length": False}),
    **cases("evaluation", SCORES, batch_size=5, batch_tokens=40),
    "relational_tasks": case(["sst"], INERT) + case(["sts", "qqp"], REACHES),
    "loss_weighting": case("uncertainty", REACHES) + case("famo", INERT, SUMMED),
    **cases("", INERT, famo_learning_rate=0.75, famo_weight_decay=0.75, dwa_temperature=0.75, stch_mu=0.75),
    "gradients": case("pcgrad", INERT, SUMMED),
    **cases("", INERT, cagrad_c=0.75, fairgrad_alpha=0.75, gradvac_beta=0.75),
    **cases("", INERT, excess_mtl_step_size=0.75, excess_mtl_warmup_steps=7),
    **cases("", REACHES, precision="bf16", seed=1, replicate=1),
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
    "no warm-up": Base(
        {"optimizer.warmup_fraction": 0},
        {"optimizer.schedule": case("constant_with_warmup", INERT) + case("cosine", REACHES)},
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
