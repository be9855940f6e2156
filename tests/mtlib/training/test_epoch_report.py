"""Reports by hand: running means, tokens, scores of chosen predictions, and best epochs."""

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import mtlib.training.epoch_report
from mtlib.stages.sampler import epoch_steps
from mtlib.train import prepare_run
from mtlib.training.epoch_report import (
    STEPS,
    TOKENS,
    EpochReport,
    points_of,
    report_epoch,
    trained_amounts,
)
from mtlib.training.evaluation import Predictions
from mtlib.training.run import Run, begin_next_stage, end_epoch
from mtlib.training.step import shard_of
from tests.combinations import Material

NewRun = Callable[..., Run]
Chosen = dict[tuple[str, str], list[list[float]]]
Use = Callable[[Chosen], None]
LABELS = {"sst": [0, 1, 2, 4], "qqp": [0, 1, 1, 0], "sts": [1, 2, 4, 5]}
HALF_RIGHT: Chosen = {
    ("sst", "dev"): [[9, 0, 0, 0, 0], [0, 9, 0, 0, 0], [9, 0, 0, 0, 0], [9, 0, 0, 0, 0]],  # 2 of 4
    ("qqp", "dev"): [[-1], [2], [-3], [-4]],  # 3 of 4
    ("sts", "dev"): [[1], [2], [4], [9]],  # 9 is clipped to 5: perfect
    ("sst", "train"): [[9, 0, 0, 0, 0]] * 4,  # 1 of 4
}


@pytest.fixture
def run(new_run: NewRun) -> Run:
    """The tiny trial at the end of its second epoch: the first in which all three tasks are active."""
    run = new_run()
    run.stage, run.step = 1, run.plan[1].steps[0]
    return run


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Use:
    """Puts chosen logits in place of the model's."""

    def patch(chosen: Chosen) -> None:
        def predict(_model: Any, _config: Any, _corpus: Any, task: str, split: str, *_rest: Any) -> Predictions:
            labels, logits = (np.array(part, dtype=np.float32) for part in (LABELS[task], chosen[task, split]))
            return Predictions(task=task, split=split, ids=list("abcd"), labels=labels, logits=logits)

        monkeypatch.setattr(mtlib.training.epoch_report, "predict", predict)

    return patch


def values_of(report: EpochReport) -> dict[tuple[str, str, str], float]:
    """The points by task, split and metric, each once."""
    found = {(point.task, point.split, point.metric): point.value for point in report.points}
    assert len(found) == len(report.points)
    return found


def test_tokens_and_steps_of_an_epoch_are_those_of_its_batches(inputs: Callable[..., Material]) -> None:
    """Extra data counts for its task."""
    changes = {"tasks.qqp.encoding": "bi", "tasks.sts.encoding": "cross_no_separator", "encoder.max_length": 9}
    material = inputs("extra data", "plain", changes)
    run = prepare_run(material.config, material.corpus, material.encoder, torch.device("cpu"), lambda part: part, None)
    run.stage, run.epoch = 1, 1
    found: Counter[tuple[str, str]] = Counter()
    for part in itertools.chain(*epoch_steps(run.config, 1, 1, run.lengths, run.own_rows)):
        batch = shard_of(run.config, run.corpus, part)
        found[batch.task, TOKENS] += sum(int(one.attention_mask.sum()) for one in batch.inputs)
        found[batch.task, STEPS] += 1
    assert trained_amounts(run) == found
    assert {task for task, _ in found} == {"sst", "qqp", "sts"}


def test_the_numbers_of_a_report_by_hand(run: Run, use: Use) -> None:
    use(HALF_RIGHT)
    run.sums = {"qqp": {"loss": (3.0, 6), "smart_penalty": (0.75, 3)}}
    run.seconds_before = 50.0
    report = report_epoch(run)
    values = values_of(report)
    amounts = {key: values.pop(key) for key in list(values) if key[2] in (TOKENS, STEPS)}
    assert amounts == {(task, "train", metric): count for (task, metric), count in trained_amounts(run).items()}
    assert values == {
        ("qqp", "train", "loss"): 0.5,
        ("qqp", "train", "smart_penalty"): 0.25,
        ("sst", "dev", "loss"): pytest.approx((2 * np.log(1 + 4 * np.exp(-9)) + 2 * np.log(np.exp(9) + 4)) / 4),
        ("sst", "dev", "accuracy"): 0.5,
        ("qqp", "dev", "loss"): pytest.approx(sum(np.log1p(np.exp(gap)) for gap in (-1, -2, 3, -4)) / 4),
        ("qqp", "dev", "accuracy"): 0.75,
        ("sts", "dev", "loss"): 4.0,  # (9 - 5)^2 / 4: the loss is not clipped
        ("sts", "dev", "pearson"): pytest.approx(1),
        ("sts", "dev", "spearman"): pytest.approx(1),
        ("sst", "train", "accuracy"): 0.25,  # of the scored rows; their loss would replace the running one
        ("overall", "dev", "overall"): pytest.approx((0.5 + 0.75 + 1) / 3),
    }
    assert report.overall == values["overall", "dev", "overall"]
    assert (report.epoch, report.stage, report.is_last) == (2, 1, False)
    assert {(point.step, point.epoch) for point in report.points} == {(4 + run.plan[1].steps[0], 2)}
    assert report.step == 4 + run.plan[1].steps[0]
    assert all(point.seconds == pytest.approx(50, abs=5) for point in report.points)
    parts = [(part.task, part.split) for part in report.predictions]
    assert parts == [("sst", "dev"), ("qqp", "dev"), ("sts", "dev"), ("sst", "train")]


