"""The time of each method's optimizer step relative to a plain one.

Command:  python benchmarks/method_cost.py [--layers 4] [--width 768] [--tokens 32] [--rounds 15] [--device cuda]
          python benchmarks/method_cost.py --data DIR --encoder NAME [--precision bf16] [--only smart pals]
Cost:     more than an hour on one CPU core; 26 minutes with --tokens 16 --rounds 5, beside other work; 1 minute per
          method with a small encoder (6 layers, 384 wide) and real text
Prints:   per method the median over the rounds of (its step / the plain step), with the quartiles, and the count

Paired: each round takes plain steps and steps of the method on batches of equal shapes; which of them is first
alternates. A step is all that training does for a batch: building it, forward, backward, AdamW. Seconds are CPU time,
on a GPU wall time. Without data, a random encoder reads texts of random words. The count is the number of forward
passes relative to the plain step's, without the optimizer. A backward pass counts as two (as one where it
reaches the noise only): SMART with one ascent step is clean 1, noise 1 + 1, perturbed 1, backward of both 4, so 8
against 3.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

if not __package__:  # started as a script: imports begin at the project's folder, not at this one
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import numpy as np
import torch

from benchmarks.two_checkouts import PRECISIONS, clock
from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from mtlib.data.load import read_data
from mtlib.data.tables import Table
from mtlib.data.token_cache import Corpus, tokenize
from mtlib.model.encoder import PretrainedEncoder, load_encoder, quiet_transformers
from mtlib.stages.sampler import epoch_steps
from mtlib.tasks import TASKS
from mtlib.train import prepare_run
from mtlib.training.step import take_step

NUM_ROWS = 512
STEPS_PER_ROUND = 4

TASK_NAMES = ("sst", "qqp", "sts")
SMART = {"smart.weight": 1.0, "smart.tasks": TASK_NAMES}
QQP = {"stages.0.tasks": ("qqp",)}
SUMMED = {"stages.0.sum_losses": True, "stages.0.tasks": TASK_NAMES}


@dataclass(frozen=True)
class Method:
    """One line of the table."""

    name: str
    changes: dict[str, Any]
    count: float | None
    """Forward passes relative to the plain step; None where they do not predict the time."""
    beside: dict[str, Any] = field(default_factory=dict)
    """Changes of the plain step that it is compared with; by default that has one task's batch per step."""


METHODS = (
    Method("plain again", {}, 1),
    Method("SMART, T = 1", SMART, 8 / 3),
    Method("SMART, T = 2", {**SMART, "smart.num_steps": 2}, 10 / 3),
    Method("SMART, paper", {**SMART, "smart.mode": "paper"}, 8 / 3),
    Method("SMART, random", {**SMART, "smart.mode": "random"}, 2),
    Method("SMART, shared masks", {**SMART, "smart.masks": "shared"}, 8 / 3),
    Method("SMART, every 4th batch", {**SMART, "smart.every_batches": 4}, 17 / 12),
    Method("SMART, half of the rows", {**SMART, "smart.row_share": 0.5}, 11 / 6),
    Method("SMART, a quarter of them", {**SMART, "smart.row_share": 0.25}, 17 / 12),
    Method("SMART, half, random", {**SMART, "smart.row_share": 0.5, "smart.mode": "random"}, 3 / 2),
    Method("SMART, half, shared masks", {**SMART, "smart.row_share": 0.5, "smart.masks": "shared"}, 7 / 3),
    Method("mean teacher", {"proximal.weight": 1.0, "proximal.tasks": TASK_NAMES}, 4 / 3),
    Method("SimCSE", {"simcse.weight": 0.1, "simcse.tasks": TASK_NAMES}, 2),
    Method("PALs, 204, 12 heads", {"pals.size": 204, "pals.tasks": TASK_NAMES}, None),
    Method("PALs beside the layer", {"pals.size": 204, "pals.tasks": TASK_NAMES, "pals.placement": "layer"}, None),
    Method("low-rank layers, 100", {"pals.size": 100, "pals.tasks": TASK_NAMES, "pals.function": "low_rank"}, None),
    Method("PALs, encoder frozen", {"pals.size": 204, "pals.tasks": TASK_NAMES, "encoder.trained_layers": ()}, None),
    Method("encoder frozen", {"encoder.trained_layers": ()}, 1 / 3),
    Method("layer decay .95", {"optimizer.layer_decay": 0.95}, 1),
    Method("ordinal log-loss", {"tasks.sst.loss": "ordinal_log_loss"}, 1),
    Method("PCGrad, three tasks", {**SUMMED, "gradients": "pcgrad"}, 1, SUMMED),
    Method("UPGrad, three tasks", {**SUMMED, "gradients": "upgrad"}, 1, SUMMED),
    Method("learned weights", {**SUMMED, "loss_weighting": "uncertainty"}, 1, SUMMED),
    Method("FAMO, three tasks", {**SUMMED, "loss_weighting": "famo"}, 4 / 3, SUMMED),
    Method("ExcessMTL, three tasks", {**SUMMED, "gradients": "excess_mtl"}, 1, SUMMED),
    Method("bi-encoder, QQP", {**QQP, "tasks.qqp.encoding": "bi"}, None, QQP),
)


