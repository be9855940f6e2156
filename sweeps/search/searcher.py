"""Suggests the trials of a sweep to Tune, and tells Optuna how each configuration really ended.

Optuna knows configurations; Tune trains each once or, with replicates, several times. The first training of a
configuration decides whether it is pruned or has failed; if it completes, the replicates follow at once, before new
configurations, and Optuna is told the mean of their best scores.

Of a sweep that is stopped, Optuna is told nothing of configurations that are not done: they stay under way in the
study, and dashboards show them as running, until the sweep goes on.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState
from ray.tune.search import Searcher

from results.records.recovery import read_end
from results.records.trials import TrialRecord
from search_spaces.space import grid_trials
from sweeps.options import SweepPlan
from sweeps.search.stage_order import NOTHING_SHARED, StageKeys, StageOrder, find_stage_keys
from sweeps.search.study import Draw, draw, draw_known, is_whole, recall, reopen, take_back, tidy
from sweeps.search.trial_spec import ENDED_WELL, TrialSpec, left_of, make_spec


@dataclass(kw_only=True)
class Configuration:
    """A configuration whose trials are under way."""

    draw: Draw
    open_trials: int = 1
    """Trials of it that have not ended, begun or not."""
    bests: list[float] = field(default_factory=list)
    """Best scores of its completed trials."""


class SweepSearcher(Searcher):  # type: ignore[misc]
    """Ask and tell over an Optuna study, for grid, random and TPE alike."""

    def __init__(
        self,
        plan: SweepPlan,
        study: optuna.Study,
        on_new: Callable[[TrialSpec], None],
        max_live: int,
        known: Sequence[TrialRecord] = (),
    ) -> None:
        """Queues what is known from the start: the points of a grid, and the trials of a sweep that goes on.

        Args:
            plan: the sweep.
            study: its study.
            on_new: called with every trial before it is suggested.
            max_live: how many trials may be under way at a time; it may be set anew.
            known: the trials of the sweep so far; those that have not ended are suggested again.
        """
        super().__init__(metric="best", mode="max")
        self._plan = plan
        self._study = study
        self._on_new = on_new
        self._known = tuple(known)
        self.max_live = max_live
        self._pending: list[TrialSpec] = []
        self._stage_keys: dict[str, StageKeys] = {}
        self._running: dict[str, TrialSpec] = {}
        self._configurations: dict[int, Configuration] = {}
        self._is_stopped = False
        self._cut_short: list[TrialSpec] = []
        """Trials that were interrupted, or have failed, while the sweep was being stopped."""
        self.order = StageOrder()
        """Knows which stages are being trained; told of them by the sweep."""
        self._recall(known)
        numbers = numbers_of(known)
        if plan.search == "grid":
            points = enumerate(grid_trials(plan.space))
            self._pending += [make_spec(plan.space, n, 0, params) for n, params in points if n not in numbers]
        self._num_left = 0 if plan.search == "grid" else plan.num_configurations - len(numbers)
        self._next_number = max(numbers, default=-1) + 1

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """The next trial for Tune; None if it must wait, FINISHED if there is no more."""
        if self._is_stopped:
            return str(Searcher.FINISHED)
        if len(self._running) >= self.max_live:
            return None
        spec = self._next_trial()
        if spec is None:
            return None if self._pending or self._may_replicate() else str(Searcher.FINISHED)
        self._running[trial_id] = spec
        self.order.start(spec.trial_id, self._stage_keys_of(spec))
        self._on_new(spec)
        values = ", ".join(f"{key}={value}" for key, value in spec.params.items())
        return {
            "trial_id": spec.trial_id,
            "replicate": spec.replicate,
            "title": f"{spec.trial_id} {values}",
            "config": spec.config.to_json(),
        }

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Tells Optuna the best score so far, for the first training of a configuration."""
        spec = self._running.get(trial_id)
        if spec is not None and spec.replicate == 0:
            self._report(spec, result)

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Tells Optuna how a configuration ended, once all its trials have."""
        spec = self._running.pop(trial_id)
        self.order.end(spec.trial_id)
        if error and self._is_stopped:
            self._cut_short.append(spec)
        else:
            self._end(spec, None if error else result)

    def stop(self) -> None:
        """No more suggestions; what still ends well or is pruned is told as it ends."""
        self._is_stopped = True

    def finish(self) -> None:
        """Tells what has failed while the sweep was being stopped, by the trials' own word; Tune has ended."""
        for spec in self._cut_short:
            if read_end(self._plan.folder, spec.trial_id) is not None:
                self._end(spec, None)

    def __getstate__(self) -> dict[str, Any]:
        """Nothing for Tune's pickle of its own settings, which is never read."""
        return {}

    def save(self, checkpoint_path: str) -> None:
        """Nothing: the study has a journal."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing: sweeps are not restored from Tune's snapshots."""

    def _recall(self, known: Sequence[TrialRecord]) -> None:
        """Takes up what a sweep that goes on has left: tells the study what it missed, queues what has not ended."""
        space, search = self._plan.space, self._plan.search
        by_number = {number: [record for record in known if record.number == number] for number in numbers_of(known)}
        left = {number: left_of(self._plan, records) for number, records in by_number.items()}
        told = [(number, trial) for number, trial in recall(self._study).items() if number in by_number]
        tidy(self._study, [n for n, trial in told if is_whole(trial, space, search, by_number[n][0].params)])
        again = [number for number in left if left[number]]
        anew = [number for number in again if left[number][0].replicate == 0]
        self._study = take_back(self._study, self._plan.folder, again, anew)
        asked = recall(self._study)
        for number, records in by_number.items():
            self._pending += left[number]
            trial = asked.get(number)
            is_open = trial is not None and trial.state == TrialState.RUNNING
            if is_open or (trial is None and not left[number]):
                self._take_up(records, trial, len(left[number]))

    def _take_up(self, records: Sequence[TrialRecord], trial: FrozenTrial | None, num_left: int) -> None:
        """Waits for a configuration on the study's behalf, or tells the study how it ended."""
        number, params = records[0].number, dict(records[0].params)
        if trial is None:
            draw = draw_known(self._study, self._plan.space, self._plan.search, number, params)
        else:
            draw = reopen(self._study, trial, params, number)
        bests = self._bests_of(number)
        self._configurations[number] = Configuration(draw=draw, open_trials=num_left, bests=bests)
        if num_left == 0:
            state = TrialState.PRUNED if records[0].status == "pruned" else TrialState.FAIL
            self._tell(number, TrialState.COMPLETE if bests else state)

    def _bests_of(self, number: int) -> list[float]:
        """Best scores of the trials of a configuration that had ended well before the sweep went on."""
        metric = self._plan.space.metric
        found = [record for record in self._known if record.number == number and record.status in ENDED_WELL]
        return [record.best[metric] for record in found]

    def _end(self, spec: TrialSpec, result: dict[str, Any] | None) -> None:
        """A trial has ended, with its last report, or without one if it has failed."""
        configuration = self._configurations[spec.number]
        configuration.open_trials -= 1
        if result and spec.replicate == 0:
            self._report(spec, result)
        if spec.replicate == 0 and not (result and result["is_last"]):
            self._tell(spec.number, TrialState.PRUNED if result else TrialState.FAIL)
            return
        if result:
            configuration.bests.append(result["best"])
        if spec.replicate == 0:
            self._queue_replicates(spec, configuration)
        if configuration.open_trials == 0:
            self._tell(spec.number, TrialState.COMPLETE)

    def _next_trial(self) -> TrialSpec | None:
        """The trial to start now, drawn if need be; None if there is none, or each needs what is being trained."""
        while (place := self.order.choose([self._stage_keys_of(spec) for spec in self._pending])) is None:
            if self._num_left == 0 or len(self._pending) >= self.max_live:
                return None
            self._pending.append(self._draw())
        spec = self._pending.pop(place)
        if spec.number not in self._configurations:
            draw = draw_known(self._study, self._plan.space, self._plan.search, spec.number, spec.params)
            num_open = 1 + sum(other.number == spec.number for other in self._pending)
            bests = self._bests_of(spec.number)
            self._configurations[spec.number] = Configuration(draw=draw, open_trials=num_open, bests=bests)
        return spec

    def _draw(self) -> TrialSpec:
        """The first trial of a new configuration."""
        number, self._next_number, self._num_left = self._next_number, self._next_number + 1, self._num_left - 1
        drawn = draw(self._study, self._plan.space, self._plan.search, self._plan.seed, number)
        self._configurations[number] = Configuration(draw=drawn)
        return make_spec(self._plan.space, number, 0, drawn.params)

    def _stage_keys_of(self, spec: TrialSpec) -> StageKeys:
        """Keys of the stages that a trial passes through."""
        if spec.trial_id not in self._stage_keys:
            plan = self._plan
            found = find_stage_keys(spec.config, plan.data_folder, plan.workers) if plan.shares_stages else None
            self._stage_keys[spec.trial_id] = found or NOTHING_SHARED
        return self._stage_keys[spec.trial_id]

    def _may_replicate(self) -> bool:
        """Whether a trial under way may still call for replicates."""
        return self._plan.replicates > 1 and any(spec.replicate == 0 for spec in self._running.values())

    def _queue_replicates(self, spec: TrialSpec, configuration: Configuration) -> None:
        """Queues the replicates of a configuration whose first trial has completed, before all others."""
        known = {other.trial_id for other in self._pending}
        specs = [
            make_spec(self._plan.space, spec.number, again, spec.params) for again in range(1, self._plan.replicates)
        ]
        new = [other for other in specs if other.trial_id not in known]
        self._pending[:0] = new
        configuration.open_trials += len(new)

    def _report(self, spec: TrialSpec, result: dict[str, Any]) -> None:
        """An intermediate value; one epoch is told once."""
        trial = self._configurations[spec.number].draw.trial
        known = self._study.get_trials(deepcopy=False)[trial.number].intermediate_values
        if "best" in result and result["epoch"] not in known:
            trial.report(result["best"], result["epoch"])

    def _tell(self, number: int, state: TrialState) -> None:
        configuration = self._configurations.pop(number)
        if state != TrialState.COMPLETE:
            self._study.tell(configuration.draw.trial, state=state)
            return
        self._study.tell(configuration.draw.trial, sum(configuration.bests) / len(configuration.bests))


def numbers_of(records: Sequence[TrialRecord]) -> list[int]:
    """The configurations of trials, in order."""
    return sorted({record.number for record in records})
