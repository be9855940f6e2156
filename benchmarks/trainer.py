"""The time of a pass over the same rows, by this project and by the Trainer of `transformers`.

Command:  pip install accelerate, then
          python benchmarks/trainer.py --data DIR --encoder NAME [--task sst] [--rows 1280] [--batch-size 16]
Cost:     about 10 minutes on one CPU core with a small encoder (6 layers, 384 wide)
Prints:   seconds of a pass by each, the median over the rounds; and, for each pair that is compared, the median of
          (Trainer's seconds / this project's), with the quartiles

Paired: a process of each trains the same encoder on the same rows in batches of the same size, one pass a round; each
round begins with another one. A pass is all from the first batch to the last update. Trainer logs and saves nothing and
has no progress bar; `defaults` are those of its arguments, `grouped` has batches of similar length. Seconds are CPU
time, on a GPU wall time.
"""

import argparse
import importlib.util
import statistics
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

if not __package__:  # started as a script: imports begin at the project's folder, not at this one
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import numpy as np
import torch
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from benchmarks.length_buckets import begin
from benchmarks.two_checkouts import HERE, answer_all, clock, quartiles, serving
from mtlib.data.batches_ahead import build_ahead, num_ahead
from mtlib.stages.sampler import StepBatch, epoch_steps
from mtlib.tasks import TASKS
from mtlib.training.run import Run, end_epoch
from mtlib.training.step import host_batches, shard_of, take_step

Pass = Callable[[int], float]
"""From the number of a round to the seconds of its pass."""
SIDES: dict[str, dict[str, Any]] = {
    "Trainer, defaults, fp32": {},
    "Trainer, grouped, bf16": {"bf16": True, "train_sampling_strategy": "group_by_length"},
    "this project, fp32": {"precision": "fp32"},
    "this project, bf16": {"precision": "bf16"},
}
"""By name, what differs from the arguments that all have."""
COMPARED = (
    ("Trainer, defaults, fp32", "this project, fp32"),
    ("Trainer, defaults, fp32", "this project, bf16"),
    ("Trainer, grouped, bf16", "this project, bf16"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder in the CS224N layout")
    parser.add_argument("--encoder", required=True, help="hub name or folder")
    parser.add_argument("--task", choices=TASKS, default="sst")
    parser.add_argument("--rows", type=int, default=1280, help="of train, at random (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--serve", choices=SIDES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if importlib.util.find_spec("accelerate") is None:
        parser.error("the Trainer of transformers needs accelerate: pip install accelerate")
    if options.serve:
        serve(options)
        return
    with ExitStack() as stack:
        asks = {name: stack.enter_context(serving(__file__, HERE, [*sys.argv[1:], "--serve", name])) for name in SIDES}
        for ask in asks.values():
            ask("0")  # a first pass, in which kernels are made
        found: dict[str, list[float]] = {name: [] for name in SIDES}
        for number in range(1, options.rounds + 1):
            names = list(SIDES)
            for name in names[number % len(names) :] + names[: number % len(names)]:
                found[name].append(asks[name](str(number)))
    report(options, found)


def serve(options: argparse.Namespace) -> None:
    """Trains a pass whenever a line is read; answers with its seconds."""
    torch.set_num_threads(1)
    settings, is_trainer = SIDES[options.serve], options.serve.startswith("Trainer")
    with tempfile.TemporaryDirectory() as folder:
        own = {f"tasks.{options.task}.batch_size": options.batch_size, "stages.0.epochs": 1 + options.rounds}
        changes = own if is_trainer else {**own, **settings}
        run = begin(options.data, options.encoder, options.task, options.rows, Path(folder), options.device, changes)
        one_pass = trainer_pass(run, options, settings, folder) if is_trainer else own_pass(run)
        answer_all(lambda question: one_pass(int(question)))


def own_pass(run: Run) -> Pass:
    """A pass by this project."""

    def one_pass(number: int) -> float:
        started = clock(run.device)
        steps = epoch_steps(run.config, 0, number, run.lengths, run.own_rows)
        for step, batches in build_ahead(steps, partial(host_batches, run), num_ahead(run.device)):
            take_step(run, step, batches)
        end_epoch(run)
        return clock(run.device) - started

    return one_pass


class PassClock(TrainerCallback):  # type: ignore[misc]
    """Measures from the first batch of a Trainer's run to its last update."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.seconds = 0.0

    def on_epoch_begin(self, *_arguments: Any, **_named: Any) -> None:
        self.seconds = -clock(self.device)

    def on_epoch_end(self, *_arguments: Any, **_named: Any) -> None:
        self.seconds += clock(self.device)


def trainer_pass(run: Run, options: argparse.Namespace, settings: dict[str, Any], folder: str) -> Pass:
    """A pass by Trainer, over the rows of a run."""
    rows, passed = examples(run, options.task), PassClock(run.device)
    num_labels = 1 if isinstance(rows[0]["labels"], float) else 1 + max(row["labels"] for row in rows)
    arguments = TrainingArguments(
        output_dir=folder,
        num_train_epochs=1,
        per_device_train_batch_size=options.batch_size,
        use_cpu=run.device.type == "cpu",
        disable_tqdm=True,
        logging_strategy="no",
        save_strategy="no",
        report_to="none",
        **settings,
    )
    trainer = Trainer(
        model=AutoModelForSequenceClassification.from_pretrained(options.encoder, num_labels=num_labels),
        args=arguments,
        train_dataset=rows,
        processing_class=AutoTokenizer.from_pretrained(options.encoder),
        callbacks=[passed],
    )
    trainer.remove_callback(PrinterCallback)

    def one_pass(number: int) -> float:
        arguments.seed = arguments.data_seed = number
        trainer.train()
        return passed.seconds

    return one_pass


def examples(run: Run, task: str) -> list[dict[str, Any]]:
    """The rows of a run as Trainer's collator takes them: word pieces without padding, and labels."""
    table, is_number = run.corpus[task, "train"], run.config.task(task).kind == "regression"
    batches = (
        shard_of(run.config, run.corpus, StepBatch(set=task, rows=np.array([row]), turn=0))
        for row in range(table.num_rows)
    )
    return [
        {
            "input_ids": batch.inputs[0].input_ids[0],
            "attention_mask": batch.inputs[0].attention_mask[0],
            "token_type_ids": batch.inputs[0].token_type_ids[0],
            "labels": float(label) if is_number else int(label),
        }
        for batch, label in zip(batches, table.labels, strict=True)
    ]


def report(options: argparse.Namespace, found: dict[str, list[float]]) -> None:
    """Prints seconds and ratios."""
    title = TASKS[options.task].title
    print(f"{options.rows} rows of {title}, batches of {options.batch_size}, {options.rounds} rounds, one thread")
    for name, seconds in found.items():
        print(f"{name:26} {statistics.median(seconds):7.1f} s a pass")
    for trainer, ours in COMPARED:
        low, middle, high = quartiles(
            [first / second for first, second in zip(found[trainer], found[ours], strict=True)]
        )
        print(f"{ours} against {trainer}: {middle:.2f} times as fast   {low:.2f} to {high:.2f}")


if __name__ == "__main__":
    main()
