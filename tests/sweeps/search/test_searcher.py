"""What Tune is suggested and what Optuna is told, with this file in Tune's place."""

import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState
from ray.tune.search import Searcher

from results.records.recovery import write_end
from results.records.trials import TrialRecord
from search_spaces.domain import Choice, Condition, Float
from search_spaces.space import grid_trials
from sweeps.driver.ledger import Ledger, add_trial
from sweeps.options import SweepPlan
from sweeps.search.searcher import SweepSearcher
from sweeps.search.study import JOURNAL_NAME, NUMBER_ATTRIBUTE, newest_trials, open_study, repair_journal
from sweeps.search.trial_spec import TrialSpec, make_spec
from tests.killed import Killed
from tests.sweeps.conftest import MakePlan, with_options


class Story:
    """A searcher, what it has announced, and its study."""

    def __init__(self, plan: SweepPlan, max_live: int = 1, known: Sequence[TrialRecord] = ()) -> None:
        self.plan = plan
        self.announced: list[TrialSpec] = []
        self.searcher = SweepSearcher(
            plan, open_study(plan.options.folder, plan.options.name), self.announced.append, max_live, known
        )
        self.count = 0
        """How many suggestions were asked for: Tune's id of the newest trial."""

    @property
    def study(self) -> optuna.Study:
        """The study as its journal has it."""
        storage = JournalStorage(JournalFileBackend(str(self.plan.options.folder / JOURNAL_NAME)))
        return optuna.load_study(study_name=self.plan.options.name, storage=storage)

    def suggest(self) -> Any:
        """The next suggestion's trial id, None or FINISHED; Tune's own id is a number."""
        self.count += 1
        found = self.searcher.suggest(str(self.count))
        return found["trial_id"] if isinstance(found, dict) else found

    def report(self, epoch: int, best: float, tune_id: int | None = None) -> None:
        self.searcher.on_trial_result(str(tune_id or self.count), {"epoch": epoch, "best": best, "is_last": False})

    def end(self, epoch: int, best: float, is_last: bool = True, tune_id: int | None = None) -> None:
        result = {"epoch": epoch, "best": best, "is_last": is_last}
        self.searcher.on_trial_complete(str(tune_id or self.count), result)

    def fail(self, tune_id: int | None = None) -> None:
        self.searcher.on_trial_complete(str(tune_id or self.count), None, error=True)

    def states(self) -> list[str]:
        return [trial.state.name for trial in self.study.get_trials()]


def test_a_grid_is_suggested_once_and_then_finished(make_plan: MakePlan) -> None:
    story = Story(make_plan())
    seen = []
    for _ in range(3):
        seen.append(story.suggest())
        story.end(1, 0.5)
    assert seen == ["0000-r0", "0001-r0", "0002-r0"]
    assert story.suggest() == Searcher.FINISHED
    assert [spec.params for spec in story.announced] == [{"smart.weight": weight} for weight in (0.0, 0.3, 1.0)]


def test_no_more_trials_than_lanes_are_under_way(make_plan: MakePlan) -> None:
    story = Story(make_plan(), max_live=2)
    assert [story.suggest(), story.suggest(), story.suggest()] == ["0000-r0", "0001-r0", None]


def test_a_completed_trial_is_told_with_its_best_not_its_last(make_plan: MakePlan) -> None:
    story = Story(make_plan())
    story.suggest()
    story.report(1, 0.6)
    story.report(2, 0.6)
    story.end(3, 0.6)
    trial = story.study.get_trials()[0]
    assert (trial.state, trial.value, trial.intermediate_values) == (TrialState.COMPLETE, 0.6, {1: 0.6, 2: 0.6, 3: 0.6})


def test_a_trial_that_the_scheduler_stopped_is_told_as_pruned_with_its_intermediate_values(make_plan: MakePlan) -> None:
    story = Story(make_plan())
    story.suggest()
    story.report(1, 0.4)
    story.end(2, 0.45, is_last=False)
    trial = story.study.get_trials()[0]
    assert (trial.state, trial.intermediate_values) == (TrialState.PRUNED, {1: 0.4, 2: 0.45})


