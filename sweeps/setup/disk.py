"""The disk that a sweep is expected to leave and to need while it runs, and the most that it can need."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rich.filesize import decimal

from mtlib.checkpoints.state import STATES_KEPT, WEIGHTS_KEPT_BYTES
from mtlib.config.trial import TrialConfig
from mtlib.stages.keys import Cut, next_stage_starts_from_best
from mtlib.stages.plan import num_epochs, overall_epochs, scored_epochs, tasks_active_by
from sweeps.options import SweepOptions
from sweeps.setup.inputs import SweepInputs
from sweeps.setup.model_size import EncoderSize, measure_model
from sweeps.setup.stage_tree import Segment, distinct

BYTES_PER_PREDICTION = 20
"""Of an example's id and label in a compressed table, without the four bytes of each logit."""
BYTES_PER_TABLE = 2_000
"""Of one epoch's table of predictions, without its rows."""
BYTES_PER_EPOCH = 500
"""Of an epoch's points in the curves and their copy."""
BYTES_PER_TRIAL = 20_000
"""Of a trial's small files, a disk block each, and of its row in the records."""


@dataclass(frozen=True, kw_only=True)
class DiskEstimate:
    """Bytes that a sweep needs."""

    records: int
    """For predictions and curves, at the end."""
    weights: int
    """For best weights at the end, of trials and kept stages: expected, if all epochs are equally likely to be best."""
    stages: int
    """For the rest of the kept stages, at the end."""
    running: int
    """For the states of running trials that the store does not hold."""
    max_bytes: int
    """For everything while the sweep runs, if each score has another best epoch."""

    @property
    def end(self) -> int:
        """Bytes expected at the end."""
        return self.records + self.weights + self.stages

    @property
    def peak(self) -> int:
        """Bytes expected while the sweep runs, with states, or with predictions both compacted and not."""
        return self.end + max(self.running, self.records)


def estimate_disk(
    paths: Sequence[Sequence[Segment]],
    inputs: SweepInputs,
    encoder: EncoderSize,
    options: SweepOptions,
    num_concurrent: int,
) -> DiskEstimate:
    """Estimates the bytes of the sweep's folder and its stages in the store; hard links are counted once.

    Where the store is too small for all stages, those that only a longer trial could continue from are left out.
    Stopped and failed trials, and stages of other sweeps in the store, are not considered.

    `paths` are the segments of each configuration; `num_concurrent` trials run at the same time.
    """
    copies, lasts = options.replicates, [path[-1] for path in paths]
    records = copies * sum(record_bytes(last.config, inputs) for last in lasts)
    segments, share = distinct(paths), min(1.0, options.keep_models / (copies * len(paths)))
    kept = share_kept(segments, inputs, encoder, options)
    weights = copies * sum(held_weights(segment, encoder, kept[id(segment)], share) for segment in segments)
    stages = copies * sum(kept[id(segment)] * entry_bytes(segment, inputs, encoder) for segment in segments)
    state = max(state_bytes(segment.config, segment.cut.stage, encoder) for segment in segments)
    # While a state is written there is one more than are kept; the store links the last one.
    states, num_linked = STATES_KEPT + 1, sum(kept[id(last)] for last in lasts) / len(lasts)
    running = round(num_concurrent * (states - num_linked) * state)
    max_kept = max_weights(lasts, encoder, options, num_concurrent) + max_stages(segments, inputs, encoder, options)
    max_bytes = records + max_kept + max(num_concurrent * states * state, records)
    return DiskEstimate(
        records=records, weights=round(weights), stages=round(stages), running=running, max_bytes=max_bytes
    )


