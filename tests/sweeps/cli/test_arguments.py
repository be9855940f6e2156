"""The command line: every flag, quotes around values, and every mistake as one line."""

import shlex
from pathlib import Path
from typing import Any

import pytest

from mtlib.runtime.command_line import parse_words
from search_spaces.vary import varied_values
from sweeps.cli.arguments import build_parser, given_options
from sweeps.options import SweepOptions
from sweeps.plan.given_options import read_options
from tests.one_line_error import one_line_error
from tests.sweeps.conftest import UNUSUAL_OPTIONS


def given(*words: str) -> dict[str, Any]:
    return given_options(parse_words(build_parser(), words))


def read(*words: str) -> SweepOptions:
    return read_options(given(*words), None)


def test_every_flag_reaches_its_option(tmp_path: Path) -> None:
    methods = tmp_path / "mine.py"
    methods.write_text("from mtlib.metrics.table import METRICS as ALL\nMETRICS = {'another': ALL['accuracy']}\n")
    options = read(
        *("--space", "smart_lambda", "--data", str(tmp_path), "--encoder", "roberta-base", "--workers", "2"),
        *("--cpus-per-worker", "3", "--gpus-per-worker", "1", "--concurrent", "4", "--search", "tpe", "--trials", "9"),
        *("--replicates", "5", "--until-decided", "0.01", "--replicate-best", "3", "--scheduler", "asha"),
        *("--name", "mine", "--storage", f"{tmp_path}/s", "--seed", "6", "--set", "smart.mode=paper"),
        *("--address", "auto", "--dry-run", "--vary", "smart.num_steps=1,2", "--methods", str(methods)),
        *("--log-to", "tensorboard,wandb"),
        *("--hold-out", "0.2", "--no-reuse", "--keep-gb", "0.5", "--keep-models", "2", "--checkpoint-steps", "7"),
        *("--node-wait-minutes", "3", "--silent-minutes", "5", "--max-hours", "1.5", "--max-steps", "900"),
    )
    of_resumed = {
        "began_as_demonstration": False,
        "chosen_by": 1,
        "smaller_grids": (),
    }  # only a resumed sweep has others
    own = UNUSUAL_OPTIONS | {"methods": (str(methods),)} | of_resumed
    assert options == SweepOptions(data=tmp_path, storage=f"{tmp_path}/s", **own)


def test_only_what_is_typed_is_given() -> None:
    assert given("--space", "orders") == {"space": "orders"}
    assert given("--resume", "mine", "--extend", "2", "--retry-failed", "--no-reuse", "--until-decided") == {
        "resume": "mine",
        "extend": 2,
        "retry_failed": True,
        "reuse": False,
        "until_decided": 0.0,
    }


def test_claim_is_one_argument(tmp_path: Path) -> None:
    claim = "smart.weight=1 beats smart.weight=0 by 0.005"
    assert given("--claim", claim) == {"claim": claim}
    assert read("--claim", claim, "--data", str(tmp_path)).claim == claim
    with pytest.raises(ValueError):
        given("--claim", *claim.split())


def test_examples_of_claims_in_the_help_are_valid(tmp_path: Path) -> None:
    lines = [line.strip() for line in build_parser().format_help().splitlines()]
    commands = [line.partition("run.py ")[2] for line in lines if "sweeps/run.py --claim" in line]
    assert commands
    for command in commands:
        assert read(*shlex.split(command.replace("DIR", str(tmp_path)))).claimed is not None


def test_quotes_keep_commas_and_blanks_of_a_value() -> None:
    (values,) = given("--vary", 'tasks.sst.prefix="a, b: ",c')["vary"].values()
    assert varied_values(values) == ("a, b: ", "c")
    assert given("--set", 'tasks.sst.prefix="a, b: "', "smart.weight=1")["set"] == {
        "tasks.sst.prefix": "a, b: ",
        "smart.weight": "1",
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--space"], "--space: expected one argument"),
        (["--wokers", "2"], "unknown flag '--wokers'; did you mean '--workers'?"),
        (["smart_lambda"], "every value must follow its flag, got 'smart_lambda'"),
        (["--workers", "two"], "--workers must be a whole number, got 'two'"),
        (["--gpus-per-worker", "x"], "--gpus-per-worker must be a number, got 'x'"),
        (["--set", "a"], "--set must be KEY=VALUE, e.g. "),
        (["--set", "=1"], "--set must be KEY=VALUE"),
        (["--set", "a=1", "a=2"], "--set must name each key once, got a=1 a=2"),
        (["--vary", "smart.weight"], "--vary must be KEY=VALUE, e.g. optimizer.learning_rate=1e-5,1e-4, got 'smart"),
        (["--vary", "a=1,2", "--vary", "a=3,4"], "--vary must name each key once, got a=1,2 a=3,4"),
    ],
)
def test_mistake_is_one_line(words: list[str], message: str) -> None:
    assert one_line_error(given, *words).startswith(message)


def test_every_example_in_the_help_is_valid(tmp_path: Path) -> None:
    lines = [line.strip() for line in build_parser().format_help().splitlines()]
    commands = [line.partition("run.py ")[2] for line in lines if "sweeps/run.py --space smart_lambda" in line]
    assert len(commands) >= 7
    for command in (command for command in commands if "s3://" not in command):
        assert read(*command.replace("DIR", str(tmp_path)).split()).space == "smart_lambda"
