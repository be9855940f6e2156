"""Suggests the trials of a sweep to Tune, and tells Optuna how each configuration ended.

Optuna knows configurations; Tune trains each once or, with replicates, several times. The first training of a
configuration decides whether it is pruned or has failed; if it completes, the replicates follow at once, before new
configurations, and Optuna receives the mean of their best scores. Without a scheduler nothing is pruned, so replicates
start before the first training has ended where a lane would be idle; one that has started is trained to its end, even
if the first fails. With `--replicate-best` the best configurations get further replicates once all have ended; Optuna
receives none of these, so that its values stay comparable.

When a sweep is stopped, configurations that have not ended stay running in the study, where dashboards show them. A
resumed sweep has a new study, to which the configurations on record are added.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import optuna
from optuna.trial import TrialState
from ray.tune.search import Searcher

from results.records.trials import COMPLETED, TrialRecord
from search_spaces.space import grid_trials
from sweeps.lanes.channel import BEST_PREFIX
from sweeps.options import SweepPlan
from sweeps.search.base_point import base_point
from sweeps.search.stage_order import NOTHING_SHARED, StageKeys, StageOrder, find_stage_keys
from sweeps.search.study import add_ended, ask_known, ask_new, describe_end
from sweeps.search.trial_spec import (
    CompletedTrial,
    TrialSpec,
    completed_trials,
    further_specs,
    make_spec,
    trial_id_of,
    unfinished_specs,
)


@dataclass(kw_only=True)
class OpenConfiguration:
    """A configuration that has not ended in the study."""

    trial: optuna.Trial
    num_open: int = 1
    """Its trials that have not ended, started or not."""
    completed: list[CompletedTrial] = field(default_factory=list)
    """Its completed trials."""
    first_state: TrialState = TrialState.FAIL
    """How its first trial ended, if it did not complete; FAIL until it has ended in this run."""
    first_scores: Mapping[str, float] = field(default_factory=dict)
    """The best scores of a first trial that was pruned."""


class SweepSearcher(Searcher):  # type: ignore[misc]
    """Ask and tell over an Optuna study, for grid, random and TPE alike."""

    def __init__(
        self,
        plan: SweepPlan,
        study: optuna.Study,
        on_new: Callable[[TrialSpec], None],
        max_live: int,
        known: Sequence[TrialRecord] = (),
        history: Mapping[str, Sequence[tuple[int, float]]] | None = None,
    ) -> None:
        """Queues the points of a grid, and those of the `known` trials of a resumed sweep that have not ended.

        `on_new` is called with every trial before it is suggested. `max_live` trials may run at a time; the sweep
        changes this later. `history` has the scored epochs of known trials, and their best score so far at each.
        """
        super().__init__(metric="best", mode="max")
        self._history = history or {}
        self._plan = plan
        self._study = study
        self._on_new = on_new
        self._known = tuple(known)
        self.max_live = max_live
        self._pending: list[TrialSpec] = []
        self._stage_keys: dict[str, StageKeys] = {}
        self._running: dict[str, TrialSpec] = {}
        self._configurations: dict[int, OpenConfiguration] = {}
        self._completed = completed_trials(plan, known)
        self._on_record = frozenset(record.trial_id for record in known)
        self._queued_replicates = set(self._on_record)
        """Ids of the replicates that are on record or have been queued in this run."""
        self._has_chosen_best = plan.options.replicate_best is None
        self._is_stopped = False
        self.order = StageOrder()
        """The stages that are being trained; the sweep reports to it."""
        self._restore_known()
        numbers = numbers_of(known)
        if plan.options.search == "grid":
            points = enumerate(grid_trials(plan.space))
            self._pending += [make_spec(plan.space, n, 0, params) for n, params in points if n not in numbers]
        self._num_left = 0 if plan.options.search == "grid" else plan.num_configurations - len(numbers)
        self._next_number = max(numbers, default=-1) + 1

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """The next trial for Tune; None if it must wait, FINISHED if there is no more."""
        if self._is_stopped:
            return str(Searcher.FINISHED)
        if len(self._running) >= self.max_live:
            return None
        self._queue_further()
        spec = self._next_trial()
        if spec is None:
            return None if self._pending or self._may_replicate() else str(Searcher.FINISHED)
        self._running[trial_id] = spec
        self.order.add_trial(spec.trial_id, self._stage_keys_of(spec))
        self._on_new(spec)
        return {"trial": spec.describe()}

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Reports the best score so far to Optuna, for the first training of a configuration."""
        spec = self._running.get(trial_id)
        if spec is not None and spec.replicate == 0:
            self._report(spec, result)

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Tells Optuna how a configuration ended, once all its trials have; an interrupted trial has not ended."""
        spec = self._running.pop(trial_id)
        self.order.remove_trial(spec.trial_id)
        if not error and result is not None and result["status"] != "interrupted":
            self._end(spec, None if result["status"] == "failed" else result)

    def stop(self) -> None:
        """Ends the suggestions; Optuna is still told of trials that complete or are pruned from now on."""
        self._is_stopped = True

    def __getstate__(self) -> dict[str, Any]:
        """Nothing for Tune's pickle of its own settings, which is never read."""
        return {}

    def save(self, checkpoint_path: str) -> None:
        """Nothing: the study has a journal."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing: sweeps are not restored from Tune's snapshots."""

    def _restore_known(self) -> None:
        """Tells the study of the configurations of a resumed sweep, and queues its unfinished trials."""
        by_number = {number: [r for r in self._known if r.number == number] for number in numbers_of(self._known)}
        for number, records in by_number.items():
            left = unfinished_specs(self._plan, records)
            num_open = sum(not self._is_further(spec) for spec in left)
            self._pending += left
            if num_open:
                trial, completed = self._ask_known(number, records[0].params), self._completed_before(number)
                if any(one.replicate == 0 for one in completed):  # any other first trial reports its epochs again
                    for epoch, best in self._history.get(trial_id_of(number, 0), ()):
                        trial.report(best, epoch)
                self._configurations[number] = OpenConfiguration(trial=trial, num_open=num_open, completed=completed)
            else:
                self._add_ended(number, records)

    def _add_ended(self, number: int, records: Sequence[TrialRecord]) -> None:
        """Adds a configuration without a trial that is left."""
        completed, first = sorted(self._completed_before(number), key=lambda one: one.replicate), records[0]
        state = TrialState.PRUNED if first.status == "pruned" else TrialState.FAIL
        ids, scores = [trial_id_of(number, 0)], [first.best] if first.best else []
        if completed:
            state, ids, scores = TrialState.COMPLETE, [t.trial_id for t in completed], [t.scores for t in completed]
        add_ended(
            self._study,
            self._plan.space,
            self._plan.options.search,
            number,
            first.params,
            state=state,
            value=sum(trial.best for trial in completed) / len(completed) if completed else None,
            reports=self._history.get(trial_id_of(number, 0), ()),
            trial_ids=ids,
            scores=scores,
        )

    def _completed_before(self, number: int) -> list[CompletedTrial]:
        """The trials of a configuration that had completed before the sweep was resumed."""
        known = [record for record in self._known if record.number == number]
        common = self._plan.options.common_replicates
        return [trial for trial in completed_trials(self._plan, known) if trial.replicate < common]

    def _end(self, spec: TrialSpec, result: dict[str, Any] | None) -> None:
        """Handles the end of a trial, with its last report, or None if it has failed."""
        if self._is_further(spec):
            return
        configuration = self._configurations[spec.number]
        configuration.num_open -= 1
        if result and spec.replicate == 0:
            self._report(spec, result)
        if spec.replicate == 0 and not (result and result["status"] in COMPLETED):
            configuration.first_state = TrialState.PRUNED if result else TrialState.FAIL
            configuration.first_scores = best_scores(result or {})
            self._drop_replicates(spec.number)
        elif result:
            completed = CompletedTrial(
                number=spec.number,
                replicate=spec.replicate,
                params=spec.params,
                best=result["best"],
                scores=best_scores(result),
            )
            configuration.completed.append(completed)
            self._completed.append(completed)
            if spec.replicate == 0:
                self._queue_replicates(spec)
        if configuration.num_open == 0:
            state = TrialState.COMPLETE if configuration.completed else configuration.first_state
            self._tell(spec.number, state, configuration.first_scores)

    def _next_trial(self) -> TrialSpec | None:
        """The trial to start now, sampled if need be; None if there is none, or each needs a stage in training."""
        while (index := self.order.choose([self._stage_keys_of(spec) for spec in self._pending])) is None:
            if self._num_left > 0 and len(self._pending) < self.max_live:
                self._pending.append(self._sample())
            elif not self._queue_early_replicates():
                return None
        spec = self._pending.pop(index)
        if spec.number not in self._configurations and not self._is_further(spec):
            trial = self._ask_known(spec.number, spec.params)
            others = [other for other in self._pending if other.number == spec.number and not self._is_further(other)]
            num_open = 1 + len(others)
            before = self._completed_before(spec.number)
            self._configurations[spec.number] = OpenConfiguration(trial=trial, num_open=num_open, completed=before)
        return spec

    def _ask_known(self, number: int, params: Mapping[str, Any]) -> optuna.Trial:
        """Optuna's trial for a configuration whose values are known."""
        return ask_known(self._study, self._plan.space, self._plan.options.search, number, params)

    def _sample(self) -> TrialSpec:
        """The first trial of a new configuration."""
        number, self._next_number, self._num_left = self._next_number, self._next_number + 1, self._num_left - 1
        space, options = self._plan.space, self._plan.options
        base = base_point(space) if number == 0 and options.search == "tpe" else None
        if base is None:
            trial, params = ask_new(self._study, space, options.search, options.seed, number)
        else:
            trial, params = self._ask_known(number, base), base
        self._configurations[number] = OpenConfiguration(trial=trial)
        return make_spec(space, number, 0, params)

    def _stage_keys_of(self, spec: TrialSpec) -> StageKeys:
        """Keys of the stages that a trial passes through."""
        if spec.trial_id not in self._stage_keys:
            data_folder, options = self._plan.data_folder, self._plan.options
            found = find_stage_keys(spec.config, data_folder, options.workers) if options.shares_stages else None
            self._stage_keys[spec.trial_id] = found or NOTHING_SHARED
        return self._stage_keys[spec.trial_id]

    def _may_replicate(self) -> bool:
        """Whether running trials may still be followed by replicates."""
        has_first = any(spec.replicate == 0 for spec in self._running.values())
        return not self._has_chosen_best or (self._plan.options.common_replicates > 1 and has_first)

    def _is_further(self, spec: TrialSpec) -> bool:
        """Whether a trial is one of those that only the best configurations get."""
        return spec.replicate >= self._plan.options.common_replicates

    def _queue_further(self) -> None:
        """Chooses the best configurations and queues their further replicates, once all others have ended."""
        unended = [*self._pending, *self._running.values()]
        if self._has_chosen_best or self._num_left > 0 or not all(map(self._is_further, unended)):
            return
        self._has_chosen_best = True
        known = {record.trial_id for record in self._known} | {spec.trial_id for spec in unended}
        self._pending += further_specs(self._plan, self._completed, known)

    def _queue_replicates(self, first: TrialSpec) -> bool:
        """Queues the replicates of a configuration that have not been queued, before all others; whether it has any."""
        ids = {trial_id_of(first.number, again): again for again in range(1, self._plan.options.common_replicates)}
        new = [again for trial_id, again in ids.items() if trial_id not in self._queued_replicates]
        self._pending[:0] = [make_spec(self._plan.space, first.number, again, first.params) for again in new]
        self._queued_replicates |= set(ids)
        self._configurations[first.number].num_open += len(new)
        return bool(new)

    def _queue_early_replicates(self) -> bool:
        """Queues replicates of one configuration whose first trial is running, if none is ever pruned; whether it did.

        It is the one that began first of those that have any left.
        """
        firsts = [spec for spec in self._running.values() if spec.replicate == 0]
        if self._plan.options.scheduler == "none":
            for first in firsts:
                if self._queue_replicates(first):
                    return True
        return False

    def _drop_replicates(self, number: int) -> None:
        """Removes the replicates of a configuration that have not begun."""
        dropped = [
            spec
            for spec in self._pending
            if spec.number == number and not self._is_further(spec) and spec.trial_id not in self._on_record
        ]
        self._pending = [spec for spec in self._pending if spec not in dropped]
        self._configurations[number].num_open -= len(dropped)

    def _report(self, spec: TrialSpec, result: dict[str, Any]) -> None:
        """Reports an intermediate value, once per epoch."""
        trial = self._configurations[spec.number].trial
        reported = self._study.get_trials(deepcopy=False)[trial.number].intermediate_values
        if "best" in result and result["epoch"] not in reported:
            trial.report(result["best"], result["epoch"])

    def _tell(self, number: int, state: TrialState, scores: Mapping[str, float] | None = None) -> None:
        """Tells Optuna the end of a configuration, with the mean of its best scores if it is complete.

        `scores` are those of its first trial, for a configuration that is not.
        """
        configuration = self._configurations.pop(number)
        trial, completed = configuration.trial, sorted(configuration.completed, key=lambda one: one.replicate)
        if state == TrialState.COMPLETE:
            describe_end(trial, [one.trial_id for one in completed], [one.scores for one in completed])
            self._study.tell(trial, sum(one.best for one in completed) / len(completed))
        else:
            describe_end(trial, [trial_id_of(number, 0)], [scores] if scores else [])
            self._study.tell(trial, state=state)


def best_scores(result: Mapping[str, Any]) -> dict[str, float]:
    """The highest scores by task and overall that Tune got from a trial."""
    found = {name: value for name, value in result.items() if name.startswith(BEST_PREFIX)}
    return {name.removeprefix(BEST_PREFIX): value for name, value in found.items()}


def numbers_of(records: Sequence[TrialRecord]) -> list[int]:
    """The numbers of the trials' configurations, in order."""
    return sorted({record.number for record in records})