def test_a_failed_trial_is_told_as_failed(make_plan: MakePlan) -> None:
    story = Story(make_plan())
    story.suggest()
    story.report(1, 0.4)
    story.fail()
    assert story.states()[0] == "FAIL"


def test_replicates_follow_at_once_and_optuna_is_told_their_mean(make_plan: MakePlan) -> None:
    story = Story(make_plan(replicates=3))
    seen, bests = [], [0.5, 0.6, 0.8]
    for best in bests:
        seen.append(story.suggest())
        story.end(1, best)
    assert seen == ["0000-r0", "0000-r1", "0000-r2"]
    assert [spec.config.replicate for spec in story.announced] == [0, 1, 2]
    trial = story.study.get_trials()[0]
    assert (trial.state, trial.value) == (TrialState.COMPLETE, pytest.approx(sum(bests) / 3))
    assert story.suggest() == "0001-r0"


@pytest.mark.parametrize("how", ["pruned", "failed"])
def test_no_replicates_follow_what_did_not_complete(make_plan: MakePlan, how: str) -> None:
    story = Story(make_plan(replicates=2))
    story.suggest()
    if how == "pruned":
        story.end(1, 0.5, is_last=False)
    else:
        story.fail()
    assert story.suggest() == "0001-r0"


def test_a_failed_replicate_leaves_the_mean_of_the_others(make_plan: MakePlan) -> None:
    story = Story(make_plan(replicates=3))
    story.suggest()
    story.end(1, 0.5)
    story.suggest()
    story.fail()
    story.suggest()
    story.end(1, 0.7)
    assert story.study.get_trials()[0].value == pytest.approx(0.6)


def test_the_search_waits_for_a_trial_that_may_call_for_replicates(make_plan: MakePlan) -> None:
    story = Story(make_plan(replicates=2, grid={"smart.weight": (0.0, 1.0)}), max_live=3)
    assert [story.suggest(), story.suggest(), story.suggest()] == ["0000-r0", "0001-r0", None]
    story.end(1, 0.5, tune_id=1)
    story.end(1, 0.5, is_last=False, tune_id=2)
    assert story.suggest() == "0000-r1"
    assert story.suggest() == Searcher.FINISHED


def test_after_a_stop_nothing_is_suggested_and_what_was_interrupted_is_under_way_in_the_study(
    make_plan: MakePlan,
) -> None:
    story = Story(make_plan())
    story.suggest()
    story.report(1, 0.4)
    story.searcher.stop()
    story.fail()
    story.searcher.finish()
    assert story.suggest() == Searcher.FINISHED
    assert story.states() == ["RUNNING"], "what was not suggested is not in the study"
    assert story.study.get_trials()[0].user_attrs == {NUMBER_ATTRIBUTE: 0}


def test_what_is_pruned_or_fails_or_completes_while_the_sweep_is_stopped_is_told(make_plan: MakePlan) -> None:
    story = Story(make_plan(), max_live=3)
    for _ in range(3):
        story.suggest()
    story.searcher.stop()
    story.end(1, 0.3, is_last=False, tune_id=1)
    write_end(story.plan.options.folder, "0001-r0", {"how": "failed", "error": "diverged"})
    story.fail(tune_id=2)
    story.end(2, 0.7, tune_id=3)
    story.searcher.finish()
    assert story.states() == ["PRUNED", "FAIL", "COMPLETE"]


def test_a_replicate_that_fails_while_the_sweep_is_stopped_leaves_the_mean_of_the_others(make_plan: MakePlan) -> None:
    story = Story(make_plan(replicates=2))
    story.suggest()
    story.end(1, 0.5)
    story.suggest()
    story.searcher.stop()
    write_end(story.plan.options.folder, "0000-r1", {"how": "failed", "error": "diverged"})
    story.fail()
    story.searcher.finish()
    assert (story.states(), story.study.get_trials()[0].value) == (["COMPLETE"], 0.5)


