"""`TrialConfig`: ranges, canonical JSON, and a hash that is equal for equal configurations."""

import copy
import dataclasses
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from mtlib.config.network import TaskConfig
from mtlib.config.penalties import SmartConfig
from mtlib.config.training import OptimizerConfig, StageConfig
from mtlib.config.trial import OPEN_GROUPS, TrialConfig, default_task_config
from mtlib.tasks import TASKS, Task
from tests.config_cases import (
    BASE,
    PENALIZED,
    ROOT,
    Case,
    assert_range,
    override_error,
    undescribed_fields,
)

CASES: list[Case] = [
    ("stages", [], "stages must hold at least one stage", [{"tasks": ["sst"]}]),
    ("relational_tasks", ["qqp", "qqp"], "relational_tasks must not name a task twice", ["qqp", "sts"]),
    ("loss_weighting", "learned", "loss_weighting must be one of fixed, uncertainty", "uncertainty"),
    ("gradients", "mean", "gradients must be one of sum, pcgrad, mgda, upgrad, dualproj, imtl_g, aligned_mtl", "sum"),
    ("precision", "fp16", "precision must be one of auto, fp32, bf16", "bf16"),
    ("seed", -1, "seed must be at least 0", 0),
    ("replicate", -1, "replicate must be at least 0", 0),
]
FLOATS = ("encoder.dropout", "tasks.sts.loss_weight", "optimizer.beta2", "smart.epsilon", "simcse.temperature")
COUNTS = ("encoder.max_length", "tasks.sts.batch_size", "stages.0.steps_per_epoch", "pals.size", "seed", "replicate")


@pytest.mark.parametrize("case", CASES)
def test_values_out_of_range_are_refused_and_the_nearest_inside_is_accepted(case: Case) -> None:
    assert_range(case)


@pytest.mark.parametrize("key", FLOATS)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), "nan", "-inf"])
def test_numbers_must_be_finite_everywhere(key: str, value: Any) -> None:
    assert override_error({key: value}) == f"{key} must be finite, got {float(value)}"


@pytest.mark.parametrize("key", COUNTS)
@pytest.mark.parametrize("value", [1.5, True, "two"])
def test_counts_must_be_whole_numbers_everywhere(key: str, value: Any) -> None:
    assert override_error({key: value}).startswith(f"{key} must be a whole number")


