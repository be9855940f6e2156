"""Watches a race while it is trained: decides after each complete round which configurations go on."""

from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor

from results.answers.race_words import decision_line
from results.records.race import RACE_KEY, RaceRecord, race_of, race_to_json
from results.records.trials import TrialRecord, read_sweep, write_sweep


class RaceWatch:
    """The decisions of a race, made in a thread: the predictions of all its trials are read for each."""

    def __init__(self, folder: str, race: RaceRecord) -> None:
        self.race = race
        """The decisions that were made, and are on record."""
        self._folder, self._info = folder, read_sweep(folder)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="race")
        self._decision: Future[RaceRecord] | None = None

    def update(self, records: Iterable[TrialRecord]) -> list[str]:
        """Begins to decide if a round is complete that was not decided on; a line for each decision made since.

        Raises:
            ValueError: the scores cannot be compared, or predictions cannot be read.
            OSError: the storage cannot be used.
        """
        from results.stats.looks import round_to_decide  # here: it loads scipy

        if self._decision is not None:
            return self._take(self._decision) if self._decision.done() else []
        if round_to_decide(self._info, list(records), self.race) is not None:
            self._decision = self._thread.submit(decide, self._folder)
        return []

    def finish(self) -> list[str]:
        """Decides on all complete rounds now; a line for each; raises as `update`."""
        lines = [] if self._decision is None else self._take(self._decision)
        return [*lines, *self._take(self._thread.submit(decide, self._folder))]

    def _take(self, decision: "Future[RaceRecord]") -> list[str]:
        """Takes over what was decided, once it is."""
        self._decision, num_before = None, len(self.race.decisions)
        self.race = decision.result()
        return [decision_line(own) for own in self.race.decisions[num_before:]]


def decide(folder: str) -> RaceRecord:
    """Reads a sweep, decides on its complete rounds, and writes the decisions into `sweep.json`."""
    from results.sweep import load_sweep  # here: it loads pandas and statistics

    sweep = load_sweep(folder)
    race = sweep.decide_race()
    if race != race_of(sweep.info):
        info = {**sweep.info, RACE_KEY: race_to_json(race.decisions)}
        info.pop("schema_version", None)
        write_sweep(folder, info)
    return race