def test_a_configuration_whose_replicates_are_still_to_come_is_not_told_at_a_stop(make_plan: MakePlan) -> None:
    """When the sweep goes on, it is told once, with the mean of all."""
    plan = make_plan(replicates=3)
    story = Story(plan)
    for best in (0.1, 0.2):
        story.suggest()
        story.end(1, best)
    story.suggest()
    story.searcher.stop()
    story.fail()
    story.searcher.finish()
    assert story.states() == ["RUNNING"]
    known = [record_of(plan, *found) for found in zip(story.announced[:2], ["complete"] * 2, (0.1, 0.2), strict=True)]
    again = Story(plan, known=[*known, record_of(plan, story.announced[2], "interrupted")])
    assert again.suggest() == "0000-r2"
    again.end(1, 0.6)
    assert (again.states(), again.study.get_trials()[0].value) == (["COMPLETE"], pytest.approx(0.3))


def test_tpe_learns_from_what_was_told(make_plan: MakePlan) -> None:
    ranges = {"smart.weight": Float(low=0, high=10)}
    plan = make_plan(search="tpe", trials=30, grid={}, ranges=ranges)
    story = Story(plan)
    while story.suggest() != Searcher.FINISHED:
        weight = story.announced[-1].params["smart.weight"]
        story.end(1, 1 - abs(weight - 7) / 10)
    weights = [spec.params["smart.weight"] for spec in story.announced]
    early, late = weights[:10], weights[-10:]
    assert len(weights) == 30
    assert sum(abs(weight - 7) for weight in late) < 0.6 * sum(abs(weight - 7) for weight in early)


def test_where_a_key_is_not_drawn_the_base_keeps_its_value_and_the_title_does_not_name_it(make_plan: MakePlan) -> None:
    ranges = {"smart.mode": Choice(values=("paper", "random")), "smart.epsilon": Float(low=0.1, high=1.0)}
    conditions = {"smart.epsilon": Condition(key="smart.mode", values=("paper",))}
    plan = make_plan(search="random", trials=12, grid={}, ranges=ranges, conditions=conditions)
    story = Story(plan)
    while story.suggest() != Searcher.FINISHED:
        story.end(1, 0.5)
    drawn = {spec.config.smart.mode: spec for spec in story.announced}
    assert set(drawn) == {"paper", "random"}
    assert drawn["random"].params == {"smart.mode": "random"}
    assert drawn["random"].config == plan.space.base.override({"smart.mode": "random"})
    assert drawn["paper"].config.smart.epsilon == drawn["paper"].params["smart.epsilon"] >= 0.1


def test_a_name_of_the_spaces_own_is_a_trials_value_and_what_it_stands_for_its_configuration(
    make_plan: MakePlan,
) -> None:
    named = {"off": {"smart.weight": 0.0}, "long": {"stages.1.epochs": 3, "smart.weight": 1.0}}
    story = Story(make_plan(grid={"plan": named}, replicates=2))
    while story.suggest() != Searcher.FINISHED:
        story.end(1, 0.5)
    assert [spec.params for spec in story.announced] == [{"plan": name} for name in ("off", "off", "long", "long")]
    assert [spec.config.stages[1].epochs for spec in story.announced[2:]] == [3, 3]
    assert [spec.config.replicate for spec in story.announced] == [0, 1, 0, 1]


def test_optuna_knows_one_trial_per_configuration(make_plan: MakePlan) -> None:
    story = Story(make_plan(replicates=2, grid={"smart.weight": (0.0, 1.0)}))
    while story.suggest() != Searcher.FINISHED:
        story.end(1, 0.5)
    assert story.states() == ["COMPLETE", "COMPLETE"]
    assert isinstance(story.study, optuna.Study)


# What follows is about resumed sweeps, with records as `results.records.recovery` returns them.

