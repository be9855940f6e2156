"""Resumed searches: suggestions and the study continue from the records, after any kill."""

import functools
import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import optuna
import pytest
from ray.tune.search import Searcher

from results.records.trial_folder import write_end
from results.records.trials import TrialRecord
from search_spaces.domain import Float
from search_spaces.space import grid_trials
from sweeps.options import SweepPlan
from sweeps.search.study import JOURNAL_NAME, NUMBER_ATTRIBUTE, newest_trials, open_study, repair_journal
from sweeps.search.trial_spec import TrialSpec, make_spec
from tests.killed import Killed
from tests.sweeps.conftest import MakePlan, with_options
from tests.sweeps.search.test_searcher import Run, record_of

ENDED_STATES = {"complete": "COMPLETE", "reused": "COMPLETE", "pruned": "PRUNED", "failed": "FAIL"}


def tpe_plan(make_plan: MakePlan, **changes: Any) -> SweepPlan:
    ranges = {"smart.weight": Float(low=0, high=10)}
    return make_plan(search="tpe", grid={}, ranges=ranges, **{"trials": 5, **changes})


def grid_plan(make_plan: MakePlan, **changes: Any) -> SweepPlan:
    return make_plan(grid={"smart.weight": (0.0, 0.3, 0.6, 1.0, 3.0)}, **changes)


@pytest.mark.parametrize("has_journal", [True, False])
@pytest.mark.parametrize("make", [grid_plan, tpe_plan])
def test_finished_trials_are_not_suggested_again_and_reach_the_study(
    make_plan: MakePlan, make: Callable[..., SweepPlan], has_journal: bool
) -> None:
    """All five configurations were drawn; the driver was killed before the study got any result."""
    plan = make(make_plan)
    first = Run(plan, max_live=5)
    assert [first.suggest() for _ in range(5)] == [f"{number:04d}-r0" for number in range(5)]
    statuses = ("complete", "reused", "pruned", "failed", "queued")
    bests = (0.5, 0.6, 0.2, None, None)
    known = [record_of(plan, *found) for found in zip(first.announced, statuses, bests, strict=True)]
    if not has_journal:
        (plan.options.folder / JOURNAL_NAME).unlink()
    again = Run(plan, max_live=5, known=known)
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
def test_unfinished_trials_are_suggested_before_new_ones(
    make_plan: MakePlan, make: Callable[..., SweepPlan], status: str
) -> None:
    plan = make(make_plan)
    first = Run(plan)
    first.suggest()
    again = Run(plan, max_live=2, known=[record_of(plan, first.announced[0], status)])
    assert [again.suggest(), again.suggest()] == ["0000-r0", "0001-r0"]
    assert again.announced[0] == first.announced[0]


@pytest.mark.parametrize("make", [grid_plan, tpe_plan])
def test_finished_sweep_suggests_nothing_and_changes_nothing(
    make_plan: MakePlan, make: Callable[..., SweepPlan]
) -> None:
    plan = make(make_plan, replicates=2)
    first, known = Run(plan), []
    while first.suggest() != Searcher.FINISHED:
        first.end(1, 0.5)
        known.append(record_of(plan, first.announced[-1], "complete", 0.5))
    before = first.study.get_trials()
    again = Run(plan, known=known)
    assert again.suggest() == Searcher.FINISHED
    again.searcher.finish()
    assert again.announced == []
    assert again.states() == ["COMPLETE"] * 5
    assert again.study.get_trials() == before


