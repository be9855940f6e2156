"""How much of the scores' variance each searched key explains, as Optuna estimates it."""

from collections.abc import Mapping, Sequence
from typing import Any

from results.analysis.effects.searched_keys import SearchedKey
from results.records.trials import COMPLETED, TrialRecord

FEWEST_CONFIGURATIONS = 8
"""With fewer, nothing is estimated."""
ROUNDING = 1e-9
"""Scores that differ by less are equal."""
SEED = 0


def key_importances(records: Sequence[TrialRecord], keys: Sequence[SearchedKey], metric: str) -> dict[str, float]:
    """The share of the variance of the configurations' best scores that each key explains.

    Replicates are averaged. Keys that some configuration does not have are left out, as Optuna does.

    Args:
        records: a sweep's trials; only finished ones count.
        keys: what was searched.
        metric: `overall`, or a task's name.

    Returns:
        By key, the most important first; empty where there are fewer than `FEWEST_CONFIGURATIONS` configurations, or
        these have equal scores.

    Source: fANOVA, Hutter, Hoos and Leyton-Brown (2014), as implemented by Optuna.
    """
    import optuna  # here: nothing else of `results` needs it

    groups: dict[int, list[TrialRecord]] = {}
    for record in records:
        if record.status in COMPLETED and metric in record.best:
            groups.setdefault(record.number, []).append(record)
    values = [sum(record.best[metric] for record in group) / len(group) for group in groups.values()]
    if len(groups) < FEWEST_CONFIGURATIONS or max(values) - min(values) < ROUNDING:
        return {}
    low, size = min(values), max(values) - min(values)
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)  # it reports each new study
    try:
        study = optuna.create_study(direction="maximize")
    finally:
        optuna.logging.set_verbosity(verbosity)
    # Values are from 0 to 1: Optuna raises RuntimeError where the variance is small.
    for group, value in zip(groups.values(), values, strict=True):
        drawn = params_of(group[0].params, keys)
        domains = {key.name: distribution(key, optuna.distributions) for key in keys if key.name in drawn}
        study.add_trial(optuna.trial.create_trial(params=drawn, distributions=domains, value=(value - low) / size))
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=SEED)
    found: dict[str, float] = optuna.importance.get_param_importances(study, evaluator=evaluator)
    return found


def params_of(params: Mapping[str, Any], keys: Sequence[SearchedKey]) -> dict[str, Any]:
    """A configuration's values by key; listed ones by their position."""
    drawn = [(key, key.value_of(params)) for key in keys]
    return {key.name: key.values.index(value) if key.values else value for key, value in drawn if value is not None}


def distribution(key: SearchedKey, distributions: Any) -> Any:
    """A key's domain in Optuna's terms."""
    if key.range is None:
        return distributions.CategoricalDistribution(range(len(key.values)))
    return distributions.FloatDistribution(key.range.low, key.range.high, log=key.range.is_log)
