"""The rungs at which asynchronous successive halving (ASHA, Li et al. 2020) compares trials and stops some."""

FIRST_RUNG = 1
"""Epochs with an overall score after which trials are compared for the first time."""
REDUCTION_FACTOR = 3
"""About one in so many of the trials that reach a rung continues; the next rung is after so many times its epochs."""


def rungs_up_to(num_epochs: int) -> list[int]:
    """Returns the rungs that a trial of so many scored epochs reaches: 1, 3, 9, ..."""
    rungs, rung = [], FIRST_RUNG
    while rung <= num_epochs:
        rungs.append(rung)
        rung *= REDUCTION_FACTOR
    return rungs
