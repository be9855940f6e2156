"""Suggestions to Tune and results in Optuna's study, with this file in Tune's place."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState
from ray.tune.search import Searcher

from mtlib.config.trial import TrialConfig
from results.records.race import RaceRecord, RoundDecision
from results.records.trials import TrialRecord
from search_spaces.domain import Float
from sweeps.driver.trials.changes import apply
from sweeps.driver.trials.messages import Message
from sweeps.driver.trials.table import open_table
from sweeps.options import SweepPlan
from sweeps.search.searcher import SweepSearcher
from sweeps.search.study import JOURNAL_NAME, open_study
from tests.sweeps.conftest import MakePlan

History = Mapping[str, Sequence[tuple[int, float]]]


class Run:
    """A searcher over a table, its announced trials, and its study."""

    def __init__(
        self,
        plan: SweepPlan,
        max_live: int = 1,
        known: Sequence[TrialRecord] = (),
        history: History | None = None,
    ) -> None:
        self.plan = plan
        self.announced: list[TrialRecord] = []
        options = plan.options
        study = open_study(Path(options.folder, JOURNAL_NAME), options.name, plan.space.metric)
        self.table = open_table(plan, known, history)
        self.is_decision_due = False
        self.searcher = SweepSearcher(self.table, study, self.tell, max_live, lambda _records: self.is_decision_due)
        self.count = 0
        """Number of requested suggestions, which is Tune's id of the newest trial."""
        self.suggested: dict[int, Any] = {}
        """What was suggested, by Tune's id."""

    def tell(self, message: Message) -> None:
        if message.kind == "suggested":
            self.announced.append(message.facts["trial"])
        apply(self.table, message)

    @property
    def trials(self) -> list[FrozenTrial]:
        """The configurations in the study as its journal holds it."""
        storage = JournalStorage(JournalFileBackend(f"{self.plan.options.folder}/{JOURNAL_NAME}"))
        trials: list[FrozenTrial] = optuna.load_study(study_name=self.plan.options.name, storage=storage).get_trials()
        return trials

    def suggest(self) -> Any:
        """The next suggestion's trial id, None or FINISHED; Tune's own id is a number."""
        self.count += 1
        found = self.searcher.suggest(str(self.count))
        self.suggested[self.count] = found["trial"]["trial_id"] if isinstance(found, dict) else found
        return self.suggested[self.count]

    def report(self, epoch: int, best: float, tune_id: int | None = None) -> None:
        self.searcher.on_trial_result(str(tune_id or self.count), result_of(epoch, best))

    def end(self, epoch: int, best: float, status: str = "complete", tune_id: int | None = None) -> None:
        """Ends a trial, of which the table knows first; one that the scheduler stops has no status for Tune."""
        row = self.table.rows[self.suggested[tune_id or self.count]]
        bests = {self.plan.space.metric: best} if status != "interrupted" else {}
        row.record = replace(row.record, status=status or "pruned", best=bests)
        self.searcher.on_trial_complete(str(tune_id or self.count), result_of(epoch, best, status))

    def fail(self, tune_id: int | None = None) -> None:
        self.end(0, float("-inf"), "failed", tune_id)

    def states(self) -> list[str]:
        return [trial.state.name for trial in self.trials]

    def run_to_end(self, best: float = 0.5) -> list[str]:
        """Completes every trial that is left, one at a time; their ids."""
        seen = []
        while (name := self.suggest()) != Searcher.FINISHED:
            seen.append(name)
            self.end(1, best)
        return seen


def result_of(epoch: int, best: float, status: str = "") -> dict[str, Any]:
    """What Tune passes to the searcher of a report, or with a status of a trial's end."""
    return {"epoch": epoch, "best": best, "is_last": status == "complete", "status": status}


def record_of(plan: SweepPlan, trial: TrialRecord, status: str = "queued", best: float | None = None) -> TrialRecord:
    bests = {} if best is None else {plan.space.metric: best}
    return replace(trial, status=status, best=bests)


def test_study_has_best_scores_and_the_reason_of_each_end(make_plan: MakePlan) -> None:
    run = Run(make_plan(), max_live=3)
    for _ in range(3):
        run.suggest()
    for epoch, best in ((1, 0.5), (2, 0.6)):
        run.report(epoch, best, tune_id=1)
    run.end(2, 0.6, tune_id=1)
    run.report(1, 0.4, tune_id=2)
    run.end(2, 0.45, status="", tune_id=2)
    run.report(1, 0.3, tune_id=3)
    run.fail(tune_id=3)
    assert run.states() == ["COMPLETE", "PRUNED", "FAIL"]
    assert [trial.intermediate_values for trial in run.trials] == [{1: 0.5, 2: 0.6}, {1: 0.4, 2: 0.45}, {1: 0.3}]
    assert (run.trials[0].value, run.trials[2].value) == (0.6, None)


def test_replicates_follow_at_once_and_the_study_has_their_mean(make_plan: MakePlan) -> None:
    run = Run(make_plan(replicates=3))
    seen, bests = [], [0.5, 0.6, 0.8]
    for best in bests:
        seen.append(run.suggest())
        run.end(1, best)
    assert seen == ["0000-r0", "0000-r1", "0000-r2"]
    assert [TrialConfig.from_json(spec.config).replicate for spec in run.announced] == [0, 1, 2]
    (trial,) = run.trials
    assert (trial.state, trial.value) == (TrialState.COMPLETE, pytest.approx(sum(bests) / 3))
    assert run.suggest() == "0001-r0"


