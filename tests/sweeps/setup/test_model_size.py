"""A model's size, computed from files and configuration, equals that of the trained model."""

import dataclasses

import pytest

from mtlib.config.losses import LOSSES
from mtlib.config.trial import TrialConfig
from mtlib.model.encoder import PretrainedEncoder
from mtlib.model.multitask import MultiTaskModel
from mtlib.stages.active_weights import active_weights
from mtlib.training.optimizer import trained_parameters
from sweeps.setup.model_size import EncoderSize, measure_encoder, measure_model
from tests.combinations import METHODS, Changes


def test_encoder_parameters_are_those_of_its_weights(tiny_encoder: PretrainedEncoder) -> None:
    size = measure_encoder(tiny_encoder)
    layers = [sum(w.numel() for n, w in tiny_encoder.weights.items() if f"layer.{i}." in n) for i in range(2)]
    assert size == EncoderSize(
        num_parameters=tiny_encoder.num_parameters, in_layers=dict(enumerate(layers)), hidden_size=32
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("tasks", [("qqp",), ("sst", "qqp", "sts")])
def test_model_size_matches_the_model(
    method: str,
    tasks: tuple[str, ...],
    tiny_config: TrialConfig,
    tiny_encoder: PretrainedEncoder,
) -> None:
    encoder_size = measure_encoder(tiny_encoder)
    config = tiny_config.override({"smart.weight": 0, **METHODS[method]})
    model = MultiTaskModel(config, tiny_encoder)
    size = measure_model(config, tasks, encoder_size)
    assert size.kept == sum(weight.numel() for weight in active_weights(config, tasks, model.state_dict()).values())
    assert size.trained == sum(weight.numel() for weight in trained_parameters(config, model, tasks).values())


def test_a_loss_that_needs_two_outputs_is_counted_by_its_entry(
    tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = measure_model(tiny_config, ("qqp",), measure_encoder(tiny_encoder)).kept
    two = dataclasses.replace(LOSSES["binary_cross_entropy"], binary_outputs=2)
    monkeypatch.setitem(LOSSES, "binary_cross_entropy", two)
    weights = active_weights(tiny_config, ("qqp",), MultiTaskModel(tiny_config, tiny_encoder).state_dict())
    after = measure_model(tiny_config, ("qqp",), measure_encoder(tiny_encoder)).kept
    assert after == sum(weight.numel() for weight in weights.values()) > before


@pytest.mark.parametrize(
    ("changes", "trained"),
    [({}, 100), ({"encoder.trained_layers": []}, 0), ({"encoder.trained_layers": [1]}, 30)],
)
def test_without_a_hidden_size_heads_are_not_counted(changes: Changes, trained: int, tiny_config: TrialConfig) -> None:
    size = measure_model(
        tiny_config.override(changes), ("sst",), EncoderSize(num_parameters=100, in_layers={0: 20, 1: 30})
    )
    assert (size.kept, size.trained) == (100, trained)
