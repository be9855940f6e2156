"""Settings, starting weights and encoder must fit each other in every configuration of a space."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import save_file
from transformers import AutoModel

from mtlib.config.trial import TrialConfig
from mtlib.model.encoder import PretrainedEncoder, load_encoder, quiet_transformers
from mtlib.model.multitask import MultiTaskModel
from sweeps.options import SweepOptions
from sweeps.plan.checks.encoder import check_encoders_fit, check_points, describe_families, describe_flash
from sweeps.plan.inputs import SweepInputs
from tests.architectures import ENCODERS, untrained
from tests.prepared import with_base

OPTIONS = SweepOptions(space="smart_lambda", name="first", storage="/storage")


def load_checked(options: SweepOptions, inputs: SweepInputs) -> PretrainedEncoder:
    pretrained = load_encoder(inputs.space.base.encoder.name)
    check_encoders_fit(options, inputs, {inputs.space.base.encoder.name: pretrained})
    return pretrained


def test_settings_of_one_encoder_among_several_are_refused_by_its_name(
    inputs: SweepInputs, tiny_encoder_folder: Path, tiny_encoder: PretrainedEncoder
) -> None:
    """PALs exist beside BERT's layers, and not beside ModernBERT's."""
    name, other = str(tiny_encoder_folder), untrained(ENCODERS["modernbert"], tiny_encoder.tokenizer)
    changes = {"encoder.name": name, "encoder.max_length": 40, "pals.size": 8, "pals.num_heads": 2}
    base = inputs.space.base.override({**changes, "pals.tasks": ["sst"]})
    space = dataclasses.replace(inputs.space, base=base, grid={"encoder.name": (name, "other")})
    varied = dataclasses.replace(inputs, space=space)
    check_encoders_fit(OPTIONS, varied, {name: tiny_encoder, "other": tiny_encoder})
    with pytest.raises(ValueError, match=r"^other: PALs with .* must be used with .*, not with ModernBertModel"):
        check_encoders_fit(OPTIONS, varied, {name: tiny_encoder, "other": other})


def test_unavailable_encoder_is_one_line(inputs: SweepInputs, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    changed = with_base(inputs, **{"encoder.name": str(tmp_path / "empty")})
    with pytest.raises(ValueError, match=r"encoder '.*empty' cannot be loaded") as raised:
        load_checked(OPTIONS, changed)
    assert "\n" not in str(raised.value)


def weights_like(config: TrialConfig, pretrained: PretrainedEncoder, path: Path, width: int | None = None) -> Path:
    """A file of a model's weights; the encoder's are cut to a width, if one is given."""
    weights = MultiTaskModel(config, pretrained).state_dict()
    cut = {name: part[..., :width].contiguous() if "encoder." in name else part for name, part in weights.items()}
    save_file(cut if width else weights, path)
    return path


def test_weights_and_layers_of_every_point_are_checked(
    inputs: SweepInputs, tiny_encoder_folder: Path, tiny_encoder: PretrainedEncoder, tmp_path: Path
) -> None:
    layered = {"optimizer.other_scale": 0.5, "tasks.sst.chosen_layers": [0]}
    base = with_base(
        inputs, **{"encoder.name": str(tiny_encoder_folder), "encoder.max_length": 64, **layered}
    ).space.base
    narrow = weights_like(base, tiny_encoder, tmp_path / "narrow.safetensors", width=16)
    check_points([base, base.override({"tasks.sts.chosen_layers": [1]})], tiny_encoder)
    with pytest.raises(ValueError, match=r"^tasks\.sts\.chosen_layers must be layers of the encoder, 0 to 1, got 2$"):
        check_points([base, base.override({"tasks.sts.chosen_layers": [2]})], tiny_encoder)
    space = dataclasses.replace(inputs.space, base=base, grid={"encoder.start_from": (None, str(narrow))})
    with pytest.raises(ValueError, match="must fit the encoder"):
        load_checked(OPTIONS, dataclasses.replace(inputs, space=space))


@pytest.fixture
def save_encoder(tmp_path: Path, tiny_encoder: PretrainedEncoder) -> Callable[[Any], Path]:
    """Saves an encoder of an architecture, with random weights and the tiny encoder's tokenizer."""

    def save(architecture: Any) -> Path:
        folder = tmp_path / "encoder"
        with quiet_transformers():
            AutoModel.from_config(architecture).save_pretrained(folder)
        tiny_encoder.tokenizer.save_pretrained(folder)
        return folder

    return save


def test_bf16_is_tested_for_cpu_trials_only(inputs: SweepInputs, save_encoder: Callable[[Any], Path]) -> None:
    name = str(save_encoder(ENCODERS["deberta"]))
    changed = with_base(inputs, **{"encoder.name": name, "encoder.max_length": 40, "precision": "bf16"})
    with pytest.raises(ValueError, match="with precision bf16 on the CPU"):
        load_checked(OPTIONS, changed)
    load_checked(dataclasses.replace(OPTIONS, gpus_per_worker=0.5), changed)


def test_only_families_that_were_not_tried_get_a_warning(tiny_encoder: PretrainedEncoder) -> None:
    assert describe_families([tiny_encoder]) == []
    (line,) = describe_families([dataclasses.replace(tiny_encoder, config=ENCODERS["ibert"])])
    assert line.startswith("Warning: encoders of the family ibert have not been tried")


@pytest.mark.parametrize(
    ("changes", "gpus", "is_there", "is_offered"),
    [
        ({}, 1.0, True, True),
        ({}, 0.0, True, False),
        ({}, 1.0, False, False),
        ({"smart.weight": 1.0, "smart.tasks": ["sst"]}, 1.0, True, False),
        ({"precision": "fp32"}, 1.0, True, False),
        ({"encoder.attention": "flash_attention_2"}, 1.0, True, False),
    ],
)
def test_flash_attention_is_offered_where_trials_could_have_it(
    inputs: SweepInputs,
    tiny_encoder: PretrainedEncoder,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, Any],
    gpus: float,
    *,
    is_there: bool,
    is_offered: bool,
) -> None:
    monkeypatch.setattr("transformers.utils.is_flash_attn_2_available", lambda: is_there)
    plain = {"smart.weight": 0, "precision": "auto", "encoder.max_length": 64, "encoder.name": "tiny"}
    base = inputs.space.base.override({**plain, **changes})
    space = dataclasses.replace(inputs.space, base=base, grid={"optimizer.beta2": (0.9, 0.99)}, ranges={})
    changed = dataclasses.replace(inputs, space=space)
    options = dataclasses.replace(OPTIONS, gpus_per_worker=gpus)
    lines = describe_flash(options, changed, {"tiny": tiny_encoder})
    line = "The package flash-attn is here and bert takes it: encoder.attention=flash_attention_2 may be faster."
    assert lines == [line] * is_offered
