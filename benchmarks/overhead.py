"""Overhead of a trial beyond its training: our lanes, a TorchTrainer per trial, a Tune function with reused actors.

Command:  python benchmarks/overhead.py [--trials 12]
Cost:     about 8 minutes on 2 cores, nearly all of it for the TorchTrainer per trial
Prints:   seconds per trial that were not spent training, and their ratios to ours

All three run the same short trials, one at a time on one CPU, on one Ray that is up before the clock starts. `whole`
divides the time from the call to its return; `open` counts from when the first trial can begin to the last one's end,
which leaves out what is paid once: for lanes and reused actors, starting a process that has imported torch.
"""

import argparse
import functools
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if not __package__:  # started as a script: imports begin at the project's folder, not at this one
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import ray.train
from ray import tune
from ray.train.torch import TorchTrainer
from ray.tune.integration.ray_train import TuneReportCallback

from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from mtlib.data.load import read_data
from mtlib.data.token_cache import Corpus, tokenize
from mtlib.demo.corpus import demo_folder
from mtlib.demo.overrides import DEMO_SETTINGS
from mtlib.model.encoder import PretrainedEncoder, load_encoder
from mtlib.train import train
from mtlib.training.epoch_report import EpochReport
from results.records.driver_file import Ownership
from search_spaces.space import SearchSpace
from sweeps.cluster.connection import connected_to_ray
from sweeps.driver.run_sweep import run_plan
from sweeps.driver.trials.table import Event, open_table
from sweeps.lanes.training_inputs import read_training_inputs
from sweeps.options import SweepOptions, SweepPlan
from sweeps.plan.inputs import read_points

CACHE = ".cache"
"""The token cache of all three, in the folder that is the storage of our sweep."""


@dataclass(frozen=True, kw_only=True)
class Overhead:
    """Seconds per trial that were not spent training."""

    whole: float
    open: float
    training: float


def short_config(encoder: Path) -> TrialConfig:
    """A trial of a few seconds: 24 steps, two evaluations."""
    stages = (StageConfig(tasks=("sst", "qqp", "sts"), epochs=2, steps_per_epoch=12),)
    return TrialConfig(stages=stages).override({**DEMO_SETTINGS, "encoder.name": str(encoder)})


def rates(num_trials: int) -> tuple[float, ...]:
    """A learning rate for each trial."""
    return tuple(1e-3 * (1 + number / 100) for number in range(num_trials))


@functools.cache
def load(encoder_name: str, data: Path, cache: Path) -> tuple[Corpus, PretrainedEncoder]:
    """Data and encoder of all trials, loaded once in a process."""
    encoder = load_encoder(encoder_name)
    return tokenize(read_data(short_config(Path(encoder_name)), data), encoder.tokenizer, cache), encoder


def train_noted(config: TrialConfig, data: Path, notes: Path, on_epoch: Callable[[EpochReport], bool]) -> None:
    """Trains with encoder and corpus from this process; writes its start and end, since 1970, to a file in `notes`."""
    from benchmarks.overhead import load as load_once  # Ray pickles a script's functions, but not those with a cache

    corpus, encoder = load_once(config.encoder.name, data, notes.parent / CACHE)
    start = time.time()
    train(config, corpus, encoder, on_epoch=on_epoch)
    (notes / f"{config.optimizer.learning_rate}.json").write_text(json.dumps([start, time.time()]))


def measure_lane(base: TrialConfig, num_trials: int, data: Path, storage: Path) -> Overhead:
    """Our sweep with one lane."""
    events: list[Event] = []
    grid: dict[str | tuple[str, ...], tuple[Any, ...]] = {"optimizer.learning_rate": rates(num_trials)}
    space = SearchSpace(name="overhead", question="What does a trial cost?", base=base, grid=grid)
    options = SweepOptions(space=space.name, name="sweep", storage=str(storage), concurrent=1)
    Path(options.folder).mkdir()
    plan = SweepPlan(options=options, space=space, data_folder=data)
    start = time.time()
    training: dict[str, float] = {}

    table = open_table(plan)

    def on_event(event: Event) -> None:
        events.append(event)
        training.update({name: record.device_seconds for name, record in table.records.items()})

    encoders = {base.encoder.name: load_encoder(base.encoder.name)}
    inputs = read_training_inputs(space, read_points(space, data), encoders, data, options.cache_folder)
    with Ownership(plan.options.folder) as ownership:
        outcome = run_plan(table, inputs, on_event, ownership)
    end = time.time()
    assert outcome.counts == {"complete": num_trials}, outcome
    opened = next(event.time for event in events if event.kind == "lane_open")
    last = max(event.time for event in events if event.kind == "ended")
    return overhead(start, end, opened, last, list(training.values()))


