"""The overall score against the papers' tables, and the paths of a task's splits."""

import dataclasses

import pytest

from mtlib.tasks import TASKS, TaskFiles, overall_score, overall_slopes, score_of, value_of


@pytest.mark.parametrize(
    ("sst", "qqp", "sts", "overall"),
    [(0.519, 0.887, 0.876, 0.781), (0.540, 0.888, 0.885, 0.790), (0.523, 0.886, 0.885, 0.784)],
)
def test_the_overall_score_matches_the_published_table(sst: float, qqp: float, sts: float, overall: float) -> None:
    # BERT and Beyond, table 6. Three digits are printed of each score, so the mean is known to one unit of the last.
    assert overall_score({"sst": sst, "qqp": qqp, "sts": sts}, TASKS) == pytest.approx(overall, abs=0.001)


def test_the_overall_score_is_a_mean_over_the_given_tasks_of_correlations_mapped_to_0_to_1() -> None:
    assert [overall_score({"sts": value}, TASKS) for value in (-1.0, 0.0, 1.0)] == [0, 0.5, 1]
    assert overall_score({"sst": 0.25, "qqp": 0.75}, TASKS) == 0.5
    assert overall_score({"sts": 0.4, "qqp": 0.8}, TASKS) == pytest.approx((0.7 + 0.8) / 2)


def test_tasks_count_by_their_weights_and_by_what_their_metric_contributes() -> None:
    sst, sts = (
        dataclasses.replace(TASKS[name], metric=metric) for name, metric in (("sst", "matthews"), ("sts", "rmse"))
    )
    tasks = {**TASKS, "sst": dataclasses.replace(sst, weight=3.0), "sts": sts}
    scores = {"sst": 0.4, "qqp": 0.9, "sts": score_of("sts", 1.5, tasks)}
    assert scores["sts"] == -1.5
    assert overall_score(scores, tasks) == pytest.approx((3 * 0.7 + 0.9 + (1 - 1.5 / 5)) / 5)
    assert overall_slopes(list(scores), tasks) == pytest.approx({"sst": 3 * 0.5 / 5, "qqp": 1 / 5, "sts": 1 / 5 / 5})
    assert [value_of(name, -1.5, tasks) for name in ("sst", "sts", "overall")] == [-1.5, 1.5, -1.5]


def test_a_metric_that_does_not_suit_the_task_and_a_weight_of_0_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^unknown metric of a binary task 'f2'; known: accuracy, "):
        dataclasses.replace(TASKS["qqp"], metric="f2")
    with pytest.raises(ValueError, match=r"^the weight of task qqp must be above 0, got 0$"):
        dataclasses.replace(TASKS["qqp"], weight=0)


def test_a_metric_may_be_of_one_class() -> None:
    task = dataclasses.replace(TASKS["qqp"], labels=("different", "same"), metric="f1:different")
    assert task.metric_entry.title == "F1 of different"
    assert dataclasses.replace(TASKS["sst"], metric="recall:4").metric_entry.title == "recall of 4"
    with pytest.raises(ValueError, match=r"metric of a regression task 'f1:5'; known: pearson, rmse, spearman$"):
        dataclasses.replace(TASKS["sts"], metric="f1:5")


def test_rows_of_each_class_are_counted() -> None:
    assert TASKS["sst"].class_sizes([4.0, 1, 1]) == [0, 2, 0, 0, 1]
    several = dataclasses.replace(TASKS["sst"], kind="multilabel", metric="")
    assert several.class_sizes([[1, 0, 0, 0, 1], [0, 0, 0, 0, 1]]) == [1, 0, 0, 0, 2]


def test_dev_rows_that_are_a_share_of_train_have_its_paths() -> None:
    drawn, own = TaskFiles(train="a.csv", dev=0.25), TaskFiles(train="a.csv", dev=("b.csv", "c.csv"))
    assert [files.dev_share for files in (drawn, own)] == [0.25, 0]
    assert [files.paths("dev") for files in (drawn, own)] == [("a.csv",), ("b.csv", "c.csv")]
    assert own.paths("test") == ()
