"""The models of BERT and Beyond's table 3."""

import dataclasses

from search_spaces.presets import bert_and_beyond
from search_spaces.questions.baselines import SPACE
from search_spaces.space import grid_configs, grid_trials

CONFIGS = {trial["model"]: config for trial, config in zip(grid_trials(SPACE), grid_configs(SPACE), strict=True)}
ALONE = {"single_sst": ("sst",), "single_qqp": ("qqp",), "single_sts": ("sts",)}


def test_table_3_has_its_models() -> None:
    assert list(CONFIGS) == ["frozen", *ALONE, "sft", "sft_smart", "sft_smart_dual"]


def test_the_frozen_encoder_has_heads_at_rate_0_001_and_no_shared_layers() -> None:
    frozen = CONFIGS["frozen"]
    assert frozen.encoder.trained_layers == ()
    assert frozen.optimizer.head_learning_rate == 1e-3
    assert frozen.active_tasks == ("sst", "qqp", "sts")
    assert (frozen.relational_tasks, frozen.pals.size, frozen.smart.weight) == ((), 0, 0.0)
    assert not frozen.stages[0].sum_losses


def test_single_task_models_train_all_layers_and_differ_from_the_base_only_in_the_plan() -> None:
    for name, tasks in ALONE.items():
        (stage,) = CONFIGS[name].stages
        assert (stage.tasks, stage.epochs, stage.steps_per_epoch) == (tasks, 10, None)
        assert dataclasses.replace(CONFIGS[name], stages=SPACE.base.stages) == SPACE.base
    assert SPACE.base.encoder.trained_layers is None


def test_smart_and_the_dual_objective_are_added_one_by_one_to_staggered_fine_tuning() -> None:
    sft = bert_and_beyond().override({"tasks.sts.batch_size": 10})
    assert CONFIGS["sft"] == sft
    assert CONFIGS["sft_smart"] == (smart := sft.override({"smart.weight": 0.45}))
    assert CONFIGS["sft_smart_dual"] == smart.override({"tasks.sst.loss": "dual_objective_cross_entropy"})
    assert [sft.tasks[task].batch_size for task in ("sst", "qqp", "sts")] == [16, 16, 10]
