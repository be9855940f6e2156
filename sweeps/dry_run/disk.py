"""How much disk a sweep is expected to leave, to need while it runs, and can need at most."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mtlib.checkpoints.state import STATES_KEPT, WEIGHTS_KEPT_BYTES, estimate_bytes
from mtlib.config.trial import TrialConfig
from mtlib.stages.keys import Cut, asks_for_best
from mtlib.stages.plan import first_scored_epoch, num_epochs, tasks_active_by
from mtlib.tasks import TASKS
from sweeps.dry_run.model_size import EncoderSize, measure_model
from sweeps.dry_run.stage_tree import Segment, distinct
from sweeps.setup.inputs import SweepInputs

BYTES_PER_PREDICTION = 20
"""Of an example's id and label in a compressed table; four bytes a logit come on top."""
BYTES_PER_TABLE = 2_000
"""Of one epoch's table of predictions beside its rows."""
BYTES_PER_EPOCH = 500
"""Of an epoch's points in curves and their copy."""
BYTES_PER_TRIAL = 20_000
"""Of a trial's small files, each of which takes a block of the disk, and of its row in the records."""


@dataclass(frozen=True, kw_only=True)
class DiskSettings:
    """What of a sweep is kept, and how much of it runs at a time."""

    replicates: int
    most_bytes: int | None
    """Bound on kept stages; None: no bound."""
    num_models: int
    """Trials that keep their best weights, for each name of a score."""
    at_a_time: int
    """Trials that run at a time."""


@dataclass(frozen=True, kw_only=True)
class DiskEstimate:
    """Bytes that a sweep needs; None where the encoder's size is not known."""

    records: int
    """For predictions and curves, at the end."""
    weights: int | None
    """For best weights, at the end, whoever keeps them; as expected of epochs that are equally likely to be best."""
    stages: int | None
    """For what kept stages hold beside them, at the end."""
    running: int | None
    """For the states of the trials that run at a time, as far as the store does not hold them already."""
    most: int | None
    """For everything while the sweep runs, if every name of a score has its best epoch for itself."""

    @property
    def end(self) -> int:
        """What is expected to be there at the end."""
        return self.records + (self.weights or 0) + (self.stages or 0)

    @property
    def peak(self) -> int:
        """What is expected to be needed while the sweep runs: states, or tables of predictions beside their parts."""
        return self.end + max(self.running or 0, self.records)


def estimate_disk(
    paths: Sequence[Sequence[Segment]], inputs: SweepInputs, encoder: EncoderSize | None, keeping: DiskSettings
) -> DiskEstimate:
    """Estimates what the sweep's folder and its stages in the store will hold, what is linked to counted once.

    Where the store has no room for all stages, those that only a longer trial could go on from are the ones that go.
    What scheduler or failures save, and what other sweeps have left in the store, is not counted.

    Args:
        paths: by configuration, what it comes through.
        inputs: how many rows each task has.
        encoder: the size of the encoder, None if not known.
        keeping: what is kept.
    """
    copies, lasts = keeping.replicates, [path[-1] for path in paths]
    records = copies * sum(record_bytes(last.config, inputs) for last in lasts)
    if encoder is None:
        return DiskEstimate(records=records, weights=None, stages=None, running=None, most=None)
    segments, share = distinct(paths), min(1.0, keeping.num_models / (copies * len(paths)))
    kept = share_kept(segments, inputs, encoder, keeping)
    weights = copies * sum(held_weights(segment, encoder, kept[id(segment)], share) for segment in segments)
    stages = copies * sum(kept[id(segment)] * entry_bytes(segment, inputs, encoder) for segment in segments)
    state = max(state_bytes(segment.config, segment.cut.stage, encoder) for segment in segments)
    # One state more than are kept is there while it is written; the last one becomes that which the store keeps.
    states, num_linked = STATES_KEPT + 1, sum(kept[id(last)] for last in lasts) / len(lasts)
    running = round(keeping.at_a_time * (states - num_linked) * state)
    most = most_weights(lasts, encoder, keeping) + most_stages(segments, inputs, encoder, keeping)
    peak = records + most + max(keeping.at_a_time * states * state, records)
    return DiskEstimate(records=records, weights=round(weights), stages=round(stages), running=running, most=peak)


