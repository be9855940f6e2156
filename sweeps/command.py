"""The command line of `sweeps/run.py`: its flags, its help by example, and one line for whatever is wrong."""

import argparse
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, get_args

from mtlib.schema import require, require_name
from mtlib.tasks import TASKS
from search_spaces.space import space_names
from sweeps.options import (
    DEFAULT_CHECKPOINT_STEPS,
    DEFAULT_KEEP_GB,
    DEFAULT_KEEP_MODELS,
    DEFAULT_TRIALS,
    Scheduler,
    Search,
    SweepOptions,
)

DEFAULT_STORAGE = "~/multitask-sweeps"

ALL_ENDED_WELL, SWEEP_FAILED, WRONG_USE, SOME_FAILED, INTERRUPTED = 0, 1, 2, 3, 130
"""Exit codes."""

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
  after Ctrl-C, a crash or a power cut: what was finished stays, the rest goes on from its last saved state
    python sweeps/run.py --resume NAME
  on a Ray cluster: from a machine of it, or from outside
    python sweeps/run.py --space smart_lambda --address auto
    ray job submit --address http://HEAD:8265 --working-dir . -- python sweeps/run.py --space smart_lambda

files: {DEFAULT_STORAGE}/NAME holds the sweep; print its ranking again with
    python results/table.py {DEFAULT_STORAGE}/NAME

exit codes: {ALL_ENDED_WELL} all trials ended well, {SWEEP_FAILED} the sweep failed, {WRONG_USE} wrong use, \
{SOME_FAILED} some trials failed, {INTERRUPTED} interrupted
"""


def build_parser() -> argparse.ArgumentParser:
    """The parser; values are checked by `SweepOptions`, so that a mistake reads the same wherever it is made."""
    parser = argparse.ArgumentParser(
        prog="python sweeps/run.py",
        usage="%(prog)s --space NAME [--data DIR] [--encoder NAME|DIR] [more below]",
        description="Trains every configuration of a search space and ranks them.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        exit_on_error=False,
    )
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
        help="most gigabytes of finished stages, of all sweeps of the storage together (default: %(default)s)",
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


def read_command(arguments: Sequence[str]) -> argparse.Namespace:
    """Takes the words of a command line apart.

    Returns:
        The value of every flag, and `said`: those that were given.

    Raises:
        ValueError: an unknown flag (the nearest right one is named), or a flag without its value.
        SystemExit: with code 0, after --help.
    """
    parser = build_parser()
    try:
        found, extra = parser.parse_known_args(arguments)
    except argparse.ArgumentError as error:
        raise ValueError(f"{error.argument_name}: {error.message}") from error
    for word in extra:
        if word.startswith("-"):
            flags = [flag for action in parser._actions for flag in action.option_strings]
            require_name(word.split("=")[0], flags, "flag")
        raise ValueError(f"every value must follow its flag, got '{word}' (see --help)")
    words = {word.split("=")[0] for word in arguments}
    found.said = frozenset(action.dest for action in parser._actions if words.intersection(action.option_strings))
    return found


def read_options(found: argparse.Namespace, now: datetime, default_address: str | None) -> SweepOptions:
    """The options of a command line.

    Args:
        found: what `read_command` returned.
        now: time for the default name.
        default_address: Ray cluster that is used if no other is named; None for this machine.

    Raises:
        ValueError: a value is missing or wrong.
    """
    if found.resume is not None:
        return read_resumption(found, default_address)
    for name, flag in (("extend", "--extend"), ("retry_failed", "--retry-failed")):
        require(name not in found.said, f"{flag} must come with --resume SWEEP", "none")
    if not found.space:
        raise ValueError(f"--space must name a search space, got none; known: {', '.join(space_names())}")
    require_name(found.space, space_names(), "search space")
    storage, mirror = split_storage(found.storage)
    return SweepOptions(
        space=found.space,
        data=None if found.data is None else read_folder_name("--data", found.data),
        encoder=None if found.encoder is None else read_encoder_name(found.encoder),
        workers=read_whole("--workers", found.workers),
        cpus_per_worker=read_whole("--cpus-per-worker", found.cpus_per_worker),
        gpus_per_worker=read_number("--gpus-per-worker", found.gpus_per_worker),
        concurrent=None if found.concurrent is None else read_whole("--concurrent", found.concurrent),
        search=found.search,
        trials=None if found.trials is None else read_whole("--trials", found.trials),
        replicates=read_whole("--replicates", found.replicates),
        scheduler=found.scheduler,
        name=f"{found.space}-{now:%Y%m%d-%H%M%S}" if found.name is None else found.name,
        storage=storage,
        mirror=mirror,
        seed=read_whole("--seed", found.seed),
        changes=dict(read_change(text) for text in found.set),
        address=found.address or default_address,
        reuse=not found.no_reuse,
        keep_gb=read_number("--keep-gb", found.keep_gb),
        keep_models=read_whole("--keep-models", found.keep_models),
        checkpoint_steps=read_whole("--checkpoint-steps", found.checkpoint_steps),
        dry_run=found.dry_run,
    )


def read_resumption(found: argparse.Namespace, default_address: str | None) -> SweepOptions:
    """The options of a sweep that goes on: its own, with what the command line says anew."""
    from sweeps.resume import check_alone, find_folder, read_saved_options

    check_alone(found)
    folder = find_folder(found.resume, split_storage(found.storage)[0])
    readers: dict[str, Callable[[str, str], Any]] = {
        "concurrent": read_whole,
        "keep_gb": read_number,
        "keep_models": read_whole,
        "checkpoint_steps": read_whole,
    }
    said = {name: read for name, read in readers.items() if name in found.said}
    own = {name: read(f"--{name.replace('_', '-')}", getattr(found, name)) for name, read in said.items()}
    own |= {"extend": read_whole("--extend", found.extend), "retry_failed": found.retry_failed}
    return read_saved_options(folder, {**own, "address": found.address or default_address, "dry_run": found.dry_run})


def split_storage(text: str) -> tuple[Path, str | None]:
    """The local folder, and the URI that receives copies if `text` is one."""
    uri = text if "://" in text else None
    return Path(DEFAULT_STORAGE if uri else text).expanduser().resolve(), uri


def read_folder_name(flag: str, text: str) -> Path:
    """An existing folder as an absolute path."""
    folder = Path(text).expanduser().resolve()
    if not folder.is_dir():
        raise ValueError(f"{flag} must be a folder that exists, got '{text}'")
    return folder


def read_encoder_name(text: str) -> str:
    """A hub name as it is, a local folder as an absolute path."""
    if Path(text).expanduser().is_dir():
        return str(Path(text).expanduser().resolve())
    if text.startswith((".", "/", "~")) or text.count("/") > 1:
        raise ValueError(f"--encoder must be a hub name or a folder that exists, got '{text}'")
    return text


def read_whole(flag: str, text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise ValueError(f"{flag} must be a whole number, got '{text}'") from error


def read_number(flag: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise ValueError(f"{flag} must be a number, got '{text}'") from error


def read_change(text: str) -> tuple[str, str]:
    """`KEY=VALUE` as key and value."""
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise ValueError(f"--set must be KEY=VALUE, e.g. optimizer.learning_rate=1e-5, got '{text}'")
    return key.strip(), value.strip()
