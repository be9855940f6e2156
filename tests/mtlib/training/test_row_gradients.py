"""Gradients of embedding tables in kept buffers: equal to dense ones, and zero where the last batch has no token."""

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn

from mtlib.stages.sampler import epoch_steps
from mtlib.training.row_gradients import RowGradient
from mtlib.training.run import Run
from mtlib.training.step import batch_of, take_step

NewRun = Callable[..., Run]


def table() -> nn.Embedding:
    torch.manual_seed(0)
    return nn.Embedding(12, 3, padding_idx=0)


def lose(module: nn.Embedding, ids: list[int]) -> Tensor:
    loss: Tensor = (module(torch.tensor(ids)) * torch.arange(1.0, len(ids) + 1).unsqueeze(1)).square().sum()
    return loss


def gradient_of(module: nn.Embedding) -> Tensor:
    assert module.weight.grad is not None
    return module.weight.grad


def test_gradients_equal_dense_ones_step_by_step() -> None:
    plain = table()
    kept = copy.deepcopy(plain)
    words = RowGradient(kept)
    buffers = set()
    for ids in ([1, 2, 2, 0], [3], [2, 11, 0]):
        for module in (plain, kept):
            module.weight.grad = None
            with words.kept():
                loss = lose(module, ids)
            torch.autograd.backward(loss)
        torch.testing.assert_close(gradient_of(kept), gradient_of(plain))
        assert gradient_of(kept).layout == torch.strided
        buffers.add(gradient_of(kept).data_ptr())
    assert len(buffers) == 1


def test_passes_without_a_reset_between_them_add_up() -> None:
    plain = table()
    kept = copy.deepcopy(plain)
    words = RowGradient(kept)
    for module in (plain, kept):
        for ids in ([1, 2], [2, 5]):
            with words.kept():
                loss = lose(module, ids)
            torch.autograd.backward(loss)
    torch.testing.assert_close(gradient_of(kept), gradient_of(plain))
    for module in (plain, kept):
        module.weight.grad = None
        with words.kept():
            loss = lose(module, [4])
        torch.autograd.backward(loss)
    torch.testing.assert_close(gradient_of(kept), gradient_of(plain))


def test_a_run_keeps_the_gradient_of_its_words_on_one_cpu_worker(new_run: NewRun) -> None:
    run = new_run()
    assert run.words is not None
    words = run.words.table
    assert words is run.model.get_submodule("encoder.embeddings.word_embeddings")
    for step in epoch_steps(run.config, 0, 0, run.lengths, run.own_rows)[:2]:
        take_step(run, step)
        assert run.words.dense is words.weight.grad is not None
        given = batch_of(run, step[0]).inputs[0].input_ids
        rows = words.weight.grad.abs().amax(dim=1).nonzero().flatten()
        assert rows.tolist() == [row for row in sorted(set(given.flatten().tolist())) if row != words.padding_idx]


def test_frozen_words_are_left_alone(new_run: NewRun) -> None:
    assert new_run({"encoder.trained_layers": "1"}).words is None