def share_kept(
    segments: Sequence[Segment], inputs: SweepInputs, encoder: EncoderSize, options: SweepOptions
) -> dict[int, float]:
    """By `id`, the share of each segment's replicates that the store has room for; last segments come last."""
    left: float = options.keep_bytes
    shares = {}
    for segment in sorted(segments, key=lambda segment: segment.is_last):
        size = entry_bytes(segment, inputs, encoder) + sum(expected_weights(segment.config, segment.cut, 1, encoder))
        num_fitting = min(options.replicates, left // size) if segment.is_kept else 0
        left -= num_fitting * size
        shares[id(segment)] = num_fitting / options.replicates
    return shares


def held_weights(segment: Segment, encoder: EncoderSize, kept: float, share: float) -> float:
    """Expected bytes of best weights among a segment's epochs.

    A kept segment has those that were best at its end; one that is not kept has those that were best at the trial's
    end, for the share of trials that keep them.
    """
    config, cut = segment.config, segment.cut
    first, last = segment.first_epoch - 1, segment.cut.total_epochs
    at_end = expected_weights(config, None, share, encoder)[first:last]
    return kept * sum(expected_weights(config, cut, 1, encoder)[first:last]) + (1 - kept) * sum(at_end)


def expected_weights(config: TrialConfig, cut: Cut | None, share: float, encoder: EncoderSize) -> list[float]:
    """By epoch, expected bytes of its weights among the best ones at a cut.

    The epochs so far that have a score are equally likely to be its best. So an epoch is best by no score with
    probability prod_scores (1 - share / epochs of the score), over the scores that it has.

    `cut` is None for the trial's end; `share` is the probability that the best weights by a score are kept at all.
    """
    total = num_epochs(config) if cut is None else cut.total_epochs
    found, by_score = list[float](), epochs_by_score(config)
    for index, stage in enumerate(config.stages):
        size = WEIGHTS_KEPT_BYTES * measure_model(config, tasks_active_by(config, index), encoder).kept
        for _ in range(min(stage.epochs, total - len(found))):
            had = [epochs for epochs in by_score if len(found) + 1 in epochs]
            counts = [sum(epoch <= total for epoch in epochs) for epochs in had]
            found.append(size * (1 - math.prod(1 - share / count for count in counts)))
    return found


def epochs_by_score(config: TrialConfig) -> list[tuple[int, ...]]:
    """The epochs, 1-based over all stages, that have each score."""
    scored = [(epoch, tasks_active_by(config, stage)) for epoch, stage in scored_epochs(config)]
    own = [tuple(epoch for epoch, tasks in scored if task in tasks) for task in config.active_tasks]
    return [*own, overall_epochs(config)]


def entry_bytes(segment: Segment, inputs: SweepInputs, encoder: EncoderSize) -> int:
    """Bytes of a segment's end in the store, without best weights."""
    predictions = prediction_bytes(segment.config, inputs, segment.cut.total_epochs)
    return state_bytes(segment.config, segment.cut.stage, encoder) + predictions + BYTES_PER_TRIAL


def state_bytes(config: TrialConfig, stage: int, encoder: EncoderSize) -> int:
    """Bytes of a state in a stage: weights, AdamW's moments, weights of the mean teacher, of the average that is scored
    and of the stage's best epoch."""
    size = measure_model(config, tasks_active_by(config, stage), encoder)
    is_averaged = config.optimizer.average_power is not None
    num_copies = sum((config.needs_teacher, is_averaged, next_stage_starts_from_best(config, stage)))
    return WEIGHTS_KEPT_BYTES * ((1 + num_copies) * size.kept + 2 * size.trained)


def max_weights(lasts: Sequence[Segment], encoder: EncoderSize, options: SweepOptions, num_concurrent: int) -> int:
    """Most bytes of best weights that trials keep, running ones included."""
    found = [max_best(last, encoder) for last in lasts]
    num_ended = options.keep_models * max(len(epochs_by_score(last.config)) for last in lasts)
    return sum(sorted(found * options.replicates)[-(num_ended + num_concurrent) :])


def max_best(segment: Segment, encoder: EncoderSize) -> int:
    """Most bytes of best weights up to a segment's end: another epoch for each score."""
    tasks = tasks_active_by(segment.config, segment.cut.stage)
    num_scored = sum(epoch <= segment.cut.total_epochs for epoch, _ in scored_epochs(segment.config))
    num_best = min(num_scored, len(epochs_by_score(segment.config)))
    return num_best * WEIGHTS_KEPT_BYTES * measure_model(segment.config, tasks, encoder).kept


def max_stages(segments: Sequence[Segment], inputs: SweepInputs, encoder: EncoderSize, options: SweepOptions) -> int:
    """Most bytes of kept stages, best weights that trials keep too among them."""
    kept = [segment for segment in segments if segment.is_kept]
    sizes = (entry_bytes(segment, inputs, encoder) + max_best(segment, encoder) for segment in kept)
    return min(options.keep_bytes, options.replicates * sum(sizes))


def record_bytes(config: TrialConfig, inputs: SweepInputs) -> int:
    """Bytes of one trial's records."""
    epochs = num_epochs(config)
    return prediction_bytes(config, inputs, epochs) + epochs * BYTES_PER_EPOCH + BYTES_PER_TRIAL


def prediction_bytes(config: TrialConfig, inputs: SweepInputs, epochs: int) -> int:
    """Bytes of a trial's predictions in its first epochs: dev and scored train rows of each active task."""
    total, num_rows = 0, inputs.rows_of(config)
    scored_stages = [stage for epoch, stage in scored_epochs(config) if epoch <= epochs]
    for index in range(len(config.stages)):
        num_own = scored_stages.count(index)
        for task in tasks_active_by(config, index):
            scored = min(config.tasks[task].scored_train_rows, num_rows[task, "train"])
            rows, tables = num_rows[task, "dev"] + scored, 1 + (scored > 0)
            per_row = BYTES_PER_PREDICTION + 4 * config.task(task).num_logits
            total += num_own * (rows * per_row + tables * BYTES_PER_TABLE)
    return total


def describe_disk(disk: DiskEstimate, free: int | None, num_concurrent: int) -> list[str]:
    """The disk at the end and while the sweep runs, and a warning if that may be more than is free.

    `free` is None for a bucket.
    """
    weights, stages, records = (decimal(part) for part in (disk.weights, disk.stages, disk.records))
    parts = f"best weights {weights}, kept stages {stages}, predictions and curves {records}"
    running = "a trial runs" if num_concurrent == 1 else f"{num_concurrent} trials run"
    left = "" if free is None else f"; {decimal(free)} free"
    need = f"about {decimal(disk.peak)}, at most {decimal(disk.max_bytes)}{left}"
    warning = "Warning: the sweep may need more disk than is free; choose another --storage, or fewer trials."
    return [
        f"Disk: about {decimal(disk.end)} at the end: {parts}.",
        f"Disk while {running}: {need}.",
        *([warning] if free is not None and disk.max_bytes > free else []),
    ]
