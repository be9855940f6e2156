"""How much too high cross-fitted scores are because the search or the scheduler has seen dev: simulated sweeps.

Command:  python benchmarks/search_optimism.py [--metric overall|task] [--smooth 0.1 0.5] [--trials 10 40 160]
Cost:     17 minutes of one core for 100 simulated sweeps of each kind: 1 for 10 trials, 4 for 40, 12 for 160
Prints:   per part of smooth noise, number of trials, task and kind of search, for the best single model and the best k:
          the true score of what is chosen, by how much the cross-fitted one is above it on average, in scores and in
          standard errors of the score, and how much of that random search does not have: what was seen; with standard
          errors over simulated sweeps, in which all kinds search one space by the same dev examples

Cross-fitting takes trials as given. But TPE proposes them, and ASHA stops them, by scores on all of dev. Here a space
has 3 to 6 hyper-parameters from 0 to 1. True skill falls with the squared distance from an optimum along half of them,
and is reached over 6 epochs, sooner with one of them. What a trial says of an example depends on that, on noise that
all trials share, on noise that varies smoothly with the hyper-parameters, other for each example, with a length scale
of a third of the range (neighbours err alike, which is what a search can use), and on noise of its own, a part of it
new in each epoch. Sampler and scheduler are the sweep's own. One trial follows another, so each knows of all before it;
sweeps that run several at a time know less. They are driven by the overall score of the three tasks, or by one task's.
Sizes are those of `benchmarks/selection.py`. The truth is the score on 50,000 further examples.
"""

import argparse
import itertools
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import cast

if not __package__:  # started as a script: imports begin at the project's folder, not at this one
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import numpy as np
import optuna
from optuna.trial import TrialState

from benchmarks.simulated_answers import score
from benchmarks.simulated_search import NUM_EPOCHS, Dev, Epoch, Space, make_dev, make_space, train, true_score
from mtlib.tasks import TASKS, overall_score
from results.ensembles.best_k import Method, Settings, choose_best_k, choose_single
from results.ensembles.candidates import Candidate, Pool
from results.ranking.bootstrap import Floats
from results.scoring.cross_fitting import cross_fit
from sweeps.options import SweepPlan
from sweeps.search.scheduler import make_scheduler
from sweeps.search.study import sampler_for

KINDS = (("random", "none"), ("random", "asha"), ("tpe", "none"), ("tpe", "asha"))
"""Search and scheduler; the first has seen nothing."""
METHODS: dict[str, Method] = {"single": choose_single, "best k": choose_best_k}
SETTINGS = Settings()


def run_sweep(space: Space, devs: Sequence[Dev], kind: tuple[str, str], num_trials: int, seed: int) -> list[Epoch]:
    """Searches by dev scores, one trial after the other; gives every trial at every epoch that it came to."""
    study, halving = optuna.create_study(direction="maximize"), SimpleNamespace(scheduler=kind[1])
    scheduler, found = make_scheduler(cast(SweepPlan, halving)), list[Epoch]()
    for number in range(num_trials):
        study.sampler = sampler_for(kind[0], seed, number)
        asked, best, verdict = study.ask(), -np.inf, "CONTINUE"
        point = np.array([asked.suggest_float(f"x{axis}", 0, 1) for axis in range(space.waves.shape[1])])
        for trained in train(space, devs, point, number, seed):
            found.append(trained)
            scores = {dev.task.name: score(dev.task, trained.outputs[dev.task.name], dev.labels) for dev in devs}
            best = max(best, overall_score(scores))
            asked.report(best, trained.epoch)
            trial = SimpleNamespace(config={"replicate": 0, "trial_id": str(number)})
            result = {"epoch": trained.epoch, "best": best, "is_last": trained.epoch == NUM_EPOCHS}
            verdict = scheduler.on_trial_result(None, trial, result)
            if verdict == "STOP":
                break
        study.tell(asked, *((None, TrialState.PRUNED) if verdict == "STOP" else (best,)))
    return found


def pool_of(dev: Dev, epochs: Sequence[Epoch]) -> Pool:
    """All that was trained, as candidates for a task."""
    return Pool(
        task=dev.task,
        candidates=tuple(Candidate(sweep="", trial=str(one.trial), epoch=one.epoch, number=0) for one in epochs),
        ids=tuple(map(str, range(len(dev.labels)))),
        labels=dev.labels,
        outputs=np.stack([one.outputs[dev.task.name] for one in epochs]),
    )


