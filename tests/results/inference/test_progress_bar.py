"""A progress bar on a terminal, nothing elsewhere."""

import io
import subprocess
import sys
from pathlib import Path

import pytest

from results.inference.progress_bar import show_rows, stream_bytes, throughput_text


class Terminal(io.StringIO):
    """A terminal that records its output."""

    def isatty(self) -> bool:
        return True


def test_no_bar_outside_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with show_rows(io.BytesIO(b"abc"), "x") as on_rows:
        on_rows(7)
    assert capsys.readouterr() == ("", "")


def test_bar_shows_the_part_that_has_been_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("12345678")
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with (tmp_path / "a.txt").open("rb") as stream, show_rows(stream, "a.txt") as on_rows:
        stream.read(6)
        on_rows(4096)
    shown = terminal.getvalue()
    assert "a.txt" in shown
    assert "75%" in shown
    assert "4,096 rows, " in shown


def test_rows_are_counted_where_the_size_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with show_rows(io.BytesIO(b"abc"), "standard input") as on_rows:
        on_rows(12)
    assert "12 rows, " in terminal.getvalue()


def test_size_is_that_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"123")
    with (tmp_path / "a").open("rb") as stream:
        assert stream_bytes(stream) == 3
    assert stream_bytes(io.BytesIO(b"123")) is None
    with subprocess.Popen([sys.executable, "-c", "print(1)"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert stream_bytes(process.stdout) is None


def test_speed_is_rows_per_second() -> None:
    assert throughput_text(4096, 2.0) == "4,096 rows, 2,048 rows/s"
    assert throughput_text(0, 0.0) == "0 rows, 0 rows/s"
