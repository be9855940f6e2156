"""Distillation: its values by hand and by torch, and what a trial learns from a teacher alone."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from mtlib.config.trial import TrialConfig
from mtlib.data.load import read_data
from mtlib.data.token_cache import Corpus, tokenize
from mtlib.loss.clean_pass import clean_pass
from mtlib.loss.distillation import distillation_penalty
from mtlib.model.encoder import PretrainedEncoder
from mtlib.stages.sampler import epoch_steps
from mtlib.tasks import TASKS
from mtlib.train import prepare_run
from mtlib.training.run import Run
from mtlib.training.step import batch_place, host_batches, take_step
from tests.one_line_error import one_line_error

CPU = torch.device("cpu")
LOGITS = {"sst": 5, "qqp": 1, "sts": 1}


@pytest.fixture
def config(tiny_config: TrialConfig) -> TrialConfig:
    """A stage of one step of each task, without dropout and penalties."""
    changes = {"encoder.dropout": 0, "encoder.attention_dropout": 0, "smart.weight": 0}
    return tiny_config.override({**changes, "stages": [{"tasks": ["sst", "qqp", "sts"], "epochs": 1}]})


def taught(config: TrialConfig, folder: Path, place: Path, task: str, role: str, **term: Any) -> TrialConfig:
    """The configuration with a teacher's logits for a task: for its own train rows, or for further ones without labels.

    They are in a file in the folder `place`; `term` are settings of the term.
    """
    columns = [f"logit_{number}" for number in range(LOGITS[task])]
    rows = pd.read_csv(folder / TASKS[task].file_name("train"), sep="\t")
    rows[columns] = np.random.default_rng(0).normal(scale=2, size=(len(rows), len(columns)))
    if role == "augment":
        rows[TASKS[task].label_column] = None
        rows[list(TASKS[task].text_columns)] += " indeed"
    rows.to_parquet(place / f"{task}.parquet")
    source = {"task": task, "path": str(place / f"{task}.parquet"), "role": role, "teacher_columns": columns}
    term = {"weight": 1, "tasks": [task], **term}
    changes = {f"data.sources.{role}_{task}.{key}": value for key, value in source.items()}
    return config.override({**changes, **{f"distillation.{key}": value for key, value in term.items()}})


def begin(config: TrialConfig, folder: Path, encoder: PretrainedEncoder, place: Path) -> Run:
    return prepare_run(config, read(config, folder, encoder, place), encoder, CPU, lambda objective: objective, None)


def read(config: TrialConfig, folder: Path, encoder: PretrainedEncoder, place: Path) -> Corpus:
    return tokenize(read_data(config, folder), encoder.tokenizer, place / "cache")


def divergence(task: str, student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """T^2 KL(teacher, student) by torch, (rows,); of a regression the squared difference."""
    if task == "sts":
        return (student - teacher).square().squeeze(1)
    if task == "qqp":  # the two classes of a Bernoulli
        student, teacher = (torch.cat([torch.zeros_like(part), part], dim=1) for part in (student, teacher))
    parts = functional.kl_div(
        functional.log_softmax(student / temperature, 1), functional.softmax(teacher / temperature, 1), reduction="none"
    )
    return temperature**2 * parts.sum(1)


@pytest.mark.parametrize(("task", "temperature"), [("sst", 1), ("sst", 3), ("qqp", 2), ("sts", 2)])
def test_the_term_is_the_divergence_from_the_teacher_by_torch(
    task: str,
    temperature: float,
    config: TrialConfig,
    tiny_folder: Path,
    tiny_encoder: PretrainedEncoder,
    tmp_path: Path,
) -> None:
    changed = taught(config, tiny_folder, tmp_path, task, "train", temperature=temperature)
    run = begin(changed, tiny_folder, tiny_encoder, tmp_path)
    step = next(step for step in epoch_steps(changed, 0, 0, run.lengths, run.own_rows) if step[0].set == task)
    (batch,) = host_batches(run, step)
    assert batch.teacher is not None
    teacher = pd.read_parquet(tmp_path / f"{task}.parquet").filter(like="logit_").to_numpy(np.float32)[batch.rows]
    np.testing.assert_array_equal(batch.teacher, teacher)
    clean = clean_pass(changed, run.model, None, batch, batch_place(run, step[0]), keep=False)
    (values,) = distillation_penalty(clean, changed.distillation)
    expected = divergence(task, clean.output.logits, batch.teacher, temperature)
    torch.testing.assert_close(values, expected, rtol=1e-4, atol=1e-5)


def weights_after_epoch(
    config: TrialConfig, folder: Path, encoder: PretrainedEncoder, place: Path
) -> dict[str, Tensor]:
    run = begin(config, folder, encoder, place)
    for step in epoch_steps(config, 0, 0, run.lengths, run.own_rows):
        take_step(run, step)
        run.sums.clear()
    return {name: weight.clone() for name, weight in run.model.state_dict().items()}


def same(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> bool:
    return all(torch.equal(weight, second[name]) for name, weight in first.items())


def test_a_teacher_changes_training_only_where_the_term_is_on(
    config: TrialConfig, tiny_folder: Path, tiny_encoder: PretrainedEncoder, tmp_path: Path
) -> None:
    given = tiny_folder, tiny_encoder, tmp_path
    plain = weights_after_epoch(config, *given)
    off = taught(config, tiny_folder, tmp_path, "sst", "train", weight=0)
    assert same(weights_after_epoch(off, *given), plain), "a file of the same rows with further columns"
    assert not same(weights_after_epoch(off.override({"distillation.weight": 1}), *given), plain)


def test_without_labels_weight_labels_do_not_count(
    config: TrialConfig, tiny_folder: Path, tiny_encoder: PretrainedEncoder, tmp_path: Path
) -> None:
    alone = config.override({"stages.0.tasks": ["sst"], "tasks.sst.probe_rows": 0})
    given = tiny_folder, tiny_encoder, tmp_path
    changed = taught(alone, tiny_folder, tmp_path, "sst", "train", label_weight=0)
    trained = weights_after_epoch(changed, *given)
    rows = pd.read_parquet(tmp_path / "sst.parquet")
    rows.assign(sentiment=0).to_parquet(tmp_path / "sst.parquet")
    assert same(weights_after_epoch(changed, *given), trained)
    assert not same(weights_after_epoch(changed.override({"distillation.label_weight": 1}), *given), trained)


@pytest.mark.parametrize("task", LOGITS)
def test_rows_without_labels_are_learned_from_the_teacher_alone(
    task: str, config: TrialConfig, tiny_folder: Path, tiny_encoder: PretrainedEncoder, tmp_path: Path
) -> None:
    scaled = config.override({"tasks.sts.target_scale": "unit", "tasks.sst.class_weights": "balanced"})
    changed = taught(scaled, tiny_folder, tmp_path, task, "augment")
    table = read(changed, tiny_folder, tiny_encoder, tmp_path)[task, "train"]
    assert table.teacher is not None
    own = np.arange(table.num_rows) < table.num_own_rows
    np.testing.assert_array_equal(np.isnan(table.labels), ~own)
    np.testing.assert_array_equal(np.isnan(table.teacher).all(axis=1), own)
    run = begin(changed, tiny_folder, tiny_encoder, tmp_path)
    for step in epoch_steps(changed, 0, 0, run.lengths, run.own_rows):
        take_step(run, step)
    terms = {name: total for name, (total, _) in run.sums[task].items()}
    assert terms["loss"] > 0
    assert terms["distillation"] > 0
    assert all(weight.isfinite().all() for weight in run.model.state_dict().values())


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"distillation.tasks": ["qqp"]}, "distillation.tasks must each have a source"),
        ({"data.sources.train_sst.teacher_columns": ["logit_0"]}, "teacher_columns must name 5, one for each logit"),
        ({"data.sources.train_sst.role": "extra"}, "teacher_columns must be left out unless role"),
        ({"data.sources.train_sst.role": "augment", "distillation.weight": 0}, "distillation.tasks must hold sst"),
    ],
)
def test_a_teacher_must_fit_its_task_and_be_used(
    changes: Mapping[str, Any], rule: str, config: TrialConfig, tiny_folder: Path, tmp_path: Path
) -> None:
    changed = taught(config, tiny_folder, tmp_path, "sst", "train")
    assert rule in one_line_error(changed.override, changes)


def test_a_logit_must_be_a_number(config: TrialConfig, tiny_folder: Path, tmp_path: Path) -> None:
    changed = taught(config, tiny_folder, tmp_path, "qqp", "train")
    rows = pd.read_parquet(tmp_path / "qqp.parquet")
    rows.assign(logit_0=["high", *rows["logit_0"][1:].astype(str)]).to_parquet(tmp_path / "qqp.parquet")
    message = one_line_error(read_data, changed, tiny_folder)
    assert message == "qqp.parquet: row 0: column logit_0 must be a number, got high"
