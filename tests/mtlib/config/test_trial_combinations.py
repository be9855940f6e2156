"""Rules between groups: violations are refused with the reason, and the nearest valid settings are accepted."""

from typing import Any

import pytest

from tests.config_cases import BASE, override_error

SUMMED = {"stages.0.sum_losses": True}
ALONE = {"stages.0.tasks": ["sst"]}
LAYERS = {"tasks.sst.chosen_layers": [0]}
FLASH: dict[str, Any] = {"encoder.attention": "flash_attention_2", "precision": "bf16"}
FROZEN: dict[str, Any] = {"encoder.trained_layers": []}
COSINE = {"tasks.qqp.encoding": "bi", "tasks.qqp.head": "cosine", "tasks.qqp.cosine_projection": False}
NOTHING_TO_TRAIN = (
    "encoder.trained_layers must not be empty where a task has nothing else to train, as qqp has, got a cosine without "
)
PAPER: dict[str, Any] = {"precision": "bf16", "smart.mode": "paper", "smart.weight": 1.0, "smart.tasks": ["sst"]}
LOST = "smart.mode must not be paper under precision bf16, which rounds its noise away, got paper"
CONTRAST: dict[str, Any] = {"simcse.weight": 1.0, "simcse.tasks": ["sst", "sts"]}
NOT_CHANGED = (
    "simcse.tasks must have PALs where encoder.trained_layers is empty, or the term changes nothing, got ['sts']"
)
NOTHING_SHARED = (
    "gradients must be sum where encoder.trained_layers is empty and no relational layer is shared, got mgda"
)

