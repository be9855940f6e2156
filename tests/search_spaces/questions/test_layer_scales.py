"""The grid of Triple Threat's table 11, and its best layers recomputed from table 5."""

import dataclasses

from search_spaces.presets import triple_threat
from search_spaces.questions.layer_scales import SPACE
from search_spaces.space import grid_configs

TABLE_5 = {
    "sst": (0.416, 0.418, 0.457, 0.439, 0.453, 0.437, 0.471, 0.456, 0.497, 0.502, 0.503, 0.490),
    "qqp": (0.722, 0.781, 0.794, 0.796, 0.782, 0.772, 0.751, 0.792, 0.803, 0.770, 0.783, 0.784),
    "sts": (0.808, 0.815, 0.808, 0.808, 0.837, 0.827, 0.825, 0.828, 0.823, 0.808, 0.788, 0.778),
}
"""Score of each task with only one layer trained, by layer from 0."""


def test_each_tasks_layers_are_the_four_best_of_table_5_without_a_tie() -> None:
    for task, scores in TABLE_5.items():
        best = sorted(range(12), key=lambda layer: scores[layer], reverse=True)
        assert scores[best[3]] > scores[best[4]]
        assert SPACE.base.tasks[task].chosen_layers == tuple(sorted(best[:4]))


def test_the_grid_is_alpha_and_beta_of_table_11() -> None:
    optimizers = [config.optimizer for config in grid_configs(SPACE)]
    assert [(o.other_scale, o.chosen_scale) for o in optimizers] == [(1, 1), (0, 1), (1, 2), (1, 3), (0.5, 1)]


def test_steps_alternate_and_the_rest_is_triple_threat() -> None:
    assert [stage.sum_losses for stage in SPACE.base.stages] == [False]
    plain = {name: dataclasses.replace(task, chosen_layers=()) for name, task in SPACE.base.tasks.items()}
    assert dataclasses.replace(SPACE.base, tasks=plain) == triple_threat().override({"stages.0.sum_losses": False})
