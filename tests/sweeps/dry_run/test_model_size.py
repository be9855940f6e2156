"""The size of a model, told from files and configuration, is that of the model that is trained."""

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
    size = measure_encoder(tiny_encoder)
    layers = [sum(w.numel() for n, w in tiny_encoder.weights.items() if f"layer.{i}." in n) for i in range(2)]
    assert size == EncoderSize(
        num_parameters=tiny_encoder.num_parameters, in_layers=dict(enumerate(layers)), hidden_size=32
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("tasks", [("qqp",), ("sst", "qqp", "sts")])
def test_a_model_is_as_large_as_it_is_told(
    method: str,
    tasks: tuple[str, ...],
    tiny_config: TrialConfig,
    tiny_encoder: PretrainedEncoder,
) -> None:
    size = measure_encoder(tiny_encoder)
    config = tiny_config.override({"smart.weight": 0, **METHODS[method]})
    model = MultiTaskModel(config, tiny_encoder)
    told = measure_model(config, tasks, size)
    assert told.kept == sum(weight.numel() for weight in active_weights(config, tasks, model.state_dict()).values())
    assert told.trained == sum(weight.numel() for weight in trained_parameters(config, model, tasks).values())


@pytest.mark.parametrize(
    ("changes", "trained"),
    [({}, 100), ({"encoder.trained_layers": []}, 0), ({"encoder.trained_layers": [1]}, 30)],
)
def test_without_a_hidden_size_heads_are_not_counted(changes: Changes, trained: int, tiny_config: TrialConfig) -> None:
    told = measure_model(
        tiny_config.override(changes), ("sst",), EncoderSize(num_parameters=100, in_layers={0: 20, 1: 30})
    )
    assert (told.kept, told.trained) == (100, trained)


def test_weights_in_several_files_are_summed_and_a_pretrainings_own_are_left_out(tmp_path: Path) -> None:
    first, second = {"a": torch.zeros(2, 3), "pooler.dense.bias": torch.zeros(7)}, {"b": torch.zeros(5)}
    second |= {"c": torch.zeros(()), "cls.predictions.bias": torch.zeros(9)}
    save_file(first, tmp_path / "model-00001-of-00002.safetensors", metadata={"format": "pt"})
    save_file(second, tmp_path / "model-00002-of-00002.safetensors")
    (tmp_path / "pytorch_model.bin").write_bytes(bytes(400))
    assert count_parameters(str(tmp_path)) == 12


def test_other_weights_are_counted_by_their_size(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(bytes(400))
    assert count_parameters(str(tmp_path)) == 100


def test_an_encoder_that_is_not_here_has_no_known_size(tmp_path: Path) -> None:
    assert count_parameters(str(tmp_path)) is None
    assert count_parameters("no-such-owner/no-such-encoder") is None
