"""Passes, epochs and streams of batches in every order; `test_draws` tests the orders themselves."""

import itertools
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch

from mtlib.config.batch_orders import BATCH_ORDERS
from mtlib.config.data import DataConfig
from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from mtlib.data.batches import make_batch
from mtlib.data.token_cache import Corpus
from mtlib.runtime.seeds import numpy_stream
from mtlib.stages.sampler import Step, epoch_steps, pass_batches, shuffled
from tests.config_cases import FIXED_ROUND_ORDERS, RANDOM_ORDERS
from tests.method_tables import ROUND_ORDERS

Lengths = Mapping[str, np.ndarray]


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


def epochs_of(config: TrialConfig, lengths: Lengths, stage: int = 0) -> list[list[Step]]:
    """The epochs of a stage, without augmentation."""
    own_rows = {name: len(found) for name, found in lengths.items()}
    return [epoch_steps(config, stage, epoch, lengths, own_rows) for epoch in range(config.stages[stage].epochs)]


def first_epoch(config: TrialConfig, lengths: Lengths) -> list[Step]:
    return epochs_of(config.override({"stages.0.epochs": 1}), lengths)[0]


def sets_of(steps: list[Step]) -> list[tuple[str, ...]]:
    """The sets of each step."""
    return [tuple(batch.set for batch in step) for step in steps]


def rows_of(steps: list[Step], name: str) -> list[int]:
    """All rows of a set, in order."""
    return [int(row) for step in steps for batch in step for row in batch.rows if batch.set == name]


def plain(steps: list[Step]) -> list[list[tuple[str, list[int]]]]:
    """Steps as values that compare with ==."""
    return [[(batch.set, batch.rows.tolist()) for batch in step] for step in steps]


ALL_SETS: dict[str, Any] = {"tasks": ("sst", "qqp", "sts"), "extra_data": ("cfimdb", "snli")}
NUM_ROWS = {"sst": 21, "qqp": 40, "sts": 11, "cfimdb": 1, "snli": 30}
"""`cfimdb`: a single row, fewer than its batch of 8."""


def draws_whole_passes(order: str, name: str) -> bool:
    """Whether a set has whole passes: all but the one that a sampled round robin draws from."""
    return (order, name) != ("sampled_round_robin", "qqp")


@pytest.mark.parametrize("steps_per_epoch", [None, 13])
@pytest.mark.parametrize("order", BATCH_ORDERS)
def test_in_every_order_every_pass_over_a_set_holds_each_row_once(order: str, steps_per_epoch: int | None) -> None:
    stage = StageConfig(**ALL_SETS, order=order, epochs=40, steps_per_epoch=steps_per_epoch)
    stream = list(itertools.chain(*epochs_of(config_of(stage), lengths_of(**NUM_ROWS))))
    for name in filter(lambda name: draws_whole_passes(order, name), NUM_ROWS):
        rows, count = rows_of(stream, name), NUM_ROWS[name]
        passes = [rows[start : start + count] for start in range(0, len(rows) - count + 1, count)]
        assert passes
        assert all(sorted(part) == list(range(count)) for part in passes)
        if count > 20:
            assert len(set(map(tuple, passes))) == len(passes), "reshuffled for every pass"


@pytest.mark.parametrize(
    ("order", "whole"),
    [
        ("batch_round_robin", ("sst", "qqp", "sts", "cfimdb", "snli")),
        ("sequential", ("sst", "qqp", "sts", "cfimdb", "snli")),
        ("sampled_round_robin", ("sst", "sts", "cfimdb", "snli")),
        ("smallest_round_robin", ("cfimdb",)),
        ("max_size_cycle", ("qqp",)),
    ],
)
def test_an_epoch_holds_each_of_these_sets_once(order: str, whole: tuple[str, ...]) -> None:
    stage = StageConfig(**ALL_SETS, order=order, epochs=3)
    for steps in epochs_of(config_of(stage), lengths_of(**NUM_ROWS)):
        full = [name for name, count in NUM_ROWS.items() if sorted(rows_of(steps, name)) == list(range(count))]
        assert sorted(full) == sorted(whole)


def test_a_set_is_reshuffled_when_it_restarts_within_an_epoch() -> None:
    stage = StageConfig(tasks=("sst", "qqp"), order="max_size_cycle")
    steps = first_epoch(config_of(stage), lengths_of(sst=20, qqp=150))  # 10 batches, 50 rounds
    rows = rows_of(steps, "sst")
    passes = [rows[start : start + 20] for start in range(0, 100, 20)]
    assert len(rows) == 100
    assert len(set(map(tuple, passes))) == 5
    assert all(sorted(part) == list(range(20)) for part in passes)


