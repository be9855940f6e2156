"""`TrialConfig`: rules between groups, canonical JSON, and a hash that is equal for equal configurations."""

import ast
import copy
import dataclasses
import itertools
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mtlib.config import trial
from mtlib.config.network import TaskConfig
from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig, default_task_config, used_settings
from mtlib.tasks import TASKS
from tests.config_cases import BASE, PENALIZED, assert_range, override_error

FOLDER = Path(trial.__file__).parent
SST_ALONE = TrialConfig(stages=(StageConfig(tasks=("sst",)),))


@pytest.mark.parametrize(
    ("key", "outside", "inside"),
    [("stages", [], [{"tasks": ["sst"]}]), ("seed", -1, 0), ("replicate", -1, 0)],
)
def test_settings_have_ranges(key: str, outside: Any, inside: Any) -> None:
    assert_range(key, outside, inside)


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
RULES: list[tuple[dict[str, Any], str, list[dict[str, Any]]]] = [
    # refused changes, words of the message, and further changes each of which makes them valid
    (
        {"stages.0.extra_data": ["snli"], "data.sources.snli.role": "augment"},
        "unknown extra data in stages.0.extra_data 'snli'",
        [{"data.sources.snli.role": "extra"}],
    ),
    (
        {"stages.0.extra_data": ["snli"], "stages.0.tasks": ["sst", "sts"]},
        "stages.0.tasks must hold qqp",
        [{"stages.0.tasks": ["qqp", "sts"]}],
    ),
    ({"stages.0.start_from": "best"}, "stages.0.start_from must be last", [{"stages.0.start_from": "last"}]),
    ({"encoder.start_epoch": "best"}, "unknown encoder.start_epoch", [{"encoder.start_epoch": "sts"}]),
    ({"relational_tasks": ["qqp", "qqp"]}, "relational_tasks must not name a task twice", [SHARED]),
    ({**SHARED, **COSINE, "tasks.sts.encoding": "bi"}, "must have head linear", [{"tasks.qqp.head": "linear"}]),
    ({**SHARED, **BI}, "one layer has one width", [{"tasks.sts.encoding": "bi"}, {"relational_tasks": ["qqp"]}]),
    ({**SHARED, "tasks.qqp.encoding": "cross_and_bi"}, "cross_and_bi", [{"tasks.qqp.encoding": "cross"}]),
    (
        {**LAYERS, **SUMMED},
        "must be 1 where a stage sums",
        [{"optimizer.other_scale": 1.0}, {"stages.0.tasks": ["sst"]}],
    ),
    ({"optimizer.other_scale": 0.5}, "chosen_layers must name layers", [LAYERS]),
    ({**LAYERS, "stages.0.tasks": ["qqp"]}, "chosen_layers must name layers", [{"stages.0.tasks": ["qqp", "sst"]}]),
    ({"gradients": "pcgrad"}, "gradients must be sum unless", [SUMMED]),
    (
        WEIGHTED,
        "loss_weight must be 1",
        [{"tasks.sst.loss_weight": 1}, {"stages.0.tasks": ["qqp", "sts"]}, {"loss_weighting": "fixed"}],
    ),
    ({"loss_weighting": "famo"}, "loss_weighting must be one of fixed, ", [SUMMED]),
    (
        {"loss_weighting": "stch", "gradients": "pcgrad", **SUMMED},
        "gradients must be sum where",
        [{"loss_weighting": "imtl_l"}, {"gradients": "sum"}],
    ),
    ({**PARTS, **CONTRAST}, "micro_batch_size must be none", [{"simcse.weight": 0.0}]),
    (
        {**PARTS, **SUMMED, "loss_weighting": "famo"},
        "micro_batch_size must be none",
        [{"loss_weighting": "uncertainty"}],
    ),
    (
        {**FROZEN, **COSINE},
        "must not be empty where a task has nothing else to train, as qqp has",
        [
            {"tasks.qqp.cosine_projection": True},
            {"tasks.qqp.head": "linear"},
            {"pals.size": 12, "pals.tasks": ["qqp"]},
            {"encoder.trained_layers": [0]},
            {"stages.0.tasks": ["sst", "sts"]},
        ],
    ),
    (
        {**FROZEN, "adapter.method": "lora"},
        "encoder.trained_layers must be none",
        [{"encoder.trained_layers": None}, {"adapter.method": "none"}],
    ),
    (
        {**CHECKPOINTING, **PALS},
        "must be false with PALs",
        [{"encoder.gradient_checkpointing": False}, {"pals.size": 0}],
    ),
    (
        {**CHECKPOINTING, **CONTRAST, "simcse.dropout": 0.1},
        "must be false with simcse.dropout",
        [{"simcse.dropout": None}, {"simcse.weight": 0}],
    ),
    (
        {**FLASH, "precision": "fp32"},
        "precision must be bf16 or auto",
        [FLASH, {"precision": "auto"}, {"encoder.attention": "sdpa"}],
    ),
    (
        {**FLASH, "smart.weight": 1, "smart.tasks": ["sst"]},
        "flash_attention_2 with SMART",
        [{"encoder.attention": "sdpa"}, {"smart.weight": 0}],
    ),
    (
        {**FROZEN, **CONTRAST, **PALS},
        "simcse.tasks must have PALs",
        [
            {"pals.tasks": ["sst", "sts"]},
            {"simcse.tasks": ["sst"]},
            {"simcse.weight": 0.0},
            {"stages.0.tasks": ["sst"]},
            {"encoder.trained_layers": [0]},
        ],
    ),
    (
        {**FROZEN, **SUMMED, "gradients": "mgda", "relational_tasks": ["qqp"]},
        "gradients must be sum where encoder.trained_layers is empty",
        [SHARED, {"gradients": "sum"}, {"encoder.trained_layers": [11]}],
    ),
    (
        {**FROZEN, "optimizer.layer_decay": 0.9},
        "layer_decay must be 1",
        [{"optimizer.layer_decay": 1.0}, {"encoder.trained_layers": [0]}],
    ),
]


