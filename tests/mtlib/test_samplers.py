"""Orders against a simulation by queues, and what every pass, epoch and stream of batches must hold."""

import itertools
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from mtlib.config import TrialConfig
from mtlib.config_data import DataConfig
from mtlib.config_training import Order, StageConfig
from mtlib.samplers import Step, epoch_steps, pass_batches, shuffled
from mtlib.seeds import numpy_stream

Lengths = Mapping[str, np.ndarray]


def config_of(*stages: StageConfig, **changes: Any) -> TrialConfig:
    """A configuration with batches of 2, 3 and 4 rows."""
    sizes = {"tasks.sst.batch_size": 2, "tasks.qqp.batch_size": 3, "tasks.sts.batch_size": 4}
    return TrialConfig(stages=stages).override({**sizes, **changes})


def lengths_of(**num_rows: int) -> Lengths:
    """Random input lengths with a long tail, as in text."""
    return {
        task: 5 + numpy_stream("lengths", task).geometric(0.05, count).astype(np.int64)
        for task, count in num_rows.items()
    }


def tasks_of(steps: list[Step]) -> list[tuple[str, ...]]:
    """The tasks of each step."""
    return [tuple(task for task, _ in step.batches) for step in steps]


def rows_of(steps: list[Step], task: str) -> list[int]:
    """All rows of a task, in the order in which they are seen."""
    return [int(row) for step in steps for name, rows in step.batches for row in rows if name == task]


def plain(steps: list[Step]) -> list[list[tuple[str, list[int]]]]:
    """Steps as values that compare with ==."""
    return [[(task, rows.tolist()) for task, rows in step.batches] for step in steps]


def simulate(order: Order, sum_losses: bool, num_rows: dict[str, int], sizes: dict[str, int]) -> list[tuple[str, ...]]:
    """One pass of an order, batch by batch from a queue per task."""
    queues = {task: [0] * len(range(0, count, sizes[task])) for task, count in num_rows.items()}
    largest = sorted(num_rows, key=lambda task: -num_rows[task])[0]
    is_sampled = order == "sampled_round_robin" and len(num_rows) > 1
    steps: list[tuple[str, ...]] = []
    while any(queue for task, queue in queues.items() if not (is_sampled and task == largest)):
        turn = [task for task, queue in queues.items() if queue]
        for task in turn:
            queues[task].pop()
        steps += [tuple(turn)] if sum_losses else [(task,) for task in turn]
    return steps


@pytest.mark.parametrize("sum_losses", [False, True])
@pytest.mark.parametrize("order", ["batch_round_robin", "sampled_round_robin"])
def test_every_order_is_that_of_a_simulation_by_queues(order: Order, sum_losses: bool) -> None:
    sizes = {"sst": 2, "qqp": 3, "sts": 4}
    for tasks in (("qqp",), ("sts", "qqp"), ("sst", "qqp", "sts"), ("sts", "sst", "qqp")):
        stage = StageConfig(tasks=tasks, order=order, sum_losses=sum_losses)
        for counts in itertools.product((1, 5, 6, 13), repeat=len(tasks)):
            num_rows = dict(zip(tasks, counts, strict=True))
            steps = epoch_steps(config_of(stage), 0, 0, lengths_of(**num_rows))
            assert tasks_of(steps) == simulate(order, sum_losses, num_rows, sizes), num_rows


def test_orders_known_by_hand() -> None:
    lengths = lengths_of(sst=4, qqp=12, sts=12)  # 2, 4 and 3 batches
    stage = StageConfig(tasks=("sst", "qqp", "sts"))
    assert tasks_of(epoch_steps(config_of(stage), 0, 0, lengths)) == [
        *(("sst",), ("qqp",), ("sts",)),
        *(("sst",), ("qqp",), ("sts",)),
        *(("qqp",), ("sts",)),
        ("qqp",),
    ]
    summed = StageConfig(tasks=("sst", "qqp", "sts"), sum_losses=True)
    assert tasks_of(epoch_steps(config_of(summed), 0, 0, lengths)) == [
        ("sst", "qqp", "sts"),
        ("sst", "qqp", "sts"),
        ("qqp", "sts"),
        ("qqp",),
    ]
    sampled = StageConfig(tasks=("sst", "qqp"), order="sampled_round_robin")
    assert tasks_of(epoch_steps(config_of(sampled), 0, 0, lengths)) == [("sst",), ("qqp",), ("sst",), ("qqp",)]


