"""Suggestions to Tune and results in Optuna's study, with this file in Tune's place."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState
from ray.tune.search import Searcher

from results.records.trial_folder import write_end
from results.records.trials import TrialRecord
from search_spaces.domain import Choice, Condition, Float
from sweeps.driver.ledger import Ledger, add_trial
from sweeps.options import SweepPlan
from sweeps.search.searcher import SweepSearcher
from sweeps.search.study import JOURNAL_NAME, NUMBER_ATTRIBUTE, TRIALS_ATTRIBUTE, open_study
from sweeps.search.trial_spec import TrialSpec
from tests.sweeps.conftest import MakePlan


class Run:
    """A searcher, its announced trials, and its study."""

    def __init__(self, plan: SweepPlan, max_live: int = 1, known: Sequence[TrialRecord] = ()) -> None:
        self.plan = plan
        self.announced: list[TrialSpec] = []
        self.searcher = SweepSearcher(
            plan, open_study(plan.options.folder, plan.options.name), self.announced.append, max_live, known
        )
        self.count = 0
        """Number of requested suggestions, which is Tune's id of the newest trial."""

    @property
    def study(self) -> optuna.Study:
        """The study as its journal holds it."""
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


def record_of(plan: SweepPlan, spec: TrialSpec, status: str = "queued", best: float | None = None) -> TrialRecord:
    ledger = Ledger(plan=plan)
    add_trial(ledger, spec)
    bests = {} if best is None else {plan.space.metric: best}
    return replace(ledger.records[spec.trial_id], status=status, best=bests)


def test_grid_is_suggested_once_and_then_finished(make_plan: MakePlan) -> None:
    run = Run(make_plan())
    seen = []
    for _ in range(3):
        seen.append(run.suggest())
        run.end(1, 0.5)
    assert seen == ["0000-r0", "0001-r0", "0002-r0"]
    assert run.suggest() == Searcher.FINISHED
    assert [spec.params for spec in run.announced] == [{"smart.weight": weight} for weight in (0.0, 0.3, 1.0)]


def test_running_trials_are_limited_by_lanes(make_plan: MakePlan) -> None:
    run = Run(make_plan(), max_live=2)
    assert [run.suggest(), run.suggest(), run.suggest()] == ["0000-r0", "0001-r0", None]


def test_completed_trial_has_its_best_score_in_the_study(make_plan: MakePlan) -> None:
    run = Run(make_plan())
    run.suggest()
    run.report(1, 0.6)
    run.report(2, 0.6)
    run.end(3, 0.6)
    trial = run.study.get_trials()[0]
    assert (trial.state, trial.value, trial.intermediate_values) == (TrialState.COMPLETE, 0.6, {1: 0.6, 2: 0.6, 3: 0.6})


def test_trial_stopped_by_the_scheduler_is_pruned_with_intermediate_values(make_plan: MakePlan) -> None:
    run = Run(make_plan())
    run.suggest()
    run.report(1, 0.4)
    run.end(2, 0.45, is_last=False)
    trial = run.study.get_trials()[0]
    assert (trial.state, trial.intermediate_values) == (TrialState.PRUNED, {1: 0.4, 2: 0.45})


def test_failed_trial_is_failed_in_the_study(make_plan: MakePlan) -> None:
    run = Run(make_plan())
    run.suggest()
    run.report(1, 0.4)
    run.fail()
    assert run.states()[0] == "FAIL"


def test_replicates_follow_at_once_and_the_study_has_their_mean(make_plan: MakePlan) -> None:
    run = Run(make_plan(replicates=3))
    seen, bests = [], [0.5, 0.6, 0.8]
    for best in bests:
        seen.append(run.suggest())
        run.end(1, best)
    assert seen == ["0000-r0", "0000-r1", "0000-r2"]
    assert [spec.config.replicate for spec in run.announced] == [0, 1, 2]
    trial = run.study.get_trials()[0]
    assert (trial.state, trial.value) == (TrialState.COMPLETE, pytest.approx(sum(bests) / 3))
    assert run.suggest() == "0001-r0"


