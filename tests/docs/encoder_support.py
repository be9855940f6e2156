"""What encoders of a family can be used for, found by trying it with a tiny model of random weights."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mtlib.checkpoints.export import ExportedModel, export_model, load_exported
from mtlib.checkpoints.model_card import CardFacts
from mtlib.checkpoints.onnx_files import write_onnx
from mtlib.config.trial import TrialConfig
from mtlib.data.token_cache import Corpus
from mtlib.model.architecture_check import WORKING, check_architecture
from mtlib.model.encoder import PretrainedEncoder
from mtlib.model.layers import check_fits
from mtlib.model.multitask import MultiTaskModel
from mtlib.stages.sampler import StepBatch
from mtlib.train import prepare_run
from mtlib.training.preflight import check_step_runs
from mtlib.training.step import take_step
from tests.architectures import DECODERS, ENCODER_DECODERS, ENCODERS, untrained

REFUSED = {**{name: DECODERS[name] for name in ("gpt2", "llama")}, **ENCODER_DECODERS}

PLAIN = {"smart.weight": 0, "encoder.dropout": None, "encoder.max_length": 32, "stages.0.tasks": "sst,qqp"}
FEATURES: dict[str, Mapping[str, Any]] = {
    "SMART": {"smart.weight": 1, "smart.tasks": "sst,qqp"},
    "PALs": {"pals.size": 4, "pals.num_heads": 2, "pals.tasks": "sst,qqp"},
    "PALs beside layers": {"pals.size": 4, "pals.num_heads": 2, "pals.tasks": "sst,qqp", "pals.placement": "layer"},
    "layer rates": {"optimizer.layer_decay": 0.8},
    "LoRA": {"adapter.method": "lora"},
    "bf16": {"precision": "bf16"},
    "bi-encoding": {"tasks.qqp.encoding": "bi", "tasks.sts.encoding": "bi"},
}
COLUMNS = ("trains", *FEATURES, "export", "ONNX")
NUM_STEPS = 24
Material = tuple[TrialConfig, Corpus, PretrainedEncoder]


def support_of(name: str, material: Material, folder: Path) -> dict[str, str]:
    """By column, an empty text, or the line that says why not."""
    config, corpus, tiny = material
    encoder = untrained(ENCODERS[name], tiny.tokenizer)
    base = config.override(PLAIN)
    tries: dict[str, Callable[[], None]] = {
        "trains": partial(train_shortly, base, corpus, encoder),
        **{feature: partial(try_feature, base.override(change), encoder) for feature, change in FEATURES.items()},
        "export": partial(export_and_reload, base, encoder, folder / name),
        "ONNX": partial(write_onnx_file, base, encoder, folder / name),
    }
    check_architecture("it", ENCODERS[name])
    return {column: error_of(tries[column]) for column in COLUMNS}


def error_of(attempt: Callable[[], None]) -> str:
    """The error of an attempt; empty if there is none."""
    try:
        attempt()
    except ValueError as error:
        return str(error)
    return ""


def train_shortly(config: TrialConfig, corpus: Corpus, encoder: PretrainedEncoder) -> None:
    """Trains on one batch of SST; AssertionError unless its loss falls."""
    torch.manual_seed(0)
    changes = {"stages.0.tasks": "sst", "stages.1.tasks": "sst", "stages.0.steps_per_epoch": NUM_STEPS}
    run = prepare_run(config.override(changes), corpus, encoder, torch.device("cpu"), lambda objective: objective, None)
    part, losses = StepBatch(set="sst", rows=np.arange(8), turn=0), []
    for _ in range(NUM_STEPS):
        run.sums = {}
        take_step(run, (part,))
        losses.append(run.sums["sst"]["loss"][0] / 8)
    assert np.isfinite(losses).all()
    assert np.mean(losses[-4:]) < np.mean(losses[:4]), losses


def try_feature(config: TrialConfig, encoder: PretrainedEncoder) -> None:
    """The checks that a sweep makes before it starts."""
    check_fits(config, MultiTaskModel(config, encoder).encoder)
    check_step_runs([config], encoder, on_gpu=False)


def export_and_reload(config: TrialConfig, encoder: PretrainedEncoder, folder: Path) -> None:
    """Exports a model and loads it; AssertionError unless its weights are the same."""
    model = MultiTaskModel(config, encoder)
    facts = CardFacts(
        title="tiny", best="overall", epoch=1, steps=1, scores={}, data_fingerprint="0" * 64, num_rows={}, versions={}
    )
    export_model(config, encoder, model.state_dict(), folder, facts)
    loaded = load_exported(folder).model.state_dict()
    assert all(torch.equal(weight, loaded[name]) for name, weight in model.state_dict().items())


def write_onnx_file(config: TrialConfig, encoder: PretrainedEncoder, folder: Path) -> None:
    """Writes a task's ONNX file, whose logits must be those of torch."""
    alone = config.override({"stages.0.tasks": "sst", "stages.1.tasks": "sst"})
    model = MultiTaskModel(alone, encoder)
    write_onnx(ExportedModel(model=model, config=alone, pretrained=encoder), folder / "onnx")


def table_rows(found: Mapping[str, Mapping[str, str]]) -> list[str]:
    """The lines of the page's table, then a line for each error and one for each family that cannot be used."""
    lines = [f"| family | {' | '.join(COLUMNS)} |", f"| --- |{' --- |' * len(COLUMNS)}"]
    lines += [
        f"| `{name}` | {' | '.join('no' if own[it] else 'yes' for it in COLUMNS)} |" for name, own in found.items()
    ]
    lines += ["", "What each `no` says before a sweep starts, and of ONNX before an export writes anything:", ""]
    lines += [f"- `{name}`, {it}: {shortened(own[it])}" for name, own in found.items() for it in COLUMNS if own[it]]
    lines += ["", "Families that cannot be used at all:", ""]
    errors = {name: error_of(partial(check_architecture, "it", config)) for name, config in REFUSED.items()}
    return [*lines, *(f"- `{name}`: {shortened(error)}" for name, error in errors.items())]


def shortened(error: str) -> str:
    """A line without the families that would do, which the table lists."""
    return error.replace(WORKING, "...")
