"""Bias and coverage of the selector's scores on simulated sweeps whose true scores are known, and its speed.

Command:  python benchmarks/selection.py [--part truth|speed|protocol] [--trials 10 40 160] [--repeats 2000]
          [--methods single auto] [--metric rmse] [--epochs 6] [--difficulty] [--shared .99] [--cross-fits 5]
          [--bags 5] [--processes 2] [--group-size 4 [--without-groups]]
Cost:     truth, on one core, about 1 second for each simulated sweep and task; speed 5 seconds; protocol minutes
Prints:   truth: per task, number of trials and selection method, the bias of the dev score and of the cross-fitted
          score, the coverage of the 95 % interval, the true score of the chosen ensemble, and its lead over the best
          single model, with its standard error over simulated sweeps; how often the intervals of all leads hold at once
          speed: seconds and memory for choosing among 1,000 trials with 40,000 examples of a binary task
          protocol: seconds for all that `results/selector.py` does with these: every selection method, with 5 repeats,
          and choosing among them

A trial's outputs are the right answer plus noise, part of which all trials share; skills differ from trial to trial,
and from epoch to epoch. With --difficulty, examples differ in difficulty, some have a wrong label, noise is
heavy-tailed, and trials are of four families that err alike.
Sizes are those of the dev sets: 1,101 examples with five classes, 2,000 with two, 863 of a regression. The true score
is that on 50,000 further examples. So that this ends within hours, greedy selection has one bag by default, and
cross-fitting two repeats instead of five, from which the variance of the choice is estimated less precisely. With
--group-size, the noise that trials share is equal for all examples of a group of connected texts; --without-groups
selects as if no sweep had recorded the groups.
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

from benchmarks.simulated_sweeps import (
    NUM_FURTHER,
    NUM_ROWS,
    SHARED,
    Scenario,
    World,
    make_pool,
    make_world,
    true_score,
)
from mtlib.metrics.table import METRICS
from mtlib.tasks import TASKS
from results.ensembles.candidates import Pool
from results.ensembles.ensemble import Ensemble, ensemble_outputs, score_rows
from results.ensembles.methods import AUTOMATIC, SELECTION_METHODS, SINGLE, methods_for
from results.ensembles.selection_method import Settings
from results.selection.cross_fitting import CrossFitted, bootstrap, cross_fit, widened
from results.selection.method_scores import paired_difference, simultaneous_quantile
from results.selection.select_all import SelectionRequest
from results.selection.select_ensemble import automatic_method, is_above, select_ensemble
from results.stats.resampling import Floats, percentile_interval

BOUND_SECONDS, BOUND_BYTES = 10.0, 2e9


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The scores of one selection method on one simulated sweep."""

    on_dev: float
    cross_fitted: float
    true: float
    is_covered: bool
    fitted: CrossFitted
    resampled: Floats
    """The cross-fitted score on resampled examples, (resamples,)."""


@dataclass(frozen=True, kw_only=True)
class SimulatedSweep:
    """What selection came to on one simulated sweep."""

    outcomes: dict[str, Outcome]
    """By selection method."""
    are_leads_covered: bool
    """Whether the true lead of every method over the best single model is in its 95 % interval."""


def simulate(
    number: int, scenario: Scenario, settings: Settings, names: Sequence[str], num_cross_fits: int
) -> SimulatedSweep:
    """The outcomes of the named selection methods (none: all) and the best single model on one simulated sweep."""
    num_rows = NUM_ROWS[TASKS[scenario.task].kind]
    dev = make_pool(make_world(scenario, num_rows, number, 2))
    dev = dev if scenario.has_groups else replace(dev, text_groups=None)
    further = make_world(replace(scenario, group_size=1), NUM_FURTHER, number, 3)
    methods = methods_for()
    methods[AUTOMATIC] = automatic_method(dict(methods))
    requested = {name: method for name, method in methods.items() if not names or name in (SINGLE, *names)}
    rows, settings = np.arange(num_rows), replace(settings, seed=number)
    fitted = {
        name: cross_fit(dev, method, settings, rows, num_repeats=num_cross_fits) for name, method in requested.items()
    }
    chosen = {name: method(dev, rows, settings) for name, method in requested.items()}
    if AUTOMATIC in requested and not is_above(fitted[AUTOMATIC], fitted[SINGLE]):  # as `select_ensemble`
        chosen[AUTOMATIC] = chosen[SINGLE]
    found = {name: evaluate(dev, further, chosen[name], own, number) for name, own in fitted.items()}
    single = found[SINGLE]
    quantile = simultaneous_quantile(np.stack([outcome.resampled - single.resampled for outcome in found.values()]))
    are_covered = []
    for outcome in found.values():
        lead, error = paired_difference(outcome.fitted, single.fitted)
        are_covered.append(abs(lead - (outcome.true - single.true)) <= quantile * error)
    return SimulatedSweep(outcomes=found, are_leads_covered=all(are_covered))


