"""The command line of `sweeps/run.py`: its flags, help, exit codes, and the options that it stands for."""

import argparse
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any, get_args

from mtlib.config.methods import read_methods
from mtlib.data.file_suggestions import near_folder
from mtlib.data.load import data_tasks
from mtlib.model.hub import read_encoder_name
from mtlib.runtime.command_line import INTERRUPTED, SUCCESS, WRONG_USE, key_and_value, new_parser, number, whole_number
from mtlib.runtime.errors import require
from mtlib.runtime.program_names import DEFAULT_STORAGE, typed_command
from mtlib.runtime.storage import absolute_location, check_answer, check_location, expanded_path, is_uri, join_location
from search_spaces.space import space_names
from search_spaces.space_file import find_space, resolve_name
from search_spaces.vary import NAME, is_range, split_values, unquoted, with_further
from sweeps.cluster.ray_settings import set_driver_variables
from sweeps.options import BEST_RACED, DEFAULT_TRIALS, ENCODER_KEY, MOST_RACED, Scheduler, Search, SweepOptions
from sweeps.tracking.tracker import TRACKERS, check_trackers

AUTO = "auto"
EXAMPLE_VALUES = {"--set": "1e-5", "--vary": "1e-5,1e-4"}

SWEEP_FAILED, SOME_FAILED, LIMIT_REACHED = 1, 3, 4
"""Exit codes of this command alone."""

CHANGEABLE_OPTIONS = (
    "data",
    "encoder",
    "concurrent",
    "keep_gb",
    "keep_models",
    "checkpoint_steps",
    "node_wait_minutes",
    "silent_minutes",
    "log_to",
    "max_hours",
    "max_steps",
    "extend",
    "replicates",
    "replicate_best",
    "until_decided",
    "retry_failed",
    "vary",
)
"""Options, besides `--storage` and `--address`, that --resume may change; data and encoder only by their place, the
grid of --vary only by further values."""


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
  on a Ray cluster: from a machine of it, or from outside
    {run} --space smart_lambda --address auto
    ray job submit --address http://HEAD:8265 --working-dir . -- python sweeps/run.py --space smart_lambda

files: {DEFAULT_STORAGE}/NAME holds the sweep; print its ranking again with
    {table} {DEFAULT_STORAGE}/NAME

exit codes: {SUCCESS} all trials ended well, {SWEEP_FAILED} the sweep failed, {WRONG_USE} wrong use, \
{SOME_FAILED} some trials failed,
  {LIMIT_REACHED} a limit was reached, {INTERRUPTED} interrupted
