"""A sweep from Python on the demonstration, in two minutes on two cores: `python examples/sweep_from_python.py`."""

from sweeps.api import TrialReport, run_sweep


def print_report(report: TrialReport) -> None:
    """Prints a trial's start, epoch or end."""
    scores = " ".join(f"{name}={score:.3f}" for name, score in report.scores.items())
    print(report.trial, report.status, f"epoch={report.epoch}", scores)


outcome = run_sweep(
    vary={"smart.weight": [0, 0.5]},  # or a space: its name, the path of its file, or a SearchSpace
    set={"stages.0.epochs": 2, "stages.0.steps_per_epoch": 30},
    replicates=2,
    on_progress=print_report,
)
print(outcome.status, outcome.folder)
print(outcome.sweep.ranking()[["smart.weight", "overall", "may_be_best"]])
effects = outcome.sweep.effects()
print(effects[effects["task"] == "overall"][["key", "value", "difference", "low", "high"]])

outcome.select()
print(outcome.predict(["a fine and moving film", "a dull mess"], task="sst"))
