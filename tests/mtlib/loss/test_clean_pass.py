"""The clean pass that penalties read."""

import numpy as np
import pytest
import torch

from mtlib.loss.clean_pass import CleanPass, Place, autocast, clean_pass
from mtlib.training.run import Run
from tests.mtlib.loss.by_hand import PLAIN, NewRun, shards_of


def first_pass(run: Run) -> CleanPass:
    """The clean pass of a batch."""
    (batch,) = shards_of(run, "qqp", 8)
    place = Place(noise_seed=11, turn=0, full_size=8)
    return clean_pass(run.config, run.model, run.teacher, batch, place, keep=True)


def test_further_passes_draw_new_dropout_masks(new_run: NewRun) -> None:
    clean = first_pass(new_run(PLAIN))
    for logits in (clean.logits(), clean.logits(clean.output.embeddings), clean.again().output.logits):
        assert torch.equal(logits, clean.output.logits)
    clean = first_pass(new_run())
    again = clean.again()
    assert not torch.equal(clean.logits(), clean.output.logits)
    assert not torch.equal(again.output.embeddings[0], clean.output.embeddings[0])
    torch.set_rng_state(again.random_state)
    assert torch.equal(clean.again().output.logits, again.output.logits)


def test_some_rows_of_a_pass_have_its_results(new_run: NewRun) -> None:
    clean = first_pass(new_run())
    part = clean.some_rows(np.array([3, 0]))
    assert part.batch.positions.tolist() == [3, 0]
    assert torch.equal(part.output.logits, clean.output.logits[[3, 0]])
    assert torch.equal(part.output.vectors, clean.output.vectors[[3, 0]])
    assert torch.equal(part.output.embeddings[0], clean.output.embeddings[0][[3, 0]])
    assert part.output.logits.requires_grad


@pytest.mark.parametrize(("precision", "dtype"), [("fp32", torch.float32), ("bf16", torch.bfloat16)])
def test_products_run_in_the_configured_precision(precision: str, dtype: torch.dtype, new_run: NewRun) -> None:
    matrix = torch.ones(2, 2)
    with autocast(new_run({"precision": precision, "smart.weight": 0}).config, matrix.device):
        assert (matrix @ matrix).dtype == dtype
