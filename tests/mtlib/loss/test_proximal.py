"""The proximal term by hand, and the decay of the mean teacher over the steps."""

import pytest
import torch

from mtlib.config.penalties import ProximalConfig
from mtlib.loss.proximal import decay_at
from tests.mtlib.loss.by_hand import (
    NOISY,
    SIZES,
    TEACHER,
    NewRun,
    column,
    divergence_by_hand,
    evaluate,
    gradients_of,
    losses_by_hand,
    shards_of,
    with_moved_weights,
)


@pytest.mark.parametrize("task", SIZES)
def test_the_proximal_term_is_the_divergence_from_the_teacher(task: str, new_run: NewRun) -> None:
    run = with_moved_weights(new_run(TEACHER))
    assert run.teacher is not None
    (batch,) = shards_of(run, task, SIZES[task])
    expected = divergence_by_hand(task, run.model(batch).logits, run.teacher(batch).logits)
    loss, details = evaluate(run, [batch])
    assert expected.min() > 1e-4
    assert column(details, "proximal") == pytest.approx(expected.sum().item(), rel=1e-3)
    found, by_hand = (
        gradients_of(run, total) for total in (loss, losses_by_hand(run, batch).mean() + 3 * expected.mean())
    )
    for name, gradient in by_hand.items():
        assert torch.allclose(found[name], gradient, rtol=1e-3, atol=1e-5), name
    assert not any(parameter.requires_grad for parameter in run.teacher.parameters())


def test_the_teacher_has_no_dropout_and_starts_as_the_model(new_run: NewRun) -> None:
    run = with_moved_weights(new_run({**TEACHER, **NOISY}))
    assert run.teacher is not None
    (batch,) = shards_of(run, "qqp", 8)
    torch.manual_seed(0)
    found = column(evaluate(run, [batch])[1], "proximal")
    torch.manual_seed(0)
    expected = divergence_by_hand("qqp", run.model(batch).logits, run.teacher(batch).logits).sum()
    assert found == pytest.approx(expected.item(), rel=1e-3)
    assert torch.equal(run.teacher(batch).logits, run.teacher(batch).logits)
    still = new_run(TEACHER)
    assert column(evaluate(still, [batch])[1], "proximal") == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(("fraction", "num_steps", "num_early"), [(0.5, 1, 0), (0.1, 14, 1), (0.1, 16, 2)])
def test_the_first_decay_lasts_for_its_share_of_the_steps_to_the_nearest(
    fraction: float, num_steps: int, num_early: int
) -> None:
    config = ProximalConfig(decay=0.99, late_decay=0.999, early_fraction=fraction)
    found = [decay_at(config, step, num_steps) for step in range(num_steps)]
    assert found == [0.99] * num_early + [0.999] * (num_steps - num_early)