def test_best_configurations_get_replicates_once_all_have_ended(make_plan: MakePlan) -> None:
    run = Run(make_plan(replicates=3, replicate_best=2, grid={"smart.weight": (0.0, 0.1, 0.2, 0.3, 0.4)}), max_live=2)
    assert [run.suggest(), run.suggest()] == ["0000-r0", "0001-r0"]
    run.end(1, 0.9, status="", tune_id=1)
    run.fail(tune_id=2)
    assert [run.suggest(), run.suggest()] == ["0002-r0", "0003-r0"]
    run.end(1, 0.5, tune_id=3)
    assert run.suggest() == "0004-r0"
    run.end(1, 0.6, tune_id=4)
    assert run.suggest() is None, "the best are not known yet"
    run.end(1, 0.7, tune_id=5)
    before = [(trial.state, trial.value) for trial in run.trials]
    assert run.run_to_end(0.1) == ["0004-r1", "0003-r1", "0004-r2", "0003-r2"]
    after = [(trial.state, trial.value) for trial in run.trials]
    assert after == before, "the study keeps comparable values"


def test_rounds_of_a_race_follow_each_other_the_best_first_and_those_that_left_stop(make_plan: MakePlan) -> None:
    plan = make_plan(replicates=3, until_decided=0.0, grid={"smart.weight": (0.0, 0.1, 0.2)})
    run = Run(replace(plan, race=RaceRecord()), max_live=2)
    assert [run.suggest(), run.suggest()] == ["0000-r0", "0001-r0"]
    run.end(1, 0.5, tune_id=1)
    run.end(1, 0.7, tune_id=2)
    assert [run.suggest(), run.suggest()] == ["0002-r0", "0001-r1"], "no lane waits for a round's end"
    run.end(1, 0.6, tune_id=3)
    run.end(1, 0.7, tune_id=4)
    assert [run.suggest(), run.suggest()] == ["0002-r1", "0000-r1"]
    run.end(1, 0.6, tune_id=5)
    run.end(1, 0.5, tune_id=6)
    second = RoundDecision(num_rounds=2, open=(1, 2), worse=(0,), expected_rounds=(3, 3))
    run.table.race = RaceRecord(decisions=(second,))
    assert [run.suggest(), run.suggest()] == ["0001-r2", "0002-r2"]
    assert [(trial.state, trial.value) for trial in run.trials] == [
        (TrialState.COMPLETE, value) for value in (0.5, 0.7, 0.6)
    ]


def test_without_pruning_replicates_start_where_a_lane_would_be_idle(make_plan: MakePlan) -> None:
    run = Run(make_plan(replicates=2, grid={"smart.weight": (0.0, 1.0)}), max_live=4)
    assert [run.suggest() for _ in range(4)] == ["0000-r0", "0001-r0", "0000-r1", "0001-r1"]
    run.end(1, 0.7, tune_id=3)
    assert run.states() == ["RUNNING"] * 2
    run.end(1, 0.1, tune_id=1)
    assert (run.trials[0].state.name, run.trials[0].value) == ("COMPLETE", pytest.approx(0.4))


@pytest.mark.parametrize(("best", "state"), [(0.7, "COMPLETE"), (None, "FAIL")])
def test_replicate_that_has_begun_counts_though_the_first_fails(
    make_plan: MakePlan, best: float | None, state: str
) -> None:
    run = Run(make_plan(replicates=4, grid={"smart.weight": (1.0,)}), max_live=2)
    assert [run.suggest(), run.suggest()] == ["0000-r0", "0000-r1"]
    run.fail(tune_id=1)
    assert run.states() == ["RUNNING"]
    assert run.suggest() is None, "no more are begun"
    run.end(1, best, tune_id=2) if best else run.fail(tune_id=2)
    assert (run.states(), run.trials[0].value) == ([state], best)


def test_after_a_stop_nothing_is_suggested_and_ends_still_reach_the_study(make_plan: MakePlan) -> None:
    run = Run(make_plan(grid={"smart.weight": (0.0, 0.3, 1.0, 2.0, 3.0)}), max_live=4)
    for _ in range(4):
        run.suggest()
    run.tell(Message(kind="stop"))
    run.end(1, 0.3, status="", tune_id=1)
    run.fail(tune_id=2)
    run.end(2, 0.7, tune_id=3)
    run.end(1, 0.4, "interrupted", tune_id=4)
    assert run.suggest() == Searcher.FINISHED
    assert run.states() == ["PRUNED", "FAIL", "COMPLETE", "RUNNING"], "only suggested trials are in the study"


@pytest.mark.parametrize(("search", "is_base"), [("tpe", True), ("gp", True), ("random", False)])
def test_a_search_that_learns_begins_with_the_base(make_plan: MakePlan, search: str, is_base: bool) -> None:
    plan = make_plan(search=search, trials=3, grid={}, ranges={"smart.weight": Float(low=0, high=10)}, replicates=2)
    run = Run(plan)
    run.run_to_end()
    first, again, *others = [TrialConfig.from_json(spec.config).override({"replicate": 0}) for spec in run.announced]
    assert first == again
    assert (first == plan.space.base) is is_base
    assert plan.space.base not in others
    assert run.states() == ["COMPLETE"] * 3


def test_search_does_not_end_while_a_race_is_about_to_decide(make_plan: MakePlan) -> None:
    """What is decided may have further trials, as where a configuration has joined a race that had ended."""
    run = Run(replace(make_plan(replicates=3, until_decided=0.0, grid={"smart.weight": (0.0, 0.1)}), race=RaceRecord()))
    run.table.race = RaceRecord(decisions=(RoundDecision(num_rounds=1, open=(0,), worse=(1,), end="decided"),))
    for tune_id in (1, 2):
        run.suggest()
        run.end(1, 0.5, tune_id=tune_id)
    run.is_decision_due = True
    assert run.suggest() is None
    run.is_decision_due = False
    assert run.suggest() == Searcher.FINISHED