def evaluate(dev: Pool, further: World, chosen: Ensemble, fitted: CrossFitted, seed: int) -> Outcome:
    """The scores of what a selection method chose."""
    rows = np.arange(len(dev.labels))
    resampled, score = bootstrap(fitted, seed=seed), float(fitted.scores.mean())
    low, high = percentile_interval(widened(resampled, score, fitted.standard_error))
    true = true_score(further, chosen)
    on_dev = score_rows(dev, ensemble_outputs(dev, chosen, rows), rows)
    return Outcome(
        on_dev=on_dev,
        cross_fitted=score,
        true=true,
        is_covered=low <= true <= high,
        fitted=fitted,
        resampled=resampled,
    )


def measure_truth(run: Callable[[int], SimulatedSweep], num_repeats: int, num_processes: int) -> None:
    """Prints bias and coverage in sweeps that `run` simulates, each from its number."""
    with ProcessPoolExecutor(num_processes) as processes:
        sweeps = list(processes.map(run, range(num_repeats), chunksize=4))
    found = [sweep.outcomes for sweep in sweeps]
    for name in found[0]:
        print(line_of(name, [sweep[name] for sweep in found], [sweep[SINGLE].true for sweep in found]), flush=True)
    share = np.mean([sweep.are_leads_covered for sweep in sweeps])
    print(f"  intervals of all leads over the best single model hold at once in {share:.3f}", flush=True)


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
    return make_pool(make_world(Scenario(task=task.name, num_trials=num_trials), num_rows, 0, 1))


def measure_protocol(num_trials: int = 1000, num_rows: int = 40_000) -> None:
    """Prints the time and memory of a selection with default options."""
    pool = large_pool(num_trials, num_rows)
    start = time.monotonic()
    found = select_ensemble(pool, Settings(), num_repeats=SelectionRequest.repeats)
    seconds, most = time.monotonic() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    chosen = f"{found.method}, {len(found.members)} models, {found.score.cross_fitted:.4f} cross-fitted"
    print(f"{num_trials:,} trials, {num_rows:,} examples, all of it: {seconds:.0f} s, {most / 1e9:.2f} GB; {chosen}")


def measure_speed(num_trials: int = 1000, num_rows: int = 40_000) -> None:
    """Prints the time and memory of cross-fitting two selection methods."""
    pool = large_pool(num_trials, num_rows)
    rows, settings = np.arange(num_rows), Settings(bags=0)
    start = time.monotonic()
    for name in ("topk", "greedy"):
        found = cross_fit(pool, methods_for()[name], settings, rows)
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
    parser.add_argument("--metric", choices=METRICS, default="", help="of the tasks that it suits (default: their own)")
    parser.add_argument("--trials", type=int, nargs="+", default=[10, 40, 160], help="default: 10 40 160")
    parser.add_argument("--repeats", type=int, default=2000, help="simulated sweeps of each kind (default: 2000)")
    methods = [*SELECTION_METHODS, AUTOMATIC]
    parser.add_argument("--methods", nargs="+", choices=methods, default=[], help="selection methods (default: all)")
    parser.add_argument("--cross-fits", type=int, default=2, help="repeats of cross-fitting (default: 2)")
    parser.add_argument("--epochs", type=int, default=1, help="of each trial (default: 1)")
    parser.add_argument("--difficulty", action="store_true", help="examples differ in difficulty, errors are alike")
    words = "part of the noise that trials share; near 1 ensembles gain little (default: %(default)s)"
    parser.add_argument("--shared", type=float, default=SHARED, help=words)
    parser.add_argument("--bags", type=int, default=1, help="of greedy selection (default: 1)")
    parser.add_argument("--processes", type=int, default=2, help="default: 2")
    parser.add_argument("--group-size", type=int, default=1, help="examples in a group of connected texts (default: 1)")
    parser.add_argument("--without-groups", action="store_true", help="select as if the groups were not known")
    options = parser.parse_args()
    parts = options.part or ["speed", "protocol", "truth"]
    if "speed" in parts:
        measure_speed()
    if "protocol" in parts:
        measure_protocol()
    tasks = [task for task in options.tasks if not options.metric or TASKS[task].kind in METRICS[options.metric].kinds]
    for task, num_trials in itertools.product(tasks, options.trials) if "truth" in parts else ():
        names, cross_fits = options.methods, options.cross_fits
        scored = f"{task} by {options.metric or TASKS[task].metric}, {num_trials} trials"
        print(f"{scored}, {options.repeats} simulated sweeps, {cross_fits} cross-fits", flush=True)
        scenario = Scenario(
            task=task,
            num_trials=num_trials,
            metric=options.metric,
            num_epochs=options.epochs,
            has_difficulty=options.difficulty,
            group_size=options.group_size,
            has_groups=not options.without_groups,
            shared=options.shared,
        )
        run = partial(
            simulate,
            scenario=scenario,
            settings=Settings(bags=options.bags),
            names=names,
            num_cross_fits=cross_fits,
        )
        measure_truth(run, options.repeats, options.processes)


if __name__ == "__main__":
    main()