@pytest.mark.parametrize(("sst", "sts"), [(30, 20), (20, 30)])
def test_the_largest_task_is_the_one_with_most_rows_not_most_batches(sst: int, sts: int) -> None:
    stage = StageConfig(tasks=("sst", "sts"), order="sampled_round_robin")
    config = config_of(stage, **{"tasks.sst.batch_size": 5, "tasks.sts.batch_size": 5})
    fewer = config.override({f"tasks.{'sst' if sst > sts else 'sts'}.batch_size": 15})  # most rows, 2 batches
    for changed, rounds in ((config, 4), (fewer, 4)):
        steps = epoch_steps(changed, 0, 0, lengths_of(sst=sst, sts=sts))
        small = "sts" if sst > sts else "sst"
        assert sorted(rows_of(steps, small)) == list(range(20))
        assert Counter(tasks_of(steps))[(small,)] == rounds


@pytest.mark.parametrize("is_bucketed", [True, False])
@pytest.mark.parametrize(("rows", "batch_size"), [(1, 1), (1, 16), (15, 16), (16, 16), (17, 16), (100, 7), (64, 1)])
def test_a_pass_holds_every_row_exactly_once_in_batches_of_the_right_size(
    rows: int, batch_size: int, is_bucketed: bool
) -> None:
    data = DataConfig(bucket_by_length=is_bucketed, bucket_batches=3)
    batches = pass_batches(lengths_of(sst=rows)["sst"], batch_size, data, np.random.default_rng(0))
    assert sorted(np.concatenate(batches)) == list(range(rows))
    sizes = sorted((len(batch) for batch in batches), reverse=True)
    assert sizes[:-1] == [batch_size] * (len(sizes) - 1)
    assert sizes[-1] == (rows - 1) % batch_size + 1
    assert all(batch.dtype == np.int64 for batch in batches)


@pytest.mark.parametrize("is_bucketed", [True, False])
@pytest.mark.parametrize("steps_per_epoch", [None, 17])
def test_the_number_of_epochs_is_exact_with_and_without_buckets(is_bucketed: bool, steps_per_epoch: int | None) -> None:
    # 50 rows in batches of 3 are 17 steps.
    stage = StageConfig(tasks=("qqp",), epochs=4, steps_per_epoch=steps_per_epoch)
    config = config_of(stage, **{"data.bucket_by_length": is_bucketed, "data.bucket_batches": 4})
    for epoch in range(4):
        steps = epoch_steps(config, 0, epoch, lengths_of(qqp=50))
        assert len(steps) == 17
        assert Counter(rows_of(steps, "qqp")) == Counter(range(50))


def test_every_task_of_a_round_robin_is_seen_once_and_the_smaller_ones_of_a_sampled_one() -> None:
    lengths = lengths_of(sst=21, qqp=80, sts=33)
    for order in ("batch_round_robin", "sampled_round_robin"):
        stage = StageConfig(tasks=("sst", "qqp", "sts"), order=order)
        steps = epoch_steps(config_of(stage), 0, 2, lengths)
        whole = ("sst", "sts") if order == "sampled_round_robin" else ("sst", "qqp", "sts")
        for task in whole:
            assert Counter(rows_of(steps, task)) == Counter(range(len(lengths[task])))
    drawn = rows_of(steps, "qqp")
    assert len(drawn) == len(set(drawn))
    assert Counter(tasks_of(steps)) == {("sst",): 11, ("qqp",): 11, ("sts",): 9}


@pytest.mark.parametrize("is_bucketed", [True, False])
def test_the_rows_that_are_drawn_from_the_largest_task_differ_by_epoch_and_leave_none_out(is_bucketed: bool) -> None:
    lengths = lengths_of(sst=10, qqp=44)  # 5 rounds, of the 15 batches of QQP
    stage = StageConfig(tasks=("sst", "qqp"), order="sampled_round_robin", epochs=300)
    config = config_of(stage, **{"data.bucket_by_length": is_bucketed})
    epochs = [rows_of(epoch_steps(config, 0, epoch, lengths), "qqp") for epoch in range(300)]
    assert len({frozenset(rows) for rows in epochs}) > 270
    seen = Counter(row for rows in epochs for row in rows)
    # Each row is drawn with probability 1/3 per epoch: 100 times with a standard deviation of 8.
    assert all(60 < seen[row] < 140 for row in range(44))


