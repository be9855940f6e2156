"""Simulated sweeps: pools of candidates whose true scores are known, with errors of several structures."""

from dataclasses import dataclass, replace

import numpy as np

from mtlib.tasks import TASKS, Task
from results.ensembles.candidates import Candidate, Pool
from results.ensembles.ensemble import Ensemble, combine_outputs
from results.ensembles.outputs import Outputs, outputs_of, values_of
from results.stats.resampling import Floats, Numbers, score_examples

NUM_ROWS = {"classes": 1101, "binary": 2000, "regression": 863}
NUM_FURTHER = 50_000
SKILL = {"classes": 0.9, "binary": 0.8, "regression": 1.5}
"""Margin of the right answer, or the slope of the prediction, in standard deviations of noise."""
SHARED, SPREAD = 0.8, 0.04
"""Usual part of the noise's variance that trials share; how much their skills differ, relative to the mean skill."""
EPOCH_LOSS = 0.03
"""Share of its skill that a trial loses for each epoch away from its best one."""
NUM_FAMILIES, FAMILY = 4, 0.6
"""Of trials that err alike, and the part of the variance of their own noise that they have in common."""
HARDNESS, WRONG = 0.7, 0.04
"""Standard deviation of the logarithm of examples' difficulty, and share of examples with a random label."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A kind of sweep."""

    task: str
    num_trials: int
    metric: str = ""
    """Of `mtlib.metrics.table`; "": the task's."""
    shared: float = SHARED
    """Part of the noise's variance that trials share: near 1 they err on the same rows, and ensembles gain little."""
    num_epochs: int = 1
    has_difficulty: bool = False
    """Whether examples differ in difficulty, some have a wrong label, noise is heavy-tailed, and trials are of families
    that err alike."""
    group_size: int = 1
    """Examples in a group of connected texts, whose common noise is equal."""
    has_groups: bool = True
    """Whether the sweep has recorded the groups."""


@dataclass(frozen=True, kw_only=True)
class World:
    """Examples and the noise that all trials share; a trial's own noise follows from its number."""

    task: Task
    skills: Floats
    """(trials,)."""
    labels: Floats
    """(rows,)."""
    common: Floats
    """(rows, width)."""
    groups: Numbers
    """(rows,) group of connected texts of each example."""
    difficulty: Floats | None
    """(rows,) factor of each example's noise; None: 1."""
    shared: float
    """Part of the noise's variance that is common."""
    num_epochs: int
    seed: tuple[int, ...]

    def outputs(self, candidate: int) -> Outputs:
        """The outputs of a trial at an epoch, (rows, width); candidates are numbered by trial, then by epoch."""
        trial, epoch = divmod(candidate, self.num_epochs)
        own = self.draw(trial + 1)  # not 0: as if left out
        if self.num_epochs > 1:
            own = (own + self.draw(trial + 1, epoch + 1)) / np.sqrt(2)
        if self.difficulty is not None:
            own = np.sqrt(FAMILY) * self.draw(0, 1 + trial % NUM_FAMILIES) + np.sqrt(1 - FAMILY) * own
        noise = np.sqrt(self.shared) * self.common + np.sqrt(1 - self.shared) * own
        if self.difficulty is not None:
            noise = noise * self.difficulty[:, None]
        best = int(np.random.default_rng(trial).integers(self.num_epochs))
        skill = float(self.skills[trial]) * (1 - EPOCH_LOSS * abs(best - epoch))
        return noisy_outputs(self.task, self.labels, noise, skill)

    def draw(self, *key: int) -> Floats:
        """Noise of mean 0 and variance 1, (rows, width): t of 5 degrees of freedom where examples differ."""
        generator = np.random.default_rng((*self.seed, *key))
        if self.difficulty is None:
            return generator.standard_normal(self.common.shape)
        return np.asarray(generator.standard_t(5, self.common.shape) / np.sqrt(5 / 3))


def draw_labels(task: Task, num_rows: int, generator: np.random.Generator) -> Floats:
    """Right answers, (rows,)."""
    if task.kind == "regression":
        return np.clip(2.5 + 0.5 * generator.standard_normal(num_rows), *task.label_range)
    return generator.integers(0, task.num_classes, num_rows).astype(np.float64)


def noisy_outputs(task: Task, labels: Floats, noise: Floats, skill: float) -> Outputs:
    """Outputs of a model of some skill, (rows, width), from noise of that shape."""
    if task.kind == "regression":
        return outputs_of(task, 2.5 + 0.2 * (noise + skill * (labels[:, None] - 2.5) / 0.5))
    if task.kind == "binary":
        return outputs_of(task, noise + skill * (2 * labels[:, None] - 1))
    return outputs_of(task, noise + skill * (labels[:, None] == np.arange(task.num_classes)))


def make_world(scenario: Scenario, num_rows: int, number: int, part: int) -> World:
    """Examples of a scenario's task for a sweep's number; parts of it have different examples and the same trials."""
    task = replace(TASKS[scenario.task], metric=scenario.metric or TASKS[scenario.task].metric)
    skills = SKILL[task.kind] * (1 + SPREAD * np.random.default_rng((number, 1)).standard_normal(scenario.num_trials))
    generator, groups = np.random.default_rng((number, part)), np.arange(num_rows) // scenario.group_size
    labels = draw_labels(task, num_rows, generator)
    common = generator.standard_normal((int(groups[-1]) + 1, task.num_classes if task.kind == "classes" else 1))
    difficulty = None
    if scenario.has_difficulty:
        difficulty = np.exp(HARDNESS * generator.standard_normal(num_rows))
    return World(
        task=task,
        skills=skills,
        labels=labels,
        common=common[groups],
        groups=groups,
        difficulty=difficulty,
        shared=scenario.shared,
        num_epochs=scenario.num_epochs,
        seed=(number, part),
    )


def make_pool(world: World) -> Pool:
    """All trials at all epochs; where examples differ in difficulty, some have been given a wrong label."""
    numbers = range(len(world.skills) * world.num_epochs)
    names = [divmod(number, world.num_epochs) for number in numbers]
    return Pool(
        task=world.task,
        candidates=tuple(Candidate(sweep="s", trial=f"{n:04d}", epoch=epoch + 1, number=n) for n, epoch in names),
        ids=tuple(map(str, range(len(world.labels)))),
        labels=given_labels(world),
        outputs=np.stack([world.outputs(number) for number in numbers]),
        text_groups=world.groups,
    )


def given_labels(world: World) -> Floats:
    """(rows,) labels that scores are computed by."""
    if world.difficulty is None:
        return world.labels
    generator = np.random.default_rng((*world.seed, 0))
    others = draw_labels(world.task, len(world.labels), generator)
    return np.where(generator.random(len(world.labels)) < WRONG, others, world.labels)


def true_score(world: World, chosen: Ensemble) -> float:
    """An ensemble's score on all examples of a world."""
    outputs = np.stack([world.outputs(number) for number in chosen.members]).astype(np.float64)
    labels = given_labels(world)
    values = values_of(world.task, combine_outputs(outputs, chosen), labels)
    return float(score_examples(world.task, values[None], labels)[0])
