"""Which arguments of Optuna's samplers find the best configurations of a sweep's spaces?

Command:  python benchmarks/search_samplers.py [--worlds 60] [--trials 20 40] [--lanes 1 4] [--spaces NAME ...]
          [--only WAY ...]
Cost:     of a world with 40 configurations on one core .2 to .4 s for a way of TPE, 8 to 20 s for the Gaussian process
Prints:   for each space, number of lanes and of configurations: how much better the chosen configuration truly is than
          that of random search, in thousandths of the overall score, with its 95 % interval, and seconds for a draw

A world is a space with a true score: each range has a peak, each choice a best value, and some pairs of keys interact;
sizes are those of the papers' tables (.005 to .02 overall). What is seen has the error of a training, .004. The chosen
configuration is that with the best score seen. All ways search the same worlds, in which trials end in random order, as
many at a time as there are lanes. The spaces are the ranges around `presets.general` of docs/measurements, `rates`, and
`joint`, some of whose keys are drawn only beside certain values of others.
"""

import argparse
import hashlib
import itertools
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if not __package__:  # started as a script: imports begin at the project's folder, not at this one
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import numpy as np
import optuna
from optuna.samplers import BaseSampler, GPSampler, RandomSampler, TPESampler

from search_spaces.domain import Choice, Float, Range, SearchKey, holds, key_title
from search_spaces.questions.joint import SPACE as JOINT
from search_spaces.space import SearchSpace, search_domain
from sweeps.search.study import suggest_value

TRAINING_ERROR = 0.004
"""Of a configuration's score: the standard deviation over trainings."""
EFFECTS = (0.005, 0.02)
"""What the worst value of a key costs, from least to most."""
RATES: dict[SearchKey, Range] = {
    "optimizer.learning_rate": Float(low=3e-5, high=3e-4, log=True),
    "optimizer.head_learning_rate": Float(low=1e-4, high=3e-3, log=True),
    "optimizer.layer_decay": Float(low=0.8, high=1.0),
    "encoder.dropout": Choice(values=(0.0, 0.1)),
    "tasks.qqp.loss_weight": Float(low=0.5, high=2.0, log=True),
    "tasks.sst.loss": Choice(values=("cross_entropy", "ordinal_log_loss", "dual_objective_cross_entropy")),
}
SPACES = {"rates": SearchSpace(name="rates", question="", base=JOINT.base, ranges=RATES), "joint": JOINT}
WAYS: dict[str, Callable[[int], BaseSampler]] = {
    "random": lambda seed: RandomSampler(seed=seed),
    "each key alone": lambda seed: TPESampler(seed=seed, multivariate=False, constant_liar=False),
    "alone, liar": lambda seed: TPESampler(seed=seed, multivariate=False, constant_liar=True),
    "together": lambda seed: TPESampler(seed=seed, multivariate=True, constant_liar=False),
    "together, liar": lambda seed: TPESampler(seed=seed, multivariate=True, constant_liar=True),
    "groups": lambda seed: TPESampler(seed=seed, multivariate=True, group=True, constant_liar=False),
    "groups, liar": lambda seed: TPESampler(seed=seed, multivariate=True, group=True, constant_liar=True),
    "Gaussian process": lambda seed: GPSampler(seed=seed, warn_independent_sampling=False),
}


@dataclass(frozen=True, kw_only=True)
class World:
    """A true score of each configuration of a space."""

    domain: Mapping[SearchKey, Range]
    peaks: Mapping[SearchKey, float]
    """Of a range where on its scale, 0..1, the score is highest."""
    costs: Mapping[SearchKey, Any]
    """Of a range what the far end costs, of a choice what each value does."""
    interactions: Sequence[tuple[SearchKey, SearchKey, float]]

    def score(self, sampled: Mapping[SearchKey, Any]) -> float:
        """The true score, at most 0 without interactions; keys that are not drawn cost nothing."""
        places = {key: place_of(self.domain[key], value) - self.peaks[key] for key, value in sampled.items()}
        total = 0.0
        for key, value in sampled.items():
            item = self.domain[key]
            if isinstance(item, Choice):
                total -= self.costs[key][item.values.index(value)]
            else:
                total -= self.costs[key] * places[key] ** 2 / max(self.peaks[key], 1 - self.peaks[key]) ** 2
        pairs = [(places[one], places[two], size) for one, two, size in self.interactions if {one, two} <= set(sampled)]
        return total + sum(size * one * two for one, two, size in pairs)


