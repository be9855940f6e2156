"""How often is whoever looks after every round wrong, and what does a race save against equal replicates?

Command:  python benchmarks/racing.py looks|races [--sweeps 200] [--kinds normal ...] [--configurations 2 7 24]
          [--rows 300 2000] [--spreads 0 0.06 0.12] [--rounds 20] [--declared 3] [--resumed] [--recorded SWEEP ...]
Cost:     of a sweep with 7 configurations on one core about 1 s (`looks`, `races`), with 24 about 4 s
Prints:   `looks`: shares of sweeps of equally good configurations in which at some round the ranking leaves the first
          one unmarked, as if it were the best by next to nothing, or the effects call one different from the base: with
          the margins of each look alone (`alone`), and with those that are valid over all rounds (`valid`). `races`:
          the mean number of trainings and rounds, the share of races that eliminated the first one, which is the best
          (`false`), that called one worse than the base which is as good (`worse`), of configurations that were
          distinguished from the best, and of races that left it alone (`decided`); then how many trainings equal
          replicates take, judged once at a number that is known beforehand, until they distinguish as many, and until
          they decide as often. With `--resumed` a race that ends undecided goes on up to the last round, as if its user
          insisted. With `--against DIR`, another checkout, both race over the same scores: the target is the share that
          the other one has distinguished at its end, and the cost of each is the mean number of trainings at which it
          first has that share, with the ratio and its 95 % interval over sweeps.

Sweeps are those of `false_differences.py`: models are right on an example by its difficulty, by what the configuration
makes of it and by chance. With `--spreads` S the configurations' accuracies are spread evenly over S, the base is the
best. With `--recorded` they are made from sweeps with replicates instead: training errors are drawn from the residuals
of the recorded scores, errors over examples from the recorded covariance; spreads are of the overall score.
"""

import argparse
import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

if not __package__:  # started as a script: imports begin at the project's folder, not at this one
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import numpy as np

from benchmarks.false_differences import KINDS, TRAINING_ERROR, Design, draw_logits, logit_rise, scores_of
from results.records.race import UNDECIDABLE, RaceRecord, RoundDecision
from results.stats.configuration_means import ModelScores, configuration_means, contrasts, design_matrix
from results.stats.error_spending import Look
from results.stats.margins import best_set, margins_control
from results.stats.race import RaceRules, below_base, decide_round
from results.stats.resampling import Floats, Numbers
from results.stats.trial_scores import TOTAL, group_by_configuration
from results.sweep import Sweep, load_sweep

NUM_RESAMPLES = 1000
"""Of the sweeps, for the interval of a ratio."""
THERE = """
import dataclasses, json, sys
from benchmarks.racing import World, draw_scores, run_race
title, number, rows, kind, spread, rounds, margin, *seeds = json.loads(sys.argv[1])
world = World(title=title, num_configurations=number, num_rows=rows, kind=kind, spread=spread)
races = [run_race(draw_scores(world, rounds, seed), rounds, margin) for seed in seeds]
print(json.dumps([[dataclasses.asdict(own) for own in race.decisions] for race in races]))
"""
"""What another checkout runs."""


@dataclass(frozen=True, kw_only=True)
class World:
    """What is simulated."""

    title: str
    num_configurations: int
    num_rows: int = 0
    kind: str = ""
    recorded: Sweep | None = None
    spread: float = 0.0
    """Between the best and the worst configuration."""

    @property
    def true(self) -> Floats:
        """(configurations,) how far each is from the best; the first one is it."""
        return -self.spread * np.arange(self.num_configurations) / max(1, self.num_configurations - 1)


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=("looks", "races"))
    parser.add_argument("--sweeps", type=int, default=200)
    parser.add_argument("--kinds", nargs="+", default=KINDS, choices=KINDS)
    parser.add_argument("--configurations", nargs="+", type=int, default=(2, 7, 24))
    parser.add_argument("--rows", nargs="+", type=int, default=(300, 2000))
    parser.add_argument("--spreads", nargs="+", type=float, default=(0.0, 0.06, 0.12))
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--declared", type=int, default=3, help="rounds that are declared for the first look")
    parser.add_argument("--margin", type=float, default=0.0, help="of races: within which configurations are equal")
    parser.add_argument("--resumed", action="store_true", help="races go on where no round is likely to decide")
    parser.add_argument("--against", type=Path, metavar="DIR", help="of races: another checkout")
    parser.add_argument("--seed", type=int, default=0, help="of the first sweep")
    parser.add_argument("--recorded", nargs="+", default=(), metavar="SWEEP")
    options = parser.parse_args()
    print(f"{options.sweeps} sweeps each, at most {options.rounds} rounds")
    for world in worlds(options):
        seeds = range(options.seed, options.seed + options.sweeps)
        tables = [draw_scores(world, options.rounds, seed) for seed in seeds]
        name = f"{world.title:16} {world.num_configurations:3} {world.num_rows or '':6} {world.spread:5.3g}"
        if options.table == "looks":
            found = np.mean([look_everywhere(models, options.rounds, options.declared) for models in tables], axis=0)
            print(name, "alone {:.3f} {:.3f}  valid {:.3f} {:.3f}".format(*found), flush=True)
        else:
            races = [run_race(models, options.rounds, options.margin, options.resumed) for models in tables]
            print(name, race_line(world, tables, races, options.rounds), flush=True)
            if options.against:
                print(name, against_line(world, races, raced_there(options, world, seeds), options.rounds), flush=True)


