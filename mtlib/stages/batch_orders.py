"""Orders: from a stage to its stream of optimizer steps, each naming sets and which of their batches, but no rows yet.

A set is a task's own train data or an extra data set of the stage. Its batches form one endless stream: pass after
pass, each over all its rows, reshuffled. An order says whose next batch each step takes. All follows from the
configuration, the numbers of rows and the epoch alone, so there is no sampler state to save.
"""

from collections.abc import Mapping

import numpy as np

from mtlib.config.training import RANDOM_ORDERS, StageConfig
from mtlib.config.trial import TrialConfig
from mtlib.runtime.seeds import numpy_stream

Draw = tuple[str, int]
"""A set, and which batch of its stream of passes over the stage, from 0."""

EXPONENTS = {"uniform": 0.0, "proportional": 1.0, "square_root": 0.5}
"""alpha of the random orders whose probabilities are the same in every epoch."""


def stage_sets(stage: StageConfig) -> tuple[str, ...]:
    """The sets of a stage, in their order: its tasks, then its extra data."""
    return (*stage.tasks, *stage.extra_data)


def batches_per_pass(config: TrialConfig, stage: StageConfig, num_rows: Mapping[str, int]) -> dict[str, int]:
    """Batches in one pass over each set of a stage; the last one may be short.

    Args:
        config: the trial's configuration.
        stage: one of its stages.
        num_rows: train rows, augmentation included, by set.
    """
    return {name: -(-num_rows[name] // config.batch_size_of(name)) for name in stage_sets(stage)}


def steps_per_epoch(config: TrialConfig, stage: StageConfig, num_rows: Mapping[str, int]) -> tuple[int, ...]:
    """Optimizer steps of each epoch of a stage; they differ only where each epoch is one set.

    Args:
        config: the trial's configuration.
        stage: one of its stages.
        num_rows: train rows, augmentation included, by set.
    """
    if stage.steps_per_epoch is not None:
        return (stage.steps_per_epoch,) * stage.epochs
    counts = batches_per_pass(config, stage, num_rows)
    if stage.order == "epoch_round_robin":
        return tuple(counts[set_of_epoch(stage, epoch)] for epoch in range(stage.epochs))
    return (steps_per_pass(stage, batches_used(stage, counts, num_rows)),) * stage.epochs


def epoch_draws(
    config: TrialConfig, stage_index: int, epoch: int, num_rows: Mapping[str, int], own_rows: Mapping[str, int]
) -> list[tuple[Draw, ...]]:
    """The steps of one epoch of a stage.

    Args:
        config: the trial's configuration.
        stage_index: which stage, from 0.
        epoch: which epoch of that stage, from 0.
        num_rows: train rows, augmentation included, by set: what a pass covers.
        own_rows: train rows without augmentation, by set: what probabilities count.

    Returns:
        For each step its draws: one, or those of a round where losses are summed.
    """
    stage = config.stages[stage_index]
    counts = batches_per_pass(config, stage, num_rows)
    length = steps_per_epoch(config, stage, num_rows)[epoch]
    if stage.order in RANDOM_ORDERS:
        return random_draws(config, stage_index, epoch, length, own_rows)
    if stage.order == "epoch_round_robin":
        first = epoch // len(stage_sets(stage)) * length
        return [((set_of_epoch(stage, epoch), position),) for position in range(first, first + length)]
    used = batches_used(stage, counts, num_rows)
    pass_length = steps_per_pass(stage, used)
    first, last = epoch * length, (epoch + 1) * length
    numbers = range(first // pass_length, -(-last // pass_length))
    steps = [step for number in numbers for step in pass_draws(stage, counts, used, number)]
    skipped = first % pass_length
    return steps[skipped : skipped + length]


def set_of_epoch(stage: StageConfig, epoch: int) -> str:
    """The one set of an epoch of `epoch_round_robin`."""
    sets = stage_sets(stage)
    return sets[epoch % len(sets)]


def batches_used(stage: StageConfig, counts: Mapping[str, int], num_rows: Mapping[str, int]) -> dict[str, int]:
    """How many batches of each set one pass of the stage's order uses.

    Args:
        stage: the order and its sets.
        counts: batches in one pass over each set; the smallest and the largest set are so by batches.
        num_rows: rows of each set; the set that `sampled_round_robin` draws from is the largest by rows.
    """
    if stage.order == "smallest_round_robin":
        return dict.fromkeys(counts, min(counts.values()))
    if stage.order == "max_size_cycle":
        return dict.fromkeys(counts, max(counts.values()))
    used = dict(counts)
    if stage.order == "sampled_round_robin" and len(used) > 1:
        largest = max(used, key=lambda name: num_rows[name])
        rounds = max(count for name, count in used.items() if name != largest)
        used[largest] = min(rounds, used[largest])
    return used


def steps_per_pass(stage: StageConfig, used: Mapping[str, int]) -> int:
    """Optimizer steps of one pass of an order: a step per batch, or per round where losses are summed."""
    return max(used.values()) if stage.sum_losses else sum(used.values())


def pass_draws(
    stage: StageConfig, counts: Mapping[str, int], used: Mapping[str, int], number: int
) -> list[tuple[Draw, ...]]:
    """Pass `number`, from 0, of an order whose steps are not random.

    Each set goes on where the pass before left it, so that every set comes to all its rows, equally often: in
    `smallest_round_robin` the larger ones over several passes of the order; in `max_size_cycle` the next pass of the
    order first ends what a smaller set has begun. The papers do not say (MP 4.1, BB 3.4). Only the set that
    `sampled_round_robin` draws from is reshuffled for each pass, so that its batches are a draw from all its rows.

    Args:
        stage: the order and its sets.
        counts: batches in one pass over each set.
        used: batches of each set that a pass of the order uses.
        number: which pass of the order.
    """
    strides = counts if stage.order == "sampled_round_robin" else used
    batches = {name: [(name, number * strides[name] + turn) for turn in range(used[name])] for name in used}
    if stage.order == "sequential":
        return [(draw,) for draws in batches.values() for draw in draws]
    rounds = [
        tuple(draws[turn] for draws in batches.values() if turn < len(draws)) for turn in range(max(used.values()))
    ]
    return rounds if stage.sum_losses else [(draw,) for draws in rounds for draw in draws]


def random_draws(
    config: TrialConfig, stage_index: int, epoch: int, num_steps: int, own_rows: Mapping[str, int]
) -> list[tuple[Draw, ...]]:
    """An epoch of a random order; each set goes on behind its batches of the epochs before, which are drawn again.

    Args:
        config: the trial's configuration.
        stage_index: which stage, from 0.
        epoch: which epoch of that stage, from 0.
        num_steps: optimizer steps of each epoch.
        own_rows: train rows without augmentation, by set.
    """
    sets = stage_sets(config.stages[stage_index])
    positions = np.zeros(len(sets), dtype=np.int64)
    for earlier in range(epoch):
        positions += np.bincount(drawn_sets(config, stage_index, earlier, num_steps, own_rows), minlength=len(sets))
    steps: list[tuple[Draw, ...]] = []
    for index in drawn_sets(config, stage_index, epoch, num_steps, own_rows):
        steps.append(((sets[index], int(positions[index])),))
        positions[index] += 1
    return steps


def drawn_sets(
    config: TrialConfig, stage_index: int, epoch: int, num_steps: int, own_rows: Mapping[str, int]
) -> np.ndarray:
    """The set of each step of an epoch of a random order, as (num_steps,) indices into the stage's sets."""
    probs = set_probs(config, config.stages[stage_index], epoch, own_rows)
    stream = numpy_stream(config.seed, config.replicate, "draw", stage_index, epoch)
    drawn: np.ndarray = stream.choice(len(probs), size=num_steps, p=probs)
    return drawn


def set_probs(config: TrialConfig, stage: StageConfig, epoch: int, own_rows: Mapping[str, int]) -> np.ndarray:
    """The probability of each set in an epoch of a random order: p_i = f_i N_i^alpha / sum_j f_j N_j^alpha.

    Args:
        config: the trial's configuration, with each set's factor f_i.
        stage: the order and its sets.
        epoch: which epoch of the stage, from 0.
        own_rows: N_i, train rows without augmentation, by set.

    Returns:
        (sets,) in the order of `stage_sets`.

    Source:
        Stickland and Murray 2019; TU 4.5, where N counts real rows only; MP 5.3 for the factors.
    """
    factors = [config.settings_of(name).probability_factor for name in stage_sets(stage)]
    rows = [float(own_rows[name]) for name in stage_sets(stage)]
    weights = np.array(factors) * np.array(rows) ** exponent(stage, epoch)
    probs: np.ndarray = weights / weights.sum()
    return probs


def exponent(stage: StageConfig, epoch: int) -> float:
    """alpha of a random order: 1 - annealing (e - 1) / (E - 1) where annealed, e = epoch + 1 of E; 1 where E = 1."""
    if stage.order == "annealed":
        return 1 - stage.annealing * epoch / max(stage.epochs - 1, 1)
    return EXPONENTS[stage.order]