ENDED_STATES = {"complete": "COMPLETE", "reused": "COMPLETE", "pruned": "PRUNED", "failed": "FAIL"}


def record_of(plan: SweepPlan, spec: TrialSpec, status: str = "queued", best: float | None = None) -> TrialRecord:
    ledger = Ledger(plan=plan)
    add_trial(ledger, spec)
    bests = {} if best is None else {plan.space.metric: best}
    return replace(ledger.records[spec.trial_id], status=status, best=bests)


def tpe_plan(make_plan: MakePlan, **changes: Any) -> SweepPlan:
    ranges = {"smart.weight": Float(low=0, high=10)}
    return make_plan(search="tpe", grid={}, ranges=ranges, **{"trials": 5, **changes})


def grid_plan(make_plan: MakePlan, **changes: Any) -> SweepPlan:
    return make_plan(grid={"smart.weight": (0.0, 0.3, 0.6, 1.0, 3.0)}, **changes)


@pytest.mark.parametrize("has_journal", [True, False])
@pytest.mark.parametrize("make", [grid_plan, tpe_plan])
def test_what_has_ended_is_not_suggested_again_and_the_study_knows_it(
    make_plan: MakePlan, make: Callable[..., SweepPlan], has_journal: bool
) -> None:
    """All five configurations were given out; the driver was killed before it told the study of any end."""
    plan = make(make_plan)
    first = Story(plan, max_live=5)
    assert [first.suggest() for _ in range(5)] == [f"{number:04d}-r0" for number in range(5)]
    statuses = ("complete", "reused", "pruned", "failed", "queued")
    bests = (0.5, 0.6, 0.2, None, None)
    known = [record_of(plan, *found) for found in zip(first.announced, statuses, bests, strict=True)]
    if not has_journal:
        (plan.options.folder / JOURNAL_NAME).unlink()
    again = Story(plan, max_live=5, known=known)
    assert again.states() == [*(ENDED_STATES[status] for status in statuses[:4]), *["RUNNING"] * has_journal]
    assert [again.suggest(), again.suggest()] == ["0004-r0", Searcher.FINISHED]
    assert again.announced[0].params == first.announced[4].params
    again.end(1, 0.9, tune_id=1)
    values = {number: trial.value for number, trial in newest_trials(again.study).items()}
    assert values == {0: 0.5, 1: 0.6, 2: None, 3: None, 4: 0.9}
    assert [trial.params for trial in again.study.get_trials()] == [dict(spec.params) for spec in first.announced]
    assert len(again.study.get_trials()) == 5


@pytest.mark.parametrize("status", ["queued", "running", "interrupted"])
@pytest.mark.parametrize("make", [grid_plan, tpe_plan])
def test_whatever_has_not_ended_is_suggested_again_before_all_that_is_new(
    make_plan: MakePlan, make: Callable[..., SweepPlan], status: str
) -> None:
    plan = make(make_plan)
    first = Story(plan)
    first.suggest()
    again = Story(plan, max_live=2, known=[record_of(plan, first.announced[0], status)])
    assert [again.suggest(), again.suggest()] == ["0000-r0", "0001-r0"]
    assert again.announced[0] == first.announced[0]


@pytest.mark.parametrize("make", [grid_plan, tpe_plan])
def test_a_sweep_in_which_all_has_ended_suggests_nothing_and_changes_nothing(
    make_plan: MakePlan, make: Callable[..., SweepPlan]
) -> None:
    plan = make(make_plan, replicates=2)
    first, known = Story(plan), []
    while first.suggest() != Searcher.FINISHED:
        first.end(1, 0.5)
        known.append(record_of(plan, first.announced[-1], "complete", 0.5))
    before = first.study.get_trials()
    again = Story(plan, known=known)
    assert again.suggest() == Searcher.FINISHED
    again.searcher.finish()
    assert again.announced == []
    assert again.states() == ["COMPLETE"] * 5
    assert again.study.get_trials() == before


