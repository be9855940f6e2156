"""The command line: every flag, and every mistake as one line."""

import argparse
import dataclasses
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from mtlib.runtime.command_line import parse_words
from results.records.trials import write_sweep
from sweeps.cli.arguments import build_parser, find_sweep_folder, read_options
from sweeps.options import BEST_RACED, MOST_RACED, SweepOptions, saved_options
from tests.sweeps.conftest import UNUSUAL_OPTIONS

NOW = datetime(2025, 3, 7, 14, 15, 3)


def parse(*words: str) -> argparse.Namespace:
    return parse_words(build_parser(), words)


def read(*arguments: str) -> SweepOptions:
    return read_options(parse(*arguments), NOW, None)


def test_every_flag_reaches_its_option(tmp_path: Path) -> None:
    methods = tmp_path / "mine.py"
    methods.write_text("from mtlib.metrics.table import METRICS as ALL\nMETRICS = {'another': ALL['accuracy']}\n")
    options = read(
        *("--space", "smart_lambda", "--data", str(tmp_path), "--encoder", "roberta-base", "--workers", "2"),
        *("--cpus-per-worker", "3", "--gpus-per-worker", "1", "--concurrent", "4", "--search", "tpe", "--trials", "9"),
        *(
            "--replicates",
            "5",
            "--until-decided",
            "0.01",
            "--replicate-best",
            "3",
            "--scheduler",
            "asha",
            "--name",
            "mine",
            "--storage",
            str(tmp_path / "s"),
        ),
        *(
            "--seed",
            "6",
            "--set",
            "smart.mode=paper",
            "--address",
            "auto",
            "--dry-run",
            "--vary",
            "smart.num_steps=1,2",
            "--methods",
            str(methods),
        ),
        *("--log-to", "tensorboard,wandb"),
        *("--hold-out", "0.2", "--no-reuse", "--keep-gb", "0.5", "--keep-models", "2", "--checkpoint-steps", "7"),
        *("--node-wait-minutes", "3", "--silent-minutes", "5", "--max-hours", "1.5", "--max-steps", "900"),
    )
    of_resumed = {"chosen_by": 1, "smaller_grids": ()}  # only a resumed sweep has others
    own = UNUSUAL_OPTIONS | {"methods": (str(methods),)} | of_resumed
    assert options == SweepOptions(data=tmp_path, storage=f"{tmp_path}/s", **own)


def test_range_makes_tpe_the_default_search() -> None:
    words = ("--vary", "smart.weight=0,1", "--vary", "optimizer.learning_rate=1e-5..1e-4:log")
    assert (read(*words).search, read(*words, "--trials", "7").trials) == ("tpe", 7)
    assert read(*words, "--search", "random").search == "random"
    assert read(*words, "--search", "grid").search == "grid"