def changed(**logits: list[list[float]]) -> Chosen:
    """The predictions above with other logits for some tasks' dev."""
    return {**HALF_RIGHT, **{(task, "dev"): rows for task, rows in logits.items()}}


def test_only_a_higher_score_is_a_new_best_and_the_first_may_be_below_0(run: Run, use: Use) -> None:
    reversed_sts = [[5.0], [4.0], [2.0], [1.0]]
    use(changed(sts=reversed_sts))
    first, best = report_epoch(run), dict(run.best)
    overall = (0.5 + 0.75 + 0) / 3
    expected: Any = {"sst": (0.5, 2), "qqp": (0.75, 2), "sts": (pytest.approx(-1), 2), "overall": (overall, 2)}
    assert best == expected
    again = report_epoch(run)  # after a resume
    assert (values_of(again), again.overall, run.best) == (values_of(first), first.overall, best)
    run.epoch, run.step = 1, 3
    better_sst = [[9.0, 0, 0, 0, 0], [0, 9.0, 0, 0, 0], [0, 0, 9.0, 0, 0], [9.0, 0, 0, 0, 0]]  # 3 of 4
    use(changed(sts=reversed_sts, sst=better_sst, qqp=[[1], [2], [-3], [4]]))  # 1 of 4
    second = report_epoch(run)
    assert run.best == {**best, "sst": (0.75, 3)}
    assert (second.epoch, second.is_last) == (3, True)


def test_there_is_no_overall_score_before_every_task_has_been_active_and_earlier_ones_stay(
    new_run: NewRun, use: Use
) -> None:
    use(HALF_RIGHT)
    run = new_run({"stages.1.tasks": "sts", "stages.1.order": "batch_round_robin"})
    report = report_epoch(run)
    assert (report.overall, report.stage, report.is_last) == (None, 0, False)
    assert values_of(report).keys() == {
        ("qqp", "train", TOKENS),
        ("qqp", "train", STEPS),
        ("qqp", "dev", "loss"),
        ("qqp", "dev", "accuracy"),
    }
    assert [part.task for part in report.predictions] == ["qqp"]
    assert run.best == {"qqp": (0.75, 1)}
    end_epoch(run)
    begin_next_stage(run)
    report = report_epoch(run)
    assert [part.task for part in report.predictions] == ["qqp", "sts"]
    assert report.overall == pytest.approx((0.75 + 1) / 2)
    assert report.epoch == 2


def test_learned_weights_are_points_of_the_tasks_active_so_far(new_run: NewRun) -> None:
    run = new_run({"loss_weighting": "uncertainty", "smart.weight": 0})
    with torch.no_grad():
        for task, log_variance in (("sst", np.log(4)), ("qqp", np.log(0.5)), ("sts", np.log(5))):
            run.model.log_variances[task].fill_(log_variance)
    weights = {"sst": 1 / 4, "qqp": 2, "sts": 1 / 10}  # 1 / sigma^2, half that for a squared error
    for stage, tasks in ((0, ("qqp",)), (1, ("sst", "qqp", "sts"))):
        run.stage = stage
        points = [point for point in points_of(run, None, {}, []) if point.metric == "loss_weight"]
        assert {point.task: point.value for point in points} == {task: pytest.approx(weights[task]) for task in tasks}
        assert {point.split for point in points} == {"train"}
    fixed = new_run({"tasks.sst.loss_weight": 3})
    assert {point.metric for point in points_of(fixed, None, {}, [])} == {TOKENS, STEPS}


def test_the_best_epoch_of_a_stage_has_the_highest_mean_score_of_the_active_tasks(new_run: NewRun, use: Use) -> None:
    run = new_run({"stages.0.tasks": "sst,qqp", "stages.0.epochs": 3, "stages.1.start_from": "best"})
    perfect = (9 * np.eye(5)[LABELS["sst"]]).tolist()
    chosen = (HALF_RIGHT, changed(sst=perfect, qqp=[[-1], [2], [3], [4]]), changed(qqp=[[-1], [2], [3], [-4]]))
    expected = ((0.5 + 0.75) / 2, (1 + 0.75) / 2, (1 + 0.75) / 2)  # the third, (.5 + 1) / 2, is worse
    for run.epoch, (logits, best) in enumerate(zip(chosen, expected, strict=True)):
        with torch.no_grad():
            run.model.get_parameter("heads.sst.bias").fill_(run.epoch)
        use(logits)
        report_epoch(run)
        assert run.stage_best is not None
        assert run.stage_best[0] == pytest.approx(best)
        assert set(run.stage_best[1]["heads.sst.bias"].tolist()) == {min(run.epoch, 1)}
