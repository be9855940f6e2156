"""The command: immediate answers, exit codes, and one sweep from end to end.

Long, as all tests run the same small sweep by the same fixtures.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

import sweeps.driver.run_sweep
from results.records.epochs import write_epoch
from results.records.tables import read_trials
from results.records.trials import read_sweep
from results.sweep import load_sweep
from search_spaces.space import grid_trials
from sweeps.cluster.connection import free_port
from sweeps.driver.run_sweep import SweepOutcome, close_records
from sweeps.driver.trials.table import TrialTable
from sweeps.driver.trials.trial import make_trial
from sweeps.options import SweepPlan
from sweeps.plan.given_options import read_saved_options
from sweeps.run import main
from sweeps.search.study import JOURNAL_NAME
from tests.hub_server import Hub, serve_hub
from tests.one_line_error import one_line_exit
from tests.prepared import prepare_rows
from tests.recorded_trials import write_trial
from tests.results.conftest import build_report
from tests.scripts import ROOT, run_process, run_script

SCRIPT = ROOT / "sweeps" / "run.py"
Run = Callable[[TrialTable], SweepOutcome]

Capture = pytest.CaptureFixture[str]

SMALL = ["stages.0.epochs=1", "stages.1.epochs=1", "encoder.max_length=32", "optimizer.learning_rate=1e-3"]
SMALL += ["tasks.sst.scored_train_rows=11"]


@pytest.fixture
def command(tiny_folder: Path, tiny_encoder_folder: Path, tmp_path: Path) -> list[str]:
    """A small sweep on tiny data."""
    return small_sweep(tiny_folder, tiny_encoder_folder, tmp_path)


def small_sweep(data: Path, encoder: Path, storage: Path) -> list[str]:
    """Arguments of a command that runs a small sweep named `first`."""
    places = ["--data", str(data), "--encoder", str(encoder), "--storage", str(storage)]
    return ["--space", "smart_lambda", *places, "--name", "first", "--set", *SMALL]


def replace_run(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    """Replaces the function that runs a sweep."""

    monkeypatch.setattr(sweeps.driver.run_sweep, "run_plan", lambda table, *_given, **_hooks: run(table))


def outcome(_table: TrialTable) -> SweepOutcome:
    return SweepOutcome(counts={"complete": 7}, failures={}, is_interrupted=False, error=None)


def test_ctrl_c_while_the_program_is_loaded_is_one_line(tmp_path: Path) -> None:
    lines = ["import sys", "class Finder:", "    def find_spec(self, name, path=None, target=None):"]
    lines += ["        if name == 'numpy': raise KeyboardInterrupt", "sys.meta_path.insert(0, Finder())"]
    (tmp_path / "sitecustomize.py").write_text("\n".join(lines))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, SCRIPT, "--help"], capture_output=True, text=True, env=environment)
    assert (done.stderr, done.stdout) == ("interrupted\n", "")
    assert done.returncode in (-signal.SIGINT, 130)


def test_spaces_are_listed_with_their_questions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list-spaces"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("smart_lambda"))
    assert "7 on the grid" in line
    assert line.endswith("?")


@pytest.fixture
def hub(tiny_encoder_folder: Path) -> Iterator[Hub]:
    """A hub with the tiny encoder."""
    with serve_hub({"someone/tiny": tiny_encoder_folder}) as served:
        yield served


def test_dry_run_counts_an_encoder_on_the_hub_without_fetching_it_or_loading_ray(
    command: list[str], hub: Hub, tiny_encoder_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(SCRIPT), *command, "--encoder", "someone/tiny", "--dry-run"]
    done = run_process(words, tmp_path, hub.environment(tmp_path / "home"))
    assert (done.code, done.stderr) == (0, "")
    assert done.heavy_packages == {"torch", "transformers"}
    lines = done.stdout.splitlines()
    size = (tiny_encoder_folder / "model.safetensors").stat().st_size / 1e6
    place = f"on the Hugging Face hub, not in {tmp_path}/home/hub: {size:.1f} MB of weights will be fetched"
    assert f"The encoder is {place}." in lines
    assert "someone/tiny/config.json" in hub.fetched
    assert "someone/tiny/model.safetensors" not in hub.fetched
    assert main([*command, "--dry-run"]) == 0  # the same one in its folder
    (need,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("Disk: "))
    assert any(line.startswith(need.partition(";")[0]) for line in lines), "all but the free space is equal"
    assert not (tmp_path / "home" / "hub" / "models--someone--tiny" / "blobs").exists()


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--trials", "3"], "--trials must be left out with --search grid"),
        (["--workers", "100000"], "a trial must fit this machine"),
        (["--storage", "nowhere://x"], "--storage must be a folder, or a URI"),
    ],
)
def test_mistake_is_one_line_with_code_2(
    command: list[str], extra: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    error = one_line_exit(main, capsys, *command, *extra)
    assert error.startswith(message)
    assert one_line_exit(main, capsys, *command, *extra, "--dry-run") == error
    assert not (tmp_path / "first").exists()


def test_sweep_gets_the_plan_and_ends_with_files_and_next_steps(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plans: list[SweepPlan] = []

    def note(table: TrialTable) -> SweepOutcome:
        plans.append(table.plan)
        return outcome(table)

    replace_run(monkeypatch, note)
    assert main(command) == 0
    assert plans[0].options.folder == f"{tmp_path}/first"
    assert plans[0].space.base.encoder.max_length == 32
    assert read_sweep(tmp_path / "first")["space"]["name"] == "smart_lambda"
    text = capsys.readouterr().out
    assert f"Files: {tmp_path}/first" in text
    assert "results" in text.partition("Next:")[2]


def write_trials(folder: str, *statuses: str) -> None:
    """Writes the folders of the first trials, after one epoch each, as a run leaves them."""
    options = read_saved_options(folder)
    space = prepare_rows(options).space
    for number, (status, params) in enumerate(zip(statuses, grid_trials(space), strict=False)):
        spec = make_trial(space, number, 0, params)
        write_trial(folder, spec, status, num_counted=1)
        write_epoch(folder, spec.trial_id, build_report(1, seed=number))


@dataclass
class InterruptedSweep:
    """A sweep interrupted with its first trial complete and its second failed, and the tables of its later runs."""

    folder: Path
    tables: list[TrialTable]


@pytest.fixture(scope="module")
def interrupted_storage(tiny_folder: Path, tiny_encoder_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A storage with an interrupted sweep `first`; must not be changed."""

    def interrupt(table: TrialTable) -> SweepOutcome:
        write_trials(table.plan.options.folder, "complete", "failed", "interrupted")
        close_records(table.plan, table.records)
        return SweepOutcome(counts={}, failures={}, is_interrupted=True, error=None)

    storage = tmp_path_factory.mktemp("interrupted")
    with pytest.MonkeyPatch.context() as patch:
        replace_run(patch, interrupt)
        assert main(small_sweep(tiny_folder, tiny_encoder_folder, storage)) == 130
    return storage


