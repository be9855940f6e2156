"""What `optuna-dashboard` shows of a sweep's journal: its API is asked, without a server."""

import io
import json
from pathlib import Path
from typing import Any

import optuna_dashboard
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from mtlib.runtime.storage import join_location, open_folder, read_bytes
from search_spaces.domain import Choice, Condition, Float
from sweeps.search.study import JOURNAL_NAME, journal_path, note_answer, open_study, save_journal
from tests.sweeps.conftest import MakePlan
from tests.sweeps.search.test_searcher import Run


def ask_dashboard(folder: Path, path: str) -> Any:
    """The answer of the dashboard's API over a journal."""
    application = optuna_dashboard.wsgi(JournalStorage(JournalFileBackend(str(folder / JOURNAL_NAME))))
    statuses: list[str] = []
    request = {
        "REQUEST_METHOD": "GET",
        "PATH_INFO": path,
        "QUERY_STRING": "",
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "80",
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(),
        "wsgi.errors": io.StringIO(),
    }
    body = b"".join(application(request, lambda status, _headers, *_: statuses.append(status)))
    assert statuses == ["200 OK"], body
    return json.loads(body)


def shown_trials(folder: Path) -> list[dict[str, Any]]:
    """The trials of the only study, with parameters, attributes and intermediate values by name."""
    trials = ask_dashboard(folder, "/api/studies/0")["trials"]
    return [
        {
            **trial,
            "params": {item["name"]: item["param_external_value"] for item in trial["params"]},
            "user_attrs": {item["key"]: item["value"] for item in trial["user_attrs"]},
            "intermediate_values": {item["step"]: item["value"] for item in trial["intermediate_values"]},
        }
        for trial in trials
    ]


def result(epoch: int, status: str = "complete", **bests: float) -> dict[str, Any]:
    """What Tune passes to the searcher of a trial's epoch, or with a status of its end."""
    scores = {f"best_{name}": score for name, score in bests.items()}
    return {"epoch": epoch, "best": bests["overall"], "status": status, **scores}


def test_study_and_trials_have_names_states_and_values(make_plan: MakePlan) -> None:
    run = Run(make_plan(grid={"smart.weight": (0.0, 0.3, 1.0, 3.0)}), max_live=4)
    assert [run.suggest() for _ in range(4)] == [f"{number:04d}-r0" for number in range(4)]
    searcher, folder = run.searcher, Path(run.plan.options.folder)
    searcher.on_trial_result("1", result(1, "", sst=0.4, overall=0.5))
    searcher.on_trial_complete("1", result(2, sst=0.45, overall=0.6))
    searcher.on_trial_complete("2", result(1, "", sst=0.2, overall=0.3))
    run.fail(tune_id=3)
    searcher.on_trial_result("4", result(1, "", sst=0.3, overall=0.4))
    study = ask_dashboard(folder, "/api/studies/0")
    assert (study["name"], study["directions"], study["objective_names"]) == ("sweep", ["maximize"], ["overall"])
    assert study["user_attrs"] == [{"key": "folder", "value": str(folder)}]
    trials = shown_trials(folder)
    assert [trial["state"] for trial in trials] == ["Complete", "Pruned", "Fail", "Running"]
    assert [trial["params"] for trial in trials] == [{"smart.weight": str(weight)} for weight in (0.0, 0.3, 1.0, 3.0)]
    assert [trial["intermediate_values"] for trial in trials] == [{1: 0.5, 2: 0.6}, {1: 0.3}, {}, {1: 0.4}]
    assert trials[0]["values"] == [0.6]
    folders = [trial["user_attrs"].pop("folder") for trial in trials]
    assert folders == [str(folder / "trials" / f"{number:04d}-r0") for number in range(4)]
    assert [trial["user_attrs"] for trial in trials] == [
        {"configuration": "0", "trials": "0000-r0", "best_sst": "0.45", "best_overall": "0.6"},
        {"configuration": "1", "trials": "0001-r0", "best_sst": "0.2", "best_overall": "0.3"},
        {"configuration": "2", "trials": "0002-r0"},
        {"configuration": "3", "trials": "0003-r0"},
    ]


def test_replicates_are_one_trial_with_mean_scores(make_plan: MakePlan) -> None:
    run = Run(make_plan(replicates=3))
    for sst, overall in ((0.25, 0.5), (0.5, 0.75)):
        run.suggest()
        run.searcher.on_trial_complete(str(run.count), result(1, sst=sst, overall=overall))
    run.suggest()
    run.fail()
    (trial,) = shown_trials(Path(run.plan.options.folder))
    assert (trial["state"], trial["values"]) == ("Complete", [0.625])
    assert trial["intermediate_values"] == {1: 0.5}, "of the first training"
    means = {"best_sst": "0.375", "best_overall": "0.625"}
    own = {"configuration": "0", "trials": "0000-r0 0000-r1", "folder": f"{run.plan.options.folder}/trials/0000-r0"}
    assert trial["user_attrs"] == {**own, **means}


def test_the_answer_is_the_note_of_the_study_and_folders_below_home_begin_with_a_tilde(
    make_plan: MakePlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    run = Run(make_plan())
    run.suggest()
    run.fail()
    folder = Path(run.plan.options.folder)
    for answer in ("Not known.", f"Best: 0.3.\n\n`python sweeps/run.py --resume {folder} --extend 12`"):
        note_answer(run.plan.options.folder, answer)
    named = f"~/{folder.relative_to(tmp_path)}"
    study = ask_dashboard(folder, "/api/studies/0")
    assert study["note"]["body"] == f"Best: 0.3.\n\n`python sweeps/run.py --resume {named} --extend 12`"
    assert study["user_attrs"] == [{"key": "folder", "value": named}]
    assert shown_trials(folder)[0]["user_attrs"]["folder"] == f"{named}/trials/0000-r0"


def test_the_journal_in_a_bucket_gets_the_note_too(tmp_path: Path, bucket: str) -> None:
    location = join_location(bucket, "mine")
    journal = journal_path(location, tmp_path)
    open_study(journal, "mine", "overall", location)
    save_journal(location, journal)
    note_answer(location, "Best: 0.3.")
    (tmp_path / JOURNAL_NAME).write_bytes(read_bytes(open_folder(location), JOURNAL_NAME))
    study = ask_dashboard(tmp_path, "/api/studies/0")
    assert (study["note"]["body"], study["user_attrs"][0]["value"]) == ("Best: 0.3.", location)


def test_parameters_are_the_keys_of_the_space_with_readable_values(make_plan: MakePlan) -> None:
    ranges = {
        "smart.mode": Choice(values=("paper", "random")),
        "smart.epsilon": Float(low=1e-5, high=1e-2, log=True),
        "smart.tasks": Choice(values=(("sst", "qqp"),)),
        "encoder.dropout": Float(low=0, high=0.5),
    }
    conditions = {"smart.epsilon": Condition(key="smart.mode", values=("paper",))}
    run = Run(make_plan(search="random", trials=8, grid={}, ranges=ranges, conditions=conditions), max_live=8)
    for _ in range(8):
        run.suggest()
    expected = [
        {name: json.dumps(value) if name == "smart.tasks" else str(value) for name, value in spec.params.items()}
        for spec in run.announced
    ]
    assert [trial["params"] for trial in shown_trials(Path(run.plan.options.folder))] == expected
    assert {len(params) for params in expected} == {3, 4}
