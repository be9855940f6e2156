"""One process of each of two checkouts, asked in turn: for benchmarks that compare them at equal work."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

HERE = Path(__file__).resolve().parent.parent
PRECISIONS = ("fp32", "bf16")
Ask = Callable[..., Any]
"""Puts a question, a line of text, to a process and returns its answer, JSON data."""


def comparison_parser(description: str | None) -> argparse.ArgumentParser:
    """The arguments that every such benchmark has."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, default=HERE, help="folder of another checkout")
    parser.add_argument("--data", type=Path, required=True, help="folder in the CS224N layout")
    parser.add_argument("--encoder", required=True, help="hub name or folder")
    parser.add_argument("--precision", choices=PRECISIONS, default="fp32")
    parser.add_argument("--precision-before", choices=PRECISIONS, help="of the other checkout; by default the same")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    return parser


def print_setup(options: argparse.Namespace) -> tuple[str, str]:
    """Prints what is compared, and returns the precisions of the other checkout and of this one."""
    before, now = options.precision_before or options.precision, options.precision
    print(f"{options.device}, one thread, {before} before, {now} now, {options.rounds} rounds")
    return before, now


@contextmanager
def serving(script: str, checkout: Path, arguments: Sequence[str]) -> Iterator[Ask]:
    """A process that runs a benchmark's script on the packages of a checkout; yields what puts a question to it.

    The script puts the folder in the variable CHECKOUT before its own in `sys.path`, and answers with `answer_all`.
    """
    environment = {**os.environ, "CHECKOUT": str(checkout.resolve()), "PYTHONPATH": str(checkout.resolve())}
    command = [sys.executable, str(Path(script).resolve()), *arguments]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:

        def ask(question: str = "") -> Any:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{question}\n")
            process.stdin.flush()
            answer = process.stdout.readline()
            if not answer:
                sys.exit("a process of the benchmark has ended; its error is above")
            return json.loads(answer)

        try:
            yield ask
        finally:
            process.terminate()


def answer_all(answer: Callable[[str], Any]) -> None:
    """Prints the answer to every line that is read as JSON."""
    for line in sys.stdin:
        print(json.dumps(answer(line.strip())), flush=True)


def ask_in_turn(before: Ask, now: Ask, rounds: int, question: str = "") -> list[tuple[Any, Any]]:
    """The answers of both, round by round; which is asked first alternates."""
    found = []
    for number in range(rounds):
        first, second = (before, now) if number % 2 else (now, before)
        answers = [first(question), second(question)]
        found.append((answers[0], answers[1]) if number % 2 else (answers[1], answers[0]))
    return found


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Lower quartile, median and upper quartile."""
    low, middle, high = statistics.quantiles(values, n=4) if len(values) > 1 else [*values] * 3
    return low, middle, high


def clock(device: torch.device) -> float:
    """CPU seconds of this process; on a GPU wall seconds, once its work is done."""
    if device.type == "cpu":
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()
