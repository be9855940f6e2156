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

import os
import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

if not __package__:  # started as a script: imports begin at a checkout's folder, by default this one
    HERE = Path(__file__).resolve().parent.parent
    sys.path[:1] = [os.environ.get("CHECKOUT", str(HERE)), str(HERE)]

import torch

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
from mtlib.tasks import TASKS
from mtlib.train import prepare_run
from mtlib.training.evaluation import predict, score

ROUNDING = {"fp32": 0.002, "bf16": 0.02}
"""Largest difference between equal scores: predictions near a limit between classes may fall on either side."""
Scored = tuple[float, float, int]
"""The seconds of scoring dev of a task, the score and the number of rows."""


def main() -> None:
    parser = comparison_parser(__doc__)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="of this checkout's configuration")
    parser.add_argument("--rounds", type=int, default=5, help="at least 2 (default: %(default)s)")
    options = parser.parse_args()
    if options.serve:
        serve(options)
        return
    precisions = print_setup(options)
    with ExitStack() as stack:
        before, now = (
            stack.enter_context(serving(__file__, folder, arguments_of(precision, changes)))
            for folder, precision, changes in ((options.against, precisions[0], []), (HERE, precisions[1], options.set))
        )
        for ask in (before, now):  # warms up
            ask(options.tasks[0])
        found = {task: ask_in_turn(before, now, options.rounds, task) for task in options.tasks}
    report(found, max(ROUNDING[name] for name in precisions))


def arguments_of(precision: str, changes: list[str]) -> list[str]:
    """The command line of a process that scores dev of each task whose name it reads."""
    return [*sys.argv[1:], "--serve", "--precision", precision, "--set", *changes]


def serve(options: Any) -> None:
    """Scores dev of each task whose name is read, and answers with what `Scored` names."""
    torch.set_num_threads(1)
    encoder, device = load_encoder(options.encoder), torch.device(options.device)
    changes = dict(change.split("=", 1) for change in options.set)
    config = TrialConfig(stages=(StageConfig(tasks=tuple(options.tasks)),))
    config = config.override({"precision": options.precision, **changes})
    with tempfile.TemporaryDirectory() as folder:
        corpus = tokenize(read_data(config, options.data), encoder.tokenizer, Path(folder))
        run = prepare_run(config, corpus, encoder, device, lambda objective: objective, None)

        def answer(task: str) -> Scored:
            started = clock(device)
            scores = score(predict(run.model, config, corpus, task, "dev", device), config)
            return clock(device) - started, scores[TASKS[task].metric], corpus[task, "dev"].num_rows

        answer_all(answer)


def report(found: dict[str, list[tuple[Scored, Scored]]], rounding: float) -> None:
    """Prints rates and ratios; ends the command if scores differ."""
    print(f"{'task':6} {'rows':>6} {'before':>9} {'now':>9} {'ratio':>7}   quartiles")
    for names in (*([task] for task in found), *([list(found)] if len(found) > 1 else [])):
        rows, rounds = sum(found[task][0][0][2] for task in names), zip(*(found[task] for task in names), strict=True)
        seconds = [[sum(scored[side][0] for scored in one) for side in (0, 1)] for one in rounds]
        low, middle, high = quartiles([before / now for before, now in seconds])
        rates = " ".join(f"{rows / statistics.median(spent):7.0f}/s" for spent in zip(*seconds, strict=True))
        print(f"{names[0] if len(names) == 1 else 'all':6} {rows:6} {rates} {middle:7.2f}   {low:.2f} to {high:.2f}")
    difference = max(abs(before[1] - now[1]) for rounds in found.values() for before, now in rounds)
    print(f"scores differ by at most {difference:.5f}")
    if difference > rounding:
        sys.exit(f"scores must not differ by more than {rounding}")


if __name__ == "__main__":
    main()
