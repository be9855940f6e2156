"""Every method with every order: two workers give what one gives, and a killed run ends where a whole one ends.

Two worker processes stay for all of this file. In the ordinary tests every order meets one method, every method meets
one order, and a pairwise cover of both comes on top; the whole matrix is slow.
"""

import dataclasses
import gc
import itertools
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.multiprocessing as multiprocessing
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import mtlib.step
from mtlib.checkpoint import StateFolder
from mtlib.config import TrialConfig
from mtlib.config_training import ROUND_ORDERS
from mtlib.encoder import PretrainedEncoder
from mtlib.reports import EpochReport, Progress
from mtlib.sources import read_data
from mtlib.tokens import Corpus, tokenize
from mtlib.train import train

Changes = dict[str, Any]

STEPS = 50
"""Optimizer steps that are compared."""

ALL = ["sst", "qqp", "sts"]

ORDERS: dict[str, Changes] = {
    **{
        order: {"stages.1.order": order}
        for order in (*ROUND_ORDERS, "sequential", "uniform", "proportional", "square_root", "annealed")
    },
    **{f"{order}, summed": {"stages.1.order": order, "stages.1.sum_losses": True} for order in ROUND_ORDERS},
    "epoch_round_robin": {"stages.1.order": "epoch_round_robin", "stages.1.epochs": 3, "stages.1.steps_per_epoch": 12},
    "best of the first stage": {"stages.1.start_from": "best", "stages.0.epochs": 2, "stages.0.steps_per_epoch": 5},
    "new optimizer": {"stages.1.reset_optimizer": True},
    "extra data": {"stages.1.extra_data": ["cfimdb", "snli"], "stages.1.order": "annealed"},
    "augmentation": {
        "data.sources.reworded": {"task": "sst", "path": "reworded.jsonl", "role": "augment"},
        "stages.1.order": "proportional",
    },
}

SMART = {"smart.weight": 0.5, "smart.tasks": ALL, "smart.noise_std": 0.05, "smart.epsilon": 0.1}
BI = {"tasks.qqp.encoding": "bi", "tasks.sts.encoding": "bi"}
PALS = {"pals.size": 8, "pals.num_heads": 2, "pals.tasks": ALL}

METHODS: dict[str, Changes] = {
    "plain": {},
    "smart, unit norm": SMART,
    "smart, paper": {**SMART, "smart.mode": "paper"},
    "smart, paper, bi-encoder": {**SMART, **BI, "smart.mode": "paper"},
    "smart, random, every second batch": {**SMART, "smart.mode": "random", "smart.every_batches": 2},
    "smart, shared masks, two steps": {**SMART, "smart.masks": "shared", "smart.num_steps": 2},
    "mean teacher": {"proximal.weight": 1, "proximal.tasks": ALL, "proximal.decay": 0.9},
    "simcse": {"simcse.weight": 0.3, "simcse.tasks": ALL},
    "simcse, bi-encoder": {"simcse.weight": 0.3, "simcse.tasks": ALL, "simcse.projection": "linear", **BI},
    "pals": PALS,
    "pals, beside the layer, encoder frozen": {**PALS, "pals.placement": "layer", "encoder.trained_layers": []},
    "low rank": {**PALS, "pals.function": "identity", "pals.zero_start": True},
    "learned weights": {"loss_weighting": "uncertainty"},
    "ordinal": {"tasks.sst.loss": "ordinal_log_loss"},
    "dual objective, weights": {
        "tasks.sst.loss": "dual_objective_cross_entropy",
        "tasks.sst.dual_reduction": "sum",
        "tasks.qqp.loss_weight": 2,
    },
    "two logits, no separator": {"tasks.qqp.loss": "cross_entropy", "tasks.qqp.encoding": "cross_no_separator"},
    "cosine": {**BI, "tasks.qqp.head": "cosine", "tasks.sts.head": "cosine", "tasks.sts.cosine_projection": False},
    "relational, hidden, mean pooling": {
        "relational_tasks": ["qqp", "sts"],
        "tasks.sst.hidden_units": 7,
        **{f"tasks.{task}.pooling": "mean" for task in ALL},
    },
    "layer decay, head rate, slanted": {
        "optimizer.layer_decay": 0.8,
        "optimizer.head_learning_rate": 3e-3,
        "optimizer.schedule": "slanted_triangular",
        "optimizer.decay_biases_and_norms": False,
    },
    "one layer": {"encoder.trained_layers": [1]},
    "empty shard": {"tasks.sst.batch_size": 1, **SMART},
}

ALTERNATING_ONLY: dict[str, Changes] = {
    "layers by task": {
        "optimizer.chosen_scale": 2,
        "optimizer.other_scale": 0.5,
        "tasks.sst.chosen_layers": [1],
        "tasks.qqp.chosen_layers": [0],
    },
}
SUMMED_ONLY: dict[str, Changes] = {
    name: {"gradients": name} for name in ("pcgrad", "mgda", "upgrad", "dualproj", "imtl_g", "aligned_mtl")
}

