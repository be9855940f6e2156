"""Predictions and metrics against scikit-learn, SciPy, and the model run one example at a time."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import accuracy_score
from torch.utils._python_dispatch import TorchDispatchMode

import mtlib.training.evaluation
from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from mtlib.data.batches import make_batch
from mtlib.data.token_cache import Corpus
from mtlib.metrics.correlation import pearson
from mtlib.model.encoder import PretrainedEncoder
from mtlib.model.multitask import MultiTaskModel
from mtlib.runtime.errors import TrainingDiverged
from mtlib.tasks import TASKS
from mtlib.training.evaluation import (
    CPU_BATCH_TOKENS,
    Predictions,
    batch_starts,
    batch_tokens,
    my_batches,
    predict,
    score,
    scored_train_rows,
)

CPU = torch.device("cpu")
DEFAULT = TrialConfig(stages=(StageConfig(tasks=tuple(TASKS)),))

BI = {"tasks.qqp.encoding": "bi", "tasks.sts.encoding": "bi"}
MEAN = {f"tasks.{task}.pooling": "mean" for task in TASKS}
READING: dict[str, dict[str, Any]] = {
    "cross": {},
    "bi": BI,
    "no separator": {"tasks.qqp.encoding": "cross_no_separator", "tasks.sts.encoding": "cross_no_separator"},
    "mean": MEAN,
    "cosine": {**BI, "tasks.qqp.head": "cosine", "tasks.sts.head": "cosine"},
    "pals": {"pals.size": 8, "pals.num_heads": 2, "pals.tasks": "sst,qqp,sts"},
    "relational": {**MEAN, "relational_tasks": "qqp,sts", "pals.size": 8, "pals.tasks": "qqp", "pals.num_heads": 1},
}


@pytest.fixture
def model(tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder) -> MultiTaskModel:
    return enlarge_weights(MultiTaskModel(tiny_config, tiny_encoder))


def enlarge_weights(model: MultiTaskModel) -> MultiTaskModel:
    """The model with large weights in training mode, so that its logits differ strongly between texts."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(5 if parameter.dim() > 1 else 1)
        for name, parameter in model.named_parameters():
            if name == "heads.sts.bias":  # not of a cosine
                parameter.fill_(2.5)  # within the range of labels, so that few are clipped
    return model.train()


def predictions(task: str, logits: Any, labels: Any) -> Predictions:
    """Predictions from plain numbers."""
    given = np.array(logits, dtype=np.float32)
    return Predictions(
        task=task,
        split="dev",
        ids=[str(row) for row in range(len(given))],
        labels=np.array(labels, dtype=np.float32),
        logits=given.reshape(len(given), TASKS[task].num_logits),
    )


def scored(task: str, logits: Any, labels: Any) -> dict[str, float]:
    return score(predictions(task, logits, labels), DEFAULT)


@pytest.mark.parametrize("task", ["sst", "qqp", "sts"])
def test_predictions_match_the_model_run_one_example_at_a_time(
    task: str, model: MultiTaskModel, tiny_config: TrialConfig, tiny_corpus: Corpus
) -> None:
    table = tiny_corpus[task, "dev"]
    found = predict(model, tiny_config, tiny_corpus, task, "dev", CPU)
    model.eval()
    for row in range(table.num_rows):
        batch = make_batch(
            table,
            np.array([row]),
            encoding=tiny_config.tasks[task].encoding,
            max_length=tiny_config.encoder.max_length,
        )
        with torch.no_grad():
            alone = model(batch).logits[0].numpy()
        assert np.allclose(found.logits[row], alone, atol=1e-6)
    assert found.ids == [f"{task}dev{row}" for row in range(13)]
    assert np.array_equal(found.labels, table.labels)
    assert (found.task, found.split) == (task, "dev")
    assert found.logits.dtype == np.float32
    assert found.logits.shape == (13, TASKS[task].num_logits)
    assert np.ptp(found.logits) > 0.1  # so that a wrong order fails


