"""Reads the command line of `sweeps/run.py`; whatever is wrong with it is one line."""

import argparse
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from mtlib.data.file_suggestions import near_folder
from mtlib.errors import require, require_name
from mtlib.model.hub import read_encoder_name
from results.cli.parsing import read_words
from search_spaces.space import space_names
from sweeps.cli.flags import DEFAULT_STORAGE, build_parser
from sweeps.options import SweepOptions


def read_command(arguments: Sequence[str]) -> argparse.Namespace:
    """Takes the words of a command line apart.

    Returns:
        The value of every flag, and `said`: those that were given.

    Raises:
        ValueError: an unknown flag (the nearest right one is named), or a flag without its value.
        SystemExit: with code 0, after --help.
    """
    return read_words(build_parser(), arguments)


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
        node_wait_minutes=read_number("--node-wait-minutes", found.node_wait_minutes),
        hold_out=read_number("--hold-out", found.hold_out),
        dry_run=found.dry_run,
    )


def read_resumption(found: argparse.Namespace, default_address: str | None) -> SweepOptions:
    """The options of a sweep that goes on: its own, with what the command line says anew."""
    from sweeps.resume.resume import check_alone, find_sweep_folder, read_saved_options

    check_alone(found)
    folder = find_sweep_folder(found.resume, split_storage(found.storage)[0])
    readers: dict[str, Callable[[str, str], Any]] = {
        "concurrent": read_whole,
        "keep_gb": read_number,
        "keep_models": read_whole,
        "checkpoint_steps": read_whole,
        "node_wait_minutes": read_number,
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
        raise ValueError(f"{flag} must be a folder that exists, got '{text}'{near_folder(folder)}")
    return folder


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