def worlds(options: argparse.Namespace) -> Iterator[World]:
    """All worlds of a table."""
    spreads = (0.0,) if options.table == "looks" else options.spreads
    if options.recorded:
        for sweep, spread in itertools.product(map(load_sweep, options.recorded), spreads):
            number = len({record.number for record in sweep.finished})
            yield World(title=sweep.name[:16], num_configurations=number, recorded=sweep, spread=spread)
        return
    for kind, number, rows, spread in itertools.product(options.kinds, options.configurations, options.rows, spreads):
        yield World(title=kind, kind=kind, num_configurations=number, num_rows=rows, spread=spread)


def draw_scores(world: World, num_rounds: int, seed: int) -> ModelScores:
    """Scores of all configurations with all rounds."""
    stream = np.random.default_rng([seed, world.num_configurations, world.num_rows])
    if world.recorded is not None:
        return resampled(world.recorded, world.true, num_rounds, stream)
    design = Design(
        kind=world.kind,
        num_configurations=world.num_configurations,
        num_replicates=num_rounds,
        num_rows=world.num_rows,
    )
    logits = zip(draw_logits(design, stream), world.true, strict=True)
    raised = np.stack([own + logit_rise(float(below), TRAINING_ERROR) for own, below in logits])
    return scores_of(raised.astype(np.float64), np.ones(world.num_rows), np.arange(world.num_rows))


def resampled(sweep: Sweep, true: Floats, num_rounds: int, stream: np.random.Generator) -> ModelScores:
    """Overall scores with the errors of a recorded sweep, around true ones, (configurations,)."""
    recorded = sweep.scores.of_models(TOTAL, list(sweep.tasks), group_by_configuration(sweep.finished))
    means, design = configuration_means(recorded), design_matrix(recorded)
    residuals = recorded.scores - design @ np.linalg.pinv(design) @ recorded.scores
    residuals *= np.sqrt(len(residuals) / means.total_degrees)
    alone = max(0.0, float(np.mean(np.diag(recorded.covariance)) - np.mean(np.diag(means.examples))))
    values, vectors = np.linalg.eigh(means.examples)
    shared = (vectors * np.maximum(values, 0)) @ vectors.T
    by_examples = stream.multivariate_normal(np.zeros(len(true)), shared, method="eigh")
    scores = true[:, None] + by_examples[:, None] + stream.choice(residuals, size=(len(true), num_rounds))
    numbers = np.arange(scores.size)
    return ModelScores(
        configurations=numbers // num_rounds,
        replicates=numbers % num_rounds,
        scores=scores.ravel(),
        covariance=np.kron(shared, np.ones((num_rounds, num_rounds))) + alone * np.eye(scores.size),
        trainings=numbers,
    )


def look_everywhere(models: ModelScores, num_rounds: int, declared: int) -> tuple[bool, bool, bool, bool]:
    """Whether ranking and effects are wrong at some round, by the margins of single looks and by valid ones."""
    wrong = np.zeros(4, np.bool_)
    for number in range(2, num_rounds + 1):
        means = configuration_means(models.select(np.flatnonzero(models.replicates < number)))
        one = np.eye(len(means.means))
        to_base = one[1:] - one[0]
        estimates = np.abs(contrasts(means, to_base).estimates)
        for place, look in ((0, None), (2, Look(num_rounds=number, declared=declared))):
            wrong[place] |= not best_set(means, look=look).is_left[0]
            wrong[place + 1] |= bool((estimates > margins_control(means, to_base, look=look).widths).any())
    return bool(wrong[0]), bool(wrong[1]), bool(wrong[2]), bool(wrong[3])


def race_line(world: World, tables: list[ModelScores], races: list[RaceRecord], num_rounds: int) -> str:
    """The races over some sweeps, beside equal replicates of the same sweeps."""
    others = max(1, world.num_configurations - 1)
    costs = [trainings(race, world.num_configurations) for race in races]
    rounds = [race.num_rounds for race in races]
    lost = [{n for own in race.decisions for n in (*own.worse, *own.worse_than_base)} for race in races]
    share, decided = np.mean([len(own) / others for own in lost]), np.mean([len(own) == others for own in lost])
    false, equal_best = np.mean([0 in own for own in lost]), set(np.flatnonzero(world.true == 0).tolist())
    worse = np.mean([any(equal_best & {*own.worse_than_base} for own in race.decisions) for race in races])
    line = f"race {np.mean(costs):6.1f} in {np.mean(rounds):4.1f} rounds  false {false:.3f}  worse {worse:.3f}"
    line += f"  distinguished {share:.2f}  decided {decided:.2f}"
    if world.spread == 0:
        return line
    for title, column, wanted in (("as many", 0, share), ("as often decided", 1, decided)):
        number = next((n for n in range(2, num_rounds + 1) if equal(tables, n, column) >= wanted), None)
        if number is None:
            line += f"  {title}: more than {num_rounds} rounds"
        elif wanted > 0:
            cost = world.num_configurations * number
            line += f"  {title}: {number} rounds {cost} (ratio {np.mean(costs) / cost:.2f})"
    return line