EVERY_METHOD = {**METHODS, **ALTERNATING_ONLY, **SUMMED_ONLY}


def fits(order: str, method: str) -> bool:
    """Whether a combination is allowed: the rest is refused when the configuration is built."""
    is_summed = "summed" in order
    return not (method in ALTERNATING_ONLY and is_summed) and not (method in SUMMED_ONLY and not is_summed)


def pairwise_cover() -> list[tuple[str, str]]:
    """Each order with some methods and each method with some orders, by walking both lists at once."""
    methods = list(EVERY_METHOD)
    walk = ((order, methods[(3 * index + 1) % len(methods)]) for index, order in enumerate(ORDERS))
    shifted = ((order, methods[(5 * index + 7) % len(methods)]) for index, order in enumerate(ORDERS))
    return [pair for pair in itertools.chain(walk, shifted) if fits(*pair)][:20]


MATRIX = [pair for pair in itertools.product(ORDERS, EVERY_METHOD) if fits(*pair)]
ORDINARY = sorted(
    {
        *((order, "smart, unit norm") for order in ORDERS),
        *(("batch_round_robin, summed" if name in SUMMED_ONLY else "batch_round_robin", name) for name in EVERY_METHOD),
        *pairwise_cover(),
    }
)
SLOW = [pair for pair in MATRIX if pair not in ORDINARY]
EXACT = sorted({*((order, "mean teacher") for order in ORDERS), *((("uniform"), name) for name in METHODS)})
"""Combinations that are killed and resumed: every order, and every method that any order allows."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Material:
    config: TrialConfig
    corpus: Corpus
    encoder: PretrainedEncoder


@pytest.fixture(scope="module")
def folder(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny data with the further sets beside it."""
    folder = tmp_path_factory.mktemp("further")
    for path in tiny_folder.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    reviews = [f"{row}\tc{row}\ta {('bad', 'good')[row % 2]} film {'very ' * row}\t{row % 2}" for row in range(17)]
    (folder / "ids-cfimdb-train.csv").write_text("\n".join(["\tid\tsentence\tsentiment", *reviews]) + "\n")
    pairs = [f"n{row}\tthe dog runs\tthe {('cat', 'dog', 'car')[row % 3]} runs\t{row % 3}" for row in range(29)]
    (folder / "snli-train.csv").write_text("\n".join(["id\tsentence1\tsentence2\tlabel", *pairs]) + "\n")
    texts = [
        f'{{"id": "w{row}", "sentence": "not a dull film {"old " * row}", "sentiment": {row % 5}}}' for row in range(9)
    ]
    (folder / "reworded.jsonl").write_text("\n".join(texts) + "\n")
    return folder


@pytest.fixture
def material(
    tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, str, Changes], Material]:
    """Configuration, corpus and encoder of a combination."""
    cache = tmp_path_factory.mktemp("cache")
    base = tiny_config.override({"smart.weight": 0, "stages.1.epochs": 2, "stages.1.steps_per_epoch": 23})

    def build(order: str, method: str, changes: Changes) -> Material:
        config = base.override({**ORDERS[order], **EVERY_METHOD[method], **changes})
        corpus = tokenize(read_data(config, folder), tiny_encoder.tokenizer, cache)
        return Material(config=config, corpus=corpus, encoder=tiny_encoder)

    return build


NO_DROPOUT = {"encoder.dropout": 0, "encoder.attention_dropout": 0, "optimizer.epsilon": 1e-2}
"""With AdamW's own epsilon a gradient that is nothing but rounding makes a whole step: soon two equally
right runs would differ visibly."""