def test_best_configurations_get_replicates_once_all_have_ended(make_plan: MakePlan) -> None:
    run = Run(make_plan(replicates=3, replicate_best=2), max_live=2)
    assert [run.suggest(), run.suggest()] == ["0000-r0", "0001-r0"]
    run.end(1, 0.5, tune_id=1)
    assert run.suggest() == "0002-r0"
    run.end(1, 0.6, tune_id=2)
    assert run.suggest() is None, "the best are not known yet"
    run.end(1, 0.7, tune_id=3)
    values = [trial.value for trial in run.study.get_trials()]
    assert values == [0.5, 0.6, 0.7]
    seen = [run.suggest(), run.suggest()]
    run.end(1, 0.1, tune_id=run.count - 1)
    run.fail(run.count)
    seen += [run.suggest(), run.suggest()]
    run.end(1, 0.1, tune_id=run.count - 1)
    run.end(1, 0.2)
    assert seen == ["0002-r1", "0001-r1", "0002-r2", "0001-r2"]
    assert run.suggest() == Searcher.FINISHED
    assert [trial.value for trial in run.study.get_trials()] == values, "the study keeps comparable values"
    assert run.states() == ["COMPLETE"] * 3


def test_pruned_and_failed_configurations_are_not_among_the_best(make_plan: MakePlan) -> None:
    run = Run(make_plan(replicates=3, replicate_best=2))
    run.suggest()
    run.end(1, 0.9, is_last=False)
    run.suggest()
    run.fail()
    run.suggest()
    run.end(1, 0.1)
    seen = []
    while (name := run.suggest()) != Searcher.FINISHED:
        seen.append(name)
        run.end(1, 0.1)
    assert seen == ["0002-r1", "0002-r2"]


@pytest.mark.parametrize("how", ["pruned", "failed"])
def test_only_completed_configurations_get_replicates(make_plan: MakePlan, how: str) -> None:
    run = Run(make_plan(replicates=2))
    run.suggest()
    if how == "pruned":
        run.end(1, 0.5, is_last=False)
    else:
        run.fail()
    assert run.suggest() == "0001-r0"


def test_failed_replicate_leaves_the_mean_of_the_others(make_plan: MakePlan) -> None:
    run = Run(make_plan(replicates=3))
    run.suggest()
    run.end(1, 0.5)
    run.suggest()
    run.fail()
    run.suggest()
    run.end(1, 0.7)
    assert run.study.get_trials()[0].value == pytest.approx(0.6)


def test_search_waits_for_a_trial_that_may_need_replicates(make_plan: MakePlan) -> None:
    run = Run(make_plan(replicates=2, scheduler="asha", grid={"smart.weight": (0.0, 1.0)}), max_live=3)
    assert [run.suggest(), run.suggest(), run.suggest()] == ["0000-r0", "0001-r0", None]
    run.end(1, 0.5, tune_id=1)
    run.end(1, 0.5, is_last=False, tune_id=2)
    assert run.suggest() == "0000-r1"
    assert run.suggest() == Searcher.FINISHED


def test_without_pruning_replicates_start_where_a_lane_would_be_idle(make_plan: MakePlan) -> None:
    run = Run(make_plan(replicates=3, grid={"smart.weight": (1.0,)}), max_live=2)
    assert [run.suggest(), run.suggest(), run.suggest()] == ["0000-r0", "0000-r1", None]
    run.end(1, 0.7, tune_id=2)
    assert run.suggest() == "0000-r2"
    run.end(1, 0.2, tune_id=1)
    assert run.states() == ["RUNNING"]
    run.end(1, 0.3)
    assert run.suggest() == Searcher.FINISHED
    (trial,) = run.study.get_trials()
    assert (trial.state.name, trial.value) == ("COMPLETE", pytest.approx(0.4))
    assert trial.user_attrs[TRIALS_ATTRIBUTE] == "0000-r0 0000-r1 0000-r2", "in this order, whichever ends first"


