"""The command line of `sweeps/run.py`: its flags, help, exit codes, and the options that are given on it."""

import argparse
import functools
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields
from typing import Any, get_args

from mtlib.runtime.command_line import INTERRUPTED, SUCCESS, WRONG_USE, key_and_value, new_parser, number, whole_number
from mtlib.runtime.errors import require
from mtlib.runtime.program_names import DEFAULT_STORAGE, typed_command
from search_spaces.vary import unquoted
from sweeps.options import BEST_RACED, DEFAULT_TRIALS, MOST_RACED, Scheduler, Search, SweepOptions
from sweeps.plan.given_options import AUTO
from sweeps.tracking.tracker import TRACKERS

EXAMPLE_VALUES = {"--set": "1e-5", "--vary": "1e-5,1e-4"}

SWEEP_FAILED, SOME_FAILED, LIMIT_REACHED, CLAIM_EXCLUDED, CLAIM_OPEN = 1, 3, 4, 5, 6
"""Exit codes of this command alone."""


AddArgument = Callable[..., Any]
"""`add_argument` of a group of arguments, whose class argparse does not name."""


def build_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line. An argument has its option's name and default;
    `SweepOptions` checks ranges."""
    run, table = map(typed_command, ("run", "table"))
    usage = "--space NAME|FILE [--vary KEY=VALUES] [--data DIR] [--encoder NAME|DIR] [more below]"
    description = "Trains every configuration of a search space and ranks them."
    examples = f"""\
examples:
  a whole sweep on any machine, nothing downloaded: a demonstration corpus and a tiny encoder
    {run} --space smart_lambda
  what that would run: every configuration, its steps, disk and time; starts nothing
    {run} --space smart_lambda --dry-run
  your own data: tasks that DIR/tasks.toml defines (docs/tasks.md), or the files of CS224N or GLUE; on one GPU
    python -m mtlib.data DIR
    {run} --space smart_lambda --data DIR --encoder bert-base-uncased --gpus-per-worker 1
  two workers per trial, at most three trials at a time
    {run} --space smart_lambda --workers 2 --concurrent 3
  a search instead of the grid: 30 configurations, poor ones stopped early
    {run} --space smart_lambda --search tpe --trials 30 --scheduler asha
  a question of your own, in a file anywhere (see docs/searching.md); a copy is kept with the sweep
    {run} --space my_space.py --data DIR
  a quick question without a file: a list of values, or a range; --space is left out for a general base
    {run} --vary smart.weight=0,0.45,1 --data DIR
    {run} --vary optimizer.learning_rate=1e-5..1e-4:log --vary smart.weight=0,1 --trials 30
  which encoder: hub names or folders, each read with its own tokenizer
    {run} --vary encoder.name=bert-base-uncased,roberta-base,answerdotai/ModernBERT-base --data DIR
  another value of any setting, in every trial
    {run} --space smart_lambda --set optimizer.learning_rate=1e-5 --set stages.1.epochs=3
  a tenth of train held out from all trials, for an unbiased score of the selected ensemble
    {run} --space smart_lambda --hold-out 0.1
  after Ctrl-C, a crash or a power cut: finished trials stay, the rest continues from its last saved state
    {run} --resume NAME
  two hours today, the rest another day
    {run} --space smart_lambda --max-hours 2
    {run} --resume NAME --max-hours 2
  in a bucket; the rest on any other machine, with data and encoder from where they are there
    {run} --space smart_lambda --storage s3://bucket/sweeps
    {run} --resume s3://bucket/sweeps/NAME --data DIR --encoder DIR
  more replicates of a sweep that has finished
    {run} --resume NAME --replicates 3
  each configuration once, then the 8 best twice more
    {run} --space joint --search tpe --trials 60 --replicates 3 --replicate-best 8
  whether a claim holds, with the fewest trainings: exit code 0 if it is shown
    {run} --claim "smart.weight=1 beats smart.weight=0 by 0.005" --data DIR
  on a Ray cluster: from a machine of it, or from outside
    {run} --space smart_lambda --address auto
    ray job submit --address http://HEAD:8265 --working-dir . -- python sweeps/run.py --space smart_lambda

files: {DEFAULT_STORAGE}/NAME holds the sweep; print its ranking again with
    {table} {DEFAULT_STORAGE}/NAME

