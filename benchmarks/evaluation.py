"""Rows of dev that are scored per second, by this checkout and by another one.

Command:  git worktree add ../before COMMIT
          python benchmarks/evaluation.py --against ../before --data DIR --encoder NAME [--precision bf16]
Cost:     about 6 minutes on one CPU core with a small encoder (6 layers, 384 wide) and 4,000 rows of dev
Prints:   per task, and for all, rows per second of both, and the median over the rounds of (rows per second of this
          checkout / of the other), with the quartiles; the largest difference between their scores

Paired: a process of each checkout holds the same model, whose heads are new; they score dev of a task in turn, and
alternate in which is first. Seconds are CPU time, on a GPU wall time. Scores that differ by more than rounding end the
command.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

if not __package__:  # started as a script: imports begin at a checkout's folder, by default this one
    sys.path[0] = os.environ.get("CHECKOUT", str(Path(__file__).resolve().parent.parent))

import torch

from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from mtlib.data.load import read_data
from mtlib.data.token_cache import tokenize
from mtlib.model.encoder import load_encoder
from mtlib.tasks import TASKS
from mtlib.train import prepare_run
from mtlib.training.evaluation import predict, score

HERE = Path(__file__).resolve().parent.parent
ROUNDING = {"fp32": 0.002, "bf16": 0.02}
"""Largest difference between equal scores: predictions near a limit between classes may fall on either side."""
Server = subprocess.Popen[str]
Scored = tuple[float, float, int]
"""The seconds of scoring dev of a task, the score and the number of rows."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, default=HERE, help="folder of another checkout")
    parser.add_argument("--data", type=Path, required=True, help="folder in the CS224N layout")
    parser.add_argument("--encoder", required=True, help="hub name or folder")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--precision", choices=ROUNDING, default="fp32")
    parser.add_argument("--precision-before", choices=ROUNDING, help="of the other checkout; by default the same")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="of this checkout's configuration")
    parser.add_argument("--rounds", type=int, default=5, help="at least 2 (default: %(default)s)")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options)
        return
    precisions = (options.precision_before or options.precision, options.precision)
    print(f"{options.device}, one thread, {precisions[0]} before, {precisions[1]} now, {options.rounds} rounds")
    with ExitStack() as stack:
        before = stack.enter_context(serving(options.against.resolve(), precisions[0], []))
        now = stack.enter_context(serving(HERE, precisions[1], options.set))
        for side in (before, now):  # warms up
            scores_of(side, options.tasks[0])
        found = {task: measure(before, now, task, options.rounds) for task in options.tasks}
    report(found, max(ROUNDING[name] for name in precisions))


def measure(before: Server, now: Server, task: str, rounds: int) -> list[tuple[Scored, Scored]]:
    """What both checkouts need for a task, round by round."""
    found = []
    for number in range(rounds):
        if number % 2:
            found.append((scores_of(before, task), scores_of(now, task)))
        else:
            second = scores_of(now, task)
            found.append((scores_of(before, task), second))
    return found


@contextmanager
def serving(checkout: Path, precision: str, changes: list[str]) -> Iterator[Server]:
    """A process of a checkout that scores dev of each task whose name it reads."""
    given = [*sys.argv[1:], "--serve", "--precision", precision, "--set", *changes]
    environment = {**os.environ, "CHECKOUT": str(checkout), "PYTHONPATH": str(checkout)}
    command = [sys.executable, str(Path(__file__).resolve()), *given]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


def scores_of(process: Server, task: str) -> Scored:
    """What a process needs for dev of a task."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{task}\n")
    process.stdin.flush()
    answer = process.stdout.readline()
    if not answer:
        sys.exit("a process of the benchmark has ended; its error is above")
    seconds, score_of_task, rows = json.loads(answer)
    return seconds, score_of_task, rows


def serve(options: Any) -> None:
    """Scores dev of each task whose name is read, and prints a `Scored` as JSON."""
    torch.set_num_threads(1)
    encoder, device = load_encoder(options.encoder), torch.device(options.device)
    changes = dict(change.split("=", 1) for change in options.set)
    config = TrialConfig(stages=(StageConfig(tasks=tuple(options.tasks)),))
    config = config.override({"precision": options.precision, **changes})
    with tempfile.TemporaryDirectory() as folder:
        corpus = tokenize(read_data(config, options.data), encoder.tokenizer, Path(folder))
        run = prepare_run(config, corpus, encoder, device, lambda objective: objective, None)
        for task in map(str.strip, sys.stdin):
            started = clock(device)
            scores = score(predict(run.model, config, corpus, task, "dev", device), config)
            seconds = clock(device) - started
            print(json.dumps((seconds, scores[TASKS[task].metric], corpus[task, "dev"].num_rows)), flush=True)


def clock(device: torch.device) -> float:
    """CPU seconds of this process; on a GPU wall seconds, once its work is done."""
    if device.type == "cpu":
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def report(found: dict[str, list[tuple[Scored, Scored]]], rounding: float) -> None:
    """Prints rates and ratios; ends the command if scores differ."""
    print(f"{'task':6} {'rows':>6} {'before':>9} {'now':>9} {'ratio':>7}   quartiles")
    for names in (*([task] for task in found), list(found)):
        rows, rounds = sum(found[task][0][0][2] for task in names), zip(*(found[task] for task in names), strict=True)
        seconds = [[sum(scored[side][0] for scored in one) for side in (0, 1)] for one in rounds]
        low, middle, high = statistics.quantiles([before / now for before, now in seconds], n=4)
        rates = " ".join(f"{rows / statistics.median(spent):7.0f}/s" for spent in zip(*seconds, strict=True))
        print(f"{names[0] if len(names) == 1 else 'all':6} {rows:6} {rates} {middle:7.2f}   {low:.2f} to {high:.2f}")
    difference = max(abs(before[1] - now[1]) for rounds in found.values() for before, now in rounds)
    print(f"scores differ by at most {difference:.5f}")
    if difference > rounding:
        sys.exit(f"scores must not differ by more than {rounding}")


if __name__ == "__main__":
    main()
