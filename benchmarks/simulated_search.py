"""A simulated space, dev sets and trials for `benchmarks/search_optimism.py`, whose text says how they come about."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.simulated_answers import NUM_FURTHER, NUM_ROWS, SKILL, draw_labels, say, score, width_of
from mtlib.tasks import Task
from results.ensembles.ensemble import Ensemble, combine_outputs
from results.ensembles.outputs import Outputs
from results.ranking.bootstrap import Floats

NUM_EPOCHS = 6
OWN, OF_EPOCH = 0.1, 0.4
"""Part of the noise's variance that is a trial's own, and the part of that which is new in each epoch."""
LENGTH_SCALE = 1 / 3
NUM_WAVES = 64
"""Random Fourier features that make the smooth noise: a cosine and a sine of each (Rahimi and Recht 2007)."""
STEEPNESS, BEHIND = 0.5, 0.3
"""Part of the skill that is lost at a mean squared distance of 1 from the optimum, and that the first epoch lacks."""


@dataclass(frozen=True, kw_only=True)
class Space:
    """How skill and noise vary with hyper-parameters."""

    optimum: Floats
    """(important,): where skill is highest; the hyper-parameters after these do not matter."""
    waves: Floats
    """(waves, hyper-parameters)."""
    smooth: float
    """Part of the noise's variance that is smooth."""

    def skill(self, task: Task, point: Floats, epoch: int) -> float:
        """How well a configuration sees after an epoch, from 1."""
        lost = STEEPNESS * np.mean((point[: len(self.optimum)] - self.optimum) ** 2)
        reached = 1 - BEHIND * np.exp(-(0.4 + 0.8 * point[0]) * (epoch - 1))
        return float(SKILL[task.kind] * (1 - lost) * reached)

    def features(self, point: Floats) -> Floats:
        """A vector of length 1; the product of two is the correlation of the smooth noise at their points."""
        angles = self.waves @ point
        return np.asarray(np.concatenate([np.cos(angles), np.sin(angles)]) / np.sqrt(NUM_WAVES))


@dataclass(frozen=True, kw_only=True)
class Dev:
    """A task's dev examples, and the noise that is no trial's own."""

    task: Task
    labels: Floats
    """(rows,)."""
    common: Outputs
    """(rows, width)."""
    smooth: Outputs
    """(features, rows * width)."""


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """A trial after an epoch."""

    trial: int
    epoch: int
    point: Floats
    outputs: Mapping[str, Outputs]
    """By task, (rows, width)."""


def make_space(smooth: float, generator: np.random.Generator) -> Space:
    """A space of 3 to 6 hyper-parameters."""
    size = int(generator.integers(3, 7))
    waves = generator.standard_normal((NUM_WAVES, size)) / LENGTH_SCALE
    return Space(optimum=generator.uniform(0.1, 0.9, size // 2), waves=waves, smooth=smooth)


def make_dev(task: Task, generator: np.random.Generator) -> Dev:
    """Examples of a task."""
    shape = (NUM_ROWS[task.kind], width_of(task))
    smooth = generator.standard_normal((2 * NUM_WAVES, shape[0] * shape[1]), np.float32)
    common = generator.standard_normal(shape, np.float32)
    return Dev(task=task, labels=draw_labels(task, shape[0], generator), common=common, smooth=smooth)


def train(space: Space, devs: Sequence[Dev], point: Floats, number: int, seed: int) -> Iterator[Epoch]:
    """A trial, epoch by epoch."""
    generator = np.random.default_rng((seed, 1, number))
    features, own, shared = space.features(point).astype(np.float32), [], []
    for dev in devs:
        smooth = (features @ dev.smooth).reshape(dev.common.shape)
        shared.append(np.sqrt(1 - OWN - space.smooth) * dev.common + np.sqrt(space.smooth) * smooth)
        own.append(generator.standard_normal(dev.common.shape, np.float32))
    for epoch in range(1, NUM_EPOCHS + 1):
        outputs = {}
        for dev, before, lasting in zip(devs, shared, own, strict=True):
            new = generator.standard_normal(lasting.shape, np.float32)
            noise = before + np.sqrt(OWN) * (np.sqrt(1 - OF_EPOCH) * lasting + np.sqrt(OF_EPOCH) * new)
            outputs[dev.task.name] = say(dev.task, dev.labels, noise, space.skill(dev.task, point, epoch))
        yield Epoch(trial=number, epoch=epoch, point=point, outputs=outputs)


def true_score(space: Space, task: Task, members: Sequence[Epoch], chosen: Ensemble, seed: int) -> float:
    """The score of an ensemble of different trials on further examples, on which their noise correlates as on dev."""
    generator = np.random.default_rng((seed, 2))
    labels = draw_labels(task, NUM_FURTHER, generator)
    features = np.stack([space.features(member.point) for member in members])
    covariance = 1 - OWN - space.smooth + space.smooth * features @ features.T + OWN * np.eye(len(members))
    drawn = generator.standard_normal((NUM_FURTHER * width_of(task), len(members)), np.float32)
    noise = (drawn @ np.linalg.cholesky(covariance).T.astype(np.float32)).T.reshape(len(members), NUM_FURTHER, -1)
    skills = [space.skill(task, member.point, member.epoch) for member in members]
    outputs = np.stack([say(task, labels, *pair) for pair in zip(noise, skills, strict=True)]).astype(np.float64)
    return score(task, combine_outputs(task, outputs, chosen), labels)
