"""A search as a study of Optuna, whose figures and importances are drawn from it."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mtlib.tasks import Task, value_of
from results.records.trials import COMPLETED, TrialRecord
from results.stats.effects.searched_keys import SearchedKey
from results.stats.texts import value_text

if TYPE_CHECKING:
    from optuna import Study

FEWEST_CONFIGURATIONS = 8
"""With fewer, no importance is estimated."""
ROUNDING = 1e-9
"""Scores that differ by less are equal."""
SEED = 0
CONFIGURATION = "configuration"
"""Attribute of a trial of the study: the configuration's number, as text."""
CATEGORY_TYPES = (str, int, float, bool, type(None))
"""Types of listed values that Optuna knows."""


def search_study(
    records: Sequence[TrialRecord], keys: Sequence[SearchedKey], metric: str, tasks: Mapping[str, Task]
) -> "Study":
    """Returns a study in memory with a trial for each finished configuration, in the order in which these started.

    Args:
        records: a sweep's trials.
        keys: what was searched; listed values that are no plain ones are named by their texts.
        metric: `overall`, or a task's name. Values are means over replicates of the best scores, as they are shown.
        tasks: the definitions of the sweep's tasks.
    """
    import optuna  # here: commands that draw nothing start without it

    groups: dict[int, list[TrialRecord]] = {}
    for record in sorted(records, key=lambda record: (record.started or "", record.number, record.replicate)):
        if record.status in COMPLETED and metric in record.best:
            groups.setdefault(record.number, []).append(record)
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)  # it reports each new study
    is_loss = metric in tasks and tasks[metric].metric_entry.lower_is_better
    try:
        study = optuna.create_study(direction="minimize" if is_loss else "maximize")
    finally:
        optuna.logging.set_verbosity(verbosity)
    for group in groups.values():
        params, domains = dict[str, Any](), dict[str, Any]()
        for key in keys:
            value = key.value_of(group[0].params)
            if value is None:
                continue
            if key.range is None:
                choices = [own if isinstance(own, CATEGORY_TYPES) else value_text(own) for own in key.values]
                params[key.name] = choices[key.values.index(value)]
                domains[key.name] = optuna.distributions.CategoricalDistribution(choices)
            else:
                params[key.name] = value
                low, high, is_log = key.range.low, key.range.high, key.range.is_log
                domains[key.name] = optuna.distributions.FloatDistribution(low, high, log=is_log)
        mean = value_of(metric, sum(record.best[metric] for record in group) / len(group), tasks)
        known = {CONFIGURATION: f"{group[0].number:04d}"}
        study.add_trial(optuna.trial.create_trial(params=params, distributions=domains, value=mean, user_attrs=known))
    return study


def key_importances(study: "Study") -> dict[str, float]:
    """Returns the share of the variance of the configurations' scores that each key explains, as fANOVA estimates it.

    Returns:
        By key, the most important first, without keys that some configuration does not have; empty where there are
        fewer than `FEWEST_CONFIGURATIONS` configurations, or these have equal scores.

    Source: fANOVA, Hutter, Hoos and Leyton-Brown (2014), as implemented by Optuna.
    """
    import optuna

    values = [trial.value or 0.0 for trial in study.trials]
    if len(values) < FEWEST_CONFIGURATIONS or max(values) - min(values) < ROUNDING:
        return {}
    low, size = min(values), max(values) - min(values)
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=SEED)
    # Values are from 0 to 1: Optuna raises RuntimeError where the variance is small.
    found: dict[str, float] = optuna.importance.get_param_importances(
        study, evaluator=evaluator, target=lambda trial: ((trial.value or 0.0) - low) / size
    )
    return found