@pytest.mark.parametrize("task", ["sst", "qqp", "sts"])
@pytest.mark.parametrize("name", READING)
def test_scores_do_not_depend_on_the_batches_of_the_evaluation(
    task: str, name: str, tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder
) -> None:
    tiny_config = tiny_config.override(READING[name])
    model = enlarge_weights(
        MultiTaskModel(tiny_config, tiny_encoder)
    ).double()  # so that correlations do not depend on rounding in fp32
    found = []
    for size, tokens in ((1, None), (3, None), (13, 1), (13, 40), (14, 100_000), (1000, None)):
        config = tiny_config.override({"evaluation.batch_size": size, "evaluation.batch_tokens": tokens})
        found.append(predict(model, config, tiny_corpus, task, "dev", CPU))
        assert np.allclose(found[-1].logits, found[0].logits, rtol=1e-6, atol=2e-6)
    scores = [score(part, DEFAULT) for part in found]
    for name, value in scores[0].items():
        assert [other[name] for other in scores] == [pytest.approx(value, abs=1e-6)] * 6


@pytest.mark.parametrize("is_training", [True, False])
def test_the_mode_of_the_model_is_restored(
    is_training: bool, model: MultiTaskModel, tiny_config: TrialConfig, tiny_corpus: Corpus
) -> None:
    model.train(is_training)
    first = predict(model, tiny_config, tiny_corpus, "sst", "dev", CPU)
    assert {module.training for module in model.modules()} == {is_training}
    again = predict(model, tiny_config, tiny_corpus, "sst", "dev", CPU)
    assert np.array_equal(first.logits, again.logits)  # no dropout, though it is on in training
    assert all(parameter.grad is None for parameter in model.parameters())


def test_the_mode_of_the_model_is_restored_after_an_error(
    model: MultiTaskModel, tiny_config: TrialConfig, tiny_corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: Any, **_named: Any) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(model, "forward", fail)
    with pytest.raises(RuntimeError, match="out of memory"):
        predict(model, tiny_config, tiny_corpus, "sst", "dev", CPU)
    assert model.training


def test_predicting_does_not_use_the_global_stream(
    model: MultiTaskModel, tiny_config: TrialConfig, tiny_corpus: Corpus
) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    predict(model, tiny_config, tiny_corpus, "sst", "dev", CPU)
    assert torch.equal(torch.rand(3), expected)


def test_chosen_rows_are_in_the_given_order(
    model: MultiTaskModel, tiny_config: TrialConfig, tiny_corpus: Corpus
) -> None:
    whole = predict(model, tiny_config, tiny_corpus, "qqp", "train", CPU)
    rows = np.array([60, 2, 41, 0, 69])
    some = predict(model, tiny_config, tiny_corpus, "qqp", "train", CPU, rows)
    assert some.ids == [f"qqptrain{row}" for row in rows]
    assert np.array_equal(some.labels, whole.labels[rows])
    assert np.allclose(some.logits, whole.logits[rows], atol=1e-6)


def test_a_split_without_labels_is_predicted(
    model: MultiTaskModel, tiny_config: TrialConfig, tiny_corpus: Corpus
) -> None:
    table = dataclasses.replace(tiny_corpus["sst", "dev"], labels=np.full(13, np.nan, dtype=np.float32))
    found = predict(model, tiny_config, {("sst", "dev"): table}, "sst", "dev", CPU)
    labelled = predict(model, tiny_config, tiny_corpus, "sst", "dev", CPU)
    assert np.array_equal(found.logits, labelled.logits)
    assert np.isnan(found.labels).all()