def against_line(world: World, races: list[RaceRecord], others: list[RaceRecord], num_rounds: int) -> str:
    """How many trainings races take for what those of another checkout have distinguished at their end."""
    (ours, costs), (theirs, their_costs) = (paths_of(world, own, num_rounds) for own in (races, others))

    def found(sweeps: Numbers) -> tuple[float, float, bool]:
        target = theirs[sweeps, -1].mean()
        cost, is_reached = cost_of(ours[sweeps].mean(axis=0), costs[sweeps].mean(axis=0), target)
        return cost, cost_of(theirs[sweeps].mean(axis=0), their_costs[sweeps].mean(axis=0), target)[0], is_reached

    every, stream = np.arange(len(races)), np.random.default_rng(0)
    cost, other_cost, is_reached = found(every)
    drawn = [found(stream.choice(every, len(every))) for _ in range(NUM_RESAMPLES)]
    low, high = np.quantile([own / max(other, 1.0) for own, other, _ in drawn], (0.025, 0.975))
    censored = "" if is_reached else f" (not reached in {num_rounds} rounds)"
    return (
        f"  for a share of {theirs[:, -1].mean():.2f}: {cost:.1f} trainings{censored}, the other checkout "
        f"{other_cost:.1f}, ratio {cost / max(other_cost, 1.0):.2f} ({low:.2f} to {high:.2f})"
    )


def paths_of(world: World, races: list[RaceRecord], num_rounds: int) -> tuple[Floats, Floats]:
    """(races, rounds + 1) twice: shares of the configurations that are distinguished and trainings, by round."""
    shares, costs = np.zeros((len(races), num_rounds + 1)), np.zeros((len(races), num_rounds + 1))
    for row, race in enumerate(races):
        first = {n: own.num_rounds for own in reversed(race.decisions) for n in (*own.worse, *own.worse_than_base)}
        for number in range(num_rounds + 1):
            now = min(number, race.num_rounds)
            shares[row, number] = sum(own <= now for own in first.values()) / max(1, world.num_configurations - 1)
            costs[row, number] = sum(min(race.left_at.get(n, now), now) for n in range(world.num_configurations))
    return shares, costs


def cost_of(shares: Floats, costs: Floats, target: float) -> tuple[float, bool]:
    """The mean trainings at the first round with this mean share, and whether there is one; else those of the last."""
    reached = np.flatnonzero(shares >= target - 1e-12)
    return float(costs[reached[0] if len(reached) else -1]), bool(len(reached))


def raced_there(options: argparse.Namespace, world: World, seeds: range) -> list[RaceRecord]:
    """The races of another checkout over the same scores."""
    fields = [
        world.title,
        world.num_configurations,
        world.num_rows,
        world.kind,
        world.spread,
        options.rounds,
        options.margin,
    ]
    command = [sys.executable, "-c", THERE, json.dumps([*fields, *seeds])]
    answer = subprocess.run(command, cwd=options.against, stdout=subprocess.PIPE, check=True, text=True).stdout
    return [RaceRecord(decisions=tuple(RoundDecision(**decision) for decision in race)) for race in json.loads(answer)]


def run_race(models: ModelScores, num_rounds: int, margin: float, is_resumed: bool = False) -> RaceRecord:
    """A race over these scores; the first configuration is the base. A resumed one goes on where it ends undecided."""
    race, rules = RaceRecord(), RaceRules(margin=margin, most_rounds=num_rounds, base=0)
    number = int(models.configurations.max()) + 1
    while not race.end or (is_resumed and race.end == UNDECIDABLE):
        now = max(2, race.num_rounds + 1)
        last = np.array([race.left_at.get(one, now) for one in range(number)])
        counted = np.flatnonzero(models.replicates < last[models.configurations])
        look = Look(num_rounds=now, declared=None)
        decision = decide_round(models.select(counted), range(number), race, look, rules)
        race = replace(race, decisions=(*race.decisions, decision))
    return race


def trainings(race: RaceRecord, num_configurations: int) -> int:
    """How many a race took."""
    return sum(race.left_at.get(number, race.num_rounds) for number in range(num_configurations))


def equal(tables: list[ModelScores], num_rounds: int, column: int) -> float:
    """With equal replicates, judged once: the share of configurations that are distinguished, or of decided sweeps."""
    found = []
    for models in tables:
        means = configuration_means(models.select(np.flatnonzero(models.replicates < num_rounds)))
        is_out = ~best_set(means).is_left | below_base(means, np.array([0]))
        found.append((is_out.sum() / (len(is_out) - 1), is_out.sum() == len(is_out) - 1))
    return float(np.mean(found, axis=0)[column])


if __name__ == "__main__":
    main()