def test_all_rows_of_larger_sets_occur_over_several_passes_of_the_smallest() -> None:
    stage = StageConfig(tasks=("sst", "qqp"), order="smallest_round_robin", epochs=5)
    epochs = epochs_of(config_of(stage), lengths_of(sst=8, qqp=60))  # 4 batches of the 20 in each
    assert all(len(rows_of(steps, "qqp")) == 12 for steps in epochs)
    assert sorted(rows_of(list(itertools.chain(*epochs)), "qqp")) == list(range(60))


def test_each_set_has_its_own_batch_size() -> None:
    steps = first_epoch(config_of(StageConfig(**ALL_SETS)), lengths_of(**dict.fromkeys(NUM_ROWS, 48)))
    sizes = {(batch.set, len(batch.rows)) for step in steps for batch in step}
    assert sizes == {("sst", 2), ("qqp", 3), ("sts", 4), ("cfimdb", 8), ("snli", 16)}


def test_a_set_smaller_than_its_batch_gives_all_its_rows_each_time() -> None:
    stage = StageConfig(tasks=("sst", "sts"), order="max_size_cycle", sum_losses=True)
    steps = first_epoch(config_of(stage), lengths_of(sst=10, sts=3))
    assert [sorted(step[1].rows) for step in steps] == [[0, 1, 2]] * 5


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


@pytest.mark.parametrize("order", RANDOM_ORDERS)
def test_a_random_order_continues_over_epochs(order: str) -> None:
    short = StageConfig(**ALL_SETS, order=order, epochs=8, steps_per_epoch=6)
    lengths = lengths_of(**NUM_ROWS)
    stream = list(itertools.chain(*epochs_of(config_of(short), lengths)))
    config = config_of(short)
    for name in ("sst", "qqp", "snli"):
        passes = [shuffled(config, 0, name, number, lengths[name]) for number in range(48)]
        expected = [row for batches in passes for batch in batches for row in batch]
        seen = rows_of(stream, name)
        assert seen == expected[: len(seen)]


def test_augmentation_occurs_in_every_pass_and_does_not_raise_the_probability() -> None:
    stage = StageConfig(tasks=("sst", "sts"), order="proportional", epochs=1, steps_per_epoch=400)
    config, lengths = config_of(stage), lengths_of(sst=200, sts=40)
    augmented, counted = (epoch_steps(config, 0, 0, lengths, {"sst": own, "sts": 40}) for own in (40, 200))
    assert 150 < Counter(sets_of(augmented))[("sst",)] < 250  # half of 400, with a standard deviation of 10
    assert 300 < Counter(sets_of(counted))[("sst",)] < 367  # 5/6 of 400, with one of 7
    assert sorted(rows_of(augmented, "sst")[:200]) == list(range(200))
    fixed = config.override({"stages.0.order": "batch_round_robin", "stages.0.steps_per_epoch": None})
    assert sorted(rows_of(epoch_steps(fixed, 0, 0, lengths, {"sst": 40, "sts": 40}), "sst")) == list(range(200))


@pytest.mark.parametrize("world_size", [1, 2, 3])
@pytest.mark.parametrize("order", [*ROUND_ORDERS, "sequential", "uniform"])
def test_all_workers_together_see_the_epoch_once(order: str, world_size: int, tiny_corpus: Corpus) -> None:
    tables = {task: tiny_corpus[task, "train"] for task in ("sst", "sts")}
    lengths = lengths_of(**{task: len(table.labels) for task, table in tables.items()})
    config = config_of(StageConfig(tasks=("sst", "sts"), order=order))
    steps = first_epoch(config, lengths)
    seen: Counter[tuple[int, str, int]] = Counter()
    for rank in range(world_size):
        for number, step in enumerate(steps):
            for part in step:
                encoding = config.tasks[part.set].encoding
                arguments: Any = {"encoding": encoding, "max_length": 32, "rank": rank, "world_size": world_size}
                batch = make_batch(tables[part.set], part.rows, **arguments)
                seen.update((number, part.set, int(row)) for row in batch.rows if not batch.is_empty)
    whole = [(number, part.set, int(row)) for number, step in enumerate(steps) for part in step for row in part.rows]
    assert seen == Counter(whole)


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
    for steps in epochs_of(config, lengths_of(qqp=50)):
        assert len(steps) == 17
        assert Counter(rows_of(steps, "qqp")) == Counter(range(50))


