"""What Tune is suggested and what Optuna is told, with this file in Tune's place."""

from typing import Any

import optuna
import pytest
from optuna.trial import TrialState
from ray.tune.search import Searcher

from search_spaces.domain import Choice, Condition, Float
from sweeps.options import SweepPlan
from sweeps.searcher import SweepSearcher, TrialSpec
from sweeps.study import open_study
from tests.sweeps.conftest import MakePlan


class Story:
    """A searcher, what it has announced, and its study."""

    def __init__(self, plan: SweepPlan, max_live: int = 1) -> None:
        self.announced: list[TrialSpec] = []
        self.study = open_study(plan.folder, plan.name)
        self.searcher = SweepSearcher(plan, self.study, self.announced.append, max_live)
        self._count = 0

    def suggest(self) -> Any:
        """The next suggestion's trial id, None or FINISHED; Tune's own id is a number."""
        self._count += 1
        found = self.searcher.suggest(str(self._count))
        return found["trial_id"] if isinstance(found, dict) else found

    def report(self, epoch: int, best: float, tune_id: int | None = None) -> None:
        self.searcher.on_trial_result(str(tune_id or self._count), {"epoch": epoch, "best": best, "is_last": False})

    def end(self, epoch: int, best: float, is_last: bool = True, tune_id: int | None = None) -> None:
        result = {"epoch": epoch, "best": best, "is_last": is_last}
        self.searcher.on_trial_complete(str(tune_id or self._count), result)

    def fail(self) -> None:
        self.searcher.on_trial_complete(str(self._count), None, error=True)

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
    assert "interrupted" not in story.study.get_trials()[0].user_attrs


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


def test_after_a_stop_nothing_is_suggested_and_what_ends_is_marked_interrupted(make_plan: MakePlan) -> None:
    story = Story(make_plan())
    story.suggest()
    story.searcher.stop()
    story.fail()
    assert story.suggest() == Searcher.FINISHED
    assert story.states() == ["FAIL", "WAITING", "WAITING"]
    assert story.study.get_trials()[0].user_attrs == {"interrupted": True}


def test_a_configuration_whose_replicates_never_came_is_told_at_the_end(make_plan: MakePlan) -> None:
    story = Story(make_plan(replicates=2))
    story.suggest()
    story.end(1, 0.5)
    story.searcher.stop()
    story.searcher.finish()
    assert (story.states()[0], story.study.get_trials()[0].value) == ("COMPLETE", 0.5)


def test_tpe_learns_from_what_was_told(make_plan: MakePlan) -> None:
    ranges = {"smart.weight": Float(low=0, high=10)}
    plan = make_plan(search="tpe", num_trials=30, grid={}, ranges=ranges)
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
    plan = make_plan(search="random", num_trials=12, grid={}, ranges=ranges, conditions=conditions)
    story = Story(plan)
    while story.suggest() != Searcher.FINISHED:
        story.end(1, 0.5)
    drawn = {spec.config.smart.mode: spec for spec in story.announced}
    assert set(drawn) == {"paper", "random"}
    assert drawn["random"].params == {"smart.mode": "random"}
    assert drawn["random"].config == plan.base.override({"smart.mode": "random"})
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