def test_trial_numbers_differ_from_the_studys_numbers(make_plan: MakePlan) -> None:
    """Stage order, or a configuration that is drawn again, gives the study other numbers than the sweep."""
    plan = grid_plan(make_plan)
    specs = [make_spec(plan.space, number, 0, params) for number, params in enumerate(grid_trials(plan.space))]
    known = [record_of(plan, spec, "failed" if spec.number == 1 else "queued") for spec in specs]
    run = Run(plan, max_live=5, known=known)
    while run.suggest() != Searcher.FINISHED:
        run.end(1, run.announced[-1].number / 10)
    trials = newest_trials(run.study)
    assert {number: trial.value for number, trial in trials.items()} == {0: 0, 1: None, 2: 0.2, 3: 0.3, 4: 0.4}
    assert {number: trial.params["smart.weight"] for number, trial in trials.items()} == dict(
        enumerate((0.0, 0.3, 0.6, 1.0, 3.0))
    )
    assert [number for number, trial in trials.items() if trial.number != number], "otherwise this test shows nothing"


def test_unrecorded_draw_is_failed_and_its_number_reused(
    make_plan: MakePlan,
) -> None:
    plan = tpe_plan(make_plan)
    first = Run(plan, max_live=2)
    first.suggest()
    first.suggest()
    known = [record_of(plan, first.announced[0])]
    again = Run(plan, max_live=9, known=known)
    names = [again.suggest() for _ in range(6)]
    assert names == [*(f"{number:04d}-r0" for number in range(5)), Searcher.FINISHED]
    assert again.states() == ["RUNNING", "FAIL", *["RUNNING"] * 4]
    assert again.announced[1].params != first.announced[1].params


def test_more_configurations_can_be_drawn_later(make_plan: MakePlan) -> None:
    plan, known = tpe_plan(make_plan, trials=2), []
    first = Run(plan)
    while first.suggest() != Searcher.FINISHED:
        first.end(1, 0.5)
        known.append(record_of(plan, first.announced[-1], "complete", 0.5))
    again = Run(with_options(plan, trials=4), known=known)
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
def test_missing_replicates_follow_and_the_mean_is_over_all(
    make_plan: MakePlan, make: Callable[..., SweepPlan], statuses: list[str], left: list[str], value: float | None
) -> None:
    plan = make(make_plan, replicates=3)
    bests = (0.1, 0.3, 0.5)
    first = Run(plan)
    first.suggest()
    params = first.announced[0].params
    specs = [make_spec(plan.space, 0, again, params) for again in range(3)]
    known = [
        record_of(plan, spec, status, best if status in ("complete", "reused") else None)
        for spec, status, best in zip(specs, statuses, bests, strict=False)
    ]
    run = Run(plan, known=known)
    seen = []
    for _ in left:
        seen.append(run.suggest())
        run.end(1, bests[run.announced[-1].replicate])
    assert seen == left
    trial = newest_trials(run.study)[0]
    mean = {("complete", "failed"): (0.1 + 0.5) / 2, ("complete", "reused", "failed"): (0.1 + 0.3) / 2}
    expected = None if value is None else mean.get(tuple(statuses), 0.3)
    assert trial.value == (None if expected is None else pytest.approx(expected))
    assert trial.state.name == (ENDED_STATES[statuses[0]] if expected is None else "COMPLETE")
    assert len(run.study.get_trials()) == 1
    assert run.suggest() == "0001-r0"


@pytest.mark.parametrize("make", [grid_plan, tpe_plan])
@pytest.mark.parametrize(("status", "how"), [("failed", "complete"), ("failed", "failed"), ("pruned", "complete")])
def test_retried_configuration_ends_once(
    make_plan: MakePlan, make: Callable[..., SweepPlan], status: str, how: str
) -> None:
    """Failed ones are retried on request; pruned ones if a kill came before their end was recorded."""
    plan = make(make_plan)
    run = Run(plan)
    run.suggest()
    run.report(1, 0.1)
    if status == "failed":
        run.fail()
    else:
        run.end(2, 0.1, is_last=False)
    again = Run(plan, known=[record_of(plan, run.announced[0], "queued")])
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
    assert trial.params == run.announced[0].params


