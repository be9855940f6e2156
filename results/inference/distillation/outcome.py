"""The outcome of a distillation: the best student, the best single model and the ensembles, with scores and costs."""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mtlib.data.hold_out import are_usable
from mtlib.data.tables import Table
from mtlib.runtime.console import output_width, table_lines, wrapped
from mtlib.runtime.errors import require
from mtlib.tasks import Task, overall_score, overall_slopes
from results.ensembles.methods import ONE_MODEL
from results.ensembles.outputs import values_of
from results.inference.dev_texts import read_dev_table
from results.inference.distillation.students import LABELS_ALONE, STUDENT_KEY
from results.inference.distillation.verdict import (
    Cost,
    Scored,
    difference,
    distillation_verdict,
    independent_difference,
    score_table,
    scored,
)
from results.inference.models import ModelSource
from results.inference.predictor import load_members, predict_texts
from results.records.selection import Member, Selection, TaskSelection
from results.records.trials import COMPLETED, OVERALL
from results.selection.hold_out_score import (
    places_of,
    predict_table,
    read_held_out_tables,
    record_evaluation,
)
from results.selection.select_all import SelectionRequest, select_from
from results.stats.groups import text_groups_of
from results.stats.ranking import RankedConfiguration
from results.stats.resampling import Floats
from results.stats.trial_scores import TOTAL
from results.sweep import Sweep

COMPARED = ((1, 0), (2, 0), (2, 1), (2, 3))
"""The contenders that are compared: ensembles, student and single model, and the student with one that nobody taught.
"""
TIMED_ROWS = 256
"""Dev rows of each task on which speed is measured."""


@dataclass(frozen=True, kw_only=True)
class Deployable:
    """What can be deployed: an ensemble for each task, the best single model, or a student."""

    title: str
    replicates: tuple[Mapping[str, tuple[Member, ...]], ...]
    """For each training of it the members by task; of an ensemble once."""


def distillation_lines(
    home: str, selection: Selection, students: Sweep, data: Path, source: ModelSource, *, scores_held_out: bool
) -> list[str]:
    """Returns the tables and the verdict.

    Args:
        home: the folder of the sweep that taught.
        selection: its ensembles.
        students: the sweep of students.
        data: the data folder.
        source: where models are; it has the places of the sweeps of `selection`.
        scores_held_out: whether all are scored on the held-out rows of the sweep, which is recorded there.

    Raises:
        ValueError: in one line: no student has finished, a model cannot be loaded, or nothing was held out.
    """
    sweeps = [source.places[sweep] for sweep in selection.sweeps]
    single = select_from(SelectionRequest(sweeps=sweeps, method=ONE_MODEL))
    tasks = {name: selection.definitions[name] for name in selection.tasks}
    places = {str(place): place for place in (*sweeps, students.path)}
    source = replace(source, places={**source.places, **places})
    shown = best_students(students)
    names = {own.number: f"student ({', '.join(map(str, own.params.values()))})" for own in shown}
    contenders = [
        Deployable(title="best single model", replicates=(ensemble_members(single),)),
        Deployable(title="ensembles", replicates=(ensemble_members(selection),)),
        *(Deployable(title=names[own.number], replicates=replicates_of(students, own, tasks)) for own in shown),
    ]
    tables = {name: read_dev_table(home, name, data) for name in tasks}
    costs = [measure_cost(own, tasks, tables, source) for own in contenders]
    dev = [cross_fitted_cells(own, tasks) for own in (single, selection)] + [student_cells(own, tasks) for own in shown]
    titles, width = [own.title for own in contenders], output_width()
    lines = ["On dev; the first two cross-fitted, students at their best epochs:"]
    lines += table_lines(width, score_table(titles, costs, dev, tasks))
    is_repeated, degrees = len(contenders[2].replicates) > 1, min(map(dev_degrees, selection.tasks.values()))
    differences = [
        independent_difference(dev[one][OVERALL], dev[other][OVERALL], knows_training=is_repeated, degrees=degrees)
        for one, other in COMPARED[: len(dev)]
    ]
    if scores_held_out:
        held = read_held_out_tables(selection, source, data)
        found = [score_contender(own, tasks, held, source) for own in contenders]
        record_evaluation(places_of(selection, list(tasks), source))
        num_rows = ", ".join(f"{tasks[name].title} {len(table.ids):,}" for name, table in held.items())
        cells = [{name: own.cell(name) for name in (*tasks, OVERALL)} for own in found]
        lines += ["", f"On held-out rows ({num_rows}):", *table_lines(width, score_table(titles, costs, cells, tasks))]
        differences = [difference(found[one], found[other], OVERALL) for one, other in COMPARED[: len(found)]]
    share = costs[2].num_parameters / costs[1].num_parameters
    return [
        *lines,
        "",
        *wrapped([" ".join(distillation_verdict(differences, costs[1].num_models, share))], width),
    ]


