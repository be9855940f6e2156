"""Selection for all tasks of sweeps, and the best model for all tasks."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mtlib.config.schema import to_dict
from mtlib.metrics.table import METRICS
from mtlib.tasks import TASKS, Task
from mtlib.training.evaluation import Predictions
from results.ensembles.candidates import read_pool
from results.ensembles.methods import ONE_MODEL
from results.ensembles.selection_method import Settings
from results.records.selection import RecordedSearch
from results.records.tables import write_trials
from results.records.trials import write_sweep
from results.selection.report import brief_verdict
from results.selection.select_all import SelectionRequest, scored_tasks, select_from
from results.selection.select_ensemble import select_ensemble
from results.selection.shared_model import choose_shared_model
from tests.results.conftest import build_record
from tests.results.selection.scored_sweep import build_sweep, replace_predictions

FAST = Settings(bags=0)


def test_equal_seeds_give_equal_selections_and_other_seeds_other_folds(sweep: Path) -> None:
    settings = Settings(bags=2)
    request = SelectionRequest(sweeps=[sweep], settings=settings, repeats=1, tasks=["sst"], method="greedy")
    first, second = (select_from(request) for _ in range(2))
    assert replace(first, created="") == replace(second, created="")
    other = select_from(replace(request, settings=replace(settings, seed=1)))
    scores = [found.tasks["sst"].methods[0] for found in (first, other)]
    assert scores[0].in_sample == scores[1].in_sample
    assert scores[0].interval != scores[1].interval


def test_only_scored_tasks_are_selected(tmp_path: Path) -> None:
    write_sweep(tmp_path, {"name": "mine"})
    first = build_record(0, best={"sts": 0.5})
    second = build_record(1, best={"qqp": 0.5, "sts": 0.4, "overall": 0.5})
    failed = build_record(2, best={"sst": 0.9}, status="failed")
    write_trials(tmp_path, [first, second, failed], tuple(TASKS))
    assert scored_tasks([tmp_path], TASKS) == ["qqp", "sts"]


def test_best_shared_model_is_found_over_all_tasks_and_listed_first(sweep: Path) -> None:
    selection = select_from(SelectionRequest(sweeps=[sweep], settings=FAST, repeats=1))
    one = choose_shared_model({task: read_pool([sweep], TASKS[task]) for task in TASKS}, FAST)
    for task, found in selection.tasks.items():
        first = found.methods[0]
        assert (first.name, first.num_models) == (ONE_MODEL, 1)
        assert (first.in_sample, first.cross_fitted) == (one.in_sample[task], one.fitted[task].score)


def test_best_shared_model_can_be_requested(sweep: Path) -> None:
    selection = select_from(SelectionRequest(sweeps=[sweep], method=ONE_MODEL, settings=FAST, repeats=1))
    members = {member for found in selection.tasks.values() for member in found.members}
    assert len(members) == 1
    assert {(found.method, found.automatic) for found in selection.tasks.values()} == {(ONE_MODEL, None)}


def test_another_definition_of_a_task_that_is_not_selected_does_not_matter(tmp_path: Path) -> None:
    first, second = (build_sweep(tmp_path / name, 0.5, 1.0) for name in ("a", "b"))
    other = {**TASKS, "qqp": replace(TASKS["qqp"], metric="f1")}
    write_sweep(second, {"name": "b", "base": {"data": {"tasks": to_dict(other)}}})
    request = SelectionRequest(sweeps=[first, second], settings=FAST, repeats=1)
    assert select_from(replace(request, tasks=["sst"])).definitions == {"sst": TASKS["sst"]}
    with pytest.raises(ValueError, match=r"^all sweeps must have the same task qqp, "):
        select_from(request)


def test_searches_of_the_sweeps_are_recorded(tmp_path: Path) -> None:
    first, second = (str(build_sweep(tmp_path / name, 0.5, 1.0)) for name in ("a", "b"))
    write_sweep(first, {"name": "a", "search": "tpe", "scheduler": "asha", "data": {"fingerprint": "x"}})
    twice = [build_record(0), build_record(0, replicate=1), build_record(1, status="failed")]
    write_trials(first, twice, tuple(TASKS))
    found = select_from(SelectionRequest(sweeps=[first, second], settings=FAST, repeats=1, tasks=["sst"])).searches
    assert found == {
        first: RecordedSearch(search="tpe", scheduler="asha", num_configurations=1),
        second: RecordedSearch(search="not recorded", scheduler="not recorded", num_configurations=2),
    }


def with_dev_set(folder: Path, task: str, labels: Sequence[float], num_trials: int = 3) -> None:
    """Gives a task of a sweep another dev set: random predictions for these labels."""
    random = np.random.default_rng(0)
    for trial in (f"{number:04d}-r0" for number in range(num_trials)):
        for epoch in (1, 2):
            logits = random.normal(2.5, 1, size=(len(labels), TASKS[task].num_logits))
            own = Predictions(
                task=task,
                split="dev",
                ids=list(map(str, range(len(labels)))),
                labels=np.array(labels, np.float32),
                logits=logits.astype(np.float32),
            )
            replace_predictions(folder, trial, epoch, own)


@pytest.mark.parametrize(("task", "method"), [("sst", "auto"), ("sts", "one_model")])
def test_a_task_with_one_dev_row_leaves_all_others_as_they_are(sweep: Path, task: str, method: str) -> None:
    others = [name for name in TASKS if name != task]
    request = SelectionRequest(sweeps=[sweep], settings=FAST, repeats=1, method=method)
    expected = select_from(replace(request, tasks=others))
    with_dev_set(sweep, task, [1.0])
    found = select_from(request)
    assert found.tasks == expected.tasks
    ((name, reason),) = found.not_chosen.items()
    assert name == task
    assert "more rows" in reason
    assert f"Nothing was chosen for {TASKS[task].title}: " in " ".join(brief_verdict(found))


def test_the_first_reason_is_the_error_where_nothing_can_be_chosen(sweep: Path) -> None:
    for task in TASKS:
        with_dev_set(sweep, task, [1.0])
    with pytest.raises(ValueError, match=r"^examples of sst to select by must be at least .*more rows"):
        select_from(SelectionRequest(sweeps=[sweep], settings=FAST, repeats=1))


def suits(metric: str, task: Task) -> bool:
    return task.kind in METRICS[metric].kinds


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("task", "metric"), [(task.name, name) for task in TASKS.values() for name in METRICS if suits(name, task)]
)
def test_a_dev_set_with_one_label_is_selected_by_without_an_error(sweep: Path, task: str, metric: str) -> None:
    with_dev_set(sweep, task, [1.0] * 30)
    pool = read_pool([sweep], replace(TASKS[task], metric=TASKS[task].metric))
    found = select_ensemble(replace(pool, task=replace(TASKS[task], metric=metric)), FAST)
    assert np.isfinite([found.score.cross_fitted, found.score.standard_error, *found.score.interval]).all()
