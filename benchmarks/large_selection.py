"""Time and memory of the selector on a large sweep of random predictions.

Command:  python benchmarks/large_selection.py [--trials 200] [--epochs 10] [--rows 2000] [--folder /tmp]
Cost:     by default about 0.1 GB of disk and 1 minute on one core, of which the selection takes most
Prints:   seconds and peak memory of `python results/selector.py`, and what it chose

The task is SST, with five classes. The predictions of a trial's epochs are noise around the right class.
All outputs are in memory, 4 bytes for each candidate, example and class.
Bound: 1 GB.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

if not __package__:  # started as a script: imports begin at the project's folder, not at this one
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import numpy as np

from mtlib.runtime.storage import open_folder, write_bytes
from mtlib.tasks import TASKS
from mtlib.training.epoch_report import EpochReport, Point
from mtlib.training.evaluation import Predictions
from results.records.epochs import write_epoch
from results.records.files import write_json
from results.records.tables import write_trials
from results.records.trials import TrialRecord, write_sweep

TASK = TASKS["sst"]
BOUND_BYTES = 1e9


def report_of(epoch: int, score: float, predictions: Predictions) -> EpochReport:
    """An epoch of a task alone."""
    place = {"task": TASK.name, "split": "dev", "metric": TASK.metric}
    return EpochReport(
        epoch=epoch,
        stage=0,
        step=epoch,
        seconds=1.0,
        points=(Point(step=epoch, epoch=epoch, value=score, seconds=1.0, **place),),
        predictions=(predictions,),
        overall=None,
        is_last=False,
    )


def write_large_sweep(folder: Path, num_trials: int, num_epochs: int, num_rows: int) -> None:
    """Writes a sweep whose trials have finished; the weights of each one's last epoch are kept, as empty files."""
    root, generator = open_folder(folder), np.random.default_rng(0)
    labels = generator.integers(0, TASK.num_classes, num_rows)
    signal, ids = np.eye(TASK.num_classes)[labels], [f"row-{row}" for row in range(num_rows)]
    keys = [(f"{number:04d}-r0", epoch) for number in range(num_trials) for epoch in range(1, num_epochs + 1)]
    write_sweep(folder, {"name": folder.name, "search": "grid", "scheduler": "none"})
    for trial, epoch in keys:
        logits = generator.standard_normal((num_rows, TASK.num_classes), np.float32) + 0.8 * signal
        score = float((logits.argmax(axis=1) == labels).mean())
        predictions = Predictions(task=TASK.name, split="dev", ids=ids, labels=labels.astype(np.float32), logits=logits)
        write_epoch(root, trial, report_of(epoch, score, predictions))
    records = [
        TrialRecord(
            trial_id=f"{number:04d}-r0",
            number=number,
            config_hash=str(number),
            replicate=0,
            seed=0,
            status="complete",
            params={},
            config="{}",
        )
        for number in range(num_trials)
    ]
    write_trials(folder, records, [TASK.name])
    for record in records:
        checkpoint = f"trials/{record.trial_id}/checkpoint"
        write_json(root, f"{checkpoint}/best.json", {TASK.name: num_epochs})
        write_bytes(root, f"{checkpoint}/weights/epoch-{num_epochs:04d}.safetensors", b"")


def main() -> None:
    """Writes the sweep and times the selector."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=200, help="default: 200")
    parser.add_argument("--epochs", type=int, default=10, help="of each trial (default: 10)")
    parser.add_argument("--rows", type=int, default=2000, help="dev examples (default: 2000)")
    parser.add_argument("--folder", type=Path, help="where the sweep is written (default: the system's own)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        sweep = Path(folder, "large")
        write_large_sweep(sweep, options.trials, options.epochs, options.rows)
        start = time.monotonic()
        command = [sys.executable, "results/selector.py", str(sweep), "--task", TASK.name]
        shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        seconds = time.monotonic() - start
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    print("\n".join(line for line in shown.splitlines() if line.startswith("Chosen")))
    size = f"{options.trials:,} trials, {options.epochs} epochs, {options.rows:,} examples"
    bound = "within its bound" if most <= BOUND_BYTES else "BEYOND ITS BOUND"
    print(f"{size}: {seconds:.0f} s, {most / 1e9:.2f} GB; {bound}")


if __name__ == "__main__":
    main()
