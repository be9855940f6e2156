"""The orders in which batches come within a stage: the table `BATCH_ORDERS`, an entry and a function each.

A set is a task's own train data or an extra data set of the stage. An order's function gives rounds: for each, the sets
(by position) that give their next batch. Its rounds for the numbers 0, 1, 2, ... are concatenated and split
into epochs by `mtlib.stages.draws`, which also counts each set's batches.

Sources: BB is BERT and Beyond, TT Triple Threat, TU Tuning Up BERT, MP My PAL BERT.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from mtlib.runtime.errors import require

Rounds = list[tuple[int, ...]]
"""Positions of sets, a tuple per round."""


@dataclass(frozen=True, kw_only=True)
class StageSets:
    """The facts of a stage that an order may use. Sequences have an entry for each set, tasks before extra data."""

    batches: Sequence[int]
    """Batches in one pass over a set."""
    rows: Sequence[int]
    """Train rows, augmentation included."""
    own_rows: Sequence[int]
    """Train rows without augmentation. The number of rounds must not depend on them."""
    probability_factors: Sequence[float]
    """As configured."""
    num_epochs: int
    """Epochs of the stage."""
    steps_per_epoch: int | None
    """As configured, for orders that give one epoch for each number, or need the stage's length."""
    sums_rounds: bool
    """Whether a step is a round, or else a batch."""
    stream: Callable[[int], np.random.Generator]
    """The source of random draws for a number."""


@dataclass(frozen=True, kw_only=True)
class BatchOrder:
    """Everything about one order."""

    title: str
    """Name for people, as in a model card."""
    description: str
    """What it does and its source, for the page of the configuration."""
    function: Callable[..., Rounds]
    """From `StageSets`, a number from 0 and the order's settings by name to the rounds of that pass. An order that
    depends on the epoch, or divides its steps, gives one epoch of the stage for each number, `steps_per_epoch` rounds
    where that is set; one that divides the stage's steps, that part of the stage's rounds."""
    settings: type[Any] | None = None
    """Dataclass whose fields become fields of every stage. They are inert where another order is chosen."""
    has_rounds: bool = False
    """Whether rounds may hold several sets, so that `sum_losses` can sum a round into one step."""
    is_random: bool = False
    """Whether it draws sets with their `probability_factor`."""
    restarts_sets: bool = False
    """Whether each pass of the order starts every set from the beginning, reshuffled; otherwise a set continues where
    the previous pass left it."""
    is_one_set_per_epoch: bool = False
    """Whether a stage needs as many epochs as sets, or one of them is never trained."""
    has_all_sets_per_epoch: bool = False
    """Whether each epoch has a step of each set, so that `steps_per_epoch` must be at least their number."""
    has_own_length: bool = False
    """Whether the demonstration leaves its epochs whole: they end where the order says, or are short already."""
    length_counts: Callable[[Any], bool] = lambda _stage: False
    """From a stage's settings to whether the first epochs depend on how many epochs the stage has."""


@dataclass(frozen=True, kw_only=True)
class AnnealedSettings:
    """Settings of `annealed`."""

    annealing: float = 0.8
    """How far the exponent of `annealed` falls, 0 to 1. Source: Stickland and Murray 2019."""

    def __post_init__(self) -> None:
        require(0 <= self.annealing <= 1, "annealing must be from 0 to 1", self.annealing)


@dataclass(frozen=True, kw_only=True)
class UnimaxSettings:
    """Settings of `unimax`."""

    max_passes: int = 2
    """Most passes of `unimax` over a set, at least 1. A stage longer than so many passes over all sets repeats all of
    them equally often. Source: Chung et al. 2023 for pretraining; Devlin et al. 2019 fine-tune for 2 to 4 passes. In a
    third pass dev losses rise (docs/measurements/training_settings.md)."""

    def __post_init__(self) -> None:
        require(self.max_passes >= 1, "max_passes must be at least 1", self.max_passes)


def sampled_counts(sets: StageSets) -> list[int]:
    """Returns all batches of each set but the largest, and of the largest as many as of the second largest; the largest
    set is that of the most rows."""
    largest = int(np.argmax(sets.rows))
    counts = list(sets.batches)
    others = counts[:largest] + counts[largest + 1 :]
    counts[largest] = min(counts[largest], max(others, default=counts[largest]))
    return counts


