"""Which average of a training's weights is best? One training follows all of them.

Command:  python benchmarks/weight_averages.py --data DIR --encoder DIR --steps 600 --seed 41 --powers 1 2 4
Cost:     a training, which ends with the predictions of dev, and for the last weights and each average those of dev and
          of the held-out rows: with MiniLM on one CPU core about 1 s a step in fp32, and a minute and a half each
Prints:   for dev and for the held-out rows: the scores with the weights of the last step and with each average, and the
          losses of the tasks

The settings are `presets.general`, changed by `--set`. An average changes no step, so that the scores of a power are
those of a trial with `optimizer.average_power` at this value. The chance of this one training is common to all of them.
"""

import argparse
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

if not __package__:  # started as a script: imports begin at the project's folder, not at this one
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import torch
from torch import nn

from mtlib.config.trial import TrialConfig
from mtlib.data.load import read_data, read_held_out
from mtlib.data.token_cache import Corpus, tokenize
from mtlib.loss.objective import Objective
from mtlib.model.encoder import load_encoder
from mtlib.model.multitask import MultiTaskModel
from mtlib.runtime.command_line import run_command
from mtlib.runtime.errors import require
from mtlib.tasks import TASKS, overall_score, score_of
from mtlib.train import resolve_precision, train
from mtlib.training.epoch_report import StepProgress
from mtlib.training.evaluation import predict, score
from mtlib.training.weight_average import averaged_copy, polynomial_share, update_average
from search_spaces.presets import general
from search_spaces.set_values import expand_keys
from sweeps.cli.arguments import read_changes

LAST = "last step"
PROGRESS_STEPS = 100


def main() -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the course's files")
    parser.add_argument("--encoder", required=True, help="hub name or folder")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--powers", type=float, nargs="+", default=[1, 2, 4], help="eta (default: 1 2 4)")
    parser.add_argument("--hold-out", type=float, default=0.1, help="share of train to hold out (default: 0.1)")
    words = 'changes of the preset, as of sweeps/run.py: "tasks.*.batch_size=16" precision=fp32'
    parser.add_argument("--set", metavar="KEY=VALUE", nargs="+", action="extend", default=[], help=words)
    options = parser.parse_args()
    torch.set_num_threads(1)
    return run_command(lambda: compare(options))


def compare(options: argparse.Namespace) -> None:
    """Trains once and prints the scores of the last weights and of each average."""
    config = config_of(options)
    data, held_out = read_data(config, options.data), read_held_out(config, options.data)
    encoder = load_encoder(options.encoder)
    config = resolve_precision(config, torch.device("cpu"))
    with tempfile.TemporaryDirectory() as cache:
        corpus = tokenize(data, encoder.tokenizer, Path(cache))
        rows = {(task, "dev"): table for task, table in held_out.items()}
        splits = {"dev": corpus, "held out": tokenize(rows, encoder.tokenizer, Path(cache))}
        followed = Averages(options.powers)
        train(config, corpus, encoder, wrap=followed.start, on_step=followed.follow)
        models: dict[str, MultiTaskModel] = {LAST: followed.model}
        models |= {f"power {power:g}": average for power, average in followed.averages.items()}
        for name, tables in splits.items():
            print(f"\n{name}, after {options.steps:,} steps")
            print_scores(config, tables, models)


def config_of(options: argparse.Namespace) -> TrialConfig:
    """The preset with the options' changes; ValueError if one is out of range."""
    require(0 < options.hold_out < 1, "--hold-out must be above 0 and below 1", options.hold_out)
    changes = {"stages.0.epochs": 1, "stages.0.steps_per_epoch": options.steps, "seed": options.seed}
    changes |= {"data.hold_out": options.hold_out, "encoder.name": options.encoder}
    changes |= {f"tasks.{task}.scored_train_rows": 0 for task in TASKS}
    config = general(TASKS).override(changes)
    own = expand_keys(read_changes("--set", options.set), config)
    taken = sorted(changes.keys() & own.keys())
    require(not taken, "--set must leave alone what this benchmark sets itself", ", ".join(taken))
    config = config.override(own)
    for power in options.powers:
        config.override({"optimizer.average_power": power})  # checks it
    return config


class Averages:
    """The averages of one training, by power."""

    def __init__(self, powers: list[float]) -> None:
        self.powers = powers
        self.averages: dict[float, MultiTaskModel] = {}

    def start(self, objective: nn.Module) -> nn.Module:
        """Begins to follow the model of an objective, which is returned as it is; for `train`'s `wrap`."""
        assert isinstance(objective, Objective)
        self.model = objective.model
        self.averages = {power: averaged_copy(self.model) for power in self.powers}
        return objective

    def follow(self, progress: StepProgress) -> bool:
        """Adds the weights after a step; the training goes on."""
        for power, average in self.averages.items():
            update_average(average, self.model, polynomial_share(progress.step, power))
        if progress.step % PROGRESS_STEPS == 0:
            print(f"step {progress.step:,} of {progress.num_steps:,}", file=sys.stderr, flush=True)
        return True


def print_scores(config: TrialConfig, tables: Corpus, models: Mapping[str, MultiTaskModel]) -> None:
    """Prints scores and losses of each model on the rows of a split."""
    titles = "  ".join(f"{TASKS[task].title:>6}" for task in config.active_tasks)
    width = max(map(len, models))
    print(f"{'':{width}}  {titles}  overall  loss: {titles}")
    for name, model in models.items():
        device = next(model.parameters()).device
        found = {
            task: score(predict(model, config, tables, task, "dev", device), config) for task in config.active_tasks
        }
        values = {task: own[TASKS[task].metric] for task, own in found.items()}
        total = overall_score({task: score_of(task, value, TASKS) for task, value in values.items()}, TASKS)
        scores = "  ".join(f"{value:6.4f}" for value in values.values())
        losses = "  ".join(f"{own['loss']:6.3f}" for own in found.values())
        print(f"{name:{width}}  {scores}  {total:7.4f}        {losses}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
