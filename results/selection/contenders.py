"""The configurations of a pool that may be the best for its task, where training again would vary as well."""

from collections import defaultdict

import numpy as np

from results.ensembles.candidates import Pool
from results.ensembles.selection_method import candidate_scores, first_of_trials
from results.records.selection import Contender
from results.stats.configuration_means import ModelScores, configuration_means, number_equal
from results.stats.covariance import covariance_over_examples, influence_values
from results.stats.margins import confidence_set
from results.stats.texts import value_text


def find_contenders(pool: Pool) -> tuple[Contender, ...]:
    """The model confidence set of a task's configurations, the best first; empty where the variance is not known.

    A trial's score is that of its best epoch on these examples, which slightly favours those with more epochs. The pool
    includes copies, as two configurations may have equal outputs; where these are equal in all epochs, configurations
    count once. Configurations that were dropped are left out. A replicate has the same random streams in all sweeps of
    the pool only if these have the same seed.
    """
    scores = candidate_scores(pool, np.arange(len(pool.labels)))
    ranked = first_of_trials(pool, np.argsort(-scores, kind="stable"))
    best = [number for number in ranked if not pool.candidates[number].was_dropped]
    trials = [pool.candidates[number] for number in best]
    keys = list(dict.fromkeys((trial.sweep, trial.number) for trial in trials))
    outputs: dict[tuple[str, str], list[bytes]] = defaultdict(list)
    for candidate, digest in zip(pool.candidates, pool.digests, strict=True):
        outputs[candidate.sweep, candidate.trial].append(digest)
    influence = influence_values(pool.task, pool.values[best].astype(np.float64), pool.labels)
    means = configuration_means(
        ModelScores(
            configurations=np.array([keys.index((trial.sweep, trial.number)) for trial in trials]),
            replicates=np.unique([trial.replicate for trial in trials], return_inverse=True)[1],
            scores=scores[best],
            covariance=covariance_over_examples(influence, pool.groups),
            trainings=number_equal([tuple(outputs[trial.sweep, trial.trial]) for trial in trials]),
        )
    )
    if not means.has_replicates:
        return ()
    is_left = confidence_set(means).is_left
    ordered = [keys[number] for number in np.argsort(-means.means, kind="stable") if is_left[number]]
    params = {
        (trial.sweep, trial.number): {key: value_text(value) for key, value in trial.params.items()} for trial in trials
    }
    return tuple(Contender(sweep=key[0], number=key[1], params=params[key]) for key in ordered)
