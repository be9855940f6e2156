"""Simulated pools: candidates of given skill whose errors are correlated to a given degree."""

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from mtlib.tasks import TASKS, Task
from results.ensembles.candidates import Candidate, Pool
from results.ensembles.outputs import outputs_of
from results.ensembles.selection_method import Choose, Settings
from results.stats.resampling import Numbers

Floats = npt.NDArray[np.float64]

SEVERAL = Task(
    name="tags",
    title="Tags",
    kind="multilabel",
    label_range=(0, 2),
    labels=("red", "green", "blue"),
    text_columns=("text",),
    label_column="tags",
)
"""A task of several labels."""
SPREAD = 0.3
"""Of labels and predictions of a regression, so small that none is clipped."""
SKILLS = (0.2, 0.7, 0.5, 0.6, 0.4, 0.65)
"""Of six trials."""
FAST = Settings(bags=3, num_steps=8, max_models=4)
NO_BAGS = replace(FAST, bags=0)
EACH_TASK = [*TASKS.values(), SEVERAL]
each_task = pytest.mark.parametrize("task", EACH_TASK, ids=[task.name for task in EACH_TASK])
few_seeds = pytest.mark.parametrize("seed", range(2))


def build_pool(
    task: Task,
    skills: Sequence[float],
    *,
    num_rows: int = 120,
    num_epochs: int = 1,
    correlation: float = 0.5,
    seed: int = 0,
) -> Pool:
    """Candidates that see the label, times their skill, through noise of variance 1.

    Args:
        task: which task; every class is as likely as another, labels of a regression are normal.
        skills: one for each trial; 0: labels are unknown to it.
        num_rows: how many examples.
        num_epochs: candidates of each trial; a half of a trial's own noise is the same in all of them.
        correlation: share of the noise's variance that all trials have in common, 0 to 1.
        seed: equal seeds give equal pools.
    """
    random = np.random.default_rng(seed)
    signal, labels = draw_labels(task, num_rows, random)
    common = random.normal(size=signal.shape)
    logits = []
    for skill in skills:
        own = random.normal(size=signal.shape)
        for _ in range(num_epochs):
            epoch = (own + random.normal(size=signal.shape)) / np.sqrt(2) if num_epochs > 1 else own
            logits.append(skill * signal + np.sqrt(correlation) * common + np.sqrt(1 - correlation) * epoch)
    shown = np.stack(logits) if task.kind != "regression" else 2.5 + SPREAD * np.stack(logits)
    return pool_of(task, outputs_of(task, shown), labels, num_epochs=num_epochs)


def draw_labels(task: Task, num_rows: int, random: np.random.Generator) -> tuple[Floats, Floats]:
    """The signal of each example, (rows, logits), and its label, (rows,), or labels, (rows, num_classes)."""
    if task.kind == "regression":
        signal = random.normal(size=(num_rows, 1))
        return signal, 2.5 + SPREAD * signal[:, 0]
    if task.kind_entry.has_several_labels:
        chosen = random.integers(0, 2, (num_rows, task.num_classes)).astype(np.float64)
        return 2 * chosen - 1, chosen
    classes = random.integers(0, task.num_classes, num_rows)
    shown = np.eye(task.num_classes)[classes] if task.kind == "classes" else 2.0 * classes[:, None] - 1
    return np.asarray(shown), classes.astype(np.float64)


def pool_of(task: Task, outputs: npt.ArrayLike, labels: npt.ArrayLike, *, num_epochs: int = 1) -> Pool:
    """A pool of given outputs, (candidates, rows, width), or without the width where it is 1."""
    values = np.asarray(outputs, dtype=np.float32)
    if values.ndim == 2:
        values = values[:, :, None]
    names = [divmod(number, num_epochs) for number in range(len(values))]
    return Pool(
        task=task,
        candidates=tuple(
            Candidate(sweep="sweep", trial=f"{trial:04d}-r0", epoch=epoch + 1, number=trial) for trial, epoch in names
        ),
        ids=tuple(f"example-{row}" for row in range(values.shape[1])),
        labels=np.asarray(labels, dtype=np.float64),
        outputs=values,
    )


def keeping(pool: Pool, kept: Collection[int]) -> Pool:
    """The pool in which only these candidates, by number, have weights."""
    found = (replace(candidate, has_weights=number in kept) for number, candidate in enumerate(pool.candidates))
    return replace(pool, candidates=tuple(found))


def peeks(method: Choose, pool: Pool, rows: Numbers, settings: Settings) -> bool:
    """Whether a method's selection on some rows changes with the labels of other rows."""
    others = np.setdiff1d(np.arange(len(pool.labels)), rows)
    chosen = method(pool, rows, settings)
    for best in range(len(pool.candidates)):
        labels = pool.labels.copy()
        labels[others] = labels_by(pool, best)[others]
        if method(replace(pool, labels=labels), rows, settings) != chosen:
            return True
    return False


def labels_by(pool: Pool, candidate: int) -> Floats:
    """Labels that one candidate always predicts."""
    return pool.task.kind_entry.predict(pool.outputs[candidate])