def test_numbers_stay_though_optuna_counts_otherwise(make_plan: MakePlan) -> None:
    """The order of stages, or a configuration that is drawn again, makes the study count otherwise than the sweep."""
    plan = grid_plan(make_plan)
    specs = [make_spec(plan.space, number, 0, params) for number, params in enumerate(grid_trials(plan.space))]
    known = [record_of(plan, spec, "failed" if spec.number == 1 else "queued") for spec in specs]
    story = Story(plan, max_live=5, known=known)
    while story.suggest() != Searcher.FINISHED:
        story.end(1, story.announced[-1].number / 10)
    told = newest_trials(story.study)
    assert {number: trial.value for number, trial in told.items()} == {0: 0, 1: None, 2: 0.2, 3: 0.3, 4: 0.4}
    assert {number: trial.params["smart.weight"] for number, trial in told.items()} == dict(
        enumerate((0.0, 0.3, 0.6, 1.0, 3.0))
    )
    assert [number for number, trial in told.items() if trial.number != number], "else this test shows nothing"


def test_a_drawn_configuration_that_never_came_on_record_is_given_up_and_its_number_used_again(
    make_plan: MakePlan,
) -> None:
    plan = tpe_plan(make_plan)
    first = Story(plan, max_live=2)
    first.suggest()
    first.suggest()
    known = [record_of(plan, first.announced[0])]
    again = Story(plan, max_live=9, known=known)
    names = [again.suggest() for _ in range(6)]
    assert names == [*(f"{number:04d}-r0" for number in range(5)), Searcher.FINISHED]
    assert again.states() == ["RUNNING", "FAIL", *["RUNNING"] * 4]
    assert again.announced[1].params != first.announced[1].params


def test_more_configurations_can_be_drawn_later(make_plan: MakePlan) -> None:
    plan, known = tpe_plan(make_plan, trials=2), []
    first = Story(plan)
    while first.suggest() != Searcher.FINISHED:
        first.end(1, 0.5)
        known.append(record_of(plan, first.announced[-1], "complete", 0.5))
    again = Story(with_options(plan, trials=4), known=known)
    seen = []
    while (name := again.suggest()) != Searcher.FINISHED:
        seen.append(name)
        again.end(1, 0.5)
    assert seen == ["0002-r0", "0003-r0"]
    weights = [trial.params["smart.weight"] for trial in again.study.get_trials()]
    assert len(set(weights)) == 4


@pytest.mark.parametrize(
    ("statuses", "left", "value"),
    [
        (["queued"], ["0000-r0", "0000-r1", "0000-r2"], 0.3),
        (["complete"], ["0000-r1", "0000-r2"], 0.3),
        (["complete", "queued"], ["0000-r1", "0000-r2"], 0.3),
        (["complete", "complete"], ["0000-r2"], 0.3),
        (["complete", "queued", "complete"], ["0000-r1"], 0.3),
        (["complete", "failed"], ["0000-r2"], 0.25),
        (["complete", "reused", "failed"], [], 0.2),
        (["complete", "complete", "complete"], [], 0.3),
        (["pruned"], [], None),
        (["failed"], [], None),
    ],
)
@pytest.mark.parametrize("make", [grid_plan, tpe_plan])
def test_replicates_that_are_missing_follow_and_the_mean_is_that_of_all(
    make_plan: MakePlan, make: Callable[..., SweepPlan], statuses: list[str], left: list[str], value: float | None
) -> None:
    plan = make(make_plan, replicates=3)
    bests = (0.1, 0.3, 0.5)
    first = Story(plan)
    first.suggest()
    params = first.announced[0].params
    specs = [make_spec(plan.space, 0, again, params) for again in range(3)]
    known = [
        record_of(plan, spec, status, best if status in ("complete", "reused") else None)
        for spec, status, best in zip(specs, statuses, bests, strict=False)
    ]
    story = Story(plan, known=known)
    seen = []
    for _ in left:
        seen.append(story.suggest())
        story.end(1, bests[story.announced[-1].replicate])
    assert seen == left
    told = newest_trials(story.study)[0]
    mean = {("complete", "failed"): (0.1 + 0.5) / 2, ("complete", "reused", "failed"): (0.1 + 0.3) / 2}
    expected = None if value is None else mean.get(tuple(statuses), 0.3)
    assert told.value == (None if expected is None else pytest.approx(expected))
    assert told.state.name == (ENDED_STATES[statuses[0]] if expected is None else "COMPLETE")
    assert len(story.study.get_trials()) == 1
    assert story.suggest() == "0001-r0"


