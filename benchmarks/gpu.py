"""Everything that is to be measured on a GPU, in one command.

Command:  python benchmarks/gpu.py [--data DIR --encoder NAME]
Cost:     about 25 minutes on one GPU with BERT-base
Prints:   the GPU's rate of bf16 matrix products; tokens per second of training in bf16 by batch size, and what share of
          that rate a step's products reach; the Trainer of transformers beside it (benchmarks/trainer.py, which needs
          accelerate); SMART, PALs and PCGrad as ratios to a plain step (benchmarks/method_cost.py); and trials per hour
          with 1, 2, 4 and 8 trials on the GPU at a time

Without --data the texts are the demonstration's; without --encoder it is BERT-base with random weights. With few layers
and steps, `--device cpu` shows on any machine that the command works.
"""

import argparse
import importlib.util
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path

if not __package__:  # started as a script: imports begin at the project's folder, not at this one
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.length_buckets import begin
from benchmarks.two_checkouts import HERE, clock, quartiles
from mtlib.data.batches_ahead import build_ahead, num_ahead
from mtlib.demo.corpus import demo_folder
from mtlib.model.encoder import quiet_transformers
from mtlib.stages.sampler import epoch_steps
from mtlib.training.run import Run
from mtlib.training.step import host_batches, take_step
from sweeps.api import run_sweep

TASK = "qqp"
BATCH_SIZES = (16, 64, 256)
AT_A_TIME = (1, 2, 4, 8)
PRODUCT_WIDTH = {"cuda": 8192, "cpu": 512}
METHODS = ("SMART", "PALs", "PCGrad")
WARM_UP = 5


def main() -> None:
    options = parse()
    with tempfile.TemporaryDirectory(prefix="gpu-") as name:
        folder = Path(name)
        demonstration, tiny_encoder = demo_folder(folder / "demo")
        data = str(options.data or demonstration)
        encoder = options.encoder or random_bert(tiny_encoder, folder / "bert", options)
        ceiling = product_rate(options.device)
        device = torch.cuda.get_device_name() if options.device == "cuda" else options.device
        print(
            f"{device}; one product of {PRODUCT_WIDTH[options.device]} wide bf16 matrices: {ceiling / 1e12:.1f} TFLOP/s"
        )
        measure_speed(data, encoder, ceiling, options)
        places = ["--data", data, "--encoder", encoder, "--device", options.device, "--rounds", str(options.rounds)]
        if importlib.util.find_spec("accelerate") is None:
            print("\nTrainer was left out: it needs accelerate (pip install accelerate)", flush=True)
        else:
            run_benchmark(
                "trainer.py", *places, "--task", TASK, "--rows", str(32 * options.steps), "--batch-size", "32"
            )
        run_benchmark("method_cost.py", *places, "--precision", "bf16", "--only", *METHODS)
        measure_trials(data, encoder, folder, options)


