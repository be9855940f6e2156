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

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import optuna
from optuna.trial import TrialState
from ray.tune.search import Searcher

from results.records.race import RaceRecord
from results.records.replicated_best import mean_score
from results.records.trials import UNFINISHED, TrialRecord
from sweeps.lanes.channel import BEST_PREFIX
from sweeps.options import SweepPlan
from sweeps.search.base_point import base_point
from sweeps.search.stage_order import NOTHING_SHARED, StageKeys, StageOrder, find_stage_keys
from sweeps.search.study import add_ended, ask_known, ask_new
from sweeps.search.trial import (
    KnownConfiguration,
    Trial,
    known_configurations,
    left_to_run,
    queued_record,
    trial_id_of,
)


class SweepSearcher(Searcher):  # type: ignore[misc]
    """Ask and tell over an Optuna study, for grid, random and TPE alike."""

    def __init__(
        self,
        plan: SweepPlan,
        study: optuna.Study,
        on_new: Callable[[Trial], None],
        max_live: int,
        known: Sequence[TrialRecord] = (),
        history: Mapping[str, Sequence[tuple[int, float]]] | None = None,
        find_race: Callable[[], RaceRecord | None] = lambda: None,
        is_decision_due: Callable[[Iterable[TrialRecord]], bool] = lambda _records: False,
    ) -> None:
        """Adds the configurations of a resumed sweep, by the records of its `known` trials, that have ended.

        `on_new` is called with every trial before it is suggested. `max_live` trials may run at a time; the sweep
        changes this later. `history` has the scored epochs of known trials, and their best score so far at each.
        `find_race` returns what a race has decided so far, None if the sweep is none. `is_decision_due` says, by the
        records of all trials, whether it is about to decide more, after which there may be further trials.
        """
        super().__init__(metric="best", mode="max")
        self.max_live = max_live
        self._find_race, self._is_decision_due = find_race, is_decision_due
        self.order = StageOrder()
        """The stages that are being trained; the sweep reports to it."""
        self._history = history or {}
        self._plan, self._study, self._on_new = plan, study, on_new
        self._known = known_configurations(plan, known)
        self._trials: dict[tuple[int, int], Trial] = {}
        """Trials by number and replicate, once they were considered."""
        self._stage_keys: dict[tuple[int, int], StageKeys] = {}
        self._running: dict[str, Trial] = {}
        """By Tune's id."""
        self._open: dict[int, optuna.Trial] = {}
        """Configurations that have begun and not ended in the study, by number."""
        self._reported: dict[int, set[int]] = {}
        """Epochs that the study has of an open configuration's first trial."""
        self._is_stopped = False
        for one in self._known.values():
            if one.records and not self._common_left(one):
                self._add_ended(one)

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """Returns the next trial for Tune; None if it must wait, FINISHED if there is no more."""
        if self._is_stopped:
            return str(Searcher.FINISHED)
        if len(self._running) >= self.max_live:
            return None
        must_wait = bool(self._running) or self._awaits_decision()  # first: what is decided now is seen below
        trial = self._next_trial()
        if trial is None:
            return None if must_wait else str(Searcher.FINISHED)
        one = self._known[trial.number]
        one.records.setdefault(trial.replicate, queued_record(trial))
        if trial.number not in self._open and not self._is_further(trial.replicate):
            self._begin(
                one, ask_known(self._study, self._plan.space, self._plan.options.search, one.number, one.params)
            )
        self._running[trial_id] = trial
        self.order.running[trial.trial_id] = self._stage_keys_of(trial.number, trial.replicate)
        self._on_new(trial)
        return {"sweep": self._plan.options.name, "trial": trial.describe()}

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Reports the best score so far to Optuna, for the first training of a configuration."""
        trial = self._running.get(trial_id)
        if trial is not None and trial.replicate == 0 and "best" in result:
            self._report(trial.number, result["epoch"], result["best"])

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Tells Optuna how a configuration ended, once all its trials have; an interrupted trial has not ended."""
        trial = self._running.pop(trial_id)
        self.order.running.pop(trial.trial_id, None)
        if error or result is None or result["status"] == "interrupted":
            return
        one, status = self._known[trial.number], result["status"] or "pruned"  # the scheduler gives no status
        one.records[trial.replicate] = replace(one.records[trial.replicate], status=status, best=best_scores(result))
        if trial.replicate == 0 and status != "failed":
            self._report(trial.number, result["epoch"], result["best"])
        if not self._is_further(trial.replicate) and not self._common_left(one):
            self._tell(one)

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

    def _next_trial(self) -> Trial | None:
        """Returns the trial to start now, sampled if need be; None if there is none, or each needs a stage in training.

        Replicates of complete configurations come first. In a race one round follows another, and in a round those
        come first that are likely to stay: the next round begins before it is decided who leaves.
        """
        race = self._find_race()
        while True:
            left = self._not_running(left_to_run(self._plan, self._known, race))
            waiting = sorted(left, key=self._is_first if race is None else self._raced_late)
            if (chosen := self._choose(waiting)) is not None:
                return self._trial(*chosen)
            if len(self._known) == self._plan.num_configurations or len(waiting) >= self.max_live:
                chosen = self._choose(self._early_replicates())
                return None if chosen is None else self._trial(*chosen)
            self._sample()

    def _awaits_decision(self) -> bool:
        """Returns whether a race is about to decide, so that it is not known yet whether there are more trials."""
        return self._is_decision_due(record for one in self._known.values() for record in one.records.values())

    def _is_first(self, pair: tuple[int, int]) -> bool:
        """Returns whether a trial, by number and replicate, is no replicate of a complete configuration."""
        return pair[1] == 0 or not self._known[pair[0]].is_complete

    def _raced_late(self, pair: tuple[int, int]) -> tuple[int, float]:
        """Returns what orders the trials of a race:
        the replicate, then the configuration's mean score, the highest first."""
        metric, completed = self._plan.space.metric, self._known[pair[0]].completed(self._plan.options.replicates)
        return pair[1], -mean_score(completed, metric) if completed else 0.0

    def _choose(self, waiting: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
        """Returns the one of some trials, by number and replicate, that starts now;
        None if each needs a stage in training."""
        index = self.order.choose([self._stage_keys_of(*pair) for pair in waiting])
        return None if index is None else waiting[index]

    def _early_replicates(self) -> list[tuple[int, int]]:
        """Replicates that have not begun of configurations whose first trial is running, if none is ever pruned."""
        if self._plan.options.scheduler != "none":
            return []
        firsts = [trial.number for trial in self._running.values() if trial.replicate == 0]
        pairs = [(number, again) for number in firsts for again in range(1, self._plan.options.common_replicates)]
        early = [(number, again) for number, again in pairs if again not in self._known[number].records]
        return early if self._plan.options.until_decided is None else sorted(early, key=self._raced_late)

    def _not_running(self, pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """Returns those of some trials, by number and replicate, that do not run."""
        running = {(trial.number, trial.replicate) for trial in self._running.values()}
        return [pair for pair in pairs if pair not in running]

    def _trial(self, number: int, replicate: int) -> Trial:
        """Returns a trial of a known configuration."""
        if (number, replicate) not in self._trials:
            self._trials[number, replicate] = self._known[number].make_trial(self._plan.space, replicate)
        return self._trials[number, replicate]

    def _stage_keys_of(self, number: int, replicate: int) -> StageKeys:
        """Keys of the stages that a trial passes through."""
        if (number, replicate) not in self._stage_keys:
            data_folder, options = self._plan.data_folder, self._plan.options
            config = self._trial(number, replicate).config
            found = find_stage_keys(config, data_folder, options.workers) if options.shares_stages else None
            self._stage_keys[number, replicate] = found or NOTHING_SHARED
        return self._stage_keys[number, replicate]

    def _sample(self) -> None:
        """Draws a new configuration; the first one of TPE is the base."""
        space, options, number = self._plan.space, self._plan.options, max(self._known, default=-1) + 1
        params = base_point(space) if number == 0 and options.search == "tpe" else None
        if params is None:
            trial, params = ask_new(self._study, space, options.search, options.seed, number)
        else:
            trial = ask_known(self._study, space, options.search, number, params)
        self._known[number] = KnownConfiguration(number=number, params=params, records={})
        self._begin(self._known[number], trial)

    def _is_further(self, replicate: int) -> bool:
        """Returns whether a replicate is one of those that only the best configurations get."""
        return replicate >= self._plan.options.common_replicates

    def _common_left(self, one: KnownConfiguration) -> list[int]:
        """Replicates of a configuration, of those that each gets, that have not ended."""
        return [again for again in one.left(self._plan.options.common_replicates) if not self._is_further(again)]

    def _begin(self, one: KnownConfiguration, trial: optuna.Trial) -> None:
        """Notes Optuna's trial of a configuration; a first training that ended in an earlier run reports no more."""
        self._open[one.number], self._reported[one.number] = trial, set()
        if 0 in one.records and one.records[0].status not in UNFINISHED:
            for epoch, best in self._history.get(trial_id_of(one.number, 0), ()):
                self._report(one.number, epoch, best)

    def _report(self, number: int, epoch: int, best: float) -> None:
        """Reports an intermediate value, once per epoch: a process that Tune has restarted repeats its reports."""
        if epoch not in self._reported[number]:
            self._reported[number].add(epoch)
            self._open[number].report(best, epoch)

    def _tell(self, one: KnownConfiguration) -> None:
        """Tells Optuna the end of a configuration."""
        state, value = self._end_of(one)
        self._study.tell(self._open.pop(one.number), value, state)

    def _add_ended(self, one: KnownConfiguration) -> None:
        """Adds a configuration that ended before the sweep was resumed."""
        state, value = self._end_of(one)
        add_ended(
            self._study,
            self._plan.space,
            self._plan.options.search,
            one.number,
            one.params,
            state=state,
            value=value,
            reports=self._history.get(trial_id_of(one.number, 0), ()),
        )

    def _end_of(self, one: KnownConfiguration) -> tuple[TrialState, float | None]:
        """Returns how a configuration ended, and the mean of its trials' best scores if it completed."""
        completed = one.completed(self._plan.options.common_replicates)
        if completed:
            return TrialState.COMPLETE, mean_score(completed, self._plan.space.metric)
        first = one.records.get(0) or next(iter(one.records.values()))
        return (TrialState.PRUNED if first.status == "pruned" else TrialState.FAIL), None


def best_scores(result: Mapping[str, Any]) -> dict[str, float]:
    """Returns the highest scores by task and overall that Tune got from a trial."""
    found = {name: value for name, value in result.items() if name.startswith(BEST_PREFIX)}
    return {name.removeprefix(BEST_PREFIX): value for name, value in found.items()}