@pytest.mark.parametrize(("changes", "words", "remedies"), RULES)
def test_an_invalid_combination_is_refused_and_each_remedy_is_accepted(
    changes: dict[str, Any], words: str, remedies: list[dict[str, Any]]
) -> None:
    assert words in override_error(changes)
    for remedy in remedies:
        changed = BASE.override({**changes, **remedy})
        assert TrialConfig.from_json(changed.to_json()) == changed


@pytest.mark.parametrize("key", ["smart.tasks", "pals.tasks", "relational_tasks", "stages.0.tasks"])
def test_an_unknown_task_is_refused_with_the_nearest_name(key: str) -> None:
    assert override_error({key: "qpp"}).startswith("unknown task 'qpp'; did you mean 'qqp'?")
    own = {"sst": default_task_config(TASKS["sst"])}
    assert override_error({key: "qqp", "tasks": own}).endswith("known: sst")


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


def test_a_later_stage_may_start_from_the_best_epoch_of_the_one_before() -> None:
    config = BASE.override({"stages": [*BASE.stages, *BASE.stages], "stages.1.start_from": "best"})
    assert [part.start_from for part in config.stages] == ["last", "best"]


@pytest.mark.parametrize(
    ("key", "line"),
    [
        ("optimiser.learning_rate", "unknown key 'optimiser'; did you mean 'optimizer'?"),
        ("tasks.ssst.batch_size", "unknown key 'tasks.ssst'; did you mean 'tasks.sst'?"),
        ("stages.0.epoch", "unknown key 'stages.0.epoch'; did you mean 'stages.0.epochs'?"),
        ("stages.1.epochs", "stages has positions 0..0, got '1'"),
        ("tasks.qqp.batch_size", "tasks.qqp: batch_size must be at least 1, got -3"),
        ("tasks", "tasks must be a group of keys"),
        ("tasks.sst", "tasks.sst must be a group of keys"),
    ],
)
def test_a_wrong_override_is_refused_by_its_key(key: str, line: str) -> None:
    assert override_error({key: -3}).startswith(line)


