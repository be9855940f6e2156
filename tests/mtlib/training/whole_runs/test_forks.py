"""A trial that continues from another trial's first stage ends like a whole one, bit for bit."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed
from safetensors.torch import load_file
from torch import nn

from mtlib.checkpoints.state import StateFolder, newest_numbers
from mtlib.config.trial import TrialConfig
from mtlib.data.token_cache import Corpus
from mtlib.model.encoder import PretrainedEncoder, digest_of
from mtlib.runtime.environment import describe_environment
from mtlib.runtime.workers import num_workers, worker_rank
from mtlib.stages.keys import list_cuts
from mtlib.stages.plan import plan_stages
from mtlib.train import origin_of, train
from mtlib.training.epoch_report import EpochReport
from tests.combinations import Changes, Material
from tests.worker_pair import RunOnBoth

Build = Callable[[str, str, Changes], Material]
Observed = dict[str, Any]
"""A trial's results after its first stage, as plain data: reports, weights, and files."""

CASES = [
    ("sequential", "relational, hidden, mean pooling"),
    ("best of the first stage", "mean teacher"),
    ("sampled_round_robin, summed", "lora, pals, averages"),
]
"""Pairs in which more than weights and moments is carried over the first stage's end, or a new task has more than a
head."""


def earlier_trial(config: TrialConfig) -> TrialConfig:
    """The trial that is trained first: nearly every setting of its second stage and of the tasks in it differs."""
    changes: Changes = {
        "tasks.sst.batch_size": 3,
        "tasks.sst.loss": "ordinal_log_loss",
        "tasks.sst.hidden_units": 5,
        "tasks.sts.probability_factor": 7,
        "tasks.sts.scored_train_rows": 4,
        "stages.1.order": "max_size_cycle" if config.stages[1].sum_losses else "sequential",
        "stages.1.tasks": ["sts", "sst"],
        "stages.1.epochs": 5,
        "stages.1.extra_data": [],
        "stages.1.steps_per_epoch": 4,
        "stages.1.reset_optimizer": not config.stages[1].reset_optimizer,
    }
    return config.override(changes)


def first_key(inputs: Material, config: TrialConfig) -> str:
    """The key of the end of a trial's first stage."""
    tables = inputs.corpus
    plan = plan_stages(config, {name: tables[name, "train"].num_rows for name in config.train_sets})
    origin = origin_of(inputs.corpus, inputs.encoder, {}, describe_environment("cpu"))
    return next(cut.key for cut in list_cuts(config, plan, origin) if cut.is_end)


def train_three(
    wrap: Callable[[nn.Module], nn.Module],
    first: str,
    second: str,
    corpus: Corpus,
    encoder: PretrainedEncoder,
    folder: Path,
) -> tuple[Observed, Observed]:
    """Results of the second trial alone, and of its continuation from the first stage of the first trial.

    A job of a worker; configurations are JSON.
    """
    config, states = TrialConfig.from_json(second), [StateFolder(path=folder / name) for name in ("a", "whole", "fork")]
    train(TrialConfig.from_json(first), corpus, encoder, wrap=wrap, on_stage=lambda _stage: False, states=states[0])
    wait_for_all()
    if worker_rank() == 0:
        shutil.copytree(states[0].path, states[2].path)
    wait_for_all()
    torch.manual_seed(1)  # another process would have another global stream
    whole = train_and_observe(config, corpus, encoder, wrap, states[1])
    torch.manual_seed(2)
    return whole, train_and_observe(config, corpus, encoder, wrap, states[2])


def wait_for_all() -> None:
    """Waits for all workers."""
    if num_workers() > 1:
        torch.distributed.barrier()


