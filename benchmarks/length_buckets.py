"""Padding and time saved by buckets of similar length, and how much less batches vary between passes.

Command:  python benchmarks/length_buckets.py --data DIR --encoder NAME [--task sst] [--rows 640] [--batch-size 16]
Cost:     about 10 minutes on one CPU core with a small encoder (6 layers, 384 wide); seconds with --rounds 0
Prints:   per rule the share of padding among all tokens; the share of pairs of rows in one batch that are in one batch
          again in the next pass (over 20 passes); and the median over the rounds of (seconds of a pass without
          buckets / seconds of a pass by this rule), with the quartiles

Paired: a round is a pass by every rule over the same rows with one model; a few steps of each rule alternate, and each
round begins with another rule. Seconds are CPU time, on a GPU wall time. `transformers` is the rule of its Trainer,
`group_by_length`.
"""

import argparse
import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

if not __package__:  # started as a script: imports begin at the project's folder, not at this one
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import numpy as np
import torch
from transformers.trainer_pt_utils import get_length_grouped_indices

from mtlib.config.data import DataConfig
from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from mtlib.data.load import read_data
from mtlib.data.row_sources import pick_rows
from mtlib.data.token_cache import tokenize
from mtlib.model.encoder import load_encoder
from mtlib.stages.sampler import Rows, StepBatch, pass_batches
from mtlib.tasks import TASKS
from mtlib.train import prepare_run
from mtlib.training.run import Run
from mtlib.training.step import take_step

Rule = Callable[[np.ndarray, int, np.random.Generator], list[Rows]]
"""From (rows,) lengths and a batch size to the batches of a pass."""
NUM_PASSES, STEPS_PER_TURN = 20, 5
WIDTHS = (0, 1, 2, 4, 8)
"""Values of `data.bucket_batches`."""


def by_config(**settings: bool | int) -> Rule:
    """The rule of a configuration's `data`."""
    data = DataConfig(**settings)  # type: ignore[arg-type]
    return lambda lengths, batch_size, stream: pass_batches(lengths, batch_size, data, stream)


def by_transformers(lengths: np.ndarray, batch_size: int, stream: np.random.Generator) -> list[Rows]:
    """Batches of the Trainer of `transformers`, grouped by length."""
    generator = torch.Generator().manual_seed(int(stream.integers(2**32)))
    rows = np.array(get_length_grouped_indices(lengths.tolist(), batch_size, generator=generator))
    return [rows[first : first + batch_size] for first in range(0, len(rows), batch_size)]


RULES: dict[str, Rule] = {
    "no buckets": by_config(bucket_by_length=False),
    **{f"bucket_batches {width}": by_config(bucket_batches=width) for width in WIDTHS},
    "transformers": by_transformers,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder in the CS224N layout")
    parser.add_argument("--encoder", required=True, help="hub name or folder")
    parser.add_argument("--task", choices=TASKS, default="sst")
    parser.add_argument("--rows", type=int, default=640, help="of train, at random (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5, help="0 counts and trains nothing (default: %(default)s)")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        run = begin(options.data, options.encoder, options.task, options.rows, Path(folder), options.device, {})
        lengths = run.lengths[options.task]
        print(
            f"{len(lengths)} rows of {TASKS[options.task].title} in batches of {options.batch_size}, "
            f"{options.rounds} rounds"
        )
        print(f"{'rule':18} {'padding':>8} {'mates again':>12} {'times as fast':>14}   quartiles")
        seconds = measure(run, options.task, options.batch_size, options.rounds)
        for name, rule in RULES.items():
            print_rule(name, *count(rule, lengths, options.batch_size), seconds["no buckets"], seconds[name])


def begin(
    data: Path, encoder_name: str, task: str, num_rows: int | None, cache: Path, device: str, changes: Mapping[str, Any]
) -> Run:
    """A trial of one task at its beginning, with some of its train rows, all if None.

    `changes` are of fields of `TrialConfig`.
    """
    encoder = load_encoder(encoder_name)
    config = TrialConfig(stages=(StageConfig(tasks=(task,)),)).override(changes)
    tables = read_data(config, data)
    train = tables[task, "train"]
    tables[task, "train"] = pick_rows(train, np.random.default_rng(0).permutation(len(train.ids))[:num_rows])
    corpus = tokenize(tables, encoder.tokenizer, cache)
    return prepare_run(config, corpus, encoder, torch.device(device), lambda objective: objective, None)


def count(rule: Rule, lengths: np.ndarray, batch_size: int) -> tuple[float, float]:
    """The share of padding, and of pairs of rows in one batch that are in one batch again in the next pass."""
    stream = np.random.default_rng(0)
    passes = [rule(lengths, batch_size, stream) for _ in range(NUM_PASSES)]
    tokens = [sum(int(lengths[batch].max()) * len(batch) for batch in batches) for batches in passes]
    again = [mates_again(*pair, len(lengths)) for pair in itertools.pairwise(passes)]
    return 1 - NUM_PASSES * int(lengths.sum()) / sum(tokens), statistics.mean(again)


def mates_again(first: list[Rows], second: list[Rows], num_rows: int) -> float:
    """The share of pairs of rows in one batch of the first pass that are in one batch of the second."""
    where = np.empty(num_rows, dtype=np.int64)  # the second pass's batch of each row
    for number, batch in enumerate(second):
        where[batch] = number
    together = [np.unique(where[batch], return_counts=True)[1] for batch in first]
    pairs = sum(len(batch) * (len(batch) - 1) for batch in first)
    return float(sum((counts * (counts - 1)).sum() for counts in together)) / pairs


def measure(run: Run, task: str, batch_size: int, rounds: int) -> dict[str, list[float]]:
    """Seconds of a pass by each rule, round by round."""
    stream, names = np.random.default_rng(1), list(RULES)
    found: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(rounds):
        passes = {name: RULES[name](run.lengths[task], batch_size, stream) for name in names}
        seconds = dict.fromkeys(names, 0.0)
        for turn, first in enumerate(range(0, max(map(len, passes.values())), STEPS_PER_TURN)):
            start_at = turn % len(names)
            for name in names[start_at:] + names[:start_at]:
                rows = passes[name][first : first + STEPS_PER_TURN]
                seconds[name] += seconds_of(run, [StepBatch(set=task, rows=batch, turn=0) for batch in rows])
        for name in names:
            found[name].append(seconds[name])
    return found


def seconds_of(run: Run, batches: list[StepBatch]) -> float:
    """Seconds of some steps."""
    clock = time.process_time if run.device.type == "cpu" else time.perf_counter
    started = clock()
    for batch in batches:
        take_step(run, (batch,))
    if run.device.type != "cpu":
        torch.cuda.synchronize()
    return clock() - started


def print_rule(name: str, padding: float, again: float, plain: list[float], seconds: list[float]) -> None:
    ratios = [first / second for first, second in zip(plain, seconds, strict=True)]
    text = ""
    if len(ratios) > 1:
        low, middle, high = statistics.quantiles(ratios, n=4)
        text = f"{middle:14.2f}   {low:.2f} to {high:.2f}"
    print(f"{name:18} {100 * padding:6.1f} % {100 * again:10.1f} % {text}", flush=True)


if __name__ == "__main__":
    main()
