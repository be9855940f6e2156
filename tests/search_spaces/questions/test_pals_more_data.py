"""Models 3 to 6 of My PAL BERT's table 3."""

from search_spaces.presets import my_pal_bert
from search_spaces.questions.pals_more_data import SPACE
from search_spaces.space import grid_configs, grid_trials

CONFIGS = grid_configs(SPACE)


def test_each_model_adds_one_thing() -> None:
    assert [trial["model"] for trial in grid_trials(SPACE)] == ["3_simcse", "4_data", "5_rate", "6_relational"]
    assert [config.stages[0].extra_data for config in CONFIGS] == [(), *[("cfimdb", "snli")] * 3]
    assert [config.optimizer.schedule for config in CONFIGS] == ["constant"] * 2 + ["slanted_triangular"] * 2
    assert [config.relational_tasks for config in CONFIGS] == [(), (), (), ("qqp", "sts")]
    assert CONFIGS[0] == my_pal_bert()


def test_extra_data_are_those_of_sections_4_1_and_5_3() -> None:
    cfimdb, snli = (CONFIGS[1].data.sources[name] for name in ("cfimdb", "snli"))
    assert (cfimdb.task, cfimdb.batch_size, cfimdb.labels) == ("sst", 8, ("0:0", "1:4"))
    assert (snli.task, snli.probability_factor, snli.labels) == ("qqp", 0.1, ("0:1", "2:0"))
    assert {config.optimizer.warmup_fraction for config in CONFIGS} == {0.1}


def test_the_rest_of_the_plan_is_that_of_the_best_model() -> None:
    for config in CONFIGS[1:]:
        assert config.override({"stages.0.extra_data": []}).stages == my_pal_bert().stages