def judge(space: Space, pool: Pool, epochs: Sequence[Epoch], seed: int) -> list[tuple[float, float, float]]:
    """For each way to choose from a pool: the true score, the cross-fitted one, and the standard error of that."""
    found, rows = [], np.arange(len(pool.labels))
    for method in METHODS.values():
        fitted, chosen = cross_fit(pool, method, SETTINGS, rows), method(pool, rows, SETTINGS)
        true = true_score(space, pool.task, [epochs[number] for number in chosen.members], chosen, seed)
        found.append((true, fitted.score, fitted.standard_error))
    return found


def simulate(number: int, tasks: Sequence[str], num_trials: int, smooth: float) -> Floats:
    """One space and dev sets, searched in every way: (tasks, kinds, ways to choose, what `judge` gives)."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    generator = np.random.default_rng((number, 0))
    space = make_space(smooth, generator)
    devs = [make_dev(TASKS[task], generator) for task in tasks]
    sweeps = [run_sweep(space, devs, kind, num_trials, number) for kind in KINDS]
    return np.array([[judge(space, pool_of(dev, sweep), sweep, number) for sweep in sweeps] for dev in devs])


def measure(tasks: Sequence[str], num_trials: int, smooth: float, num_repeats: int, num_processes: int) -> Floats:
    """Prints, for each task, how much too high scores are; in standard errors, (tasks, sweeps, kinds, ways)."""
    run = partial(simulate, tasks=tasks, num_trials=num_trials, smooth=smooth)
    with ProcessPoolExecutor(num_processes) as processes:
        found = np.stack(list(processes.map(run, range(num_repeats), chunksize=4)), axis=1)
    true, fitted, error = np.moveaxis(found, -1, 0)
    bias = fitted - true
    relative = bias / error.mean(1, keepdims=True)
    for place, task in enumerate(tasks):
        print(f"{task}, {num_trials} trials, {smooth:g} smooth, {num_repeats} simulated sweeps of each kind")
        for way, name in enumerate(METHODS):
            print(f"  true score, {name}: {', '.join(f'{mean:.4f}' for mean in true[place, :, :, way].mean(0))}")
        show(bias[place], 4, "in scores")
        show(relative[place], 2, "in standard errors")
    return np.asarray(relative)


def show(bias: Floats, digits: int, unit: str) -> None:
    """Prints biases, (sweeps, kinds, ways), and what random search has not of them: a line for each kind."""
    for place, kind in enumerate(KINDS):
        own, seen = bias[:, place], bias[:, place] - bias[:, 0]
        told = [
            f"{name} {spread(own[:, way], digits)}, seen {spread(seen[:, way], digits)}"
            for way, name in enumerate(METHODS)
        ]
        print(f"  {'+'.join(kind):11}  {'; '.join(told)} {unit}", flush=True)


def spread(values: Floats, digits: int) -> str:
    """Their mean, with its standard error."""
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return f"{values.mean():+.{digits}f} ±{error:.{digits}f}"


def main() -> None:
    """Measures every kind of search."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metric", choices=("overall", "task"), default="overall", help="what drives it (overall)")
    parser.add_argument("--smooth", type=float, nargs="+", default=[0.1, 0.5], help="each at most 0.9 (0.1 0.5)")
    parser.add_argument("--trials", type=int, nargs="+", default=[10, 40, 160], help="default: 10 40 160")
    parser.add_argument("--repeats", type=int, default=100, help="simulated sweeps of each kind (default: 100)")
    parser.add_argument("--processes", type=int, default=1, help="default: 1")
    found = parser.parse_args()
    together = [tuple(TASKS)] if found.metric == "overall" else [(task,) for task in TASKS]
    for smooth, num_trials in itertools.product(found.smooth, found.trials):
        biases = [measure(tasks, num_trials, smooth, found.repeats, found.processes) for tasks in together]
        print(f"all tasks, {num_trials} trials, {smooth:g} smooth, by the {found.metric} score")
        overall = np.concatenate(biases).mean(0)  # over tasks: those of a sweep are not independent
        show(overall, 2, "standard errors")


if __name__ == "__main__":
    main()
