"""The objective by hand: means, weights, short batches, shards, and how terms add up."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.distributions import Normal
from torchjd.scalarization import FAMO, IMTLL, STCH, Scalarizer

import mtlib.loss.objective
import mtlib.loss.simcse
from mtlib.loss.objective import terms_of
from mtlib.runtime.lazy_functions import load_function
from tests.method_tables import TERMS
from tests.mtlib.loss.by_hand import (
    BI,
    CONTRAST,
    LEARNED,
    PLAIN,
    SIZES,
    SMART,
    TEACHER,
    NewRun,
    evaluate,
    gradients_of,
    losses_by_hand,
    shards_of,
    with_moved_weights,
)


@pytest.mark.parametrize("rows", [5, 3])
@pytest.mark.parametrize("task", SIZES)
def test_each_row_counts_as_one_of_a_full_batch_times_the_tasks_weight(task: str, rows: int, new_run: NewRun) -> None:
    run = new_run({**PLAIN, f"tasks.{task}.loss_weight": 2.5})
    (batch,) = shards_of(run, task, rows)
    expected = losses_by_hand(run, batch).sum().item()
    for size in (SIZES[task], 20):  # a set may have a batch size of its own
        loss, details = evaluate(run, [batch], full_size=size)
        assert loss.item() == pytest.approx(2.5 * expected / size, rel=1e-5)
        assert details.tolist() == [pytest.approx([expected, *[0] * (len(TERMS) - 1)], rel=1e-5)]
        assert not details.requires_grad


def test_class_weights_scale_the_loss_of_their_rows(new_run: NewRun) -> None:
    run = new_run({**PLAIN, "tasks.qqp.class_weights": "1,3"})
    (batch,) = shards_of(run, "qqp", 8)
    expected = (losses_by_hand(run, batch) * (1 + 2 * batch.labels)).mean().item()
    assert evaluate(run, [batch])[0].item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_terms_add_up_each_with_its_own_weight(reduction: str, new_run: NewRun) -> None:
    changes = {"tasks.qqp.loss_weight": 0.5, "smart.reduction": reduction}
    run = with_moved_weights(new_run({**TEACHER, **CONTRAST, **SMART, **changes}))
    loss, details = evaluate(run, shards_of(run, "qqp", 3))
    sums = dict(zip(TERMS, details[0].tolist(), strict=True))
    assert min(sums[name] for name in ("loss", "smart_penalty", "proximal", "simcse")) > 0
    smart = 7 * sums["smart_penalty"] / (8 if reduction == "mean" else 1)  # a sum is the same in a short batch
    total = (sums["loss"] + 3 * sums["proximal"] + 2 * sums["simcse"]) / 8 + smart
    assert loss.item() == pytest.approx(0.5 * total, rel=1e-4)


def test_a_penalty_that_is_no_value_for_each_row_is_refused(new_run: NewRun, monkeypatch: pytest.MonkeyPatch) -> None:
    def break_contract(path: str) -> Callable[..., tuple[Tensor, ...]]:
        return lambda *given: tuple(values.unsqueeze(1) for values in load_function(path)(*given))

    monkeypatch.setattr(mtlib.loss.objective, "load_function", break_contract)
    run = new_run({**SMART, "smart.tasks": "sst"})
    with pytest.raises(ValueError, match=r"smart_penalty must return \(rows,\) for each of smart_penalty, noise_norm"):
        evaluate(run, shards_of(run, "sst", 8))


def test_the_terms_of_each_task_and_turn_by_hand(new_run: NewRun) -> None:
    changes = {"smart.tasks": "sst", "smart.every_batches": 2, "proximal.tasks": "sst,qqp", "simcse.tasks": "sts"}
    run = new_run({**SMART, **TEACHER, **CONTRAST, **changes, "smart.weight": 1})
    expected = {
        ("sst", 0): ("loss", "smart_penalty", "noise_norm", "proximal"),
        ("sst", 1): ("loss", "proximal"),
        ("qqp", 0): ("loss", "proximal"),
        ("sts", 5): ("loss", "simcse"),
    }
    with_moved_weights(run)
    for (task, turn), terms in expected.items():
        assert terms_of(run.config, task, turn) == terms
        details = evaluate(run, shards_of(run, task, 5), turn=turn)[1][0]
        assert [name for name, value in zip(TERMS, details, strict=True) if value != 0] == list(terms)


SHARDED = TEACHER | LEARNED | SMART | {"smart.masks": "shared", "smart.row_share": 0.4}


@pytest.mark.parametrize("rows", [5, 1])
@pytest.mark.parametrize("changes", [SHARDED, {**SHARDED, **BI, "smart.mode": "paper", "smart.reduction": "sum"}])
def test_the_average_gradient_of_two_shards_is_that_of_the_global_batch(
    changes: dict[str, Any], rows: int, new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = with_moved_weights(new_run(changes))
    whole, details = evaluate(run, shards_of(run, "qqp", rows))
    expected = gradients_of(run, whole)
    monkeypatch.setattr(mtlib.loss.objective, "num_workers", lambda: 2)
    shards = shards_of(run, "qqp", rows, world_size=2)
    parts = [evaluate(run, [shard]) for shard in shards]
    found = [gradients_of(run, loss) for loss, _ in parts]
    assert sum(loss.item() for loss, _ in parts) / 2 == pytest.approx(whole.item(), rel=1e-4)
    assert torch.allclose(parts[0][1] + parts[1][1], details, rtol=1e-4)
    scale = max(gradient.abs().max().item() for gradient in expected.values())
    assert expected.keys() == found[0].keys() == found[1].keys()  # the same collective calls on every worker
    for key, gradient in expected.items():
        averaged = (found[0][key] + found[1][key]) / 2
        assert torch.allclose(averaged, gradient, rtol=1e-3, atol=1e-5 * scale), key
    if shards[1].is_empty:
        assert not parts[1][1].any()
        assert not any(gradient.any() for gradient in found[1].values())


def test_a_learned_weight_of_a_squared_error_is_a_normal_likelihood(new_run: NewRun) -> None:
    run, log_variance = new_run(LEARNED), 1.3
    (batch,) = shards_of(run, "sts", 5)
    with torch.no_grad():
        run.model.log_variances["sts"].fill_(log_variance)
    predicted = run.model(batch).logits[:, 0]
    likelihood = Normal(predicted, np.exp(log_variance / 2)).log_prob(batch.labels)  # type: ignore[no-untyped-call]  # Kendall et al. 2018, equation 5
    expected = (-likelihood - 0.5 * np.log(2 * np.pi)).mean()
    assert evaluate(run, [batch])[0].item() == pytest.approx(expected.item(), rel=1e-4, abs=1e-5)


def test_a_learned_weight_of_a_cross_entropy_scales_loss_and_penalties(new_run: NewRun) -> None:
    run, deviation = new_run({**SMART, **LEARNED, "smart.weight": 7}), 1.7
    (batch,) = shards_of(run, "qqp", 3)
    with torch.no_grad():
        run.model.log_variances["qqp"].fill_(2 * np.log(deviation))
    loss, details = evaluate(run, [batch])
    total = details[0, 0] + 7 * details[0, TERMS.index("smart_penalty")]
    expected = (total / deviation**2 + 3 * np.log(deviation)) / 8  # Kendall et al. 2018, equation 10, of 3 rows
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)


def test_imtl_l_is_torchjds_scalarization_of_the_losses(new_run: NewRun) -> None:
    run, theirs = new_run({**PLAIN, "loss_weighting": "imtl_l"}), IMTLL(3)
    batches = [shards_of(run, task, size)[0] for task, size in SIZES.items()]
    with torch.no_grad():
        for number, part in enumerate(run.model.log_variances.parameters()):
            part.fill_(0.3 * number - 0.4)
        theirs.log_scale.copy_(-torch.stack([run.model.log_variances[task] for task in SIZES]))
    losses = torch.stack([losses_by_hand(run, batch).mean() for batch in batches])
    assert evaluate(run, batches)[0].item() == pytest.approx(theirs(losses).item(), rel=1e-5)


@pytest.mark.parametrize(("name", "theirs"), [("famo", FAMO(3)), ("stch", STCH(0.1))])
def test_the_gradient_of_weighted_losses_is_that_of_torchjds_scalarization(
    name: str, theirs: Scalarizer, new_run: NewRun
) -> None:
    changes = {**PLAIN, "stages.0.tasks": list(SIZES), "stages.0.sum_losses": True}
    run = new_run({**changes, "loss_weighting": name})
    sst, short, qqp, sts = (
        shards_of(run, task, rows)[0] for task, rows in (("sst", 8), ("sst", 3), ("qqp", 8), ("sts", 5))
    )
    found = gradients_of(run, evaluate(run, [sst, qqp, short, sts])[0])
    losses = [evaluate(run, batches)[0] for batches in ([sst, short], [qqp], [sts])]  # of one task each: unweighted
    expected = gradients_of(run, theirs(torch.stack(losses)))
    for parameter, gradient in found.items():
        assert torch.allclose(gradient, expected[parameter], rtol=1e-4, atol=1e-6), parameter