@pytest.mark.parametrize("make", [grid_plan, tpe_plan])
@pytest.mark.parametrize(("told", "how"), [("failed", "complete"), ("failed", "failed"), ("pruned", "complete")])
def test_a_configuration_that_has_an_end_and_is_tried_again_ends_once(
    make_plan: MakePlan, make: Callable[..., SweepPlan], told: str, how: str
) -> None:
    """Failed ones are tried again when that is asked for; pruned ones if a kill came before that was on record."""
    plan = make(make_plan)
    story = Story(plan)
    story.suggest()
    story.report(1, 0.1)
    if told == "failed":
        story.fail()
    else:
        story.end(2, 0.1, is_last=False)
    again = Story(plan, known=[record_of(plan, story.announced[0], "queued")])
    assert again.states() == ["RUNNING"]
    assert again.suggest() == "0000-r0"
    again.report(1, 0.4)
    if how == "complete":
        again.end(2, 0.6)
    else:
        again.fail()
    (trial,) = again.study.get_trials()
    value, reported = (0.6, {1: 0.4, 2: 0.6}) if how == "complete" else (None, {1: 0.4})
    assert (trial.state.name, trial.value) == (ENDED_STATES[how], value)
    assert trial.intermediate_values == reported, "nothing of the first attempt is left"
    assert trial.params == story.announced[0].params


@pytest.mark.parametrize("make", [grid_plan, tpe_plan])
def test_a_replicate_that_is_tried_again_changes_the_mean_that_was_told(
    make_plan: MakePlan, make: Callable[..., SweepPlan]
) -> None:
    plan = make(make_plan, replicates=2)
    story = Story(plan)
    story.suggest()
    story.report(1, 0.3)
    story.end(2, 0.4)
    story.suggest()
    story.fail()
    assert [trial.value for trial in story.study.get_trials()] == [0.4]
    first, second = story.announced
    again = Story(plan, known=[record_of(plan, first, "complete", 0.4), record_of(plan, second, "queued")])
    assert again.suggest() == "0000-r1"
    again.end(2, 0.8)
    (trial,) = again.study.get_trials()
    assert (trial.state.name, trial.value) == ("COMPLETE", pytest.approx(0.6))
    assert trial.intermediate_values == {1: 0.3, 2: 0.4}, "those of the first training, which is not repeated"


@pytest.mark.parametrize("make", [grid_plan, tpe_plan])
def test_what_a_torn_journal_has_lost_is_told_again(make_plan: MakePlan, make: Callable[..., SweepPlan]) -> None:
    """Cut anywhere, within a line or behind one, it opens; and the study ends as if nothing had been lost."""
    plan = make(make_plan, trials=3) if make is tpe_plan else make_plan()
    story, known = Story(plan, max_live=2), []
    for how in ("complete", "pruned"):
        story.suggest()
        story.end(1, 0.5, is_last=how == "complete")
        known.append(record_of(plan, story.announced[-1], how, 0.5 if how == "complete" else None))
    story.suggest()
    known.append(record_of(plan, story.announced[-1]))
    journal = plan.options.folder / JOURNAL_NAME
    content = journal.read_bytes()
    for end in {place for line in re.finditer(rb".*\n", content) for place in (line.start(), line.start() + 9)}:
        journal.write_bytes(content[:end])
        assert (repair_journal(plan.options.folder) is None) == (end == 0 or content[end - 1 : end] == b"\n")
        again = Story(plan, known=known)
        assert again.suggest() == "0002-r0"
        again.end(1, 0.9)
        assert again.suggest() == Searcher.FINISHED
        told = {number: (trial.state.name, trial.params) for number, trial in newest_trials(again.study).items()}
        states = enumerate(("COMPLETE", "PRUNED", "COMPLETE"))
        assert told == {number: (state, dict(known[number].params)) for number, state in states}
        assert {newest_trials(again.study)[number].value for number in (0, 2)} == {0.5, 0.9}
        assert set(num_finished(again.study).values()) == {1}


