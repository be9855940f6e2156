"""Each finding is made where it holds, and not where it does not; each says what to do."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mtlib.config.trial import TrialConfig
from mtlib.tasks import TASKS
from mtlib.training.evaluation import Predictions
from results.analysis.effects.key_effects import ValueEffect
from results.analysis.sweep import Sweep
from results.page.content import Finding
from results.page.health import (
    CHECKS,
    FORGOTTEN,
    NOT_FINITE,
    RISEN,
    constant_predictions,
    edges,
    equally_trained,
    failed_trials,
    few_replicates,
    find_problems,
    findings_or_reason,
    forgetting,
    is_constant,
    memorized_tasks,
    overfitting,
    short_training,
    starved_tasks,
    strong_penalties,
    uncertain_effects,
    uneven_budgets,
    unfinished,
    weak_dev_sets,
    weak_penalties,
)
from results.records.epochs import epoch_path, write_epoch
from results.records.schemas import CURVES
from results.records.trials import TrialRecord
from tests.results.analysis.effects.test_answer import curve_of
from tests.results.conftest import build_record, build_report
from tests.results.page.recorded_sweep import with_records, write_recorded_sweep

STOPPED = datetime(2024, 5, 1, tzinfo=UTC)
Rows = Sequence[tuple[str, int, str, str, str, float]]
"""Points of curves: trial, epoch, task, split, metric, value."""


def sweep_of(records: Sequence[TrialRecord] = (), rows: Rows = (), **changes: Any) -> Sweep:
    """A sweep without files."""
    curves: pd.DataFrame = CURVES.empty_table().to_pandas()
    given = pd.DataFrame(rows, columns=["trial", "epoch", "task", "split", "metric", "value"])
    info = {"name": "mine", "space": {"metric": "overall"}}
    values: dict[str, Any] = {"path": Path("/none"), "info": info, "trials": pd.DataFrame()}
    return Sweep(**{**values, "curves": pd.concat([curves, given]), "records": tuple(records), **changes})


def only(findings: list[Finding]) -> Finding:
    (found,) = findings
    assert found.advice
    return found


def test_sound_sweep_has_no_problem(recorded_sweep: Sweep) -> None:
    found = find_problems(recorded_sweep)
    assert [finding.what for finding in found if finding.level == "problem"] == []


def test_failed_trials_are_grouped_by_reason() -> None:
    records = [build_record(0, status="failed"), build_record(1), build_record(2, status="failed")]
    found = only(list(failed_trials(sweep_of(records))))
    assert found.level == "problem"
    trials = "0000-r0 (smart.weight 0), 0002-r0 (smart.weight 1)"
    assert found.what == f"2 trials failed: RuntimeError: out of memory. Failed: {trials}."
    assert found.advice == "Fix the cause, then run them again:\n  python sweeps/run.py --resume /none --retry-failed"


def test_one_failed_trial_is_singular_and_the_command_works_from_any_storage() -> None:
    record = build_record(0, status="failed", error="Bad luck.")
    found = only(list(failed_trials(sweep_of([record], path=Path("/my sweeps/mine; rm")))))
    assert found.what.startswith("1 trial failed: Bad luck. Failed: 0000-r0")
    assert found.advice.endswith("\n  python sweeps/run.py --resume '/my sweeps/mine; rm' --retry-failed")


def test_failed_trial_without_searched_keys_has_its_name_alone() -> None:
    found = only(list(failed_trials(sweep_of([build_record(0, status="failed", params={})]))))
    assert found.what.endswith("Failed: 0000-r0.")


@pytest.mark.parametrize(
    "reason",
    [
        "sst: loss is nan at step 3",
        "sst: smart_penalty is inf at step 3",
        "qqp: a prediction on dev is not finite",
        "training diverged: loss=NaN",
        "the gradient is infinite",
        "loss: nan.",
    ],
)
def test_trials_that_diverged_get_other_advice(reason: str) -> None:
    record = build_record(0, status="failed", error=f"{reason}\nin a line below")
    found = only(list(failed_trials(sweep_of([record]))))
    assert "in a line below" not in found.what
    assert "lower the learning rate" in found.advice


@pytest.mark.parametrize(
    "reason",
    [
        "the tenant is over its quota",
        "no module named nanochat",
        "/data/nan/sst.csv is missing",
        "nan-model.bin is missing",
        "dominant, financial info",
        "C:\\nan\\file",
    ],
)
def test_words_and_paths_that_contain_nan_are_no_divergence(reason: str) -> None:
    assert NOT_FINITE.search(reason) is None


def test_configurations_that_trained_the_same_are_a_warning() -> None:
    records = [build_record(number) for number in (0, 1, 2)]
    rows = [
        (record.trial_id, 1, "sst", "train", "loss", loss)
        for record, loss in zip(records, (0.5, 0.4, 0.5), strict=True)
    ]
    (finding,) = equally_trained(sweep_of(records, rows))
    assert finding.level == "warning"
    assert finding.what.startswith("0000 (weight=0), 0002 (weight=1) trained the same")
    assert list(equally_trained(sweep_of(records[:2], rows))) == []


def test_no_failed_trial_is_no_finding() -> None:
    assert list(failed_trials(sweep_of([build_record(0)]))) == []


def test_unfinished_trials_are_counted(recorded_sweep: Sweep) -> None:
    assert list(unfinished(recorded_sweep)) == []
    records = [replace(record, status="queued") for record in recorded_sweep.records[:2]]
    begun = replace(recorded_sweep, records=(*records, *recorded_sweep.records[2:]), stopped_at=STOPPED)
    found = only(list(unfinished(begun)))
    assert "2 queued" in found.what
    assert found.advice == f"Continue with:\n  python sweeps/run.py --resume {recorded_sweep.path}"


def test_running_sweep_is_resumed_only_once_it_has_stopped(tmp_path: Path) -> None:
    sweep = write_recorded_sweep(tmp_path / "mine", num_replicates=1)
    failed, queued = replace(sweep.records[0], status="failed"), replace(sweep.records[1], status="running")
    running = replace(sweep, records=(failed, queued, *sweep.records[2:]))
    for is_running in (True, False):
        shown = replace(running, stopped_at=None if is_running else STOPPED)
        (end,) = unfinished(shown)
        assert ("--resume" in end.advice) is not is_running
        others = [*failed_trials(shown), *few_replicates(shown, sweep.estimated_effects)]
        assert len(others) == 2
        for finding in others:
            assert finding.advice.startswith("Once the sweep has stopped: ") is is_running
            assert f"--resume {sweep.path}" in finding.advice


def test_trial_that_predicts_one_label_is_named(tmp_path: Path) -> None:
    sweep = write_recorded_sweep(tmp_path / "mine")
    assert list(constant_predictions(sweep)) == []
    report = build_report(3)

    def stuck(part: Predictions) -> Predictions:
        is_changed = part.split == "dev" and part.task != "sst"
        return replace(part, logits=np.full_like(part.logits, 2.5)) if is_changed else part

    points = [replace(point, value=2.0) if point.task == "overall" else point for point in report.points]
    report = replace(report, predictions=tuple(map(stuck, report.predictions)), points=tuple(points))
    write_epoch(sweep.path, "0001-r1", report)
    assert list(constant_predictions(sweep)) == []
    qqp, sts = constant_predictions(with_records(tmp_path / "mine", sweep.records))
    assert qqp.what == "QQP: nearly the whole dev set gets the same label in 1 of 6 finished trials: 0001-r1."
    assert sts.what == "STS: nearly the whole dev set gets the same number in 1 of 6 finished trials: 0001-r1."
    assert qqp.level == "problem"
    pruned = [replace(r, status="pruned" if r.trial_id == "0001-r1" else r.status) for r in sweep.records]
    assert list(constant_predictions(with_records(tmp_path / "mine", pruned))) == []


@pytest.mark.parametrize(
    ("num_predicted", "num_labels", "expected"),
    [(98, 60, False), (99, 60, True), (100, 60, True), (99, 0, True), (99, 99, False), (100, 99, True)],
)
def test_boundary_of_one_label_for_nearly_all(num_predicted: int, num_labels: int, *, expected: bool) -> None:
    logits = np.where(np.arange(100) < num_predicted, 1.0, -1.0)[:, None]
    labels = (np.arange(100) < num_labels).astype(float)
    assert is_constant(TASKS["qqp"], logits, labels) is expected
    ranked = replace(TASKS["qqp"], metric="average_precision")
    assert not is_constant(ranked, logits, labels)  # it needs no threshold


def test_any_class_may_be_the_one_that_is_predicted() -> None:
    labels = np.arange(100) % 5
    assert is_constant(TASKS["sst"], np.eye(5)[np.full(100, 3)], labels)
    assert not is_constant(TASKS["sst"], np.eye(5)[labels], labels)


@pytest.mark.parametrize(("spread", "expected"), [(0.0, True), (0.049, True), (0.051, False), (1.4, False)])
def test_boundary_of_a_constant_regression(spread: float, *, expected: bool) -> None:
    logits = 2.5 + spread * np.array([-1.0, 1.0] * 20)[:, None]
    assert is_constant(TASKS["sts"], logits, np.zeros(40)) is expected


def dev_table(sweep: Sweep, task: str, labels: Sequence[float], ids: Sequence[str]) -> None:
    """Every trial's predictions for dev, with other labels and ids, and as many rows."""
    for trial in sorted(set(sweep.trials["trial"])):
        for epoch in (1, 2):
            report = build_report(epoch)
            own = Predictions(
                task=task,
                split="dev",
                ids=list(ids),
                labels=np.array(labels, np.float32),
                logits=np.zeros((len(ids), TASKS[task].num_logits), np.float32),
            )
            others = tuple(part for part in report.predictions if (part.task, part.split) != (task, "dev"))
            write_epoch(sweep.path, trial, replace(report, predictions=(own, *others)))


