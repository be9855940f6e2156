"""The clean pass that penalties read."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from mtlib.loss.clean_pass import CleanPass, autocast
from mtlib.stages.sampler import epoch_steps
from mtlib.training.run import Run
from mtlib.training.step import batch_of, batch_place

STILL = {"encoder.dropout": 0, "encoder.attention_dropout": 0}


def clean_pass(run: Run) -> CleanPass:
    """The first batch of a run, after its pass."""
    part = epoch_steps(run.config, 0, 0, run.lengths, run.own_rows)[0][0]
    batch = batch_of(run, part)
    return CleanPass(
        config=run.config,
        model=run.model,
        teacher=run.teacher,
        batch=batch,
        place=batch_place(run, part),
        output=run.model(batch, keep=True),
        random_state=torch.get_rng_state(),
    )


def test_a_second_pass_without_dropout_gives_the_same_logits(new_run: Callable[..., Run]) -> None:
    clean = clean_pass(new_run(STILL))
    assert torch.equal(clean.logits(), clean.output.logits)
    assert torch.equal(clean.logits(clean.output.embeddings), clean.output.logits)


def test_a_second_pass_draws_new_dropout_masks(new_run: Callable[..., Run]) -> None:
    clean = clean_pass(new_run())
    assert not torch.equal(clean.logits(), clean.output.logits)


@pytest.mark.parametrize(("precision", "dtype"), [("fp32", torch.float32), ("bf16", torch.bfloat16)])
def test_products_run_in_the_configured_precision(precision: str, dtype: Any, new_run: Callable[..., Run]) -> None:
    matrix = torch.ones(2, 2)
    with autocast(new_run({"precision": precision, "smart.weight": 0}).config, matrix.device):
        assert (matrix @ matrix).dtype == dtype
