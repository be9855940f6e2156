"""A tracker gets each epoch once, also where it fails and where the sweep is resumed."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from mtlib.runtime.storage import open_folder
from results.records.files import write_json
from results.records.trials import write_sweep
from sweeps.driver.trials.trial import make_trial
from sweeps.tracking import process
from sweeps.tracking.process import TrackerProcess
from sweeps.tracking.tracker import SERVER_VARIABLES, TrackedRun, TrackedSweep
from tests.recorded_trials import write_trial
from tests.sweeps.conftest import MakePlan
from tests.sweeps.tracking.tracked import BEST, tracked_sweep, tracked_trial


class Recorder:
    """A tracker that keeps its calls, and fails where it is asked to."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.num_failures = 0
        self.words = "nobody listens\nat this port"
        self.starts_empty = False

    def __call__(self, _name: str, _sweep: TrackedSweep, _note: Callable[[str], None]) -> "Recorder":
        self._may_fail()
        return self

    def begin(self, trial: TrackedRun) -> bool:
        self._may_fail()
        self.calls.append(("begin", trial.id))
        return self.starts_empty

    def discard(self, trial: TrackedRun) -> None:
        self.calls.append(("discard", trial.id))

    def log(self, trial: TrackedRun, step: int, values: Mapping[str, float]) -> None:
        self._may_fail()
        self.calls.append(("log", trial.name, step, dict(values)))

    def end(self, trial: TrackedRun, status: str, values: Mapping[str, float]) -> None:
        self._may_fail()
        self.calls.append(("end", trial.name, status, dict(values)))

    def finish(self, answer: str, files: Sequence[Path]) -> None:
        self.calls.append(("finish", answer, {path.name: path.read_text() for path in files}))

    def steps(self) -> list[int]:
        return [call[2] for call in self.calls if call[0] == "log"]

    def _may_fail(self) -> None:
        if self.num_failures:
            self.num_failures -= 1
            raise ConnectionError(self.words)


class Tracked:
    """A process over a recorder."""

    def __init__(self, folder: Path, recorder: Recorder) -> None:
        self.notes: list[str] = []
        self.closing = threading.Event()
        self.process = TrackerProcess(
            name="recorder", sweep=tracked_sweep(folder), note=self.notes.append, is_closing=self.closing, make=recorder
        )

    def send(self, kind: str, **facts: Any) -> bool:
        return self.process.handle({"kind": kind, "trial": asdict(tracked_trial()), **facts})

    def report(self, epoch: int) -> bool:
        return self.send("report", epoch=epoch, step=10 * epoch, values={"dev/overall": 0.1 * epoch})


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    monkeypatch.setattr(process, "ATTEMPT_SECONDS", 0.01)
    return Recorder()


def test_resumed_sweep_continues_the_run_and_repeats_no_point(tmp_path: Path, recorder: Recorder) -> None:
    first = Tracked(tmp_path, recorder)
    first.report(1)
    first.report(2)
    first.process.close()
    second = Tracked(tmp_path, recorder)
    for epoch in (1, 2, 3):  # the resumed trial reports its earlier epochs again
        second.report(epoch)
    second.send("end", status="complete", values=BEST)
    Tracked(tmp_path, recorder).send("end", status="complete", values=BEST)
    assert recorder.steps() == [10, 20, 30]
    assert [call[2] for call in recorder.calls if call[0] == "end"] == ["interrupted", "complete"]


def test_epoch_that_a_kill_interrupted_is_not_logged_twice(tmp_path: Path, recorder: Recorder) -> None:
    class Killed(Recorder):
        def log(self, trial: TrackedRun, step: int, values: Mapping[str, float]) -> None:
            super().log(trial, step, values)
            raise SystemExit  # as a kill: nothing is written after it

    killed = Killed()
    with pytest.raises(SystemExit):
        Tracked(tmp_path, killed).report(1)
    Tracked(tmp_path, recorder).report(1)
    assert (killed.steps(), recorder.steps()) == ([10], [])


def test_tracker_that_stays_down_does_not_hold_up_the_end(tmp_path: Path, recorder: Recorder) -> None:
    tracked, recorder.num_failures = Tracked(tmp_path, recorder), 10**9
    tracked.closing.set()
    assert not tracked.report(1)
    assert tracked.notes == ["recorder fails: nobody listens; it is tried again while the sweep goes on"]


@pytest.mark.parametrize(
    ("words", "said"), [("Read timed out.", "does not answer"), ("no such run", "fails: no such run")]
)
def test_server_that_does_not_answer_is_named_without_its_password(
    tmp_path: Path, recorder: Recorder, monkeypatch: pytest.MonkeyPatch, words: str, said: str
) -> None:
    monkeypatch.setitem(SERVER_VARIABLES, "recorder", "RECORDER_URI")
    monkeypatch.setenv("RECORDER_URI", "https://me:secret@host/runs")
    tracked, recorder.num_failures, recorder.words = Tracked(tmp_path, recorder), 2, words
    assert tracked.report(1)
    assert tracked.notes == [
        f"the server of recorder at https://host/runs {said}; it is tried again while the sweep goes on",
        "recorder works again",
    ]