@pytest.mark.parametrize(
    ("labels", "ids", "words"),
    [
        ([1, 0, 1], ["a", "b", "c"], ["3 dev rows"]),
        ([0], ["a"], ["1 dev row"]),
        ([1] * 30, list(map(str, range(30))), ["have one label, 1"]),
        ([0, 1] * 15, ["a", "a", "a", *map(str, range(27))], ["2 dev rows", "repeat the id"]),
        ([0, 1] * 15, list(map(str, range(30))), []),
    ],
)
@pytest.mark.parametrize("task", TASKS)
def test_dev_sets_that_show_little_are_named(
    tmp_path: Path, task: str, labels: list[float], ids: list[str], words: list[str]
) -> None:
    sweep = write_recorded_sweep(tmp_path / "mine", num_replicates=1)
    assert list(weak_dev_sets(sweep)) == []
    dev_table(sweep, task, labels, ids)
    found = " ".join(finding.what for finding in weak_dev_sets(sweep))
    assert all(text in found for text in words)
    assert (found == "") == (words == [])


@pytest.mark.parametrize("status", ["failed", "running", "pruned"])
def test_dev_sets_are_read_from_a_finished_trial(tmp_path: Path, status: str) -> None:
    folder = tmp_path / "mine"
    sweep = write_recorded_sweep(folder, num_replicates=1)
    dev_table(sweep, "sst", [1], ["a"])
    first, second, *others = sweep.records
    ended = with_records(folder, [replace(first, status=status), second, *others])
    (folder / epoch_path(first.trial_id, 2)).unlink()
    assert only(list(weak_dev_sets(ended))).what.startswith("SST has 1 dev row")
    none = with_records(folder, [replace(record, status=status) for record in sweep.records])
    assert list(weak_dev_sets(none)) == []


