"""The command line: every flag, every mistake in one line."""

import argparse
from datetime import datetime
from pathlib import Path

import pytest

from sweeps.command import build_parser, read_command, read_options
from sweeps.options import SweepOptions

NOW = datetime(2025, 3, 7, 14, 15, 3)


def read(*arguments: str) -> SweepOptions:
    return read_options(read_command(arguments), NOW, None)


def test_only_a_space_is_needed() -> None:
    options = read("--space", "smart_lambda")
    assert options == SweepOptions(
        space="smart_lambda",
        name="smart_lambda-20250307-141503",
        storage=Path.home().resolve() / "multitask-sweeps",
    )


def test_every_flag_reaches_its_option(tmp_path: Path) -> None:
    options = read(
        *("--space", "smart_lambda", "--data", str(tmp_path), "--encoder", "roberta-base", "--workers", "2"),
        *("--cpus-per-worker", "3", "--gpus-per-worker", "1", "--concurrent", "4", "--search", "tpe", "--trials", "9"),
        *("--replicates", "5", "--scheduler", "asha", "--name", "mine", "--storage", str(tmp_path / "s")),
        *("--seed", "6", "--set", "smart.mode=paper", "--address", "auto", "--dry-run"),
    )
    assert options == SweepOptions(
        space="smart_lambda",
        data=tmp_path,
        encoder="roberta-base",
        workers=2,
        cpus_per_worker=3,
        gpus_per_worker=1.0,
        concurrent=4,
        search="tpe",
        trials=9,
        replicates=5,
        scheduler="asha",
        name="mine",
        storage=tmp_path / "s",
        seed=6,
        changes={"smart.mode": "paper"},
        address="auto",
        dry_run=True,
    )


def test_set_may_be_repeated_or_take_several_values_and_the_last_one_wins() -> None:
    options = read("--space", "smart_lambda", "--set", "a=1", "b.c=x=y", "--set", "d=[1, 2]", "--set", "a=2")
    assert options.changes == {"a": "2", "b.c": "x=y", "d": "[1, 2]"}


def test_relative_and_home_folders_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    options = read("--space", "smart_lambda", "--data", "data", "--encoder", "data", "--storage", "sweeps")
    assert (options.data, options.encoder) == (tmp_path / "data", str(tmp_path / "data"))
    assert options.storage == tmp_path / "sweeps"
    assert read("--space", "smart_lambda", "--storage", "~/here").storage == Path.home().resolve() / "here"


def test_the_address_of_the_surrounding_ray_is_the_default() -> None:
    found = read_command(["--space", "smart_lambda"])
    assert read_options(found, NOW, "10.0.0.1:6379").address == "10.0.0.1:6379"
    found = read_command(["--space", "smart_lambda", "--address", "local"])
    assert read_options(found, NOW, "10.0.0.1:6379").address == "local"


def test_a_storage_uri_is_a_mirror_of_local_work() -> None:
    options = read("--space", "smart_lambda", "--storage", "s3://bucket/sweeps")
    assert options.mirror == "s3://bucket/sweeps"
    assert options.storage == Path.home().resolve() / "multitask-sweeps"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], r"--space must name a search space, got none; known: .*smart_lambda"),
        (["--space", "smart_lamda"], r"unknown search space 'smart_lamda'; did you mean 'smart_lambda'\?"),
        (["--space"], r"--space: expected one argument"),
        (["--wokers", "2"], r"unknown flag '--wokers'; did you mean '--workers'\?"),
        (["--work", "2"], r"unknown flag '--work'; did you mean '--workers'\?"),
        (["smart_lambda"], r"every value must follow its flag, got 'smart_lambda'"),
        (["--space", "smart_lambda", "--workers", "two"], r"--workers must be a whole number, got 'two'"),
        (["--space", "smart_lambda", "--workers", "1.5"], r"--workers must be a whole number, got '1.5'"),
        (["--space", "smart_lambda", "--gpus-per-worker", "x"], r"--gpus-per-worker must be a number, got 'x'"),
        (["--space", "smart_lambda", "--set", "a"], r"--set must be KEY=VALUE, e\.g\. .*, got 'a'"),
        (["--space", "smart_lambda", "--set", "=1"], r"--set must be KEY=VALUE"),
        (["--space", "smart_lambda", "--data", "/no/such"], r"--data must be a folder that exists, got '/no/such'"),
        (
            ["--space", "smart_lambda", "--encoder", "./no"],
            r"--encoder must be a hub name or a folder that exists, got './no'",
        ),
        (["--space", "smart_lambda", "--seed", "-1"], r"--seed must be at least 0, got -1"),
        (["--space", "smart_lambda", "--name", ""], r"--name must be letters"),
    ],
)
def test_a_mistake_is_one_line(arguments: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        read(*arguments)
    assert "\n" not in str(raised.value)


def test_help_teaches_by_example_within_120_columns() -> None:
    text = build_parser().format_help()
    assert "python sweeps/run.py --space smart_lambda --dry-run" in text
    assert "exit codes: 0" in text
    assert max(map(len, text.splitlines())) <= 120


def test_every_example_of_the_help_is_read(tmp_path: Path) -> None:
    lines = [line.strip() for line in build_parser().format_help().splitlines()]
    commands = [line.partition("run.py ")[2] for line in lines if "sweeps/run.py --space smart_lambda" in line]
    assert len(commands) >= 7
    for command in commands:
        assert read(*command.replace("DIR", str(tmp_path)).split()).space == "smart_lambda"


def test_help_names_every_flag_of_the_parser() -> None:
    parser = build_parser()
    text = parser.format_help()
    flags = [flag for action in parser._actions for flag in action.option_strings if flag.startswith("--")]
    assert len(flags) == 19
    assert all(f"  {flag}" in text or f", {flag}" in text for flag in flags)


def test_help_ends_with_code_0(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        read_command(["--help"])
    assert ended.value.code == 0
    assert "examples:" in capsys.readouterr().out


def test_listing_needs_no_space() -> None:
    assert isinstance(read_command(["--list-spaces"]), argparse.Namespace)
    assert read_command(["--list-spaces"]).list_spaces
