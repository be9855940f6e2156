"""Configurations are ranked by their best epoch, with standard errors, and compared with the best one."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from scipy import stats

from mtlib.tasks import TASKS, overall_score
from mtlib.training.epoch_report import EpochReport
from results.records.trials import TrialRecord
from results.stats.looks import looks_at
from results.stats.ranking import RankedConfiguration, rank, score_columns
from results.stats.resampling import bootstrap_scores, example_values
from results.stats.trial_scores import TOTAL
from tests.results.stats.test_trial_scores import Reports, predictions_of, scores_of, value_of

MakeReport = Callable[..., EpochReport]
MakeRecord = Callable[..., TrialRecord]


def rank_reports(records: Sequence[TrialRecord], reports: Reports) -> list[RankedConfiguration]:
    """Ranks trials given as reports of their epochs."""
    return rank(records, scores_of(records, reports), looks_at({"search": "grid"}, records))


def test_configurations_are_ranked_by_their_best_overall_score(
    make_report: MakeReport, make_record: MakeRecord
) -> None:
    skills = {0: (1.0, 0.2), 1: (0.1, 2.0), 2: (0.3, 0.4)}
    reports = {
        f"{number:04d}-r0": [make_report(epoch + 1, skill=skill) for epoch, skill in enumerate(row)]
        for number, row in skills.items()
    }
    rows = rank_reports([make_record(number) for number in skills], reports)
    assert [row.number for row in rows] == [1, 0, 2]
    assert [row.best_epoch for row in rows] == [2, 1, 2]
    best = reports["0001-r0"][1]
    for column in (("sst", "dev"), ("sst", "train"), ("qqp", "dev"), ("sts", "dev"), TOTAL):
        assert rows[0].scores[column].value == pytest.approx(value_of(best, *column)), column
    assert rows[0].scores[TOTAL].value == pytest.approx(
        overall_score({name: rows[0].scores[name, "dev"].value for name in TASKS}, TASKS)
    )


def test_errors_over_examples_of_the_best_epoch_agree_with_a_bootstrap(
    make_report: MakeReport, make_record: MakeRecord
) -> None:
    report = make_report(1)
    row = rank_reports([make_record(0)], {"0000-r0": [report]})[0]
    for task, split in (("sst", "dev"), ("sst", "train"), ("sts", "dev")):
        part = predictions_of(report, task, split)
        values = example_values(TASKS[task], part.logits[None], part.labels)
        expected = bootstrap_scores(TASKS[task], values, part.labels)[0].std(ddof=1)
        assert row.scores[task, split].example_error == pytest.approx(expected, rel=0.1)
    errors = [row.scores[name, "dev"].example_error for name in TASKS]
    variances = np.square(errors) * [1, 1, 0.25]
    assert row.scores[TOTAL].example_error == pytest.approx(np.sqrt(variances.sum()) / 3)
    assert row.scores[TOTAL].replicate_error is None


def test_replicates_are_one_row_with_their_mean_and_its_error(make_report: MakeReport, make_record: MakeRecord) -> None:
    reports = {f"0000-r{replicate}": [make_report(1, seed=replicate)] for replicate in range(3)}
    reports |= {f"0001-r{replicate}": [make_report(1, skill=0.1, seed=replicate)] for replicate in range(3)}
    rows = rank_reports([make_record(number, replicate) for number in (0, 1) for replicate in range(3)], reports)
    assert rows[0].trials == ("0000-r0", "0000-r1", "0000-r2")
    totals = [value_of(reports[f"0000-r{replicate}"][0], "overall", "dev") for replicate in range(3)]
    total = rows[0].scores[TOTAL]
    assert total.value == pytest.approx(np.mean(totals))
    assert total.replicate_error == pytest.approx(np.std(totals, ddof=1) / np.sqrt(3))
    parts = [predictions_of(reports[f"0000-r{replicate}"][0], "qqp", "dev") for replicate in range(3)]
    values = example_values(TASKS["qqp"], np.stack([part.logits for part in parts]), parts[0].labels)
    mean_resampled = bootstrap_scores(TASKS["qqp"], values, parts[0].labels).mean(axis=0)
    assert rows[0].scores["qqp", "dev"].example_error == pytest.approx(mean_resampled.std(ddof=1), rel=0.1)


def test_much_worse_configuration_is_not_marked_and_equal_ones_are(
    make_report: MakeReport, make_record: MakeRecord
) -> None:
    skills = {0: 0.0, 1: 2.0, 2: 2.0}
    names = [(number, replicate) for number in skills for replicate in range(3)]
    reports = {f"{n:04d}-r{r}": [make_report(1, skill=skills[n], seed=10 * n + r)] for n, r in names}
    rows = {row.number: row for row in rank_reports([make_record(n, r) for n, r in names], reports)}
    assert {number: row.may_be_best for number, row in rows.items()} == {0: False, 1: True, 2: True}
    assert rows[0].below_best is not None
    assert rows[0].margin is not None
    assert rows[0].below_best > rows[0].margin > 0


def test_dropped_configurations_follow_the_best_uncompared_and_marked(
    make_report: MakeReport, make_record: MakeRecord
) -> None:
    """The first training of one that was dropped scores far above the means of those that were trained again."""
    skills = {(0, 0): 0.5, (0, 1): 0.5, (0, 2): 0.5, (1, 0): 0.6, (1, 1): 0.6, (1, 2): 0.6, (2, 0): 3.0, (3, 0): 0.0}
    reports = {f"{n:04d}-r{r}": [make_report(1, skill=skill, seed=10 * n + r)] for (n, r), skill in skills.items()}
    records = [make_record(*key) for key in skills]
    rows = rank(records, scores_of(records, reports), looks_at({}, records), {0, 1})
    assert [row.number for row in rows[2:]] == [2, 3]
    assert [row.was_dropped for row in rows] == [False, False, True, True]
    assert [row.may_be_best for row in rows[2:]] == [True, True]
    assert [(row.below_best, row.margin) for row in rows[2:]] == [(None, None)] * 2
    alone = rank(
        records[:6], scores_of(records[:6], {name: reports[name] for name in list(reports)[:6]}), looks_at({}, records)
    )
    assert [row.number for row in rows[:2]] == [row.number for row in alone]
    assert [row.below_best for row in rows[:2]] == pytest.approx([row.below_best for row in alone])
    assert [row.margin for row in rows[:2]] == pytest.approx([row.margin for row in alone])


def test_missing_replicate_does_not_decide_the_order(make_report: MakeReport, make_record: MakeRecord) -> None:
    """All scores of the second replicate are far higher: one that has it alone has the highest plain mean."""
    skills = {(0, 1): 2.0, (1, 0): 0.4, (1, 1): 2.5, (2, 0): 0.2, (2, 1): 2.0}
    reports = {f"{n:04d}-r{r}": [make_report(1, skill=skill, seed=r)] for (n, r), skill in skills.items()}
    rows = rank_reports([make_record(0, status="failed"), *(make_record(*key) for key in skills)], reports)
    plain = {
        row.number: np.mean([value_of(reports[trial][0], "overall", "dev") for trial in row.trials]) for row in rows
    }
    assert max(plain, key=lambda number: plain[number]) == 0
    assert rows[0].number == 1
    shown = [row.scores[TOTAL].value for row in rows]
    assert [row.below_best for row in rows] == pytest.approx([shown[0] - value for value in shown])
    assert shown == sorted(shown, reverse=True)


@pytest.mark.parametrize("status", ["running", "interrupted", "pruned"])
def test_what_has_not_ended_stands_below_what_has_and_is_not_compared(
    make_report: MakeReport, make_record: MakeRecord, status: str
) -> None:
    skills = {0: 0.2, 1: 0.4, 2: 9.0}
    reports = {f"{number:04d}-r0": [make_report(1, skill=skill)] for number, skill in skills.items()}
    rows = rank_reports([make_record(0), make_record(1), make_record(2, status=status)], reports)
    assert [row.number for row in rows] == [1, 0, 2]
    assert rows[2].scores[TOTAL].value > rows[0].scores[TOTAL].value
    assert [row.below_best for row in rows][::2] == [0, None]
    assert [row.may_be_best for row in rows] == [True, True, False]


def test_margin_includes_training_variance(make_report: MakeReport, make_record: MakeRecord) -> None:
    """Two configurations whose replicates differ far more than their means."""
    skills = {0: (0.2, 2.0, 0.9), 1: (2.0, 0.3, 0.6)}
    names = [(number, replicate) for number in skills for replicate in range(3)]
    reports = {f"{n:04d}-r{r}": [make_report(1, skill=skills[n][r], seed=r)] for n, r in names}
    rows = rank_reports([make_record(n, r) for n, r in names], reports)
    totals = np.array([[value_of(reports[f"{n:04d}-r{r}"][0], "overall", "dev") for r in range(3)] for n in skills])
    error = stats.sem(totals[0] - totals[1])
    assert rows[1].margin is not None
    assert rows[1].margin >= stats.t.isf(0.05, 2) * error * 0.98  # drawn
    assert rows[1].may_be_best


def test_failed_replicate_is_excluded_from_the_mean_and_shown(make_report: MakeReport, make_record: MakeRecord) -> None:
    reports = {"0000-r0": [make_report(1)], "0000-r1": [make_report(1, skill=5.0)], "0000-r2": [make_report(1, seed=2)]}
    records = [make_record(0, 0), make_record(0, 1, "failed"), make_record(0, 2)]
    row = rank_reports(records, reports)[0]
    assert row.status == "complete 2, failed 1"
    assert row.trials == ("0000-r0", "0000-r2")
    assert len(row.failures) == 1


def test_configurations_without_an_overall_score_come_last_in_their_order(
    make_report: MakeReport, make_record: MakeRecord
) -> None:
    reports = {"0002-r0": [make_report(1)], "0001-r0": [make_report(1, tasks=("qqp",), has_total=False)]}
    records = [make_record(3, status="queued"), make_record(2), make_record(1, status="running")]
    rows = rank_reports(records, reports)
    assert [(row.number, row.status) for row in rows] == [(2, "complete"), (1, "running"), (3, "queued")]
    assert rows[1].scores == {}
    assert rows[1].best_epoch is None


@pytest.mark.parametrize("status", ["running", "pruned", "interrupted"])
def test_unfinished_replicate_does_not_lower_the_mean_of_completed_ones(
    make_report: MakeReport, make_record: MakeRecord, status: str
) -> None:
    reports = {"0000-r0": [make_report(1)], "0000-r1": [make_report(1, skill=0.1)]}
    alone, both = rank_reports([make_record(0)], reports), [make_record(0), make_record(0, 1, status=status)]
    row = rank_reports(both, reports)[0]
    assert row.trials == ("0000-r0",)
    assert row.scores[TOTAL].value == alone[0].scores[TOTAL].value
    assert row.scores[TOTAL].example_error == pytest.approx(alone[0].scores[TOTAL].example_error)
    assert row.status == f"complete 1, {status} 1"
    assert row.is_finished


def test_missing_tasks_are_left_out_of_scores(make_report: MakeReport, make_record: MakeRecord) -> None:
    reports = {"0000-r0": [make_report(1)], "0001-r0": [make_report(1, tasks=("sst", "qqp"))]}
    rows = {row.number: row for row in rank_reports([make_record(0), make_record(1)], reports)}
    assert ("sts", "dev") not in rows[1].scores
    assert rows[1].scores[TOTAL].value == pytest.approx(value_of(reports["0001-r0"][0], "overall", "dev"))
    assert score_columns(list(rows.values()), TASKS)[-2:] == [("sts", "dev"), TOTAL]


def test_overall_scores_of_different_tasks_are_not_compared(make_report: MakeReport, make_record: MakeRecord) -> None:
    tasks = {0: ("sst",), 1: ("sst", "qqp", "sts"), 2: ("sst",), 3: ("sst", "qqp", "sts"), 4: ("sts",)}
    skills = {0: 9.0, 1: 0.2, 2: 9.0, 3: 0.3, 4: 9.0}
    reports = {f"{n:04d}-r0": [make_report(1, skill=skills[n], seed=n, tasks=tasks[n])] for n in tasks}
    rows = rank_reports([make_record(number) for number in tasks], reports)
    assert [row.tasks for row in rows] == [("sst", "qqp", "sts")] * 2 + [("sst",)] * 2 + [("sts",)]
    totals = [row.scores[TOTAL].value for row in rows]
    assert totals[0] >= totals[1]
    assert totals[2] >= totals[3] > totals[0]  # alone it scores higher, and still comes later
    assert [row.below_best for row in (rows[0], rows[2], rows[4])] == [0, 0, None]
    assert rows[3].below_best == pytest.approx(totals[2] - totals[3])


def test_what_was_worse_at_the_declared_look_stays_so(make_report: MakeReport, make_record: MakeRecord) -> None:
    """A fourth round, in which the worse one is better, leaves a wider margin; but for that look it may be the best."""
    skills = {0: (1.2, 1.25, 1.3, 0.6), 1: (0.5, 0.55, 0.6, 1.5), 2: (1.21, 1.24, 1.29, 0.61)}
    names = [(number, replicate) for number in skills for replicate in range(4)]
    reports = {f"{n:04d}-r{r}": [make_report(1, skill=skills[n][r], seed=r)] for n, r in names}
    records, scores = [make_record(*name) for name in names], scores_of([make_record(*name) for name in names], reports)
    info = {"search": "grid", "first_look": {"configurations": 3, "replicates": 3}}
    kept = {row.number: row for row in rank(records, scores, looks_at(info, records))}
    assert kept[1].decided_at == 3
    assert kept[1].below_best is not None
    assert kept[1].margin is not None
    assert kept[1].below_best < kept[1].margin, "not by the present look"
    assert not kept[1].may_be_best
    assert kept[0].may_be_best
    fresh = {row.number: row for row in rank(records, scores, looks_at({"search": "grid"}, records))}
    assert fresh[1].may_be_best


def test_trials_of_an_incomplete_round_do_not_count(make_report: MakeReport, make_record: MakeRecord) -> None:
    skills = {(0, 0): 1.0, (0, 1): 1.1, (1, 0): 1.2, (1, 1): 1.3, (0, 2): 9.0}
    reports = {f"{n:04d}-r{r}": [make_report(1, skill=skill, seed=r)] for (n, r), skill in skills.items()}
    rows = rank_reports([*(make_record(*key) for key in skills), make_record(1, 2, status="running")], reports)
    without = rank_reports([make_record(*key) for key in list(skills)[:4]], reports)
    assert [row.number for row in rows] == [1, 0]
    assert rows[1].trials == ("0000-r0", "0000-r1")
    assert [(row.scores, row.below_best, row.margin) for row in rows] == [
        (row.scores, row.below_best, row.margin) for row in without
    ]