def test_starved_task_is_a_problem_with_what_to_set(tmp_path: Path) -> None:
    terms = {("sst", "gradient_norm"): 0.1, ("qqp", "gradient_norm"): 0.2, ("sts", "gradient_norm"): 5.0}
    sweep = write_recorded_sweep(tmp_path / "mine", terms=terms)
    found = only(list(starved_tasks(sweep)))
    assert found.level == "problem"
    assert found.what.startswith("STS's gradients are 50 times those of SST")
    assert found.advice == "Set tasks.sts.target_scale=unit."
    pruned = tuple(replace(record, status="pruned") for record in sweep.records)
    assert only(list(starved_tasks(replace(sweep, records=pruned)))).level == "note"
    some = only(list(starved_tasks(replace(sweep, records=(*sweep.records[:4], *pruned[4:])))))
    assert (some.level, "in the first steps (4 trials" in some.what) == ("problem", True)


@pytest.mark.parametrize(("penalty", "num_found"), [(0.01, 0), (30.0, 1)])
def test_penalty_that_overwhelms_the_loss_is_a_warning(tmp_path: Path, penalty: float, num_found: int) -> None:
    sweep = write_recorded_sweep(tmp_path / "mine", weights=(0.3, 1.0), terms={("sst", "smart_penalty"): penalty})
    found = list(strong_penalties(sweep))
    assert len(found) == num_found
    if found:
        assert "larger than the loss in 4 trials" in found[0].what
        assert found[0].advice.startswith("Set smart.weight to at most")


