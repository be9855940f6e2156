"""Rare garbage collection, by which commands and Ray's processes start faster."""

import gc

THRESHOLDS = (100_000, 50, 1000)
"""New objects before a look at the youngest, and looks before the next older ones are looked at too; Python's own are
700, 10 and 10. With these the million objects of the imports cause about ten collections."""


def collect_rarely() -> None:
    """Lets Python look for unreachable cycles rarely, for the rest of this process.

    Importing torch, transformers and Ray makes a million objects that stay. With Python's own thresholds a quarter of
    the time of these imports is spent on looking through them again and again.
    """
    gc.set_threshold(*THRESHOLDS)
