"""The judge of the chaos benchmark sees harm where there is any; and twenty faults do none."""

import random
import sys
from pathlib import Path

import pytest

from benchmarks.chaos import Fault, Sweep, judge, kinds, longest_silence, main, planned

Lines = list[tuple[float, str]]


def judged(tmp_path: Path, lines: Lines, **about: object) -> list[str]:
    """The harm of one fault, by the lines after it."""
    sweep = Sweep(storage=tmp_path, scratch=tmp_path, log=tmp_path / "log", name="sweep", lines=lines)
    fault = Fault(kind="worker", what="killed", began=0, **about)  # type: ignore[arg-type]
    judge(sweep, [fault])
    return fault.harm


def test_each_kind_comes_once_before_any_comes_again() -> None:
    found = planned(["a", "b", "c"], 7, random.Random(0))
    assert len(found) == 7
    assert sorted(found[:3]) == sorted(found[3:6]) == ["a", "b", "c"]
    assert found == planned(["a", "b", "c"], 7, random.Random(0))


def test_silence_is_the_longest_time_between_two_lines() -> None:
    assert longest_silence([]) == longest_silence([(1.0, "a")]) == 0.0
    assert longest_silence([(1.0, "a"), (4.0, "b"), (5.0, "c")]) == 3.0


def test_lines_without_harm(tmp_path: Path) -> None:
    assert judged(tmp_path, [(0.0, "sweep-lane0 is down"), (20.0, "0001-r0 epoch 2: SST 0.5")]) == []


@pytest.mark.parametrize(
    "line", ["Traceback (most recent call last):", "(raylet pid=3) died", "[2026-01-02 03:04:05,678 C 1 2] gcs gone"]
)
def test_raw_lines_are_harm(tmp_path: Path, line: str) -> None:
    assert judged(tmp_path, [(0.0, "one"), (1.0, line)]) == [f"raw line: {line}"]


def test_silence_above_twenty_seconds_is_harm(tmp_path: Path) -> None:
    assert judged(tmp_path, [(0.0, "one"), (20.1, "two")]) == ["nothing was printed for 20 s"]


def test_an_epoch_that_a_state_held_must_not_be_trained_again_unless_its_files_were_damaged(tmp_path: Path) -> None:
    lines = [(0.0, "0001-r0 epoch 1: SST 0.5"), (1.0, "0001-r0 epoch 2: SST 0.5")]
    assert judged(tmp_path, lines, saved={"0001-r0": 40}) == [
        "epoch 1 of 0001-r0 is trained again, whose state was at step 40"
    ]
    assert judged(tmp_path, lines, saved={"0001-r0": 20, "0002-r0": 80}) == []
    assert judged(tmp_path, lines, saved={"0001-r0": 80}, spoiled=("0001-r0",)) == []


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.timeout(3600)
def test_twenty_faults_do_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["chaos.py", "--faults", str(len(kinds)), "--seed", "1", "--logs", str(tmp_path)])
    assert main() == 0, capsys.readouterr().out