def test_penalty_that_is_numerically_nothing_is_a_warning(tmp_path: Path) -> None:
    sweep = write_recorded_sweep(tmp_path / "mine", terms={("qqp", "smart_penalty"): 1e-8})
    found = only(list(weak_penalties(sweep)))
    assert found.what.startswith("The SMART penalty on QQP is numerically nothing")
    assert found.level == "warning"


def test_best_value_at_the_end_of_the_grid_is_noted(recorded_sweep: Sweep) -> None:
    effects = recorded_sweep.estimated_effects
    assert list(edges(effects, effects.columns["overall"])) == []  # 0.3 is best
    column = effects.columns["overall"]

    def at(value: float, mean: float) -> ValueEffect:
        return ValueEffect(value=value, num_trials=2, mean=mean, difference=None, error=None, interval=None)

    for means, expected in (((0.1, 0.2, 0.3), "is the largest"), ((0.3, 0.2, 0.1), "")):
        values = {"smart.weight": [at(value, mean) for value, mean in zip((0.0, 0.3, 1.0), means, strict=True)]}
        changed = replace(effects, columns={"overall": replace(column, values=values)})
        found = [finding.what for finding in edges(changed, changed.columns["overall"])]
        assert bool(found) == bool(expected)  # a value of 0 has nothing below it
        assert expected in "".join(found)
    values = {"smart.weight": [at(value, value) for value in (0.0, 0.3, 1.0)]}
    found = [finding.what for finding in edges(effects, replace(effects.columns["sts"], values=values))]
    assert found == ["The best smart.weight for STS, 1, is the largest that was tried for STS."]


@pytest.mark.parametrize(("optimum", "is_found"), [(1.0, True), (0.0, False)])
def test_best_value_at_the_end_of_a_range_is_a_warning(
    recorded_sweep: Sweep, optimum: float, *, is_found: bool
) -> None:
    effects = recorded_sweep.estimated_effects
    curve = curve_of("smart.weight", optimum=optimum, edge="low", p_value=0.01)
    column = replace(effects.columns["overall"], values={}, curves={"smart.weight": curve})
    assert bool(list(edges(effects, column))) is is_found  # most settings end at 0
    unsure = replace(curve, p_value=0.06)
    assert list(edges(effects, replace(column, curves={"smart.weight": unsure}))) == []


def different_tasks(folder: Path, only_sts: Sequence[int]) -> Sweep:
    """The sweep, some of whose configurations were trained on STS alone."""
    sweep = write_recorded_sweep(folder)
    numbers = sweep.curves["trial"].str[:4].astype(int)
    kept = ~numbers.isin(only_sts) | sweep.curves["task"].isin(["sts", "overall"])
    return replace(sweep, curves=sweep.curves[kept])


def test_effects_on_each_task_are_checked_where_configurations_have_different_tasks(tmp_path: Path) -> None:
    sweep = different_tasks(tmp_path / "mine", only_sts=[0])
    assert set(sweep.estimated_effects.columns) == {"sst", "qqp", "sts"}
    assert not any("could not be estimated" in finding.what for finding in uncertain_effects(sweep))
    alone = different_tasks(tmp_path / "two", only_sts=[0, 1])
    assert set(alone.estimated_effects.columns) == {"sts"}
    assert not any("could not be estimated" in finding.what for finding in uncertain_effects(alone))


def test_best_value_for_a_task_is_noted_with_its_name(tmp_path: Path) -> None:
    effects = different_tasks(tmp_path / "mine", only_sts=[0]).estimated_effects
    curve = curve_of("smart.weight", optimum=1.0, edge="high", p_value=0.01)
    column = replace(effects.columns["sts"], values={}, curves={"smart.weight": curve})
    assert only(list(edges(effects, column))).what.startswith("The best smart.weight for STS lies at the high end")