def dev_degrees(chosen: TaskSelection) -> float:
    """Returns how many degrees of freedom the variance over a task's dev examples has at most; 0 if it is not known."""
    if chosen.num_groups is None:
        return math.inf
    is_usable = are_usable(chosen.num_groups, chosen.largest_group, chosen.num_examples)
    return chosen.num_groups - 1.0 if is_usable else 0.0


def best_students(students: Sweep) -> list[RankedConfiguration]:
    """Returns the best of the students that were taught, by dev, and the one that was not, if there is one.

    ValueError if none that was taught has finished.
    """
    finished = [own for own in students.ranked if own.is_finished and TOTAL in own.scores]
    taught = [own for own in finished if own.params[STUDENT_KEY] != LABELS_ALONE]
    require(bool(taught), f"a student of {students.name} must have finished", "none")
    return [taught[0], *(own for own in finished if own.params[STUDENT_KEY] == LABELS_ALONE)]


def best_taught_trial(students: Sweep) -> str:
    """Returns the id of the trial with the highest overall dev score of the best student that was taught."""
    best, *_ = best_students(students)
    own = [record for record in students.records if record.number == best.number and record.status in COMPLETED]
    return max(own, key=lambda record: record.best[OVERALL]).trial_id


def ensemble_members(selection: Selection) -> dict[str, tuple[Member, ...]]:
    """Returns the members of a selection's ensembles by task."""
    return {name: own.members for name, own in selection.tasks.items()}


def replicates_of(
    students: Sweep, best: RankedConfiguration, tasks: Mapping[str, Task]
) -> tuple[Mapping[str, tuple[Member, ...]], ...]:
    """Returns each training of a configuration as an ensemble of one, at its best overall epoch."""
    found = []
    for record in students.records:
        if record.number == best.number and record.status in COMPLETED:
            epoch = students.scores.epochs[record.trial_id]
            member = Member(sweep=str(students.path), trial=record.trial_id, epoch=epoch, weight=1.0)
            found.append(dict.fromkeys(tasks, (member,)))
    return tuple(found)


def measure_cost(
    contender: Deployable, tasks: Mapping[str, Task], tables: Mapping[str, Table], source: ModelSource
) -> Cost:
    """Returns a contender's models and parameters, and the rows of all tasks that it predicts in a second."""
    members, rows, seconds = contender.replicates[0], 0, 0.0
    sizes: dict[tuple[str, str, int], int] = {}
    for name in tasks:
        predictor = load_members(tasks[name], members[name], source)
        for member, loaded in zip(members[name], predictor.models, strict=True):
            key = member.sweep, member.trial, member.epoch
            sizes[key] = sum(parameter.numel() for parameter in loaded.model.parameters())
        texts = list(zip(*tables[name].texts, strict=True))[:TIMED_ROWS]
        predict_texts(predictor, texts[:8])  # the first call is slower
        started = time.perf_counter()
        predict_texts(predictor, texts)
        seconds, rows = seconds + time.perf_counter() - started, rows + len(texts)
    return Cost(num_models=len(sizes), num_parameters=sum(sizes.values()), rows_per_second=rows / seconds)


def cross_fitted_cells(selection: Selection, tasks: Mapping[str, Task]) -> dict[str, tuple[float, float]]:
    """Cross-fitted dev scores and standard errors by task, and overall, as of independent tasks."""
    scores = {name: selection.tasks[name].score for name in tasks}
    cells = {name: (own.cross_fitted, own.standard_error) for name, own in scores.items()}
    slopes = overall_slopes(list(cells), tasks)
    error = float(np.sqrt(sum((slopes[name] * error) ** 2 for name, (_, error) in cells.items())))
    return {**cells, OVERALL: (overall_score({name: score for name, (score, _) in cells.items()}, tasks), error)}


def student_cells(best: RankedConfiguration, tasks: Mapping[str, Task]) -> dict[str, tuple[float, float]]:
    """Mean dev scores of a configuration, and standard errors over examples and trainings."""
    columns = {**{name: (name, "dev") for name in tasks}, OVERALL: TOTAL}
    found = {name: best.scores[column] for name, column in columns.items()}
    return {
        name: (own.value, float(np.hypot(own.example_error, own.replicate_error or 0.0))) for name, own in found.items()
    }


def score_contender(
    contender: Deployable, tasks: Mapping[str, Task], tables: Mapping[str, Table], source: ModelSource
) -> Scored:
    """Returns a contender's scores on rows of all tasks, for each of its trainings."""
    values: dict[str, Floats] = {}
    for name, table in tables.items():
        outputs = [predict_table(load_members(tasks[name], own[name], source), table) for own in contender.replicates]
        values[name] = np.stack([values_of(tasks[name], found, table.labels) for found in outputs])
    labels = {name: table.labels.astype(np.float64) for name, table in tables.items()}
    return scored(values, labels, {name: text_groups_of(table) for name, table in tables.items()}, tasks)
