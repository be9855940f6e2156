"""What integer weights cost is the difference of two scores on the same dev rows, with its interval."""

import re
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from mtlib.checkpoints.export import export_model, load_exported
from mtlib.config.trial import TrialConfig
from mtlib.data.load import read_data
from mtlib.data.row_sources import pick_rows
from mtlib.model.encoder import PretrainedEncoder
from mtlib.model.multitask import MultiTaskModel
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


def test_of_many_rows_a_sample_is_scored_the_same_each_time(tiny_config: TrialConfig, tiny_folder: Path) -> None:
    table = read_data(tiny_config, tiny_folder)["sst", "dev"]
    assert int8.scored_rows(table) is table
    many = pick_rows(table, np.arange(int8.MOST_SCORED_ROWS + 7) % len(table.ids))
    first, again = int8.scored_rows(many), int8.scored_rows(many)
    assert len(first.ids) == int8.MOST_SCORED_ROWS
    assert (first.ids, first.texts) == (again.ids, again.texts)
