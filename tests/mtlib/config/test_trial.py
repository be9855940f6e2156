"""`TrialConfig`: rules between groups, canonical JSON, and a hash that is equal for equal configurations."""

import dataclasses
import json
from typing import Any

import pytest

from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig, used_settings
from mtlib.tasks import TASKS
from tests.config_cases import BASE, PENALIZED, override_error

SST_ALONE = TrialConfig(stages=(StageConfig(tasks=("sst",)),))


SUMMED = {"stages.0.sum_losses": True}
LAYERS = {"tasks.sst.chosen_layers": [0], "optimizer.other_scale": 0.5}
BI = {"tasks.qqp.encoding": "bi"}
FROZEN: dict[str, Any] = {"encoder.trained_layers": []}
COSINE = {**BI, "tasks.qqp.head": "cosine", "tasks.qqp.cosine_projection": False}
PALS = {"pals.size": 12, "pals.tasks": ["sst"]}
CONTRAST: dict[str, Any] = {"simcse.weight": 1.0, "simcse.tasks": ["sst", "sts"]}
SHARED = {"relational_tasks": ["qqp", "sts"]}
CHECKPOINTING = {"encoder.gradient_checkpointing": True}
FLASH: dict[str, Any] = {"encoder.attention": "flash_attention_2", "precision": "bf16"}
PARTS = {"stages.0.micro_batch_size": 4}
WEIGHTED = {"loss_weighting": "uncertainty", "tasks.sst.loss_weight": 0.1}


# Refused changes, words of the message, and a further change that makes them valid.
RULES: list[tuple[dict[str, Any], str, dict[str, Any]]] = [
    ({"seed": -1}, "seed must be at least 0", {"seed": 0}),
    ({"replicate": -1}, "replicate must be at least 0", {"replicate": 0}),
    ({"stages": []}, "stages", {"stages": [{"tasks": ["sst"]}]}),
    (
        {"stages.0.extra_data": ["snli"], "stages.0.tasks": ["sst", "sts"]},
        "stages.0.tasks must hold qqp",
        {"stages.0.tasks": ["qqp", "sts"]},
    ),
    ({"stages.0.start_from": "best"}, "stages.0.start_from must be last", {"stages.0.start_from": "last"}),
    ({**SHARED, **BI}, "one layer has one width", {"tasks.sts.encoding": "bi"}),
    ({**LAYERS, **SUMMED}, "must be 1 where a stage sums", {"stages.0.tasks": ["sst"]}),
    ({"optimizer.other_scale": 0.5}, "chosen_layers must name layers", LAYERS),
    ({"gradients": "pcgrad"}, "gradients must be sum unless", SUMMED),
    (WEIGHTED, "loss_weight must be 1", {"stages.0.tasks": ["qqp", "sts"]}),
    ({"loss_weighting": "famo"}, "loss_weighting must be one of fixed, ", SUMMED),
    ({"loss_weighting": "stch", "gradients": "pcgrad", **SUMMED}, "gradients must be sum where", {"gradients": "sum"}),
    ({**PARTS, **CONTRAST}, "micro_batch_size must be none", {"simcse.weight": 0.0}),
    (
        {**FROZEN, **COSINE},
        "must not be empty where a task has nothing else to train, as qqp has",
        {"pals.size": 12, "pals.tasks": ["qqp"]},
    ),
    ({**FROZEN, "adapter.method": "lora"}, "encoder.trained_layers must be none", {"adapter.method": "none"}),
    ({**CHECKPOINTING, **PALS}, "must be false with PALs", {"pals.size": 0}),
    ({**CHECKPOINTING, **CONTRAST, "simcse.dropout": 0.1}, "must be false with simcse.dropout", {"simcse.weight": 0}),
    ({**FLASH, "precision": "fp32"}, "precision must be bf16 or auto", {"encoder.attention": "sdpa"}),
    ({**FLASH, "smart.weight": 1, "smart.tasks": ["sst"]}, "flash_attention_2 with SMART", {"smart.weight": 0}),
    ({**FROZEN, **CONTRAST, **PALS}, "simcse.tasks must have PALs", {"pals.tasks": ["sst", "sts"]}),
    (
        {**FROZEN, **SUMMED, "gradients": "mgda", "relational_tasks": ["qqp"]},
        "gradients must be sum where encoder.trained_layers is empty",
        SHARED,
    ),
    ({**FROZEN, "optimizer.layer_decay": 0.9}, "layer_decay must be 1", {"encoder.trained_layers": [0]}),
]


@pytest.mark.parametrize(("changes", "words", "remedy"), RULES)
def test_an_invalid_combination_is_refused_and_its_remedy_accepted(
    changes: dict[str, Any], words: str, remedy: dict[str, Any]
) -> None:
    assert words in override_error(changes)
    changed = BASE.override({**changes, **remedy})
    assert TrialConfig.from_json(changed.to_json()) == changed


