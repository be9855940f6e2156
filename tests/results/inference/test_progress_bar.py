"""A progress bar on a terminal, nothing elsewhere."""

import io
from pathlib import Path

import pytest

from results.inference.progress_bar import show_rows


def terminal_of(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Standard error, as a terminal that records what it shows."""
    found = io.StringIO()
    found.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr("sys.stderr", found)
    monkeypatch.setenv("TERM", "xterm")
    return found


def test_no_bar_outside_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with show_rows(io.BytesIO(b"abc"), "x") as on_rows:
        on_rows(7)
    assert capsys.readouterr() == ("", "")


def test_bar_shows_the_part_that_has_been_read_and_the_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    (tmp_path / "a.txt").write_text("12345678")
    seconds = iter([10.0, 12.0])
    with (tmp_path / "a.txt").open("rb") as stream:
        stream.read(2)
        monkeypatch.setattr("results.inference.progress_bar.time.monotonic", lambda: next(seconds, 12.0))
        with show_rows(stream, "a.txt") as on_rows:
            assert stream.read(4) == b"3456"
            on_rows(4096)
    shown = terminal.getvalue()
    assert all(text in shown for text in ("a.txt", "75%", "4,096 rows, 2,048 rows/s"))
