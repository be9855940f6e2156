"""The time of an optimizer step, by this checkout and by another one, beside that of its matrix products alone.

Command:  git worktree add ../before COMMIT
          python benchmarks/step_speed.py --against ../before --data DIR --encoder NAME [--precision bf16]
Cost:     about 3 minutes on one CPU core with a small encoder (6 layers, 384 wide)
Prints:   milliseconds of a step of both, the median over the rounds of (the other's / this checkout's), with the
          quartiles; and how much of this checkout's step its matrix products would take at the rate of one large
          product on this machine

Paired: a process of each checkout trains the same model on the same batches, four steps a round; they alternate in
which is first. A step is all that training does for a batch: building it, forward, backward, AdamW. Seconds are CPU
time, on a GPU wall time. With --changes and --changes-before two configurations are compared.
"""

import argparse
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

if not __package__:  # started as a script: imports begin at a checkout's folder, by default this one
    HERE = Path(__file__).resolve().parent.parent
    sys.path[:1] = [os.environ.get("CHECKOUT", str(HERE)), str(HERE)]

import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.two_checkouts import (
    HERE,
    answer_all,
    ask_in_turn,
    clock,
    comparison_parser,
    print_setup,
    quartiles,
    serving,
)
from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from mtlib.data.load import read_data
from mtlib.data.token_cache import tokenize
from mtlib.model.encoder import load_encoder
from mtlib.stages.sampler import Step, epoch_steps
from mtlib.tasks import TASKS
from mtlib.train import prepare_run
from mtlib.training.run import Run
from mtlib.training.step import take_step

STEPS_PER_ROUND = 4
WARM_UP = 4
PRODUCT = (2048, 768, 3072)
"""Rows, depth and columns of the product whose rate counts as the machine's."""


def main() -> None:
    parser = comparison_parser(__doc__)
    parser.add_argument("--task", choices=TASKS, default="sst")
    parser.add_argument("--changes", nargs="*", default=[], metavar="KEY=VALUE", help="of this configuration")
    parser.add_argument("--changes-before", nargs="*", default=[], metavar="KEY=VALUE", help="of the other")
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    if options.serve:
        serve(options)
        return
    precisions = print_setup(options)
    sides = (options.against, precisions[0], options.changes_before), (HERE, precisions[1], options.changes)
    with ExitStack() as stack:
        before, now = (
            stack.enter_context(serving(__file__, folder, arguments_of(precision, changes)))
            for folder, precision, changes in sides
        )
        report(ask_in_turn(before, now, options.rounds))


def arguments_of(precision: str, changes: list[str]) -> list[str]:
    """The command line of a process that serves."""
    return [*sys.argv[1:], "--serve", "--precision", precision, "--changes", *changes]


def serve(options: argparse.Namespace) -> None:
    """Takes the next steps whenever a line is read; answers with their seconds and those of their products alone."""
    torch.set_num_threads(1)
    encoder, device = load_encoder(options.encoder), torch.device(options.device)
    stage = StageConfig(tasks=(options.task,), steps_per_epoch=100_000)
    changes = {"precision": options.precision, **dict(change.split("=", 1) for change in options.changes)}
    config = TrialConfig(stages=(stage,)).override(changes)
    with tempfile.TemporaryDirectory() as folder:
        corpus = tokenize(read_data(config, options.data), encoder.tokenizer, Path(folder))
        run = prepare_run(config, corpus, encoder, device, lambda objective: objective, None)
        steps = iter(epoch_steps(run.config, 0, 0, run.lengths, run.own_rows))
        for _ in range(WARM_UP):
            take_step(run, next(steps))
        answer_all(lambda _question: measure(run, [next(steps) for _ in range(STEPS_PER_ROUND)]))


def measure(run: Run, steps: list[Step]) -> dict[str, float]:
    """Seconds per step, and what part of them its matrix products would take at the machine's rate."""
    started = clock(run.device)
    for step in steps:
        take_step(run, step)
    seconds = clock(run.device) - started
    with FlopCounterMode(display=False) as counter:
        for step in steps:
            take_step(run, step)
    return {"seconds": seconds / len(steps), "share": counter.get_total_flops() / product_rate(run) / seconds}


def product_rate(run: Run) -> float:
    """Operations per second of one large matrix product in the configured precision; a multiply-add counts as two."""
    rows, depth, columns = PRODUCT
    dtype = torch.bfloat16 if run.config.precision == "bf16" else torch.float32
    left, right = (torch.ones(shape, dtype=dtype, device=run.device) for shape in ((rows, depth), (depth, columns)))
    left @ right
    started = clock(run.device)
    for _ in range(STEPS_PER_ROUND):
        left @ right
    return STEPS_PER_ROUND * 2 * rows * depth * columns / (clock(run.device) - started)


def report(found: list[tuple[Any, Any]]) -> None:
    """Prints times, their ratio, and the share of the products."""
    before, now = zip(*found, strict=True)
    for name, answers in (("before", before), ("now", now)):
        low, middle, high = quartiles([1000 * one["seconds"] for one in answers])
        print(f"{name:8} {middle:7.1f} ms a step   {low:.1f} to {high:.1f}")
    ratios = [first["seconds"] / second["seconds"] for first, second in found]
    low, middle, high = quartiles(ratios)
    print(f"ratio    {middle:7.2f}             {low:.2f} to {high:.2f}")
    low, middle, high = quartiles([one["share"] for one in now])
    print(f"products {middle:7.0%} of a step now  {low:.0%} to {high:.0%}")


if __name__ == "__main__":
    main()