@pytest.fixture
def interrupted(interrupted_storage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> InterruptedSweep:
    shutil.copytree(interrupted_storage, tmp_path, dirs_exist_ok=True)
    found = InterruptedSweep(tmp_path / "first", [])

    def note(table: TrialTable) -> SweepOutcome:
        found.tables.append(table)
        return outcome(table)

    replace_run(monkeypatch, note)
    return found


def test_resumed_sweep_has_its_records_and_options(
    interrupted: InterruptedSweep, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = read_sweep(interrupted.folder)
    assert main(["--resume", "first", "--storage", str(tmp_path)]) == 0
    (table,) = interrupted.tables
    assert (table.plan.options.folder, table.plan.space.base.encoder.max_length) == (str(interrupted.folder), 32)
    assert [record.status for record in table.records.values()] == ["complete", "failed", *["queued"] * 5]
    assert [record.epochs for record in table.records.values()] == [1, 1, 1, *[0] * 4], "the others have not begun"
    text = capsys.readouterr().out
    assert "2 of 7 trials have ended; " in text
    assert "Files: " in text
    after = read_sweep(interrupted.folder)
    assert after["created"] == before["created"]
    assert [entry["command"].split()[2] for entry in after["resumed"]] == ["--resume"]


@pytest.mark.parametrize(("status", "code"), [("pruned", 0), ("failed", 3)])
def test_finished_sweep_is_reported_and_ranked_without_ray(
    interrupted: InterruptedSweep, status: str, code: int, capsys: Capture
) -> None:
    write_trials(str(interrupted.folder), status, *["complete"] * 6)
    capsys.readouterr()
    assert main(["--resume", str(interrupted.folder)]) == code
    printed = capsys.readouterr()
    assert "All 7 trials have ended: nothing is left to do" in printed.out
    assert f"Trials in {interrupted.folder}: " in printed.out
    assert f"Files: {interrupted.folder}" in printed.out
    assert printed.err == ("1 of 7 trials failed.\n" if code else "")
    assert interrupted.tables == [], "no Ray was opened"
    assert [record.status for record in read_trials(interrupted.folder)] == [status, *["complete"] * 6]
    storage = JournalStorage(JournalFileBackend(str(interrupted.folder / JOURNAL_NAME)))
    study = optuna.load_study(study_name=interrupted.folder.name, storage=storage)
    assert sum(trial.state.is_finished() for trial in study.trials) == 7


def test_help_has_no_heavy_imports(tmp_path: Path) -> None:
    assert "--list-spaces" in run_script("sweeps/run.py", ["--help"], tmp_path)


def test_process_with_a_closed_output_ends_without_an_error() -> None:
    code = "import os, sys; read, write = os.pipe(); os.close(read); os.dup2(write, 1); from sweeps import run\n"
    done = run_process(["-c", f"{code}sys.exit(run.main(['--list-spaces']))"], ROOT)
    assert (done.code, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.ray
def test_sweep_runs_from_end_to_end(command: list[str], tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, SCRIPT, *command], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    sweep = load_sweep(tmp_path / "first")
    assert sweep.trials["status"].tolist() == ["complete"] * 7
    assert "SST dev" in done.stdout


LONG = "job-folder-of-a-scheduler" * 3
PLACES: dict[str, tuple[dict[str, str], str]] = {
    "long TMPDIR": ({"TMPDIR": LONG}, ""),
    "home that cannot be written": ({"HOME": "/proc/nobody"}, ""),
    "ASCII alone": ({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, ""),
    "long RAY_TMPDIR": ({"RAY_TMPDIR": LONG}, "error: RAY_TMPDIR must have at most "),
    "RAY_ADDRESS to nowhere": ({"RAY_ADDRESS": "127.0.0.1:1"}, "error: RAY_ADDRESS must be a running Ray cluster, "),
}
"""Environments, where a long path is below the test's folder, and the beginning of the one line; empty: it works."""


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.timeout(600)
@pytest.mark.parametrize("place", PLACES)
def test_sweep_works_in_any_place_or_ends_in_one_line(place: str, command: list[str], tmp_path: Path) -> None:
    changes, error = PLACES[place]
    changes = {name: str(tmp_path / LONG) if value == LONG else value for name, value in changes.items()}
    (tmp_path / LONG).mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")} | changes
    words = [sys.executable, str(SCRIPT), *command, "--vary", "smart.weight=0,1"]
    done = subprocess.run(words, capture_output=True, encoding="utf-8", timeout=500, env=environment)
    assert "Traceback" not in done.stdout + done.stderr
    if error:
        assert done.returncode == 2
        (line,) = done.stderr.splitlines()
        assert line.startswith(error)
        assert not (tmp_path / "first").exists()
    else:
        assert (done.returncode, done.stderr) == (0, "")
        assert "± standard error" in done.stdout


@pytest.fixture
def head(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A Ray head on this machine with a token, as by `ray start --head`; the environment of a shell that uses it."""
    with tempfile.TemporaryDirectory(prefix="h", dir="/tmp") as folder:  # Ray's sockets need a short path
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        environment |= {"HOME": str(tmp_path), "RAY_AUTH_MODE": "token", "DASHBOARD": str(free_port())}
        environment |= {"FOLDER": folder, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        ports = [
            f"--port={free_port()}",
            f"--dashboard-port={environment['DASHBOARD']}",
            f"--ray-client-server-port={free_port()}",
        ]
        subprocess.run(["ray", "get-auth-token", "--generate"], env=environment, check=True, capture_output=True)
        start = ["ray", "start", "--head", "--block", "--num-cpus=2", f"--temp-dir={folder}", *ports]
        nowhere = subprocess.DEVNULL
        process = subprocess.Popen(start, env=environment, stdout=nowhere, stderr=nowhere, start_new_session=True)
        try:
            yield environment
        finally:
            process.terminate()  # ends what it started
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(60)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.timeout(600)
def test_same_command_runs_as_a_job_on_a_cluster(head: dict[str, str], command: list[str], tmp_path: Path) -> None:
    where = ["--address", f"http://127.0.0.1:{head['DASHBOARD']}"]
    for _ in range(60):
        if subprocess.run(["ray", "job", "list", *where], env=head, capture_output=True).returncode == 0:
            break
        time.sleep(1)
    submit = ["ray", "job", "submit", *where, "--working-dir", ".", "--", "python", "sweeps/run.py", *command]
    done = subprocess.run(submit, cwd=ROOT, env=head, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert load_sweep(tmp_path / "first").trials["status"].tolist() == ["complete"] * 7
    assert "SST dev" in done.stdout
    (uploaded,) = Path(head["FOLDER"]).glob("session_2*/runtime_resources/working_dir_files/_ray_pkg_*/")
    folders = {path.name for path in uploaded.iterdir() if path.is_dir() and not path.name.startswith(".")}
    assert folders == {"mtlib", "search_spaces", "results", "sweeps"}
    sizes = [path.stat().st_size for path in uploaded.rglob("*") if path.is_file() and path.name != "demo.zip"]
    assert 0 < sum(sizes) < 2 * 2**20, "the four packages, and little else"
