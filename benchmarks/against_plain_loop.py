"""Are the models of sweeps better than a plain loop's, on dev and on rows that neither has trained on?

Command:  python benchmarks/plain_loop.py --data DIR --encoder DIR --steps 1200 --seeds 10 11 12 13 14 \
            --hold-out SWEEP/hold_out.json --output LOOP
          python benchmarks/against_plain_loop.py SWEEP [SWEEP ...] --loop LOOP
Cost:     predictions of the held-out rows by each completed trial, about 30 s each with MiniLM; they are kept in LOOP
Prints:   for dev, for its rows that share no text with train, and for the held-out rows: the mean scores of the loop's
          seeds and of each configuration's replicates, the difference of the overall scores with its 95 % interval,
          and the overall score of each seed and replicate

The interval is over training (Welch's, over seeds and replicates) and over examples (a bootstrap by groups of connected
texts, the same for both). Of a trial the last epoch counts, as of the loop the last step. The loop has as many steps as
the trials, or `--loop-steps N`: beside trials with batches of 32, twice as many steps have equally many examples.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from mtlib.config.trial import TrialConfig
from mtlib.data.hold_out import normalise_columns, share_text
from mtlib.data.load import read_data, read_held_out
from mtlib.data.row_sources import pick_rows
from mtlib.data.tables import Table
from mtlib.runtime.command_line import run_command
from mtlib.runtime.errors import require
from mtlib.runtime.storage import open_folder
from mtlib.tasks import TASKS, overall_score, overall_slopes
from results.ensembles.outputs import outputs_of
from results.inference.dev_texts import data_folder
from results.inference.models import ModelSource, load_models
from results.inference.predictor import Predictor, ensemble_of
from results.records.predictions import stack_predictions
from results.records.selection import Member
from results.records.tables import read_trials
from results.records.trials import COMPLETED, TrialRecord
from results.selection.hold_out_score import predict_table
from results.stats.groups import text_groups_of
from results.stats.resampling import CONFIDENCE, Floats, Numbers, bootstrap_scores, score_examples

LOOP, HELD_OUT, NEW = "plain loop", "held out", "dev without texts of train"
Tables = Mapping[str, Table]
"""Of one split, by task."""


@dataclass(frozen=True, kw_only=True)
class GroupScores:
    """The scores of some models on the rows of a split."""

    means: Mapping[str, float]
    """By task, over the models."""
    overall: Floats
    """(models,)."""
    resampled: Floats
    """(resamples,): the mean overall score of the models on resampled rows, up to a constant that all groups share."""


def main() -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweeps", metavar="SWEEP", type=Path, nargs="+", help="sweeps with --hold-out, of equal steps")
    parser.add_argument("--loop", metavar="LOOP", type=Path, required=True, help="folder that plain_loop.py wrote")
    parser.add_argument("--loop-steps", metavar="N", type=int, help="of the loop (default: as many as the trials')")
    options = parser.parse_args()
    return run_command(lambda: compare(options.sweeps, options.loop, options.loop_steps))


def compare(sweeps: Sequence[Path], folder: Path, loop_steps: int | None = None) -> None:
    """Prints the scores of the loop in a folder and of sweeps; ValueError if they cannot be compared."""
    data, *_ = [data_folder(sweep) for sweep in sweeps]
    trials = [(sweep, own) for sweep in sweeps for own in read_trials(sweep) if own.status in COMPLETED]
    steps = {record.steps for _, record in trials}
    require(len(steps) == 1, "completed trials must have the same number of steps", sorted(steps) or "none completed")
    config = TrialConfig.from_json(trials[0][1].config)
    loop_steps = min(steps) if loop_steps is None else loop_steps
    loop = read_loop(folder, loop_steps)
    held_out, read = read_held_out(config, data), read_data(config, data)
    dev = {task: table for (task, split), table in read.items() if split == "dev"}
    new = without_texts_of(dev, [table for (_, split), table in read.items() if split == "train"])
    ours = [predictions_by(sweep, record, held_out, folder) for sweep, record in trials]
    predictions = pd.concat([loop, *ours])
    for title, split, tables in (("dev", "dev", dev), (NEW, "dev", new), (HELD_OUT, HELD_OUT, held_out)):
        rows = ", ".join(f"{TASKS[task].title} {len(table.ids):,}" for task, table in tables.items())
        print(f"\n{title}, {rows} rows, after {min(steps):,} steps, the loop after {loop_steps:,}")
        print_scores(tables, predictions[predictions["split"] == split])


def without_texts_of(tables: Tables, train: Sequence[Table]) -> dict[str, Table]:
    """The rows of each table that share no text with any row of train."""
    known = {text for table in train for column in normalise_columns(table.texts) for text in column}
    return {task: pick_rows(table, np.flatnonzero(~share_text(table.texts, known))) for task, table in tables.items()}


def read_loop(folder: Path, steps: int) -> pd.DataFrame:
    """The loop's predictions after so many steps: split, task, id, prediction, group, model; ValueError if none."""
    path = folder / "predictions.csv"
    require(path.is_file(), "--loop must be the --output of plain_loop.py", folder)
    found = pd.read_csv(path, dtype={"id": str})
    known = sorted(found["steps"].unique().tolist())
    require(steps in known, f"the loop must have been trained for {steps:,} steps", known)
    return found[found["steps"] == steps].assign(group=LOOP).rename(columns={"rows": "split", "seed": "model"})


