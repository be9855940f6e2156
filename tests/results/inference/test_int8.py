"""What integers cost is the difference of two values of the metric on the same dev rows, with its interval."""

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from mtlib.checkpoints.export import export_model, load_exported
from mtlib.config.trial import TrialConfig
from mtlib.data.load import read_data
from mtlib.data.row_sources import pick_rows
from mtlib.model.encoder import PretrainedEncoder
from mtlib.model.multitask import MultiTaskModel
from mtlib.tasks import TASKS
from results.inference import int8
from tests.mtlib.checkpoints.test_export import FACTS


def test_the_loss_is_of_accuracy_on_the_same_rows(
    tiny_config: TrialConfig,
    tiny_encoder: PretrainedEncoder,
    tiny_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = MultiTaskModel(tiny_config, tiny_encoder)
    export_model(tiny_config, tiny_encoder, model.state_dict(), tmp_path / "model", FACTS)
    table = read_data(tiny_config, tiny_folder)["qqp", "dev"]
    right = (2 * table.labels - 1)[:, None]
    wrong = np.arange(len(right)) % 4 == 0
    worse = np.where(wrong[:, None], -right, right)
    monkeypatch.setattr(int8, "file_logits", lambda path, *_: worse if "int8" in path.name else right)
    words = re.sub("[(),]", "", int8.int8_sentence(load_exported(tmp_path / "model"), tmp_path / "onnx", table)).split()
    score, loss, low, high = (float(words[at]) for at in (5, 6, 7, 9))
    assert score == pytest.approx(1 - wrong.mean(), abs=6e-4)
    assert loss == pytest.approx(-wrong.mean(), abs=6e-4)
    half = norm.ppf(0.975) * np.sqrt(wrong.mean() * (1 - wrong.mean()) / len(wrong))
    assert (loss - low, high - loss) == pytest.approx((half, half), rel=0.5)


def test_of_a_metric_whose_lower_values_are_better_the_loss_is_a_higher_value(
    tiny_config: TrialConfig, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = replace(read_data(tiny_config, tiny_folder)["sts", "dev"], labels=np.full(13, 2.5))
    tasks = {**TASKS, "sts": replace(TASKS["sts"], metric="rmse")}
    exported: Any = SimpleNamespace(config=replace(tiny_config, data=replace(tiny_config.data, tasks=tasks)))
    monkeypatch.setattr(int8, "file_logits", lambda path, *_: np.full((13, 1), 3.5 if "int8" in path.name else 2.75))
    found = int8.int8_sentence(exported, tmp_path, table)
    assert found == "rmse on 13 dev rows 1.000, +0.750 (0.750 to 0.750) from 32 bits"


def test_of_many_rows_a_sample_is_taken_the_same_each_time(tiny_config: TrialConfig, tiny_folder: Path) -> None:
    table = read_data(tiny_config, tiny_folder)["sst", "dev"]
    assert int8.sample_rows(table, len(table.ids)) is table
    many = pick_rows(table, np.arange(47) % len(table.ids))
    first, again = int8.sample_rows(many, 40), int8.sample_rows(many, 40)
    assert len(first.ids) == 40
    assert (first.ids, first.texts) == (again.ids, again.texts)


def test_scales_follow_from_some_train_rows_of_each_task_without_padding(
    tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder, tiny_folder: Path
) -> None:
    exported: Any = SimpleNamespace(config=tiny_config, pretrained=tiny_encoder)
    found = int8.calibration_arrays(exported, tiny_folder)
    assert {task: len(rows) for task, rows in found.items()} == {"sst": 30, "qqp": int8.NUM_CALIBRATED_ROWS, "sts": 22}
    for arrays in (arrays for rows in found.values() for arrays in rows):
        assert arrays["input_ids"].shape == (1, int(arrays["attention_mask"].sum()))