def rounds_of(counts: Sequence[int]) -> Rounds:
    """Rounds of one batch per set, where each set is in as many rounds as its count."""
    return [tuple(position for position, count in enumerate(counts) if turn < count) for turn in range(max(counts))]


def sequential(sets: StageSets, _number: int) -> Rounds:
    """Returns one epoch: all batches of the first set, then all of the second, and so on.

    Of `steps_per_epoch` steps each set has a share in proportion to its batches, so that no set is left out.
    """
    steps = sets.steps_per_epoch
    counts = sets.batches if steps is None else divide_steps(steps, sets.batches)
    return [(position,) for position, count in enumerate(counts) for _ in range(count)]


def divide_steps(steps: int, batches: Sequence[int]) -> list[int]:
    """Steps in proportion to numbers of batches, at least one for each of them; `steps` is at least their number."""
    bounds = [0]
    for num_after, batches_so_far in zip(range(len(batches) - 1, -1, -1), accumulate(batches), strict=True):
        bound = steps * batches_so_far // sum(batches)
        bounds.append(min(max(bound, bounds[-1] + 1), steps - num_after))
    return [end - start for start, end in pairwise(bounds)]


def epoch_round_robin(sets: StageSets, number: int) -> Rounds:
    """Returns one epoch: the batches of a single set."""
    position = number % len(sets.batches)
    return [(position,)] * (sets.steps_per_epoch or sets.batches[position])


def annealed(sets: StageSets, number: int, annealing: float) -> Rounds:
    """Sets with a probability proportional to N^a, a = 1 - annealing (e - 1) / (E - 1) in epoch e of E; 1 where E = 1.

    Source: Stickland and Murray 2019.
    """
    return drawn_rounds(sets, number, 1 - annealing * number / max(sets.num_epochs - 1, 1))


def drawn_rounds(sets: StageSets, number: int, exponent: float) -> Rounds:
    """Returns one epoch of independent draws of a set each,
    as many as a pass over all sets has batches unless configured.

    The probability of a set is p_i = f_i N_i^exponent / sum_j f_j N_j^exponent, for N_i rows and a factor f_i.

    Source: Stickland and Murray 2019; Tuning Up BERT 4.5, where N counts real rows only; My PAL BERT 5.3 for the
    factors.
    """
    length = sets.steps_per_epoch or sum(sets.batches)
    weights = np.array(sets.probability_factors) * np.array(sets.own_rows, dtype=np.float64) ** exponent
    positions = sets.stream(number).choice(len(weights), size=length, p=weights / weights.sum())
    return [(int(position),) for position in positions]


