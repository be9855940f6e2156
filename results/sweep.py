"""A sweep as pandas data frames: its trials, curves and predictions, its ranking and its effects."""

import html
import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa

from mtlib.config.methods import methods_of_tree
from mtlib.config.penalties import Penalty
from mtlib.runtime.errors import reason_of, require, require_name
from mtlib.runtime.method_file import trusting_methods
from mtlib.runtime.storage import Location, open_folder
from mtlib.tasks import Task
from results.answers.answer import SweepAnswer, answer_question
from results.answers.answer_data import answer_data
from results.answers.collapse_words import collapse_sentences
from results.answers.effects_table import effects_frame
from results.answers.ranking_table import MAX_ROWS
from results.answers.slices_table import slices_frame
from results.records.driver_file import read_driver
from results.records.examples import read_groups, read_slices
from results.records.expected_trials import status_counts
from results.records.files import find_sweep, folder_name
from results.records.predictions import (
    HOW_TO_RESTORE,
    TrialEpoch,
    find_lost,
    read_predictions,
    stack_predictions,
)
from results.records.race import RaceRecord
from results.records.replicated_best import replicated_best
from results.records.tables import read_with_warnings, trials_table
from results.records.trials import (
    COMPLETED,
    STOPPED_BY,
    UNFINISHED,
    TrialRecord,
    read_sweep,
    require_trial,
    sweep_tasks,
)
from results.stats.effects.searched_keys import base_number, searched_keys
from results.stats.effects.sweep_effects import SweepEffects, sweep_effects
from results.stats.looks import looks_at
from results.stats.race import decide_complete_rounds
from results.stats.ranking import RankedConfiguration, rank, searched_names, to_frame
from results.stats.texts import frame_value, value_text
from results.stats.trial_scores import PredictedRows, TrialScores, best_overall_epochs, read_scores

if TYPE_CHECKING:
    from results.figures.sweep_plots import SweepPlots

SCORED_SPLITS = ("dev", "train")