def train_and_observe(
    config: TrialConfig,
    corpus: Corpus,
    encoder: PretrainedEncoder,
    wrap: Callable[[nn.Module], nn.Module],
    states: StateFolder,
) -> Observed:
    """Trains to the end; returns the results after the first stage."""
    reports: list[EpochReport] = []
    models: list[nn.Module] = []

    def watch(objective: Any) -> nn.Module:
        models.append(objective.model)
        return wrap(objective)

    def note(report: EpochReport) -> bool:
        reports.append(report)
        return True

    train(config, corpus, encoder, wrap=watch, on_epoch=note, states=states)
    wait_for_all()
    kept = {path.name: digest_of(load_file(path)) for path in Path(states.path, "weights").glob("*.safetensors")}
    best = json.loads(Path(states.path, "best.json").read_text())
    return {
        "reports": [plain(report) for report in reports if report.stage > 0],
        "weights": digest_of(models[0].state_dict()),
        "kept": kept,
        "best": best,
        "epochs": [report.epoch for report in reports],
    }


def plain(report: EpochReport) -> list[Any]:
    """A report without its seconds."""
    numbers = (report.epoch, report.stage, report.step)
    scores = (report.overall, report.is_last)
    points = [(p.step, p.epoch, p.task, p.split, p.metric, p.value) for p in report.points]
    predictions = [(part.task, part.split, part.ids, part.logits.tolist()) for part in report.predictions]
    return [*numbers, *scores, points, predictions]


def prepare(build: Build, order: str, method: str, folder: Path) -> tuple[int, tuple[Any, ...]]:
    """Epochs of the first stage, and the arguments of `train_three` for a combination and its earlier trial."""
    made = build(order, method, {"stages.1.steps_per_epoch": 3})
    first = earlier_trial(made.config)
    assert first_key(made, first) == first_key(made, made.config)
    assert first.stages[1] != made.config.stages[1]
    given = (first.to_json(), made.config.to_json(), made.corpus, made.encoder, folder)
    return made.config.stages[0].epochs, given


def compare(first_epochs: int, whole: Observed, forked: Observed) -> None:
    """All results are equal, except that the fork has no reports of the epochs that it did not train."""
    assert whole["epochs"][0] == 1
    assert forked["epochs"] == whole["epochs"][first_epochs:]
    assert whole["kept"]
    assert len(whole["reports"]) == len(forked["epochs"]) > 1
    for name in ("reports", "weights", "kept", "best"):
        assert forked[name] == whole[name], name


@pytest.mark.parametrize(("order", "method"), CASES)
def test_a_fork_ends_like_the_whole_trial(order: str, method: str, inputs: Build, tmp_path: Path) -> None:
    first_epochs, given = prepare(inputs, order, method, tmp_path)
    compare(first_epochs, *train_three(lambda objective: objective, *given))


def test_a_fork_with_two_workers_ends_like_the_whole_trial(
    inputs: Build, run_on_both: RunOnBoth, tmp_path: Path
) -> None:
    first_epochs, given = prepare(inputs, "augmentation", "linear probing", tmp_path)
    for whole, forked in run_on_both(train_three, *given):
        compare(first_epochs, whole, forked)


def test_a_state_of_one_worker_is_continued_by_two_and_marked(
    inputs: Build, run_on_both: RunOnBoth, tmp_path: Path
) -> None:
    made = inputs("uniform", "plain", {"stages.1.steps_per_epoch": 3})
    alone = StateFolder(path=tmp_path / "fork", keeps_end=True)
    train(made.config, made.corpus, made.encoder, on_stage=lambda _stage: False, states=alone)
    before = newest_numbers(alone)
    assert before is not None
    for numbers in run_on_both(resume, made.config.to_json(), made.corpus, made.encoder, alone.path):
        assert (before["stage"], numbers["stage"]) == (0, len(made.config.stages) - 1)
        assert numbers["epoch"] == made.config.stages[-1].epochs
        assert (before["environments"], numbers["environments"]) == ([], [before["origin"]["environment"]])


def resume(
    wrap: Callable[[nn.Module], nn.Module], config: str, corpus: Corpus, encoder: PretrainedEncoder, path: Path
) -> dict[str, Any]:
    """Trains from the newest state to the end, whose state's numbers it returns; a job of a worker."""
    states = StateFolder(path=path, keeps_end=True)
    train(TrialConfig.from_json(config), corpus, encoder, wrap=wrap, states=states)
    torch.distributed.barrier()
    return dict(newest_numbers(states) or {})