@pytest.mark.parametrize("make", [grid_plan, tpe_plan])
def test_retried_replicate_changes_the_mean_in_the_study(make_plan: MakePlan, make: Callable[..., SweepPlan]) -> None:
    plan = make(make_plan, replicates=2)
    run = Run(plan)
    run.suggest()
    run.report(1, 0.3)
    run.end(2, 0.4)
    run.suggest()
    run.fail()
    assert [trial.value for trial in run.study.get_trials()] == [0.4]
    first, second = run.announced
    again = Run(plan, known=[record_of(plan, first, "complete", 0.4), record_of(plan, second, "queued")])
    assert again.suggest() == "0000-r1"
    again.end(2, 0.8)
    (trial,) = again.study.get_trials()
    assert (trial.state.name, trial.value) == ("COMPLETE", pytest.approx(0.6))
    assert trial.intermediate_values == {1: 0.3, 2: 0.4}, "those of the first training, which is not repeated"


@pytest.mark.parametrize("make", [grid_plan, tpe_plan])
def test_results_lost_from_a_torn_journal_are_added_again(make_plan: MakePlan, make: Callable[..., SweepPlan]) -> None:
    """Cut within or after any line, the journal opens, and the study ends as if nothing had been lost."""
    plan = make(make_plan, trials=3) if make is tpe_plan else make_plan()
    run, known = Run(plan, max_live=2), []
    for how in ("complete", "pruned"):
        run.suggest()
        run.end(1, 0.5, is_last=how == "complete")
        known.append(record_of(plan, run.announced[-1], how, 0.5 if how == "complete" else None))
    run.suggest()
    known.append(record_of(plan, run.announced[-1]))
    journal = plan.options.folder / JOURNAL_NAME
    content = journal.read_bytes()
    for end in {place for line in re.finditer(rb".*\n", content) for place in (line.start(), line.start() + 9)}:
        journal.write_bytes(content[:end])
        assert (repair_journal(plan.options.folder) is None) == (end == 0 or content[end - 1 : end] == b"\n")
        again = Run(plan, known=known)
        assert again.suggest() == "0002-r0"
        again.end(1, 0.9)
        assert again.suggest() == Searcher.FINISHED
        trials = {number: (trial.state.name, trial.params) for number, trial in newest_trials(again.study).items()}
        states = enumerate(("COMPLETE", "PRUNED", "COMPLETE"))
        assert trials == {number: (state, dict(known[number].params)) for number, state in states}
        assert {newest_trials(again.study)[number].value for number in (0, 2)} == {0.5, 0.9}
        assert set(num_finished(again.study).values()) == {1}


def num_finished(study: optuna.Study) -> Counter[int]:
    """Number of finished trials in the study, by configuration."""
    numbers = [trial.user_attrs.get(NUMBER_ATTRIBUTE) for trial in study.get_trials() if trial.state.is_finished()]
    return Counter(number for number in numbers if number is not None)