@dataclass(frozen=True, kw_only=True, repr=False)
class Sweep:
    """The records of a sweep, which may still be running."""

    path: Location
    """Its folder, or its URI."""
    info: Mapping[str, Any]
    """The content of `sweep.json`."""
    records: tuple[TrialRecord, ...]
    """The trials; those that ran when the sweep was killed are `interrupted`."""
    lost: frozenset[str] = frozenset()
    """Ids of complete trials whose predictions cannot be read. They count as failed."""
    trials: pd.DataFrame
    """A row per trial: the columns of `trials.parquet`, with a column per searched key instead of `params`."""
    curves: pd.DataFrame
    """A row per point: trial, step, epoch, task, split, metric, value, seconds; `docs/results.md` lists the metrics."""
    stopped_at: datetime | None = None
    """When it stopped with trials unfinished; None if it runs, has finished, or has no heartbeat."""

    @property
    def name(self) -> str:
        """The name under which it was started, or its folder's if none is recorded."""
        return str(self.info.get("name") or folder_name(self.path))

    @cached_property
    def tasks(self) -> dict[str, Task]:
        """The definitions of its tasks by name, in the order in which they are shown."""
        return sweep_tasks(self.info)

    @cached_property
    def penalties(self) -> Mapping[str, Penalty]:
        """Returns the penalties that its configurations may have: built-in ones, and its own files' ones."""
        return methods_of_tree(self.info.get("base") or {}).penalties

    @property
    def is_running(self) -> bool:
        """Whether it may be running."""
        is_unfinished = any(status_counts(self.info, self.records)[status] for status in UNFINISHED)
        return is_unfinished and self.stopped_at is None and STOPPED_BY not in self.info

    @cached_property
    def finished(self) -> list[TrialRecord]:
        """The finished trials: not those that were pruned, have failed or still train."""
        return [record for record in self.records if record.status in COMPLETED]

    def predictions(self, task: str, split: str, *, trial: str | None = None, epoch: int | None = None) -> pd.DataFrame:
        """Predictions for every example: id, trial, epoch, label, logits; of one trial or epoch if given.

        Args:
            task: one of `tasks`.
            split: `dev`, or `train` for the rows of it that are scored.
            trial: e.g. `0003-r0`; None for all.
            epoch: None for all.

        Raises:
            ValueError: there is no such task, split or trial.
        """
        require_name(task, self.tasks, "task")
        require_name(split, SCORED_SPLITS, "split")
        if trial is not None:
            require_trial(trial, [record.trial_id for record in self.records])
        return typed_frame(read_predictions(self.path, task, split, trial=trial, epoch=epoch))

    def class_scores(self, task: str) -> pd.DataFrame:
        """Returns the scores of each class on dev, of every trial at the epoch of its highest overall dev score.

        Args:
            task: one of `tasks` with classes.

        Returns:
            Columns, a row per trial and class: `trial` (string), `epoch` (int64), `class` (string), `precision`,
            `recall` and `f1` (float64), 0 where they are undefined, and `support` (int64), the dev rows of the class.

        Raises:
            ValueError: there is no such task, it is a regression, or predictions cannot be read.
        """
        require_name(task, self.tasks, "task")
        names, epochs = self.tasks[task].class_names, self.plot.best_epoch_scores[0]
        rule = "scores of classes must be of a task with classes"
        require(not self.tasks[task].is_regression, rule, f"{task}, a regression")
        rows = [
            (trial, epochs[trial], name, *own)
            for trial in self.plot.dev_scores(task)
            for name, own in zip(names, self.plot.predicted(task, trial).scores_by_class, strict=True)
        ]
        scores = dict.fromkeys(("precision", "recall", "f1"), "float64")
        types = {"trial": "string", "epoch": "int64", "class": "string", **scores, "support": "int64"}
        return pd.DataFrame(rows, columns=list(types)).astype(types)

    def ranking(self) -> pd.DataFrame:
        """Returns the configurations, best first.

        Returns:
            Columns, a row per configuration:

            - `number` (int64) of the configuration, then a column per searched key, with the type of its values; `none`
                for None.
            - Per score `<task>_<split>`, `overall` for the total (float64): mean over replicates that count, each at
                the epoch of its highest overall dev score, without their effects where some configurations lack one.
                `<score>_standard_error` over examples, `<score>_replicate_error` over replicates (float64).
            - `best_epoch` (float64): mean over replicates.
            - `below_best` (float64): how far the mean overall score is below the best one of the same tasks; missing
                where no trial has completed.
            - `margin` (float64): how far it must be below, so that some other one is shown to be better than it (95 %,
                all rows and all looks at the sweep at once); missing where training was not repeated.
            - `may_be_best` (bool): it has finished, and no other one was shown to be better.
            - `decided_at` (Int64): replicates (of a search, trainings) after which one was; missing if none was.
            - `was_dropped` (bool): only the best configurations were trained again, and it was not among them. It
                follows these and is not compared.
            - `status` of its trials, the `trials` that count, those of them that `collapsed` (they give nearly all dev
                rows of some task one prediction, unlike others of them), and the `failures` (string).

        Raises:
            ValueError: the sweep has an unknown task, or predictions are missing.
        """
        return to_frame(self.ranked, self.tasks)

    def effects(self, bases: Mapping[str, Any] | None = None) -> pd.DataFrame:
        """Returns what each searched key does to each score; only finished trials count.

        Args:
            bases: by key, the value that others are compared with: `{"smart.weight": 0.45}`. None for the base
                configuration's, or in each score the one with the best mean where that was not trained.

        Returns:
            Columns, a row per value of a key and task, or per point of a range's curve and task:

            - `key` (string), `value` (object).
            - `task` (string), or `overall`.
            - `is_base` (boolean): whether the others are compared with this value; missing for a range.
            - `num_trials` (Int64) with the value; missing for a range.
            - `mean` (float64) score, for a range the fitted curve's.
            - `difference` (float64) from the base value, for a range from the curve's mean.
            - `standard_error` (float64) of the difference, over training and examples.
            - `training_error`, `example_error`, `fixed_error`, `degrees`, `training_factor` and `example_factor`
                (float64): what the interval is made of (`docs/results.md`).
            - `low` and `high` (float64) of its 95 % interval, for all values of a key at once, for a range at each
                point alone, and over all looks at the sweep.
            - `decided_at` (Int64): replicates after which the interval did not contain 0; missing if it does.

            What is not known is missing.

        Raises:
            ValueError: as `ranking`; `sweep.json` does not record what was searched; or one of `bases` is no searched
                key with listed values, or no value that a finished trial has.
        """
        return effects_frame(self.estimate_effects(bases))

    def slices(self) -> pd.DataFrame:
        """Returns the scores on slices of dev: on the examples that have one value in a column of the data.

        Returns:
            Columns, a row per configuration, in the order of the ranking, and slice:

            - `number` (int64) of the configuration.
            - `task`, `column` and `value` (string) of the slice; values beyond the 20 with most examples are one.
            - `num_examples` and `num_groups` (int64): of examples, and of groups that these were drawn in.
            - `score` (float64): mean over the replicates that count in the ranking; missing where it is not defined.
            - `low` and `high` (float64) of its 95 % interval over examples; missing where these are in fewer than 10
                groups, or one group has more than 80 % of them.

        Raises:
            ValueError: as `ranking`.
        """
        return slices_frame(self.ranked, self.scores)

    @cached_property
    def plot(self) -> "SweepPlots":
        """Its figures, for a notebook, e.g. `sweep.plot.effects("smart.weight")`."""
        from results.figures.sweep_plots import SweepPlots  # here: commands that draw nothing start without it

        return SweepPlots(
            path=self.path,
            records=self.records,
            curve_rows=self.curves,
            tasks=self.tasks,
            read_scores=lambda: self.scores,
            read_ranking=lambda: self.ranked,
            read_effects=lambda: self.estimated_effects,
        )

    def __repr__(self) -> str:
        """Its name and how many trials have which status."""
        counts = Counter(record.status for record in self.records)
        trials = ", ".join(f"{count} {status}" for status, count in counts.items()) or "no trials yet"
        return f"<sweep {self.name}: {trials}>"

    def _repr_html_(self) -> str:
        """In a notebook: the answer above the ranking, without the errors of scores."""
        lines = "".join(f"<p style='white-space: pre-line'>{html.escape(line)}</p>" for line in self.answer())
        try:
            ranking = self.ranking()
        except ValueError as error:
            return f"{lines}<p>No ranking: {html.escape(reason_of(error))}.</p>"
        left_out = ("below_best", "margin", "was_dropped", "trials", "collapsed", "failures")
        shown = [name for name in ranking if name not in left_out and not str(name).endswith("_error")]
        texts = dict.fromkeys(searched_names(self.ranked), value_text) | {"best_epoch": value_text}
        table = ranking[shown].to_html(index=False, formatters=texts, float_format="{:.3f}".format, max_rows=MAX_ROWS)
        return lines + table

    def answer(self, difference: float | None = None) -> list[str]:
        """Returns the answer to the sweep's question in paragraphs, the question first; or why there is none.

        Args:
            difference: above 0; the answer says how many replicates would find it. None for the largest undecided one.
        """
        return self.find_answer(difference).paragraphs

    def find_answer(self, difference: float | None = None, effects: SweepEffects | None = None) -> SweepAnswer:
        """Returns the question, the findings and the conditions of `answer` apart; `effects` may have other bases."""
        try:
            found = effects or self.estimated_effects
            # A grid names no best configuration: nothing is ranked for its answer.
            ranked = [] if found.search == "grid" else [row for row in self.ranked if row.is_finished]
            number = base_number(searched_keys(self.info, self.records), self.records)
            answer = answer_question(found, self.records, difference, ranked=ranked, base_number=number)
            collapses = collapse_sentences(self.finished, self.scores)
            return replace(answer, conditions=[*answer.conditions, *collapses])
        except ValueError as error:
            question = (self.info.get("space") or {}).get("question")
            why = f"The question has no answer: {reason_of(error)}."
            return SweepAnswer(question=str(question or self.name), found=[why])

    def answer_data(self) -> dict[str, Any]:
        """Returns the answer as plain data, as `answer.json` in its folder has it (`docs/results.md`)."""
        statuses = {name: count for name, count in status_counts(self.info, self.records).items() if count}
        try:
            effects, ranked = self.estimated_effects, self.ranked
        except ValueError:  # the answer says why
            return answer_data(self.find_answer(), self.info, statuses, None, [])
        return answer_data(self.find_answer(), self.info, statuses, effects, ranked)

    def decide_race(self, waiting: Collection[str] = ()) -> RaceRecord:
        """Returns what its race decides after its complete rounds; raises as `ranking`, or if tasks differ.

        `waiting` are trials that are to be trained again. Like those whose predictions are lost, they have not ended.
        """
        keys = searched_keys(self.info, self.records)
        is_grid = self.info["search"] == "grid"
        base = base_number(keys, self.records) if is_grid and len(keys) == 1 else None
        again = {*waiting, *self.lost}
        records = [replace(own, status="interrupted") if own.trial_id in again else own for own in self.records]
        return decide_complete_rounds(self.info, records, self.scores, base)

    @cached_property
    def ranked(self) -> list[RankedConfiguration]:
        """The configurations, best first; raises as `ranking`."""
        looks, best = looks_at(self.info, self.records), replicated_best(self.info, self.records)
        return rank(self.records, self.scores, looks, best)

    @cached_property
    def estimated_effects(self) -> SweepEffects:
        """The effects of the searched keys; raises as `effects`."""
        return sweep_effects(self.path, self.info, self.records, self.scores)

    def estimate_effects(self, bases: Mapping[str, Any] | None = None) -> SweepEffects:
        """Returns the effects of the searched keys, some with another base value;
        arguments and errors as of `effects`."""
        return (
            sweep_effects(self.path, self.info, self.records, self.scores, bases) if bases else self.estimated_effects
        )

    @cached_property
    def scores(self) -> TrialScores:
        """The trials' scores at their best epochs; raises as `ranking`."""
        root = open_folder(self.path)

        def read(task: str, split: str, wanted: Sequence[TrialEpoch]) -> PredictedRows:
            ids, labels, logits = stack_predictions(root, task, split, wanted)
            if split != "dev":
                return PredictedRows(labels=labels, logits=logits)
            groups, slices = read_groups(self.path, self.tasks[task], ids), read_slices(self.path, task, ids)
            return PredictedRows(labels=labels, logits=logits, groups=groups, slices=slices or {})

        return read_scores(self.records, self.curves, self.tasks, read)


