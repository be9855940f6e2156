"""Suggests the trials of a sweep to Tune, and tells Optuna how each configuration really ended.

Optuna knows configurations; Tune trains each once or, with replicates, several times. The first training of a
configuration decides whether it is pruned or has failed; if it completes, the replicates follow at once, before new
configurations, and Optuna is told the mean of their best scores.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import optuna
from optuna.trial import TrialState
from ray.tune.search import Searcher

from mtlib.config import TrialConfig
from search_spaces.space import SearchSpace, grid_trials, trial_config
from sweeps.options import SweepPlan
from sweeps.study import Draw, domain_of, draw, enqueue_grid


@dataclass(frozen=True, kw_only=True)
class TrialSpec:
    """A trial to be run."""

    number: int
    """Of its configuration."""
    replicate: int
    params: dict[str, Any]
    """Searched values by dotted key, or name of the space's own."""
    config: TrialConfig

    @property
    def trial_id(self) -> str:
        return f"{self.number:04d}-r{self.replicate}"


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
        self, plan: SweepPlan, study: optuna.Study, on_new: Callable[[TrialSpec], None], max_live: int
    ) -> None:
        """Queues the grid, if there is one.

        Args:
            plan: the sweep.
            study: a new study.
            on_new: called with every trial before it is suggested.
            max_live: how many trials may be under way at a time.
        """
        super().__init__(metric="best", mode="max")
        self._plan = plan
        self._study = study
        self._on_new = on_new
        self._max_live = max_live
        self._num_left = plan.num_configurations
        self._replicates: deque[TrialSpec] = deque()
        self._running: dict[str, TrialSpec] = {}
        self._configurations: dict[int, Configuration] = {}
        self._is_stopped = False
        if plan.search == "grid":
            enqueue_grid(study, grid_trials(plan.space), domain_of(plan.space, plan.search))

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """The next trial for Tune; None if it must wait, FINISHED if there is no more."""
        if self._is_stopped:
            return str(Searcher.FINISHED)
        if len(self._running) >= self._max_live:
            return None
        spec = self._replicates.popleft() if self._replicates else self._next_configuration()
        if spec is None:
            return None if self._may_replicate() else str(Searcher.FINISHED)
        self._running[trial_id] = spec
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
        configuration = self._configurations[spec.number]
        configuration.open_trials -= 1
        has_value = bool(result) and not error
        if has_value and result is not None and spec.replicate == 0:
            self._report(spec, result)
        if spec.replicate == 0 and not (has_value and result is not None and result["is_last"]):
            if error and self._is_stopped:
                configuration.draw.trial.set_user_attr("interrupted", True)
            self._tell(spec.number, TrialState.PRUNED if has_value else TrialState.FAIL)
            return
        if has_value and result is not None:
            configuration.bests.append(result["best"])
        if spec.replicate == 0:
            self._queue_replicates(spec, configuration)
        if configuration.open_trials == 0:
            self._tell(spec.number, TrialState.COMPLETE)

    def stop(self) -> None:
        """No more suggestions; what still ends is told as it ends."""
        self._is_stopped = True

    def finish(self) -> None:
        """Tells what is known of configurations whose replicates will not come; Tune has ended."""
        for number, configuration in list(self._configurations.items()):
            if configuration.bests:
                self._tell(number, TrialState.COMPLETE)

    def __getstate__(self) -> dict[str, Any]:
        """Nothing for Tune's pickle of its own settings, which is never read."""
        return {}

    def save(self, checkpoint_path: str) -> None:
        """Nothing: the study has a journal."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing: sweeps are not restored from Tune's snapshots."""

    def _next_configuration(self) -> TrialSpec | None:
        """The first trial of the next configuration; None if there is none left."""
        if self._num_left == 0:
            return None
        self._num_left -= 1
        drawn = draw(self._study, self._plan.space, self._plan.search, self._plan.seed)
        self._configurations[drawn.number] = Configuration(draw=drawn)
        return make_spec(self._plan.space, drawn.number, 0, drawn.params)

    def _may_replicate(self) -> bool:
        """Whether a trial under way may still call for replicates."""
        return self._plan.replicates > 1 and any(spec.replicate == 0 for spec in self._running.values())

    def _queue_replicates(self, spec: TrialSpec, configuration: Configuration) -> None:
        for replicate in range(1, self._plan.replicates):
            self._replicates.append(make_spec(self._plan.space, spec.number, replicate, spec.params))
            configuration.open_trials += 1

    def _report(self, spec: TrialSpec, result: dict[str, Any]) -> None:
        """An intermediate value; one epoch is told once."""
        trial = self._configurations[spec.number].draw.trial
        known = self._study.get_trials(deepcopy=False)[spec.number].intermediate_values
        if "best" in result and result["epoch"] not in known:
            trial.report(result["best"], result["epoch"])

    def _tell(self, number: int, state: TrialState) -> None:
        configuration = self._configurations.pop(number)
        if state != TrialState.COMPLETE:
            self._study.tell(configuration.draw.trial, state=state)
            return
        self._study.tell(configuration.draw.trial, sum(configuration.bests) / len(configuration.bests))


def make_spec(space: SearchSpace, number: int, replicate: int, params: dict[str, Any]) -> TrialSpec:
    """A trial of the configuration with these searched values."""
    config = trial_config(space, params).override({"replicate": replicate})
    return TrialSpec(number=number, replicate=replicate, params=params, config=config)
