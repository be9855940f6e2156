"""The clean pass that penalties read."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from mtlib.loss.clean_pass import CleanPass, autocast, clean_pass
from mtlib.stages.sampler import epoch_steps
from mtlib.training.run import Run
from mtlib.training.step import batch_of, batch_place

STILL = {"encoder.dropout": 0, "encoder.attention_dropout": 0}


def first_pass(run: Run) -> CleanPass:
    """The clean pass of the first batch of a run."""
    part = epoch_steps(run.config, 0, 0, run.lengths, run.own_rows)[0][0]
    return clean_pass(run.config, run.model, run.teacher, batch_of(run, part), batch_place(run, part), keep=True)


def test_a_second_pass_without_dropout_gives_the_same_logits(new_run: Callable[..., Run]) -> None:
    clean = first_pass(new_run(STILL))
    assert torch.equal(clean.logits(), clean.output.logits)
    assert torch.equal(clean.logits(clean.output.embeddings), clean.output.logits)


def test_a_second_pass_draws_new_dropout_masks(new_run: Callable[..., Run]) -> None:
    clean = first_pass(new_run())
    assert not torch.equal(clean.logits(), clean.output.logits)


def test_some_rows_of_a_pass_have_its_results(new_run: Callable[..., Run]) -> None:
    clean = first_pass(new_run())
    part = clean.some_rows(np.array([3, 0]))
    assert part.batch.positions.tolist() == [3, 0]
    assert torch.equal(part.output.logits, clean.output.logits[[3, 0]])
    assert torch.equal(part.output.vectors, clean.output.vectors[[3, 0]])
    assert torch.equal(part.output.embeddings[0], clean.output.embeddings[0][[3, 0]])
    assert part.output.logits.requires_grad


def test_a_clean_pass_again_has_masks_and_embeddings_of_its_own(new_run: Callable[..., Run]) -> None:
    clean = first_pass(new_run())
    again = clean.again()
    assert not torch.equal(again.output.embeddings[0], clean.output.embeddings[0])
    torch.set_rng_state(again.random_state)
    assert torch.equal(clean.again().output.logits, again.output.logits)
    still = first_pass(new_run(STILL))
    assert torch.equal(still.again().output.logits, still.output.logits)


@pytest.mark.parametrize(("precision", "dtype"), [("fp32", torch.float32), ("bf16", torch.bfloat16)])
def test_products_run_in_the_configured_precision(precision: str, dtype: Any, new_run: Callable[..., Run]) -> None:
    matrix = torch.ones(2, 2)
    with autocast(new_run({"precision": precision, "smart.weight": 0}).config, matrix.device):
        assert (matrix @ matrix).dtype == dtype