@pytest.mark.parametrize(
    ("key", "line"),
    [
        ("optimiser.learning_rate", "unknown key 'optimiser'; did you mean 'optimizer'?"),
        ("optimizer.learning_rat", "unknown key 'optimizer.learning_rat'; did you mean 'optimizer.learning_rate'?"),
        ("tasks.ssst.batch_size", "unknown key 'tasks.ssst'; did you mean 'tasks.sst'?"),
        ("tasks.sst.batchsize", "unknown key 'tasks.sst.batchsize'; did you mean 'tasks.sst.batch_size'?"),
        ("stages.0.epoch", "unknown key 'stages.0.epoch'; did you mean 'stages.0.epochs'?"),
        ("stages.1.epochs", "stages has positions 0..0, got '1' in 'stages.1.epochs'"),
        ("smart", "smart must be a group of keys, got 1"),
        ("smart.weight.sst", "smart.weight is a single value, it has no 'sst'"),
        ("tasks", "tasks must be a group of keys, got 1"),
        ("tasks.sst", "tasks.sst must be a group of keys, got 1"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_one(key: str, line: str) -> None:
    assert override_error({key: 1}).startswith(line)


def test_a_stage_must_train_tasks_of_the_configuration() -> None:
    tasks = {"sst": default_task_config(TASKS["sst"])}
    assert TrialConfig(stages=(StageConfig(tasks=("sst",)),), tasks=tasks).active_tasks == ("sst",)
    with pytest.raises(ValueError, match="unknown task 'qqp'; known: sst"):
        TrialConfig(stages=(StageConfig(tasks=("sst", "qqp")),), tasks=tasks)


@pytest.mark.parametrize(
    "text", ["[]", "5", "null", '"x"', "{", '{"tasks": null}', '{"tasks": []}', '{"tasks": {"sst": 5}}']
)
def test_invalid_json_raises_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        TrialConfig.from_json(text)


def test_unknown_keys_in_json_are_refused_with_the_nearest_name() -> None:
    with pytest.raises(ValueError, match=r"unknown key 'optimizer\.beta'; did you mean 'optimizer\.beta[12]'\?"):
        TrialConfig.from_json('{"stages": [{"tasks": ["sst"]}], "optimizer": {"beta": 0.9}}')
    with pytest.raises(ValueError, match="unknown task 'sstt'; did you mean 'sst'"):
        TrialConfig.from_json('{"stages": [{"tasks": ["sst"]}], "tasks": {"sstt": {}}}')


def test_canonical_json_gives_the_same_configuration_back(tiny_config: TrialConfig) -> None:
    for config in (BASE, PENALIZED, tiny_config, BASE.override({"encoder.dropout": None, "optimizer.epsilon": 1e-320})):
        again = TrialConfig.from_json(config.to_json())
        assert again == config
        assert again.to_json() == config.to_json()
        assert hash(again) == hash(config)


def test_canonical_json_is_sorted_compact_and_complete() -> None:
    text = BASE.to_json()
    tree = json.loads(text)
    assert text == json.dumps(tree, sort_keys=True, separators=(",", ":"))
    assert set(tree) == {f.name for f in dataclasses.fields(TrialConfig)}
    assert {name: set(group) for name, group in tree["tasks"].items()} == {
        name: {f.name for f in dataclasses.fields(TaskConfig)} for name in TASKS
    }


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


def test_the_hash_does_not_depend_on_the_order_of_fields_or_tasks(tiny_config: TrialConfig) -> None:
    text = json.dumps(reversed_tree(json.loads(tiny_config.to_json())))
    assert text != tiny_config.to_json()
    assert TrialConfig.from_json(text).content_hash == tiny_config.content_hash
    reordered = dataclasses.replace(
        tiny_config, tasks={name: tiny_config.tasks[name] for name in reversed(list(tiny_config.tasks))}
    )
    assert reordered == tiny_config
    assert reordered.content_hash == tiny_config.content_hash


def test_the_hash_is_the_same_in_every_process(tiny_config: TrialConfig) -> None:
    code = "import mtlib.config.trial as c; print(c.TrialConfig.from_json(input()).content_hash)"
    for seed in ("0", "1", "4242"):
        hashes = subprocess.run(
            [sys.executable, "-c", code],
            input=tiny_config.to_json(),
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        assert hashes.stdout.strip() == tiny_config.content_hash


@pytest.mark.parametrize(
    ("key", "spellings"),
    [
        ("smart.weight", (1, 1.0, "1", "1.0", "1e0", "+1")),
        ("optimizer.learning_rate", (2e-5, 0.00002, "2e-5", "0.00002", "20e-6")),
        ("smart.weight", (0, 0.0, "0", "0.0", -0.0, "-0")),
        ("encoder.dropout", (0, 0.0, "0")),
        ("encoder.dropout", (None, "none", "null")),
        ("stages.0.tasks", ("sst,qqp", ["sst", "qqp"], ("sst", "qqp"), '["sst", "qqp"]', "[sst,qqp]")),
        ("tasks.qqp.batch_size", (10, "10")),
    ],
)
def test_different_spellings_of_one_value_give_one_hash(key: str, spellings: tuple[Any, ...]) -> None:
    assert len({PENALIZED.override({key: spelling}).content_hash for spelling in spellings}) == 1
    assert len({PENALIZED.override({key: spelling}) for spelling in spellings}) == 1


def test_integers_hash_like_the_equal_floats() -> None:
    whole, broken = SmartConfig(weight=3, tasks=("sst",)), SmartConfig(weight=3.0, tasks=("sst",))
    first = dataclasses.replace(BASE, smart=whole, optimizer=OptimizerConfig(weight_decay=0))
    second = dataclasses.replace(BASE, smart=broken, optimizer=OptimizerConfig(weight_decay=0.0))
    assert first.content_hash == second.content_hash


def test_every_field_outside_the_groups_changes_the_hash() -> None:
    summed = BASE.override({"stages.0.sum_losses": True})
    changes: dict[str, Any] = {"gradients": "pcgrad", "loss_weighting": "uncertainty", "precision": "bf16"}
    changes |= {"relational_tasks": ["qqp"], "seed": 1, "replicate": 1}
    hashes = {summed.override({key: value}).content_hash for key, value in changes.items()}
    assert len(hashes | {summed.content_hash}) == len(changes) + 1
    # Whatever else a configuration has is in what is hashed: fields of the methods of a table, for example.
    assert set(summed.to_tree()) - {"methods"} == {f.name for f in dataclasses.fields(TrialConfig)}


def test_an_error_in_a_task_or_stage_names_it() -> None:
    assert override_error({"tasks.qqp.batch_size": -3}) == "tasks.qqp: batch_size must be at least 1, got -3"
    two = dataclasses.replace(BASE, stages=(*BASE.stages, *BASE.stages))
    with pytest.raises(ValueError, match=r"^stages\.1: epochs must be at least 1, got 0$"):
        two.override({"stages.1.epochs": 0})


def test_a_configuration_can_be_pickled_and_copied(tiny_config: TrialConfig) -> None:
    for again in (
        pickle.loads(pickle.dumps(tiny_config)),
        copy.copy(tiny_config),
        copy.deepcopy({"config": tiny_config})["config"],
    ):
        assert type(again) is TrialConfig
        assert again == tiny_config
        assert again.content_hash == tiny_config.content_hash
        with pytest.raises(TypeError):
            again.tasks["sst"] = default_task_config(TASKS["sst"])  # type: ignore[index]


def test_an_override_does_not_change_the_original() -> None:
    before = BASE.to_json()
    changed = BASE.override({"tasks.sst.batch_size": 4, "stages.0.epochs": 3})
    assert (changed.tasks["sst"].batch_size, changed.stages[0].epochs) == (4, 3)
    assert BASE.to_json() == before
    assert BASE.override({}) == BASE


def test_the_tasks_of_a_configuration_are_immutable() -> None:
    with pytest.raises(TypeError):
        BASE.tasks["sst"] = default_task_config(TASKS["sst"])  # type: ignore[index]
    own = {name: default_task_config(TASKS[name]) for name in TASKS}
    config = dataclasses.replace(BASE, tasks=own)
    own.pop("sst")
    assert "sst" in config.tasks


def test_active_tasks_of_all_stages_are_in_the_order_of_tasks() -> None:
    stages = (StageConfig(tasks=("sts",)), StageConfig(tasks=("qqp", "sst")), StageConfig(tasks=("sts", "qqp")))
    assert dataclasses.replace(BASE, stages=stages).active_tasks == ("sst", "qqp", "sts")
    assert dataclasses.replace(BASE, stages=stages[:1]).active_tasks == ("sts",)


def test_what_penalties_need_counts_where_their_weight_is_above_0() -> None:
    off = BASE.override({"smart.tasks": "sst", "proximal.tasks": "sst", "simcse.tasks": "sst"})
    smart, proximal, simcse = (off.override({f"{name}.weight": 1e-9}) for name in ("smart", "proximal", "simcse"))
    assert [list(config.active_penalties) for config in (off, smart, proximal)] == [[], ["smart"], ["proximal"]]
    assert [config.needs_embeddings for config in (off, smart, proximal, simcse)] == [False, True, False, False]
    assert [config.needs_teacher for config in (off, smart, proximal, simcse)] == [False, False, True, False]


def test_a_fourth_task_needs_only_its_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    review = Task(
        name="review",
        title="Reviews",
        kind="classes",
        label_range=(0, 2),
        text_columns=("left", "right"),
        label_column="label",
        file_stem="review",
        scored_train_rows=7,
    )
    monkeypatch.setitem(TASKS, "review", review)
    config = TrialConfig(stages=(StageConfig(tasks=("review", "sst")),), smart=SmartConfig(tasks=("review",)))
    assert config.tasks["review"] == TaskConfig(loss="cross_entropy", encoding="cross", scored_train_rows=7)
    assert config.active_tasks == ("sst", "review")
    changed = config.override({"tasks.review.batch_size": "4", "tasks.review.encoding": "bi"})
    assert changed.tasks["review"].batch_size == 4
    assert TrialConfig.from_json(changed.to_json()) == changed
    assert changed.content_hash != config.content_hash


def test_the_defaults_are_those_of_bert_and_beyond() -> None:
    optimizer = BASE.optimizer
    assert (optimizer.learning_rate, optimizer.weight_decay) == (2e-5, 0.01)
    assert (optimizer.beta1, optimizer.beta2) == (0.9, 0.999)
    assert BASE.encoder.dropout == 0.3


def test_every_field_has_a_docstring() -> None:
    groups = {
        "encoder",
        "adapter",
        "pals",
        "optimizer",
        "data",
        "evaluation",
    }  # their class checks them
    assert set(undescribed_fields("trial.py")) == {f"TrialConfig.{name}" for name in groups}


def test_open_groups_are_mappings_of_the_configuration() -> None:
    assert OPEN_GROUPS == ("data.sources",)
    assert isinstance(BASE.data.sources, Mapping)


def test_sets_are_active_tasks_followed_by_extra_data() -> None:
    first = StageConfig(tasks=("qqp",), extra_data=("snli",))
    second = StageConfig(tasks=("sst", "qqp"), extra_data=("snli", "cfimdb"))
    config = dataclasses.replace(BASE, stages=(first, second))
    assert config.train_sets == ("sst", "qqp", "cfimdb", "snli")
    assert [config.task_of(name) for name in config.train_sets] == ["sst", "qqp", "sst", "qqp"]
    assert [config.batch_size_of(name) for name in config.train_sets] == [16, 16, 8, 16]


def test_configurations_load_without_torch() -> None:
    code = "import sys, mtlib.config.trial; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


MORE = {"task": "sst", "path": "more.csv", "role": "extra"}


def review_task(name: str) -> Task:
    return Task(
        name=name,
        title="Reviews",
        kind="classes",
        label_range=(0, 2),
        text_columns=("text",),
        label_column="label",
        file_stem=name,
    )


def test_an_added_task_or_data_set_changes_only_the_hash_of_configurations_that_use_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stages = (StageConfig(tasks=("sst",)),)
    before, staged = TrialConfig(stages=stages), {"stages": (StageConfig(tasks=("sst", "review")),)}
    monkeypatch.setitem(TASKS, "review", review_task("review"))
    now = TrialConfig(stages=stages)
    assert "review" in now.tasks
    assert before != now
    assert before.content_hash == now.content_hash
    assert TrialConfig.from_json(before.to_json()).content_hash == now.content_hash
    assert now.override(staged).content_hash != now.content_hash
    more = now.override({f"data.sources.more.{key}": value for key, value in MORE.items()})
    assert more.content_hash == now.content_hash
    assert more.override({"stages.0.extra_data": "more"}).content_hash != now.content_hash


@pytest.mark.parametrize("role", ["augment", "replace"])
def test_only_data_of_trained_tasks_change_the_hash(role: str) -> None:
    config = TrialConfig(stages=(StageConfig(tasks=("sst",)),))
    changes = {"data.sources.more.path": "more-{split}.csv", "data.sources.more.role": role}
    assert config.override({**changes, "data.sources.more.task": "sst"}).content_hash != config.content_hash
    assert config.override({**changes, "data.sources.more.task": "qqp"}).content_hash == config.content_hash


def test_settings_of_a_task_change_the_hash_only_where_a_stage_trains_it() -> None:
    config = TrialConfig(stages=(StageConfig(tasks=("sst",)),))
    other = config.override({"tasks.qqp.batch_size": 3})
    assert other.content_hash == config.content_hash
    assert config.override({"tasks.sst.batch_size": 3}).content_hash != config.content_hash
    staged = {"stages": (StageConfig(tasks=("sst", "qqp")),)}
    assert other.override(staged).content_hash != config.override(staged).content_hash