@dataclass
class SimulatedSweep:
    """A sweep whose driver is killed or interrupted now and then; stands in for Tune, lanes and records."""

    plan: SweepPlan
    stream: random.Random
    statuses: dict[str, str] = field(default_factory=dict)
    """Of all recorded trials."""
    specs: dict[str, TrialSpec] = field(default_factory=dict)
    num_ends: Counter[str] = field(default_factory=Counter)
    failing: frozenset[str] = frozenset()
    """Ids of further trials that fail."""

    def outcome(self, trial_id: str) -> tuple[str, float]:
        """How a trial ends, whenever it is trained, and with what score."""
        chance = random.Random(trial_id)
        if trial_id in self.failing:
            return "failed", 0.0
        first = trial_id.endswith("r0")
        may_prune = first and self.plan.options.scheduler == "asha"
        how = chance.choices(("complete", "reused", "pruned" if may_prune else "complete", "failed"), (5, 1, 2, 1))[0]
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

    def run_driver(self, num_actions: int, max_live: int) -> bool:
        """Runs a driver for so many actions, then kills or interrupts it; returns whether it reached its end before."""
        run = Run(self.plan, max_live, known=self.known())
        running: dict[str, int] = {}
        for _ in range(num_actions):
            wants_more = len(running) < max_live and self.stream.random() < 0.6
            name = run.suggest() if wants_more or not running else None
            if name == Searcher.FINISHED:
                if not running:
                    return True
            elif name is not None:
                spec = run.announced[-1]
                assert name not in running
                left = self.statuses.get(name, "queued")
                assert left in ("queued", "interrupted"), "ended trials are not trained again"
                running[name] = run.count
                if self.stream.random() < 0.1 and self.plan.options.search != "grid":
                    return False  # killed before the new trial came on record
                has_failed = self.statuses.get(f"{name[:4]}-r0") == "failed"
                assert name in self.specs or not has_failed, "no replicate begins after its first has failed"
                self.specs[name], self.statuses[name] = spec, "queued"
                continue
            if running:
                self.advance(run, running)
                if not running and self.stream.random() < 0.1:
                    return False
        if self.stream.random() < 0.5:
            self.interrupt(run, running)
        return False

    def interrupt(self, run: "Run", running: dict[str, int]) -> None:
        """Ctrl-C: no trial starts, and running ones are interrupted unless they end just then."""
        run.searcher.stop()
        while running:
            if self.stream.random() < 0.3:
                self.advance(run, running)
                continue
            name = self.stream.choice(sorted(running))
            self.statuses[name] = self.stream.choice(["queued", "interrupted"])
            run.fail(running.pop(name))
        assert run.suggest() == Searcher.FINISHED
        if self.stream.random() < 0.8:  # else the patience ended before Tune did
            run.searcher.finish()

    def advance(self, run: "Run", running: dict[str, int]) -> None:
        """A running trial reports or ends; its record is written before the searcher is called, or the call is lost."""
        name = self.stream.choice(sorted(running))
        how, best = self.outcome(name)
        if self.stream.random() < 0.3:
            run.report(1, best / 2, running[name])
            return
        tune_id = running.pop(name)
        if how == "pruned" and self.stream.random() < 0.15:
            run.end(2, best, is_last=False, tune_id=tune_id)
            raise Killed  # the scheduler has decided, and the trial has not got the decision
        self.statuses[name] = how
        self.num_ends[name] += 1
        if how == "failed":
            write_end(self.plan.options.folder, name, {"how": how, "error": "diverged"})
        if self.stream.random() < 0.15:
            raise Killed
        if how == "failed":
            run.fail(tune_id)
        else:
            run.end(2, best, is_last=how != "pruned", tune_id=tune_id)


def run_to_end(
    plan: SweepPlan, seed: int, max_live: int | None = None, failing: frozenset[str] = frozenset()
) -> SimulatedSweep:
    """Runs drivers until all trials have ended."""
    world = SimulatedSweep(plan, random.Random(seed), failing=failing)
    max_live = max_live or world.stream.randint(1, 3)
    for _ in range(200):
        try:
            if world.run_driver(world.stream.randint(0, 25), max_live):
                return world
        except Killed:
            continue
    raise AssertionError("it never ends")


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=[pytest.mark.slow] * (seed > 2)) for seed in range(12)])
@pytest.mark.parametrize("options", [{}, {"replicates": 3}, {"replicates": 4, "replicate_best": 2}])
@pytest.mark.parametrize("scheduler", ["asha", "none"])
@pytest.mark.parametrize("make", [grid_plan, tpe_plan])
def test_sweep_killed_or_interrupted_at_any_moment_ends_like_an_uninterrupted_one(
    make_plan: MakePlan, make: Callable[..., SweepPlan], scheduler: str, options: dict[str, int], seed: int
) -> None:
    """Without a scheduler replicates may begin early: they count, even if the first training of the configuration fails
    later; see the next test."""
    plan = make(make_plan, scheduler=scheduler, **options)
    world = run_to_end(plan, seed)
    expected, common = set[str](), plan.options.common_replicates
    for number in range(5):
        first = f"{number:04d}-r0"
        has_all = world.outcome(first)[0] in ("complete", "reused")
        ids = {f"{number:04d}-r{again}" for again in range(1, common)}
        expected |= {first, *(ids if has_all else ids & set(world.specs) if scheduler == "none" else ())}
    completed = [name for name in expected if world.outcome(name)[0] in ("complete", "reused")]
    best = sorted(completed, key=lambda name: (-world.outcome(name)[1], name))[: plan.options.replicate_best or 0]
    further = {f"{name[:4]}-r{again}" for name in best for again in range(1, 4)}
    assert set(world.specs) == expected | further
    assert world.num_ends == dict.fromkeys(expected | further, 1), "each is trained to its end, and once"
    study = open_study(plan.options.folder, plan.options.name)
    trials = newest_trials(study)
    assert sorted(trials) == list(range(5))
    for number, trial in trials.items():
        names = [name for name in sorted(expected) if name.startswith(f"{number:04d}")]
        outcomes = [world.outcome(name) for name in names]
        bests = [best for how, best in outcomes if how in ("complete", "reused")]
        assert trial.state.name == ("COMPLETE" if bests else ENDED_STATES[outcomes[0][0]])
        assert trial.value == (pytest.approx(sum(bests) / len(bests)) if bests else trial.value)
        assert trial.params == world.specs[names[0]].params
    assert num_finished(study) == dict.fromkeys(range(5), 1), "every configuration ends once"
    assert not [trial for trial in study.get_trials() if not trial.state.is_finished()]


