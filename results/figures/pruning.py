"""Charts of what a search stopped early: how far trials were trained, and the rungs of successive halving."""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from mtlib.runtime.command_line import counted
from mtlib.tasks import Task, score_of, title_of, value_of
from results.figures.chart import Axis, Bars, Chart, Panel, Series
from results.figures.hover import trial_text
from results.figures.search import by_kind
from results.records.rungs import REDUCTION_FACTOR, rungs_up_to
from results.records.trials import OVERALL, TrialRecord

KEPT, STOPPED = "not stopped", "stopped here"


def pruning_chart(records: Sequence[TrialRecord]) -> Chart:
    """After how many epochs trials ended, and why."""
    trained = [record for record in records if record.epochs > 0]
    counts = {kind: Counter(record.epochs for record in group) for kind, group in by_kind(trained).items()}
    epochs = sorted({record.epochs for record in trained})
    names = [str(epoch) for epoch in epochs]
    marks = [
        Bars(
            categories=names,
            values=[by_epoch[epoch] for epoch in epochs],
            name=kind,
            hover=[f"{counted(by_epoch[epoch], 'trial')} {kind}\nafter epoch {epoch}" for epoch in epochs],
            style=style,
        )
        for style, (kind, by_epoch) in enumerate(counts.items())
        if by_epoch
    ]
    rows = [(kind, epoch, by_epoch[epoch]) for kind, by_epoch in counts.items() for epoch in sorted(by_epoch)]
    x = Axis(title="epochs trained", scale="category", categories=names)
    return Chart(
        name="pruning",
        title="How far trials were trained",
        caption="Trials by the number of their last epoch.",
        panels=[Panel(x=x, y=Axis(title="trials"), marks=marks)] if marks else [],
        frame=pd.DataFrame(rows, columns=["trials", "epochs", "count"]),
    )


def rungs_chart(records: Sequence[TrialRecord], curves: pd.DataFrame, tasks: Mapping[str, Task], metric: str) -> Chart:
    """The scores by which successive halving compared the trials at each rung, and which ones it stopped there."""
    rows, hover = [], []
    for record, bests in bests_by_scored_epoch(records, curves, tasks, metric):
        for rung in rungs_up_to(len(bests)):
            is_stopped = record.status == "pruned" and len(bests) == rung
            value = value_of(metric, bests[rung - 1], tasks)
            rows.append((record.trial_id, str(rung), STOPPED if is_stopped else KEPT, value))
            hover.append(trial_text(record, f"best {title_of(metric, tasks)} {value:.3f} at rung {rung}"))
    frame = pd.DataFrame(rows, columns=["trial", "rung", "decision", metric])
    marks = [
        Series(
            x=group["rung"].tolist(),
            y=group[metric].tolist(),
            hover=[hover[row] for row in group.index],
            name=name,
            style=style,
        )
        for style, name in enumerate((KEPT, STOPPED))
        if len(group := frame[frame["decision"] == name])
    ]
    rungs = sorted(frame["rung"].unique(), key=int)
    x = Axis(title="epochs with an overall score", scale="category", categories=rungs)
    return Chart(
        name="rungs",
        title="Rungs",
        caption="After so many epochs asynchronous successive halving (ASHA) compares the best score of a trial with "
        f"those of the trials that were there before it, and lets about one in {REDUCTION_FACTOR} continue. A trial "
        f"that ends there anyway is not stopped, and replicates are not compared. {rung_counts(frame)}",
        panels=[Panel(x=x, y=Axis(title=title_of(metric, tasks)), marks=marks)] if marks else [],
        frame=frame,
    )


def rung_counts(frame: pd.DataFrame) -> str:
    """How many trials reached each rung and were stopped there, in a sentence."""
    reached, stopped = (Counter(rows["rung"]) for rows in (frame, frame[frame["decision"] == STOPPED]))
    return f"Stopped: {', '.join(f'{stopped[rung]} of {reached[rung]} at {rung}' for rung in reached)}."


def bests_by_scored_epoch(
    records: Sequence[TrialRecord], curves: pd.DataFrame, tasks: Mapping[str, Task], metric: str
) -> Iterator[tuple[TrialRecord, list[float]]]:
    """Each first training with its best scores so far, at the epochs with an overall score, which the rungs count."""
    is_overall = (curves["task"] == OVERALL) & (curves["split"] == "dev")
    counted = set(zip(curves["trial"][is_overall], curves["epoch"][is_overall], strict=True))
    own_metric = tasks[metric].metric if metric in tasks else OVERALL
    wanted = (curves["task"] == metric) & (curves["split"] == "dev") & (curves["metric"] == own_metric)
    scores: dict[str, list[float]] = {}
    points = curves[wanted].sort_values("epoch")[["trial", "epoch", "value"]]
    for trial, epoch, value in points.itertuples(index=False):
        if (trial, epoch) in counted:
            scores.setdefault(trial, []).append(score_of(metric, value, tasks))
    for record in records:
        if record.replicate == 0 and record.trial_id in scores:
            yield record, list(itertools.accumulate(scores[record.trial_id], max))
