"""Resumed searches: suggestions and a new study continue from the records, after any kill."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from ray.tune.search import Searcher

from results.records.trials import COMPLETED, TrialRecord
from search_spaces.domain import Float
from sweeps.driver.trials.messages import Message
from sweeps.driver.trials.trial import make_trial
from sweeps.options import SweepPlan
from sweeps.search.study import NUMBER_ATTRIBUTE
from tests.killed import Killed
from tests.sweeps.conftest import MakePlan
from tests.sweeps.search.test_searcher import Run, record_of

STATES = {"complete": "COMPLETE", "reused": "COMPLETE", "pruned": "PRUNED", "failed": "FAIL"}
MakeSearch = Callable[..., SweepPlan]


def tpe_plan(make_plan: MakePlan, **changes: Any) -> SweepPlan:
    ranges = {"smart.weight": Float(low=0, high=10)}
    return make_plan(grid={}, ranges=ranges, **{"search": "tpe", "trials": 5, **changes})


def grid_plan(make_plan: MakePlan, **changes: Any) -> SweepPlan:
    return make_plan(grid={"smart.weight": (0.0, 0.3, 0.6, 1.0, 3.0)}, **changes)


both = pytest.mark.parametrize("make", [grid_plan, tpe_plan])


@both
def test_new_study_has_ended_trials_and_unfinished_ones_run_first(make_plan: MakePlan, make: MakeSearch) -> None:
    plan = make(make_plan)
    first = Run(plan, max_live=5)
    for _ in range(4):
        first.suggest()
    statuses, bests = ("complete", "pruned", "failed", "interrupted"), (0.5, 0.2, 0.1, 0.3)
    known = [record_of(plan, *found) for found in zip(first.announced, statuses, bests, strict=True)]
    history = {spec.trial_id: [(1, best / 2), (2, best)] for spec, best in zip(first.announced, bests, strict=True)}
    again = Run(plan, max_live=5, known=known, history=history)
    assert again.states() == ["COMPLETE", "PRUNED", "FAIL"]
    assert [again.suggest(), again.suggest(), again.suggest()] == ["0003-r0", "0004-r0", None]
    assert again.states()[3:] == ["RUNNING"] * 2
    assert [trial.params for trial in again.trials[:4]] == [dict(spec.params) for spec in first.announced]
    assert [trial.user_attrs[NUMBER_ATTRIBUTE] for trial in again.trials] == [0, 1, 2, 3, 4]
    assert [trial.intermediate_values for trial in again.trials[:3]] == [{1: b / 2, 2: b} for b in bests[:3]]
    assert again.trials[0].value == 0.5
    assert again.trials[3].intermediate_values == {}, "it reports its epochs again"
    assert again.announced[0].config == first.announced[3].config
    again.end(1, 0.9, tune_id=1)
    assert (again.trials[3].state.name, again.trials[3].value) == ("COMPLETE", 0.9)


@pytest.mark.parametrize("search", ["tpe", "random"])
def test_resumed_search_goes_on_as_an_undisturbed_one(make_plan: MakePlan, search: str) -> None:
    """Of 14 configurations the last is running at the kill; TPE's first ten are random."""
    plan = tpe_plan(make_plan, search=search, trials=16, replicates=2, scheduler="asha")
    whole, known, history = Run(plan, max_live=2), [], {}
    while (name := whole.suggest()) != "0013-r0":
        spec, weight = whole.announced[-1], whole.announced[-1].params["smart.weight"]
        status = {2: "pruned", 5: "failed", 7: "pruned"}.get(spec.number, "complete")
        best = 1 - abs(weight - 4) / 10 - spec.replicate / 7
        history[name] = [(1, best / 3), (2, best)]
        for epoch, score in history[name]:
            whole.report(epoch, score)
        whole.end(2, best, "" if status == "pruned" else status)
        known.append(record_of(plan, spec, status, None if status == "failed" else best))
    known.append(record_of(plan, whole.announced[-1], "interrupted"))
    before = whole.trials
    assert whole.suggest() == "0014-r0"
    resumed = Run(plan, max_live=2, known=known, history=history)
    assert resumed.suggest() == "0013-r0"
    for own, other in zip(resumed.trials, before, strict=True):
        assert (own.state, own.values, own.params) == (other.state, other.values, other.params)
        assert (own.intermediate_values, own.user_attrs) == (other.intermediate_values, other.user_attrs)
    assert resumed.suggest() == "0014-r0"
    assert resumed.announced[-1] == whole.announced[-1]