@pytest.mark.parametrize(
    ("options", "fail_all"), [({}, False), ({}, True), ({"replicates": 4, "replicate_best": 2, "chosen_by": 3}, False)]
)
@pytest.mark.parametrize("make", [grid_plan, tpe_plan])
def test_replicates_that_have_begun_are_trained_to_their_end_though_the_first_fails(
    make_plan: MakePlan, make: Callable[..., SweepPlan], options: dict[str, int], fail_all: bool
) -> None:
    """Two configurations on three lanes: one lane is idle while the first trials run. That of the first fails."""
    few = {"trials": 2} if make is tpe_plan else {"grid": {"smart.weight": (0.0, 1.0)}}
    build = make_plan if make is grid_plan else functools.partial(make, make_plan)
    numbers_begun = Counter[int]()
    for seed in range(20):
        plan = build(**few, name=f"sweep{seed}", scheduler="none", **{"replicates": 3, **options})
        failing = frozenset(f"0000-r{again}" for again in range(1 + 3 * fail_all))
        world = run_to_end(plan, seed, 3, failing=failing)
        begun = [name for name in world.specs if name.startswith("0000")]
        numbers_begun[len(begun)] += 1
        assert len(begun) <= plan.options.common_replicates, "none of the further ones"
        assert world.num_ends == dict.fromkeys(world.specs, 1)
        bests = [best for how, best in map(world.outcome, begun) if how in ("complete", "reused")]
        trial = newest_trials(open_study(plan.options.folder, plan.options.name))[0]
        assert (trial.state.name, trial.value) == (
            ("COMPLETE", pytest.approx(sum(bests) / len(bests))) if bests else ("FAIL", None)
        )
    assert len(numbers_begun) > 1, f"otherwise this test shows little: {numbers_begun}"


@pytest.mark.parametrize("status", ["queued", "interrupted"])
def test_replicate_on_record_is_trained_though_the_first_fails_after_the_resume(
    make_plan: MakePlan, status: str
) -> None:
    plan = make_plan(replicates=3, scheduler="none", grid={"smart.weight": (1.0,)})
    first = Run(plan, max_live=2)
    assert [first.suggest(), first.suggest()] == ["0000-r0", "0000-r1"]
    run = Run(plan, known=[record_of(plan, spec, status) for spec in first.announced])
    assert run.suggest() == "0000-r0"
    run.fail()
    assert run.suggest() == "0000-r1"
    run.end(1, 0.7)
    assert run.suggest() == Searcher.FINISHED
    assert (run.states(), run.study.get_trials()[0].value) == (["COMPLETE"], 0.7)
