"""Temperatures: without them a model that is too sure of itself drowns the others in a mean of probabilities."""

from dataclasses import replace

import numpy as np

from mtlib.tasks import Task
from results.ensembles.best_k import Method, Settings, best_epochs
from results.ensembles.candidates import Pool
from results.ensembles.ensemble import Ensemble
from results.ensembles.outputs import Outputs, logits_behind, margins_of, tempered
from results.ranking.bootstrap import Floats, Numbers

LOWEST = 0.05
"""The least temperature: a candidate that is right about every row, of few, would have 0."""
HIGHEST = 20.0
"""The greatest temperature: a candidate that is worse than chance would have infinity."""
MOST_ROUNDS = 60
"""Of Newton's method; seldom more than 10 are needed, and of 6,000 random tables none needed more than 15."""
TOLERANCE = 1e-7
"""Rounds end when no 1/T has moved by more than this share of it; what is left is of the order of its square."""


def calibrated(method: Method) -> Method:
    """The way to choose that first puts right how sure of itself each candidate is, and then does as `method` does.

    Considered are the best epochs of the best trials, `num_considered` or twice as many as there may be members,
    whichever is more; as a temperature changes no prediction, they are the same before and after. Each one's
    temperature is fitted to the rows that the method chooses by, and the ensemble keeps those of its members. What
    the method itself chooses by folds of these rows, it chooses with temperatures that were fitted to all of them: one
    number by candidate. A regression has no temperature: there it is `method` itself.

    Args:
        method: any that averages outputs.
    """

    def choose(pool: Pool, rows: Numbers, settings: Settings) -> Ensemble:
        if pool.task.kind == "regression":
            return method(pool, rows, settings)
        considered = best_epochs(pool, rows)[: max(settings.num_considered, 2 * settings.max_models)]
        shortlist = pool.only(considered)
        temperatures = find_temperatures(pool.task, shortlist.outputs[:, rows], pool.labels[rows])
        found = method(temper_pool(shortlist, temperatures), rows, settings)
        return replace(
            found,
            members=tuple(int(considered[number]) for number in found.members),
            temperatures=tuple(float(temperatures[number]) for number in found.members),
        )

    return choose


def temper_pool(pool: Pool, temperatures: Floats) -> Pool:
    """A pool of a classification whose candidates' logits are divided by temperatures, (candidates,)."""
    outputs = tempered(pool.task, pool.outputs, temperatures[:, None, None])
    return replace(pool, outputs=outputs.astype(np.float32))


def find_temperatures(task: Task, outputs: Outputs, labels: Floats) -> Floats:
    """The temperature of each candidate with which what it says makes the labels likeliest.

    With m_o the logit of a row's label less that of another answer o, the mean over rows of
    -log p(label) = log(1 + sum_o exp(-m_o / T)) is convex in 1/T: Newton's method finds its minimum, kept between
    bounds of it that it draws together, and halves them where it would leave them.

    Args:
        task: of classes, or binary.
        outputs: (candidates, rows, width); finite.
        labels: (rows,).

    Returns:
        (candidates,), from `LOWEST` to `HIGHEST`; 1 where no temperature changes anything, as for equal
        probabilities or no rows.

    Source: Guo et al. (2017), "On Calibration of Modern Neural Networks", section 4.2; the bounds are ours.
    """
    margins = margins_of(task, logits_behind(task, outputs).astype(np.float32), labels).astype(np.float64)
    assert np.isfinite(margins).all()
    inverse = np.ones(len(margins))  # 1/T
    slope, curvature = differentiate(margins, inverse)
    end = np.where(slope < 0, 1 / LOWEST, 1 / HIGHEST)
    is_between = (np.sign(differentiate(margins, end)[0]) == -np.sign(slope)) | (slope == 0)
    inverse = np.where(is_between, inverse, end)
    low, high = (np.where(is_between & (slope != 0), bound(1, end), inverse) for bound in (np.minimum, np.maximum))
    for _ in range(MOST_ROUNDS):
        step = np.divide(slope, curvature, out=np.full_like(slope, np.inf), where=curvature > 0)
        is_inside = (low <= inverse - step) & (inverse - step <= high)
        before, inverse = inverse, np.where(is_inside, inverse - step, (low + high) / 2)
        if (abs(inverse - before) <= TOLERANCE * before).all():
            break
        slope, curvature = differentiate(margins, inverse)
        low, high = np.where(slope <= 0, inverse, low), np.where(slope >= 0, inverse, high)
    return 1 / inverse


def differentiate(margins: Floats, inverse: Floats) -> tuple[Floats, Floats]:
    """First and second derivative of -log p(label), summed over rows, by 1/T.

    With p_o the probability of another answer o: -sum_o p_o m_o, and sum_o p_o m_o^2 - (sum_o p_o m_o)^2.

    Args:
        margins: m, (candidates, others, rows).
        inverse: 1/T, (candidates,).

    Returns:
        (candidates,) each.
    """
    powers = -inverse[:, None, None] * margins
    peak = np.maximum(powers.max(axis=1, keepdims=True), 0)  # no power above it: nothing overflows
    probs = np.exp(powers - peak)
    probs /= np.exp(-peak) + probs.sum(axis=1, keepdims=True)
    products = probs * margins
    means = products.sum(axis=1)  # (candidates, rows)
    return -means.sum(axis=1), (products * margins).sum(axis=(1, 2)) - (means**2).sum(axis=1)
