"""Are chosen ensembles really better on rows held out, and does the expected score hold?

Command:  python benchmarks/held_out_ensembles.py SWEEP [SWEEP ...] --output FOLDER
Cost:     each member predicts the held-out rows: about 10 s a model with MiniLM on 2 CPU cores
Prints:   per sweep and task, of the automatic choice: the expected score with its interval and the score on the
          held-out rows; the lead over the best single model, expected and on the held-out rows, with 95 % intervals;
          then over all: how often it was better, by how much, and how often the two scores agree
Writes:   FOLDER/SWEEP.csv, from which a repeated command reads; FOLDER/calibration.html

The sweeps must have been run with `--hold-out`. An expected score and the score on held-out rows both have errors, over
dev examples and over held-out rows: they agree where their difference is within 1.96 times its standard error. Scores
that are used for further choices are not unbiased any more.
"""

import argparse
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import plotly.graph_objects as go
from scipy import stats

from mtlib.data.load import read_held_out
from mtlib.runtime.command_line import run_command
from mtlib.tasks import Task
from results.ensembles.methods import AUTOMATIC, SINGLE
from results.ensembles.outputs import values_of
from results.figures.draw import Panel, axis, figure_of, series
from results.inference.models import ModelSource
from results.inference.predictor import load_predictor
from results.records.examples import read_hold_out
from results.records.selection import Selection
from results.records.trials import read_sweep
from results.selection.hold_out_score import predict_table, read_held_out_rows
from results.selection.select_all import SelectionRequest, select_from
from results.stats.groups import text_groups_of
from results.stats.resampling import CONFIDENCE, bootstrap_scores, percentile_interval, score_examples


def main() -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweeps", metavar="SWEEP", type=Path, nargs="+")
    parser.add_argument("--output", metavar="FOLDER", type=Path, required=True)
    options = parser.parse_args()
    return run_command(lambda: measure(options.sweeps, options.output))


def measure(sweeps: Sequence[Path], folder: Path) -> None:
    """Prints the choices of sweeps beside their scores on held-out rows, and writes them and their plot to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {sweep: folder / f"{sweep.name}.csv" for sweep in sweeps}
    missing = [sweep for sweep, path in paths.items() if not path.exists()]
    for sweep in missing:
        read_sweep(sweep)
        read_hold_out(sweep)  # it must have held rows out: the choice takes minutes
    frames = []
    for sweep, path in paths.items():
        if sweep in missing:
            pd.DataFrame(measure_sweep(sweep.absolute())).to_csv(path, index=False)
        frames.append(pd.read_csv(path).assign(sweep=sweep.name))
        print_frame(frames[-1])
    found = pd.concat(frames, ignore_index=True)
    for line in summary_lines(found):
        print(line)
    calibration_figure(found).write_html(folder / "calibration.html")
    print(f"Written: {folder / 'calibration.html'}")


def measure_sweep(sweep: Path) -> list[dict[str, object]]:
    """A row for each task of a sweep."""
    single, best = (
        select_from(SelectionRequest(sweeps=[sweep], method=name), on_progress=print) for name in (SINGLE, AUTOMATIC)
    )
    source, read = ModelSource(places={str(sweep): sweep}, device="cpu"), cache(read_held_out)
    rows = []
    for name, task in single.definitions.items():
        table = read_held_out_rows(single, name, source, None, read)
        labels = table.labels.astype(np.float64)
        outputs = [predict_table(load_predictor(own, name, source), table) for own in (single, best)]
        values = np.stack([values_of(task, own, labels) for own in outputs])
        scores = score_examples(task, values, labels)
        resampled = bootstrap_scores(task, values, labels, groups=text_groups_of(table))
        rows.append(row_of(best, task, scores, resampled))
    return rows


def row_of(
    selection: Selection, task: Task, scores: npt.NDArray[np.float64], resampled: npt.NDArray[np.float64]
) -> dict[str, object]:
    """What was expected of a method's choice and what was found; `scores` and `resampled` are of single and of it."""
    chosen = selection.tasks[task.name]
    expected, lead = chosen.score, resampled[1] - resampled[0]
    bounds = {
        "expected": expected.interval,
        "held_out": percentile_interval(resampled[1]),
        "expected_lead": expected.lead_interval,
        "held_out_lead": percentile_interval(lead),
    }
    values = {
        "expected": expected.cross_fitted,
        "held_out": scores[1],
        "expected_lead": expected.lead,
        "held_out_lead": scores[1] - scores[0],
    }
    row: dict[str, object] = {"task": task.title, "method": chosen.method, "models": len(chosen.members)}
    for name, value in values.items():
        low, high = bounds[name]
        row.update({name: float(value), f"{name}_low": float(low), f"{name}_high": float(high)})
    errors = {"expected_error": expected.standard_error, "held_out_error": float(resampled[1].std(ddof=1))}
    return {**row, **errors}


