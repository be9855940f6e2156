"""The orders of three papers, plan by plan."""

import dataclasses

from search_spaces.presets import bert_and_beyond, triple_threat, tuning_up_bert
from search_spaces.questions.orders import SPACE
from search_spaces.space import grid_configs, grid_trials

CONFIGS = {trial["order"]: config for trial, config in zip(grid_trials(SPACE), grid_configs(SPACE), strict=True)}


def test_bert_and_beyonds_table_2_is_included() -> None:
    assert [CONFIGS[name].stages[-1].order for name in ("sampled_round_robin", "max_size_cycle", "staggered")] == [
        "sampled_round_robin",
        "max_size_cycle",
        "sampled_round_robin",
    ]
    assert CONFIGS["staggered"].stages == bert_and_beyond().stages


def test_triple_threats_tables_1_and_8_are_included() -> None:
    sequential = CONFIGS["sequential"].stages
    assert [(stage.tasks, stage.epochs) for stage in sequential] == [(("sst",), 10), (("qqp",), 10), (("sts",), 10)]
    (by_epoch,) = CONFIGS["epoch_round_robin"].stages
    assert (by_epoch.order, by_epoch.epochs) == ("epoch_round_robin", 3 * 10)
    assert CONFIGS["batch_round_robin_summed"].stages == triple_threat().stages
    (alternating,) = CONFIGS["batch_round_robin"].stages
    assert alternating == dataclasses.replace(triple_threat().stages[0], sum_losses=False)


def test_tuning_up_berts_table_4_is_included() -> None:
    assert CONFIGS["uniform"] == tuning_up_bert()
    assert CONFIGS["uniform_smart"] == tuning_up_bert().override({"smart.weight": 3.0})
    annealed = tuning_up_bert().override({"stages.0.order": "annealed"})
    assert CONFIGS["annealed"] == annealed
    assert CONFIGS["annealed_smart"] == annealed.override({"smart.weight": 3.0})
    first, second = CONFIGS["uniform_from_qqp"].stages
    assert (first.tasks, first.epochs, first.steps_per_epoch) == (("qqp",), 25, 2500)
    assert second == dataclasses.replace(tuning_up_bert().stages[0], start_from="best")


def test_only_the_plan_and_the_smart_weight_differ() -> None:
    plain = tuning_up_bert()
    same = {dataclasses.replace(config, stages=plain.stages, smart=plain.smart) for config in CONFIGS.values()}
    assert same == {plain}
    assert len(CONFIGS) == 12
