"""Parts of a model by task, under any name of a task."""

import copy
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from mtlib.checkpoints.export import export_model, load_exported
from mtlib.checkpoints.initial_weights import load_start, read_starting_weights
from mtlib.checkpoints.model_card import CardFacts
from mtlib.config.schema import to_dict
from mtlib.config.task_file import TASK_NAME
from mtlib.config.trial import TrialConfig
from mtlib.model.encoder import PretrainedEncoder
from mtlib.model.multitask import MultiTaskModel
from mtlib.model.task_parts import TaskParts
from mtlib.stages.active_weights import active_weights, part_of_weight
from mtlib.tasks import TASKS

NAMES = {name for box in (nn.ModuleDict(), nn.ParameterDict()) for name in dir(box) if TASK_NAME.fullmatch(name)}
"""Names that tasks may have and torch's modules have too."""


def test_a_task_may_be_called_like_an_attribute_of_a_module() -> None:
    assert {"type", "values", "training", "half", "pop"} <= NAMES
    parts = TaskParts({name: nn.Linear(1, 1) if name != "type" else nn.Parameter(torch.ones(1)) for name in NAMES})
    assert set(parts) == NAMES
    again = copy.deepcopy(parts).train().double()
    again.load_state_dict(parts.state_dict())
    assert again["type"].item() == 1
    assert all(torch.equal(again[name].weight, parts[name].weight) for name in NAMES - {"type"})
    assert {part_of_weight(f"heads.{weight}") for weight in parts.state_dict()} == {f"heads.{name}" for name in NAMES}


def test_names_of_weights_have_the_tasks_names() -> None:
    assert list(TaskParts({"sst": nn.Linear(1, 1), "values": nn.Parameter(torch.ones(1))}).state_dict()) == [
        "values",
        "sst.weight",
        "sst.bias",
    ]


@pytest.mark.parametrize(
    "names", [("type", "train", "forward"), ("lora_a", "base_layer", "training"), ("encoder", "bias", "state_dict")]
)
def test_a_model_of_such_tasks_is_exported_loaded_and_started_from(
    names: tuple[str, ...], tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder, tmp_path: Path
) -> None:
    everything = {"loss_weighting": "uncertainty", "tasks.sts.target_scale": "unit", "pals.size": 8}
    text = tiny_config.override({**everything, "pals.num_heads": 2, "pals.tasks": ["sst", "sts"]}).to_json()
    for before, name in zip(("sst", "qqp", "sts"), names, strict=True):
        text = text.replace(f'"{before}"', f'"{name}"')
    tasks = {name: replace(TASKS[old], name=name) for old, name in zip(("sst", "qqp", "sts"), names, strict=True)}
    config = TrialConfig.from_json(json.dumps({**json.loads(text), "data": {"tasks": to_dict(tasks)}}))
    weights = {name: weight + 0.1 for name, weight in MultiTaskModel(config, tiny_encoder).state_dict().items()}
    assert active_weights(config, config.active_tasks, weights).keys() == weights.keys()
    counts: dict[str, int] = {}
    facts = CardFacts(
        title="", best="overall", epoch=1, steps=1, scores={}, data_fingerprint="", num_rows=counts, versions={}
    )
    export_model(config, tiny_encoder, weights, tmp_path / "model", facts)
    loaded = load_exported(tmp_path / "model").model.state_dict()
    assert all(torch.equal(loaded[name], weight) for name, weight in weights.items())
    started = config.override({"encoder.start_from": str(tmp_path / "model"), "encoder.start_heads": True})
    model = MultiTaskModel(started, tiny_encoder)
    digests = load_start(started.encoder, model, read_starting_weights(started.encoder))
    assert set(digests) >= {"encoder", *(f"heads.{name}" for name in names)}
    found = model.state_dict()
    assert all(torch.equal(found[name], weight) for name, weight in loaded.items())
