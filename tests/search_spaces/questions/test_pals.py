"""Models 0 to 3 of My PAL BERT's table 3."""

from search_spaces.presets import my_pal_bert
from search_spaces.questions.pals import SPACE
from search_spaces.space import grid_configs, grid_trials

CONFIGS = grid_configs(SPACE)


def test_each_model_adds_one_thing() -> None:
    assert [trial["model"] for trial in grid_trials(SPACE)] == ["0_baseline", "1_pals", "2_annealed", "3_simcse"]
    assert [config.pals.size for config in CONFIGS] == [0, 204, 204, 204]
    assert [config.stages[0].order for config in CONFIGS] == [
        "sequential",
        "smallest_round_robin",
        "annealed",
        "annealed",
    ]
    assert [config.simcse.weight > 0 for config in CONFIGS] == [False, False, False, True]
    assert CONFIGS[3] == my_pal_bert()


def test_the_baseline_encodes_texts_separately_and_sees_each_task_in_full() -> None:
    assert {CONFIGS[0].tasks[task].encoding for task in ("qqp", "sts")} == {"bi"}
    assert CONFIGS[0].stages[0].steps_per_epoch is None
    assert {config.tasks[task].encoding for config in CONFIGS[1:] for task in ("qqp", "sts")} == {"cross"}


def test_all_models_train_3_epochs_and_those_with_pals_1800_steps_each() -> None:
    assert {stage.epochs for config in CONFIGS for stage in config.stages} == {3}
    assert [config.stages[0].steps_per_epoch for config in CONFIGS[1:]] == [1800] * 3
