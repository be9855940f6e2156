"""The configurations of a pool that may be the best for its task, where training again would vary as well."""

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from results.ensembles.candidates import Candidate, Pool
from results.ensembles.selection_method import candidate_scores, first_of_trials
from results.records.selection import Contender
from results.stats.configuration_means import ModelScores, configuration_means, number_equal
from results.stats.covariance import covariance_over_examples, influence_values
from results.stats.looks import Looks
from results.stats.margins import confidence_set
from results.stats.texts import value_text


def find_contenders(pool: Pool, looks: Mapping[str, Looks] | None = None) -> tuple[Contender, ...]:
    """Returns the model confidence set of a task's configurations, the best first;
    empty where the variance is not known.

    A trial's score is that of its best epoch on these examples, which slightly favours those with more epochs. The pool
    includes copies, as two configurations may have equal outputs; where these are equal in all epochs, configurations
    count once. Configurations that were dropped are left out, and trials of incomplete rounds. A replicate has the same
    random streams in all sweeps of the pool only if these have the same seed.

    Args:
        pool: of one task.
        looks: at each sweep of the pool, of which the one with the most rounds decides; None: the only ones.
    """
    scores = candidate_scores(pool, np.arange(len(pool.labels)))
    ranked = first_of_trials(pool, np.argsort(-scores, kind="stable"))
    known = looks or {}
    best = [
        number for number in ranked if is_counted(pool.candidates[number], known.get(pool.candidates[number].sweep))
    ]
    if not best:
        return ()
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
    look = max((own.now for own in known.values()), key=lambda one: one.num_rounds, default=None)
    is_left = confidence_set(means, look=look).is_left
    ordered = [keys[number] for number in np.argsort(-means.means, kind="stable") if is_left[number]]
    params = {
        (trial.sweep, trial.number): {key: value_text(value) for key, value in trial.params.items()} for trial in trials
    }
    return tuple(Contender(sweep=key[0], number=key[1], params=params[key]) for key in ordered)


def is_counted(candidate: Candidate, looks: Looks | None) -> bool:
    """Returns whether a candidate is compared: it was not dropped, and its round is complete."""
    return not candidate.was_dropped and (looks is None or looks.has(candidate.number, candidate.replicate))