@pytest.mark.parametrize(("sst", "sts"), [(30, 20), (20, 30)])
def test_the_largest_task_has_the_most_rows_rather_than_batches(sst: int, sts: int) -> None:
    stage = StageConfig(tasks=("sst", "sts"), order="sampled_round_robin")
    config = config_of(stage, **{"tasks.sst.batch_size": 5, "tasks.sts.batch_size": 5})
    fewer = config.override({f"tasks.{'sst' if sst > sts else 'sts'}.batch_size": 15})  # most rows, 2 batches
    for changed, rounds in ((config, 4), (fewer, 4)):
        steps = first_epoch(changed, lengths_of(sst=sst, sts=sts))
        small = "sts" if sst > sts else "sst"
        assert sorted(rows_of(steps, small)) == list(range(20))
        assert Counter(sets_of(steps))[(small,)] == rounds


def test_a_sampled_round_robin_repeats_no_row_of_the_largest_task_in_a_pass() -> None:
    stage = StageConfig(tasks=("sst", "qqp", "sts"), order="sampled_round_robin", epochs=3)
    for steps in epochs_of(config_of(stage), lengths_of(sst=21, qqp=80, sts=33)):
        drawn = rows_of(steps, "qqp")
        assert len(drawn) == len(set(drawn))
        assert Counter(sets_of(steps)) == {("sst",): 11, ("qqp",): 11, ("sts",): 9}


@pytest.mark.parametrize("is_bucketed", [True, False])
def test_the_rows_drawn_from_the_largest_task_differ_by_epoch_and_cover_it(is_bucketed: bool) -> None:
    lengths = lengths_of(sst=10, qqp=44)  # 5 rounds, of the 15 batches of QQP
    stage = StageConfig(tasks=("sst", "qqp"), order="sampled_round_robin", epochs=150)
    config = config_of(stage, **{"data.bucket_by_length": is_bucketed})
    epochs = [rows_of(steps, "qqp") for steps in epochs_of(config, lengths)]
    assert len({frozenset(rows) for rows in epochs}) > 135
    seen = Counter(row for rows in epochs for row in rows)
    # Each row is drawn with probability 1/3 per epoch: 50 times with a standard deviation of 6.
    assert all(20 < seen[row] < 80 for row in range(44))


@pytest.mark.parametrize("order", FIXED_ROUND_ORDERS)
@pytest.mark.parametrize("steps_per_epoch", [1, 4, 9, 10, 11, 37])
def test_epochs_of_any_length_hold_the_rows_of_whole_passes(order: str, steps_per_epoch: int) -> None:
    lengths = lengths_of(sst=8, qqp=20, sts=11)
    whole = config_of(StageConfig(tasks=("sst", "qqp", "sts"), order=order, epochs=20))
    stream = plain(list(itertools.chain(*epochs_of(whole, lengths))))
    cut = epochs_of(whole.override({"stages.0.steps_per_epoch": steps_per_epoch}), lengths)
    parts = plain(list(itertools.chain(*cut)))
    assert len(parts) == 20 * steps_per_epoch
    shared = min(len(parts), len(stream))
    assert parts[:shared] == stream[:shared]


@pytest.mark.parametrize("order", BATCH_ORDERS)
def test_an_epoch_does_not_depend_on_earlier_calls(order: str) -> None:
    stage = StageConfig(**ALL_SETS, order=order, epochs=5, steps_per_epoch=9)
    config, lengths = config_of(stage), lengths_of(**NUM_ROWS)
    np.random.seed(1)
    in_turn = [plain(steps) for steps in epochs_of(config, lengths)]
    np.random.seed(2)
    backwards = [plain(epoch_steps(config, 0, epoch, lengths, NUM_ROWS)) for epoch in (4, 3, 2, 1, 0)]
    assert backwards[::-1] == in_turn


def padding(batches: list[np.ndarray], lengths: np.ndarray) -> int:
    """Tokens of padding when each batch is padded to its own longest row."""
    return sum(int(lengths[batch].max()) * len(batch) - int(lengths[batch].sum()) for batch in batches)


def test_bucketed_batches_have_far_less_padding() -> None:
    lengths = lengths_of(sst=2000)["sst"]
    amounts = [
        padding(pass_batches(lengths, 16, DataConfig(bucket_by_length=is_bucketed), np.random.default_rng(1)), lengths)
        for is_bucketed in (True, False)
    ]
    assert amounts[0] < 0.15 * amounts[1]


def test_bucketed_batches_are_neither_sorted_by_length_nor_repeated() -> None:
    lengths = lengths_of(sst=1600)["sst"]
    first, second = (pass_batches(lengths, 16, DataConfig(), np.random.default_rng(seed)) for seed in (1, 2))
    means = [lengths[batch].mean() for batch in first]
    assert abs(np.corrcoef(means, np.arange(len(means)))[0, 1]) < 0.3
    assert not {frozenset(batch.tolist()) for batch in first} & {frozenset(batch.tolist()) for batch in second}