@pytest.fixture(scope="module")
def two_workers() -> Iterator[Callable[[Material], torch.Tensor]]:
    """Trains on two worker processes that stay; gives the details of every step, the same on both."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    context = multiprocessing.get_context("spawn")
    asked = [context.Queue() for _ in range(2)]
    answered = [context.Queue() for _ in range(2)]
    workers = [
        context.Process(target=serve, args=(rank, port, asked[rank], answered[rank]), daemon=True) for rank in range(2)
    ]
    for worker in workers:
        worker.start()

    def ask(material: Material) -> torch.Tensor:
        for queue in asked:
            queue.put((material.config.to_json(), material.corpus, material.encoder))
        found = [queue.get(timeout=120) for queue in answered]
        for answer in found:
            assert not isinstance(answer, str), answer
        first, second = (torch.tensor(answer) for answer in found)
        assert torch.equal(first, second)
        return first

    yield ask
    for queue in asked:
        queue.put(None)
    for worker in workers:
        worker.join(timeout=30)


def serve(rank: int, port: int, asked: Any, answered: Any) -> None:
    """One of two workers: trains what it is asked for, until it is asked for nothing."""
    torch.set_num_threads(1)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)

    def wrap(objective: nn.Module) -> nn.Module:
        return DistributedDataParallel(objective, find_unused_parameters=True)

    while (question := asked.get()) is not None:
        config, corpus, encoder = question
        try:
            answer: Any = record_details(TrialConfig.from_json(config), corpus, encoder, wrap).tolist()
        except Exception as error:
            answer = f"worker {rank}: {type(error).__name__}: {error}"
        gc.collect()  # DDP's reducer holds the group
        answered.put(answer)
    torch.distributed.destroy_process_group()


def record_details(
    config: TrialConfig, corpus: Corpus, encoder: PretrainedEncoder, wrap: Callable[[nn.Module], nn.Module]
) -> torch.Tensor:
    """Sums of every batch of the first steps over the global batch; (batches, terms)."""
    seen: list[list[float]] = []
    count_details = mtlib.step.count_details

    def listening(run: Any, batches: Any, places: Any, details: list[list[float]]) -> None:
        seen.extend(details)
        count_details(run, batches, places, details)

    mtlib.step.count_details = listening
    try:
        train(config, corpus, encoder, wrap=wrap)
    finally:
        mtlib.step.count_details = count_details
    return torch.tensor(seen)


def compare(two_workers: Callable[[Material], torch.Tensor], material: Material) -> None:
    """The losses, penalties and noise norms of two workers are those of one."""
    shared = two_workers(material)
    alone = record_details(material.config, material.corpus, material.encoder, lambda objective: objective)
    assert len(alone) >= 40
    assert alone[:, 0].abs().min() > 0
    torch.testing.assert_close(shared[:STEPS], alone[:STEPS], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("order", "method"), ORDINARY)
def test_two_workers_give_what_one_gives(order: str, method: str, two_workers: Any, material: Any) -> None:
    compare(two_workers, material(order, method, NO_DROPOUT))


@pytest.mark.slow
@pytest.mark.parametrize(("order", "method"), SLOW)
def test_two_workers_give_what_one_gives_in_the_rest_of_the_matrix(
    order: str, method: str, two_workers: Any, material: Any
) -> None:
    compare(two_workers, material(order, method, NO_DROPOUT))


@pytest.mark.parametrize(("order", "method"), list(itertools.product(ORDERS, EVERY_METHOD)))
def test_a_combination_is_built_or_refused_with_its_reason(order: str, method: str, tiny_config: TrialConfig) -> None:
    changes = {**ORDERS[order], **EVERY_METHOD[method]}
    if fits(order, method):
        tiny_config.override(changes)
        return
    reason = (
        "must be 1 where a stage sums"
        if method in ALTERNATING_ONLY
        else "unless a stage of several tasks has sum_losses"
    )
    with pytest.raises(ValueError, match=reason):
        tiny_config.override(changes)


class Killed(Exception):  # noqa: N818
    """Stands for a kill: nothing after it runs."""


@dataclasses.dataclass
class Trace:
    """Everything a run showed."""

    reports: dict[int, EpochReport] = dataclasses.field(default_factory=dict)
    weights: dict[str, torch.Tensor] = dataclasses.field(default_factory=dict)

    def watch(self, objective: Any) -> Any:
        self.model = objective.model
        return objective

    def note(self, report: EpochReport) -> bool:
        self.reports[report.epoch] = report
        self.weights = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
        return True

    def values(self) -> list[tuple[Any, ...]]:
        points = [point for report in self.reports.values() for point in report.points]
        return [(point.step, point.task, point.split, point.metric, point.value) for point in points]


@pytest.mark.parametrize(("order", "method"), EXACT)
def test_a_killed_run_ends_where_a_whole_one_ends(
    order: str, method: str, material: Callable[[str, str, Changes], Material], tmp_path: Path
) -> None:
    made = material(order, method, {})
    arguments = (made.config, made.corpus, made.encoder)
    whole, resumed = Trace(), Trace()
    train(*arguments, wrap=whole.watch, on_epoch=whole.note)
    states = StateFolder(path=tmp_path, every_steps=7)
    kills = [3, 17, 36]

    def kill(progress: Progress) -> bool:
        if kills and progress.step == kills[0]:
            kills.pop(0)
            raise Killed
        return True

    for attempt in range(4):
        torch.manual_seed(attempt)  # another process would have another global stream
        try:
            train(*arguments, wrap=resumed.watch, on_epoch=resumed.note, on_step=kill, states=states)
        except Killed:
            continue
    assert not kills
    assert whole.values() == resumed.values()
    for name, tensor in whole.weights.items():
        assert torch.equal(tensor, resumed.weights[name]), name