def test_replicates_that_are_not_finished_are_finished_first(tmp_path: Path) -> None:
    sweep = write_recorded_sweep(tmp_path / "mine")
    for status, advice in (("interrupted", "Finish the trials"), ("failed", "Run the failed trials again")):
        left = [replace(r, status=status if r.replicate else "complete") for r in sweep.records]
        cut = replace(with_records(tmp_path / "mine", left), stopped_at=STOPPED)
        found = only(list(few_replicates(cut, cut.estimated_effects)))
        assert found.what == "How sure the differences are is not known: no configuration was trained twice."
        assert found.advice.startswith(advice)
        assert "--replicates" not in found.advice


def test_reason_why_replicates_do_not_suffice_is_that_of_the_answer(tmp_path: Path) -> None:
    sweep = write_recorded_sweep(tmp_path / "mine", weights=(0.3, 1.0))
    cut = with_records(tmp_path / "mine", sweep.records[:3])
    found = only(list(few_replicates(cut, cut.estimated_effects)))
    assert "too few configurations were trained twice" in found.what


def test_best_configurations_of_a_search_should_be_trained_twice(tmp_path: Path) -> None:
    one = write_recorded_sweep(tmp_path / "one", num_replicates=1)
    effects = replace(one.estimated_effects, search="random")
    found = only(list(few_replicates(one, effects)))
    assert found.level == "note"
    assert found.advice.endswith(f"--resume {one.path} --replicates 3 --replicate-best 3")
    two = write_recorded_sweep(tmp_path / "two")
    assert list(few_replicates(two, replace(two.estimated_effects, search="tpe"))) == []


def test_missing_replicates_are_a_warning(tmp_path: Path) -> None:
    one = write_recorded_sweep(tmp_path / "one", num_replicates=1)
    found = only(list(few_replicates(one, one.estimated_effects)))
    assert found.level == "warning"
    assert f"--resume {one.path} --replicates 3" in found.advice
    two = write_recorded_sweep(tmp_path / "two")
    assert list(few_replicates(two, two.estimated_effects)) == []
    fewer = with_records(tmp_path / "two", two.records[:-1])
    assert "1 to 2 replicates" in only(list(few_replicates(fewer, fewer.estimated_effects))).what


@pytest.mark.parametrize(("steps", "num_found"), [(30, 0), (31, 0), (32, 1)])
def test_uneven_budgets_are_noted(steps: int, num_found: int) -> None:
    records = [build_record(0), build_record(1, steps=steps), build_record(2, status="pruned", steps=5)]
    assert len(list(uneven_budgets(sweep_of(records)))) == num_found


def test_training_that_ends_at_its_best_is_noted(recorded_sweep: Sweep) -> None:
    late = [replace(record, best_epoch={"overall": 2}) for record in recorded_sweep.records]
    early = [replace(record, best_epoch={"overall": 1}) for record in recorded_sweep.records]
    found = only(list(short_training(replace(recorded_sweep, records=tuple(late)))))
    assert "In 6 of 6 trials the last epoch" in found.what
    stages = TrialConfig.from_json(late[0].config).stages
    longer = f"stages.{len(stages) - 1}.epochs={2 * stages[-1].epochs}"
    assert found.advice == f"Train longer in a next sweep, e.g. --set {longer}."
    assert list(short_training(replace(recorded_sweep, records=tuple(late[:3] + early[3:])))) == []


def long_training(overall: Sequence[float], losses: Sequence[float], number: int = 0) -> list[Any]:
    """The points of a trial with these overall scores and losses of SST and STS, that of STS always the same."""
    trial = f"{number:04d}-r0"
    rows: list[Any] = []
    for epoch, (score, loss) in enumerate(zip(overall, losses, strict=True), 1):
        rows += [(trial, epoch, "overall", "dev", "overall", score), (trial, epoch, "sst", "train", "loss", loss)]
        rows += [(trial, epoch, "sts", "train", "loss", 9.0)]
    return rows