@pytest.mark.parametrize(
    ("statuses", "left", "counted"),
    [
        (["queued"], [0, 1, 2], [0, 1, 2]),
        (["complete"], [1, 2], [0, 1, 2]),
        (["complete", "queued", "complete"], [1], [0, 1, 2]),
        (["complete", "failed"], [2], [0, 2]),
        (["complete", "reused", "failed"], [], [0, 1]),
        (["pruned"], [], []),
        (["failed"], [], []),
    ],
)
@both
def test_missing_replicates_follow_and_the_mean_is_over_all(
    make_plan: MakePlan, make: MakeSearch, statuses: list[str], left: list[int], counted: list[int]
) -> None:
    plan, bests = make(make_plan, replicates=3), (0.1, 0.3, 0.8)
    specs = [make_trial(plan.space, 0, again, {"smart.weight": 0.0}) for again in range(3)]
    known = [
        record_of(plan, spec, status, best if status in COMPLETED else None)
        for spec, status, best in zip(specs, statuses, bests, strict=False)
    ]
    run = Run(plan, known=known, history={"0000-r0": [(1, 0.05), (2, 0.1)]})
    for again in left:
        assert run.suggest() == f"0000-r{again}"
        run.end(2, bests[again])
    trial = run.trials[0]
    assert trial.state.name == ("COMPLETE" if counted else STATES[statuses[0]])
    mean = sum(bests[again] for again in counted) / max(1, len(counted))
    assert trial.value == (pytest.approx(mean) if counted else trial.value)
    if statuses != ["queued"]:
        assert trial.intermediate_values == {1: 0.05, 2: 0.1}, "of the first training, which is not repeated"
    assert len(run.trials) == 1
    assert run.suggest() == "0001-r0"


def test_replicate_on_record_is_trained_though_the_first_fails_after_the_resume(make_plan: MakePlan) -> None:
    plan = make_plan(replicates=3, scheduler="none", grid={"smart.weight": (1.0,)})
    first = Run(plan, max_live=2)
    assert [first.suggest(), first.suggest()] == ["0000-r0", "0000-r1"]
    run = Run(plan, known=[record_of(plan, spec, "interrupted") for spec in first.announced])
    assert run.suggest() == "0000-r0"
    run.fail()
    assert run.suggest() == "0000-r1"
    run.end(1, 0.7)
    assert run.suggest() == Searcher.FINISHED
    assert (run.states(), run.trials[0].value) == (["COMPLETE"], 0.7)


