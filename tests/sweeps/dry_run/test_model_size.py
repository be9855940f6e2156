"""The size of a model, told from files and configuration, is that of the model that is trained."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from mtlib.config.trial import TrialConfig
from mtlib.model.encoder import PretrainedEncoder
from mtlib.model.multitask import MultiTaskModel
from mtlib.stages.active_weights import active_weights
from mtlib.training.optimizer import trained_parameters
from sweeps.dry_run.model_size import EncoderSize, count_parameters, measure_encoder, measure_model
from tests.mtlib.training.combinations import METHODS, Changes


def test_the_parameters_of_a_local_encoder_are_read_from_its_header(
    tiny_encoder_folder: Path, tiny_encoder: PretrainedEncoder
) -> None:
    assert count_parameters(str(tiny_encoder_folder)) == tiny_encoder.num_parameters
    size = measure_encoder(str(tiny_encoder_folder))
    assert size is not None
    layers = [sum(w.numel() for n, w in tiny_encoder.weights.items() if f"layer.{i}." in n) for i in range(2)]
    assert (size.in_layers, size.hidden_size) == (dict(enumerate(layers)), 32)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("tasks", [("qqp",), ("sst", "qqp", "sts")])
def test_a_model_is_as_large_as_it_is_told(
    method: str,
    tasks: tuple[str, ...],
    tiny_config: TrialConfig,
    tiny_encoder: PretrainedEncoder,
    tiny_encoder_folder: Path,
) -> None:
    size = measure_encoder(str(tiny_encoder_folder))
    assert size is not None
    config = tiny_config.override({"smart.weight": 0, **METHODS[method]})
    model = MultiTaskModel(config, tiny_encoder)
    told = measure_model(config, tasks, size)
    assert told.kept == sum(weight.numel() for weight in active_weights(config, tasks, model.state_dict()).values())
    assert told.trained == sum(weight.numel() for weight in trained_parameters(config, model, tasks).values())


@pytest.mark.parametrize(
    ("changes", "trained"),
    [({}, 100), ({"encoder.trained_layers": []}, 0), ({"encoder.trained_layers": [1]}, 100)],
)
def test_where_only_the_encoders_size_is_known_heads_are_not_counted_and_its_layers_count_as_trained(
    changes: Changes, trained: int, tiny_config: TrialConfig
) -> None:
    told = measure_model(tiny_config.override(changes), ("sst",), EncoderSize(num_parameters=100))
    assert (told.kept, told.trained) == (100, trained)


def test_weights_in_several_files_are_summed_and_a_pretrainings_own_are_left_out(tmp_path: Path) -> None:
    first, second = {"a": torch.zeros(2, 3), "pooler.dense.bias": torch.zeros(7)}, {"b": torch.zeros(5)}
    second |= {"c": torch.zeros(()), "cls.predictions.bias": torch.zeros(9), "x.layers.10.w": torch.zeros(4)}
    save_file(first, tmp_path / "model-00001-of-00002.safetensors", metadata={"format": "pt"})
    save_file(second, tmp_path / "model-00002-of-00002.safetensors")
    (tmp_path / "pytorch_model.bin").write_bytes(bytes(400))
    assert measure_encoder(str(tmp_path)) == EncoderSize(num_parameters=16, in_layers={10: 4})
    (tmp_path / "config.json").write_text(json.dumps({"dim": 64}))
    assert measure_encoder(str(tmp_path)) == EncoderSize(num_parameters=16, in_layers={10: 4}, hidden_size=64)


def test_other_weights_are_counted_by_their_size(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(bytes(400))
    assert measure_encoder(str(tmp_path)) == EncoderSize(num_parameters=100)


def test_an_encoder_that_is_not_here_has_no_known_size(tmp_path: Path) -> None:
    assert count_parameters(str(tmp_path)) is None
    assert measure_encoder("no-such-owner/no-such-encoder") is None
