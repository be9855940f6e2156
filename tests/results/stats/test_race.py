"""Decisions of a race: who leaves and why, when it ends, and how often a best one is called worse; and of a claim."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from mtlib.training.epoch_report import EpochReport
from results.records.race import (
    DECIDED,
    EXCLUDED_CLAIM,
    FEW_GROUPS,
    LAST_ROUND,
    OPEN_CLAIM,
    SHOWN_CLAIM,
    UNDECIDABLE,
    ClaimEstimate,
    RaceRecord,
    RoundDecision,
)
from results.records.trials import TrialRecord
from results.stats.configuration_means import ModelScores, configuration_means
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
    assert race.left_at[3] <= race.left_at[2] < race.left_at[1]
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


@pytest.mark.parametrize("examples", [pytest.param(0.0, marks=pytest.mark.slow), 0.005**2])
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


def decide_pair(
    models: Floats | ModelScores, claim: float, most_rounds: int, numbers: tuple[int, ...] = (0, 1), num_rounds: int = 0
) -> RoundDecision:
    """The decision about a claim; by default after as many rounds as the scores have replicates."""
    look = Look(num_rounds=num_rounds or (0 if isinstance(models, ModelScores) else models.shape[1]), declared=None)
    scores = models if isinstance(models, ModelScores) else model_scores(models)
    return decide_round(scores, numbers, RaceRecord(), look, RaceRules(most_rounds=most_rounds, claim=claim))


def estimate_of(decision: RoundDecision) -> ClaimEstimate:
    assert decision.claimed is not None
    return decision.claimed


def limits_of(decision: RoundDecision) -> tuple[float, float]:
    found = estimate_of(decision).limits
    assert found is not None
    return found


def test_claim_is_shown_where_the_difference_is_far_above_what_is_claimed() -> None:
    race = run_race(draw(np.array([0.6, 0.7]), 9, 0), RaceRules(most_rounds=9, claim=0.02))
    assert (race.end, race.verdict, race.is_final) == (SHOWN_CLAIM, SHOWN_CLAIM, True)
    found = estimate_of(race.decisions[-1])
    assert found.difference == pytest.approx(0.1, abs=0.02)
    assert limits_of(race.decisions[-1])[0] > 0.02
    assert found.needed is None
    assert race.num_rounds < 9, "further trainings would be in vain"


def test_claim_is_excluded_where_the_difference_is_far_below_what_is_claimed() -> None:
    race = run_race(draw(np.array([0.69, 0.7]), 9, 0), RaceRules(most_rounds=9, claim=0.1))
    assert (race.end, race.verdict, race.is_final) == (EXCLUDED_CLAIM, EXCLUDED_CLAIM, True)
    assert limits_of(race.decisions[-1])[1] <= 0.1
    reversed_race = run_race(draw(np.array([0.8, 0.7]), 9, 0), RaceRules(most_rounds=9, claim=0.0))
    assert reversed_race.end == EXCLUDED_CLAIM, "the other one is better"


def test_limits_of_two_configurations_contain_those_of_a_single_look() -> None:
    """Looks after every round cost some width: a paired t test at one look is narrower."""
    table = draw(np.array([0.69, 0.7]), 6, 5)
    found = estimate_of(decide_pair(table, claim=0.0, most_rounds=20))
    differences = table[1] - table[0]
    one_look = stats.t.ppf(0.95, 5) * differences.std(ddof=1) / np.sqrt(6)
    assert found.difference == pytest.approx(differences.mean())
    assert one_look < found.margin < 3 * one_look


@pytest.mark.parametrize("claim", [0.0, 0.01])
def test_claim_is_excluded_where_both_trained_the_same(claim: float) -> None:
    """Such as of a setting that has no effect on any step."""
    models = replace(model_scores(np.array([[0.5, 0.52, 0.51]] * 2)), trainings=np.array([0, 1, 2] * 2))
    decision = decide_pair(models, claim, most_rounds=9, num_rounds=3)
    assert decision.end == EXCLUDED_CLAIM
    assert (estimate_of(decision).difference, estimate_of(decision).margin) == (0, 0)


def test_claim_that_the_last_round_leaves_open_says_how_many_would_decide_it() -> None:
    table = np.array(
        [[0.70, 0.68, 0.71, 0.69, 0.70, 0.68, 0.70, 0.69], [0.71, 0.71, 0.70, 0.70, 0.70, 0.71, 0.70, 0.70]]
    )
    decision = decide_pair(table, claim=0.0, most_rounds=8)
    assert (decision.end, decision.open, decision.expected_rounds) == (LAST_ROUND, (0, 1), ())
    assert RaceRecord(decisions=(decision,)).verdict == OPEN_CLAIM
    needed = estimate_of(decision).needed
    assert needed is not None
    assert needed > 8
    going = decide_pair(table, claim=0.0, most_rounds=needed)
    assert (going.end, going.expected_rounds) == ("", (needed, needed))


def test_claim_that_the_dev_examples_leave_open_ends_early_without_a_number_of_rounds() -> None:
    table = draw(np.array([0.7, 0.71]), 20, 3, noise=0.001)
    race = run_race(table, RaceRules(most_rounds=20, claim=0.0), examples=0.02**2)
    assert (race.end, race.verdict, race.is_final) == (UNDECIDABLE, OPEN_CLAIM, False)
    assert race.num_rounds < 10
    assert estimate_of(race.decisions[-1]).needed is None
    assert run_race(table, RaceRules(most_rounds=20, claim=0.0)).end == SHOWN_CLAIM, "with more examples"


@pytest.mark.parametrize("number", [0, 1])
def test_claim_is_open_where_one_configuration_has_no_training(number: int) -> None:
    race = RaceRecord(decisions=(decide_pair(np.array([[0.5, 0.52]]), 0.0, 9, numbers=(number,)),))
    assert race.end
    assert (race.verdict, race.is_final) == (OPEN_CLAIM, False)


def test_claim_goes_on_where_both_have_no_replicate_in_common() -> None:
    table = np.array([[0.5, np.nan, 0.51], [np.nan, 0.6, np.nan]])
    going = decide_pair(table, claim=0.0, most_rounds=9)
    assert (going.end, going.claimed, going.open) == ("", ClaimEstimate(), (0, 1))
    last = decide_pair(table, claim=0.0, most_rounds=3)
    assert RaceRecord(decisions=(last,)).verdict == OPEN_CLAIM
    assert last.end == LAST_ROUND


def test_missing_replicate_leaves_the_claim_to_the_others() -> None:
    table = draw(np.array([0.5, 0.7]), 6, 0)
    table[1, 2] = np.nan
    decision = decide_pair(table, claim=0.1, most_rounds=9)
    assert decision.end == SHOWN_CLAIM
    paired = np.delete(table, 2, axis=1)
    assert estimate_of(decision).difference == pytest.approx((paired[1] - paired[0]).mean())


def test_order_of_the_models_does_not_matter_to_a_claim() -> None:
    table = draw(np.array([0.7, 0.72]), 5, 3)
    one, other = decide_pair(table, 0.01, 9), decide_pair(table[::-1].copy(), 0.01, 9, numbers=(1, 0))
    assert (one.end, one.open) == (other.end, other.open)
    assert vars(estimate_of(one)) == pytest.approx(vars(estimate_of(other)))


@pytest.mark.parametrize(("wrong", "below"), [(SHOWN_CLAIM, 0.0), (EXCLUDED_CLAIM, 1e-9)])
def test_claim_at_the_true_difference_is_hardly_ever_decided_wrongly(wrong: str, below: float) -> None:
    """A claim of exactly the true difference is not true, as it is not beaten by more; one just below it is true."""
    num_races = 70
    ends = [
        run_race(draw(np.array([0.7, 0.72]), 5, seed), RaceRules(most_rounds=5, claim=0.02 - below)).end
        for seed in range(num_races)
    ]
    assert np.mean(np.array(ends) == wrong) <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / num_races)
    assert any(end not in (SHOWN_CLAIM, EXCLUDED_CLAIM) for end in ends)


@pytest.mark.parametrize(("difference", "spread"), [(0.01, 0.01), (0.006, 0.005), (-0.02, 0.03)])
def test_claim_is_decided_after_about_as_many_rounds_as_forecast(difference: float, spread: float) -> None:
    """The differences of replicates go on as they were: their mean, and how far they are from it."""
    signs = np.where(np.arange(60) % 2, 1, -1)
    own = difference + spread * signs
    table = np.stack([0.7 - own / 2, 0.7 + own / 2]) + 0.05 * np.random.default_rng(1).normal(size=60)
    needed = estimate_of(decide_pair(table[:, :6], claim=0.0, most_rounds=60)).needed
    assert needed is not None
    decided = next(
        number
        for number in range(6, 61, 2)  # after odd ones the mean is another
        if decide_pair(table[:, :number], claim=0.0, most_rounds=60).end in (SHOWN_CLAIM, EXCLUDED_CLAIM)
    )
    assert 0.6 * needed - 1 <= decided <= 1.1 * needed + 1  # after the 20th round little error is left to spend


CLAIM_INFO = INFO | {
    "num_configurations": 2,
    "options": {"until_decided": 0.0, "replicates": 6, "claim": "a.b=1 beats a.b=0 by 0.01"},
}


@pytest.mark.parametrize(("skills", "verdict"), [({0: 0.1, 1: 2.0}, SHOWN_CLAIM), ({0: 2.0, 1: 0.1}, EXCLUDED_CLAIM)])
def test_sweep_decides_the_claim_of_its_options(
    skills: dict[int, float], verdict: str, make_report: MakeReport, make_record: MakeRecord
) -> None:
    records, scores = with_scores(make_report, make_record, skills, {0: 6, 1: 6})
    race = decide_complete_rounds(CLAIM_INFO, records, scores, base=None)
    assert race.verdict == verdict
    assert race.left_at == {}, "both stay, as each is compared with the other alone"


def test_claim_about_a_configuration_that_failed_is_open(make_report: MakeReport, make_record: MakeRecord) -> None:
    records, scores = with_scores(make_report, make_record, {0: 0.1, 1: 2.0}, {0: 2, 1: 1})
    records = [replace(own, status="failed") if own.number == 1 else own for own in records]
    race = decide_complete_rounds(CLAIM_INFO, records, scores, base=None)
    assert race.verdict == OPEN_CLAIM
    assert race.end, "nothing more is trained of the other one alone"


def test_claim_is_not_decided_before_both_were_trained_twice(make_report: MakeReport, make_record: MakeRecord) -> None:
    records, scores = with_scores(make_report, make_record, {0: 0.1, 1: 2.0}, {0: 2, 1: 1})
    assert decide_complete_rounds(CLAIM_INFO, records, scores, base=None) == RaceRecord()


@pytest.mark.parametrize("claim", [None, 0.0])
def test_race_over_too_few_groups_ends_at_its_first_decision_without_any_claim(claim: float | None) -> None:
    table = draw(np.array([0.1, 0.9]), 2, 0)
    models, look = replace(model_scores(table), degrees=0.0), Look(num_rounds=2, declared=None)
    found = decide_round(models, (0, 1), RaceRecord(), look, RaceRules(most_rounds=9, base=0, claim=claim))
    assert found.end == FEW_GROUPS
    assert found.open == (0, 1)
    assert (found.claimed is None) == (claim is None)
    assert (
        decide_round(replace(models, degrees=30.0), (0, 1), RaceRecord(), look, RaceRules(most_rounds=9)).end == DECIDED
    )
