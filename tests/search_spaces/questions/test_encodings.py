"""The encodings of Triple Threat's table 2, BERT and Beyond's table 1 and Tuning Up BERT's table 1."""

import dataclasses

from search_spaces.presets import triple_threat
from search_spaces.questions.encodings import SPACE
from search_spaces.space import grid_configs, grid_trials

CONFIGS = {trial["encoding"]: config for trial, config in zip(grid_trials(SPACE), grid_configs(SPACE), strict=True)}


def test_triple_threat_compares_three_with_linear_heads() -> None:
    for name in ("bi", "cross_no_separator", "cross"):
        tasks = CONFIGS[name].tasks
        assert {(tasks[task].encoding, tasks[task].head) for task in ("qqp", "sts")} == {(name, "linear")}


def test_bert_and_beyond_mixes_a_cross_encoder_with_a_plain_cosine_for_sts() -> None:
    qqp, sts = CONFIGS["cross_and_cosine"].tasks["qqp"], CONFIGS["cross_and_cosine"].tasks["sts"]
    assert (qqp.encoding, qqp.head) == ("cross", "linear")
    assert (sts.encoding, sts.head, sts.cosine_projection) == ("bi", "cosine", False)


def test_tuning_up_bert_has_cosines_of_projected_vectors_for_both() -> None:
    tasks = [CONFIGS["cosine"].tasks[task] for task in ("qqp", "sts")]
    assert {(task.encoding, task.head, task.cosine_projection) for task in tasks} == {("bi", "cosine", True)}


def test_single_texts_have_one_encoding_and_the_rest_is_triple_threat_without_weights() -> None:
    assert len({config.tasks["sst"] for config in CONFIGS.values()}) == 1
    plain = triple_threat().override({f"tasks.{task}.loss_weight": 1.0 for task in ("sst", "qqp", "sts")})
    assert {dataclasses.replace(config, tasks=plain.tasks) for config in CONFIGS.values()} == {plain}