@pytest.mark.parametrize(
    "text", ["[]", "5", "{", '{"tasks": null}', '{"tasks": []}', '{"stages": [{"tasks": ["sst"]}], "tasks": {"x": {}}}']
)
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


def test_missing_fields_in_json_take_the_defaults_of_each_task() -> None:
    config = TrialConfig.from_json('{"stages": [{"tasks": ["sst"]}], "tasks": {"qqp": {}, "sst": {"batch_size": 4}}}')
    assert config.tasks["sst"] == dataclasses.replace(default_task_config(TASKS["sst"]), batch_size=4)
    assert config.tasks["qqp"] == default_task_config(TASKS["qqp"])
    assert TrialConfig.from_json('{"stages": [{"tasks": ["sst", "qqp", "sts"]}]}') == BASE


def reversed_tree(value: Any) -> Any:
    """The same dictionaries with their keys in the opposite order."""
    if isinstance(value, dict):
        return {key: reversed_tree(value[key]) for key in reversed(value)}
    return [reversed_tree(item) for item in value] if isinstance(value, list) else value


def test_the_hash_does_not_depend_on_the_order_of_fields_or_the_process(tiny_config: TrialConfig) -> None:
    text = json.dumps(reversed_tree(json.loads(tiny_config.to_json())))
    assert text != tiny_config.to_json()
    assert TrialConfig.from_json(text).content_hash == tiny_config.content_hash
    code = "from mtlib.config.trial import TrialConfig as T; print(T.from_json(input()).content_hash)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=text,
        env={**os.environ, "PYTHONHASHSEED": "4242"},
        cwd=FOLDER.parents[1],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == tiny_config.content_hash


@pytest.mark.parametrize(
    ("key", "spellings"),
    [
        ("smart.weight", (1, 1.0, "1", "1.0", "1e0", "+1")),
        ("smart.weight", (0, 0.0, "0", -0.0, "-0")),
        ("encoder.dropout", (None, "none", "null")),
        ("stages.0.tasks", ("sst,qqp", ["sst", "qqp"], ("sst", "qqp"), '["sst", "qqp"]', "[sst,qqp]")),
        ("tasks.qqp.batch_size", (10, "10")),
    ],
)
def test_different_spellings_of_one_value_give_one_hash(key: str, spellings: tuple[Any, ...]) -> None:
    assert len({PENALIZED.override({key: spelling}).content_hash for spelling in spellings}) == 1
    assert len({PENALIZED.override({key: spelling}) for spelling in spellings}) == 1


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


def test_a_configuration_can_be_pickled_and_copied_and_is_immutable(tiny_config: TrialConfig) -> None:
    for again in (tiny_config, pickle.loads(pickle.dumps(tiny_config)), copy.deepcopy(tiny_config)):
        assert type(again) is TrialConfig
        assert again == tiny_config
        with pytest.raises(TypeError):
            again.tasks["sst"] = default_task_config(TASKS["sst"])  # type: ignore[index]


def test_an_override_does_not_change_the_original() -> None:
    before = BASE.to_json()
    changed = BASE.override({"tasks.sst.batch_size": 4, "stages.0.epochs": 3})
    assert (changed.tasks["sst"].batch_size, changed.stages[0].epochs) == (4, 3)
    assert BASE.to_json() == before
    assert BASE.override({}) == BASE


def test_what_penalties_need_counts_where_their_weight_is_above_0() -> None:
    off = BASE.override({"smart.tasks": "sst", "proximal.tasks": "sst"})
    smart, proximal = (off.override({f"{name}.weight": 1e-9}) for name in ("smart", "proximal"))
    assert [list(config.active_penalties) for config in (off, smart, proximal)] == [[], ["smart"], ["proximal"]]
    assert [config.needs_embeddings for config in (off, smart, proximal)] == [False, True, False]
    assert [config.needs_teacher for config in (off, smart, proximal)] == [False, False, True]


