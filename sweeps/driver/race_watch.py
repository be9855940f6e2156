"""Watches a race while it is trained: decides after each complete round which configurations go on."""

import threading
from collections.abc import Iterable

from results.answers.race_words import decision_line
from results.records.race import RACE_KEY, RaceRecord, race_to_json
from results.records.trials import TrialRecord, read_sweep, write_sweep


class RaceWatch:
    """The decisions of a race, made in a thread: the predictions of all its trials are read for each."""

    def __init__(self, folder: str, race: RaceRecord) -> None:
        self.race = race
        """The decisions that were made, and are on record."""
        self._folder = folder
        self._info = read_sweep(folder)
        self._thread: threading.Thread | None = None
        self._found = race
        self._error: BaseException | None = None

    def update(self, records: Iterable[TrialRecord]) -> list[str]:
        """Begins to decide if a round is complete that was not decided on; a line for each decision made since.

        Raises:
            ValueError: the scores cannot be compared, or predictions cannot be read.
        """
        from results.stats.looks import complete_rounds  # here: it loads scipy

        if self._thread is not None:
            if self._thread.is_alive():
                return []
            self._thread = None
            return self._take()
        info = {**self._info, RACE_KEY: race_to_json(self.race.decisions)}
        if not self.race.end and complete_rounds(info, list(records)) > max(1, self.race.num_rounds):
            self._thread = threading.Thread(target=self._decide, name="race", daemon=True)
            self._thread.start()
        return []

    def finish(self) -> list[str]:
        """Decides on all complete rounds now; a line for each; raises as `update`."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        lines = self._take()
        self._decide()
        return [*lines, *self._take()]

    def _decide(self) -> None:
        """Reads the sweep, decides, and writes the decisions into `sweep.json`; an error is kept for `_take`."""
        from results.sweep import load_sweep  # here: it loads pandas and statistics

        try:
            sweep = load_sweep(self._folder)
            found = sweep.decide_race()
            if len(found.decisions) > len(self.race.decisions):
                info = read_sweep(self._folder) | {RACE_KEY: race_to_json(found.decisions)}
                info.pop("schema_version", None)
                write_sweep(self._folder, info)
            self._found = found
        except Exception as error:  # it is raised in the driver's own thread
            self._error = error

    def _take(self) -> list[str]:
        """Takes over what the thread has decided."""
        if self._error is not None:
            raise self._error
        num_before, self.race = len(self.race.decisions), self._found
        return [decision_line(decision) for decision in self.race.decisions[num_before:]]
