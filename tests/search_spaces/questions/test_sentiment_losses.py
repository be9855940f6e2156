"""The losses of BERT and Beyond's figure 2."""

from search_spaces.questions.sentiment_losses import SPACE
from search_spaces.space import grid_configs, grid_trials


def test_the_grid_is_cross_entropy_dual_objective_and_three_ordinal_losses() -> None:
    assert [trial["loss"] for trial in grid_trials(SPACE)] == [
        "cross_entropy",
        "dual_objective",
        "ordinal_1",
        "ordinal_1.5",
        "ordinal_2",
    ]
    tasks = [config.tasks["sst"] for config in grid_configs(SPACE)]
    assert [task.loss for task in tasks] == ["cross_entropy", "dual_objective_cross_entropy", *["ordinal_log_loss"] * 3]
    assert [task.ordinal_alpha for task in tasks[2:]] == [1.0, 1.5, 2.0]
    assert tasks[1].dual_reduction == "mean"


def test_only_sst_is_trained_and_train_rows_are_scored() -> None:
    assert {config.active_tasks for config in grid_configs(SPACE)} == {("sst",)}
    assert {stage.epochs for config in grid_configs(SPACE) for stage in config.stages} == {10}
    assert SPACE.metric == "sst"
    assert SPACE.base.tasks["sst"].scored_train_rows > 0
