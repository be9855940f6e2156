"""The selection command: what it writes and prints, hold-out scores, and one line for any mistake.

Long, as selecting and scoring share the command, its sweeps and its mistakes.
"""

import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from mtlib.tasks import TASKS
from results.ensembles.candidates import read_pool
from results.ensembles.methods import TITLES
from results.ensembles.selection_method import Settings
from results.records.examples import HOLD_OUT_FILE, read_hold_out
from results.records.selection import SELECTION_FILE, Selection, read_selection
from results.records.trials import write_sweep
from results.selection import select_all as choosing
from results.selection.select_ensemble import select_ensemble
from results.selector import main
from tests.one_line_error import one_line_exit
from tests.results.inference.trained_sweep import FIRST, hold_out_rows, select_pairs
from tests.results.selection.scored_sweep import build_sweep
from tests.scripts import run_script

Capture = pytest.CaptureFixture[str]


def run(capsys: Capture, *words: object) -> list[str]:
    """Printed lines of a command that succeeds."""
    assert main([str(word) for word in words]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    return [line.rstrip() for line in printed.out.splitlines()]


def members(selection: Selection, task: str = "sst") -> list[tuple[str, str]]:
    """Sweep and trial of each member."""
    return [(Path(member.sweep).name, member.trial) for member in selection.tasks[task].members]


def test_selection_is_written_into_the_sweep_and_shown(sweep: Path, capsys: Capture) -> None:
    lines = run(capsys, sweep, "--method", "single")
    selection = read_selection(sweep)
    assert list(selection.tasks) == list(TASKS)
    for task, found in selection.tasks.items():
        assert members(selection, task) == [("mine", "0001-r0")]
        assert found.method == "single"
        assert found.members[0].sweep == str(sweep)
    assert lines[-1] == f"Written: {sweep}/selection.json"
    assert len([line for line in lines if line.startswith("Chosen for ")]) == 3
    assert all(len(line) <= 100 for line in lines[:-1])


def test_written_selection_matches_a_selection_from_the_files(sweep: Path, capsys: Capture) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    run(capsys, sweep, "--max-models", 2, "--task", "sts")
    selection = read_selection(sweep)
    settings = Settings(max_models=2)
    assert selection.tasks == {"sts": select_ensemble(read_pool([str(sweep)], TASKS["sts"]), settings, num_repeats=5)}
    assert selection.sweeps == {str(sweep): "data of mine"}
    assert (selection.seed, selection.max_models, selection.num_repeats, selection.num_folds) == (0, 2, 5, 5)
    assert selection.command == f"python results/selector.py {sweep} --max-models 2 --task sts"
    assert before <= datetime.fromisoformat(selection.created) <= datetime.now(UTC)
    assert selection.evaluations == ()


def test_methods_are_compared_with_the_named_base_trial(sweep: Path, capsys: Capture) -> None:
    lines = run(capsys, sweep, "--method", "single", "--base", "0000-r0")
    assert sum(line.startswith(f"{TITLES['base']}  ") for line in lines) == len(TASKS)
    assert "over the base configuration's best one" in " ".join(lines)
    assert not any("--base TRIAL" in line for line in lines)
    for chosen in read_selection(sweep).tasks.values():
        assert chosen.methods[0].name == "base"
        assert chosen.methods[0].base_lead == 0
        assert all(score.base_lead is not None for score in chosen.methods)


def test_members_come_from_two_sweeps_in_any_order_of_flags(sweep: Path, tmp_path: Path, capsys: Capture) -> None:
    other = build_sweep(tmp_path / "other", 0.2, 2.9, first_seed=50)
    run(capsys, "--method", "weights", sweep, "--task", "sst", other)
    selection = read_selection(sweep)
    assert selection.sweeps == {str(sweep): "data of mine", str(other): "data of other"}
    assert set(members(selection)[:2]) == {("mine", "0001-r0"), ("other", "0001-r0")}
    assert (selection.tasks["sst"].num_trials, selection.tasks["sst"].num_candidates) == (5, 10)
    assert not (other / SELECTION_FILE).exists()


def test_dropped_tasks_are_named(sweep: Path, capsys: Capture) -> None:
    note = "No longer in selection.json: QQP, STS (it is overwritten; --output FOLDER writes another one)."
    assert note not in run(capsys, sweep, "--method", "single")
    assert note in run(capsys, sweep, "--task", "sst", "--method", "single")
    assert note not in run(capsys, sweep, "--task", "sst", "--method", "single")
    (sweep / SELECTION_FILE).write_text("{}")
    assert note not in run(capsys, sweep, "--task", "sst", "--method", "single")


def test_selection_is_written_to_the_given_folder(sweep: Path, tmp_path: Path, capsys: Capture) -> None:
    lines = run(capsys, sweep, "--task", "sst", "--method", "single", "--output", tmp_path / "new" / "folder")
    assert lines[-1] == f"Written: {tmp_path}/new/folder/selection.json"
    assert read_selection(tmp_path / "new" / "folder").sweeps == {str(sweep): "data of mine"}
    assert not (sweep / SELECTION_FILE).exists()
    words = (sweep, "--task", "sst", "--method", "single", "--output", tmp_path / "new" / "folder")
    line = one_line_exit(main, capsys, *words)
    assert "--output must be new, or be overwritten with --overwrite, got " in line
    run(capsys, *words, "--overwrite")


def test_trial_with_deleted_weights_is_not_selected(sweep: Path, capsys: Capture) -> None:
    shutil.rmtree(sweep / "trials" / "0001-r0" / "checkpoint")
    run(capsys, sweep, "--task", "sst", "--method", "single")
    assert members(read_selection(sweep)) in ([("mine", "0000-r0")], [("mine", "0002-r0")])
    for trial in (sweep / "trials").iterdir():
        shutil.rmtree(trial / "checkpoint", ignore_errors=True)
    assert one_line_exit(main, capsys, sweep) == "some candidate of sst must have its weights still, got none"


FOR_MODELS = "must come with --score-hold-out, which loads models"
WRONG: list[tuple[list[str], str]] = [
    ([], "SWEEP must name the folder of a sweep, or a URI (see --help), got none"),
    (["mine", "--metod", "auto"], "unknown flag '--metod'; did you mean '--method'? known: "),
    (["mine", "--task", "stz"], "unknown task 'stz'; did you mean 'sts'? known: sts, sst, qqp"),
    (["mine", "--method", "tpok"], "unknown method 'tpok'; did you mean 'topk'? known: topk, "),
    (["mine", "--max-models", "0"], "--max-models must be at least 1, got 0"),
    (["mine", "--base", "0007-r0"], "unknown trial of "),
    (["gone"], "/gone is no sweep folder: it does not exist"),
    (["mine", "./mine/"], "each sweep must be named once, got ["),
    (["mine", "--output", "mine/sweep.json"], "--output must be a folder, got mine/sweep.json"),
    (["mine", "--data", "."], f"--data {FOR_MODELS}"),
    (["mine", "--score-hold-out", "--task", "sst"], "--task must not be given with --score-hold-out, got both"),
    (["mine", "mine", "--score-hold-out"], "--score-hold-out takes one SWEEP, whose selection.json is scored, got 2"),
    (["mine", "--score-hold-out"], "/mine must hold selection.json (make one with python -m sweeps select), got"),
]


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a sweep; must not be changed."""
    return build_sweep(tmp_path_factory.mktemp("sweeps") / "mine", 1.0).parent


@pytest.mark.parametrize(("words", "message"), WRONG)
def test_wrong_use_is_one_line_before_selecting(
    words: list[str], message: str, untouched: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choosing, "select_ensemble", Mock(side_effect=AssertionError("chosen")))
    monkeypatch.chdir(untouched)
    before = sorted(untouched.rglob("*"))
    assert message in one_line_exit(main, capsys, *words)
    assert sorted(untouched.rglob("*")) == before


def test_ctrl_c_exits_with_130_and_keeps_the_old_selection(
    sweep: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(capsys, sweep, "--task", "sst", "--method", "single")
    before = (sweep / SELECTION_FILE).read_text()
    monkeypatch.setattr(choosing, "select_ensemble", Mock(side_effect=KeyboardInterrupt))
    assert main([str(sweep)]) == 130
    assert capsys.readouterr().err == "interrupted\n"
    assert (sweep / SELECTION_FILE).read_text() == before


def test_script_selects_from_any_folder_without_torch_or_ray(sweep: Path) -> None:
    printed = run_script("results/selector.py", ["mine", "--task", "sst", "--method", "single"], sweep.parent)
    assert printed.endswith(f"Written: {sweep}/selection.json\n")
    assert "\x1b" not in printed


@pytest.fixture
def held(trained_folder: Path, tiny_folder: Path, tmp_path: Path) -> Path:
    """A trained sweep with held-out rows and a selection."""
    folder = shutil.copytree(trained_folder, tmp_path / "copies" / "mine")
    hold_out_rows(folder, tiny_folder)
    select_pairs(folder)
    return folder


def score(capsys: Capture, folder: Path | str, *words: object) -> list[str]:
    return run(capsys, folder, "--score-hold-out", "--device", "cpu", *words)


def test_selection_is_scored_and_evaluations_are_counted_in_both_files(held: Path, capsys: Capture) -> None:
    before = read_selection(held)
    first = score(capsys, held)
    assert first[0].split()[:2] == ["task", "examples"]
    assert "No trial has used these rows, and nothing was chosen by them." in " ".join(first)
    second, third = score(capsys, held), score(capsys, held)
    assert second[: second.index("")] == first[: first.index("")]
    assert second[second.index("") + 1].startswith("These rows have been scored once before. If anything")
    assert third[third.index("") + 1].startswith("These rows have been scored 2 times before.")
    selection = read_selection(held)
    assert replace(selection, evaluations=()) == before
    assert [evaluation.time for evaluation in selection.evaluations] == list(read_hold_out(held).evaluations)
    assert len(selection.evaluations) == 3
    rows = {line.split()[0]: line.split() for line in first[2 : first.index("")]}
    for task, found in selection.evaluations[0].scores.items():
        assert rows[TASKS[task].title][1:3] == [str(len(read_hold_out(held).tasks[task].ids)), f"{found:.3f}"]


def test_selection_in_its_own_folder_is_scored_there(held: Path, tmp_path: Path, capsys: Capture) -> None:
    run(capsys, held, "--task", "sst", "--method", "single", "--output", tmp_path / "own")
    score(capsys, tmp_path / "own")
    assert len(read_selection(tmp_path / "own").evaluations) == len(read_hold_out(held).evaluations) == 1
    assert read_selection(held).evaluations == ()


def test_moved_data_and_encoder_can_be_named(
    held: Path, tiny_folder: Path, tiny_encoder_folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = score(capsys, held)
    write_sweep(held, {"name": "mine", "data": {"folder": "/no/such"}})
    assert "or be named with --data, got no folder /no/such" in one_line_exit(main, capsys, held, "--score-hold-out")
    monkeypatch.chdir(tiny_encoder_folder.parent)
    found = score(capsys, held, "--data", tiny_folder, "--encoder", tiny_encoder_folder.name)
    assert found[: found.index("")] == wanted[: wanted.index("")]
    line = one_line_exit(main, capsys, held, "--score-hold-out", "--data", tiny_folder, "--encoder", "./gone")
    assert line == "--encoder must be a hub name or a folder that exists, got './gone'"


Damage = Callable[[Path], Any]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda held: (held / HOLD_OUT_FILE).unlink(),
            "a sweep must have been run with --hold-out F to be scored on held-out",
        ),
        (lambda held: (held / HOLD_OUT_FILE).write_text("{"), "hold_out.json: truncated or damaged: "),
        (
            lambda held: (held / SELECTION_FILE).write_text("{}"),
            "(make it again with python results/selector.py)",
        ),
        (lambda held: shutil.rmtree(held / "trials" / FIRST), "weights must be whole, "),
    ],
)
def test_mistake_in_scoring_is_one_line_and_no_evaluation(
    damage: Damage, message: str, held: Path, capsys: Capture
) -> None:
    damage(held)
    before = {path.name: path.read_text() for path in held.glob("*.json")}
    assert message in one_line_exit(main, capsys, held, "--score-hold-out", "--device", "cpu")
    assert {path.name: path.read_text() for path in held.glob("*.json")} == before