def test_an_encoder_is_frozen_by_adapters_unless_it_starts_elsewhere() -> None:
    lora = BASE.override({"adapter.method": "lora"})
    started = lora.override({"encoder.start_from": "x"})
    assert [config.has_frozen_encoder for config in (BASE, lora, started)] == [False, True, False]


def test_the_defaults_are_those_of_bert_and_beyond() -> None:
    optimizer = BASE.optimizer
    assert (optimizer.learning_rate, optimizer.weight_decay) == (2e-5, 0.01)
    assert (optimizer.beta1, optimizer.beta2) == (0.9, 0.999)
    assert BASE.encoder.dropout == 0.3


def test_sets_are_the_active_tasks_in_their_order_followed_by_extra_data() -> None:
    first = StageConfig(tasks=("qqp",), extra_data=("snli",))
    second = StageConfig(tasks=("qqp", "sst"), extra_data=("snli", "cfimdb"))
    config = dataclasses.replace(BASE, stages=(first, second))
    assert config.active_tasks == ("sst", "qqp")
    assert config.train_sets == ("sst", "qqp", "cfimdb", "snli")
    assert [config.task_of(name) for name in config.train_sets] == ["sst", "qqp", "sst", "qqp"]
    assert [config.batch_size_of(name) for name in config.train_sets] == [16, 16, 8, 16]


def test_an_added_task_needs_only_its_entry_and_changes_no_hash_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    before = TrialConfig(stages=SST_ALONE.stages)
    review = dataclasses.replace(
        TASKS["qqp"], name="review", kind="classes", label_range=(0, 2), scored_train_rows=7, metric=""
    )
    monkeypatch.setitem(TASKS, "review", review)
    now = TrialConfig(stages=SST_ALONE.stages)
    assert now.tasks["review"] == TaskConfig(loss="cross_entropy", encoding="cross", scored_train_rows=7)
    assert before != now
    assert before.content_hash == now.content_hash
    assert TrialConfig.from_json(before.to_json()).content_hash == now.content_hash
    used = now.override({"stages.0.tasks": ["review", "sst"]})
    assert used.active_tasks == ("sst", "review")
    assert TrialConfig.from_json(used.to_json()) == used
    assert used.content_hash != now.content_hash


@pytest.mark.parametrize(
    ("changes", "counts"),
    [
        ({"tasks.sst.batch_size": 3}, True),
        ({"tasks.qqp.batch_size": 3}, False),
        ({"smart.tasks": ["sst"]}, True),
        ({"smart.tasks": ["qqp"], "pals.tasks": ["sts"], "relational_tasks": []}, False),
        ({"relational_tasks": ["sst", "qqp"]}, True),
        ({"data.sources.more": {"task": "sst", "path": "more.csv"}}, False),
        ({"data.sources.more": {"task": "sst", "path": "more.csv", "role": "augment"}}, True),
        ({"data.sources.more": {"task": "qqp", "path": "more.csv", "role": "augment"}}, False),
        ({"data.sources.more": {"task": "sst", "path": "hf://more", "role": "replace"}}, True),
    ],
)
def test_only_settings_and_data_of_trained_tasks_count(changes: dict[str, Any], counts: bool) -> None:
    changed = SST_ALONE.override(changes)
    assert changed != SST_ALONE
    assert (changed.content_hash != SST_ALONE.content_hash) == counts


@pytest.mark.parametrize(
    "path", sorted({*FOLDER.glob("[a-z]*.py")} - {FOLDER / "methods.py"}), ids=lambda path: path.name
)
def test_every_field_has_a_docstring(path: Path) -> None:
    """But for the groups of a trial, whose classes have one."""
    found = []
    for cls in (node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)):
        for node, below in itertools.pairwise([*cls.body, ast.Pass()]):
            is_text = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            is_group = cls.name == "TrialConfig" and ast.unparse(node).endswith("Config)")
            if isinstance(node, ast.AnnAssign) and not is_text and not is_group:
                found.append(f"{cls.name}.{ast.unparse(node.target)}")
    assert found == []
