"""The flags of `sweeps/run.py`, its exit codes, and its help by example."""

import argparse
from typing import get_args

from mtlib.tasks import TASKS
from results.cli.parsing import ALL_WELL, INTERRUPTED, WRONG_USE, new_parser
from sweeps.options import (
    DEFAULT_CHECKPOINT_STEPS,
    DEFAULT_KEEP_GB,
    DEFAULT_KEEP_MODELS,
    DEFAULT_NODE_WAIT_MINUTES,
    DEFAULT_TRIALS,
    Scheduler,
    Search,
)

DEFAULT_STORAGE = "~/multitask-sweeps"

SWEEP_FAILED, SOME_FAILED = 1, 3
"""Exit codes beside those of all commands."""

EXAMPLES = f"""\
examples:
  the whole way on any machine, nothing downloaded: a demonstration corpus and a tiny encoder
    python sweeps/run.py --space smart_lambda
  what that would do: every trial, its stages, steps and disk; starts nothing
    python sweeps/run.py --space smart_lambda --dry-run
  your own data ({", ".join(task.file_name("train") for task in TASKS.values())}
  and their dev files) on one GPU
    python sweeps/run.py --space smart_lambda --data DIR --encoder bert-base-uncased --gpus-per-worker 1
  two workers per trial, at most three trials at a time
    python sweeps/run.py --space smart_lambda --workers 2 --concurrent 3
  a search instead of the grid: 30 configurations, the hopeless ones stopped early
    python sweeps/run.py --space smart_lambda --search tpe --trials 30 --scheduler asha
  anything of the configuration held at another value, in every trial
    python sweeps/run.py --space smart_lambda --set optimizer.learning_rate=1e-5 --set stages.1.epochs=3
  a tenth of train kept aside from all trials, for one honest score of what is chosen in the end
    python sweeps/run.py --space smart_lambda --hold-out 0.1
  after Ctrl-C, a crash or a power cut: what was finished stays, the rest goes on from its last saved state
    python sweeps/run.py --resume NAME
  on a Ray cluster: from a machine of it, or from outside
    python sweeps/run.py --space smart_lambda --address auto
    ray job submit --address http://HEAD:8265 --working-dir . -- python sweeps/run.py --space smart_lambda

files: {DEFAULT_STORAGE}/NAME holds the sweep; print its ranking again with
    python results/table.py {DEFAULT_STORAGE}/NAME

exit codes: {ALL_WELL} all trials ended well, {SWEEP_FAILED} the sweep failed, {WRONG_USE} wrong use, \
{SOME_FAILED} some trials failed, {INTERRUPTED} interrupted
"""


def build_parser() -> argparse.ArgumentParser:
    """The parser; values are checked by `SweepOptions`, so that a mistake reads the same wherever it is made."""
    usage = "--space NAME [--data DIR] [--encoder NAME|DIR] [more below]"
    description = "Trains every configuration of a search space and ranks them."
    parser = new_parser("python sweeps/run.py", usage, description, EXAMPLES)
    add_question(parser.add_argument_group("what is asked"))
    add_search(parser.add_argument_group("how it is searched"))
    add_place(parser.add_argument_group("where it runs"))
    add_going_on(parser.add_argument_group("what is kept, and going on"))
    return parser


def add_question(group: argparse._ArgumentGroup) -> None:
    """Flags that say what is learned, and from what."""
    group.add_argument("--space", metavar="NAME", help="search space, one of those that --list-spaces shows")
    group.add_argument("--data", metavar="DIR", help="folder of the tasks' files (default: demonstration corpus)")
    group.add_argument(
        "--encoder",
        metavar="NAME|DIR",
        help="hub name or local folder (default: the space's own, or a tiny one with the demonstration corpus)",
    )
    group.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="extend",
        nargs="+",
        default=[],
        help="a configuration value for every trial, e.g. optimizer.learning_rate=1e-5; may be repeated",
    )
    group.add_argument(
        "--hold-out",
        metavar="F",
        default="0",
        help="share of each task's train rows, at most 0.5, that no trial sees, kept for a last, honest score; rows "
        "with a text in common stay together, and hold_out.json in the sweep's folder names them (default: 0)",
    )
    group.add_argument("--dry-run", action="store_true", help="print trials, stages, steps and disk; start nothing")
    group.add_argument("--list-spaces", action="store_true", help="print the search spaces and their questions")