def agrees(found: pd.DataFrame) -> pd.Series:
    """Whether the expected score and the score on held-out rows differ by no more than chance over both explains."""
    most = stats.norm.ppf((1 + CONFIDENCE) / 2) * np.hypot(found["expected_error"], found["held_out_error"])
    is_close: pd.Series = (found["held_out"] - found["expected"]).abs() <= most
    return is_close


def print_frame(found: pd.DataFrame) -> None:
    """Prints a sweep's rows."""
    shown = pd.DataFrame(
        {
            **{name: found[name] for name in ("sweep", "task", "method", "models")},
            **{
                name.replace("_", " "): [
                    f"{row[name]:.3f} ({row[f'{name}_low']:.3f} to {row[f'{name}_high']:.3f})"
                    for row in found.to_dict("records")
                ]
                for name in ("expected", "held_out", "expected_lead", "held_out_lead")
            },
        }
    )
    print(shown.to_string(index=False), flush=True)


def summary_lines(found: pd.DataFrame) -> list[str]:
    """Counts and means over all sweeps and tasks."""
    leads, expected = found["held_out_lead"], found["expected_lead"]
    is_ensemble = found["models"] > 1
    count = int(is_ensemble.sum())
    error = f" ± {leads[is_ensemble].std(ddof=1) / np.sqrt(count):.4f}" if count > 1 else ""
    return [
        f"{len(found)} choices, {count} of them of more than one model",
        f"Of these {(leads[is_ensemble] > 0).sum()} were better on held-out rows than the best single model, by "
        f"{leads[is_ensemble].mean():+.4f}{error} on average; expected were {expected[is_ensemble].mean():+.4f}",
        f"Held-out scores agree with the expected ones in {agrees(found).sum()} of {len(found)}; on average they are "
        f"{(found['held_out'] - found['expected']).mean():+.4f} from them",
    ]


def calibration_figure(found: pd.DataFrame) -> go.Figure:
    """Scores on held-out rows against expected ones, a panel for each task."""
    panels = []
    for title, own in found.groupby("task", sort=False):
        ends = own[["expected", "held_out", "held_out_low", "held_out_high"]].to_numpy()
        span = (float(ends.min()) - 0.01, float(ends.max()) + 0.01)
        traces = [series(span, span, mode="lines", name="equal", dash="dash", is_faint=True)]
        for style, name in enumerate(dict.fromkeys(own["sweep"])):
            x, y, low, high = (
                own.loc[own["sweep"] == name, column].tolist()
                for column in ("expected", "held_out", "held_out_low", "held_out_high")
            )
            traces.append(series(x, y, low=low, high=high, name=str(name), style=style))
        panels.append(
            Panel(str(title), axis("expected score", ends=span), axis("score on held-out rows", ends=span), traces)
        )
    return figure_of(
        name="calibration",
        title="Do expected scores hold?",
        caption="Scores on held-out rows, with 95 % intervals over these rows, against cross-fitted expected scores.",
        panels=panels,
    )


if __name__ == "__main__":
    sys.exit(main())