def place_of(item: Range, value: Any) -> float:
    """Where a value is on its range's scale, 0..1."""
    if isinstance(item, Choice):
        return item.values.index(value) / max(1, len(item.values) - 1)
    scale = np.log if item.log else np.float64
    return float((scale(value) - scale(item.low)) / (scale(item.high) - scale(item.low)))


def make_world(space: SearchSpace, seed: int) -> World:
    """A world of this seed."""
    rng, domain = np.random.default_rng(seed), search_domain(space)
    costs: dict[SearchKey, Any] = {}
    for key, item in domain.items():
        costs[key] = rng.uniform(*EFFECTS)
        if isinstance(item, Choice):
            costs[key] *= rng.permutation(np.linspace(0, 1, len(item.values)))
    pairs = list(itertools.combinations(domain, 2))
    chosen = rng.choice(len(pairs), size=len(domain) // 2, replace=False)
    return World(
        domain=domain,
        peaks={key: float(rng.uniform()) for key in domain},
        costs=costs,
        interactions=[(*pairs[one], float(rng.choice([-1, 1]) * rng.uniform(*EFFECTS))) for one in chosen],
    )


def search(space: SearchSpace, world: World, way: str, seed: int, num_trials: int, lanes: int) -> tuple[Any, float]:
    """Returns the true score of the best configuration so far, by number of those that have ended, and the seconds of
    a draw on average."""
    rng, study = np.random.default_rng([seed, 1]), optuna.create_study(direction="maximize")
    running: list[tuple[optuna.Trial, float]] = []
    seen: list[tuple[float, float]] = []
    spent = 0.0
    for number in range(num_trials + lanes - 1):
        if number < num_trials:
            began = time.perf_counter()
            digest = hashlib.sha256(f"{seed} {number}".encode()).digest()
            study.sampler = WAYS[way](int.from_bytes(digest[:4], "big"))
            trial, sampled = study.ask(), dict[SearchKey, Any]()
            for key, item in world.domain.items():
                if holds(space.conditions.get(key), sampled):
                    sampled[key] = suggest_value(trial, key_title(key), item)
            spent += time.perf_counter() - began
            running.append((trial, world.score(sampled)))
        if len(running) == lanes or (number >= num_trials and running):
            trial, score = running.pop(int(rng.integers(len(running))))
            noisy = score + TRAINING_ERROR * rng.standard_normal()
            study.tell(trial, noisy)
            seen.append((noisy, score))
    return [max(seen[: ended + 1])[1] for ended in range(num_trials)], spent / num_trials


def main() -> None:
    """Prints a table for each space and number of lanes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=60)
    parser.add_argument("--trials", type=int, nargs="+", default=[20, 40])
    parser.add_argument("--lanes", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--spaces", nargs="+", choices=SPACES, default=list(SPACES))
    parser.add_argument("--only", nargs="+", choices=list(WAYS)[1:], default=list(WAYS)[1:])
    asked = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    print(f"optuna {optuna.__version__}, {asked.worlds} worlds")
    for name, lanes in itertools.product(asked.spaces, asked.lanes):
        space, longest, found = SPACES[name], max(asked.trials), dict[str, list[Any]]()
        for seed in range(asked.worlds):
            world = make_world(space, seed)
            for way in ("random", *asked.only):
                found.setdefault(way, []).append(search(space, world, way, seed, longest, lanes))
        scores = {way: np.array([own for own, _ in runs]) for way, runs in found.items()}
        print(f"\n{name}, {lanes} at a time, after {', '.join(map(str, asked.trials))} configurations")
        for way in asked.only:
            leads = 1000 * (scores[way] - scores["random"])[:, [number - 1 for number in asked.trials]]
            errors = 1.96 * leads.std(axis=0, ddof=1) / np.sqrt(asked.worlds)
            cells = (f"{mean:6.1f} ±{error:4.1f}" for mean, error in zip(leads.mean(axis=0), errors, strict=True))
            print(f"{way:18s}{'  '.join(cells)}   {np.mean([own for _, own in found[way]]):.3f} s")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
