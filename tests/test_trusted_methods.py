"""Commands run the methods of a user's own sweep; those of others, or in a bucket, only with --trust-methods."""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from mtlib.config.schema import to_dict
from mtlib.runtime.storage import open_folder, write_bytes
from mtlib.tasks import TASKS
from results import predict, report, selector, table
from results.records.selection import Member, write_selection
from results.records.trials import read_sweep, write_sweep
from results.table import load_sweep
from sweeps import export, run, status
from sweeps.options import SweepOptions, saved_options
from tests.one_line_error import one_line_error, one_line_exit
from tests.results.inference.trained_sweep import selection_of
from tests.results.selection.scored_sweep import build_sweep

SOURCE = """
from pathlib import Path
from mtlib.metrics.table import METRICS as BUILT_IN

METRICS = {{"accuracy": BUILT_IN["accuracy"]}}
Path({mark!r}).touch()
"""
REFUSED: dict[str, tuple[Callable[[Sequence[str]], int], list[str]]] = {
    "select": (selector.main, ["SWEEP"]),
    "report": (report.main, ["SWEEP"]),
    "effects": (table.main, ["SWEEP", "--effects"]),
    "predict": (predict.main, ["SWEEP", "--task", "sst", "--input", __file__, "--format", "lines"]),
    "bundle": (predict.main, ["SWEEP", "--bundle", "FOLDER"]),
    "export": (export.main, ["SWEEP", "best", "FOLDER"]),
    "resume": (run.main, ["--resume", "SWEEP"]),
}


@pytest.fixture(params=["own", "other", "bucket"])
def sweep(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A sweep with a metric whose file leaves `mark` when it is run: the user's, another user's, or in a bucket."""
    file = {"name": "mine.py", "source": SOURCE.format(mark=str(tmp_path / "mark"))}
    tasks = to_dict(TASKS)
    tasks["sst"]["metric_file"] = file
    folder = build_sweep(tmp_path / "mine", 0.5, 0.6, config=json.dumps({"methods": [file], "stages": [{"epochs": 2}]}))
    options = saved_options(SweepOptions(space="smart_lambda", storage=str(tmp_path)))
    base = {"methods": [file], "data": {"tasks": tasks}}
    write_sweep(folder, {**read_sweep(folder), "base": base, "options": options})
    member = Member(sweep=str(folder), trial="0000-r0", epoch=1, weight=1.0)
    write_selection(folder, selection_of(folder, {"sst": (member,)}))
    if request.param == "other":
        if os.getuid() != 0:
            pytest.skip("only root gives files away")
        os.chown(folder / "sweep.json", 54321, 54321)
    if request.param != "bucket":
        return str(folder)
    place: str = request.getfixturevalue("bucket")
    for path in (path for path in folder.rglob("*") if path.is_file()):
        write_bytes(open_folder(place), str(path.relative_to(folder)), path.read_bytes())
    return place


def owner_in_words(sweep: str) -> str:
    """Whose `sweep.json` is, in messages; nothing if it is the user's."""
    if "://" in sweep:
        return "in a bucket, where files have no owner"
    return "of user 54321" if Path(sweep, "sweep.json").stat().st_uid == 54321 else ""


def test_methods_run_if_they_are_the_users_or_trusted(
    sweep: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mark, owner = tmp_path / "mark", owner_in_words(sweep)
    assert status.main([sweep]) == 0
    shown = capsys.readouterr().out
    assert "SST 0." in shown
    assert ("--trust-methods" in shown) == bool(owner)
    assert not mark.exists()
    if owner:
        for main, words in REFUSED.values():
            named = [{"SWEEP": sweep, "FOLDER": str(tmp_path / "new")}.get(word, word) for word in words]
            assert one_line_exit(main, capsys, *named).endswith(f"got a file {owner}"), words
        for words in ([], ["--csv"]):
            assert table.main([sweep, *words]) == 0
            printed = capsys.readouterr()
            assert "0000-r0" in printed.out
            assert "±" not in printed.out
            assert owner in " ".join((printed.out + printed.err).split())
        assert len(load_sweep(sweep).trials) == 2
        assert owner in one_line_error(load_sweep(sweep).ranking)
        assert not mark.exists()
    assert table.main([sweep, *(["--trust-methods"] if owner else [])]) == 0
    assert "±" in capsys.readouterr().out
    assert mark.exists()
