"""Latency is the median over texts after a warm-up, by a clock; each network is measured once, without its weights."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mtlib.config.schema import to_dict
from mtlib.config.trial import TrialConfig
from mtlib.data.batches import Batch
from mtlib.model.encoder import PretrainedEncoder
from mtlib.model.multitask import MultiTaskModel, Output
from mtlib.tasks import TASKS
from results.ensembles.candidates import read_pool
from results.ensembles.ensemble import Ensemble
from results.inference import latency
from results.inference.latency import (
    NUM_TIMES,
    build_untrained,
    choose_texts,
    describe_network,
    find_latencies,
    measure_latency,
)
from results.inference.models import LoadedModel, ModelSource
from results.inference.predictor import Predictor, predict_texts
from results.records.trials import read_trials, write_trials
from tests.results.trained_sweep import FIRST, SECOND, THIRD

CLASSES, PAIRS = TASKS["sst"], TASKS["sts"]
TEXTS: dict[str, list[tuple[str, ...]]] = {
    "sst": [("a good film",), ("bad",)],
    "qqp": [("a dog", "the cat sleeps")],
    "sts": [("a dog", "a cat")],
}


class SteadyClock:
    """A clock that is so many seconds further each time that it is looked at."""

    def __init__(self, *steps: float) -> None:
        self.steps, self.now, self.num_looks = steps, 0.0, 0

    def __call__(self) -> float:
        self.now += self.steps[self.num_looks % len(self.steps)]
        self.num_looks += 1
        return self.now


def source_of(folder: Path, **changes: Any) -> ModelSource:
    return ModelSource(**{"places": {str(folder): folder}, "device": "cpu", **changes})


def change_trials(folder: Path, *changes: dict[str, Any]) -> None:
    """Changes the configurations of a sweep's first trials."""
    records = read_trials(folder)
    configs = [
        TrialConfig.from_json(record.config).override(own) for record, own in zip(records, changes, strict=False)
    ]
    changed = [replace(record, config=own.to_json()) for record, own in zip(records, configs, strict=False)]
    write_trials(folder, [*changed, *records[len(changed) :]], tuple(TASKS))


@pytest.fixture
def folder(trained_folder: Path, tmp_path: Path) -> Path:
    """A copy to change."""
    return shutil.copytree(trained_folder, tmp_path / "mine")


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[TrialConfig]:
    """Configurations in the order in which they are measured; the n-th takes 10 n ms."""
    found: list[TrialConfig] = []

    def measure(model: LoadedModel, _task: object, _texts: object, _clock: object) -> float:
        found.append(model.config)
        return 10.0 * len(found)

    monkeypatch.setattr(latency, "measure_latency", measure)
    return found


@pytest.fixture
def loaded(trained_folder: Path) -> LoadedModel:
    return build_untrained(TrialConfig.from_json(read_trials(trained_folder)[0].config), source_of(trained_folder))