def passes_of(lengths: np.ndarray, batch_size: int, bucket_batches: int, count: int = 1) -> list[list[np.ndarray]]:
    """`count` passes over rows of these lengths."""
    data, stream = DataConfig(bucket_batches=bucket_batches), np.random.default_rng(3)
    return [pass_batches(lengths, batch_size, data, stream) for _ in range(count)]


def share_of_mates_again(passes: list[list[np.ndarray]]) -> float:
    """Share of the pairs of rows in a batch of one pass that share a batch in the next pass."""
    pairs = [
        {pair for batch in batches for pair in itertools.combinations(sorted(batch.tolist()), 2)} for batches in passes
    ]
    again = [len(first & second) / len(first) for first, second in itertools.pairwise(pairs)]
    return float(np.mean(again))


def test_unmoved_rows_are_batched_in_order_of_length() -> None:
    lengths = lengths_of(sst=640)["sst"]
    first, second = passes_of(lengths, 16, 0, count=2)
    spans = sorted((int(lengths[batch].min()), int(lengths[batch].max())) for batch in first)
    assert all(shorter[1] <= longer[0] for shorter, longer in itertools.pairwise(spans))
    in_order = np.sort(lengths).reshape(-1, 16)
    assert padding(first, lengths) == int((in_order[:, -1:] - in_order).sum())
    assert {frozenset(batch.tolist()) for batch in first} != {frozenset(batch.tolist()) for batch in second}


@pytest.mark.parametrize("bucket_batches", [0, 1, 2, 5])
def test_rows_of_a_batch_differ_by_at_most_twice_the_move(bucket_batches: int) -> None:
    places = np.random.default_rng(0).permutation(640)  # distinct lengths: equal to their ranks
    spans = [np.ptp(places[batch]) for batches in passes_of(places, 16, bucket_batches, 20) for batch in batches]
    assert max(spans) < 2 * 16 * (bucket_batches + 1)
    assert max(spans) > 2 * 16 * bucket_batches


def test_larger_moves_give_more_varied_batches_and_more_padding() -> None:
    lengths = lengths_of(sst=640)["sst"]
    passes = [passes_of(lengths, 16, bucket_batches, 10) for bucket_batches in (0, 1, 2, 4, 8, 40)]
    amounts = [sum(padding(batches, lengths) for batches in found) for found in passes]
    again = [share_of_mates_again(found) for found in passes]
    assert amounts == sorted(amounts)
    assert again == sorted(again, reverse=True)
    assert again[-1] == pytest.approx(15 / 639, rel=0.3)  # two passes in random order


@pytest.mark.parametrize(("num_rows", "batch_size"), [(128, 16), (640, 8), (640, 16), (640, 32), (640, 64), (2560, 16)])
def test_padding_of_few_rows_is_no_more_than_that_of_the_transformers_trainer(num_rows: int, batch_size: int) -> None:
    from transformers.trainer_pt_utils import get_length_grouped_indices

    lengths = lengths_of(sst=num_rows)["sst"]
    passes = passes_of(lengths, batch_size, DataConfig().bucket_batches, 20)
    ours = np.mean([padding(batches, lengths) for batches in passes])
    amounts = []
    for seed in range(20):
        order = get_length_grouped_indices(lengths, batch_size, generator=torch.Generator().manual_seed(seed))
        amounts.append(padding(np.split(np.array(order), range(batch_size, num_rows, batch_size)), lengths))
    assert ours < 1.05 * np.mean(amounts)


def test_rows_of_a_small_task_are_mixed_in_the_next_pass() -> None:
    # In order of length, about half of the pairs would share a batch in every pass.
    lengths = lengths_of(sst=320)["sst"]
    assert share_of_mates_again(passes_of(lengths, 16, DataConfig().bucket_batches, 10)) < 0.25
    assert share_of_mates_again(passes_of(lengths, 16, 0, 10)) > 0.45


def test_the_short_batch_of_a_pass_is_of_any_length() -> None:
    places = np.random.default_rng(0).permutation(100)
    short = [batch for batches in passes_of(places, 16, 2, 200) for batch in batches if len(batch) == 4]
    assert len(short) == 200
    found = [float(places[batch].mean()) for batch in short]
    assert np.mean(found) == pytest.approx(49.5, abs=8)
    assert min(found) < 20
    assert max(found) > 80


def test_the_shuffle_depends_on_seed_replicate_stage_task_and_pass_alone() -> None:
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
    assert rows_of(first_epoch(config, lengths), "sst") == base