def measure_tune(function: Any, num_trials: int, notes: Path, reuse_actors: bool) -> Overhead:
    """A Tune function that trains one trial at a time."""
    start = time.time()
    results = tune.Tuner(
        function,
        param_space={"rate": tune.grid_search(list(rates(num_trials)))},
        tune_config=tune.TuneConfig(reuse_actors=reuse_actors, max_concurrent_trials=1),
        run_config=tune.RunConfig(storage_path=str(notes), verbose=0),
    ).fit()
    end = time.time()
    assert results.num_errors == 0, results.errors
    noted = [json.loads(path.read_text()) for path in notes.glob("*.json")]
    assert len(noted) == num_trials
    first, last = min(begin for begin, _ in noted), max(done for _, done in noted)
    return overhead(start, end, first, last, [done - begin for begin, done in noted])


def overhead(start: float, end: float, opened: float, last: float, training: list[float]) -> Overhead:
    """Seconds per trial, from the times of the run and the seconds of its trainings."""
    spent, count = sum(training), len(training)
    return Overhead(whole=(end - start - spent) / count, open=(last - opened - spent) / count, training=spent / count)


def reused_actor(base: TrialConfig, data: Path, notes: Path) -> Any:
    """A Tune function that trains in its own process, which is kept for the next trial."""

    def run(config: dict[str, float]) -> None:
        trial = base.override({"optimizer.learning_rate": config["rate"]})
        train_noted(trial, data, notes, lambda report: tune.report({"overall": report.overall}) is None)

    return tune.with_resources(run, {"CPU": 1})


def trainer_per_trial(base: TrialConfig, data: Path, notes: Path) -> Any:
    """A Tune function that starts a TorchTrainer for each trial."""

    def loop(config: dict[str, float]) -> None:
        trial = base.override({"optimizer.learning_rate": config["rate"]})
        train_noted(trial, data, notes, lambda report: ray.train.report({"overall": report.overall}) is None)

    def run(config: dict[str, float]) -> None:
        TorchTrainer(
            loop,
            train_loop_config=config,
            scaling_config=ray.train.ScalingConfig(num_workers=1),
            run_config=ray.train.RunConfig(storage_path=str(notes), callbacks=[TuneReportCallback()]),
        ).fit()

    return tune.with_resources(run, {"node:__internal_head__": 0.001})


def main() -> None:
    """Measures the three, one after the other, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=12, help="trials of each kind (default: 12)")
    num_trials = parser.parse_args().trials
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data, encoder = demo_folder(folder / "demo")
        base = short_config(encoder)
        reuse, trainer = folder / "reuse", folder / "trainer"
        reuse.mkdir()
        trainer.mkdir()
        load(str(encoder), data, folder / CACHE)  # the token cache is there for all three
        per_trial = trainer_per_trial(base, data, trainer)
        with connected_to_ray(None):
            costs = {
                "our lane": measure_lane(base, num_trials, data, folder),
                "Tune, reused actors": measure_tune(reused_actor(base, data, reuse), num_trials, reuse, True),
                "TorchTrainer per trial": measure_tune(per_trial, num_trials, trainer, False),
            }
    show(costs, num_trials)


def show(costs: dict[str, Overhead], num_trials: int) -> None:
    """Prints seconds and ratios."""
    ours = costs["our lane"]
    print(f"Seconds per trial beyond its training, {num_trials} trials each (ratio to ours)")
    print(f"{'':24}{'open':>18}{'whole':>18}{'training':>12}")
    for kind, cost in costs.items():
        cells = [f"{part:.2f} ({part / own:.1f})" for part, own in ((cost.open, ours.open), (cost.whole, ours.whole))]
        print(f"{kind:24}{cells[0]:>18}{cells[1]:>18}{cost.training:>12.2f}")


if __name__ == "__main__":
    main()
