"""The papers' settings, number by number."""

import re
from pathlib import Path

import pytest

from mtlib.demo.overrides import demo_overrides
from mtlib.tasks import TASKS
from search_spaces.domain import Float
from search_spaces.presets import (
    bert_and_beyond,
    by_task,
    general,
    joined_name,
    my_pal_bert,
    triple_threat,
    tuning_up_bert,
    tuning_up_bert_alone,
)
from search_spaces.space import value_in
from search_spaces.vary import vary


def test_bert_and_beyond_has_the_optimizer_of_section_4_3() -> None:
    config = bert_and_beyond()
    optimizer = config.optimizer
    assert (optimizer.learning_rate, optimizer.weight_decay) == (2e-5, 0.01)
    assert (optimizer.beta1, optimizer.beta2, optimizer.schedule) == (0.9, 0.999, "constant")
    assert (config.encoder.name, config.encoder.dropout) == ("bert-base-uncased", 0.3)


def test_bert_and_beyond_trains_two_epochs_of_qqp_before_thirteen_of_all_tasks() -> None:
    first, second = bert_and_beyond().stages
    assert (first.tasks, first.epochs) == (("qqp",), 2)
    assert (set(second.tasks), second.order, second.epochs) == ({"sst", "qqp", "sts"}, "sampled_round_robin", 13)
    assert not first.sum_losses
    assert not second.sum_losses


def test_bert_and_beyond_has_the_smart_settings_of_section_4_3() -> None:
    smart = bert_and_beyond().smart
    assert (smart.num_steps, smart.noise_std, smart.epsilon, smart.step_size) == (1, 1e-5, 1e-6, 1e-3)
    assert (smart.tasks, smart.mode, smart.reduction, smart.weight) == (("sst", "qqp"), "unit_norm", "sum", 0.0)


def test_bert_and_beyond_cross_encodes_pairs_in_batches_of_sixteen() -> None:
    tasks = bert_and_beyond().tasks
    assert {name: task.encoding for name, task in tasks.items()} == {"sst": "single", "qqp": "cross", "sts": "cross"}
    assert {task.batch_size for task in tasks.values()} == {16}


def test_triple_threat_sums_a_round_of_weighted_losses_into_one_step() -> None:
    config = triple_threat()
    (stage,) = config.stages
    assert (stage.order, stage.sum_losses, stage.epochs) == ("batch_round_robin", True, 10)
    assert {name: task.loss_weight for name, task in config.tasks.items()} == {"sst": 0.1, "qqp": 1.0, "sts": 0.2}
    assert (config.optimizer.learning_rate, config.encoder.dropout, config.smart.weight) == (1e-5, 0.3, 0.0)
    assert {task.batch_size for task in config.tasks.values()} == {16}


def test_triple_threat_joins_pairs_without_separator_and_reads_one_logit_for_qqp() -> None:
    tasks = triple_threat().tasks
    encodings = {"sst": "single", "qqp": "cross_no_separator", "sts": "cross_no_separator"}
    assert {name: task.encoding for name, task in tasks.items()} == encodings
    losses = {"sst": "cross_entropy", "qqp": "binary_cross_entropy", "sts": "mean_squared_error"}
    assert {name: task.loss for name, task in tasks.items()} == losses


def test_tuning_up_bert_draws_tasks_uniformly_for_25_epochs_of_1000_steps() -> None:
    config = tuning_up_bert()
    (stage,) = config.stages
    assert (stage.order, stage.epochs, stage.steps_per_epoch, stage.sum_losses) == ("uniform", 25, 1000, False)
    assert (config.optimizer.learning_rate, config.optimizer.weight_decay) == (1e-5, 0.0)
    assert (config.encoder.dropout, config.encoder.max_length) == (0.3, 512)
    assert {task.batch_size for task in config.tasks.values()} == {16}


def test_tuning_up_bert_has_two_logits_for_qqp_and_cross_encoded_pairs() -> None:
    tasks = tuning_up_bert().tasks
    assert tasks["qqp"].loss == "cross_entropy"
    assert {tasks["qqp"].encoding, tasks["sts"].encoding} == {"cross"}


def test_tuning_up_bert_has_the_smart_settings_of_section_5_3_3() -> None:
    smart = tuning_up_bert().smart
    assert (smart.epsilon, smart.noise_std, smart.step_size, smart.num_steps) == (1e-5, 1e-5, 1e-3, 1)
    assert (set(smart.tasks), smart.weight, smart.reduction) == ({"sst", "qqp", "sts"}, 0.0, "mean")


