"""Says how many trainings of a configuration collapsed, and what it costs to repeat them."""

from collections.abc import Iterator, Sequence

from results.records.trials import TrialRecord
from results.stats.texts import searched_text
from results.stats.trial_scores import TrialScores, group_by_configuration

MAX_SENTENCES = 3
"""Configurations that have a sentence; the ranking as a frame has all collapsed trainings."""


def collapse_sentences(finished: Sequence[TrialRecord], scores: TrialScores) -> Iterator[str]:
    """Yields a sentence for each of the configurations of which most trainings collapsed.

    What it claims follows from counting alone: a training that is repeated until it has not collapsed is trained
    1 / (1 - k/n) times on average, if k of n collapse.
    """
    found = []
    for group in group_by_configuration([record for record in finished if record.trial_id in scores.constant]):
        num_collapsed = len(scores.collapsed(record.trial_id for record in group))
        if num_collapsed:
            found.append((num_collapsed / len(group), num_collapsed, len(group), group[0]))
    found.sort(key=lambda one: (-one[0], one[3].number))
    for share, num_collapsed, num_trained, own in found[:MAX_SENTENCES]:
        searched = f" ({searched_text(own.params)})" if own.params else ""
        price = ""
        if share < 1:
            price = f" Who repeats collapsed trainings trains {1 / (1 - share):.3g} times for each that learned."
        yield (
            f"{num_collapsed} of {num_trained} trainings of {own.number:04d}{searched} collapsed, and count in its "
            "scores: each gives nearly all dev rows of a task one prediction, as other trainings of it do not."
            f"{price}"
        )
