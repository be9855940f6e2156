"""Temperature scaling: an overconfident model would otherwise dominate a mean of probabilities."""

from dataclasses import replace

import numpy as np
from scipy.optimize import brentq
from scipy.special import softmax

from mtlib.tasks import Task
from results.ensembles.candidates import Pool
from results.ensembles.ensemble import Ensemble
from results.ensembles.outputs import Outputs, logits_behind, margins_of, tempered
from results.ensembles.selection_method import Choose, Settings, best_candidates
from results.stats.resampling import Floats, Numbers

LOWEST = 0.05
"""The lowest temperature; a candidate that is right on all of a few rows would have 0."""
HIGHEST = 20.0
"""The highest temperature; a candidate that is worse than chance would have infinity."""
INVERSE_TOLERANCE = 1e-9
"""Absolute tolerance of 1/T, which is at least 1/20."""


def calibrated(method: Choose) -> Choose:
    """Returns a selection method on candidates whose logits have been divided by a fitted temperature.

    The best `num_considered` trials are considered, or `2 * max_models` if that is more; a temperature changes no
    prediction, so that they are the same without it. Each candidate's temperature is fitted to the rows that the method
    chooses by, including those that it holds out in its inner folds. For a regression this is `method` itself.
    """

    def choose(pool: Pool, rows: Numbers, settings: Settings) -> Ensemble:
        if pool.task.is_regression:
            return method(pool, rows, settings)
        considered = best_candidates(pool, rows)[: max(settings.num_considered, 2 * settings.max_models)]
        shortlist = pool.only(considered)
        temperatures = find_temperatures(pool.task, pool.outputs[considered][:, rows], pool.labels[rows])
        found = method(temper_pool(shortlist, temperatures), rows, settings)
        return replace(
            found,
            members=tuple(int(considered[number]) for number in found.members),
            temperatures=tuple(float(temperatures[number]) for number in found.members),
        )

    return choose


def temper_pool(pool: Pool, temperatures: Floats) -> Pool:
    """Returns a pool of a classification whose candidates' logits are divided by temperatures, (candidates,)."""
    outputs = tempered(pool.task, pool.outputs[np.arange(len(temperatures))], temperatures[:, None, None])
    return replace(pool, outputs=outputs.astype(np.float32))


def find_temperatures(task: Task, outputs: Outputs, labels: Floats) -> Floats:
    """Returns the temperature of each candidate that maximises the likelihood of the labels.

    With m_o the logit of a row's label less that of another answer o, -log p(label) = log(1 + sum_o exp(-m_o / T)) is
    convex in 1/T, so that its slope has one root. Of several labels each is an observation of its own.

    Args:
        task: no regression.
        outputs: (candidates, rows, width); finite.
        labels: (rows,).

    Returns:
        (candidates,), from `LOWEST` to `HIGHEST`; 1 where no temperature changes anything, as for equal
        probabilities or no rows.

    Source: Guo et al. (2017), "On Calibration of Modern Neural Networks", section 4.2; the bounds are ours.
    """
    margins = margins_of(task, logits_behind(task, outputs).astype(np.float32), labels).astype(np.float64)
    assert np.isfinite(margins).all()
    if task.kind_entry.has_several_labels:
        margins = margins.reshape(len(margins), 1, -1)
    return np.array([find_temperature(own) for own in margins])


def find_temperature(margins: Floats) -> float:
    """Returns the temperature of one candidate from its margins m, (others, rows)."""
    with_label = np.concatenate([np.zeros_like(margins[:1]), margins])  # the label's own margin is 0

    def slope(inverse: float) -> float:
        """Returns the derivative of -log p(label), summed over rows, by 1/T: -sum_o p_o m_o."""
        return -float((softmax(-inverse * with_label, axis=0) * with_label).sum())

    if slope(1.0) == 0:
        return 1.0
    if slope(1 / LOWEST) <= 0:
        return LOWEST
    if slope(1 / HIGHEST) >= 0:
        return HIGHEST
    return 1 / float(brentq(slope, 1 / HIGHEST, 1 / LOWEST, xtol=INVERSE_TOLERANCE))
