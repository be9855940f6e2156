"""The grid of Triple Threat's table 12."""

from mtlib.tasks import TASKS
from search_spaces.learning_rates import SPACE, make_space
from search_spaces.presets import general, triple_threat
from search_spaces.space import grid_configs

TABLE_12 = {
    1e-6: (0.475, 0.781, 0.793),
    5e-6: (0.509, 0.814, 0.835),
    1e-5: (0.506, 0.836, 0.843),
    2e-5: (0.517, 0.839, 0.848),
    4e-5: (0.501, 0.845, 0.851),
    8e-5: (0.480, 0.839, 0.848),
    16e-5: (0.476, 0.809, 0.834),
}


def test_the_grid_is_the_first_column_of_table_12() -> None:
    assert [config.optimizer.learning_rate for config in grid_configs(SPACE)] == list(TABLE_12)
    assert SPACE.base == triple_threat()


def test_the_rate_of_the_general_settings_is_among_those_for_other_tasks() -> None:
    tasks = {"sst": TASKS["sst"]}
    assert general(tasks) in grid_configs(make_space(tasks))


def test_the_expected_overall_scores_follow_from_the_table() -> None:
    from search_spaces import learning_rates

    overall = [f"{(sst + qqp + (1 + sts) / 2) / 3:.4f}" for sst, qqp, sts in TABLE_12.values()]
    scores = ".718, .747, .755, .760, .757, .748, .734"
    assert scores in str(learning_rates.__doc__)
    assert all(
        abs(float(exact) - float(short)) < 0.00051 for exact, short in zip(overall, scores.split(", "), strict=True)
    )