def main() -> None:
    options = parse()
    torch.set_num_threads(1)
    base = base_config(options.precision, options.data is not None)
    chosen = [method for method in METHODS if is_chosen(method, options)]
    with tempfile.TemporaryDirectory() as folder:
        tasks = {task for method in chosen for task in base.override(method.changes).active_tasks}
        encoder, corpus = read_texts(options, base.override({"stages.0.tasks": sorted(tasks)}), Path(folder))
        setup = f"{options.device}, {options.precision}, {options.rounds} rounds"
        print(f"{setup}; ratios to the plain step of the same tasks")
        print(f"\n{'method':26} {'ratio':>6} {'quartiles':>14} {'count':>6}   plain step")
        for method in chosen:
            plain = begin(base.override(method.beside), corpus, encoder, options.device)
            other = begin(base.override(method.changes), corpus, encoder, options.device)
            print_ratio(method, *measure(plain, other, options.rounds, options.device))


def is_chosen(method: Method, options: argparse.Namespace) -> bool:
    """Whether the command line asks for a method, which the precision does not refuse."""
    is_refused = options.precision == "bf16" and method.changes.get("smart.mode") == "paper"
    return not is_refused and any(text.lower() in method.name.lower() for text in options.only)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--tokens", type=int, default=32, help="word pieces of every text (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", default="fp32", choices=PRECISIONS)
    parser.add_argument("--data", type=Path, help="folder in the CS224N layout, instead of random words")
    parser.add_argument("--encoder", help="hub name or folder, with --data")
    parser.add_argument("--only", nargs="+", default=[""], metavar="TEXT", help="methods whose name holds one of these")
    options = parser.parse_args()
    if (options.data is None) != (options.encoder is None):
        parser.error("--data and --encoder go together")
    return options


def read_texts(options: argparse.Namespace, config: TrialConfig, folder: Path) -> tuple[PretrainedEncoder, Corpus]:
    """The encoder and the texts of the configuration's tasks; says what they are."""
    if options.data is None:
        print(f"{options.layers} layers, {options.width} wide, 16 rows of {options.tokens} word pieces per text")
        encoder, tables = random_encoder(folder, options.layers, options.width), random_tables(folder, options.tokens)
    else:
        print(f"{options.encoder}, {options.data}, 16 rows")
        encoder = load_encoder(options.encoder)
        tables = read_data(config, options.data)
    return encoder, tokenize(tables, encoder.tokenizer, folder / "cache")


def base_config(precision: str, is_real: bool) -> TrialConfig:
    """One task, one batch per step, dropout as the papers'; real texts in batches of similar length."""
    stage = StageConfig(tasks=("sst",), steps_per_epoch=10_000)
    return TrialConfig(stages=(stage,)).override({"precision": precision, "data.bucket_by_length": is_real})


def random_encoder(folder: Path, layers: int, width: int) -> PretrainedEncoder:
    """A BERT of this size with random weights, and a tokenizer of single letters and words."""
    from transformers import BertConfig, BertModel, BertTokenizerFast

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"word{number}" for number in range(30_000))]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    tokenizer = BertTokenizerFast(vocab=str(folder / "vocab.txt"), model_max_length=512)
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        intermediate_size=4 * width,
    )
    torch.manual_seed(0)
    with quiet_transformers():
        BertModel(config).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return load_encoder(str(folder))


def random_tables(folder: Path, tokens: int) -> dict[tuple[str, str], Table]:
    """Train and dev of each task: texts of so many known words."""
    stream = np.random.default_rng(0)
    tables = {}
    for name in TASK_NAMES:
        for split in ("train", "dev"):
            tables[name, split] = random_table(stream, name, split, folder, tokens - 2)
    return tables


def random_table(stream: np.random.Generator, name: str, split: str, folder: Path, words: int) -> Table:
    task = TASKS[name]
    drawn = stream.integers(0, 30_000, (len(task.text_columns), NUM_ROWS, words))
    texts = tuple([" ".join(f"word{number}" for number in row) for row in column] for column in drawn)
    return Table(
        task=name,
        split=split,
        path=folder / task.file_name(split),
        ids=[f"{name}{row}" for row in range(NUM_ROWS)],
        places=[f"{name}:{row}" for row in range(NUM_ROWS)],
        texts=texts,
        labels=stream.integers(0, int(task.label_range[1]) + 1, NUM_ROWS).astype(np.float32),
        skipped=(),
        num_own_rows=NUM_ROWS,
    )


def begin(config: TrialConfig, corpus: Corpus, encoder: PretrainedEncoder, device: str) -> Callable[[], None]:
    """A trial at its beginning, as a function that takes its next step."""
    run = prepare_run(config, corpus, encoder, torch.device(device), lambda objective: objective, None)
    steps = iter(epoch_steps(run.config, 0, 0, run.lengths, run.own_rows))
    return lambda: take_step(run, next(steps))


def measure(
    plain: Callable[[], None], other: Callable[[], None], rounds: int, device: str
) -> tuple[list[float], list[float]]:
    """Seconds of the plain steps and of the other ones, round by round."""
    for step in (plain, other, plain, other):
        seconds_of(step, device)
    found: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds):
        for side in (0, 1) if number % 2 else (1, 0):
            found[side].append(seconds_of((plain, other)[side], device))
    return found


def seconds_of(step: Callable[[], None], device: str) -> float:
    """Seconds of the steps of a round."""
    started = clock(torch.device(device))
    for _ in range(STEPS_PER_ROUND):
        step()
    return clock(torch.device(device)) - started


def print_ratio(chosen: Method, plain: list[float], other: list[float]) -> None:
    ratios = [second / first for first, second in zip(plain, other, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    count = "" if chosen.count is None else f"{chosen.count:.2f}"
    per_step = statistics.median(plain) / STEPS_PER_ROUND
    quartiles = f"{low:.2f} to {high:.2f}"
    print(f"{chosen.name:26} {middle:6.2f} {quartiles:>14} {count:>6}   {1000 * per_step:.0f} ms", flush=True)


if __name__ == "__main__":
    main()