@pytest.mark.parametrize(
    ("overall", "losses", "is_found"),
    [
        ((0.5, 0.6, 0.5, 0.5), (4, 3, 2, 1), True),
        ((0.5, 0.5, 0.6, 0.5), (4, 3, 2, 1), False),  # in the second half
        ((0.5, 0.6, 0.5, 0.5), (4, 3, 2, 3), False),  # the loss does not fall
        ((0.5, 0.6, 0.6, 0.6), (4, 3, 2, 1), True),  # the first of equal epochs
        ((0.6, 0.5, 0.5), (3, 2, 1), False),  # too few epochs
        ((0.5, 0.6, 0.5, 0.5, 0.5), (5, 4, 3, 2, 1), True),
        ((0.5, 0.5, 0.6, 0.5, 0.5), (5, 4, 3, 2, 1), False),
    ],
)
def test_best_epoch_in_the_first_half_while_the_loss_falls_is_noted(
    overall: Sequence[float], losses: Sequence[float], *, is_found: bool
) -> None:
    found = list(overfitting(sweep_of([build_record(0)], long_training(overall, losses))))
    assert bool(found) is is_found
    if found:
        assert found[0].what.startswith("In 1 of 1 trial the best epoch is in the first half")


@pytest.mark.parametrize(("num_early", "is_found"), [(1, False), (2, True)])
def test_overfitting_is_that_of_most_finished_trials(num_early: int, *, is_found: bool) -> None:
    early, late, losses = (0.6, 0.5, 0.5, 0.5), (0.5, 0.5, 0.5, 0.6), (4, 3, 2, 1)
    rows = [point for n in range(3) for point in long_training(early if n < num_early else late, losses, n)]
    rows += long_training(early, losses, 3)
    records = [*map(build_record, range(3)), build_record(3, status="pruned")]
    assert bool(list(overfitting(sweep_of(records, rows)))) is is_found


def test_without_losses_there_is_no_overfitting() -> None:
    rows = [row for row in long_training((0.6, 0.5, 0.5, 0.5), (4, 3, 2, 1)) if row[4] != "loss"]
    assert list(overfitting(sweep_of([build_record(0)], rows))) == []


def losses_of(dev: Sequence[float], train: Sequence[float], number: int = 0) -> Rows:
    """The losses of SST in a trial's epochs."""
    own = [("dev", value) for value in enumerate(dev, 1)] + [("train", value) for value in enumerate(train, 1)]
    return [(f"{number:04d}-r0", epoch, "sst", split, "loss", value) for split, (epoch, value) in own]


@pytest.mark.parametrize(
    ("dev", "train", "is_found"),
    [
        ((1.2, 1.6, 2.8), (1.2, 0.7, 0.1), True),
        ((1.2, 1.1, 1.1 * 0.99 * RISEN), (1.2, 0.7, 0.1), False),
        ((1.2, 1.1, 1.1 * 1.01 * RISEN), (1.2, 0.7, 0.1), True),
        ((1.2, 1.6, 2.8), (1.2, 1.3, 1.4), False),  # it diverges
        ((2.8, 1.6, 1.2), (1.2, 0.7, 0.1), False),
        ((1.2,), (1.2,), False),
    ],
)
def test_dev_loss_that_rises_while_the_train_loss_falls_is_memorizing(
    dev: Sequence[float], train: Sequence[float], *, is_found: bool
) -> None:
    rows = [*losses_of(dev, train), *losses_of((1.2, 1.1), (1.2, 1.1), 1), *losses_of((1.0, 9.0), (2.0, 1.0), 2)]
    records = [build_record(0), build_record(1), build_record(2, status="pruned")]
    found = list(memorized_tasks(sweep_of(records, rows)))
    assert bool(found) is is_found
    if found:
        (finding,) = found
        assert finding.what.startswith("SST's train rows are memorized in 1 of 2 trials")
        assert finding.what.endswith(
            f"most in 0000-r0, from {min(dev):.3g} after epoch {dev.index(min(dev)) + 1} to {dev[-1]:.3g}."
        )
        assert finding.advice.startswith("Give sst fewer of the steps")


def test_without_train_losses_nothing_is_memorized() -> None:
    assert list(memorized_tasks(sweep_of([build_record(0)], losses_of((1.0, 9.0), ())))) == []


def stages(scores: Sequence[float], trained: str, number: int = 0, task: str = "sst", metric: str = "accuracy") -> Rows:
    """The points of a trial in whose epochs the task is trained (`x`) or others are."""
    trial = f"{number:04d}-r0"
    rows = [(trial, epoch, task, "dev", metric, score) for epoch, score in enumerate(scores, 1)]
    return [*rows, *((trial, e, task if x == "x" else "qqp", "train", "loss", 1.0) for e, x in enumerate(trained, 1))]


