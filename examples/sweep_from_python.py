"""A sweep from Python on the demonstration, in two minutes on two cores: `python examples/sweep_from_python.py`."""

from sweeps.api import run_sweep

outcome = run_sweep(
    vary={"smart.weight": [0, 0.5]},  # or a space: its name, or the path of its file
    set={"stages.0.epochs": 2, "stages.0.steps_per_epoch": 30},
    replicates=2,
)
print(outcome.status, outcome.folder)
print(outcome.sweep.ranking()[["smart.weight", "overall", "may_be_best"]])
effects = outcome.sweep.effects()
print(effects[effects["task"] == "overall"][["key", "value", "difference", "low", "high"]])

outcome.select()
print(outcome.predict(["a fine and moving film", "a dull mess"], task="sst"))