@pytest.mark.parametrize(("task", "epochs", "steps"), [("sst", 150, 50), ("qqp", 25, 2500), ("sts", 150, 50)])
def test_tuning_up_bert_trains_a_task_alone_as_in_section_5_2(task: str, epochs: int, steps: int) -> None:
    (stage,) = tuning_up_bert_alone(task)
    assert (stage.tasks, stage.epochs, stage.steps_per_epoch) == ((task,), epochs, steps)


def test_my_pal_bert_has_pals_in_the_attention_block_of_every_task() -> None:
    pals = my_pal_bert().pals
    assert (pals.size, pals.num_heads, pals.placement, pals.function) == (204, 12, "attention", "attention")
    assert set(pals.tasks) == {"sst", "qqp", "sts"}


def test_my_pal_bert_anneals_over_3_epochs_of_1800_steps() -> None:
    config = my_pal_bert()
    (stage,) = config.stages
    assert (stage.order, stage.annealing, stage.epochs, stage.steps_per_epoch) == ("annealed", 0.8, 3, 1800)
    assert (config.optimizer.learning_rate, config.optimizer.weight_decay) == (2e-5, 0.01)
    assert (config.encoder.dropout, config.encoder.max_length) == (0.3, 128)
    assert (config.simcse.tasks, config.simcse.dropout) == (("sts",), 0.1)
    assert config.simcse.weight > 0


@pytest.mark.parametrize("tasks", [("sst", "qqp", "sts"), ("sts",), ("sst", "qqp"), ("qqp",)])
def test_general_settings_are_for_any_tasks(tasks: tuple[str, ...]) -> None:
    config = general({task: TASKS[task] for task in tasks})
    assert config.active_tasks == tasks
    assert {(config.tasks[task].pooling, config.tasks[task].batch_size) for task in tasks} == {("mean", 32)}
    optimizer = config.optimizer
    assert (optimizer.learning_rate, optimizer.head_learning_rate, optimizer.layer_decay) == (7e-5, 1e-3, 0.95)
    assert (optimizer.schedule, optimizer.warmup_fraction) == ("slanted_triangular", 0.1)
    assert (config.stages[0].order, config.stages[0].max_passes) == ("unimax", 2)
    assert {task: config.tasks[task].target_scale for task in tasks} == {
        task: "unit" if task == "sts" else "raw" for task in tasks
    }


def test_one_key_turns_on_a_penalty_or_pals_of_the_general_settings() -> None:
    for tasks in (("sst", "qqp", "sts"), ("sts",)):
        for key in ("smart.weight", "proximal.weight", "simcse.weight", "pals.size"):
            changed = general({task: TASKS[task] for task in tasks}).override({key: 12})
            assert changed.tasks_by_group[f"{key.split('.')[0]}.tasks"], key
    assert general(TASKS).smart.tasks == ("sst", "qqp")
    assert general({"sts": TASKS["sts"]}).smart.tasks == ("sts",)


def test_a_field_of_several_tasks_has_a_value_for_each() -> None:
    assert by_task("batch_size", (1, 2), ("qqp", "sts")) == {"tasks.qqp.batch_size": 1, "tasks.sts.batch_size": 2}
    with pytest.raises(ValueError):
        by_task("batch_size", (1, 2))
    assert joined_name((16, 16.0, 0.1)) == "16-16-0.1"


SUGGESTING = ("README.md", "docs/tasks.md", "docs/searching.md", "mtlib/data/__main__.py", "sweeps/cli/arguments.py")


@pytest.mark.parametrize("page", SUGGESTING)
def test_suggested_values_have_the_presets_own_among_them(page: str) -> None:
    """Of `auto`, which is decided as one of the values, as well."""
    text = (Path(__file__).parents[2] / page).read_text()
    typed = re.findall(r"^(.*)--vary ([a-z_]+[a-z_.0-9]*)=([\w.,:-]+\w)", text, re.MULTILINE)
    assert typed
    for command, key, values in typed:
        base = general(TASKS)
        if page == "README.md" and "--data" not in command:  # it varies settings of the demonstration
            base = base.override(demo_overrides(base))
        space, own = vary(base, "overall", {key: values}), value_in(base, key)
        listed = [value for values in space.grid.values() for value in values]
        ranges = [one for one in space.ranges.values() if isinstance(one, Float) and one.low <= own <= one.high]
        assert own in (*listed, "auto") or ranges, (key, values, own)