def test_tracker_that_hangs_is_named_meanwhile(
    tmp_path: Path, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "NO_ANSWER_SECONDS", 0.0)
    tracked, noted = Tracked(tmp_path, recorder), threading.Event()

    def note(line: str) -> None:
        tracked.notes.append(line)
        noted.set()

    tracked.process.note = note
    monkeypatch.setattr(recorder, "begin", lambda _trial: not noted.wait())
    assert tracked.report(1)
    assert "recorder does not answer; it is tried again while the sweep goes on" in tracked.notes


def test_tracker_that_is_added_to_a_resumed_sweep_gets_what_was_trained_before(
    tmp_path: Path, recorder: Recorder, make_plan: MakePlan
) -> None:
    trial = make_trial(make_plan().space, 3, 0, {"smart.weight": 0.3})
    write_trial(tmp_path, trial, "complete", [0.2, 0.4, 0.6])
    tracked = Tracked(tmp_path, recorder)
    for _ in range(2):
        tracked.send("known", epochs=3, status="complete", values=BEST)
    assert recorder.steps() == [4, 8, 12]
    assert [call[3]["dev/overall"] for call in recorder.calls if call[0] == "log"] == [0.2, 0.4, 0.6]
    assert recorder.calls[-1] == ("end", "0003-r0", "complete", BEST)
    assert sum(call[0] == "begin" for call in recorder.calls) == 1


@pytest.mark.parametrize("epochs", [0, 1, 2])
def test_run_with_epochs_that_were_given_up_is_taken_back_and_gets_those_of_the_records(
    tmp_path: Path, recorder: Recorder, make_plan: MakePlan, epochs: int
) -> None:
    tracked = Tracked(tmp_path, recorder)
    for epoch in (1, 2, 3):
        tracked.report(epoch)
    tracked.send("end", status="failed", values=BEST)
    write_trial(
        tmp_path, make_trial(make_plan().space, 3, 0, {"smart.weight": 0.3}), "interrupted", [0.2, 0.4][:epochs]
    )
    resumed = Tracked(tmp_path, recorder)
    recorder.calls.clear()
    resumed.send("known", epochs=epochs)
    resumed.report(epochs + 1)
    resumed.send("end", status="complete", values=BEST)
    first, second = (tracked_trial().id, f"{tracked_trial().id}-2")
    assert [call for call in recorder.calls if call[0] in ("begin", "discard")] == [
        ("begin", first),
        ("discard", first),
        ("begin", second),
    ]
    assert recorder.steps() == [*(4 * (epoch + 1) for epoch in range(epochs)), 10 * (epochs + 1)]
    assert recorder.calls[-1] == ("end", "0003-r0", "complete", BEST)


def test_run_that_a_tracker_has_lost_gets_all_epochs(tmp_path: Path, recorder: Recorder, make_plan: MakePlan) -> None:
    Tracked(tmp_path, recorder).report(1)
    write_trial(tmp_path, make_trial(make_plan().space, 3, 0, {"smart.weight": 0.3}), "interrupted", [0.2])
    recorder.starts_empty = True
    resumed = Tracked(tmp_path, recorder)
    resumed.send("begin")
    resumed.send("known", epochs=1)
    resumed.report(2)
    assert recorder.steps() == [10, 4, 20]


def test_end_keeps_the_answer_with_the_files_that_are_there(tmp_path: Path, recorder: Recorder) -> None:
    (tmp_path / "selection.json").write_text("{}")
    write_sweep(tmp_path, {"command": "python sweeps/run.py"})
    tracked = Tracked(tmp_path, recorder)
    tracked.send("begin")
    assert tracked.process.handle({"kind": "finish", "answer": "0.3 is best."})
    assert recorder.calls[1:] == [
        ("end", "0003-r0", "interrupted", {}),
        ("finish", "0.3 is best.", {"selection.json": "{}"}),
    ]


def test_no_place_of_this_machine_and_no_key_is_sent(
    tmp_path: Path, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    command = "python sweeps/run.py --data '/srv/of ädä/data' --encoder /home/ada/enc --storage s3://k:secret@b/sweeps"
    write_sweep(tmp_path, {"command": command, "data": {"folder": "/srv/of ädä/data"}})
    page = f"<pre>{command} --resume {tmp_path}</pre> and/or </pre> /home/ada/my sweeps /home/adam gs://k@b …/ada/enc"
    (tmp_path / "report.html").write_text(page)
    write_json(open_folder(tmp_path), "selection.json", {"sweeps": {"/srv/ädä/other": "a"}, "command": command})
    tracked = Tracked(tmp_path, recorder)
    assert tracked.process.handle({"kind": "finish", "answer": f"Go on: --resume {tmp_path}"})
    sent = "python sweeps/run.py --data 'data' --encoder enc --storage sweeps"
    rest = f"--resume {tmp_path.name}</pre> and/or </pre> ~/my sweeps /home/adam gs://b enc"
    ((_, answer, files),) = recorder.calls
    assert (answer, files["report.html"]) == (f"Go on: --resume {tmp_path.name}", f"<pre>{sent} {rest}")
    assert "/srv" not in files["selection.json"]
