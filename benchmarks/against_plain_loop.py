"""Are the models of sweeps better than a plain loop's, on dev and on rows that neither has trained on?

Command:  python benchmarks/plain_loop.py --data DIR --encoder DIR --steps 1200 --seeds 10 11 12 13 14 \
            --hold-out SWEEP/hold_out.json --output LOOP
          python benchmarks/against_plain_loop.py SWEEP [SWEEP ...] --loop LOOP
Cost:     predictions of the held-out rows by each completed trial, about 20 s each with MiniLM; they are kept in LOOP
Prints:   for dev and for the held-out rows: the mean scores of the loop's seeds and of each configuration's replicates,
          and the difference of the overall scores with its 95 % interval

The interval is over training (Welch's, over seeds and replicates) and over examples (a bootstrap by groups of connected
texts, the same for both). Of a trial the last epoch counts, as of the loop the last step.
"""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from mtlib.config.trial import TrialConfig
from mtlib.data.hold_out import group_rows, normalise_columns
from mtlib.data.load import read_data, read_held_out
from mtlib.data.tables import Table
from mtlib.runtime.errors import require
from mtlib.tasks import TASKS, overall_score, overall_slopes
from results.analysis.comparison.bootstrap import CONFIDENCE, bootstrap_scores, score_examples
from results.analysis.comparison.groups import independent_groups
from results.ensembles.outputs import predictions_of
from results.inference.dev_texts import data_folder
from results.inference.models import ModelSource, load_models
from results.inference.predictor import ALONE, Predictor, predict_stream
from results.inference.readers import TextRow
from results.records.selection import Member
from results.records.trials import COMPLETED, TrialRecord, read_trials

SPLITS = ("dev", "held out")
LOOP = "plain loop"
Tables = Mapping[tuple[str, str], Table]
"""By one of `SPLITS` and a task."""
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class GroupScores:
    """The scores of some models on the rows of a split."""

    means: Mapping[str, float]
    """By task, over the models."""
    overall: Floats
    """(models,)."""
    resampled: Floats
    """(resamples,): the mean overall score of the models on resampled rows."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweeps", metavar="SWEEP", type=Path, nargs="+", help="sweeps with --hold-out, of equal steps")
    parser.add_argument("--loop", metavar="LOOP", type=Path, required=True, help="folder that plain_loop.py wrote")
    options = parser.parse_args()
    trials = [(sweep, own) for sweep in options.sweeps for own in read_trials(sweep) if own.status in COMPLETED]
    require(bool(trials), "there must be a completed trial", "none")
    (steps,) = {record.steps for _, record in trials}
    tables = read_tables(TrialConfig.from_json(trials[0][1].config), data_folder(options.sweeps[0]))
    loop = pd.read_csv(options.loop / "predictions.csv", dtype={"id": str})
    loop = loop[loop["steps"] == steps].assign(group=LOOP).rename(columns={"rows": "split", "seed": "model"})
    require(len(loop) > 0, f"the plain loop must have been trained for {steps} steps, as the trials", "other steps")
    predictions = [loop, *(predictions_by(sweep, record, tables, options.loop) for sweep, record in trials)]
    for split in SPLITS:
        own = {task: table for (name, task), table in tables.items() if name == split}
        rows = ", ".join(f"{TASKS[task].title} {len(table.ids):,}" for task, table in own.items())
        print(f"\n{split}, {rows} rows, after {steps:,} steps")
        found = pd.concat(predictions)
        print_scores(own, found[found["split"] == split])


def read_tables(config: TrialConfig, folder: Path) -> Tables:
    """Dev and the held-out rows of all tasks."""
    dev = {("dev", task): table for (task, split), table in read_data(config, folder).items() if split == "dev"}
    return {**dev, **{("held out", task): table for task, table in read_held_out(config, folder).items()}}


def predictions_by(sweep: Path, record: TrialRecord, tables: Tables, folder: Path) -> pd.DataFrame:
    """A trial's predictions: split, task, id, prediction, group, model; predicted once, then read from the folder."""
    path = folder / "trials" / f"{sweep.name}-{record.trial_id}-{record.config_hash[:12]}.csv"
    if not path.exists():
        member = Member(sweep=str(sweep), trial=record.trial_id, epoch=record.epochs, weight=1.0)
        source = ModelSource(places={str(sweep): sweep}, device="cpu")
        frames = []
        for (split, task), table in tables.items():
            predictor = Predictor(task=TASKS[task], models=load_models([member], task, source), ensemble=ALONE)
            texts = zip(table.ids, zip(*table.texts, strict=True), strict=True)
            stream = predict_stream(predictor, (TextRow(id=name, texts=own, where=name) for name, own in texts))
            values = predictions_of(TASKS[task], np.concatenate([outputs for _, outputs in stream]))
            frames.append(pd.DataFrame({"split": split, "task": task, "id": table.ids, "prediction": values}))
        path.parent.mkdir(parents=True, exist_ok=True)
        pd.concat(frames).to_csv(path, index=False)
    return pd.read_csv(path, dtype={"id": str}).assign(group=f"{sweep.name}/{record.number:04d}", model=record.trial_id)


def print_scores(tables: Mapping[str, Table], predictions: pd.DataFrame) -> None:
    """Prints the scores of each group of models on the rows of a split."""
    scored = {str(group): score_group(tables, own) for group, own in predictions.groupby("group")}
    width = max(map(len, scored))
    print(f"{'':{width}}  models  {'  '.join(f'{TASKS[task].title:>5}' for task in tables)}  overall  difference")
    for group, own in sorted(scored.items(), key=lambda item: item[0] != LOOP):
        scores = "  ".join(f"{score:5.3f}" for score in own.means.values())
        overall = f"{overall_score(own.means, TASKS):7.3f}"
        print(f"{group:{width}}  {len(own.overall):6}  {scores}  {overall}  {difference_text(own, scored[LOOP])}")


def score_group(tables: Mapping[str, Table], predictions: pd.DataFrame) -> GroupScores:
    """The scores of a group of models; equal rows are resampled equally for all groups."""
    means, parts = {}, []
    slopes = overall_slopes(tables, TASKS)
    for task, table in tables.items():
        own = predictions[predictions["task"] == task].pivot(index="model", columns="id", values="prediction")
        predicted, labels = own[table.ids].to_numpy(dtype=np.float64), table.labels.astype(np.float64)
        values = predicted if TASKS[task].kind == "regression" else (predicted == labels).astype(np.float64)
        groups = independent_groups(group_rows(normalise_columns(table.texts)), len(table.ids))
        scores = score_examples(TASKS[task], values, labels)
        resampled = bootstrap_scores(TASKS[task], values, labels, groups=groups)
        means[task] = float(scores.mean())
        parts.append((slopes[task] * scores, slopes[task] * resampled.mean(axis=0)))
    overall, over_examples = (sum(part) for part in zip(*parts, strict=True))
    return GroupScores(means=means, overall=np.asarray(overall), resampled=np.asarray(over_examples))


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
    main()