@pytest.mark.parametrize("world_size", [1, 2, 3, 7])
def test_workers_share_the_rows_and_all_get_the_whole(
    world_size: int,
    model: MultiTaskModel,
    tiny_config: TrialConfig,
    tiny_corpus: Corpus,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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
    shares = [np.concatenate([positions for positions, _ in part] or [np.zeros(0, int)]) for part in parts]
    assert sorted(np.concatenate(shares)) == list(range(13))
    assert max(len(share) for share in shares) - min(len(share) for share in shares) <= 3
    monkeypatch.setattr(mtlib.training.evaluation, "gather_from_workers", lambda _part: parts)
    assert np.array_equal(predict(model, config, tiny_corpus, "qqp", "dev", CPU).logits, expected.logits)


def test_rows_of_similar_length_are_batched_together(tiny_config: TrialConfig, tiny_corpus: Corpus) -> None:
    config, table = tiny_config.override({"evaluation.batch_size": 5}), tiny_corpus["qqp", "train"]
    batches = my_batches(config, table, np.arange(70), CPU)
    lengths = table.lengths("cross", 32)
    assert np.array_equal(lengths[np.concatenate(batches)], np.sort(lengths))
    assert [len(batch) for batch in batches] == [5] * 14
    config = config.override({"evaluation.batch_size": 70, "evaluation.batch_tokens": 60})
    batches = my_batches(config, table, np.arange(70), CPU)
    assert np.array_equal(lengths[np.concatenate(batches)], np.sort(lengths))
    assert max(len(batch) * lengths[batch].max() for batch in batches) <= 60
    assert my_batches(config, table, np.arange(0), CPU) == []


@pytest.mark.parametrize(
    ("lengths", "most_rows", "most_tokens", "starts"),
    [
        ([3, 3, 3, 3], 4, 12, [0]),
        ([3, 3, 3, 3], 4, 11, [0, 3]),
        ([3, 3, 3, 3], 3, 12, [0, 3]),
        ([3, 3, 3, 3], 3, None, [0, 3]),
        ([1, 1, 1, 4], 9, 15, [0, 3]),  # padded to 4, the first three count 12
        ([1, 1, 1, 4], 9, 16, [0]),
        ([2, 9, 9, 9], 9, 4, [0, 1, 2, 3]),  # each longer than a batch
        ([7], 1, 1, [0]),
    ],
)
def test_a_batch_ends_before_it_has_too_many_rows_or_tokens(
    lengths: list[int], most_rows: int, most_tokens: int | None, starts: list[int]
) -> None:
    assert batch_starts(np.array(lengths), most_rows, most_tokens) == starts


@pytest.mark.parametrize(
    ("given", "device", "expected"),
    [(None, "cpu", CPU_BATCH_TOKENS), (None, "cuda", None), (5, "cpu", 5), (5, "cuda", 5)],
)
def test_tokens_of_a_batch_have_a_limit_on_a_cpu_unless_one_is_given(
    given: int | None, device: str, expected: int | None, tiny_config: TrialConfig
) -> None:
    config = tiny_config.override({"evaluation.batch_tokens": given})
    assert batch_tokens(config, torch.device(device)) == expected


def test_a_weight_is_cast_to_bf16_once_for_all_batches(
    model: MultiTaskModel, tiny_config: TrialConfig, tiny_corpus: Corpus
) -> None:
    weight, casts = model.get_parameter("heads.sst.weight"), []

    class Casts(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, function: Any, _types: Any, given: Any = (), named: Any = None) -> Any:
            if function is torch.ops.aten._to_copy.default and given[0] is weight:
                casts.append(named)
            return function(*given, **(named or {}))

    config = tiny_config.override({"precision": "bf16", "evaluation.batch_size": 3})
    assert len(my_batches(config, tiny_corpus["sst", "dev"], np.arange(13), CPU)) > 1
    with Casts():  # type: ignore[no-untyped-call]
        predict(model, config, tiny_corpus, "sst", "dev", CPU)
    assert [named["dtype"] for named in casts] == [torch.bfloat16]


def test_bf16_predictions_are_close_to_fp32(
    model: MultiTaskModel, tiny_config: TrialConfig, tiny_corpus: Corpus
) -> None:
    full = predict(model, tiny_config, tiny_corpus, "sst", "dev", CPU).logits
    half = predict(model, tiny_config.override({"precision": "bf16"}), tiny_corpus, "sst", "dev", CPU).logits
    assert half.dtype == np.float32
    assert not np.array_equal(full, half)
    assert np.allclose(full, half, atol=0.1)


def test_scored_train_rows_are_the_same_for_every_seed_and_replicate(
    tiny_config: TrialConfig, tiny_corpus: Corpus
) -> None:
    rows = scored_train_rows(tiny_config, tiny_corpus, "sst")
    assert len(set(rows.tolist())) == 11
    assert rows.tolist() == sorted(rows)
    assert rows.min() >= 0
    assert rows.max() < 30
    assert rows.tolist() != list(range(11))
    for change in ({"seed": 9}, {"replicate": 3}, {"encoder.max_length": 16}, {"tasks.sst.batch_size": 4}):
        assert np.array_equal(scored_train_rows(tiny_config.override(change), tiny_corpus, "sst"), rows)


@pytest.mark.parametrize(("setting", "count"), [(0, 0), (1, 1), (29, 29), (30, 30), (31, 30), (2000, 30)])
def test_at_most_all_train_rows_are_scored(
    setting: int, count: int, tiny_config: TrialConfig, tiny_corpus: Corpus
) -> None:
    config = tiny_config.override({"tasks.sst.scored_train_rows": setting})
    assert len(scored_train_rows(config, tiny_corpus, "sst")) == count


def test_the_accuracy_of_classes_matches_scikit_learn() -> None:
    stream = np.random.default_rng(0)
    logits, labels = stream.normal(size=(200, 5)), stream.integers(0, 5, 200)
    assert scored("sst", logits, labels)["accuracy"] == pytest.approx(accuracy_score(labels, logits.argmax(1)))


def test_the_accuracy_of_a_binary_task_matches_scikit_learn_at_probability_one_half() -> None:
    stream = np.random.default_rng(1)
    logits, labels = stream.normal(size=200), stream.integers(0, 2, 200)
    chosen = 1 / (1 + np.exp(-logits)) > 0.5
    assert scored("qqp", logits, labels)["accuracy"] == pytest.approx(accuracy_score(labels, chosen))


def test_correlations_match_scipy_on_clipped_predictions() -> None:
    stream = np.random.default_rng(2)
    labels = np.round(stream.uniform(0, 5, 200), 1).astype(np.float32)  # with ties
    logits = (labels + stream.normal(scale=2, size=200)).astype(np.float32)
    clipped = np.clip(logits, 0, 5)
    assert (clipped != logits).sum() > 20
    found = scored("sts", logits, labels)
    assert found["pearson"] == pytest.approx(pearsonr(clipped, labels).statistic, abs=1e-6)
    assert found["spearman"] == pytest.approx(spearmanr(clipped, labels).statistic, abs=1e-6)
    assert set(found) == {"loss", "pearson", "spearman"}


def test_only_metrics_are_clipped() -> None:
    part = predictions("sts", [7.0, -2.0, 5.0], [5.0, 0.0, 4.0])
    assert score(part, DEFAULT)["loss"] == pytest.approx((4 + 4 + 1) / 3)
    assert part.logits[:, 0].tolist() == [7.0, -2.0, 5.0]
    assert score(part, DEFAULT)["pearson"] == pytest.approx(pearsonr([5, 0, 5], [5, 0, 4]).statistic)


def test_the_loss_depends_on_the_tasks_settings() -> None:
    part = predictions("sst", [[1.0, 0.0, -1.0, 2.0, 0.5]], [3.0])
    probs = np.exp(part.logits[0]) / np.exp(part.logits[0]).sum()
    ordinal = DEFAULT.override({"tasks.sst.loss": "ordinal_log_loss", "tasks.sst.ordinal_alpha": 2})
    by_hand = -sum(np.log(1 - probs[label]) * (3 - label) ** 2 for label in range(5))
    assert score(part, ordinal)["loss"] == pytest.approx(by_hand, rel=1e-5)
    assert score(part, DEFAULT)["loss"] == pytest.approx(-np.log(probs[3]), rel=1e-5)
    assert score(part, ordinal)["accuracy"] == 1


def test_augmentation_is_not_among_the_scored_train_rows(tiny_config: TrialConfig, tiny_corpus: Corpus) -> None:
    fewer = {("sst", "train"): dataclasses.replace(tiny_corpus["sst", "train"], num_own_rows=17)}
    config = tiny_config.override({"tasks.sst.scored_train_rows": 100})
    assert scored_train_rows(config, fewer, "sst").tolist() == list(range(17))
    rows = scored_train_rows(tiny_config, fewer, "sst")
    assert len(rows) == 11
    assert rows.max() < 17


def test_losses_are_means_over_examples() -> None:
    assert scored("sst", np.zeros((3, 5)), [0, 1, 4])["loss"] == pytest.approx(math.log(5))
    assert scored("qqp", [0.0, math.log(9)], [1, 0])["loss"] == pytest.approx((math.log(2) + math.log(10)) / 2)


@pytest.mark.parametrize("labels", [[0.0, 1.0, 5.0], [2.0, 2.0, 2.0]])
@pytest.mark.parametrize("value", [0.1, 2.3, -1.0, 9.0])
def test_constant_predictions_have_no_correlation(value: float, labels: list[float]) -> None:
    found = scored("sts", [value] * 3, labels)
    assert (found["pearson"], found["spearman"]) == (0.0, 0.0)
    assert pearson(np.full(10, value), np.arange(10)) == 0.0
    assert pearson(np.arange(10), np.full(10, value)) == 0.0


def test_correlations_known_by_hand() -> None:
    assert pearson(np.array([1, 2, 3]), np.array([10, 20, 30])) == pytest.approx(1)
    assert pearson(np.array([1, 2, 3]), np.array([3, 2, 1])) == pytest.approx(-1)
    assert pearson(np.array([1, 2, 3]), np.array([1, 3, 2])) == pytest.approx(0.5)
    assert pearson(np.array([4.0]), np.array([2.0])) == 0.0
    assert scored("sts", [0.0, 1.0, 4.9], [0.0, 2.0, 2.1])["spearman"] == pytest.approx(1)


def test_rounding_never_puts_a_correlation_out_of_its_range() -> None:
    stream = np.random.default_rng(3)
    for _ in range(200):
        values = stream.normal(size=7).astype(np.float32)
        assert abs(pearson(values, 3 * values)) <= 1


@pytest.mark.parametrize("task", ["sst", "qqp", "sts"])
def test_one_example_can_be_scored(task: str) -> None:
    width = TASKS[task].num_logits
    found = scored(task, np.arange(width)[None] + 1.0, [float(max(width - 1, 1))])
    assert found[TASKS[task].metric] == (0.0 if task == "sts" else 1.0)
    assert all(math.isfinite(value) for value in found.values())


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("task", ["sst", "qqp", "sts"])
def test_nan_predictions_are_refused_rather_than_scored(
    task: str, value: float, model: MultiTaskModel, tiny_config: TrialConfig, tiny_corpus: Corpus
) -> None:
    bias = model.get_parameter(f"heads.{task}.bias")
    with torch.no_grad():
        bias[-1] = value
    for split in ("dev", "train"):
        with pytest.raises(TrainingDiverged, match=f"^{task}: a prediction on {split} is not finite$"):
            predict(model, tiny_config, tiny_corpus, task, split, CPU)
    assert model.training
    for other in {"sst", "qqp", "sts"} - {task}:
        predict(model, tiny_config, tiny_corpus, other, "dev", CPU)


def test_every_worker_sees_a_single_nan(
    model: MultiTaskModel, tiny_config: TrialConfig, tiny_corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gathered(value: float) -> Any:
        return lambda own: [own, [(np.array([12]), np.array([[value]], dtype=np.float32))]]

    monkeypatch.setattr(mtlib.training.evaluation, "gather_from_workers", gathered(1e30))
    assert predict(model, tiny_config, tiny_corpus, "qqp", "dev", CPU).logits[12, 0] == np.float32(1e30)
    monkeypatch.setattr(mtlib.training.evaluation, "gather_from_workers", gathered(float("nan")))
    with pytest.raises(TrainingDiverged, match=r"^qqp: a prediction on dev is not finite$"):
        predict(model, tiny_config, tiny_corpus, "qqp", "dev", CPU)