RULES: list[tuple[dict[str, Any], str, dict[str, Any]]] = [
    # refused changes, the message, and further changes that make them valid
    (
        {"stages.0.extra_data": ["snly"]},
        "unknown extra data in stages.0.extra_data 'snly'; did you mean 'snli'? known: snli, cfimdb",
        {"stages.0.extra_data": ["snli"]},
    ),
    (
        {"stages.0.extra_data": ["snli"], "data.sources.snli.role": "augment"},
        "unknown extra data in stages.0.extra_data 'snli'; known: cfimdb",
        {"data.sources.snli.role": "extra"},
    ),
    (
        {"stages.0.extra_data": ["snli"], "stages.0.tasks": ["sst", "sts"]},
        "stages.0.tasks must hold qqp, which snli is for, got ['sst', 'sts']",
        {"stages.0.tasks": ["qqp", "sts"]},
    ),
    (
        {"stages.0.start_from": "best"},
        "stages.0.start_from must be last in the first stage, which has none before it, got best",
        {"stages.0.start_from": "last"},
    ),
    (
        {"encoder.start_epoch": "best"},
        "unknown encoder.start_epoch 'best'; ",
        {"encoder.start_epoch": "sts"},
    ),
    (
        {"relational_tasks": ["qqp", "qqp"]},
        "relational_tasks must not name a task twice, got ['qqp', 'qqp']",
        {"relational_tasks": ["qqp", "sts"]},
    ),
    (
        {"relational_tasks": ["qqp", "sts"], "tasks.qqp.encoding": "bi", "tasks.qqp.head": "cosine"},
        "relational_tasks must have head linear, got {'qqp': 'cosine', 'sts': 'linear'}",
        {"tasks.qqp.head": "linear", "tasks.sts.encoding": "bi"},
    ),
    (
        {"relational_tasks": ["qqp", "sts"], "tasks.qqp.encoding": "bi"},
        "relational_tasks must all have encoding bi, or none of them: one layer has one width, got",
        {"tasks.sts.encoding": "bi"},
    ),
    (
        {"relational_tasks": ["qqp", "sts"], "tasks.qqp.encoding": "cross_and_bi"},
        "relational_tasks must not have encoding cross_and_bi, whose head reads a comparison of the texts, got {'qqp'",
        {"tasks.qqp.encoding": "cross_no_separator"},
    ),
    (
        {"optimizer.chosen_scale": 2.0, **LAYERS, **SUMMED},
        "optimizer.other_scale and chosen_scale must be 1 where a stage sums the losses of several tasks, got (1.0, 2",
        {"optimizer.chosen_scale": 1.0},
    ),
    (
        {"optimizer.other_scale": 0.0, **LAYERS, **SUMMED},
        "optimizer.other_scale and chosen_scale must be 1 where a stage sums the losses of several tasks, got (0.0, 1",
        ALONE,
    ),
    (
        {"optimizer.other_scale": 0.5},
        "tasks.<name>.chosen_layers must name layers where optimizer.other_scale or chosen_scale is not 1, got none",
        LAYERS,
    ),
    (
        {"optimizer.other_scale": 0.5, **LAYERS, "stages.0.tasks": ["qqp"]},
        "tasks.<name>.chosen_layers must name layers where optimizer.other_scale or chosen_scale is not 1, got none",
        {"stages.0.tasks": ["qqp", "sst"]},
    ),
    (
        {"gradients": "pcgrad"},
        "gradients must be sum unless a stage of several tasks has sum_losses true, got pcgrad",
        SUMMED,
    ),
    (
        {"gradients": "mgda", **SUMMED, **ALONE},
        "gradients must be sum unless a stage of several tasks has sum_losses true, got mgda",
        {"stages.0.tasks": ["sst", "sts"]},
    ),
    (
        {"loss_weighting": "uncertainty", "tasks.sst.loss_weight": 0.1},
        "tasks.<name>.loss_weight must be 1 where loss_weighting is uncertainty, which sets the weights, got {'sst': "
        "0.1,",
        {"tasks.sst.loss_weight": 1.0},
    ),
    (
        {"loss_weighting": "famo"},
        "loss_weighting must be one of fixed, uncertainty, imtl_l unless a stage of several tasks has sum_losses true, "
        "got famo",
        SUMMED,
    ),
    (
        {"loss_weighting": "stch", "gradients": "pcgrad", **SUMMED},
        "gradients must be sum where loss_weighting is stch, which weighs the losses of a step together, got pcgrad",
        {"loss_weighting": "imtl_l"},
    ),
    (
        {"loss_weighting": "uncertainty", "tasks.sst.loss_weight": 0.1},
        "tasks.<name>.loss_weight must be 1 where loss_weighting is uncertainty",
        {"stages.0.tasks": ["qqp", "sts"]},
    ),
    ({**FROZEN, **COSINE}, NOTHING_TO_TRAIN, {"tasks.qqp.cosine_projection": True}),
    ({**FROZEN, **COSINE}, NOTHING_TO_TRAIN, {"tasks.qqp.head": "linear"}),
    ({**FROZEN, **COSINE}, NOTHING_TO_TRAIN, {"pals.size": 12, "pals.tasks": ["qqp"]}),
    ({**FROZEN, **COSINE, "pals.tasks": ["qqp"]}, NOTHING_TO_TRAIN, {"pals.size": 12}),
    ({**FROZEN, **COSINE}, NOTHING_TO_TRAIN, {"encoder.trained_layers": [0]}),
    (
        {**FROZEN, "adapter.method": "lora"},
        "encoder.trained_layers must be none where adapter.method is not none: the encoder's own weights are frozen, "
        "got ()",
        {"encoder.trained_layers": None},
    ),
    (
        {"encoder.gradient_checkpointing": True, "pals.size": 12, "pals.tasks": ["sst"]},
        "encoder.gradient_checkpointing must be false with PALs, which hooks add in the forward pass alone, got True",
        {"encoder.gradient_checkpointing": False},
    ),
    (
        {"encoder.gradient_checkpointing": True, "simcse.weight": 1, "simcse.tasks": ["sst"], "simcse.dropout": 0.1},
        "encoder.gradient_checkpointing must be false with simcse.dropout, which acts in the forward pass alone, "
        "got True",
        {"simcse.dropout": None},
    ),
    (
        {"encoder.attention": "flash_attention_2"},
        "precision must be bf16 or auto with encoder.attention flash_attention_2, got fp32",
        {"precision": "bf16"},
    ),
    (
        {**FLASH, "smart.weight": 1, "smart.tasks": ["sst"]},
        "encoder.attention must not be flash_attention_2 with SMART, which needs passes in fp32, got flash_attention_2",
        {"encoder.attention": "sdpa"},
    ),
    ({**FROZEN, **COSINE}, NOTHING_TO_TRAIN, {"encoder.trained_layers": None}),
    ({**FROZEN, **COSINE}, NOTHING_TO_TRAIN, {"stages.0.tasks": ["sst", "sts"]}),
    (
        {**FROZEN, **CONTRAST, "pals.size": 12, "pals.tasks": ["sst"]},
        NOT_CHANGED,
        {"pals.tasks": ["sst", "sts"]},
    ),
    ({**FROZEN, **CONTRAST, "pals.size": 12, "pals.tasks": ["sst"]}, NOT_CHANGED, {"simcse.tasks": ["sst"]}),
    ({**FROZEN, **CONTRAST, "pals.size": 12, "pals.tasks": ["sst"]}, NOT_CHANGED, {"simcse.weight": 0.0}),
    ({**FROZEN, **CONTRAST, "pals.size": 12, "pals.tasks": ["sst"]}, NOT_CHANGED, {"encoder.trained_layers": [0]}),
    ({**FROZEN, **SUMMED, "gradients": "mgda"}, NOTHING_SHARED, {"relational_tasks": ["qqp", "sts"]}),
    ({**FROZEN, **SUMMED, "gradients": "mgda", "relational_tasks": ["qqp"]}, NOTHING_SHARED, {"gradients": "sum"}),
    ({**FROZEN, **SUMMED, "gradients": "mgda"}, NOTHING_SHARED, {"encoder.trained_layers": [11]}),
    (
        {**FROZEN, "optimizer.layer_decay": 0.9},
        "optimizer.layer_decay must be 1 where encoder.trained_layers is empty, got 0.9",
        {"optimizer.layer_decay": 1.0},
    ),
    (
        {**FROZEN, "optimizer.layer_decay": 0.9},
        "optimizer.layer_decay must be 1 where encoder.trained_layers is empty, got 0.9",
        {"encoder.trained_layers": [0]},
    ),
    (PAPER, LOST, {"precision": "fp32"}),
    (PAPER, LOST, {"smart.mode": "unit_norm"}),
    (PAPER, LOST, {"smart.weight": 0.0}),
]


