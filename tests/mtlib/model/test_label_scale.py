"""A regression whose loss is in deviations of its labels predicts in their own scale."""

import dataclasses

import numpy as np
import pytest
import torch

from mtlib.config.trial import TrialConfig
from mtlib.data.token_cache import Corpus
from mtlib.model.encoder import PretrainedEncoder
from mtlib.model.label_scale import LabelScale
from mtlib.model.multitask import MultiTaskModel
from tests.recorded_details import run_whole

UNIT = {"tasks.sts.target_scale": "unit", "encoder.dropout": 0}


def test_both_directions_are_inverse_and_standardise_train() -> None:
    labels = np.random.default_rng(0).uniform(0, 100, 50).astype(np.float32)
    scale = LabelScale()
    assert torch.equal(scale.to_unit(torch.from_numpy(labels)), torch.from_numpy(labels)), "not fitted: as they are"
    scale.fit(labels)
    unit = scale.to_unit(torch.from_numpy(labels))
    assert float(unit.mean()) == pytest.approx(0, abs=1e-6)
    assert float(unit.std(correction=0)) == pytest.approx(1)
    torch.testing.assert_close(scale.from_unit(unit), torch.from_numpy(labels))
    scale.fit(np.full(3, 7, np.float32))
    assert scale.to_unit(torch.tensor([8.0])).tolist() == [1]


def test_scaled_labels_give_the_same_training(
    tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder
) -> None:
    """With `unit`, labels times 20 plus 3 change nothing but the scale of the predictions, penalties included."""
    config = tiny_config.override(UNIT | {"smart.tasks": ["sts"], "stages.1.epochs": 1})
    changed = {
        key: dataclasses.replace(table, labels=20 * table.labels + 3) if key[0] == "sts" else table
        for key, table in tiny_corpus.items()
    }
    plain, scaled = (run_whole(config, corpus, tiny_encoder) for corpus in (tiny_corpus, changed))
    last = max(plain.reports)
    before, after = (
        {part.task: part for part in trace.reports[last].predictions if part.split == "dev"}
        for trace in (plain, scaled)
    )
    np.testing.assert_allclose(after["sts"].logits, 20 * before["sts"].logits + 3, rtol=1e-3, atol=1e-2)
    np.testing.assert_allclose(after["qqp"].logits, before["qqp"].logits, rtol=1e-3, atol=1e-4)


def test_the_scale_is_kept_with_the_weights(tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder) -> None:
    model, other = (MultiTaskModel(tiny_config.override(UNIT), tiny_encoder) for _ in range(2))
    model.scale_of("sts").fit(np.array([2.0, 6.0]))
    other.load_state_dict(model.state_dict())
    assert other.scale_of("sts").from_unit(torch.tensor([0.0, 1.0])).tolist() == [4, 6]
    assert not any("label_scales" in name for name, _ in model.named_parameters())