def add_search(group: argparse._ArgumentGroup) -> None:
    """Flags that say which configurations are tried, how often and for how long."""
    group.add_argument("--search", metavar="|".join(get_args(Search)), default="grid", help="default: grid")
    group.add_argument(
        "--trials", metavar="N", help=f"configurations to draw with tpe or random (default: {DEFAULT_TRIALS})"
    )
    group.add_argument("--replicates", metavar="K", default="1", help="trainings of each configuration (default: 1)")
    group.add_argument(
        "--scheduler",
        metavar="|".join(get_args(Scheduler)),
        default="none",
        help="asha stops the trials that lag behind (default: none)",
    )
    group.add_argument(
        "--seed", metavar="S", default="0", help="seed of everything that is left to chance (default: 0)"
    )


def add_place(group: argparse._ArgumentGroup) -> None:
    """Flags that say on what the sweep runs and where its files go."""
    group.add_argument("--workers", metavar="N", default="1", help="workers that train one trial (default: 1)")
    group.add_argument("--cpus-per-worker", metavar="C", default="1", help="CPUs and threads of a worker (default: 1)")
    group.add_argument("--gpus-per-worker", metavar="F", default="0", help="0, 1 or a part of a GPU (default: 0)")
    group.add_argument("--concurrent", metavar="N", help="most trials at a time (default: as many as fit)")
    group.add_argument("--name", metavar="NAME", help="name of the sweep (default: space, date and time)")
    group.add_argument(
        "--storage",
        metavar="DIR|URI",
        default=DEFAULT_STORAGE,
        help="folder of all sweeps, or a URI that receives copies of the records (default: %(default)s)",
    )
    group.add_argument(
        "--address", metavar="ADDR", help="Ray cluster, e.g. auto (default: $RAY_ADDRESS, else this machine)"
    )
    group.add_argument(
        "--node-wait-minutes",
        metavar="M",
        default=f"{DEFAULT_NODE_WAIT_MINUTES:g}",
        help="how long to wait for a node once none is left that a trial fits; then the sweep stops as after Ctrl-C "
        "(default: %(default)s)",
    )


def add_going_on(group: argparse._ArgumentGroup) -> None:
    """Flags that say what sweeps share, and how one that has stopped goes on."""
    group.add_argument("--resume", metavar="SWEEP", help="go on with a sweep, by its name in --storage or its folder")
    group.add_argument("--extend", metavar="N", default="0", help="with --resume: try N configurations more")
    group.add_argument("--retry-failed", action="store_true", help="with --resume: run what had failed once more")
    group.add_argument(
        "--no-reuse", action="store_true", help="share no stage and no trial, neither take nor leave any"
    )
    group.add_argument(
        "--keep-gb",
        metavar="G",
        default=f"{DEFAULT_KEEP_GB:g}",
        help="most gigabytes of finished stages, of all sweeps of the storage together (default: %(default)s); with 0 "
        "no stage is kept or taken, only whole trials are",
    )
    group.add_argument(
        "--keep-models",
        metavar="K",
        default=str(DEFAULT_KEEP_MODELS),
        help="trials whose weights stay: the K best by each task's score and overall (default: %(default)s)",
    )
    group.add_argument(
        "--checkpoint-steps",
        metavar="N",
        default=str(DEFAULT_CHECKPOINT_STEPS),
        help="optimizer steps between two saved states of a trial: most that a kill can cost (default: %(default)s)",
    )
