"""A sweep and a trial as trackers get them."""

from pathlib import Path

from sweeps.tracking.tracker import TrackedRun, TrackedSweep

NAME = "0003-r0"
VALUES = {"dev/sst/accuracy": 0.5, "train/sst/loss": 1.5, "epoch": 1.0}
BEST = {"best/sst": 0.5, "best/overall": 0.6}


def tracked_sweep(folder: Path) -> TrackedSweep:
    return TrackedSweep(name="mine", id="mine-1a2b", question="Which one?", folder=str(folder))


def tracked_trial(name: str = NAME) -> TrackedRun:
    settings = {"sweep": "mine", "question": "Which one?", "configuration": 3, "replicate": 0, "seed": 7}
    return TrackedRun(
        id=f"mine-1a2b-{name}",
        name=name,
        settings={**settings, "smart.weight": 0.3, "stages.0.order": ["sst", "qqp"]},
        config={"encoder": {"name": "minilm"}, "stages": [{"epochs": 2}]},
    )