def load_sweep(path: Location, *, trust_methods: bool = False) -> Sweep:
    """Reads a sweep, ended or still running; needs neither Ray nor torch.

    Methods of its owner's own are run where something needs them: a metric for what is computed, such as the ranking.

    Args:
        path: its folder, its URI, or its name in the default storage.
        trust_methods: whether they are run if `sweep.json` is not a file of this user, or in a bucket; otherwise what
            needs them raises ValueError.

    Raises:
        ValueError: there is no sweep, or a file is damaged or of another schema; one line names it.
    """
    path = find_sweep(path) if isinstance(path, str) else path
    with trusting_methods(trust_methods):
        info = read_sweep(path)
    driver = read_driver(path)
    stopped, found = driver.stop_time if driver else None, read_with_warnings(path)
    curves = typed_frame(found.curves)
    completed = {record.trial_id for record in found.records if record.status in COMPLETED}
    lost = {trial: f"{what}; {HOW_TO_RESTORE}" for trial, what in found.damaged.items() if trial in completed}
    lost |= lost_trials(path, found.records, curves, sweep_tasks(info))
    records = tuple(  # a trial whose predictions are lost has failed: nothing can be compared by them
        replace(own, status="failed", error=lost[own.trial_id]) if own.trial_id in lost else own
        for own in found.records
    )
    return Sweep(
        path=path,
        info=info,
        records=records,
        lost=frozenset(lost),
        trials=trials_frame(typed_frame(trials_table(records))),
        curves=curves,
        stopped_at=stopped if any(status_counts(info, records)[status] for status in UNFINISHED) else None,
    )


