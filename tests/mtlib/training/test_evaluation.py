"""Predictions and metrics against the model run one example at a time, scikit-learn and SciPy."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import accuracy_score

import mtlib.training.evaluation
from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from mtlib.data.batches import make_batch
from mtlib.data.token_cache import Corpus
from mtlib.model.encoder import PretrainedEncoder
from mtlib.model.multitask import MultiTaskModel
from mtlib.runtime.errors import TrainingDiverged
from mtlib.tasks import TASKS
from mtlib.training.evaluation import (
    Predictions,
    batch_starts,
    predict,
    score,
    scored_train_rows,
    task_metrics,
)

CPU = torch.device("cpu")
DEFAULT = TrialConfig(stages=(StageConfig(tasks=tuple(TASKS)),))


@pytest.fixture
def model(tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder) -> MultiTaskModel:
    return enlarge_weights(MultiTaskModel(tiny_config, tiny_encoder))


def enlarge_weights(model: MultiTaskModel) -> MultiTaskModel:
    """The model with large weights in training mode, so that its logits differ strongly between texts."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.mul_(5 if parameter.dim() > 1 else 1)
            if name == "heads.sts.bias":  # not of a cosine
                parameter.fill_(2.5)  # within the range of labels, so that few are clipped
    return model.train()


def scores_of(task: str, logits: Any, labels: Any, config: TrialConfig = DEFAULT) -> dict[str, float]:
    """Scores of plain numbers."""
    given = np.array(logits, dtype=np.float32)
    part = Predictions(
        task=task,
        split="dev",
        ids=[str(row) for row in range(len(given))],
        labels=np.array(labels, dtype=np.float32),
        logits=given.reshape(len(given), TASKS[task].num_logits),
    )
    return score(part, config)


@pytest.mark.parametrize("task", ["sst", "qqp", "sts"])
def test_predictions_match_the_model_run_one_example_at_a_time(
    task: str, model: MultiTaskModel, tiny_config: TrialConfig, tiny_corpus: Corpus
) -> None:
    table = tiny_corpus[task, "dev"]
    found = predict(model, tiny_config, tiny_corpus, task, "dev", CPU)
    model.eval()
    encoding = tiny_config.tasks[task].encoding
    for row in range(table.num_rows):
        with torch.no_grad():
            alone = model(make_batch(table, np.array([row]), encoding=encoding, max_length=32)).logits[0].numpy()
        assert np.allclose(found.logits[row], alone, atol=1e-6)
    assert found.ids == [f"{task}dev{row}" for row in range(13)]
    assert np.array_equal(found.labels, table.labels)
    assert found.logits.dtype == np.float32
    assert found.logits.shape == (13, TASKS[task].num_logits)
    assert np.ptp(found.logits) > 0.1  # so that a wrong order fails


@pytest.mark.parametrize("task", ["sst", "qqp"])
def test_scores_do_not_depend_on_the_batches_of_the_evaluation(
    task: str, tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder
) -> None:
    """Nor are random numbers drawn, though dropout is on in training."""
    tiny_config = tiny_config.override({"tasks.qqp.encoding": "bi", "tasks.sst.pooling": "mean"})
    model, found = enlarge_weights(MultiTaskModel(tiny_config, tiny_encoder)), []
    state = torch.get_rng_state()
    for size, tokens in ((1, None), (3, None), (13, 40), (14, 100_000)):
        config = tiny_config.override({"evaluation.batch_size": size, "evaluation.batch_tokens": tokens})
        found.append(predict(model, config, tiny_corpus, task, "dev", CPU))
        assert np.allclose(found[-1].logits, found[0].logits, rtol=1e-5, atol=2e-6)
        assert score(found[-1], DEFAULT) == pytest.approx(score(found[0], DEFAULT), abs=1e-6)
    assert model.training
    assert torch.equal(torch.get_rng_state(), state)
    rows = np.array([8, 2, 11, 0])
    some = predict(model, tiny_config, tiny_corpus, task, "dev", CPU, rows)
    assert some.ids == [f"{task}dev{row}" for row in rows]
    assert np.allclose(some.logits, found[0].logits[rows], rtol=1e-5, atol=2e-6)


