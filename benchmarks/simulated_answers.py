"""What simulated trials say of simulated examples, for benchmarks of the selector: the right answer, through noise."""

import numpy as np

from mtlib.tasks import Task
from results.ensembles.outputs import Outputs, outputs_of, values_of
from results.ranking.bootstrap import Floats, score_examples

NUM_ROWS = {"classes": 1101, "binary": 2000, "regression": 863}
NUM_FURTHER = 50_000
SKILL = {"classes": 0.9, "binary": 0.8, "regression": 1.5}
"""How far the right answer is ahead of the others, or the slope of the prediction, in standard deviations of noise."""


def width_of(task: Task) -> int:
    """Of outputs."""
    return task.num_classes if task.kind == "classes" else 1


def draw_labels(task: Task, num_rows: int, generator: np.random.Generator) -> Floats:
    """Right answers, (rows,)."""
    if task.kind == "regression":
        return np.clip(2.5 + 0.5 * generator.standard_normal(num_rows), *task.label_range)
    return generator.integers(0, task.num_classes, num_rows).astype(np.float64)


def say(task: Task, labels: Floats, noise: Outputs, skill: float) -> Outputs:
    """What is said of every example by one who sees right answers through noise, (rows, width)."""
    if task.kind == "regression":
        return outputs_of(task, 2.5 + 0.2 * (noise + skill * (labels[:, None] - 2.5) / 0.5))
    if task.kind == "binary":
        return outputs_of(task, noise + skill * (2 * labels[:, None] - 1))
    return outputs_of(task, noise + skill * (labels[:, None] == np.arange(task.num_classes)))


def score(task: Task, outputs: Outputs | Floats, labels: Floats) -> float:
    """The task's main metric."""
    return float(score_examples(task, values_of(task, outputs, labels)[None], labels)[0])
