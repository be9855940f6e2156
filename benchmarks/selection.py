"""Bias and coverage of the selector's scores on simulated sweeps whose true scores are known, and its speed.

Command:  python benchmarks/selection.py [--part truth|speed|protocol] [--trials 10 40 160] [--repeats 2000]
          [--methods single auto] [--cross-fits 5] [--processes 2] [--group-size 4 [--without-groups]]
Cost:     truth, on one core, about 1 second for each simulated sweep and task; speed 5 seconds; protocol minutes
Prints:   truth: per task, number of trials and selection method, the bias of the dev score and of the cross-fitted
          score, the coverage of the 95 % interval, the true score of the chosen ensemble, and its lead over the best
          single model, with its standard error over simulated sweeps
          speed: seconds and memory for choosing among 1,000 trials with 40,000 examples of a binary task
          protocol: seconds for all that `results/selector.py` does with these: every selection method, with 5 repeats,
          choosing among them, the Pareto front and the model confidence set

A trial's outputs are the right answer plus noise, part of which all trials share; skills differ from trial to trial.
Sizes are those of the dev sets: 1,101 examples with five classes, 2,000 with two, 863 of a regression. The true score
is that on 50,000 further examples. So that this ends within hours, greedy selection has one bag here, and cross-fitting
two repeats instead of five, from which the variance of the choice is estimated less precisely. With --group-size,
the noise that trials share is equal for all examples of a group of connected texts; --without-groups selects as if no
sweep had recorded the groups.
Bounds: coverage of 93 to 97 % for the automatic choice, at 2,000 repeats; its mean true score is at most one standard
error below that of the best single model; top-k and greedy within 10 s and 2 GB.
"""

import argparse
import itertools
import resource
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

if not __package__:  # started as a script: imports begin at the project's folder, not at this one
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import numpy as np

from mtlib.tasks import TASKS, Task
from results.comparison.bootstrap import Floats, Numbers, score_examples
from results.ensembles.candidates import Candidate, Pool
from results.ensembles.ensemble import Ensemble, combine_outputs, ensemble_outputs, score_rows
from results.ensembles.methods import AUTOMATIC, SELECTION_METHODS, SINGLE, methods_for
from results.ensembles.outputs import Outputs, outputs_of, values_of
from results.ensembles.selection_method import Choose, Settings
from results.scoring.cross_fitting import bootstrap, cross_fit, interval, widened
from results.selection.select_all import REPEATS
from results.selection.select_ensemble import automatic_method, select_ensemble

NUM_ROWS = {"classes": 1101, "binary": 2000, "regression": 863}
NUM_FURTHER = 50_000
SKILL = {"classes": 0.9, "binary": 0.8, "regression": 1.5}
"""Margin of the right answer, or the slope of the prediction, in standard deviations of noise."""
SHARED, SPREAD = 0.8, 0.04
"""Part of the noise's variance that trials share, and how much their skills differ, relative to the mean skill."""
SETTINGS = Settings(bags=1)
BOUND_SECONDS, BOUND_BYTES = 10.0, 2e9