def predictions_by(sweep: Path, record: TrialRecord, held_out: Tables, folder: Path) -> pd.DataFrame:
    """A trial's predictions after its last epoch: split, task, id, prediction, group, model.

    Those of dev are recorded; those of the held-out rows are made once, and kept in the folder.
    """
    path = folder / "trials" / f"{sweep.name}-{record.trial_id}-{record.config_hash[:12]}.csv"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        pd.concat(predict_held_out(sweep, record, held_out)).to_csv(path, index=False)
    frames = [pd.read_csv(path, dtype={"id": str})]
    for task in held_out:
        ids, _, logits = stack_predictions(open_folder(sweep), task, "dev", [(record.trial_id, record.epochs)])
        frames.append(prediction_frame("dev", task, ids, outputs_of(TASKS[task], logits[0])))
    return pd.concat(frames).assign(group=f"{sweep.name}/{record.number:04d}", model=record.trial_id)


def predict_held_out(sweep: Path, record: TrialRecord, held_out: Tables) -> Iterator[pd.DataFrame]:
    """A trial's predictions of the held-out rows of each task."""
    member = Member(sweep=str(sweep), trial=record.trial_id, epoch=record.epochs, weight=1.0)
    ensemble = ensemble_of([member])
    models = load_models([member], next(iter(held_out)), ModelSource(places={str(sweep): sweep}, device="cpu"))
    for task, table in held_out.items():
        outputs = predict_table(Predictor(task=TASKS[task], models=models, ensemble=ensemble), table)
        yield prediction_frame(HELD_OUT, task, table.ids, outputs)


def prediction_frame(split: str, task: str, ids: Sequence[str], outputs: npt.ArrayLike) -> pd.DataFrame:
    """The class or number that outputs, (rows, width), predict."""
    predicted = TASKS[task].kind_entry.predict(outputs)
    return pd.DataFrame({"split": split, "task": task, "id": ids, "prediction": predicted})


def print_scores(tables: Tables, predictions: pd.DataFrame) -> None:
    """Prints the scores of each group of models on the rows of a split, or that some task has no row in it."""
    if not all(table.ids for table in tables.values()):
        print("no scores: a task has no such row")
        return
    groups = {task: text_groups_of(table) for task, table in tables.items()}
    scored = {str(group): score_group(tables, groups, own) for group, own in predictions.groupby("group")}
    width = max(map(len, scored))
    titles = "  ".join(f"{TASKS[task].title:>5}" for task in tables)
    print(f"{'':{width}}  models  {titles}  overall  {'difference':25}  overall of each")
    for group, own in sorted(scored.items(), key=lambda item: item[0] != LOOP):
        means = "  ".join(f"{score:5.3f}" for score in own.means.values())
        overall, difference = overall_score(own.means, TASKS), difference_text(own, scored[LOOP])
        each = " ".join(f"{score:.3f}" for score in own.overall)
        print(f"{group:{width}}  {len(own.overall):6}  {means}  {overall:7.3f}  {difference:25}  {each}")


def score_group(tables: Tables, groups: Mapping[str, Numbers], predictions: pd.DataFrame) -> GroupScores:
    """The scores of a group of models; the rows, drawn by groups of connected texts, are resampled equally for all."""
    scores: dict[str, Floats] = {}
    resampled = np.zeros(())
    slopes = overall_slopes(tables, TASKS)
    for task, table in tables.items():
        own = predictions[predictions["task"] == task].pivot(index="model", columns="id", values="prediction")
        predicted, labels = own[table.ids].to_numpy(dtype=np.float64), table.labels.astype(np.float64)
        values = predicted if TASKS[task].kind == "regression" else (predicted == labels).astype(np.float64)
        scores[task] = score_examples(TASKS[task], values, labels)
        drawn = bootstrap_scores(TASKS[task], values, labels, groups=groups[task])
        resampled = resampled + slopes[task] * drawn.mean(axis=0)
    overall = [overall_score(dict(zip(scores, own, strict=True)), TASKS) for own in zip(*scores.values(), strict=True)]
    means = {task: float(own.mean()) for task, own in scores.items()}
    return GroupScores(means=means, overall=np.array(overall), resampled=resampled)


def difference_text(ours: GroupScores, others: GroupScores) -> str:
    """The difference of the mean overall scores of two groups, and its interval over training and examples."""
    if ours is others:
        return ""
    difference = ours.overall.mean() - others.overall.mean()
    groups = (ours.overall, others.overall)
    parts = [scores.var(ddof=1) / len(scores) for scores in groups]
    freedom = sum(parts) ** 2 / sum(part**2 / (len(own) - 1) for part, own in zip(parts, groups, strict=True))
    tail = (1 + CONFIDENCE) / 2
    over_training = stats.t.ppf(tail, freedom) * np.sqrt(sum(parts))
    over_examples = stats.norm.ppf(tail) * (ours.resampled - others.resampled).std(ddof=1)
    half = np.hypot(over_training, over_examples)
    return f"{difference:+.3f} ({difference - half:+.3f} to {difference + half:+.3f})"


if __name__ == "__main__":
    sys.exit(main())
