"""A check for configurations that trained the same, so that their scores say nothing about what tells them apart."""

from collections import defaultdict
from collections.abc import Hashable, Iterator

from results.answers.ranking_table import searched_values
from results.health.finding import Finding
from results.records.trials import TrialRecord
from results.stats.texts import named
from results.stats.trial_scores import equal_points
from results.sweep import Sweep


def equal_trainings(sweep: Sweep) -> Iterator[Finding]:
    """Yields each group of different configurations with the same losses and dev scores in all finished trainings, of
    which they have the same replicates."""
    points = equal_points(sweep.curves)
    trainings: dict[int, list[TrialRecord]] = defaultdict(list)
    for record in sorted(sweep.finished, key=lambda record: record.replicate):
        if record.trial_id in points:
            trainings[record.number].append(record)
    alike: dict[Hashable, dict[str, TrialRecord]] = defaultdict(dict)
    for _, own in sorted(trainings.items()):
        same = tuple((record.replicate, points[record.trial_id]) for record in own)
        alike[same].setdefault(own[0].config_hash, own[0])
    for group in alike.values():
        if len(group) > 1:
            texts = [f"{own.number:04d} ({searched_values(list(own.params), own.params)})" for own in group.values()]
            yield Finding(
                level="warning",
                what=f"{named(texts)} trained the same, with equal losses and scores in every replicate",
                advice="what tells them apart had no effect in so few steps or with the other settings; intervals "
                "count them once",
            )
