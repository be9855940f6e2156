"""The log of a trial, `trials/<trial>/log.txt`: what it did when, warnings, and the traceback of an error."""

import contextlib
import io
import logging
import traceback
from collections.abc import Iterator

import pyarrow.fs as fs

from mtlib.runtime.storage import is_file, read_bytes, write_bytes
from mtlib.runtime.workers import worker_rank
from results.records.trial_folder import log_path

LOG_FORMAT = "%(asctime)s %(message)s"


class TrialLog:
    """Collects lines and writes them, behind those of the trial's earlier attempts.

    A log that cannot be written is no error: the trial goes on.
    """

    def __init__(self, root: fs.SubTreeFileSystem, trial_id: str) -> None:
        self._root, self._path = root, log_path(trial_id, worker_rank())
        self._text = io.StringIO()
        self._earlier: bytes | None = None
        """What earlier attempts have written, once it is known."""
        self._handler = logging.StreamHandler(self._text)
        self._handler.setFormatter(logging.Formatter(LOG_FORMAT))

    @contextlib.contextmanager
    def collecting(self) -> Iterator[None]:
        """Collects warnings of all libraries while the context is open."""
        logging.captureWarnings(True)
        logging.getLogger().addHandler(self._handler)
        try:
            yield
        finally:
            logging.getLogger().removeHandler(self._handler)
            logging.captureWarnings(False)

    def add(self, line: str) -> None:
        """Adds a line with the time."""
        self._handler.handle(logging.LogRecord("trial", logging.INFO, "", 0, line, None, None))

    def add_error(self, error: BaseException) -> None:
        """Adds an error with its traceback, and writes the log."""
        self.add("".join(traceback.format_exception(error)).rstrip("\n"))
        self.write()

    def write(self) -> None:
        """Writes the log."""
        with contextlib.suppress(OSError):
            if self._earlier is None:
                self._earlier = read_bytes(self._root, self._path) if is_file(self._root, self._path) else b""
            write_bytes(self._root, self._path, self._earlier + self._text.getvalue().encode())
