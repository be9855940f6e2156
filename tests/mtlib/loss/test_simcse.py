"""The contrastive loss against a plain loop, its views by hand, and two workers against one."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

import mtlib.loss.simcse
from mtlib.loss.simcse import contrastive_loss
from mtlib.training.run import Run
from tests.mtlib.loss.by_hand import BI, CONTRAST, NOISY, SIZES, NewRun, column, evaluate, passes_of, shards_of

HIDDEN, TAU = 4, 0.3


def views(rows: int, texts: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Two similar views, (rows, texts, hidden)."""
    stream = torch.Generator().manual_seed(seed)
    first = torch.randn(rows, texts, HIDDEN, generator=stream)
    return first, first + 0.5 * torch.randn(rows, texts, HIDDEN, generator=stream)


def whole(first: Tensor, second: Tensor, temperature: float = TAU) -> Tensor:
    """The loss of a single worker."""
    places = np.arange(len(first))
    return contrastive_loss(
        first, second, positions=places, num_rows=len(first), temperature=temperature, is_empty=False
    )


def looped(first: Tensor, second: Tensor, temperature: float) -> list[float]:
    """The equation, a text at a time; the mean over each row's texts."""
    anchors, candidates = first.flatten(0, 1), second.flatten(0, 1)
    losses = []
    for place, anchor in enumerate(anchors):
        cosines = [functional.cosine_similarity(anchor, candidate, dim=0) / temperature for candidate in candidates]
        losses.append(functional.cross_entropy(torch.stack(cosines)[None], torch.tensor([place])).item())
    return [float(np.mean(row)) for row in np.reshape(losses, (len(first), -1))]


@pytest.mark.parametrize(("rows", "texts", "temperature"), [(5, 1, 0.05), (2, 2, 2.0), (1, 1, 0.3)])
def test_the_loss_is_the_cross_entropy_of_cosines_over_all_texts(rows: int, texts: int, temperature: float) -> None:
    first, second = views(rows, texts)
    expected = looped(first, second, temperature)
    assert np.allclose(whole(first, second, temperature), expected, rtol=1e-4, atol=1e-5)
    assert np.allclose(whole(10 * first, 0.1 * second, temperature), expected, rtol=1e-4, atol=1e-5)


def test_the_loss_is_fp32_under_bf16() -> None:
    first, second = (view.bfloat16() for view in views(5, 1))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = whole(first, second, 0.05)
    assert loss.dtype == torch.float32
    assert torch.equal(loss, whole(first.float(), second.float(), 0.05))


@pytest.mark.parametrize(("rows", "texts"), [(5, 2), (1, 2)])
def test_two_workers_give_each_row_its_loss_and_sum_to_the_gradient_of_one(
    rows: int, texts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An odd number of rows gives shards of unequal size, 1 an empty one."""
    weight = torch.randn(HIDDEN, HIDDEN, generator=torch.Generator().manual_seed(9)).requires_grad_()
    first, second = (view @ weight for view in views(rows, texts))
    expected = whole(first, second)
    (gradient,) = torch.autograd.grad(expected.sum(), weight, retain_graph=True)
    places = [np.arange(rows)[rank::2] if rank < rows else np.zeros(1, dtype=np.int64) for rank in range(2)]

    def gather(own: Tensor) -> Tensor:
        """The second views of both, padded to one length."""
        shards = [functional.normalize(second[place], dim=2) for place in places]
        padded = [torch.cat([shard, shard.new_zeros(len(own) - len(shard), *own.shape[1:])]) for shard in shards]
        assert any(torch.equal(own, shard) for shard in padded)
        return torch.stack(padded)

    monkeypatch.setattr(mtlib.loss.simcse, "num_workers", lambda: 2)
    monkeypatch.setattr(mtlib.loss.simcse, "gather_with_gradient", gather)
    losses = [
        contrastive_loss(
            first[place], second[place], positions=place, num_rows=rows, temperature=TAU, is_empty=rank >= rows
        )
        for rank, place in enumerate(places)
    ]
    assert torch.allclose(losses[0], expected[::2], atol=1e-6)
    assert torch.allclose(losses[1], expected[1::2] if rows > 1 else torch.zeros(1), atol=1e-6)
    (found,) = torch.autograd.grad(losses[0].sum() + losses[1].sum(), weight)
    assert torch.allclose(found, gradient, atol=1e-5)


@pytest.mark.parametrize(
    ("task", "encoding", "projection"),
    [("sst", "single", "mlp"), ("qqp", "bi", "linear"), ("sts", "cross_and_bi", "none")],
)
def test_the_views_are_the_clean_pass_and_one_more(task: str, encoding: str, projection: str, new_run: NewRun) -> None:
    changes = {f"tasks.{task}.encoding": encoding, "simcse.projection": projection}
    run = new_run({**CONTRAST, **NOISY, **changes})
    (batch,) = shards_of(run, task, 4)
    torch.manual_seed(6)
    clean = run.model(batch)  # the first view comes from the pass of the loss
    first = 1 if encoding == "cross_and_bi" else 0  # the pair comes before its texts, and has no views beside theirs
    again = run.model.encode_texts(task, batch.inputs[first:])[0]
    assert run.model.projection is not None
    own, other = (run.model.projection(view) for view in (clean.vectors[:, first:], again))
    expected = looped(own, other, 0.5)
    torch.manual_seed(6)
    _, details = evaluate(run, [batch])
    assert column(details, "simcse") == pytest.approx(sum(expected), rel=1e-4)


def hidden_dropouts(run: Run) -> list[torch.nn.Dropout]:
    """BERT's dropout of hidden states, by name."""
    layers = ("attention.output", "output")
    names = ["embeddings.dropout", *(f"encoder.layer.{n}.{part}.dropout" for n in (0, 1) for part in layers)]
    return [run.model.encoder.get_submodule(name) for name in names]  # type: ignore[misc]


def test_a_dropout_of_its_own_applies_to_two_further_views_only(new_run: NewRun) -> None:
    run = new_run({**CONTRAST, **NOISY, "simcse.dropout": 0.1, "simcse.projection": "none"})
    (batch,) = shards_of(run, "sst", 6)
    torch.manual_seed(6)
    clean = run.model(batch).logits
    for dropout in hidden_dropouts(run):
        dropout.p = 0.1
    first, second = (run.model.encode_texts(batch.task, batch.inputs)[0] for _ in range(2))
    for dropout in hidden_dropouts(run):
        dropout.p = 0.3
    torch.manual_seed(6)
    _, details = evaluate(run, [batch])
    assert column(details, "simcse") == pytest.approx(sum(looped(first, second, 0.5)), rel=1e-4)
    losses = functional.cross_entropy(clean, batch.labels.long(), reduction="sum")
    assert column(details, "loss") == pytest.approx(losses.item(), rel=1e-5)
    assert {dropout.p for dropout in hidden_dropouts(run)} == {0.3}


def test_only_contrastive_tasks_cost_one_pass_of_each_text_or_two_with_its_own_dropout(new_run: NewRun) -> None:
    run = new_run({**CONTRAST, **BI, "simcse.tasks": "qqp"})
    assert [len(passes_of(run, task, 5)) for task in SIZES] == [1, 4, 2]
    assert len(passes_of(new_run({**CONTRAST, "simcse.dropout": 0.1}), "qqp")) == 3