def share_kept(
    segments: Sequence[Segment], inputs: SweepInputs, encoder: EncoderSize, keeping: DiskSettings
) -> dict[int, float]:
    """By `id`, how many of each segment's replicates the store has room for, from 0 to 1; spare ones come last."""
    left = math.inf if keeping.most_bytes is None else keeping.most_bytes
    shares = {}
    for segment in sorted(segments, key=lambda segment: segment.is_last):
        size = entry_bytes(segment, inputs, encoder) + sum(expected_weights(segment.config, segment.cut, 1, encoder))
        num_fitting = min(keeping.replicates, left // size) if segment.is_kept else 0
        left -= num_fitting * size
        shares[id(segment)] = num_fitting / keeping.replicates
    return shares


def held_weights(segment: Segment, encoder: EncoderSize, kept: float, share: float) -> float:
    """Expected bytes of best weights among a segment's epochs: those best when it ended, where that is kept; else
    those best when the trial ended, for the share of trials that keep them."""
    config, cut = segment.config, segment.cut
    first, last = segment.first_epoch - 1, segment.cut.total_epochs
    at_end = expected_weights(config, None, share, encoder)[first:last]
    return kept * sum(expected_weights(config, cut, 1, encoder)[first:last]) + (1 - kept) * sum(at_end)


def expected_weights(config: TrialConfig, cut: Cut | None, share: float, encoder: EncoderSize) -> list[float]:
    """By epoch, expected bytes of its weights among the best ones at a cut.

    An epoch's are there unless it is best for no name: probability prod_names (1 - share / epochs of the name), where
    each of a name's epochs so far, from that in which its task becomes active, is equally likely to be best.

    Args:
        config: the trial's configuration.
        cut: the cut; None for the trial's end.
        share: probability that a name's best weights are kept at all.
        encoder: the size of the encoder.
    """
    total = num_epochs(config) if cut is None else cut.total_epochs
    found: list[float] = []
    for index, stage in enumerate(config.stages):
        size = WEIGHTS_KEPT_BYTES * measure_model(config, tasks_active_by(config, index), encoder).kept
        for _ in range(min(stage.epochs, total - len(found))):
            firsts = [first for first in first_epoch_by_score(config) if first <= len(found) + 1]
            found.append(size * (1 - math.prod(1 - share / (total - first + 1) for first in firsts)))
    return found


def first_epoch_by_score(config: TrialConfig) -> list[int]:
    """By name of a score, the first epoch that has it, 1-based over all stages."""
    firsts, epoch = {"overall": first_scored_epoch(config)}, 1
    for index, stage in enumerate(config.stages):
        firsts = {**dict.fromkeys(tasks_active_by(config, index), epoch), **firsts}
        epoch += stage.epochs
    return list(firsts.values())


def entry_bytes(segment: Segment, inputs: SweepInputs, encoder: EncoderSize) -> int:
    """Bytes of a segment's end in the store, beside best weights."""
    predictions = prediction_bytes(segment.config, inputs, segment.cut.total_epochs)
    return state_bytes(segment.config, segment.cut.stage, encoder) + predictions + BYTES_PER_TRIAL


def state_bytes(config: TrialConfig, stage: int, encoder: EncoderSize) -> int:
    """Bytes of a state in a stage: weights, AdamW's moments, the mean teacher's weights, those of the stage's best."""
    size = measure_model(config, tasks_active_by(config, stage), encoder)
    num_copies = int(config.proximal.weight > 0) + int(asks_for_best(config, stage))
    return estimate_bytes(size.kept, num_copies, size.kept - size.trained)[1]


def most_weights(lasts: Sequence[Segment], encoder: EncoderSize, keeping: DiskSettings) -> int:
    """Most bytes of best weights that trials keep, those of running ones among them."""
    found = [most_best(last, encoder) for last in lasts]
    num_ended = keeping.num_models * max(len(first_epoch_by_score(last.config)) for last in lasts)
    return sum(sorted(found * keeping.replicates)[-(num_ended + keeping.at_a_time) :])


def most_best(segment: Segment, encoder: EncoderSize) -> int:
    """Most bytes of best weights up to a segment's end: each name's own epoch."""
    tasks = tasks_active_by(segment.config, segment.cut.stage)
    num_best = min(segment.cut.total_epochs, len(first_epoch_by_score(segment.config)))
    return num_best * WEIGHTS_KEPT_BYTES * measure_model(segment.config, tasks, encoder).kept


def most_stages(segments: Sequence[Segment], inputs: SweepInputs, encoder: EncoderSize, keeping: DiskSettings) -> int:
    """Most bytes of kept stages, best weights that trials keep too among them."""
    kept = [segment for segment in segments if segment.is_kept]
    sizes = (entry_bytes(segment, inputs, encoder) + most_best(segment, encoder) for segment in kept)
    total = keeping.replicates * sum(sizes)
    return total if keeping.most_bytes is None else min(keeping.most_bytes, total)


def record_bytes(config: TrialConfig, inputs: SweepInputs) -> int:
    """Bytes of one trial's records."""
    epochs = num_epochs(config)
    return prediction_bytes(config, inputs, epochs) + epochs * BYTES_PER_EPOCH + BYTES_PER_TRIAL


def prediction_bytes(config: TrialConfig, inputs: SweepInputs, epochs: int) -> int:
    """Bytes of a trial's predictions in its first epochs: dev and scored train rows of each task since it is active."""
    total, num_rows = 0, inputs.rows_of(config)
    for index, stage in enumerate(config.stages):
        num_own = min(stage.epochs, epochs)
        epochs -= num_own
        for task in tasks_active_by(config, index):
            scored = min(config.tasks[task].scored_train_rows, num_rows[task, "train"])
            rows, tables = num_rows[task, "dev"] + scored, 1 + (scored > 0)
            per_row = BYTES_PER_PREDICTION + 4 * TASKS[task].num_logits
            total += num_own * (rows * per_row + tables * BYTES_PER_TABLE)
    return total


def describe_disk(disk: DiskEstimate, free: int, at_a_time: int) -> list[str]:
    """What the sweep will leave, what it will need while it runs, and a warning if that may be more than is free."""
    records = f"predictions and curves {in_units(disk.records)}"
    if disk.weights is None or disk.stages is None or disk.most is None:
        return [f"Disk: {records}; the encoder is not on this machine yet, so checkpoints are not counted."]
    parts = f"best weights {in_units(disk.weights)}, kept stages {in_units(disk.stages)}, {records}"
    running = "a trial runs" if at_a_time == 1 else f"{at_a_time} trials run"
    need = f"about {in_units(disk.peak)}, at most {in_units(disk.most)}; {in_units(free)} free"
    warning = "Warning: the sweep may need more disk than is free; choose another --storage, or fewer trials."
    return [
        f"Disk: about {in_units(disk.end)} at the end: {parts}.",
        f"Disk while {running}: {need}.",
        *([warning] if disk.most > free else []),
    ]


def in_units(num_bytes: int) -> str:
    """`1.5 GB` and the like."""
    size, units = float(num_bytes), ["TB", "GB", "MB", "kB", "B"]
    while size >= 999.5 and len(units) > 1:
        size, _ = size / 1000, units.pop()
    return f"{size:.3g} {units[-1]}"