def num_finished(study: optuna.Study) -> Counter[int]:
    """How many trials of the study have ended, by configuration."""
    numbers = [trial.user_attrs.get(NUMBER_ATTRIBUTE) for trial in study.get_trials() if trial.state.is_finished()]
    return Counter(number for number in numbers if number is not None)


@dataclass
class World:
    """A sweep whose driver is killed or interrupted now and then; this is in the place of Tune, lanes and records."""

    plan: SweepPlan
    stream: random.Random
    statuses: dict[str, str] = field(default_factory=dict)
    """Of all trials on record."""
    specs: dict[str, TrialSpec] = field(default_factory=dict)
    num_ends: Counter[str] = field(default_factory=Counter)

    def outcome(self, trial_id: str) -> tuple[str, float]:
        """How a trial ends, whenever it is trained, and with what score."""
        chance = random.Random(trial_id)
        first = trial_id.endswith("r0")
        how = chance.choices(("complete", "reused", "pruned" if first else "complete", "failed"), (5, 1, 2, 1))[0]
        return how, round(chance.random(), 3)

    def known(self) -> list[TrialRecord]:
        """The records that a driver finds."""
        found = []
        for trial_id, spec in self.specs.items():
            status = self.statuses[trial_id]
            has_best = status in ("complete", "reused")
            best = self.outcome(trial_id)[1] if has_best else None
            found.append(record_of(self.plan, spec, status, best))
        return sorted(found, key=lambda record: (record.number, record.replicate))

    def live(self, num_actions: int, max_live: int) -> bool:
        """A driver's life: so many actions, then it is killed or interrupted; whether it came to its end before."""
        story = Story(self.plan, max_live, known=self.known())
        running: dict[str, int] = {}
        for _ in range(num_actions):
            wants_more = len(running) < max_live and self.stream.random() < 0.6
            name = story.suggest() if wants_more or not running else None
            if name == Searcher.FINISHED:
                if not running:
                    return True
            elif name is not None:
                spec = story.announced[-1]
                assert name not in running
                left = self.statuses.get(name, "queued")
                assert left in ("queued", "interrupted"), "what has ended is not trained again"
                running[name] = story.count
                if self.stream.random() < 0.1 and self.plan.options.search != "grid":
                    return False  # killed before the new trial came on record
                self.specs[name], self.statuses[name] = spec, "queued"
                continue
            if running:
                self.go_on(story, running)
                if not running and self.stream.random() < 0.1:
                    return False
        if self.stream.random() < 0.5:
            self.interrupt(story, running)
        return False

    def interrupt(self, story: "Story", running: dict[str, int]) -> None:
        """Ctrl-C: nothing new begins, and what is under way is cut short, unless it ends just then."""
        story.searcher.stop()
        while running:
            if self.stream.random() < 0.3:
                self.go_on(story, running)
                continue
            name = self.stream.choice(sorted(running))
            self.statuses[name] = self.stream.choice(["queued", "interrupted"])
            story.fail(running.pop(name))
        assert story.suggest() == Searcher.FINISHED
        if self.stream.random() < 0.8:  # else patience was over before Tune was
            story.searcher.finish()

    def go_on(self, story: "Story", running: dict[str, int]) -> None:
        """A running trial reports, or ends; its record says so before the searcher hears of it, or without."""
        name = self.stream.choice(sorted(running))
        how, best = self.outcome(name)
        if self.stream.random() < 0.3:
            story.report(1, best / 2, running[name])
            return
        tune_id = running.pop(name)
        if how == "pruned" and self.stream.random() < 0.15:
            story.end(2, best, is_last=False, tune_id=tune_id)
            raise Killed  # the scheduler has judged, and the trial has not heard of it
        self.statuses[name] = how
        self.num_ends[name] += 1
        if how == "failed":
            write_end(self.plan.options.folder, name, {"how": how, "error": "diverged"})
        if self.stream.random() < 0.15:
            raise Killed
        if how == "failed":
            story.fail(tune_id)
        else:
            story.end(2, best, is_last=how != "pruned", tune_id=tune_id)