"""
    parser = new_parser(run, usage, description, examples)
    add_question(parser.add_argument_group("question"))
    add_search(parser.add_argument_group("search"))
    add_place(parser.add_argument_group("resources and storage"))
    add_resumption(parser.add_argument_group("reuse and resuming"))
    parser.set_defaults(**{item.name: item.default for item in fields(SweepOptions) if item.default is not MISSING})
    return parser


def add_question(group: argparse._ArgumentGroup) -> None:
    """Flags for the space, the data and the encoder."""
    add = group.add_argument
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


def add_search(group: argparse._ArgumentGroup) -> None:
    """Flags for the search over configurations."""
    add, default = group.add_argument, f"(default: {DEFAULT_TRIALS})"
    add("--search", metavar="|".join(get_args(Search)), help="default: %(default)s, tpe with a range in --vary")
    add("--trials", type=whole_number, metavar="N", help=f"configurations to draw with tpe or random {default}")
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


def add_place(group: argparse._ArgumentGroup) -> None:
    """Flags for resources and folders."""
    add = group.add_argument
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


def add_resumption(group: argparse._ArgumentGroup) -> None:
    """Flags for what is kept and shared, and for resuming."""
    add = group.add_argument
    add("--resume", metavar="SWEEP", help="continue a sweep, by its name in --storage, its folder or its URI")
    add("--extend", type=whole_number, metavar="N", help="with --resume: N more configurations")
    add("--retry-failed", action="store_true", help="with --resume: run failed trials again")
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


def find_options(
    arguments: argparse.Namespace, default_address: str | None, cluster: contextlib.ExitStack
) -> SweepOptions:
    """`read_options` now; without --gpus-per-worker, a new sweep gets the GPUs that there are.

    A cluster is connected to until `cluster` is closed.

    Raises:
        ValueError: as `read_options`, a tracker's package is missing, or there is no cluster at the address.
    """
    options = read_options(arguments, datetime.now(), default_address)
    check_trackers(options.log_to)
    if options.address is not None and not options.dry_run:
        set_driver_variables()
        from sweeps.cluster.connection import connected_to_ray  # here: --help answers at once

        cluster.enter_context(connected_to_ray(options.address))
    if options.resume or "--gpus-per-worker" in arguments.given:
        return options
    from sweeps.plan.machine_checks import use_gpus  # here: --help answers at once

    return use_gpus(options)


def read_options(arguments: argparse.Namespace, now: datetime, default_address: str | None) -> SweepOptions:
    """Returns the options of a parsed command line; ValueError if a value is missing or wrong.

    `now` is in the default name. `default_address` is the cluster without --address; None or `local` is this machine.
    """
    address = arguments.address or default_address
    address = None if address == "local" else address
    storage = read_storage(arguments.storage)
    if "--resume" in arguments.given:
        return read_resumption(arguments, storage, address)
    for flag in ("--extend", "--retry-failed"):
        require(flag not in arguments.given, f"{flag} must come with --resume SWEEP", "none")
    varied = read_varied(arguments.vary)
    if not (arguments.space or varied):
        known = ", ".join(space_names())
        raise ValueError(
            f"--space must name a search space, got none; known: {known}; or name a key and values by --vary"
        )
    if ENCODER_KEY in varied:  # workers, and later commands, run in other folders
        encoders = [read_encoder_name(name, f"--vary {ENCODER_KEY}") for name in split_values(varied[ENCODER_KEY])]
        varied[ENCODER_KEY] = ",".join(encoders)
    space = resolve_name(arguments.space) if arguments.space else None
    data = None if arguments.data is None else check_data_folder(arguments.data)
    changes = read_settings(arguments.set)
    files = tuple(str(expanded_path(path).resolve()) for path in arguments.methods)
    methods = read_methods(files)
    tasks = data_tasks(data, methods.own_metrics)
    space_name = NAME if space is None else find_space(space, tasks, changes, methods)[0].name
    has_range = any(map(is_range, varied.values()))
    derived = {
        "space": space,
        "vary": varied,
        "methods": files,
        "search": "tpe" if has_range and "--search" not in arguments.given else arguments.search,
        "data": data,
        "encoder": None if arguments.encoder is None else read_encoder_name(arguments.encoder),
        "name": f"{NAME if varied else space_name}-{now:%Y%m%d-%H%M%S}" if arguments.name is None else arguments.name,
        "storage": storage,
        "set": changes,
        "address": address,
        "gpus_per_worker": 1.0 if arguments.gpus_per_worker == AUTO else arguments.gpus_per_worker,
        "packs_gpus": arguments.gpus_per_worker == AUTO,
    }
    if arguments.until_decided is not None:
        derived |= race_defaults(arguments.given, derived["search"])
    names = {field.name for field in fields(SweepOptions)}
    return SweepOptions(**{name: value for name, value in vars(arguments).items() if name in names} | derived)


def read_resumption(arguments: argparse.Namespace, storage: str, address: str | None) -> SweepOptions:
    """Returns the saved options of a resumed sweep, as the command line changes them;
    ValueError for a flag that may not."""
    from sweeps.driver.resume import read_saved_options

    for flag, name in sorted(arguments.given.items()):
        rule = f"{flag} must be left out with --resume, which continues the sweep as it began"
        rule += f" ({typed_command('status')} NAME shows what is left)" if name == "dry_run" else ""
        value, allowed = getattr(arguments, name), (*CHANGEABLE_OPTIONS, "resume", "storage", "address")
        require(name in allowed, rule, flag if isinstance(value, bool) else value)
    changes = {name: getattr(arguments, name) for name in arguments.given.values() if name in CHANGEABLE_OPTIONS}
    folder = find_sweep_folder(arguments.resume, storage)
    begun = read_saved_options(folder, {})
    rule = "--replicates must not be lowered with --resume, as what was trained stays"
    require(changes.get("replicates", begun.replicates) >= begun.replicates, rule, changes.get("replicates"))
    if "until_decided" in changes and begun.until_decided is None:
        changes = race_defaults(arguments.given, begun.search) | changes
        changes["replicates"] = max(changes["replicates"], begun.replicates)
        if begun.replicate_best is not None and "--replicate-best" not in arguments.given:
            changes["replicate_best"] = begun.replicate_best
    if "vary" in changes:
        changes |= add_values(begun, changes["vary"])
    if "replicate_best" in changes and begun.replicate_best is None:
        changes["chosen_by"] = begun.common_replicates
    if "data" in changes:
        changes["data"] = check_data_folder(changes["data"])
    if "encoder" in changes:
        changes["encoder"] = read_encoder_name(changes["encoder"])
    return replace(begun, **changes, address=address)


def add_values(begun: SweepOptions, words: Sequence[str]) -> dict[str, Any]:
    """Returns the options of a resumed sweep whose grid gets the further values of --vary, `words` as typed.

    Raises:
        ValueError: the sweep has no grid of --vary, or `words` lack a value of it or have another key.
    """
    given, is_grid = read_varied(words), begun.search == "grid" and bool(begun.vary)
    grid = " ".join(f"{key}={text}" for key, text in begun.vary.items())
    kept = f"the grid ({grid})" if is_grid else "a grid that --vary began, which this sweep lacks,"
    rule = f"--vary with --resume must keep all values of {kept} and may add others"
    way = "; begin a new sweep (--name NEW) for anything else: it reuses the trials that have finished"
    wider = {key: with_further(begun.vary[key], text) for key, text in given.items() if is_grid and key in begun.vary}
    can_grow = len(wider) == len(given) and None not in wider.values() and ENCODER_KEY not in given
    require(can_grow, rule, f"{' '.join(words)}{way}")
    varied = {**begun.vary, **wider}
    smaller = () if varied == begun.vary else (begun.vary,)
    return {"vary": varied, "smaller_grids": (*begun.smaller_grids, *smaller)}


def find_sweep_folder(name: str, storage: str) -> str:
    """Returns the folder of the sweep called `name`, in the storage, or by its path or URI;
    ValueError if there is none."""
    from results.records.trials import read_sweep  # here: --help answers at once

    check_answer(name)
    is_place = is_uri(name) or len(expanded_path(name).parts) > 1
    folder = absolute_location(name) if is_place else join_location(storage, name)
    read_sweep(folder)
    return folder


def race_defaults(given: Mapping[str, str], search: str) -> dict[str, int]:
    """Options of a race whose flags were not given."""
    most = {} if "--replicates" in given else {"replicates": MOST_RACED}
    return most if search == "grid" or "--replicate-best" in given else {**most, "replicate_best": BEST_RACED}


def read_storage(text: str) -> str:
    """Returns the folder of --storage, as an absolute path or URI; ValueError as `check_location`."""
    try:
        check_location(text)
    except ValueError as error:
        raise ValueError(f"--storage must be a folder, or a URI such as s3://bucket/sweeps: {error}") from None
    return absolute_location(text)


def check_data_folder(text: str) -> Path:
    """Returns the folder of --data, which must exist, as an absolute path."""
    folder = expanded_path(text).resolve()
    if not folder.is_dir():
        raise ValueError(f"--data must be a folder that exists, got '{text}'{near_folder(folder)}")
    return folder


def read_settings(texts: Sequence[str]) -> dict[str, str]:
    """Values of --set as typed, by key."""
    return {key: unquoted(text) for key, text in read_changes("--set", texts).items()}


def read_varied(texts: Sequence[str]) -> dict[str, str]:
    """Values of --vary as typed, by key."""
    varied = read_changes("--vary", texts)
    require(len(varied) == len(texts), "--vary must name each key once", " ".join(texts))
    return varied


def read_changes(flag: str, texts: Sequence[str]) -> dict[str, str]:
    """`KEY=VALUE` texts as values by key; of a key that is there twice the last value."""
    example = f"optimizer.learning_rate={EXAMPLE_VALUES[flag]}"
    return dict(key_and_value(flag, text, example) for text in texts)
