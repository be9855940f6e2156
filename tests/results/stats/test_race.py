"""Decisions of a race: who leaves and why, when it ends, and how often a best one is called worse."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from mtlib.training.epoch_report import EpochReport
from results.records.race import DECIDED, UNDECIDABLE, RaceRecord, RoundDecision
from results.records.trials import TrialRecord
from results.stats.configuration_means import configuration_means
from results.stats.error_spending import Look
from results.stats.race import RaceRules, below_base, decide_complete_rounds, decide_round
from results.stats.resampling import Floats
from results.stats.trial_scores import TrialScores
from tests.one_line_error import one_line_error
from tests.results.stats.test_configuration_means import model_scores
from tests.results.stats.test_trial_scores import scores_of

MakeReport = Callable[..., EpochReport]
MakeRecord = Callable[..., TrialRecord]


def draw(true: Floats, num_rounds: int, seed: int, noise: float = 0.01) -> Floats:
    """(configurations, replicates) scores with effects of replicates."""
    stream = np.random.default_rng(seed)
    return true[:, None] + 0.05 * stream.normal(size=num_rounds) + noise * stream.normal(size=(len(true), num_rounds))


def run_race(table: Floats, rules: RaceRules, examples: float = 0.0) -> RaceRecord:
    """All decisions of a race over the columns of a table; `examples` is the variance over examples of each score."""
    race = RaceRecord()
    for num_rounds in range(2, rules.most_rounds + 1):
        own = table[:, :num_rounds].copy()
        for number, last in race.left_at.items():
            own[number, last:] = np.nan
        shared = np.kron(np.eye(len(table)), np.ones((num_rounds, num_rounds)))[~np.isnan(own.ravel())]
        models = model_scores(own, np.asarray(examples * shared[:, ~np.isnan(own.ravel())], dtype=np.float64))
        look = Look(num_rounds=num_rounds, declared=None)
        decision = decide_round(models, range(len(table)), race, look, rules)
        race = RaceRecord(decisions=(*race.decisions, decision))
        if race.end:
            break
    return race


def test_hopeless_ones_leave_early_and_close_ones_late() -> None:
    race = run_race(draw(np.array([0.7, 0.685, 0.65, 0.3]), 16, 0), RaceRules(most_rounds=16))
    assert race.end == DECIDED
    assert race.decisions[-1].open == (0,)
    assert race.left_at[3] < race.left_at[2] < race.left_at[1]
    assert race.worse_at == race.left_at


def test_none_goes_on_that_the_effects_call_worse_than_the_base() -> None:
    table = draw(np.array([0.7, 0.71, *[0.68] * 5]), 8, 1)
    race = run_race(table, RaceRules(most_rounds=8, base=0))
    assert race.left_at
    for decision in race.decisions:
        kept = sorted({0, *decision.open})
        means = configuration_means(model_scores(table[kept, : decision.num_rounds]))
        look = Look(num_rounds=decision.num_rounds, declared=None)
        assert not below_base(means, np.array([0]), look).any()


def test_configuration_shown_to_be_equal_within_the_margin_leaves() -> None:
    race = run_race(draw(np.array([0.7, 0.7, 0.5]), 12, 2), RaceRules(most_rounds=12, margin=0.03))
    assert race.end == DECIDED
    equal = [number for decision in race.decisions for number in decision.equal]
    assert len(equal) == 1
    assert 2 in race.worse_at


def test_race_that_no_round_can_decide_ends_early() -> None:
    """The dev examples alone leave a difference unknown that is larger than those there are."""
    race = run_race(draw(np.array([0.7, 0.699, 0.698]), 20, 3), RaceRules(most_rounds=20), examples=0.02**2)
    assert race.end == UNDECIDABLE
    assert race.num_rounds < 10
    assert race.decisions[-1].open == (0, 1, 2)


@pytest.mark.parametrize("examples", [0.0, 0.005**2])
def test_best_one_of_equals_hardly_ever_leaves(examples: float) -> None:
    """Each of four equal configurations may be the best by next to nothing, and leaves in at most a race of twenty."""
    has_left = []
    for seed in range(60):
        table = draw(np.full(4, 0.7), 8, seed) + np.sqrt(examples) * np.random.default_rng(seed).normal(size=(4, 1))
        race = run_race(table, RaceRules(most_rounds=8, base=0), examples)
        has_left += [number in race.left_at for number in range(4)]
    assert np.mean(has_left) < 0.05 + 2 * np.sqrt(0.05 * 0.95 / 240)


INFO = {
    "search": "grid",
    "num_configurations": 3,
    "options": {"until_decided": 0.0, "replicates": 6},
    "space": {"metric": "overall"},
    "first_look": {"configurations": 3, "replicates": None},
    "race": [],
}


def test_decisions_are_the_same_with_trials_of_later_rounds(make_report: MakeReport, make_record: MakeRecord) -> None:
    skills = {0: 1.0, 1: 1.02, 2: 0.1}
    names = [(number, again) for number in skills for again in range(4)]
    reports = {f"{n:04d}-r{r}": [make_report(1, skill=skills[n] + 0.01 * r, seed=9 * n + r)] for n, r in names}
    records = [make_record(*name) for name in names]
    found = decide_complete_rounds(INFO, records, scores_of(records, reports), base=None)
    assert len(found.decisions) > 2
    early = [record for record in records if record.replicate < 3 or record.number == 1]
    again = decide_complete_rounds(INFO, early, scores_of(early, reports), base=None)
    assert again.decisions == found.decisions[:2]


def test_configurations_of_different_tasks_are_refused(make_report: MakeReport, make_record: MakeRecord) -> None:
    names = [(number, again) for number in range(3) for again in range(2)]
    tasks = {0: ("sst",), 1: ("sst", "qqp"), 2: ("sst", "qqp")}
    reports = {f"{n:04d}-r{r}": [make_report(1, seed=9 * n + r, tasks=tasks[n])] for n, r in names}
    records = [make_record(*name) for name in names]
    error = one_line_error(decide_complete_rounds, INFO, records, scores_of(records, reports), None)
    assert error == "--until-decided must compare configurations of the same tasks, got 2 sets of tasks"


def test_decisions_on_record_stay(make_report: MakeReport, make_record: MakeRecord) -> None:
    names = [(number, again) for number in range(3) for again in range(2)]
    records = [make_record(*name) for name in names]
    scores = scores_of(records, {f"{n:04d}-r{r}": [make_report(1, seed=9 * n + r)] for n, r in names})
    kept = RoundDecision(num_rounds=2, open=(0,), worse=(1, 2), end=DECIDED)
    info = INFO | {"race": [vars(kept)]}
    assert decide_complete_rounds(info, records, scores, base=None) == RaceRecord(decisions=(kept,))


def with_scores(
    make_report: MakeReport, make_record: MakeRecord, skills: dict[int, float], num_rounds: dict[int, int]
) -> tuple[list[TrialRecord], TrialScores]:
    """Complete trials of configurations with these skills and numbers of trainings."""
    names = [(number, again) for number in skills for again in range(num_rounds[number])]
    records = [make_record(number, again, best={"overall": skills[number]}) for number, again in names]
    reports = {f"{n:04d}-r{r}": [make_report(1, skill=skills[n] + 0.01 * r, seed=9 * n + r)] for n, r in names}
    return records, scores_of(records, reports)


def test_configuration_that_joins_an_ended_race_is_compared_once_it_has_as_many_rounds(
    make_report: MakeReport, make_record: MakeRecord
) -> None:
    """The first training of the third had failed, and was repeated with `--retry-failed`."""
    kept = RoundDecision(num_rounds=3, open=(0,), worse=(1,), end=DECIDED)
    info, skills = INFO | {"race": [vars(kept)]}, {0: 1.0, 1: 0.1, 2: 5.0}
    records, scores = with_scores(make_report, make_record, skills, {0: 3, 1: 3, 2: 2})
    assert decide_complete_rounds(info, records, scores, base=None).decisions == (kept,)
    records, scores = with_scores(make_report, make_record, skills, {0: 3, 1: 3, 2: 3})
    race = decide_complete_rounds(info, records, scores, base=None)
    assert [(own.num_rounds, own.open, own.worse, own.end) for own in race.decisions] == [
        (3, (0,), (1,), DECIDED),
        (3, (2,), (0,), DECIDED),
    ]


def test_race_of_a_search_goes_on_with_those_that_were_raced_and_better_ones_that_are_added(
    make_report: MakeReport, make_record: MakeRecord
) -> None:
    options = {"until_decided": 0.0, "replicates": 6, "replicate_best": 2, "chosen_by": 1}
    kept = RoundDecision(num_rounds=2, open=(0, 1), expected_rounds=(6, 6))
    info = INFO | {"search": "tpe", "options": options, "race": [vars(kept)], "num_configurations": 5}
    skills = {0: 1.0, 1: 0.9, 2: 0.1, 3: 5.0, 4: 0.1}
    for number, rounds in ((4, 0), (3, 1)):  # the fifth is not trained, the fourth, better than both, has not caught up
        early = {0: 3, 1: 3, 2: 1, 3: 1, 4: 1} | {number: rounds}
        records, scores = with_scores(make_report, make_record, skills, early)
        assert decide_complete_rounds(info, records, scores, base=None).decisions == (kept,)
    records, scores = with_scores(make_report, make_record, skills, {0: 3, 1: 3, 2: 1, 3: 2, 4: 1})
    decision = decide_complete_rounds(info, records, scores, base=None).decisions[-1]
    assert (decision.num_rounds, {*decision.open, *decision.worse}) == (2, {0, 1, 3})
    assert 3 in decision.open


def test_configuration_whose_first_training_failed_is_not_raced(
    make_report: MakeReport, make_record: MakeRecord
) -> None:
    """A sweep with replicates, of which some had begun before the first one failed, became a race."""
    records, scores = with_scores(make_report, make_record, {0: 1.0, 1: 0.1, 2: 0.5}, {0: 3, 1: 3, 2: 3})
    records = [replace(own, status="failed") if own.trial_id == "0002-r0" else own for own in records]
    race = decide_complete_rounds(INFO, records, scores, base=None)
    assert race.decisions
    assert race.raced == {0, 1}