def parse() -> argparse.Namespace:
    """The command line; ends with a line of explanation where there is no GPU."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder in the CS224N layout")
    parser.add_argument("--encoder", help="hub name or folder")
    parser.add_argument("--device", choices=PRODUCT_WIDTH, default="cuda")
    parser.add_argument("--layers", type=int, default=12, help="of the encoder with random weights")
    parser.add_argument("--width", type=int, default=768, help="of the encoder with random weights")
    parser.add_argument("--steps", type=int, default=100, help="per measurement (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="per measurement (default: %(default)s)")
    parser.add_argument("--trials", type=int, default=16, help="of each sweep (default: %(default)s)")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("this benchmark needs a GPU that torch can use, and there is none")
    return options


def random_bert(tiny: Path, folder: Path, options: argparse.Namespace) -> str:
    """A folder with a BERT of random weights and the demonstration's tokenizer."""
    from transformers import AutoConfig, AutoModel, AutoTokenizer

    config = AutoConfig.from_pretrained(tiny)
    config.num_hidden_layers, config.hidden_size, config.vocab_size = options.layers, options.width, 30_522
    config.num_attention_heads, config.intermediate_size = max(1, options.width // 64), 4 * options.width
    config.max_position_embeddings = 512
    torch.manual_seed(0)
    with quiet_transformers():
        AutoModel.from_config(config).save_pretrained(folder)
        AutoTokenizer.from_pretrained(tiny).save_pretrained(folder)
    return str(folder)


def product_rate(device: str) -> float:
    """Operations per second of one large bf16 product; a multiply-add counts as two."""
    width = PRODUCT_WIDTH[device]
    left = right = torch.randn(width, width, dtype=torch.bfloat16, device=device)  # of ones they are faster
    for _ in range(WARM_UP):
        left @ right
    best, repeats = 0.0, 10
    for _ in range(5):
        started = clock(torch.device(device))
        for _ in range(repeats):
            left @ right
        best = max(best, repeats * 2 * width**3 / (clock(torch.device(device)) - started))
    return best


def measure_speed(data: str, encoder: str, ceiling: float, options: argparse.Namespace) -> None:
    """Prints tokens per second of training by batch size."""
    print(f"\n{TASK}, bf16, {options.steps} steps a round, {options.rounds} rounds")
    print(f"{'batch size':>10} {'tokens a second':>16} {'quartiles':>20} {'of the rate above':>18}", flush=True)
    for batch_size in BATCH_SIZES:
        with tempfile.TemporaryDirectory() as cache:
            changes = {"precision": "bf16", "stages.0.steps_per_epoch": 100_000, f"tasks.{TASK}.batch_size": batch_size}
            run = begin(Path(data), encoder, TASK, None, Path(cache), options.device, changes)
            steps = run_steps(run)
            for _ in range(WARM_UP):
                next(steps)
            with FlopCounterMode(display=False) as counter:
                counted = sum(next(steps) for _ in range(WARM_UP))
            work = counter.get_total_flops() / counted
            rates = [tokens_per_second(run, steps, options.steps) for _ in range(options.rounds)]
        low, middle, high = quartiles(rates)
        row = f"{batch_size:10} {middle:16,.0f} {f'{low:,.0f} to {high:,.0f}':>20} {middle * work / ceiling:18.0%}"
        print(row, flush=True)


def run_steps(run: Run) -> Iterator[int]:
    """Takes a step whenever the next one is asked for; the number of its tokens, without padding."""
    steps = epoch_steps(run.config, run.stage, run.epoch, run.lengths, run.own_rows)
    for step, batches in build_ahead(steps, partial(host_batches, run), num_ahead(run.device)):
        take_step(run, step, batches)
        yield sum(int(run.lengths[part.set][part.rows].sum()) for part in step)


def tokens_per_second(run: Run, steps: Iterator[int], count: int) -> float:
    """The rate over so many steps, in wall seconds."""
    clock(run.device)  # waits for a GPU
    started = time.perf_counter()
    tokens = sum(next(steps) for _ in range(count))
    clock(run.device)
    return tokens / (time.perf_counter() - started)


def run_benchmark(script: str, *arguments: str) -> None:
    """Runs another benchmark, which prints its own table."""
    print(f"\n{script}", flush=True)
    subprocess.run([sys.executable, str(HERE / "benchmarks" / script), *arguments], check=True, cwd=HERE)


def measure_trials(data: str, encoder: str, folder: Path, options: argparse.Namespace) -> None:
    """Prints trials per hour by the number of trials at a time."""
    print(f"\n{options.trials} trials of {options.steps} steps of {TASK} in bf16, and an evaluation")
    print(f"{'at a time':>10} {'trials an hour':>16}", flush=True)
    for at_a_time in AT_A_TIME:
        outcome = run_sweep(
            vary={"optimizer.learning_rate": [1e-5 * (1 + number) for number in range(options.trials)]},
            set={
                **{"precision": "bf16", "stages.0.tasks": TASK, f"tasks.{TASK}.scored_train_rows": 0},
                **{"stages.0.epochs": 1, "stages.0.steps_per_epoch": options.steps},
            },
            data=data,
            encoder=encoder,
            storage=folder / "sweeps",
            name=f"together-{at_a_time}",
            concurrent=at_a_time,
            gpus_per_worker=1 / at_a_time if options.device == "cuda" else 0,
            reuse=False,
        )
        trials = outcome.sweep.trials
        started = [datetime.fromisoformat(text).timestamp() for text in trials["started"]]
        ended = [begun + seconds for begun, seconds in zip(started, trials["wall_seconds"], strict=True)]
        print(f"{at_a_time:10} {3600 * len(trials) / (max(ended) - min(started)):16,.0f}", flush=True)


if __name__ == "__main__":
    main()