def test_new_configurations_start_before_replicates_of_running_ones(make_plan: MakePlan) -> None:
    run = Run(make_plan(replicates=2, grid={"smart.weight": (0.0, 1.0)}), max_live=3)
    assert [run.suggest(), run.suggest(), run.suggest()] == ["0000-r0", "0001-r0", "0000-r1"]


@pytest.mark.parametrize(("best", "state"), [(0.7, "COMPLETE"), (None, "FAIL")])
def test_replicate_that_has_begun_counts_though_the_first_fails(
    make_plan: MakePlan, best: float | None, state: str
) -> None:
    run = Run(make_plan(replicates=4, grid={"smart.weight": (1.0,)}), max_live=2)
    assert [run.suggest(), run.suggest()] == ["0000-r0", "0000-r1"]
    run.fail(tune_id=1)
    assert run.states() == ["RUNNING"]
    assert run.suggest() == Searcher.FINISHED, "no more are begun"
    run.end(1, best, tune_id=2) if best else run.fail(tune_id=2)
    assert (run.states(), run.study.get_trials()[0].value) == ([state], best)


def test_after_a_stop_nothing_is_suggested_and_interrupted_trials_stay_running_in_the_study(
    make_plan: MakePlan,
) -> None:
    run = Run(make_plan())
    run.suggest()
    run.report(1, 0.4)
    run.searcher.stop()
    run.fail()
    run.searcher.finish()
    assert run.suggest() == Searcher.FINISHED
    assert run.states() == ["RUNNING"], "only suggested trials are in the study"
    assert run.study.get_trials()[0].user_attrs == {NUMBER_ATTRIBUTE: 0, TRIALS_ATTRIBUTE: "0000-r0"}


def test_ends_during_a_stop_reach_the_study(make_plan: MakePlan) -> None:
    run = Run(make_plan(), max_live=3)
    for _ in range(3):
        run.suggest()
    run.searcher.stop()
    run.end(1, 0.3, is_last=False, tune_id=1)
    write_end(run.plan.options.folder, "0001-r0", {"how": "failed", "error": "diverged"})
    run.fail(tune_id=2)
    run.end(2, 0.7, tune_id=3)
    run.searcher.finish()
    assert run.states() == ["PRUNED", "FAIL", "COMPLETE"]


def test_replicate_failing_during_a_stop_leaves_the_mean_of_the_others(make_plan: MakePlan) -> None:
    run = Run(make_plan(replicates=2))
    run.suggest()
    run.end(1, 0.5)
    run.suggest()
    run.searcher.stop()
    write_end(run.plan.options.folder, "0000-r1", {"how": "failed", "error": "diverged"})
    run.fail()
    run.searcher.finish()
    assert (run.states(), run.study.get_trials()[0].value) == (["COMPLETE"], 0.5)


def test_configuration_with_pending_replicates_stays_running_at_a_stop(make_plan: MakePlan) -> None:
    """After resuming, the study gets the mean of all replicates once."""
    plan = make_plan(replicates=3)
    run = Run(plan)
    for best in (0.1, 0.2):
        run.suggest()
        run.end(1, best)
    run.suggest()
    run.searcher.stop()
    run.fail()
    run.searcher.finish()
    assert run.states() == ["RUNNING"]
    known = [record_of(plan, *found) for found in zip(run.announced[:2], ["complete"] * 2, (0.1, 0.2), strict=True)]
    again = Run(plan, known=[*known, record_of(plan, run.announced[2], "interrupted")])
    assert again.suggest() == "0000-r2"
    again.end(1, 0.6)
    assert (again.states(), again.study.get_trials()[0].value) == (["COMPLETE"], pytest.approx(0.3))


def test_tpe_learns_from_results(make_plan: MakePlan) -> None:
    ranges = {"smart.weight": Float(low=0, high=10)}
    plan = make_plan(search="tpe", trials=30, grid={}, ranges=ranges)
    run = Run(plan)
    while run.suggest() != Searcher.FINISHED:
        weight = run.announced[-1].params["smart.weight"]
        run.end(1, 1 - abs(weight - 7) / 10)
    weights = [spec.params["smart.weight"] for spec in run.announced]
    early, late = weights[:10], weights[-10:]
    assert len(weights) == 30
    assert sum(abs(weight - 7) for weight in late) < 0.6 * sum(abs(weight - 7) for weight in early)


