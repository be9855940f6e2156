"""Passes, epochs and streams of batches; `test_draws` tests which batch comes next."""

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from mtlib.config.batch_orders import BATCH_ORDERS
from mtlib.config.data import DataConfig
from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from mtlib.runtime.seeds import numpy_stream
from mtlib.stages.sampler import Step, epoch_steps, pass_batches, shuffled

Lengths = Mapping[str, np.ndarray]
ALL_SETS: dict[str, Any] = {"tasks": ("sst", "qqp", "sts"), "extra_data": ("cfimdb", "snli")}
NUM_ROWS = {"sst": 21, "qqp": 40, "sts": 11, "cfimdb": 1, "snli": 30}
"""`cfimdb`: a single row, fewer than its batch of 8."""


def config_of(*stages: StageConfig, **changes: Any) -> TrialConfig:
    """A configuration with batches of 2, 3 and 4 rows, of extra data 8 and 16."""
    sizes = {"tasks.sst.batch_size": 2, "tasks.qqp.batch_size": 3, "tasks.sts.batch_size": 4}
    return TrialConfig(stages=stages).override({**sizes, **changes})


def lengths_of(**num_rows: int) -> Lengths:
    """Random input lengths with a long tail, as in text, by set."""
    return {
        name: 5 + numpy_stream("lengths", name).geometric(0.05, count).astype(np.int64)
        for name, count in num_rows.items()
    }


def epochs_of(config: TrialConfig, lengths: Lengths) -> list[list[Step]]:
    """The epochs of the first stage, without augmentation."""
    own_rows = {name: len(found) for name, found in lengths.items()}
    return [epoch_steps(config, 0, epoch, lengths, own_rows) for epoch in range(config.stages[0].epochs)]


def rows_of(steps: list[Step], name: str) -> list[int]:
    """All rows of a set, in order."""
    return [int(row) for step in steps for batch in step for row in batch.rows if batch.set == name]


def plain(steps: list[Step]) -> list[list[tuple[str, list[int]]]]:
    """Steps as values that compare with ==."""
    return [[(batch.set, batch.rows.tolist()) for batch in step] for step in steps]


@pytest.mark.parametrize("order", BATCH_ORDERS)
def test_in_every_order_every_pass_over_a_set_holds_each_row_once(order: str) -> None:
    """But for a set of which only a part is drawn, where sets restart in each pass of the order."""
    config, lengths = config_of(StageConfig(**ALL_SETS, order=order, epochs=20)), lengths_of(**NUM_ROWS)
    epochs = epochs_of(config, lengths)
    for name, count in NUM_ROWS.items():
        rows = rows_of(list(itertools.chain(*epochs)), name)
        passes = [rows[start : start + count] for start in range(0, len(rows) - count + 1, count)]
        if not (BATCH_ORDERS[order].restarts_sets and name == "qqp"):
            assert passes, f"order {order} finishes no pass over {name} in 20 epochs"
            assert all(sorted(part) == list(range(count)) for part in passes)
            assert count < 20 or len(set(map(tuple, passes))) == len(passes), "reshuffled for every pass"
    backwards = [plain(epoch_steps(config, 0, epoch, lengths, NUM_ROWS)) for epoch in (19, 3, 0)]
    assert backwards == [plain(epochs[epoch]) for epoch in (19, 3, 0)], "earlier calls do not count"


@pytest.mark.parametrize("sum_losses", [False, True])
def test_turns_count_the_batches_of_a_task_over_its_sets_from_0_in_each_epoch(sum_losses: bool) -> None:
    stage = StageConfig(tasks=("sst", "qqp"), extra_data=("snli",), sum_losses=sum_losses, epochs=2)
    for steps in epochs_of(config_of(stage), lengths_of(sst=4, qqp=6, snli=40)):
        turns = [(batch.set, batch.turn) for step in steps for batch in step]
        assert turns == [
            *(("sst", 0), ("qqp", 0), ("snli", 1)),
            *(("sst", 1), ("qqp", 2), ("snli", 3)),
            ("snli", 4),
        ]


def test_the_shuffle_depends_on_seed_replicate_stage_task_and_pass_alone() -> None:
    lengths = lengths_of(sst=40, qqp=40)
    stage = StageConfig(tasks=("sst", "qqp"))
    config = config_of(stage, stage, **{f"tasks.{task}.batch_size": 4 for task in ("sst", "qqp")})

    def rows(changes: dict[str, Any], stage: int, task: str, number: int) -> tuple[int, ...]:
        batches = shuffled(config.override(changes), stage, task, number, lengths["sst"])
        return tuple(int(row) for batch in batches for row in batch)

    base = rows({}, 0, "sst", 0)
    others = [rows({"seed": 1}, 0, "sst", 0), rows({"replicate": 1}, 0, "sst", 0)]
    others += [rows({}, 1, "sst", 0), rows({}, 0, "qqp", 0), rows({}, 0, "sst", 1)]
    assert len({base, *others}) == 6
    np.random.seed(8)
    inert = {"tasks.qqp.batch_size": 9, "optimizer.learning_rate": 1e-3, "smart.weight": 1, "smart.tasks": "sst"}
    assert rows(inert, 0, "sst", 0) == base
    assert rows_of(epochs_of(config, lengths)[0], "sst") == list(base)


@pytest.mark.parametrize("is_bucketed", [True, False])
@pytest.mark.parametrize(("rows", "batch_size"), [(1, 16), (15, 16), (16, 16), (17, 16), (100, 7), (64, 1)])
def test_a_pass_holds_every_row_exactly_once_in_batches_of_the_right_size(
    rows: int, batch_size: int, is_bucketed: bool
) -> None:
    data = DataConfig(bucket_by_length=is_bucketed, bucket_batches=3)
    batches = pass_batches(lengths_of(sst=rows)["sst"], batch_size, data, np.random.default_rng(0))
    assert sorted(np.concatenate(batches)) == list(range(rows))
    sizes = sorted((len(batch) for batch in batches), reverse=True)
    assert sizes[:-1] == [batch_size] * (len(sizes) - 1)
    assert sizes[-1] == (rows - 1) % batch_size + 1


def passes_of(lengths: np.ndarray, batch_size: int, bucket_batches: int, count: int = 1) -> list[list[np.ndarray]]:
    """`count` passes over rows of these lengths."""
    data, stream = DataConfig(bucket_batches=bucket_batches), np.random.default_rng(3)
    return [pass_batches(lengths, batch_size, data, stream) for _ in range(count)]


@pytest.mark.parametrize("bucket_batches", [0, 1, 5])
def test_rows_of_a_batch_differ_by_at_most_twice_the_move(bucket_batches: int) -> None:
    places = np.random.default_rng(0).permutation(640)  # distinct lengths: equal to their ranks
    spans = [np.ptp(places[batch]) for batches in passes_of(places, 16, bucket_batches, 20) for batch in batches]
    assert max(spans) < 2 * 16 * (bucket_batches + 1)
    assert max(spans) > 2 * 16 * bucket_batches