@pytest.mark.parametrize("order", ["batch_round_robin", "sampled_round_robin"])
@pytest.mark.parametrize("sum_losses", [False, True])
@pytest.mark.parametrize("steps_per_epoch", [1, 4, 9, 10, 11, 37])
def test_epochs_of_any_length_are_slices_of_one_stream(order: Order, sum_losses: bool, steps_per_epoch: int) -> None:
    lengths = lengths_of(sst=8, qqp=20, sts=11)
    tasks = ("sst", "qqp", "sts")
    whole = config_of(StageConfig(tasks=tasks, order=order, sum_losses=sum_losses, epochs=20))
    stream = [step for epoch in range(20) for step in plain(epoch_steps(whole, 0, epoch, lengths))]
    cut = config_of(
        StageConfig(tasks=tasks, order=order, sum_losses=sum_losses, epochs=20, steps_per_epoch=steps_per_epoch)
    )
    for epoch in range(min(20, len(stream) // steps_per_epoch)):
        part = plain(epoch_steps(cut, 0, epoch, lengths))
        assert part == stream[epoch * steps_per_epoch : (epoch + 1) * steps_per_epoch]
        assert len(part) == steps_per_epoch


def padding(batches: list[np.ndarray], lengths: np.ndarray) -> int:
    """Tokens of padding when each batch is padded to its own longest row."""
    return sum(int(lengths[batch].max()) * len(batch) - int(lengths[batch].sum()) for batch in batches)


def test_bucketed_batches_hold_far_less_padding() -> None:
    lengths = lengths_of(sst=2000)["sst"]
    amounts = [
        padding(pass_batches(lengths, 16, DataConfig(bucket_by_length=is_bucketed), np.random.default_rng(1)), lengths)
        for is_bucketed in (True, False)
    ]
    assert amounts[0] < 0.15 * amounts[1]


def test_bucketed_batches_come_neither_in_order_of_length_nor_twice_alike() -> None:
    lengths = lengths_of(sst=1600)["sst"]
    first, second = (pass_batches(lengths, 16, DataConfig(), np.random.default_rng(seed)) for seed in (1, 2))
    means = [lengths[batch].mean() for batch in first]
    assert abs(np.corrcoef(means, np.arange(len(means)))[0, 1]) < 0.3
    assert not {frozenset(batch.tolist()) for batch in first} & {frozenset(batch.tolist()) for batch in second}


def test_a_bucket_of_one_batch_is_no_bucket() -> None:
    lengths = lengths_of(sst=320)["sst"]
    data = DataConfig(bucket_batches=1)
    bucketed = pass_batches(lengths, 16, data, np.random.default_rng(3))
    free = pass_batches(lengths, 16, DataConfig(bucket_by_length=False), np.random.default_rng(3))
    assert {frozenset(batch.tolist()) for batch in bucketed} == {frozenset(batch.tolist()) for batch in free}


def cut(num_batches: int, bucket_batches: int, seed: int = 3) -> list[list[int]]:
    """A pass of so many batches of 4 rows, the last one short, with buckets of so many batches asked for."""
    data = DataConfig(bucket_batches=bucket_batches)
    lengths = lengths_of(sst=4 * num_batches - 1)["sst"]
    return [batch.tolist() for batch in pass_batches(lengths, 4, data, np.random.default_rng(seed))]


@pytest.mark.parametrize(
    ("num_batches", "most"), [(1, 1), (8, 1), (15, 1), (16, 2), (23, 2), (24, 3), (399, 49), (400, 50), (800, 50)]
)
def test_a_bucket_is_as_large_as_asked_for_but_no_more_than_an_eighth_of_a_pass(num_batches: int, most: int) -> None:
    assert cut(num_batches, 50) == cut(num_batches, most)
    if most > 1:
        assert cut(num_batches, most) != cut(num_batches, most - 1)


def test_rows_of_a_small_task_meet_others_in_the_next_pass() -> None:
    # In one bucket of all 20 batches the same rows would meet pass after pass: about a third of the pairs.
    passes = [
        {pair for batch in cut(20, 50, seed) for pair in itertools.combinations(sorted(batch), 2)} for seed in (3, 4)
    ]
    assert len(passes[0] & passes[1]) < 0.1 * len(passes[0])


def test_the_shuffle_follows_seed_replicate_stage_task_and_pass_and_nothing_else() -> None:
    lengths = lengths_of(sst=40, qqp=40, sts=40)
    both = (StageConfig(tasks=("sst", "qqp")), StageConfig(tasks=("sst", "qqp", "sts")))
    config = config_of(*both, **{f"tasks.{task}.batch_size": 4 for task in ("sst", "qqp", "sts")})

    def rows(changed: TrialConfig, stage: int, task: str, number: int) -> list[int]:
        return [int(row) for batch in shuffled(changed, stage, task, number, lengths["sst"]) for row in batch]

    base = rows(config, 0, "sst", 0)
    others = [
        rows(config.override({"seed": 1}), 0, "sst", 0),
        rows(config.override({"replicate": 1}), 0, "sst", 0),
        rows(config, 1, "sst", 0),
        rows(config, 0, "qqp", 0),
        rows(config, 0, "sst", 1),
    ]
    assert len({tuple(other) for other in (base, *others)}) == 6
    np.random.seed(8)
    inert = {"tasks.qqp.batch_size": 9, "optimizer.learning_rate": 1e-3, "stages.0.epochs": 5}
    smart = {"smart.weight": 1, "smart.tasks": "sst"}
    assert rows(config.override({**inert, **smart}), 0, "sst", 0) == base
    assert rows_of(epoch_steps(config, 0, 0, lengths), "sst") == base
