"""One process of each of two checkouts, asked in turn: for benchmarks that compare them at equal work."""

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


@contextmanager
def serving(script: str, checkout: Path, arguments: Sequence[str]) -> Iterator[Callable[[], Any]]:
    """A process that runs a benchmark's script on the packages of a checkout; yields what asks it for an answer.

    The script puts the folder in the variable CHECKOUT before its own in `sys.path`, and answers with `answer_all`.
    """
    environment = {**os.environ, "CHECKOUT": str(checkout.resolve()), "PYTHONPATH": str(checkout.resolve())}
    command = [sys.executable, str(Path(script).resolve()), *arguments]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:

        def ask() -> Any:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("\n")
            process.stdin.flush()
            answer = process.stdout.readline()
            if not answer:
                sys.exit("a process of the benchmark has ended; its error is above")
            return json.loads(answer)

        try:
            yield ask
        finally:
            process.terminate()


def answer_all(answer: Callable[[], Any]) -> None:
    """Prints an answer as JSON for every line that is read."""
    for _ in sys.stdin:
        print(json.dumps(answer()), flush=True)


def ask_in_turn(before: Callable[[], Any], now: Callable[[], Any], rounds: int) -> tuple[list[Any], list[Any]]:
    """The answers of both, round by round; which is asked first alternates, and a first round warms up."""
    found: tuple[list[Any], list[Any]] = ([], [])
    for number in range(rounds + 1):
        for side in (0, 1) if number % 2 else (1, 0):
            found[side].append((before, now)[side]())
    return found[0][1:], found[1][1:]


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