def lost_trials(
    path: Location, records: Sequence[TrialRecord], curves: pd.DataFrame, tasks: Mapping[str, Task]
) -> dict[str, str]:
    """By trial that has not failed: why its predictions at its best epoch, by which it is ranked, cannot be read.

    Empty where all are lost: then whoever reads them says so.
    """
    epochs = best_overall_epochs(curves, records)
    scores = curves[curves["metric"] == curves["task"].map({name: task.metric for name, task in tasks.items()})]
    at_best = scores[scores["epoch"] == scores["trial"].map(epochs)]
    lost = find_lost(path, at_best[["task", "split", "trial", "epoch"]].itertuples(index=False, name=None))
    return lost if len(lost) < len(epochs) else {}


def typed_frame(table: pa.Table) -> pd.DataFrame:
    """A table of a sweep's records with the same type of each column whatever is missing."""
    frame: pd.DataFrame = table.to_pandas(types_mapper={pa.string(): pd.StringDtype()}.get)
    return frame.astype({name: "Int64" for name in frame if str(name).startswith("best_epoch_")})


def trials_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """`trials.parquet` with the searched values in columns of their own; a key that is a column already stays one."""
    params = [{name: frame_value(value) for name, value in json.loads(text).items()} for text in frame["params"]]
    names = list(dict.fromkeys(name for values in params for name in values if name not in frame))
    searched = pd.DataFrame({name: [values.get(name) for values in params] for name in names}, index=frame.index)
    known = list(frame)
    at = known.index("params")
    return pd.concat([frame, searched], axis=1)[[*known[:at], *names, *known[at + 1 :]]]