@pytest.mark.parametrize(("changes", "line", "remedy"), RULES)
def test_an_invalid_combination_is_refused_and_its_remedy_is_accepted(
    changes: dict[str, Any], line: str, remedy: dict[str, Any]
) -> None:
    assert override_error(changes).startswith(line)
    changed = BASE.override({**changes, **remedy})
    assert type(changed).from_json(changed.to_json()) == changed


@pytest.mark.parametrize("group", ["smart", "proximal", "simcse", "pals"])
def test_an_unknown_task_is_refused_with_the_nearest_name(group: str) -> None:
    line = "unknown task 'qpp'; did you mean 'qqp'? known: qqp, sst, sts"
    assert override_error({f"{group}.tasks": "qpp"}) == line
    assert override_error({"relational_tasks": "qpp"}) == line
    assert override_error({"stages.0.tasks": "qpp"}) == line


def test_a_later_stage_may_start_from_the_best_epoch_of_the_one_before() -> None:
    stage = BASE.stages[0]
    config = BASE.override({"stages": [stage, stage], "stages.1.start_from": "best"})
    assert [part.start_from for part in config.stages] == ["last", "best"]


TURNED_ON: dict[str, dict[str, Any]] = {
    "smart.tasks": {"smart.weight": 1e-9},
    "proximal.tasks": {"proximal.weight": 1e-9},
    "simcse.tasks": {"simcse.weight": 1e-9},
    "pals.tasks": {"pals.size": 12},
    "relational_tasks": {},
}


@pytest.mark.parametrize("key", TURNED_ON)
def test_an_active_term_needs_a_trained_task_and_may_have_others(key: str) -> None:
    changes = {**ALONE, **TURNED_ON[key]}
    line = f"{key} must name a task that some stage trains (sst), got ['qqp', 'sts']"
    assert override_error({**changes, key: ["qqp", "sts"]}) == line
    for tasks in (["qqp", "sst"], ["sst"]):
        config = BASE.override({**changes, key: tasks})
        assert {name: own for name, own in config.tasks_by_group.items() if own} == {key: tuple(tasks)}
    later = {"stages": [*BASE.override(ALONE).stages, {"tasks": ["sts"]}]}
    assert BASE.override({**changes, **later, key: ["qqp", "sts"]}).active_tasks == ("sst", "sts")


@pytest.mark.parametrize("group", ["smart", "proximal", "simcse", "pals"])
def test_an_inactive_term_may_have_an_untrained_task(group: str) -> None:
    config = BASE.override({**ALONE, f"{group}.tasks": ["qqp"]})
    assert config.active_tasks == ("sst",)
    assert set(config.tasks_by_group.values()) == {()}
