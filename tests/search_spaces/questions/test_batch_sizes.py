"""The grid of BERT and Beyond's table 5."""

from search_spaces.presets import bert_and_beyond
from search_spaces.questions.batch_sizes import SPACE
from search_spaces.space import grid_configs, grid_trials


def test_the_grid_is_the_first_column_of_table_5() -> None:
    names = ["32-16-32", "8-16-8", "16-16-16", "16-16-10"]
    assert grid_trials(SPACE) == [{"batch_sizes": name} for name in names]
    sizes = [[config.tasks[task].batch_size for task in ("sst", "qqp", "sts")] for config in grid_configs(SPACE)]
    assert sizes == [[int(size) for size in name.split("-")] for name in names]


def test_smart_weight_is_that_of_appendix_a_1_and_the_rest_is_the_preset() -> None:
    assert SPACE.base == bert_and_beyond().override({"smart.weight": 0.45})
