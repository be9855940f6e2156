"""Tasks, and the overall score against the papers' tables."""

import dataclasses

import pytest

from mtlib.config.losses import losses_for
from mtlib.config.trial import default_task_config
from mtlib.tasks import TASKS, Task, overall_score, overall_slopes, score_of, value_of

TABLE_6 = [
    # SST dev, QQP dev, STS dev, overall: BERT and Beyond, table 6, one row per weight.
    (0.519, 0.887, 0.876, 0.781),
    (0.533, 0.888, 0.892, 0.789),
    (0.540, 0.888, 0.885, 0.790),
    (0.535, 0.890, 0.878, 0.788),
    (0.523, 0.886, 0.885, 0.784),
    (0.540, 0.885, 0.882, 0.789),
    (0.539, 0.883, 0.889, 0.789),
]


@pytest.mark.parametrize(("sst", "qqp", "sts", "overall"), TABLE_6)
def test_the_overall_score_matches_the_published_tables(sst: float, qqp: float, sts: float, overall: float) -> None:
    # Three digits are printed of each score, so the mean of three is known to one unit of the last.
    assert overall_score({"sst": sst, "qqp": qqp, "sts": sts}, TASKS) == pytest.approx(overall, abs=0.001)


def test_the_overall_score_maps_a_correlation_to_0_to_1() -> None:
    assert overall_score({"sts": -1.0}, TASKS) == 0.0
    assert overall_score({"sts": 0.0}, TASKS) == 0.5
    assert overall_score({"sts": 1.0}, TASKS) == 1.0
    assert overall_score({"sst": 0.0, "qqp": 0.0, "sts": -1.0}, TASKS) == 0.0
    assert overall_score({"sst": 1.0, "qqp": 1.0, "sts": 1.0}, TASKS) == 1.0


def test_the_overall_score_is_the_mean_over_the_given_tasks() -> None:
    assert overall_score({"sst": 0.25}, TASKS) == 0.25
    assert overall_score({"sst": 0.25, "qqp": 0.75}, TASKS) == 0.5
    assert overall_score({"sts": 0.4, "qqp": 0.8}, TASKS) == pytest.approx((0.7 + 0.8) / 2)


def test_a_fourth_task_counts_as_much_as_each_of_the_others() -> None:
    tasks = {**TASKS, "nli": dataclasses.replace(TASKS["sts"], name="nli")}
    assert overall_score({"sst": 0.5, "qqp": 0.9, "sts": 0.8, "nli": 0.2}, tasks) == pytest.approx(
        (0.5 + 0.9 + 0.9 + 0.6) / 4
    )


def test_tasks_count_by_their_weights_and_by_what_their_metric_contributes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TASKS, "sst", dataclasses.replace(TASKS["sst"], metric="matthews", weight=3.0))
    monkeypatch.setitem(TASKS, "sts", dataclasses.replace(TASKS["sts"], metric="rmse"))
    scores = {"sst": 0.4, "qqp": 0.9, "sts": score_of("sts", 1.5, TASKS)}
    assert scores["sts"] == -1.5
    assert overall_score(scores, TASKS) == pytest.approx((3 * 0.7 + 0.9 + (1 - 1.5 / 5)) / 5)
    assert overall_slopes(list(scores), TASKS) == pytest.approx({"sst": 3 * 0.5 / 5, "qqp": 1 / 5, "sts": 1 / 5 / 5})
    assert [value_of(name, -1.5, TASKS) for name in ("sst", "sts", "overall")] == [-1.5, 1.5, -1.5]


def test_a_metric_that_does_not_suit_the_task_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"^unknown metric of a binary task 'f2'; known: accuracy, average_precision, f1, "
    ):
        dataclasses.replace(TASKS["qqp"], metric="f2")
    with pytest.raises(ValueError, match=r"^the weight of task qqp must be above 0, got 0$"):
        dataclasses.replace(TASKS["qqp"], weight=0)


def test_data_files_have_the_cs224n_names() -> None:
    names = [TASKS[name].file_name(split) for name in ("sst", "qqp", "sts") for split in ("train", "dev", "test")]
    assert names == [
        *("ids-sst-train.csv", "ids-sst-dev.csv", "ids-sst-test-student.csv"),
        *("quora-train.csv", "quora-dev.csv", "quora-test-student.csv"),
        *("sts-train.csv", "sts-dev.csv", "sts-test-student.csv"),
    ]


def test_tasks_have_the_cs224n_labels() -> None:
    facts = {name: (task.kind, task.label_range, task.num_classes, task.num_logits) for name, task in TASKS.items()}
    assert facts == {
        "sst": ("classes", (0, 4), 5, 5),
        "qqp": ("binary", (0, 1), 2, 1),
        "sts": ("regression", (0, 5), 1, 1),
    }
    assert [TASKS[name].is_pair for name in ("sst", "qqp", "sts")] == [False, True, True]


def test_only_regression_is_scored_by_correlation() -> None:
    assert {name: task.metric for name, task in TASKS.items()} == {
        "sst": "accuracy",
        "qqp": "accuracy",
        "sts": "pearson",
    }


def test_two_thousand_rows_of_sst_train_are_scored() -> None:
    assert {name: task.scored_train_rows for name, task in TASKS.items()} == {"sst": 2000, "qqp": 0, "sts": 0}


def test_every_task_has_a_default_loss_that_exists_and_fits() -> None:
    for task in TASKS.values():
        assert task.default_loss in losses_for(task.kind)


def test_single_texts_are_encoded_alone_and_pairs_together() -> None:
    assert {name: default_task_config(TASKS[name]).encoding for name in TASKS} == {
        "sst": "single",
        "qqp": "cross",
        "sts": "cross",
    }


def test_names_titles_and_files_of_tasks_are_unique() -> None:
    assert [task.name for task in TASKS.values()] == list(TASKS)
    for field in ("title", "file_stem"):
        assert len({getattr(task, field) for task in TASKS.values()}) == len(TASKS)


def test_a_task_is_immutable() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        TASKS["sst"].title = "other"  # type: ignore[misc]
    assert isinstance(TASKS["sst"], Task)
