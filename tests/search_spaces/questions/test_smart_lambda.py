"""The grid of BERT and Beyond's table 6."""

from search_spaces.presets import bert_and_beyond
from search_spaces.questions.smart_lambda import SPACE
from search_spaces.space import grid_trials


def test_the_grid_is_the_first_column_of_table_6() -> None:
    assert grid_trials(SPACE) == [{"smart.weight": weight} for weight in (0.0, 0.3, 0.45, 0.5, 0.7, 1.0, 3.0)]


def test_only_the_weight_differs_from_the_papers_settings() -> None:
    assert SPACE.base == bert_and_beyond()
    assert SPACE.metric == "overall"
