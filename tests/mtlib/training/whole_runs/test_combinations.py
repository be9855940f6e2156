"""Methods and orders together: two workers match one, and a killed and resumed run ends like a whole one.

The ordinary tests are short runs of some pairs; the slow ones are longer runs of `COVER`, which has every method.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from mtlib.checkpoints.state import StateFolder
from mtlib.config.batch_orders import BATCH_ORDERS
from mtlib.config.gradient_methods import GRADIENT_METHODS
from mtlib.config.loss_weightings import LOSS_WEIGHTINGS
from mtlib.config.trial import TrialConfig
from mtlib.data.token_cache import Corpus
from mtlib.model.encoder import PretrainedEncoder
from mtlib.train import train
from mtlib.training.epoch_report import StepProgress
from tests.combinations import COVER, EVERY_METHOD, ORDERS, Changes, Material
from tests.killed import Killed
from tests.recorded_details import Trace, record_details
from tests.worker_pair import RunOnBoth

Build = Callable[[str, str, Changes], Material]

STEPS = 50
"""Number of compared optimizer steps."""
TOLERANCE = 1e-5
"""Of losses, relative or absolute."""
SHORT: Changes = {"stages.1.steps_per_epoch": 3}
"""A first stage of 4 steps, a second one of 2 epochs of 3 steps each."""
SHARED = [
    ("batch_round_robin, summed", "smart, paper, bi-encoder"),
    ("sampled_round_robin, summed", "simcse"),
    ("proportional", "empty shard"),
    ("uniform", "clipped, cosine"),
    ("extra data", "micro-batches, smart"),
    ("unimax, summed", "famo"),
    ("smallest_round_robin, summed", "lora, pcgrad, micro-batches"),
]
"""Pairs in which a worker needs the rows, losses or gradients of another."""
KEPT = [
    ("batch_round_robin", "smart, random, every second batch"),
    ("best of the first stage", "mean teacher, late decay"),
    ("extra data", "linear probing, mean teacher"),
    ("batch_round_robin, summed", "clipped, cosine"),
    ("epoch_round_robin", "lora, pals, averages"),
    ("unimax, summed", "famo, smart"),
    ("max_size_cycle, summed", "excess_mtl"),
]
"""Pairs in which something besides weights and moments is kept from step to step."""

NO_DROPOUT = {"encoder.dropout": 0, "encoder.attention_dropout": 0, "adapter.dropout": 0, "optimizer.epsilon": 1e-2}
"""With the default epsilon of AdamW a gradient of rounding errors makes a whole step, so that two
equivalent runs soon differ visibly."""


def test_every_order_weighting_and_gradient_method_is_combined() -> None:
    """But `cagrad`, which needs a package of its own."""
    used = [*ORDERS.values(), *EVERY_METHOD.values()]
    tables: dict[str, Mapping[str, object]] = {
        "stages.1.order": BATCH_ORDERS,
        "loss_weighting": LOSS_WEIGHTINGS,
        "gradients": GRADIENT_METHODS,
    }
    left = {key: set(table) - {changes.get(key) for changes in used} for key, table in tables.items()}
    assert left == {"stages.1.order": set(), "loss_weighting": {"fixed"}, "gradients": {"sum", "cagrad"}}


@pytest.fixture(scope="module")
def two_workers(run_on_both: RunOnBoth) -> Callable[[Material], torch.Tensor]:
    """Trains on two worker processes; returns the details of every step, equal on both."""

    def train_both(inputs: Material) -> torch.Tensor:
        found = run_on_both(details_of, inputs.config, inputs.corpus, inputs.encoder)
        first, second = map(torch.tensor, found)
        assert torch.equal(first, second)
        return first

    return train_both


def details_of(
    wrap: Callable[[nn.Module], nn.Module], config: TrialConfig, corpus: Corpus, encoder: PretrainedEncoder
) -> list[list[float]]:
    """`record_details` as a job of a worker."""
    details: list[list[float]] = record_details(config, corpus, encoder, wrap).tolist()
    return details


def compare(two_workers: Callable[[Material], torch.Tensor], inputs: Material, min_batches: int) -> None:
    """The losses, penalties and noise norms of two workers are those of one."""
    shared = two_workers(inputs)
    alone = record_details(inputs.config, inputs.corpus, inputs.encoder, lambda objective: objective)
    assert len(alone) >= min_batches
    assert alone[:, 0].abs().min() > 0
    torch.testing.assert_close(shared[:STEPS], alone[:STEPS], rtol=TOLERANCE, atol=TOLERANCE)


PARTS: Changes = {"stages.0.micro_batch_size": 2, "stages.1.micro_batch_size": 2}


@pytest.mark.parametrize(
    ("order", "method"),
    [
        ("batch_round_robin", "smart, half of the rows, shared masks"),
        ("batch_round_robin, summed", "pcgrad"),
    ],
)
def test_batches_in_parts_have_the_losses_of_whole_ones(
    order: str, method: str, two_workers: Any, inputs: Build
) -> None:
    whole, parts = (inputs(order, method, {**NO_DROPOUT, **SHORT, **changes}) for changes in ({}, PARTS))
    expected, *found = (
        *(record_details(one.config, one.corpus, one.encoder, lambda objective: objective) for one in (whole, parts)),
        two_workers(parts),
    )
    for details in found:
        torch.testing.assert_close(details, expected, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize(("order", "method"), SHARED)
def test_two_workers_match_one(order: str, method: str, two_workers: Any, inputs: Build) -> None:
    compare(two_workers, inputs(order, method, NO_DROPOUT | SHORT), min_batches=10)


@pytest.mark.slow
@pytest.mark.parametrize(("order", "method"), COVER)
def test_two_workers_match_one_over_many_steps(order: str, method: str, two_workers: Any, inputs: Build) -> None:
    compare(two_workers, inputs(order, method, NO_DROPOUT), min_batches=40)


def compare_killed(inputs: Material, folder: Path, kills: list[int], checkpoint_steps: int) -> None:
    """A run killed after each of some steps equals a whole run, bit for bit."""
    arguments = (inputs.config, inputs.corpus, inputs.encoder)
    whole, resumed = Trace(), Trace()
    train(*arguments, wrap=whole.watch, on_epoch=whole.note)
    states, remaining = StateFolder(path=folder, checkpoint_steps=checkpoint_steps), list(kills)

    def kill(progress: StepProgress) -> bool:
        if remaining and progress.step == remaining[0]:
            remaining.pop(0)
            raise Killed
        return True

    for attempt in range(len(kills) + 1):
        torch.manual_seed(attempt)  # another process would have another global stream
        try:
            train(*arguments, wrap=resumed.watch, on_epoch=resumed.note, on_step=kill, states=states)
        except Killed:
            continue
    assert not remaining
    assert whole.values() == resumed.values()
    for name, tensor in whole.weights.items():
        assert torch.equal(tensor, resumed.weights[name]), name


@pytest.mark.parametrize(("order", "method"), KEPT)
def test_a_killed_run_ends_like_a_whole_one(order: str, method: str, inputs: Build, tmp_path: Path) -> None:
    """Killed within an epoch of the first stage, and within a later one."""
    compare_killed(inputs(order, method, SHORT), tmp_path, kills=[3, 10], checkpoint_steps=2)


@pytest.mark.slow
@pytest.mark.parametrize(("order", "method"), COVER)
def test_a_long_killed_run_ends_like_a_whole_one(order: str, method: str, inputs: Build, tmp_path: Path) -> None:
    compare_killed(inputs(order, method, {}), tmp_path, kills=[3, 17, 36], checkpoint_steps=7)
