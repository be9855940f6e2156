"""What the command takes, and which of its flags go together."""

import argparse
from pathlib import Path

import pytest

from mtlib.runtime.command_line import parse_words
from results.cli.predict_arguments import build_parser, check_bundle, check_options


def options_of(*words: str) -> argparse.Namespace:
    return parse_words(build_parser(), ["mine", *words])


@pytest.mark.parametrize(
    "words",
    [
        ("--input", "a.csv"),
        (
            "--task",
            "sst",
            "--input",
            "-",
            "--output",
            "b.csv",
            "--format",
            "lines",
            "--columns",
            "a",
            "--device",
            "cpu",
        ),
        ("--leaderboard", "--data", "a", "--output", "b", "--device", "cpu", "--encoder", "c"),
        ("--bundle", "b"),
        ("--bundle", "b", "--task", "sst", "--encoder", "c"),
    ],
)
def test_flags_that_go_together_are_taken(words: tuple[str, ...]) -> None:
    check_options(options_of(*words))


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("input", "-"),
        ("output", "b.csv"),
        ("format", "csv"),
        ("columns", "a"),
        ("device", "auto"),
        ("data", "a"),
        ("leaderboard", None),
    ],
)
def test_what_would_do_nothing_beside_bundle_is_refused(flag: str, value: str | None) -> None:
    words = [f"--{flag}", *([value] if value is not None else [])]
    with pytest.raises(ValueError) as caught:
        check_options(options_of("--bundle", "b", *words))
    pair = ("bundle", "leaderboard") if flag == "leaderboard" else (flag, "bundle")
    assert str(caught.value) == f"--{pair[0]} must not be named beside --{pair[1]}, got both"


def test_a_flag_is_named_whatever_its_value_is() -> None:
    with pytest.raises(ValueError, match="--task must not be named beside --leaderboard, got both"):
        check_options(options_of("--leaderboard", "--data=a", "--output=b", "--task=sst"))


def test_a_bundle_takes_neither_another_encoder_nor_a_bundle() -> None:
    check_bundle(options_of("--input", "a.csv"))
    with pytest.raises(ValueError, match="--encoder must not be named for a bundle"):
        check_bundle(options_of("--input", "a.csv", "--encoder", "b"))
    with pytest.raises(ValueError, match=r"must be a sweep, not a bundle, which can be copied as it is .*, got mine"):
        check_bundle(options_of("--bundle", "b"))


def test_help_teaches_the_command_that_was_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["my models/predict.py"])
    text, own = build_parser().format_help(), build_parser(Path("my models")).format_help()
    assert "python results/predict.py ~/multitask-sweeps/NAME --bundle my-bundle\n" in text
    assert "python my-bundle/predict.py --task TASK --input reviews.csv" in text
    assert "python 'my models/predict.py' --task TASK --input reviews.csv" in own
    assert "python 'my models/predict.py' --leaderboard --data DIR" in own
    for word in ("SELECTION", "--encoder", "--bundle", "multitask-sweeps/NAME", "results/predict.py"):
        assert word in text
        assert word not in own
    assert "{" not in text.replace("{csv,tsv,jsonl,lines}", "").replace("{auto,cpu,cuda}", "")


def test_a_bundles_own_command_knows_where_it_is() -> None:
    found = parse_words(build_parser(Path("/a/bundle")), ["--input", "-"])
    assert (found.selection, found.encoder, found.bundle) == ("/a/bundle", None, None)
    check_options(found)