@pytest.mark.parametrize(
    ("seconds", "median"), [([0.004], 4), ([0.009, 0.001, 0.002], 2), ([0.004, 0.001, 0.002, 0.1], 3)]
)
def test_latency_is_the_median_over_texts_of_the_fastest_time_of_each_in_milliseconds(
    seconds: list[float], median: float, loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, seen = SteadyClock(0), list[str]()

    def predict(_predictor: Predictor, texts: Sequence[tuple[str, ...]]) -> None:
        ((text,),) = texts
        is_undisturbed = seen.count(text) == 3
        clock.now += seconds[int(text)] + (0 if is_undisturbed else 0.1 * (1 + len(seen) % 3))
        seen.append(text)

    monkeypatch.setattr(latency, "predict_texts", predict)
    texts = [(str(number),) for number in range(len(seconds))]
    assert measure_latency(loaded, CLASSES, texts, clock) == pytest.approx(median)
    assert seen == [text for (text,) in texts] * (1 + NUM_TIMES)


def test_the_first_time_of_a_text_does_not_count(loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, seen = SteadyClock(0), list[str]()

    def predict(_predictor: Predictor, texts: Sequence[tuple[str, ...]]) -> None:
        clock.now += 0.5 if texts[0][0] in seen else 0.1
        seen.append(texts[0][0])

    monkeypatch.setattr(latency, "predict_texts", predict)
    assert measure_latency(loaded, CLASSES, [("a",), ("b",)], clock) == pytest.approx(500)


@pytest.mark.parametrize("task", TASKS)
def test_the_model_itself_is_what_is_timed(task: str, loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    batches, real = list[int](), loaded.model.forward

    def forward(batch: Batch) -> Output:
        batches.append(len(batch.inputs[0].input_ids))
        return real(batch)

    monkeypatch.setattr(loaded.model, "forward", forward)
    assert measure_latency(loaded, TASKS[task], TEXTS[task], SteadyClock(0.25)) == 250
    assert batches == [1] * (1 + NUM_TIMES) * len(TEXTS[task])


@pytest.mark.parametrize("task", TASKS)
def test_every_candidate_has_a_latency(task: str, trained_folder: Path) -> None:
    pool = read_pool([trained_folder], task)
    found = find_latencies(pool, source_of(trained_folder), TEXTS[task], SteadyClock(0.5))
    assert found.tolist() == [500.0] * len(pool.candidates)
    assert found.dtype == np.float64


def test_epochs_of_one_trial_are_measured_once_and_other_networks_by_themselves(
    trained_folder: Path, measured: list[TrialConfig]
) -> None:
    pool = read_pool([trained_folder], "sts")
    found = find_latencies(pool, source_of(trained_folder), TEXTS["sts"])
    assert [candidate.trial for candidate in pool.candidates] == [FIRST, FIRST, SECOND, SECOND]
    assert found.tolist() == [10, 10, 20, 20]
    assert [config.tasks["sts"].encoding for config in measured] == ["cross", "bi"]


def test_candidates_in_another_order_keep_their_own(trained_folder: Path, measured: list[TrialConfig]) -> None:
    pool = read_pool([trained_folder], "sts").only([3, 0, 2])
    assert find_latencies(pool, source_of(trained_folder), TEXTS["sts"]).tolist() == [10, 20, 10]
    assert [config.tasks["sts"].encoding for config in measured] == ["bi", "cross"]


def test_trials_that_differ_in_training_alone_are_measured_once(folder: Path, measured: list[TrialConfig]) -> None:
    change_trials(folder, {"optimizer.learning_rate": 1e-5}, {"encoder.max_length": 32, "seed": 7})
    found = find_latencies(read_pool([folder], "sst"), source_of(folder), TEXTS["sst"])
    assert found.tolist() == [10] * 4
    assert len(measured) == 1


def test_a_network_is_measured_once_over_several_sweeps(
    trained_folder: Path, folder: Path, measured: list[TrialConfig]
) -> None:
    pool = read_pool([trained_folder, folder], "sts")
    source = source_of(folder, places={str(trained_folder): trained_folder, str(folder): folder})
    assert find_latencies(pool, source, TEXTS["sts"]).tolist() == [10, 10, 20, 20] * 2
    assert len(measured) == 2


def test_weights_need_not_have_been_kept(folder: Path) -> None:
    for trial in (FIRST, SECOND):
        shutil.rmtree(folder / "trials" / trial / "checkpoint")
    pool = read_pool([folder], "qqp")
    assert not any(candidate.has_weights for candidate in pool.candidates)
    assert find_latencies(pool, source_of(folder), TEXTS["qqp"], SteadyClock(1)).tolist() == [1000] * 4


def test_an_encoder_that_cannot_be_had_is_one_line(folder: Path) -> None:
    change_trials(folder, {"encoder.name": "/no/such/encoder"})
    with pytest.raises(ValueError, match="got no folder /no/such/encoder"):
        find_latencies(read_pool([folder], "sst"), source_of(folder), TEXTS["sst"])


def test_one_name_cannot_stand_for_two_encoders(folder: Path, tiny_encoder_folder: Path) -> None:
    change_trials(folder, {"encoder.name": "/no/such/encoder"})
    pool, source = read_pool([folder], "sst"), source_of(folder, encoder=str(tiny_encoder_folder))
    with pytest.raises(ValueError, match=r"--encoder can stand for one encoder alone, got models of /.*, /"):
        find_latencies(pool, source, TEXTS["sst"])
    change_trials(folder, {}, {"encoder.name": "/no/such/encoder"})
    found = find_latencies(read_pool([folder], "sst"), source, TEXTS["sst"], SteadyClock(0.125))
    assert found.tolist() == [125] * 4


def test_trials_that_failed_or_were_never_trained_are_not_built(folder: Path, measured: list[TrialConfig]) -> None:
    change_trials(folder, {}, {}, {"encoder.name": "/no/such/encoder"})
    assert read_trials(folder)[2].trial_id == THIRD
    assert len(find_latencies(read_pool([folder], "sst"), source_of(folder), TEXTS["sst"])) == 4
    assert len(measured) == 2


def test_a_network_is_ready_to_predict(loaded: LoadedModel) -> None:
    assert not loaded.model.training
    predictor = Predictor(task=CLASSES, models=(loaded,), ensemble=Ensemble(members=(0,), weights=(1.0,)))
    first, again = (predict_texts(predictor, TEXTS["sst"]) for _ in range(2))
    np.testing.assert_array_equal(first, again)


TRAINING: list[dict[str, Any]] = [
    {"optimizer.learning_rate": 1e-5, "optimizer.weight_decay": 0.1},
    {"seed": 4, "replicate": 2},
    {"encoder.dropout": 0.2, "encoder.attention_dropout": 0.2},
    {"encoder.trained_layers": [0], "smart.weight": 0.0},
    {"encoder.start_from": "/some/folder", "encoder.start_heads": True},
    {"stages.1.epochs": 9, "evaluation.batch_size": 3},
    {"tasks.sts.batch_size": 3, "tasks.sts.loss_weight": 2.0, "tasks.sts.scored_train_rows": 4},
    {"tasks.sts.probability_factor": 2.0, "tasks.sts.ordinal_alpha": 1.0},
    {"tasks.sst.loss": "ordinal_log_loss"},
    {"tasks.qqp.encoding": "bi", "tasks.sst.hidden_units": 7},
    {"pals.size": 8, "pals.num_heads": 2, "pals.tasks": ["sst"]},
    {"relational_tasks": ["qqp"]},
    {"smart.tasks": ["sts"], "simcse.weight": 0.1, "simcse.tasks": ["sts"]},
    {"loss_weighting": "uncertainty"},
]
"""What changes nothing that a text of STS takes."""

NETWORK: list[dict[str, Any]] = [
    {"encoder.name": "other"},
    {"encoder.max_length": 16},
    {"precision": "bf16"},
    {"tasks.sts.encoding": "bi"},
    {"tasks.sts.encoding": "cross_no_separator"},
    {"tasks.sts.encoding": "bi", "tasks.sts.head": "cosine"},
    {"tasks.sts.encoding": "bi", "tasks.sts.head": "cosine", "tasks.sts.cosine_projection": False},
    {"tasks.sts.pooling": "mean"},
    {"tasks.sts.hidden_units": 7},
    {"relational_tasks": ["sts"]},
    *(
        {"pals.size": 8, "pals.num_heads": 2, "pals.tasks": ["sts"], **more}
        for more in (
            {},
            {"pals.size": 4},
            {"pals.num_heads": 4},
            {"pals.placement": "layer"},
            {"pals.function": "identity"},
            {"pals.function": "low_rank"},
        )
    ),
]
"""What changes it."""


def shapes_for(config: TrialConfig, task: str, pretrained: PretrainedEncoder) -> dict[str, torch.Size]:
    """Shapes of the weights that a text of a task passes."""
    weights = MultiTaskModel(config, pretrained).state_dict()
    own = ("encoder.", f"heads.{task}.", f"pals.{task}.") + (
        ("relational.",) if task in config.relational_tasks else ()
    )
    return {name: weight.shape for name, weight in weights.items() if name.startswith(own)}


@pytest.mark.parametrize("changes", TRAINING)
def test_what_is_of_training_or_of_other_tasks_alone_is_no_other_network(
    changes: dict[str, Any], tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder
) -> None:
    changed = tiny_config.override(changes)
    assert changed != tiny_config
    assert describe_network(changed, PAIRS) == describe_network(tiny_config, PAIRS)
    assert shapes_for(changed, "sts", tiny_encoder) == shapes_for(tiny_config, "sts", tiny_encoder)


def test_every_other_network_is_one_of_its_own(tiny_config: TrialConfig) -> None:
    described = [describe_network(tiny_config.override(changes), PAIRS) for changes in ({}, *NETWORK)]
    assert len(set(described)) == len(NETWORK) + 1


def test_every_setting_of_a_network_is_one_of_training_or_tells_networks_apart(tiny_config: TrialConfig) -> None:
    told = {key for changes in NETWORK for key in changes} | {key for changes in TRAINING for key in changes}
    for group in ("encoder", "pals", "task"):
        fields = to_dict(tiny_config.tasks["sts"] if group == "task" else getattr(tiny_config, group))
        assert set(latency.ONLY_TRAINING[group]) <= set(fields)
        left = {f"tasks.sts.{field}" if group == "task" else f"{group}.{field}" for field in fields}
        left -= {f"{'tasks.sts' if group == 'task' else group}.{field}" for field in latency.ONLY_TRAINING[group]}
        assert left <= told


@pytest.mark.parametrize(
    ("lengths", "count", "expected"),
    [
        ([3, 1, 2], 5, [1, 2, 3]),
        ([3, 1, 2], 3, [1, 2, 3]),
        ([5, 1, 4, 2, 3], 1, [3]),
        (range(1, 11), 2, [3, 8]),
        (range(1, 11), 5, [2, 4, 6, 8, 10]),
        (range(1, 102), 3, [17, 51, 85]),
        ([7], 20, [7]),
        ([], 20, []),
    ],
)
def test_texts_are_evenly_spaced_in_the_order_of_their_lengths(
    lengths: Sequence[int], count: int, expected: list[int]
) -> None:
    assert [len(text) for (text,) in choose_texts([("a" * length,) for length in lengths], count)] == expected


@pytest.mark.parametrize("draw", [lambda random: random.exponential(100, 999), lambda random: random.uniform(1, 9, 40)])
def test_the_median_of_the_texts_is_of_a_middling_length(draw: Callable[[np.random.Generator], Any]) -> None:
    lengths = np.ceil(draw(np.random.default_rng(0))).astype(int)
    chosen = [len(text) for (text,) in choose_texts([("a" * length,) for length in lengths])]
    assert len(chosen) == 20
    low, high = np.quantile(lengths, [0.47, 0.53])
    assert low <= np.median(chosen) <= high


def test_the_length_of_a_pair_is_that_of_both_texts() -> None:
    pairs = [("a" * 9, "b"), ("a", "b" * 3), ("a" * 3, "b" * 4)]
    assert choose_texts(pairs) == [pairs[1], pairs[2], pairs[0]]
