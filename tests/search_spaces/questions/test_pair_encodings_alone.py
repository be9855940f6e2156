"""The encodings of Tuning Up BERT's table 1."""

import dataclasses

from search_spaces.presets import tuning_up_bert
from search_spaces.questions.pair_encodings_alone import SPACE
from search_spaces.space import grid_configs, grid_trials

CONFIGS = {tuple(t.values()): config for t, config in zip(grid_trials(SPACE), grid_configs(SPACE), strict=True)}


def test_each_pair_task_is_trained_alone_in_both_encodings() -> None:
    assert list(CONFIGS) == [("qqp", "bi"), ("qqp", "cross"), ("sts", "bi"), ("sts", "cross")]
    for (task, encoding), config in CONFIGS.items():
        assert config.active_tasks == (task,)
        assert config.tasks[task].encoding == encoding


def test_bi_encoders_have_the_cosine_of_projected_vectors_and_one_logit_for_qqp() -> None:
    qqp, sts = CONFIGS["qqp", "bi"].tasks["qqp"], CONFIGS["sts", "bi"].tasks["sts"]
    assert (qqp.head, qqp.cosine_projection, qqp.loss) == ("cosine", True, "binary_cross_entropy")
    assert (sts.head, sts.cosine_projection, sts.loss) == ("cosine", True, "mean_squared_error")


def test_cross_encoders_have_two_logits_for_qqp_and_equal_the_preset() -> None:
    plans = {task: [(s.epochs, s.steps_per_epoch) for s in CONFIGS[task, "cross"].stages] for task in ("qqp", "sts")}
    assert plans == {"qqp": [(25, 2500)], "sts": [(150, 50)]}
    for task in ("qqp", "sts"):
        config = CONFIGS[task, "cross"]
        assert dataclasses.replace(config, stages=tuning_up_bert().stages) == tuning_up_bert()
    qqp = CONFIGS["qqp", "cross"].tasks["qqp"]
    assert (qqp.head, qqp.loss) == ("linear", "cross_entropy")