def run_world(plan: SweepPlan, seed: int) -> World:
    """Lives until all has ended."""
    world = World(plan, random.Random(seed))
    max_live = world.stream.randint(1, 3)
    for _ in range(200):
        try:
            if world.live(world.stream.randint(0, 25), max_live):
                return world
        except Killed:
            continue
    raise AssertionError("it never ends")


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=[pytest.mark.slow] * (seed > 2)) for seed in range(12)])
@pytest.mark.parametrize("replicates", [1, 3])
@pytest.mark.parametrize("make", [grid_plan, tpe_plan])
def test_a_sweep_killed_or_interrupted_at_any_moment_ends_as_one_that_nobody_disturbed(
    make_plan: MakePlan, make: Callable[..., SweepPlan], replicates: int, seed: int
) -> None:
    plan = make(make_plan, replicates=replicates)
    world = run_world(plan, seed)
    expected = set()
    for number in range(5):
        first = f"{number:04d}-r0"
        has_all = world.outcome(first)[0] in ("complete", "reused")
        expected |= {first, *(f"{number:04d}-r{again}" for again in range(1, replicates if has_all else 1))}
    assert set(world.specs) == expected
    assert world.num_ends == dict.fromkeys(expected, 1), "each is trained to its end, and once"
    study = open_study(plan.options.folder, plan.options.name)
    told = newest_trials(study)
    assert sorted(told) == list(range(5))
    for number, trial in told.items():
        names = [name for name in sorted(expected) if name.startswith(f"{number:04d}")]
        outcomes = [world.outcome(name) for name in names]
        bests = [best for how, best in outcomes if how in ("complete", "reused")]
        assert trial.state.name == ENDED_STATES[outcomes[0][0]]
        assert trial.value == (pytest.approx(sum(bests) / len(bests)) if bests else trial.value)
        assert trial.params == world.specs[names[0]].params
    assert num_finished(study) == dict.fromkeys(range(5), 1), "no configuration is told twice"
    assert not [trial for trial in study.get_trials() if not trial.state.is_finished()]


def test_equal_first_stages_are_given_to_one_lane_and_the_order_hears_what_ends(make_plan: MakePlan) -> None:
    """Batch sizes of a task that is not active in the first stage; seeds make the last two share nothing."""
    named = {name: {"tasks.sst.batch_size": size, "seed": seed} for name, size, seed in PLANS}
    story = Story(make_plan(grid={"plan": named}), max_live=3)
    assert [story.suggest(), story.suggest(), story.suggest()] == ["0000-r0", "0003-r0", None]
    story.searcher.order.mark_stage_done("0000-r0", 0)
    assert story.suggest() in ("0001-r0", "0002-r0")


def test_where_nothing_may_be_shared_the_order_is_that_of_the_grid(make_plan: MakePlan) -> None:
    named = {name: {"tasks.sst.batch_size": size, "seed": seed} for name, size, seed in PLANS}
    story = Story(make_plan(grid={"plan": named}, reuse=False), max_live=9)
    assert [story.suggest() for _ in range(4)] == [f"{number:04d}-r0" for number in range(4)]


PLANS = (("four", 4, 0), ("five", 5, 0), ("six", 6, 0), ("other", 4, 1))