@pytest.mark.parametrize(
    ("key", "turned_on"),
    [("smart.tasks", {"smart.weight": 1e-9}), ("pals.tasks", {"pals.size": 12}), ("relational_tasks", {})],
)
def test_an_active_term_needs_a_trained_task_and_may_have_others(key: str, turned_on: dict[str, Any]) -> None:
    line = f"{key} must name a task that some stage trains (sst)"
    assert override_error({**turned_on, key: ["qqp", "sts"]}, SST_ALONE).startswith(line)
    config = SST_ALONE.override({**turned_on, key: ["qqp", "sst"]})
    assert {name: own for name, own in config.tasks_by_group.items() if own} == {key: ("qqp", "sst")}
    two = SST_ALONE.override({"stages": [*SST_ALONE.stages, {"tasks": ["sts"]}]})
    assert two.override({**turned_on, key: ["sts"]}).active_tasks == ("sst", "sts")
    if turned_on:
        assert set(SST_ALONE.override({key: ["qqp"]}).tasks_by_group.values()) == {()}


@pytest.mark.parametrize("text", ["[]", "{", '{"tasks": null}'])
def test_invalid_json_raises_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        TrialConfig.from_json(text)


def test_canonical_json_is_sorted_compact_complete_and_read_back(tiny_config: TrialConfig) -> None:
    for config in (BASE, PENALIZED, tiny_config, BASE.override({"encoder.dropout": None, "optimizer.epsilon": 1e-320})):
        text = config.to_json()
        again = TrialConfig.from_json(text)
        assert again == config
        assert (again.to_json(), hash(again)) == (text, hash(config))
        assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))
    assert json.loads(BASE.to_json()).keys() == {f.name for f in dataclasses.fields(TrialConfig)}


def reversed_tree(value: Any) -> Any:
    """The same dictionaries with their keys in the opposite order."""
    if isinstance(value, dict):
        return {key: reversed_tree(value[key]) for key in reversed(value)}
    return [reversed_tree(item) for item in value] if isinstance(value, list) else value


def test_the_hash_does_not_depend_on_the_order_of_fields(tiny_config: TrialConfig) -> None:
    text = json.dumps(reversed_tree(json.loads(tiny_config.to_json())))
    assert text != tiny_config.to_json()
    assert TrialConfig.from_json(text).content_hash == tiny_config.content_hash


def test_what_is_hashed_holds_every_field_of_what_stages_use() -> None:
    config = PENALIZED.override({"stages.0.extra_data": "cfimdb"})
    whole = config.to_tree()
    del whole["data"]["tasks"]  # the built-in ones
    used = used_settings(config, (config,))
    assert used["data"].pop("tasks") == {}
    assert used == whole
    for changes in ({"seed": 1}, {"tasks.sst.batch_size": 3}, {"data.sources.snli.labels": ["0:1"]}):
        assert config.override(changes).content_hash != config.content_hash
    own = config.override({"data.tasks.sts": dataclasses.replace(TASKS["sts"], weight=2)})
    assert used_settings(own, (own,))["data"]["tasks"].keys() == {"sts"}


def test_what_penalties_need_counts_where_their_weight_is_above_0() -> None:
    off = BASE.override({"smart.tasks": "sst", "proximal.tasks": "sst"})
    smart, proximal = (off.override({f"{name}.weight": 1e-9}) for name in ("smart", "proximal"))
    assert [list(config.active_penalties) for config in (off, smart, proximal)] == [[], ["smart"], ["proximal"]]
    assert [config.needs_embeddings for config in (off, smart, proximal)] == [False, True, False]
    assert [config.needs_teacher for config in (off, smart, proximal)] == [False, False, True]


def test_sets_are_the_active_tasks_in_their_order_followed_by_extra_data() -> None:
    first = StageConfig(tasks=("qqp",), extra_data=("snli",))
    second = StageConfig(tasks=("qqp", "sst"), extra_data=("snli", "cfimdb"))
    config = dataclasses.replace(BASE, stages=(first, second))
    assert config.active_tasks == ("sst", "qqp")
    assert config.train_sets == ("sst", "qqp", "cfimdb", "snli")
    assert [config.task_of(name) for name in config.train_sets] == ["sst", "qqp", "sst", "qqp"]
    assert [config.batch_size_of(name) for name in config.train_sets] == [16, 16, 8, 16]


@pytest.mark.parametrize(
    ("changes", "counts"),
    [
        ({"tasks.sst.batch_size": 3}, True),
        ({"tasks.qqp.batch_size": 3}, False),
        ({"smart.tasks": ["sst"]}, True),
        ({"smart.tasks": ["qqp"], "pals.tasks": ["sts"], "relational_tasks": []}, False),
        ({"data.sources.more": {"task": "sst", "path": "more.csv"}}, False),
        ({"data.sources.more": {"task": "sst", "path": "more.csv", "role": "augment"}}, True),
    ],
)
def test_only_settings_and_data_of_trained_tasks_count(changes: dict[str, Any], counts: bool) -> None:
    changed = SST_ALONE.override(changes)
    assert changed != SST_ALONE
    assert (changed.content_hash != SST_ALONE.content_hash) == counts


def test_an_encoder_beside_an_adapter_is_frozen_unless_it_starts_from_other_weights() -> None:
    assert not BASE.has_frozen_encoder
    adapted = BASE.override({"adapter.method": "lora"})
    assert adapted.has_frozen_encoder
    assert not adapted.override({"encoder.start_from": "weights"}).has_frozen_encoder