def test_workers_share_the_rows_and_all_get_the_whole(
    model: MultiTaskModel, tiny_config: TrialConfig, tiny_corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    world_size = 4
    config = tiny_config.override({"evaluation.batch_size": 3})
    expected = predict(model, config, tiny_corpus, "qqp", "dev", CPU)
    parts: list[Any] = []

    def note(part: Any) -> list[Any]:
        parts.append(part)
        return [part]

    monkeypatch.setattr(mtlib.training.evaluation, "num_workers", lambda: world_size)
    monkeypatch.setattr(mtlib.training.evaluation, "gather_from_workers", note)
    for rank in range(world_size):
        monkeypatch.setattr(mtlib.training.evaluation, "worker_rank", lambda rank=rank: rank)
        predict(model, config, tiny_corpus, "qqp", "dev", CPU)
    shares = [sum(len(positions) for positions, _ in part) for part in parts]
    assert sum(shares) == 13
    assert max(shares) - min(shares) <= 3
    monkeypatch.setattr(mtlib.training.evaluation, "gather_from_workers", lambda _part: parts)
    assert np.array_equal(predict(model, config, tiny_corpus, "qqp", "dev", CPU).logits, expected.logits)


@pytest.mark.parametrize(
    ("lengths", "most_rows", "most_tokens", "starts"),
    [
        ([3, 3, 3, 3], 4, 12, [0]),
        ([3, 3, 3, 3], 4, 11, [0, 3]),
        ([3, 3, 3, 3], 3, None, [0, 3]),
        ([1, 1, 1, 4], 9, 15, [0, 3]),  # padded to 4, the first three count 12
        ([1, 1, 1, 4], 9, 16, [0]),
        ([2, 9, 9, 9], 9, 4, [0, 1, 2, 3]),  # each longer than a batch
    ],
)
def test_a_batch_ends_before_it_has_too_many_rows_or_tokens(
    lengths: list[int], most_rows: int, most_tokens: int | None, starts: list[int]
) -> None:
    assert batch_starts(np.array(lengths), most_rows, most_tokens) == starts


def test_scored_train_rows_are_the_same_own_rows_for_every_seed_and_replicate(
    tiny_config: TrialConfig, tiny_corpus: Corpus
) -> None:
    rows = scored_train_rows(tiny_config, tiny_corpus, "sst")
    assert len(set(rows.tolist())) == 11
    assert rows.tolist() == sorted(rows) != list(range(11))
    for change in ({"seed": 9}, {"replicate": 3}, {"tasks.sst.batch_size": 4}):
        assert np.array_equal(scored_train_rows(tiny_config.override(change), tiny_corpus, "sst"), rows)
    augmented = {("sst", "train"): dataclasses.replace(tiny_corpus["sst", "train"], num_own_rows=17)}
    assert scored_train_rows(tiny_config, augmented, "sst").max() < 17
    for setting, count in ((0, 0), (16, 16), (17, 17), (2000, 17)):
        config = tiny_config.override({"tasks.sst.scored_train_rows": setting})
        assert len(scored_train_rows(config, augmented, "sst")) == count


def test_accuracies_match_scikit_learn() -> None:
    stream = np.random.default_rng(0)
    logits, labels = stream.normal(size=(200, 5)), stream.integers(0, 5, 200)
    assert scores_of("sst", logits, labels)["accuracy"] == pytest.approx(accuracy_score(labels, logits.argmax(1)))
    chosen, binary = 1 / (1 + np.exp(-logits[:, 0])) > 0.5, stream.integers(0, 2, 200)
    assert scores_of("qqp", logits[:, 0], binary)["accuracy"] == pytest.approx(accuracy_score(binary, chosen))


def test_correlations_match_scipy_on_clipped_predictions_and_the_loss_is_not_clipped() -> None:
    stream = np.random.default_rng(2)
    labels = np.round(stream.uniform(0, 5, 200), 1).astype(np.float32)  # with ties
    logits = (labels + stream.normal(scale=2, size=200)).astype(np.float32)
    clipped = np.clip(logits, 0, 5)
    assert (clipped != logits).sum() > 20
    assert scores_of("sts", logits, labels) == {
        "pearson": pytest.approx(pearsonr(clipped, labels).statistic, abs=1e-6),
        "spearman": pytest.approx(spearmanr(clipped, labels).statistic, abs=1e-6),
        "loss": pytest.approx(np.mean((logits - labels) ** 2), rel=1e-5),
    }


def test_the_loss_is_a_mean_over_examples_by_the_tasks_settings() -> None:
    logits = [[1.0, 0.0, -1.0, 2.0, 0.5], [0.0] * 5]
    probs = np.exp(logits[0]) / np.exp(logits[0]).sum()
    assert scores_of("sst", logits, [3, 0])["loss"] == pytest.approx((np.log(5) - np.log(probs[3])) / 2, rel=1e-5)
    ordinal = DEFAULT.override({"tasks.sst.loss": "ordinal_log_loss", "tasks.sst.ordinal_alpha": 2})
    by_hand = -sum(np.log(1 - probs[label]) * (3 - label) ** 2 for label in range(5))
    assert scores_of("sst", logits[:1], [3], ordinal)["loss"] == pytest.approx(by_hand, rel=1e-5)


def test_a_metric_of_one_class_is_scored_by_its_name() -> None:
    task = dataclasses.replace(TASKS["sst"], labels=("awful", "bad", "fair", "good", "great"), metric="recall:good")
    logits, labels = np.eye(5)[[3, 3, 0, 3]], np.array([3, 1, 3, 3])
    assert task_metrics(task, logits, labels) == {"recall:good": pytest.approx(2 / 3), "accuracy": 0.5}


@pytest.mark.parametrize("value", [float("nan"), -float("inf")])
def test_predictions_that_are_not_finite_are_refused_rather_than_scored(
    value: float, model: MultiTaskModel, tiny_config: TrialConfig, tiny_corpus: Corpus
) -> None:
    with torch.no_grad():
        model.get_parameter("heads.sst.bias")[-1] = value
    with pytest.raises(TrainingDiverged, match=r"^sst: a prediction on train is not finite$"):
        predict(model, tiny_config, tiny_corpus, "sst", "train", CPU)