@pytest.mark.parametrize(("search", "is_base"), [("tpe", True), ("random", False)])
def test_first_configuration_of_tpe_is_the_base(make_plan: MakePlan, search: str, is_base: bool) -> None:
    plan = make_plan(search=search, trials=3, grid={}, ranges={"smart.weight": Float(low=0, high=10)}, replicates=2)
    run = Run(plan)
    while run.suggest() != Searcher.FINISHED:
        run.end(1, 0.5)
    first, again, *others = [spec.config.override({"replicate": 0}) for spec in run.announced]
    assert first == again
    assert (first == plan.space.base) is is_base
    assert plan.space.base not in others
    assert run.states() == ["COMPLETE"] * 3


def test_undrawn_key_keeps_the_bases_value_and_is_not_in_the_title(make_plan: MakePlan) -> None:
    ranges = {"smart.mode": Choice(values=("paper", "random")), "smart.epsilon": Float(low=0.1, high=1.0)}
    conditions = {"smart.epsilon": Condition(key="smart.mode", values=("paper",))}
    plan = make_plan(search="random", trials=12, grid={}, ranges=ranges, conditions=conditions)
    run = Run(plan)
    while run.suggest() != Searcher.FINISHED:
        run.end(1, 0.5)
    drawn = {spec.config.smart.mode: spec for spec in run.announced}
    assert set(drawn) == {"paper", "random"}
    assert drawn["random"].params == {"smart.mode": "random"}
    assert drawn["random"].config == plan.space.base.override({"smart.mode": "random"})
    assert drawn["paper"].config.smart.epsilon == drawn["paper"].params["smart.epsilon"] >= 0.1


def test_own_name_of_a_space_is_recorded_and_its_meaning_configured(
    make_plan: MakePlan,
) -> None:
    named = {"off": {"smart.weight": 0.0}, "long": {"stages.1.epochs": 3, "smart.weight": 1.0}}
    run = Run(make_plan(grid={"plan": named}, replicates=2))
    while run.suggest() != Searcher.FINISHED:
        run.end(1, 0.5)
    assert [spec.params for spec in run.announced] == [{"plan": name} for name in ("off", "off", "long", "long")]
    assert [spec.config.stages[1].epochs for spec in run.announced[2:]] == [3, 3]
    assert [spec.config.replicate for spec in run.announced] == [0, 1, 0, 1]


def test_study_has_one_trial_per_configuration(make_plan: MakePlan) -> None:
    run = Run(make_plan(replicates=2, grid={"smart.weight": (0.0, 1.0)}))
    while run.suggest() != Searcher.FINISHED:
        run.end(1, 0.5)
    assert run.states() == ["COMPLETE", "COMPLETE"]
    assert isinstance(run.study, optuna.Study)


def test_equal_first_stages_go_to_one_lane_until_they_end(make_plan: MakePlan) -> None:
    """Batch sizes of a task that is not active in the first stage; seeds make the last two share nothing."""
    named = {name: {"tasks.sst.batch_size": size, "seed": seed} for name, size, seed in PLANS}
    run = Run(make_plan(grid={"plan": named}), max_live=3)
    assert [run.suggest(), run.suggest(), run.suggest()] == ["0000-r0", "0003-r0", None]
    run.searcher.order.mark_stage_done("0000-r0", 0)
    assert run.suggest() in ("0001-r0", "0002-r0")


def test_without_sharing_the_order_is_the_grids(make_plan: MakePlan) -> None:
    named = {name: {"tasks.sst.batch_size": size, "seed": seed} for name, size, seed in PLANS}
    run = Run(make_plan(grid={"plan": named}, reuse=False), max_live=9)
    assert [run.suggest() for _ in range(4)] == [f"{number:04d}-r0" for number in range(4)]


PLANS = (("four", 4, 0), ("five", 5, 0), ("six", 6, 0), ("other", 4, 1))