exit codes: {SUCCESS} all trials ended well, {SWEEP_FAILED} the sweep failed, {WRONG_USE} wrong use, \
{SOME_FAILED} some trials failed,
  {LIMIT_REACHED} a limit was reached, {INTERRUPTED} interrupted (Ctrl-C, SIGTERM, SIGHUP); of --claim also
  {SUCCESS} shown, {CLAIM_EXCLUDED} excluded, {CLAIM_OPEN} open
"""
    parser = new_parser(run, usage, description, examples, runs_methods=True)
    add_question(parser.add_argument_group("question").add_argument)
    add_search(parser.add_argument_group("search").add_argument)
    add_place(parser.add_argument_group("resources and storage").add_argument)
    add_resumption(parser.add_argument_group("reuse and resuming").add_argument)
    parser.set_defaults(**{item.name: item.default for item in fields(SweepOptions) if item.default is not MISSING})
    return parser


def add_question(add: AddArgument) -> None:
    """Flags for the space, the data and the encoder."""
    words = "search space: one of those that --list-spaces shows, or a Python file of your own, e.g. my_space.py"
    add("--space", metavar="NAME|FILE", help=words)
    words = "folder of the tasks' files, with tasks.toml or in a known layout (default: demonstration corpus)"
    add("--data", metavar="DIR", help=words)
    words = "hub name or local folder (default: the space's own, or a tiny one with the demonstration corpus)"
    add("--encoder", metavar="NAME|DIR", help=words)
    words = "a configuration value for every trial, e.g. optimizer.learning_rate=1e-5; may be repeated"
    add("--set", metavar="KEY=VALUE", action="extend", nargs="+", default=[], help=words)
    words = (
        "a quick question without a file: values of a key, e.g. smart.weight=0,0.45,1, or a range, e.g. "
        "optimizer.learning_rate=1e-5..1e-4:log, which is drawn by tpe; in place of what --space searches, or around "
        "a general base configuration; may be repeated; with --resume: the values of its grid and further ones"
    )
    add("--vary", metavar="KEY=VALUES", action="extend", nargs="+", default=[], help=words)
    words = (
        "train two configurations until it is shown or excluded that the first one scores higher, and by more than "
        "X: 'KEY=VALUE ... beats KEY=VALUE ... [by X] [in TASK]', or base in place of settings; in place of what "
        f"--space searches; --replicates is the most (default: {MOST_RACED})"
    )
    add("--claim", metavar="CLAIM", help=words)
    words = (
        "Python files with losses, heads, penalties, batch orders, gradient methods, metrics or selection methods of "
        "your own, for --set, --vary and the space to name (docs/extending.md); their text is kept with the sweep"
    )
    add("--methods", metavar="FILE", action="extend", nargs="+", default=[], help=words)
    add(
        "--hold-out",
        type=number,
        metavar="F",
        help="share of each task's train rows, at most 0.5, that no trial sees, for an unbiased score at the end; "
        "rows with a text in common stay together, and hold_out.json in the sweep's folder names them (default: 0)",
    )
    add("--dry-run", action="store_true", help="print configurations, steps, disk and time; start nothing")
    add("--list-spaces", action="store_true", help="print the search spaces and their questions")
    words = "print every key for --set and --vary with its base value, range and meaning, for the tasks of --data"
    add("--list-keys", action="store_true", help=words)


def add_search(add: AddArgument) -> None:
    """Flags for the search over configurations."""
    default = f"(default: {DEFAULT_TRIALS})"
    words = "gp: Gaussian process, for few, costly configurations (default: %(default)s, tpe with a range in --vary)"
    add("--search", metavar="|".join(get_args(Search)), help=words)
    add("--trials", type=whole_number, metavar="N", help=f"configurations to draw with tpe, gp or random {default}")
    add(
        "--replicates",
        type=whole_number,
        metavar="K",
        help="trainings of each configuration (default: %(default)s); with --resume: raised to K",
    )
    add(
        "--replicate-best",
        type=whole_number,
        metavar="B",
        help="train each configuration once, or as often as the resumed sweep has, and only the B best by dev score K "
        "times (default: all of them)",
    )
    words = (
        "after each round of replicates, train only configurations that may still be the best by more than MARGIN "
        "(default: 0), until one is left or no more rounds can decide; --replicates is the most (default: "
        f"{MOST_RACED}); of a search the --replicate-best B (default: {BEST_RACED})"
    )
    add("--until-decided", type=number, nargs="?", const=0.0, metavar="MARGIN", help=words)
    words = "asha stops the trials that lag behind (default: %(default)s)"
    add("--scheduler", metavar="|".join(get_args(Scheduler)), help=words)
    add("--seed", type=whole_number, metavar="S", help="seed of everything random (default: %(default)s)")


def add_place(add: AddArgument) -> None:
    """Flags for resources and folders."""
    add("--workers", type=whole_number, metavar="N", help="workers that train one trial (default: %(default)s)")
    add("--cpus-per-worker", type=whole_number, metavar="C", help="CPUs and threads of a worker (default: %(default)s)")
    words = "0, 1 or a part of a GPU (default: 1 if there is a GPU for each worker, here or on the cluster, else 0); "
    words += "auto: as many trials share a GPU as its memory holds, by a measured step"
    add("--gpus-per-worker", type=gpu_share, metavar="F|auto", help=words)
    add("--concurrent", type=whole_number, metavar="N", help="most trials at a time (default: as many as fit)")
    add("--name", metavar="NAME", help="name of the sweep (default: space, date and time)")
    words = "folder of all sweeps, or a URI of one, e.g. s3://bucket/sweeps (default: %(default)s)"
    add("--storage", metavar="DIR|URI", default=DEFAULT_STORAGE, help=words)
    words = f"trackers, separated by commas, that get each trial's curves and the answer: {', '.join(TRACKERS)}"
    add("--log-to", type=tracker_names, metavar="T,...", help=words)
    add("--address", metavar="ADDR", help="Ray cluster, e.g. auto (default: $RAY_ADDRESS, else this machine)")
    add(
        "--node-wait-minutes",
        type=number,
        metavar="M",
        help="how long to wait for a node once none is left that a trial fits; then the sweep stops as after Ctrl-C "
        "(default: %(default)g)",
    )
    words = "restart a trial's workers once they have reported nothing for M minutes (default: %(default)g)"
    add("--silent-minutes", type=number, metavar="M", help=words)
    words = "stop after H hours: running trials end after their next epoch, --resume runs what is left"
    add("--max-hours", type=number, metavar="H", help=words)
    words = "stop likewise after N optimizer steps, those of all trials that this command trains"
    add("--max-steps", type=whole_number, metavar="N", help=words)


def add_resumption(add: AddArgument) -> None:
    """Flags for what is kept and shared, and for resuming."""
    add("--resume", metavar="SWEEP", help="continue a sweep, by its name in --storage, its folder or its URI")
    add("--extend", type=whole_number, metavar="N", help="with --resume: N more configurations")
    add("--retry-failed", action="store_true", help="with --resume: run failed trials again")
    words = "with --resume: take the sweep from its driver at once, where you know that this is dead"
    add("--take-over", action="store_true", help=words)
    add("--no-reuse", dest="reuse", action="store_false", help="share no stage and no trial with others")
    add(
        "--keep-gb",
        type=number,
        metavar="G",
        help="most gigabytes of finished stages, of all sweeps of the storage together (default: %(default)g)"
        "; with 0 no stage is kept or taken, only whole trials are",
    )
    words = "trials whose weights stay: the K best by each task's score and overall (default: %(default)s)"
    add("--keep-models", type=whole_number, metavar="K", help=words)
    words = "optimizer steps between two saved states of a trial: most that a kill can cost (default: %(default)s)"
    add("--checkpoint-steps", type=whole_number, metavar="N", help=words)


def gpu_share(text: str) -> float | str:
    """Returns the value of --gpus-per-worker."""
    return AUTO if text == AUTO else number(text)


def tracker_names(text: str) -> tuple[str, ...]:
    """Returns the names in the value of --log-to."""
    return tuple(dict.fromkeys(filter(None, text.split(","))))


def given_options(parsed: argparse.Namespace) -> dict[str, Any]:
    """Returns the options on a parsed command line, for `read_options`; ValueError if one names no key and value."""
    readers: dict[str, Any] = {"set": read_settings, "vary": functools.partial(read_changes, "--vary")}
    return {name: readers[name](value) if name in readers else value for name, value in parsed.given.items()}


def read_settings(texts: Sequence[str]) -> dict[str, str]:
    """Values of --set as typed, by key."""
    return {key: unquoted(text) for key, text in read_changes("--set", texts).items()}


def read_changes(flag: str, texts: Sequence[str]) -> dict[str, str]:
    """Values of --set or --vary as typed, by key; ValueError if a key is there twice."""
    example = f"optimizer.learning_rate={EXAMPLE_VALUES[flag]}"
    changes = dict(key_and_value(flag, text, example) for text in texts)
    require(len(changes) == len(texts), f"{flag} must name each key once", " ".join(texts))
    return changes