def test_relative_and_home_folders_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    options = read("--space", "smart_lambda", "--data", "data", "--encoder", "data", "--storage", "sweeps")
    assert (options.data, options.encoder) == (tmp_path / "data", str(tmp_path / "data"))
    assert options.storage == f"{tmp_path}/sweeps"
    assert read("--space", "smart_lambda", "--storage", "~/here").storage == str(Path.home().resolve() / "here")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], r"--space must name a search space, got none; known: .*smart_lambda"),
        (["--space", "smart_lamda"], r"unknown search space 'smart_lamda'; did you mean 'smart_lambda'\?"),
        (["--space"], r"--space: expected one argument"),
        (["--wokers", "2"], r"unknown flag '--wokers'; did you mean '--workers'\?"),
        (["smart_lambda"], r"every value must follow its flag, got 'smart_lambda'"),
        (["--space", "smart_lambda", "--workers", "two"], r"--workers must be a whole number, got 'two'"),
        (["--space", "smart_lambda", "--gpus-per-worker", "x"], r"--gpus-per-worker must be a number, got 'x'"),
        (["--space", "joint", "--gpus-per-worker", "auto", "--workers", "2"], "auto must come with one worker, .*"),
        (["--space", "smart_lambda", "--set", "a"], r"--set must be KEY=VALUE, e\.g\. .*, got 'a'"),
        (["--space", "smart_lambda", "--set", "=1"], r"--set must be KEY=VALUE"),
        (["--vary", "smart.weight"], r"--vary must be KEY=VALUE, e\.g\. optimizer.learning_rate=1e-5,1e-4, got 'smart"),
        (["--vary", "a=1,2", "a=3,4"], r"--vary must name each key once, got a=1,2 a=3,4"),
        (
            ["--space", "smart_lambda", "--storage", "s3:/bucket/sweeps"],
            r"--storage must be a folder, or a URI such as s3://.*: .* two slashes .*, got s3:/bucket/sweeps$",
        ),
        (["--resume", "s3:/bucket/sweeps/NAME"], r"a URI must have two slashes .*, got s3:/bucket/sweeps/NAME$"),
        (["--space", "smart_lambda", "--data", "/no/such"], r"--data must be a folder that exists, got '/no/such'$"),
        (
            ["--space", "smart_lambda", "--encoder", "./no"],
            r"--encoder must be a hub name or a folder that exists, got './no'",
        ),
        (["--space", "smart_lambda", "--seed", "-1"], r"--seed must be at least 0, got -1"),
    ],
)
def test_mistake_is_one_line(arguments: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        read(*arguments)
    assert "\n" not in str(raised.value)


def test_every_example_in_the_help_is_valid(tmp_path: Path) -> None:
    lines = [line.strip() for line in build_parser().format_help().splitlines()]
    commands = [line.partition("run.py ")[2] for line in lines if "sweeps/run.py --space smart_lambda" in line]
    assert len(commands) >= 7
    for command in (command for command in commands if "s3://" not in command):
        assert read(*command.replace("DIR", str(tmp_path)).split()).space == "smart_lambda"


@pytest.fixture
def stored_sweep(tmp_path: Path) -> SweepOptions:
    """A stored sweep with options of its own."""
    options = SweepOptions(
        space="smart_lambda",
        name="mine",
        storage=str(tmp_path),
        search="tpe",
        trials=4,
        concurrent=3,
        keep_gb=5,
        seed=8,
        hold_out=0.2,
    )
    write_sweep(options.folder, {"options": saved_options(options)})
    return options


def test_resumed_sweep_keeps_its_options(stored_sweep: SweepOptions) -> None:
    by_name = read("--resume", "mine", "--storage", str(stored_sweep.storage))
    assert by_name == dataclasses.replace(stored_sweep, resume=True)
    assert read("--resume", str(stored_sweep.folder)) == by_name


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        (["--concurrent", "1"], {"concurrent": 1}),
        (["--keep-gb", "0.25"], {"keep_gb": 0.25}),
        (["--keep-models", "4"], {"keep_models": 4}),
        (["--checkpoint-steps", "9"], {"checkpoint_steps": 9}),
        (["--node-wait-minutes", "0.5"], {"node_wait_minutes": 0.5}),
        (["--silent-minutes", "2"], {"silent_minutes": 2.0}),
        (["--max-hours", "2", "--max-steps", "50"], {"max_hours": 2.0, "max_steps": 50}),
        (["--extend", "6"], {"extend": 6}),
        (["--retry-failed"], {"retry_failed": True}),
        (["--address", "auto"], {"address": "auto"}),
    ],
)
def test_some_options_can_be_replaced_when_resuming(
    stored_sweep: SweepOptions, words: list[str], changes: dict[str, Any]
) -> None:
    options = read("--resume", str(stored_sweep.folder), *words)
    assert options == dataclasses.replace(stored_sweep, resume=True, **changes)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--resume", "other"], r"other is no sweep folder: it does not exist"),
        (["--resume"], r"--resume: expected one argument"),
        (["--resume", "mine", "--seed", "8"], r"--seed must be left out with --resume, .*, got 8"),
        (["--resume", "mine", "--hold-out", "0.2"], r"--hold-out must be left out with --resume, .*, got 0.2"),
        (["--resume", "mine", "--no-reuse"], r"--no-reuse must be left out with --resume, .*, got --no-reuse$"),
        (["--resume", "mine", "--dry-run"], r"--dry-run must be left out .* \(python sweeps/status\.py NAME shows "),
        (["--resume", "mine", "--space", "smart_lambda"], r"--space must be left out with --resume"),
        (["--resume", "mine", "--extend", "-1"], r"--extend must be at least 0, got -1"),
        (["--resume", "mine", "--checkpoint-steps", "0"], r"--checkpoint-steps must be at least 1, got 0"),
        (["--resume", "mine", "--silent-minutes", "0"], r"--silent-minutes must be above 0, got 0"),
        (["--resume", "mine", "--node-wait-minutes", "-1"], r"--node-wait-minutes must be at least 0, got -1"),
    ],
)
def test_mistake_in_resuming_is_one_line(stored_sweep: SweepOptions, words: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        read(*words, "--storage", str(stored_sweep.storage))
    assert "\n" not in str(raised.value)


def test_replicates_can_be_raised_and_not_lowered(tmp_path: Path) -> None:
    options = SweepOptions(space="smart_lambda", name="grid", storage=str(tmp_path), replicates=3)
    write_sweep(options.folder, {"options": saved_options(options)})
    assert read("--resume", str(options.folder)).replicates == 3
    assert read("--resume", str(options.folder), "--replicates", "3").replicates == 3
    assert read("--resume", str(options.folder), "--replicates", "9").replicates == 9
    with pytest.raises(ValueError, match=r"^--replicates must not be lowered with --resume.*, got 2$"):
        read("--resume", str(options.folder), "--replicates", "2")


@pytest.mark.parametrize(
    ("words", "margin", "replicates", "best"),
    [
        ([], 0.0, MOST_RACED, None),
        (["0.01", "--replicates", "6"], 0.01, 6, None),
        (["--search", "tpe"], 0.0, MOST_RACED, BEST_RACED),
        (["--search", "tpe", "--replicate-best", "3"], 0.0, MOST_RACED, 3),
    ],
)
def test_race_has_defaults_for_its_rounds_and_of_a_search_for_those_that_are_raced(
    words: list[str], margin: float, replicates: int, best: int | None
) -> None:
    options = read("--space", "smart_lambda", "--until-decided", *words)
    assert (options.until_decided, options.replicates, options.replicate_best) == (margin, replicates, best)


def test_sweep_can_become_a_race_when_it_is_resumed(tmp_path: Path) -> None:
    options = SweepOptions(space="smart_lambda", name="grid", storage=str(tmp_path), replicates=3)
    write_sweep(options.folder, {"options": saved_options(options)})
    raced = read("--resume", str(options.folder), "--until-decided")
    assert (raced.until_decided, raced.replicates) == (0.0, MOST_RACED)
    write_sweep(options.folder, {"options": saved_options(raced)})
    again = read("--resume", str(options.folder), "--replicates", "30")
    assert (again.until_decided, again.replicates) == (0.0, 30)
    assert read("--resume", str(options.folder)) == replace(raced, resume=True)
    best = read("--resume", str(options.folder), "--replicates", "30", "--replicate-best", "2")
    assert best.chosen_by == 1, "the trainings that every configuration of a race has"


def stored_grid(storage: Path, **own: Any) -> SweepOptions:
    """A stored sweep over a grid of two keys."""
    vary = {"optimizer.learning_rate": "1e-5,1e-4", "smart.weight": "0,1"}
    options = SweepOptions(**{"vary": vary, "name": "grid", "storage": str(storage), **own})
    write_sweep(options.folder, {"options": saved_options(options)})
    return options


def test_values_can_be_added_to_a_grid_again_and_again(tmp_path: Path) -> None:
    begun = stored_grid(tmp_path)
    wider = read("--resume", str(begun.folder), "--vary", "optimizer.learning_rate=3e-5,1e-5,1e-4")
    assert wider.vary == {"optimizer.learning_rate": "1e-5,1e-4,3e-5", "smart.weight": "0,1"}
    assert wider.smaller_grids == (begun.vary,)
    write_sweep(begun.folder, {"options": saved_options(wider)})
    assert read("--resume", str(begun.folder)) == replace(wider, resume=True)
    same = read("--resume", str(begun.folder), "--vary", "optimizer.learning_rate=0.00001,3e-5,1e-4")
    assert same == replace(wider, resume=True), "what is typed again adds nothing"
    widest = read("--resume", str(begun.folder), "--vary", "smart.weight=0,1,3")
    assert widest.smaller_grids == (begun.vary, wider.vary)


@pytest.mark.parametrize(
    ("own", "given"),
    [
        ({}, "smart.weight=1,3"),
        ({}, "smart.weight=0..1"),
        ({}, "smart.num_steps=1,2"),
        ({"vary": {"encoder.name": "a,b"}}, "encoder.name=a,b,c"),
        ({"search": "tpe"}, "smart.weight=0,1,3"),
        ({"vary": {}, "space": "smart_lambda"}, "smart.weight=0,1,3"),
    ],
)
def test_grid_that_loses_or_changes_anything_is_refused_with_the_way_out(
    tmp_path: Path, own: dict[str, Any], given: str
) -> None:
    options = stored_grid(tmp_path, **own)
    with pytest.raises(ValueError, match=r"--vary with --resume must keep .*--name NEW") as raised:
        read("--resume", str(options.folder), "--vary", given)
    assert f"got {given}" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("begun", [1, 3])
def test_best_of_a_resumed_sweep_are_chosen_by_the_trainings_that_all_have(begun: int, tmp_path: Path) -> None:
    options = SweepOptions(space="smart_lambda", name="grid", storage=str(tmp_path), replicates=begun)
    write_sweep(options.folder, {"options": saved_options(options)})
    changed = read("--resume", str(options.folder), "--replicates", "9", "--replicate-best", "4")
    assert (changed.replicates, changed.replicate_best, changed.chosen_by) == (9, 4, begun)
    write_sweep(options.folder, {"options": saved_options(changed)})
    again = read("--resume", str(options.folder), "--replicates", "12", "--replicate-best", "2")
    assert (again.replicates, again.replicate_best, again.chosen_by) == (12, 2, begun)


def test_sweep_is_found_by_name_or_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage, nowhere = f"{tmp_path}/storage", f"{tmp_path}/nowhere"
    folder = f"{storage}/mine"
    write_sweep(folder, {})
    assert find_sweep_folder("mine", storage) == folder
    assert find_sweep_folder(folder, nowhere) == folder
    assert find_sweep_folder(f"{folder}/", nowhere) == folder
    monkeypatch.chdir(tmp_path)
    assert find_sweep_folder("storage/mine", nowhere) == folder