@pytest.mark.parametrize(
    ("scores", "trained", "is_found"),
    [
        ((0.3, 0.5, 0.4), "xx-", True),
        ((0.3, 0.5, 0.4), "xxx", False),  # trained to the end: not forgotten
        ((0.3, 0.5, 0.4), "x-x", False),
        ((0.3, 0.5, 0.4, 0.49), "xx--", False),  # it comes back
        ((0.3, 0.5, 0.5 - 0.9 * FORGOTTEN), "xx-", False),
        ((0.3, 0.5, 0.5 - 1.1 * FORGOTTEN), "xx-", True),
        ((0.3, 0.4, 0.5), "x--", False),
    ],
)
def test_score_that_falls_while_others_are_trained_is_forgetting(
    scores: Sequence[float], trained: str, *, is_found: bool
) -> None:
    found = list(forgetting(sweep_of([build_record(0)], stages(scores, trained))))
    assert bool(found) is is_found


def test_forgetting_names_the_worst_trial_and_counts_those_that_end_without_the_task() -> None:
    given = [((0.5, 0.4), "x-"), ((0.6, 0.2), "x-"), ((0.5, 0.5), "x-"), ((0.9, 0.1), "xx")]
    rows = [row for number, (scores, trained) in enumerate(given) for row in stages(scores, trained, number)]
    found = only(list(forgetting(sweep_of([*map(build_record, range(4))], rows))))
    assert found.what == (
        "SST is forgotten while other tasks are trained: its dev score ends clearly below its best in 2 of 3 trials "
        "whose last epochs leave it out, most in 0001-r0, from 0.600 to 0.200."
    )


@pytest.mark.parametrize(("fall", "is_found"), [(0.05, False), (0.07, True)])
def test_correlation_that_is_forgotten_falls_by_its_part_of_the_overall_score(fall: float, *, is_found: bool) -> None:
    rows = stages((0.8, 0.8 - fall), "x-", task="sts", metric="pearson")
    assert bool(list(forgetting(sweep_of([build_record(0)], rows)))) is is_found


def test_effects_that_cannot_be_estimated_are_noted(tmp_path: Path) -> None:
    sweep = write_recorded_sweep(tmp_path / "mine", weights=(0.3, 1.0))
    records = [replace(sweep.records[0], status="queued"), *sweep.records[1:]]
    assert not any("could not be estimated" in finding.what for finding in uncertain_effects(sweep))
    one = [replace(r, status="failed" if r.number else "complete") for r in records]
    found = only(list(uncertain_effects(with_records(tmp_path / "mine", one))))
    assert found.what.startswith("Effects could not be estimated: fewer than two finished configurations")
    old = [finding for finding in find_problems(replace(sweep, info={"name": "old"})) if finding.level == "note"]
    assert any("number of replicates, as sweep.json must record" in finding.what for finding in old)


def test_check_that_cannot_be_made_leaves_the_others(tmp_path: Path) -> None:
    sweep = write_recorded_sweep(tmp_path / "mine", terms={("sst", "smart_penalty"): 1e-8})
    old = [replace(record, config='{"of": "an older version"}') for record in sweep.records]
    records = [replace(old[0], status="failed", error="boom"), *old[1:]]
    found = find_problems(with_records(tmp_path / "mine", records))
    assert "boom" in found[0].what
    assert any("is numerically nothing" in finding.what for finding in found)
    skipped = only([finding for finding in found if finding.what.startswith("Not checked: ")])
    assert skipped.level == "note"
    assert skipped.what.startswith("Not checked: penalties that overwhelm the loss, as ")
    assert f"python results/report.py {tmp_path / 'mine'}" in skipped.advice


@pytest.mark.parametrize("name", CHECKS)
def test_each_check_of_a_sweep_that_has_just_begun_finds_nothing_or_says_why(name: str) -> None:
    sweep = sweep_of([build_record(0, status="running", best={}, best_epoch={}, epochs=0, steps=0)])
    assert all(finding.level != "problem" for finding in findings_or_reason(name, CHECKS[name], sweep))


def test_worst_findings_come_first(tmp_path: Path) -> None:
    sweep = write_recorded_sweep(tmp_path / "mine", num_replicates=1)
    records = [replace(sweep.records[0], status="failed", error="boom"), *sweep.records[1:]]
    levels = [finding.level for finding in find_problems(replace(sweep, records=tuple(records)))]
    assert levels == sorted(levels, key=("problem", "warning", "note").index)
    assert levels[0] == "problem"
