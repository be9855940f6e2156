"""Suggests the trials of a sweep to Tune, and tells Optuna how each configuration ended.

Optuna knows configurations; Tune trains each once or, with replicates, several times. The first training of a
configuration decides whether it is pruned or has failed; if it completes, the replicates follow at once, before new
configurations, and Optuna receives the mean of their best scores. Without a scheduler nothing is pruned, so replicates
start before the first training has ended where a lane would be idle; one that has started is trained to its end, even
if the first fails. With `--replicate-best` the best configurations get further replicates once all have ended; Optuna
receives none of these, so that its values stay comparable.

The trials are in the table (`sweeps.driver.trials.table`); here is only what Optuna's interface needs. When a sweep is
stopped, configurations that have not ended stay running in the study, where dashboards show them. A resumed sweep has a
new study, to which the configurations on record are added.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import optuna
from optuna.trial import TrialState
from ray.tune.search import Searcher

from mtlib.config.trial import TrialConfig
from results.records.replicated_best import Replicates, by_configuration, is_complete, mean_score
from results.records.trials import UNFINISHED, TrialRecord
from search_spaces.domain import LEARNING_SEARCHES
from sweeps.driver.trials.messages import Message
from sweeps.driver.trials.stage_order import NOTHING_SHARED, StageKeys, choose_startable, done_ends, find_stage_keys
from sweeps.driver.trials.table import TrialRow, TrialTable
from sweeps.driver.trials.trial import (
    completed_trials,
    left_to_run,
    make_trial,
    replicates_left,
    trial_id_of,
    trial_of,
)
from sweeps.search.base_point import base_point
from sweeps.search.study import add_ended, ask_known, ask_new

Pair = tuple[int, int]
"""Number and replicate of a trial."""


class SweepSearcher(Searcher):  # type: ignore[misc]
    """Ask and tell over an Optuna study, whichever search it is."""

    def __init__(
        self,
        table: TrialTable,
        study: optuna.Study,
        tell: Callable[[Message], None],
        max_live: int = 1,
        is_decision_due: Callable[[Iterable[TrialRecord]], bool] = lambda _records: False,
    ) -> None:
        """Adds the configurations of a resumed sweep that have ended to the study.

        Its methods are called in Tune's thread, which alone adds trials and knows which are in Tune; the table is not
        locked while Optuna writes its journal.

        `tell` changes the table. `max_live` trials may run at a time; the sweep changes this later. `is_decision_due`
        says, by the records of all trials, whether a race is about to decide more, after which there may be further
        trials.
        """
        super().__init__(metric="best", mode="max")
        self.max_live = max_live
        self._table, self._plan, self._study, self._tell_table = table, table.plan, study, tell
        self._is_decision_due = is_decision_due
        self._made: dict[Pair, tuple[TrialRecord, StageKeys]] = {}
        """Trials that were considered, with the keys of their stages: both take time to make."""
        self._open: dict[int, optuna.Trial] = {}
        """Configurations that have begun and not ended in the study, by number."""
        self._in_tune: dict[str, TrialRow] = {}
        """By Tune's id: from their suggestion until Optuna has been told of their end."""
        for number, own in self._known().items():
            if not self._common_left(own):
                self._add_ended(number, own)

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """Returns the next trial for Tune; None if it must wait, FINISHED if there is no more."""
        if self._table.takes_no_trials:
            return str(Searcher.FINISHED)
        if len(self._in_tune) >= self.max_live:
            return None
        # First: what a race decides now is seen below.
        must_wait = bool(self._in_tune) or self._is_decision_due(self._table.records.values())
        trial = self._next_trial()
        if trial is None:
            return None if must_wait else str(Searcher.FINISHED)
        if trial.number not in self._open and not self._is_further(trial.replicate):
            space, search = self._plan.space, self._plan.options.search
            begun = ask_known(self._study, space, search, trial.number, trial.params)
            self._begin(trial.number, self._known()[trial.number], begun)
        self._tell_table(Message(kind="suggested", facts={"trial": trial}))
        row = self._in_tune[trial_id] = self._table.rows[trial.trial_id]
        return {"sweep": self._plan.options.name, "trial": row.description}

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Reports the best score so far to Optuna, for the first training of a configuration."""
        row = self._in_tune.get(trial_id)
        if row is not None and result["epoch"]:
            self._report(row, result["epoch"], result["best"])

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Tells Optuna how a configuration ended, once all its trials have; an interrupted trial has not ended."""
        row = self._in_tune[trial_id]
        if not error and result is not None and row.record.status not in UNFINISHED:
            number, own = row.record.number, self._known()[row.record.number]
            if row.record.status != "failed":
                self._report(row, result["epoch"], result["best"])
            if number in self._open and not self._common_left(own):
                state, value = self._end_of(own)
                self._study.tell(self._open.pop(number), value, state)
        del self._in_tune[trial_id]

    def __getstate__(self) -> dict[str, Any]:
        """Nothing for Tune's pickle of its own settings, which is never read."""
        return {}

    def save(self, checkpoint_path: str) -> None:
        """Nothing: the study has a journal."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing: sweeps are not restored from Tune's snapshots."""

    def _known(self) -> dict[int, dict[int, TrialRecord]]:
        """Returns the trials that have begun or are to begin, by configuration, in the order of the numbers."""
        return dict(sorted(by_configuration(self._table.records.values()).items()))

    def _next_trial(self) -> TrialRecord | None:
        """Returns the trial to start now, sampled if need be; None if there is none, or each needs a stage in training.

        Replicates of complete configurations come first. In a race one round follows another, and in a round those
        come first that are likely to stay: the next round begins before it is decided who leaves.
        """
        race, running = self._table.race, {pair_of(row) for row in self._in_tune.values()}
        while True:
            known = self._known()
            left = [pair for pair in left_to_run(self._plan, known, race) if pair not in running]

            def is_first(pair: Pair, known: Mapping[int, Replicates] = known) -> bool:
                return pair[1] == 0 or not is_complete(known[pair[0]])

            waiting = sorted(left, key=is_first if race is None else self._raced_late(known))
            if (chosen := self._choose(known, waiting)) is not None:
                return chosen
            if len(known) == self._plan.num_configurations or len(waiting) >= self.max_live:
                return self._choose(known, self._early_replicates(known))
            self._sample(max(known, default=-1) + 1)

    def _raced_late(self, known: Mapping[int, Replicates]) -> Callable[[Pair], tuple[int, float]]:
        """Returns what orders the trials of a race:
        the replicate, then the configuration's mean score, the highest first."""
        metric, replicates = self._plan.space.metric, self._plan.options.replicates

        def rank(pair: Pair) -> tuple[int, float]:
            completed = completed_trials(known[pair[0]], replicates)
            return pair[1], -mean_score(completed, metric) if completed else 0.0

        return rank

    def _choose(self, known: Mapping[int, Replicates], waiting: Sequence[Pair]) -> TrialRecord | None:
        """Returns the one of some trials that starts now; None if each needs a stage in training."""
        ahead = [row for row in self._table.rows.values() if row.past_epochs or row.num_stages]
        done = {key for row in ahead for key in done_ends(self._make(known, pair_of(row))[1], row)}
        running = [self._make(known, pair_of(row))[1] for row in self._in_tune.values()]
        made = [self._make(known, pair) for pair in waiting]
        index = choose_startable([keys for _, keys in made], running, done)
        return None if index is None else made[index][0]

    def _early_replicates(self, known: Mapping[int, Replicates]) -> list[Pair]:
        """Replicates that have not begun of configurations whose first trial is running, if none is ever pruned."""
        if self._plan.options.scheduler != "none":
            return []
        firsts = [row.record.number for row in self._in_tune.values() if row.record.replicate == 0]
        pairs = [(number, again) for number in firsts for again in range(1, self._plan.options.common_replicates)]
        early = [(number, again) for number, again in pairs if again not in known[number]]
        return early if self._plan.options.until_decided is None else sorted(early, key=self._raced_late(known))

    def _make(self, known: Mapping[int, Replicates], pair: Pair) -> tuple[TrialRecord, StageKeys]:
        """Returns a trial of a known configuration, and the keys of the stages that it passes through."""
        if pair not in self._made:
            number, replicate = pair
            trial, options = trial_of(self._plan.space, known[number], replicate), self._plan.options
            keys = NOTHING_SHARED
            if options.shares_stages:
                keys = find_stage_keys(TrialConfig.from_json(trial.config), self._plan.data_folder, options.workers)
            self._made[pair] = trial, keys
        return self._made[pair]

    def _sample(self, number: int) -> None:
        """Draws a new configuration; the first one of a search that proposes is the base."""
        space, options = self._plan.space, self._plan.options
        params = base_point(space) if number == 0 and options.search in LEARNING_SEARCHES else None
        if params is None:
            trial, params = ask_new(self._study, space, options.search, options.seed, number)
        else:
            trial = ask_known(self._study, space, options.search, number, params)
        self._table.add(make_trial(space, number, 0, params))  # it may wait for a stage that another one trains
        self._open[number] = trial

    def _is_further(self, replicate: int) -> bool:
        """Returns whether a replicate is one of those that only the best configurations get."""
        return replicate >= self._plan.options.common_replicates

    def _common_left(self, own: Replicates) -> list[int]:
        """Replicates of a configuration, of those that each gets, that have not ended."""
        left = replicates_left(own, self._plan.options.common_replicates)
        return [again for again in left if not self._is_further(again)]

    def _begin(self, number: int, own: Replicates, trial: optuna.Trial) -> None:
        """Notes Optuna's trial of a configuration; a first training that ended in an earlier run reports no more."""
        self._open[number] = trial
        if 0 in own and own[0].status not in UNFINISHED:
            row = self._table.rows[trial_id_of(number, 0)]
            for epoch, best in row.past:
                self._report(row, epoch, best)

    def _report(self, row: TrialRow, epoch: int, best: float) -> None:
        """Reports an intermediate value of a configuration's first trial, once per epoch: a process that Tune has
        restarted repeats its reports."""
        if row.record.replicate == 0 and epoch > row.num_recorded and row.record.number in self._open:
            row.num_recorded = epoch
            self._open[row.record.number].report(best, epoch)

    def _add_ended(self, number: int, own: Replicates) -> None:
        """Adds a configuration that ended before the sweep was resumed."""
        state, value = self._end_of(own)
        first = self._table.rows.get(trial_id_of(number, 0))
        add_ended(
            self._study,
            self._plan.space,
            self._plan.options.search,
            number,
            next(iter(own.values())).params,
            state=state,
            value=value,
            reports=() if first is None else first.past,
        )

    def _end_of(self, own: Replicates) -> tuple[TrialState, float | None]:
        """Returns how a configuration ended, and the mean of its trials' best scores if it completed."""
        completed = completed_trials(own, self._plan.options.common_replicates)
        if completed:
            return TrialState.COMPLETE, mean_score(completed, self._plan.space.metric)
        first = own.get(0) or next(iter(own.values()))
        return (TrialState.PRUNED if first.status == "pruned" else TrialState.FAIL), None


def pair_of(row: TrialRow) -> Pair:
    """Returns the number and replicate of a trial."""
    return row.record.number, row.record.replicate
