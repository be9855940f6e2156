"""The averages that the benchmark follows are those that a trial scores."""

import argparse
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.weight_averages import Averages, config_of, print_scores
from mtlib.config.trial import TrialConfig
from mtlib.data.token_cache import Corpus
from mtlib.model.encoder import PretrainedEncoder
from mtlib.tasks import TASKS
from mtlib.train import train
from mtlib.training.evaluation import predict
from search_spaces.presets import general
from tests.recorded_details import run_whole

STAGE = {"tasks": ["sst", "qqp", "sts"], "order": "unimax", "epochs": 1, "steps_per_epoch": 7}


def test_followed_averages_are_those_of_trials(
    tiny_config: TrialConfig,
    tiny_corpus: Corpus,
    tiny_encoder: PretrainedEncoder,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = tiny_config.override({"stages": [STAGE]})
    followed = Averages([0.0, 2.0])
    train(config, tiny_corpus, tiny_encoder, wrap=followed.start, on_step=followed.follow)
    for power, average in followed.averages.items():
        trial = config.override({"optimizer.average_power": power})
        *_, last = run_whole(trial, tiny_corpus, tiny_encoder).reports.values()
        for part in (part for part in last.predictions if part.split == "dev"):
            found = predict(average, config, tiny_corpus, part.task, "dev", torch.device("cpu"))
            assert np.array_equal(found.logits, part.logits), (power, part.task)
    print_scores(config, tiny_corpus, {"last step": followed.model, "power 2": followed.averages[2.0]})
    heading, *rows = capsys.readouterr().out.splitlines()
    assert heading.split() == ["SST", "QQP", "STS", "overall", "loss:", "SST", "QQP", "STS"]
    assert [row[:9].strip() for row in rows] == ["last step", "power 2"]


def options_with(**changes: Any) -> argparse.Namespace:
    own = {"steps": 5000, "seed": 60, "powers": [1.0], "hold_out": 0.1, "encoder": "tiny", "set": []}
    return argparse.Namespace(**{**own, **changes})


def test_options_change_the_preset() -> None:
    unscored = {f"tasks.{task}.scored_train_rows": 0 for task in TASKS}
    assert config_of(options_with()).tasks == general(TASKS).override(unscored).tasks
    config = config_of(options_with(set=["tasks.*.batch_size=16", "optimizer.learning_rate=3e-5"]))
    assert {task.batch_size for task in config.tasks.values()} == {16}
    assert (config.optimizer.learning_rate, config.stages[0].steps_per_epoch) == (3e-5, 5000)
    assert config.optimizer.average_power is None
    with pytest.raises(ValueError, match=r"average_power must be at least 0, got -1"):
        config_of(options_with(powers=[1.0, -1.0]))
    with pytest.raises(ValueError, match=r"optimizer\.learning_rate"):
        config_of(options_with(set=["optimizer.learning_rat=3e-5"]))
    with pytest.raises(ValueError, match=r"--set must leave alone .*, got stages\.0\.steps_per_epoch"):
        config_of(options_with(set=["stages.*.steps_per_epoch=9"]))
    with pytest.raises(ValueError, match=r"--hold-out must be above 0 and below 1, got 0"):
        config_of(options_with(hold_out=0.0))