def unimax(sets: StageSets, number: int, max_passes: int) -> Rounds:
    """One epoch of a stage in which all sets have the same number of batches, but none has too many passes.

    The set with the most batches is in every round, each other in rounds that are spread evenly over the stage: sets
    with the same number of batches take turns.

    Source: Chung et al. 2023, who draw the sets at random in these proportions.
    """
    counts = stage_counts(sets, max_passes)
    num_rounds, epoch = max(counts), number % sets.num_epochs
    first, end = (num_rounds * turn // sets.num_epochs for turn in (epoch, epoch + 1))
    turns = np.arange(first, end + 1)
    given = (2 * np.outer(turns, counts) + num_rounds - 1) // (2 * num_rounds)  # (rounds + 1, sets), before each round
    return [tuple(np.flatnonzero(row).tolist()) for row in np.diff(given, axis=0)]


def stage_counts(sets: StageSets, max_passes: int) -> list[int]:
    """Batches of each set in a stage of `unimax`,
    which has as many batches as one of `sampled_round_robin` unless its steps are configured."""
    if sets.steps_per_epoch is None:
        return unimax_counts(sets.batches, sum(sampled_counts(sets)) * sets.num_epochs, max_passes)
    divide = unimax_counts_in_rounds if sets.sums_rounds else unimax_counts
    return divide(sets.batches, sets.steps_per_epoch * sets.num_epochs, max_passes)


def unimax_counts(batches: Sequence[int], total: int, max_passes: int) -> list[int]:
    """Batches of each set in a stage: equally many, but at most `max_passes` passes; larger sets share what is left.

    Where all sets would have more passes, each has the same number of them.

    Args:
        batches: in one pass over each set.
        total: batches of the stage.
        max_passes: at least 1.

    Source: Chung et al. 2023, algorithm 1.
    """
    if total >= max_passes * sum(batches):
        return divide_steps(total, batches)
    counts, left = [0] * len(batches), total
    by_size = sorted(range(len(batches)), key=lambda position: batches[position])
    for num_left, position in zip(range(len(batches), 0, -1), by_size, strict=True):
        counts[position] = min(left // num_left, max_passes * batches[position])
        left -= counts[position]
    return counts


def unimax_counts_in_rounds(batches: Sequence[int], total: int, max_passes: int) -> list[int]:
    """As `unimax_counts` for a stage of `total` rounds, each with one batch of a set at most.

    The largest set is in every round; where it has more than `max_passes` passes, so have the others.
    """
    return [min(total, max(max_passes * count, total * count // max(batches))) for count in batches]


BATCH_ORDERS: dict[str, BatchOrder] = {
    "batch_round_robin": BatchOrder(
        title="batch round robin",
        description="A batch of each set in turn until each set has been seen once; a set with none left drops out "
        "(TT 3.1).",
        function=lambda sets, _number: rounds_of(sets.batches),
        has_rounds=True,
    ),
    "smallest_round_robin": BatchOrder(
        title="smallest round robin",
        description="A batch of each set in turn until the smallest set is exhausted (MP 4.1).",
        function=lambda sets, _number: rounds_of([min(sets.batches)] * len(sets.batches)),
        has_rounds=True,
        has_own_length=True,
    ),
    "sampled_round_robin": BatchOrder(
        title="sampled round robin",
        description="A batch of each set in turn until all but the largest have been seen once; the largest gives as "
        "many batches as there are rounds, drawn at random (BB 3.4).",
        function=lambda sets, _number: rounds_of(sampled_counts(sets)),
        has_rounds=True,
        restarts_sets=True,
        has_own_length=True,
    ),
    "max_size_cycle": BatchOrder(
        title="max-size cycle",
        description="A batch of each set in turn until the largest set is exhausted; the others start again, "
        "reshuffled (BB 3.4).",
        function=lambda sets, _number: rounds_of([max(sets.batches)] * len(sets.batches)),
        has_rounds=True,
    ),
    "sequential": BatchOrder(
        title="sequential",
        description="Each set once in full, one after another (MP 4.1); with `steps_per_epoch`, each for its "
        "share of the steps.",
        function=sequential,
        has_own_length=True,
        has_all_sets_per_epoch=True,
    ),
    "epoch_round_robin": BatchOrder(
        title="epoch round robin",
        description="Each epoch is one set, in turn (TT 4.1).",
        function=epoch_round_robin,
        is_one_set_per_epoch=True,
    ),
    "uniform": BatchOrder(
        title="uniform sampling",
        description="A set drawn at random for each step, all with the same probability (TU 4.5, MP 4.1).",
        function=partial(drawn_rounds, exponent=0.0),
        is_random=True,
    ),
    "proportional": BatchOrder(
        title="proportional sampling",
        description="A set drawn with a probability proportional to its number of rows N (TU 4.5, MP 4.1).",
        function=partial(drawn_rounds, exponent=1.0),
        is_random=True,
    ),
    "square_root": BatchOrder(
        title="square-root sampling",
        description="A set drawn with a probability proportional to the square root of N (TU 4.5, MP 4.1).",
        function=partial(drawn_rounds, exponent=0.5),
        is_random=True,
    ),
    "annealed": BatchOrder(
        title="annealed sampling",
        description="A set drawn with a probability proportional to N^a, where a falls from 1 in the first epoch to "
        "1 - `annealing` in the last (TU 4.5, MP 4.1).",
        function=annealed,
        settings=AnnealedSettings,
        is_random=True,
        length_counts=lambda stage: stage.annealing > 0,
    ),
    "unimax": BatchOrder(
        title="UniMax",
        description="Sets take turns, but none is seen more than `max_passes` times in the stage; larger sets take the "
        "remaining steps, spread evenly over the stage (Chung et al. 2023).",
        function=unimax,
        settings=UnimaxSettings,
        has_rounds=True,
        has_own_length=True,
        length_counts=lambda _stage: True,
    ),
}
"""By the name in a stage's `order`. A new order is one entry here and its function."""
