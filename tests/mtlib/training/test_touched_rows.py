"""AdamW of the touched rows of a table, bit for bit as torch's fused AdamW of the whole table."""

import copy
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn

from mtlib.stages.sampler import epoch_steps
from mtlib.training.optimizer import AdamW, optimizer_tensors
from mtlib.training.run import Run, restore, state_of
from mtlib.training.step import take_step
from mtlib.training.touched_rows import ALIGNED_ROWS, MOST_FACTORS, TouchedRows

NewRun = Callable[..., Run]
ROWS, WIDTH = 200, 8
SETTINGS = {"betas": (0.9, 0.99), "eps": 1e-8, "fused": True}


@pytest.fixture
def tables() -> tuple[nn.Embedding, TouchedRows]:
    """A table, and a copy of it whose touched rows alone are stepped."""
    torch.manual_seed(0)
    plain = nn.Embedding(ROWS, WIDTH, padding_idx=0)
    return plain, TouchedRows(copy.deepcopy(plain))


def lose(table: nn.Embedding, ids: list[int]) -> Tensor:
    loss: Tensor = (table(torch.tensor(ids)) * torch.arange(1.0, len(ids) + 1).unsqueeze(1)).square().sum()
    return loss


def batches(count: int) -> Iterator[list[int]]:
    """Ids of batches: rows come back after many steps, rows repeat in a batch, ever new rows come."""
    stream = torch.Generator().manual_seed(3)
    for number in range(count):
        highest = 2 + min(number, ROWS - 10) // 2
        yield torch.randint(0, highest, (5,), generator=stream).tolist()


class Pair:
    """Torch's AdamW of a whole table beside that of the touched rows of its copy, each beside another parameter."""

    def __init__(self, plain: nn.Embedding, words: TouchedRows, decay: float) -> None:
        self.plain, self.words = plain, words
        self.others = [nn.Parameter(torch.ones(3)) for _ in range(2)]
        groups = [
            [{"params": [table.weight], "weight_decay": decay}, {"params": [other], "weight_decay": 0.0}]
            for table, other in zip((plain, words.table), self.others, strict=True)
        ]
        self.torchs = torch.optim.AdamW(groups[0], **SETTINGS)  # type: ignore[arg-type]
        self.ours = AdamW(groups[1], words, **SETTINGS)

    def step(self, ids: list[int], rate: float, is_sparse: bool = True) -> None:
        for optimizer, table in ((self.torchs, self.plain), (self.ours, self.words.table)):
            optimizer.zero_grad(set_to_none=True)
            optimizer.param_groups[0]["lr"] = rate
            if is_sparse:
                with self.words.sparse_gradient():
                    loss = lose(table, ids)
            else:
                loss = lose(table, ids)
            torch.autograd.backward(loss)
            optimizer.step()

    def assert_equal(self) -> None:
        assert torch.equal(self.words.table.state_dict()["weight"], self.plain.weight)
        state, moments = self.torchs.state[self.plain.weight], self.words.moments()
        assert {name for name in state if not torch.equal(state[name], moments[name])} == set()


@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_steps_are_those_of_torch_bit_for_bit(tables: tuple[nn.Embedding, TouchedRows], decay: float) -> None:
    """With sparse gradients and with dense ones."""
    pair, num_steps = Pair(*tables, decay), 2 * MOST_FACTORS + 20
    for number, ids in enumerate(batches(num_steps)):
        pair.step(ids, rate=1e-2 * (1 - number / num_steps), is_sparse=number % 3 > 0)
        if number in (0, 1, 50, MOST_FACTORS - 1, MOST_FACTORS):
            pair.assert_equal()
    pair.assert_equal()
    touched = len(pair.words.rows)
    assert ALIGNED_ROWS < touched < ROWS


def test_looking_rows_up_gives_their_present_values(tables: tuple[nn.Embedding, TouchedRows]) -> None:
    pair = Pair(*tables, 0.3)
    for ids in batches(9):
        pair.step(ids, rate=1e-2)
        looked_up = torch.tensor([*ids, 150])  # one of them was never trained
        assert torch.equal(pair.words.table(looked_up), pair.plain(looked_up))
    pair.words.table.eval()
    everything = torch.arange(ROWS)
    assert torch.equal(pair.words.table(everything), pair.plain(everything))
    pair.words.table.train()
    pair.step([1, 150], rate=1e-2)
    pair.assert_equal()


def test_restored_moments_continue_bit_for_bit(tables: tuple[nn.Embedding, TouchedRows]) -> None:
    pair = Pair(*tables, 0.1)
    for ids in batches(40):
        pair.step(ids, rate=1e-2)
    kept = {name: tensor.clone() for name, tensor in pair.words.moments().items()}
    pair.step([2, 190], rate=5e-2)
    for table in (pair.plain, pair.words.table):
        table.load_state_dict({"weight": torch.linspace(-1, 1, ROWS * WIDTH).view(ROWS, WIDTH)})
    pair.assert_equal()  # the moments stay where weights are loaded
    pair.torchs.state[pair.plain.weight] = {name: tensor.clone() for name, tensor in kept.items()}
    pair.words.restore(kept)
    for ids in batches(60):
        pair.step(ids, rate=1e-2)
    pair.assert_equal()
    pair.words.restore({})
    assert pair.words.moments() == {}


def test_a_run_steps_as_one_whose_table_is_stepped_whole(new_run: NewRun) -> None:
    run, plain = new_run(), new_run()
    plain.words = plain.optimizer.words = None
    for number, step in enumerate(epoch_steps(run.config, 0, 0, run.lengths, run.own_rows)[:6]):
        for each in (run, plain):
            take_step(each, step)
        if number == 3:  # a resumed run has other rows in its buffers, in another order
            state = state_of(run)
            run = new_run()
            restore(run, state)
    assert run.words is not None
    assert 0 < len(run.words.rows) < run.words.table.num_embeddings
    ours, torchs = (
        {**each.model.state_dict(), **optimizer_tensors(each.optimizer, each.model)} for each in (run, plain)
    )
    assert ours.keys() == torchs.keys()
    for name, tensor in ours.items():
        torch.testing.assert_close(tensor, torchs[name], rtol=1e-5, atol=1e-7)
