"""Says how many trainings of a configuration collapsed, and what it costs to repeat them."""

from collections.abc import Iterator, Sequence

from mtlib.metrics.constant_prediction import collapsed_trials
from mtlib.runtime.command_line import counted
from results.records.trials import TrialRecord
from results.stats.texts import searched_text
from results.stats.trial_scores import TrialScores, group_by_configuration

MAX_SENTENCES = 3
"""Configurations that have a sentence each: those that collapse most often."""


def collapse_sentences(finished: Sequence[TrialRecord], scores: TrialScores) -> Iterator[str]:
    """Yields a sentence for each configuration of which some training collapsed, the worst first.

    What the sentence claims follows from counting alone: a training that is repeated until it has not collapsed is
    trained 1 / (1 - k/n) times on average, if k of n collapse.
    """
    found = []
    for group in group_by_configuration([record for record in finished if record.trial_id in scores.constant]):
        collapsed = collapsed_trials({record.trial_id: scores.constant[record.trial_id] for record in group})
        if collapsed:
            found.append((len(collapsed), len(group), group[0]))
    found.sort(key=lambda one: (-one[0] / one[1], one[2].number))
    for num_collapsed, num_trained, own in found[:MAX_SENTENCES]:
        searched = f" ({searched_text(own.params)})" if own.params else ""
        times = num_trained / (num_trained - num_collapsed)
        yield (
            f"{num_collapsed} of {num_trained} trainings of {own.number:04d}{searched} collapsed: they give nearly all "
            "dev rows of a task one prediction, unlike its other trainings. They count in its scores; who repeats "
            f"collapsed trainings pays {times:.3g} times."
        )
    if len(found) > MAX_SENTENCES:
        yield f"Trainings of {counted(len(found) - MAX_SENTENCES, 'further configuration')} collapsed too."