@dataclass(frozen=True, kw_only=True)
class World:
    """Examples and the noise that all trials share; a trial's own noise follows from its number."""

    task: Task
    skills: Floats
    """(trials,)."""
    labels: Floats
    """(rows,)."""
    common: Floats
    """(rows, width)."""
    groups: Numbers
    """(rows,) group of connected texts of each example."""
    seed: tuple[int, ...]

    def outputs(self, trial: int) -> Outputs:
        """A trial's outputs for every example, (rows, width)."""
        own = np.random.default_rng((*self.seed, trial + 1)).standard_normal(self.common.shape)  # not 0: as if left out
        noise = np.sqrt(SHARED) * self.common + np.sqrt(1 - SHARED) * own
        return noisy_outputs(self.task, self.labels, noise, float(self.skills[trial]))


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The scores of one selection method on one simulated sweep."""

    on_dev: float
    cross_fitted: float
    true: float
    is_covered: bool


Outcomes = dict[str, Outcome]
"""By selection method."""


def draw_labels(task: Task, num_rows: int, generator: np.random.Generator) -> Floats:
    """Right answers, (rows,)."""
    if task.kind == "regression":
        return np.clip(2.5 + 0.5 * generator.standard_normal(num_rows), *task.label_range)
    return generator.integers(0, task.num_classes, num_rows).astype(np.float64)


def noisy_outputs(task: Task, labels: Floats, noise: Floats, skill: float) -> Outputs:
    """Outputs of a model of some skill, (rows, width), from noise of that shape."""
    if task.kind == "regression":
        return outputs_of(task, 2.5 + 0.2 * (noise + skill * (labels[:, None] - 2.5) / 0.5))
    if task.kind == "binary":
        return outputs_of(task, noise + skill * (2 * labels[:, None] - 1))
    return outputs_of(task, noise + skill * (labels[:, None] == np.arange(task.num_classes)))


def make_world(task: Task, skills: Floats, num_rows: int, seed: tuple[int, ...], group_size: int = 1) -> World:
    """Examples of a task, in groups with equal common noise."""
    generator, groups = np.random.default_rng(seed), np.arange(num_rows) // group_size
    labels = draw_labels(task, num_rows, generator)
    common = generator.standard_normal((int(groups[-1]) + 1, task.num_classes if task.kind == "classes" else 1))
    return World(task=task, skills=skills, labels=labels, common=common[groups], groups=groups, seed=seed)


def pool_of(world: World) -> Pool:
    """All trials, with one epoch each."""
    numbers = range(len(world.skills))
    return Pool(
        task=world.task,
        candidates=tuple(Candidate(sweep="s", trial=f"{n:04d}", epoch=1, number=n) for n in numbers),
        ids=tuple(map(str, range(len(world.labels)))),
        labels=world.labels,
        outputs=np.stack([world.outputs(number) for number in numbers]),
        text_groups=world.groups,
    )


def true_score(world: World, chosen: Ensemble) -> float:
    """An ensemble's score on all examples of a world."""
    outputs = np.stack([world.outputs(number) for number in chosen.members]).astype(np.float64)
    values = values_of(world.task, combine_outputs(world.task, outputs, chosen), world.labels)
    return float(score_examples(world.task, values[None], world.labels)[0])


def simulate(
    number: int,
    task_name: str,
    num_trials: int,
    names: Sequence[str],
    num_cross_fits: int,
    group_size: int,
    has_groups: bool,
) -> Outcomes:
    """The outcomes of the named selection methods (none: all) and the best single model on one simulated sweep."""
    task = TASKS[task_name]
    skills = SKILL[task.kind] * (1 + SPREAD * np.random.default_rng((number, 1)).standard_normal(num_trials))
    dev = pool_of(make_world(task, skills, NUM_ROWS[task.kind], (number, 2), group_size))
    dev = dev if has_groups else replace(dev, text_groups=None)
    further = make_world(task, skills, NUM_FURTHER, (number, 3))
    methods = methods_for(task)
    methods[AUTOMATIC] = automatic_method(dict(methods))
    requested = {name: method for name, method in methods.items() if not names or name in (SINGLE, *names)}
    return {name: evaluate(dev, further, method, number, num_cross_fits) for name, method in requested.items()}


def evaluate(dev: Pool, further: World, method: Choose, seed: int, num_cross_fits: int) -> Outcome:
    """The scores of a selection method."""
    rows = np.arange(len(dev.labels))
    chosen = method(dev, rows, SETTINGS)
    fitted = cross_fit(dev, method, SETTINGS, rows, num_repeats=num_cross_fits)
    low, high = interval(widened(bootstrap(fitted, seed=seed), fitted.score, fitted.standard_error))
    true = true_score(further, chosen)
    on_dev = score_rows(dev, ensemble_outputs(dev, chosen, rows), rows)
    return Outcome(on_dev=on_dev, cross_fitted=fitted.score, true=true, is_covered=low <= true <= high)


def measure_truth(run: Callable[[int], Outcomes], num_repeats: int, num_processes: int) -> None:
    """Prints bias and coverage in sweeps that `run` simulates, each from its number."""
    with ProcessPoolExecutor(num_processes) as processes:
        found = list(processes.map(run, range(num_repeats), chunksize=4))
    for name in found[0]:
        print(line_of(name, [sweep[name] for sweep in found], [sweep[SINGLE].true for sweep in found]), flush=True)