@dataclass
class SimulatedSweep:
    """A sweep whose driver is killed or interrupted now and then; stands in for Tune, lanes and records."""

    plan: SweepPlan
    stream: random.Random
    specs: dict[str, TrialRecord] = field(default_factory=dict)
    statuses: dict[str, str] = field(default_factory=dict)
    """Of all trials on record."""
    num_ends: Counter[str] = field(default_factory=Counter)

    def outcome(self, trial_id: str) -> tuple[str, float]:
        """How a trial ends, whenever it is trained, and with what score."""
        chance = random.Random(trial_id)
        may_prune = trial_id.endswith("r0") and self.plan.options.scheduler == "asha"
        how = chance.choices(("complete", "reused", "pruned" if may_prune else "complete", "failed"), (5, 1, 2, 1))[0]
        return how, round(chance.random(), 3)

    def known(self) -> list[TrialRecord]:
        """The records that a driver finds."""
        return [
            record_of(self.plan, self.specs[name], how, self.outcome(name)[1] if how in COMPLETED else None)
            for name, how in sorted(self.statuses.items())
        ]

    def run_driver(self, num_actions: int, max_live: int) -> Run | None:
        """Runs a driver for so many actions, then kills or interrupts it; the driver, if it reached its end before."""
        run, running = Run(self.plan, max_live, known=self.known()), dict[str, int]()
        for _ in range(num_actions):
            name = run.suggest() if not running or self.stream.random() < 0.4 else None
            if name == Searcher.FINISHED and not running:
                return run
            if name not in (None, Searcher.FINISHED):
                assert name not in running
                assert self.statuses.get(name, "queued") == "queued", "ended trials are not trained again"
                has_failed = self.statuses.get(f"{name[:4]}-r0") == "failed"
                assert name in self.specs or not has_failed, "no replicate begins after its first has failed"
                running[name] = run.count
                if self.stream.random() < 0.1:
                    return None  # killed before the trial has begun
                self.specs[name], self.statuses[name] = run.announced[-1], "queued"
            elif running:
                self.end_one(run, running)
        if self.stream.random() < 0.5:
            run.tell(Message(kind="stop"))
            for tune_id in running.values():
                run.end(1, 0.1, "interrupted", tune_id)
            assert run.suggest() == Searcher.FINISHED
        return None

    def end_one(self, run: Run, running: dict[str, int]) -> None:
        """A running trial ends; its end is on record before the searcher hears of it, or a kill comes between."""
        name = self.stream.choice(sorted(running))
        (how, best), tune_id = self.outcome(name), running.pop(name)
        self.statuses[name] = how
        self.num_ends[name] += 1
        if self.stream.random() < 0.15:
            raise Killed
        run.end(2, best, "" if how == "pruned" else how, tune_id)


def run_to_end(world: SimulatedSweep) -> Run:
    """Runs drivers until all trials have ended; the last one."""
    max_live = world.stream.randint(1, 3)
    for _ in range(200):
        try:
            if run := world.run_driver(world.stream.randint(0, 25), max_live):
                return run
        except Killed:
            continue
    raise AssertionError("it never ends")


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=[pytest.mark.slow] * (seed > 0)) for seed in range(8)])
@pytest.mark.parametrize("options", [{}, {"replicates": 3}, {"replicates": 4, "replicate_best": 2}])
@pytest.mark.parametrize("scheduler", ["asha", "none"])
@both
def test_sweep_killed_or_interrupted_at_any_moment_ends_like_an_uninterrupted_one(
    make_plan: MakePlan, make: MakeSearch, scheduler: str, options: dict[str, int], seed: int
) -> None:
    """Without a scheduler replicates may begin before the first training of their configuration fails: they count."""
    plan = make(make_plan, scheduler=scheduler, **options)
    world = SimulatedSweep(plan, random.Random(seed))
    run, common = run_to_end(world), range(1, plan.options.common_replicates)
    by_number: dict[int, list[str]] = {}
    for first in sorted(name for name in world.specs if name.endswith("r0")):
        others = [f"{first[:4]}-r{again}" for again in common]
        has_all = world.outcome(first)[0] in COMPLETED
        begun = others if has_all else [name for name in others if name in world.specs and scheduler == "none"]
        by_number[int(first[:4])] = [first, *begun]
    assert len(by_number) == 5
    expected = {name for names in by_number.values() for name in names}
    completed = [name for name in expected if world.outcome(name)[0] in COMPLETED]
    best = sorted(completed, key=lambda name: (-world.outcome(name)[1], name))[: plan.options.replicate_best or 0]
    expected |= {f"{name[:4]}-r{again}" for name in best for again in range(1, 4)}
    assert world.num_ends == dict.fromkeys(expected, 1), "each is trained to its end, and once"
    trials = {trial.user_attrs[NUMBER_ATTRIBUTE]: trial for trial in run.trials}
    assert sorted(trials) == sorted(by_number)
    assert len(run.trials) == 5
    for number, names in by_number.items():
        bests = [world.outcome(name)[1] for name in names if world.outcome(name)[0] in COMPLETED]
        assert trials[number].state.name == ("COMPLETE" if bests else STATES[world.outcome(names[0])[0]])
        assert not bests or trials[number].value == pytest.approx(sum(bests) / len(bests))
        assert trials[number].params == world.specs[names[0]].params
