"""Watches a race while it is trained: decides after each complete round which configurations go on."""

from collections.abc import Collection, Iterable
from concurrent.futures import Future, ThreadPoolExecutor

from results.answers.race_words import decision_lines
from results.records.race import RACE_KEY, RaceRecord, race_of, race_to_json
from results.records.trials import UNFINISHED, TrialRecord, read_sweep, write_sweep
from sweeps.driver.trials.table import TrialTable


class RaceWatch:
    """The decisions of a race, made in a thread: the predictions of all its trials are read for each."""

    def __init__(self, folder: str, table: TrialTable) -> None:
        """`table` gets the decisions that were made, and are on record."""
        self._table = table
        self._folder, self._info = folder, read_sweep(folder)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="race")
        self._decision: Future[RaceRecord] | None = None
        self._num_seen = 0
        """Trials that had ended when it last began to decide: what cannot be decided by them is not tried again."""

    def update(self, records: Iterable[TrialRecord]) -> list[str]:
        """Begins to decide if a round is complete that was not decided on; a line for each decision made since.

        Raises:
            ValueError: the scores cannot be compared, or predictions cannot be read.
            OSError: the storage cannot be used.
        """
        if self._decision is not None:
            return self._take(self._decision) if self._decision.done() else []
        known = list(records)
        if self.is_due(known):
            self._decision = self._thread.submit(decide, self._folder)
            self._num_seen = num_ended(known)  # last: meanwhile the searcher, in another thread, asks whether it is due
        return []

    def is_due(self, records: Iterable[TrialRecord]) -> bool:
        """Returns whether a complete round is to be decided, or is being decided."""
        from results.stats.looks import round_to_decide  # here: it loads scipy

        known = list(records)
        is_new = num_ended(known) > self._num_seen and round_to_decide(self._info, known, self._race) is not None
        return self._decision is not None or is_new

    def finish(self) -> list[str]:
        """Decides on all complete rounds now; a line for each; raises as `update`."""
        lines = [] if self._decision is None else self._take(self._decision)
        return [*lines, *self._take(self._thread.submit(decide, self._folder))]

    def _take(self, decision: "Future[RaceRecord]") -> list[str]:
        """Takes over what was decided, once it is."""
        num_before, race = len(self._race.decisions), decision.result()
        self._table.race = race
        self._decision = None  # last: the searcher, in another thread, waits until the race is there
        return decision_lines(race, num_before)

    @property
    def _race(self) -> RaceRecord:
        return self._table.race or RaceRecord()


def num_ended(records: Iterable[TrialRecord]) -> int:
    """Returns how many trials have ended."""
    return sum(record.status not in UNFINISHED for record in records)


def decide(folder: str, waiting: Collection[str] = ()) -> RaceRecord:
    """Reads a sweep, decides on its complete rounds, and writes the decisions into `sweep.json`.

    `waiting` are trials that count as not ended, as they are to be trained again.
    """
    from results.sweep import load_sweep  # here: it loads pandas and statistics

    sweep = load_sweep(folder)
    race = sweep.decide_race(waiting)
    if race != race_of(sweep.info):
        write_sweep(folder, {**sweep.info, RACE_KEY: race_to_json(race.decisions)})
    return race
