"""Each finding is made where it holds, and not where it does not; each says what to do."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mtlib.training.evaluation import Predictions
from results.analysis.effects.key_effects import ValueEffect
from results.analysis.sweep import Sweep
from results.page.content import Finding
from results.page.health import (
    edges,
    failed_trials,
    few_replicates,
    find_problems,
    majority_class,
    penalties,
    penalty_ratios,
    short_training,
    starved,
    uneven_budgets,
    unfinished,
)
from results.records.epochs import write_epoch
from tests.results.conftest import build_record, build_report
from tests.results.page.recorded_sweep import with_records, write_recorded_sweep


@pytest.fixture
def recorded_sweep(tmp_path: Path) -> Sweep:
    return write_recorded_sweep(tmp_path / "mine")


def only(findings: list[Finding]) -> Finding:
    (found,) = findings
    assert found.advice
    return found


def test_sound_sweep_has_no_problem(recorded_sweep: Sweep) -> None:
    found = find_problems(recorded_sweep, recorded_sweep.estimated_effects)
    assert [finding.what for finding in found if finding.level == "problem"] == []


def test_failed_trials_are_grouped_by_reason() -> None:
    records = [build_record(0, status="failed"), build_record(1), build_record(2, status="failed")]
    found = only(list(failed_trials(records)))
    assert found.level == "problem"
    assert found.what.startswith("2 trials failed: RuntimeError: out of memory")
    assert "0000-r0 (smart.weight 0), 0002-r0 (smart.weight 1)" in found.what
    assert "--retry-failed" in found.advice


def test_trials_that_diverged_get_other_advice() -> None:
    record = build_record(0, status="failed", error="TrainingDiverged: the loss is not finite\nat step 3")
    found = only(list(failed_trials([record])))
    assert "at step 3" not in found.what
    assert "lower the learning rate" in found.advice


def test_no_failed_trial_is_no_finding() -> None:
    assert list(failed_trials([build_record(0)])) == []


def test_unfinished_trials_are_counted(recorded_sweep: Sweep) -> None:
    assert list(unfinished(recorded_sweep)) == []
    records = [replace(record, status="queued") for record in recorded_sweep.records[:2]]
    found = only(list(unfinished(replace(recorded_sweep, records=(*records, *recorded_sweep.records[2:])))))
    assert "2 queued" in found.what
    assert "--resume mine" in found.advice


def test_trial_that_predicts_the_most_frequent_label_is_named(tmp_path: Path) -> None:
    sweep = write_recorded_sweep(tmp_path / "mine")
    report = build_report(3)
    labels = next(part.labels for part in report.predictions if (part.task, part.split) == ("qqp", "dev"))
    most = np.bincount(labels.astype(int)).argmax()
    constant = np.full((len(labels), 1), 9.0 if most else -9.0, dtype=np.float32)
    share = float(np.mean(labels == most))

    def stuck(part: Predictions) -> Predictions:
        return replace(part, logits=constant) if (part.task, part.split) == ("qqp", "dev") else part

    points = [
        replace(point, value=2.0)
        if point.task == "overall"
        else replace(point, value=share)
        if (point.task, point.metric, point.split) == ("qqp", "accuracy", "dev")
        else point
        for point in report.points
    ]
    report = replace(report, predictions=tuple(map(stuck, report.predictions)), points=tuple(points))
    write_epoch(sweep.path, "0001-r1", report)
    assert list(majority_class(sweep)) == []
    found = only(list(majority_class(with_records(tmp_path / "mine", sweep.records))))
    assert found.what == "QQP: 1 of 6 trials predict little but the most frequent label: 0001-r1."


def test_starved_task_is_a_problem_with_what_to_set(tmp_path: Path) -> None:
    terms = {("sst", "gradient_norm"): 0.1, ("qqp", "gradient_norm"): 0.2, ("sts", "gradient_norm"): 5.0}
    found = only(list(starved(write_recorded_sweep(tmp_path / "mine", terms=terms))))
    assert found.what.startswith("STS's gradients are 50 times those of SST")
    assert found.advice == "Set tasks.sts.target_scale=unit."


@pytest.mark.parametrize(("penalty", "num_found"), [(0.01, 0), (30.0, 1)])
def test_penalty_that_overwhelms_the_loss_is_a_warning(tmp_path: Path, penalty: float, num_found: int) -> None:
    sweep = write_recorded_sweep(tmp_path / "mine", weights=(0.3, 1.0), terms={("sst", "smart_penalty"): penalty})
    found = list(penalties(sweep))
    assert len(found) == num_found
    if found:
        assert "larger than the loss in 4 trials" in found[0].what


def test_penalty_summed_over_the_batch_counts_once_for_each_row(tmp_path: Path) -> None:
    sweep = write_recorded_sweep(tmp_path / "mine", weights=(0.3,), terms={("sst", "smart_penalty"): 0.5})
    ratios = penalty_ratios(sweep)
    assert sweep.info["base"]["smart"]["reduction"] == "sum"
    batch_size = sweep.info["base"]["tasks"]["sst"]["batch_size"]
    assert ratios["sst"]["0000-r0"] == pytest.approx(0.3 * batch_size * 0.5 / (1 / 2))  # loss: 1 / epoch


def test_penalty_that_is_numerically_nothing_is_a_warning(tmp_path: Path) -> None:
    sweep = write_recorded_sweep(tmp_path / "mine", terms={("qqp", "smart_penalty"): 1e-8})
    found = only(list(penalties(sweep)))
    assert found.what.startswith("SMART's penalty on QQP is numerically nothing")


def test_best_value_at_the_end_of_the_grid_is_noted(recorded_sweep: Sweep) -> None:
    effects = recorded_sweep.estimated_effects
    assert list(edges(effects)) == []  # 0.3 is best
    column = effects.columns["overall"]

    def at(value: float, mean: float) -> ValueEffect:
        return ValueEffect(value=value, num_trials=2, mean=mean, difference=None, error=None, interval=None)

    for means, expected in (((0.1, 0.2, 0.3), "is the largest"), ((0.3, 0.2, 0.1), "")):
        values = {"smart.weight": [at(value, mean) for value, mean in zip((0.0, 0.3, 1.0), means, strict=True)]}
        changed = replace(effects, columns={"overall": replace(column, values=values)})
        found = [finding.what for finding in edges(changed)]
        assert bool(found) == bool(expected)  # a value of 0 has nothing below it
        assert expected in "".join(found)


def test_missing_replicates_are_a_warning(tmp_path: Path) -> None:
    one = write_recorded_sweep(tmp_path / "one", num_replicates=1)
    found = only(list(few_replicates(one.estimated_effects)))
    assert found.level == "warning"
    assert "--resume one --replicates 3" in found.advice
    two = write_recorded_sweep(tmp_path / "two")
    assert list(few_replicates(two.estimated_effects)) == []
    fewer = with_records(tmp_path / "two", two.records[:-1])
    assert "1 to 2 replicates" in only(list(few_replicates(fewer.estimated_effects))).what


@pytest.mark.parametrize(("steps", "num_found"), [(30, 0), (31, 0), (32, 1)])
def test_uneven_budgets_are_noted(steps: int, num_found: int) -> None:
    records = [build_record(0), build_record(1, steps=steps), build_record(2, status="pruned", steps=5)]
    assert len(list(uneven_budgets(records))) == num_found


def test_training_that_ends_at_its_best_is_noted(recorded_sweep: Sweep) -> None:
    late = [replace(record, best_epoch={"overall": 2}) for record in recorded_sweep.records]
    early = [replace(record, best_epoch={"overall": 1}) for record in recorded_sweep.records]
    assert "6 of 6 trials" in only(list(short_training(replace(recorded_sweep, records=tuple(late))))).what
    assert list(short_training(replace(recorded_sweep, records=tuple(late[:3] + early[3:])))) == []


def test_worst_findings_come_first(tmp_path: Path) -> None:
    sweep = write_recorded_sweep(tmp_path / "mine", num_replicates=1)
    records = [replace(sweep.records[0], status="failed", error="boom"), *sweep.records[1:]]
    levels = [finding.level for finding in find_problems(replace(sweep, records=tuple(records)), None)]
    assert levels == sorted(levels, key=("problem", "warning", "note").index)
    assert levels[0] == "problem"