def line_of(name: str, outcomes: Sequence[Outcome], single: Sequence[float]) -> str:
    """One selection method in one line, compared with the true scores of the best single model."""
    true = np.array([outcome.true for outcome in outcomes])
    bias = [np.mean([getattr(o, field) for o in outcomes] - true) for field in ("on_dev", "cross_fitted")]
    covered = np.mean([outcome.is_covered for outcome in outcomes])
    lead = true - np.array(single)
    error = lead.std(ddof=1) / np.sqrt(len(lead)) if len(lead) > 1 else 0.0
    biases = f"bias on dev {bias[0]:+.4f}, cross-fitted {bias[1]:+.4f}"
    verdict = "" if name != AUTOMATIC else f"; {'within' if 0.93 <= covered <= 0.97 else 'BEYOND'} its bound"
    verdict += "" if name != AUTOMATIC or lead.mean() >= -error else "; WORSE THAN THE BEST SINGLE MODEL"
    scores = f"true {true.mean():.4f}, over single {lead.mean():+.4f} ±{error:.4f}"
    return f"  {name:10} {biases}; covered {covered:.3f}; {scores}{verdict}"


def large_pool(num_trials: int, num_rows: int) -> Pool:
    """Many trials with many examples of a binary task."""
    task = next(task for task in TASKS.values() if task.kind == "binary")
    skills = SKILL[task.kind] * (1 + SPREAD * np.random.default_rng(0).standard_normal(num_trials))
    return pool_of(make_world(task, skills, num_rows, (0,)))


def measure_protocol(num_trials: int = 1000, num_rows: int = 40_000) -> None:
    """Prints the time and memory of a selection with default options."""
    pool = large_pool(num_trials, num_rows)
    start = time.monotonic()
    found = select_ensemble(pool, Settings(), num_repeats=REPEATS)
    seconds, most = time.monotonic() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    chosen = f"{found.method}, {len(found.members)} models, {found.score.cross_fitted:.4f} cross-fitted"
    print(f"{num_trials:,} trials, {num_rows:,} examples, all of it: {seconds:.0f} s, {most / 1e9:.2f} GB; {chosen}")


def measure_speed(num_trials: int = 1000, num_rows: int = 40_000) -> None:
    """Prints the time and memory of cross-fitting two selection methods."""
    pool = large_pool(num_trials, num_rows)
    task, rows, settings = pool.task, np.arange(num_rows), Settings(bags=0)
    start = time.monotonic()
    for name in ("topk", "greedy"):
        found = cross_fit(pool, methods_for(task)[name], settings, rows)
        print(
            f"{name}: {found.score:.4f} cross-fitted over 5 folds, {time.monotonic() - start:.1f} s so far", flush=True
        )
    seconds, most = time.monotonic() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    holds = seconds <= BOUND_SECONDS and most <= BOUND_BYTES
    bound = "within its bound" if holds else "BEYOND ITS BOUND"
    print(f"{num_trials:,} trials, {num_rows:,} examples: {seconds:.1f} s, at most {most / 1e9:.2f} GB; {bound}")


def main() -> None:
    """Measures the requested parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("truth", "speed", "protocol"), action="append", help="default: all")
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS), help="default: all")
    parser.add_argument("--trials", type=int, nargs="+", default=[10, 40, 160], help="default: 10 40 160")
    parser.add_argument("--repeats", type=int, default=2000, help="simulated sweeps of each kind (default: 2000)")
    methods = [*SELECTION_METHODS, AUTOMATIC]
    parser.add_argument("--methods", nargs="+", choices=methods, default=[], help="selection methods (default: all)")
    parser.add_argument("--cross-fits", type=int, default=2, help="repeats of cross-fitting (default: 2)")
    parser.add_argument("--processes", type=int, default=2, help="default: 2")
    parser.add_argument("--group-size", type=int, default=1, help="examples in a group of connected texts (default: 1)")
    parser.add_argument("--without-groups", action="store_true", help="select as if the groups were not known")
    options = parser.parse_args()
    parts = options.part or ["speed", "protocol", "truth"]
    if "speed" in parts:
        measure_speed()
    if "protocol" in parts:
        measure_protocol()
    for task, num_trials in itertools.product(options.tasks, options.trials) if "truth" in parts else ():
        names, cross_fits = options.methods, options.cross_fits
        print(f"{task}, {num_trials} trials, {options.repeats} simulated sweeps, {cross_fits} cross-fits", flush=True)
        run = partial(
            simulate,
            task_name=task,
            num_trials=num_trials,
            names=names,
            num_cross_fits=cross_fits,
            group_size=options.group_size,
            has_groups=not options.without_groups,
        )
        measure_truth(run, options.repeats, options.processes)


if __name__ == "__main__":
    main()
