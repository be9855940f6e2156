"""Candidates that say exactly the same are one model: epochs of stages that trials share, trials taken over whole."""

import hashlib

from results.ensembles.candidates import Pool


def without_copies(pool: Pool) -> Pool:
    """The pool with one candidate of each that say the same of every example: the first whose weights were kept, or
    else the first."""
    first: dict[bytes, int] = {}
    for number, outputs in enumerate(pool.outputs):
        key = hashlib.blake2b(outputs.tobytes(), digest_size=16).digest()
        known = first.setdefault(key, number)
        if pool.candidates[number].has_weights and not pool.candidates[known].has_weights:
            first[key] = number
    return pool.only(sorted(first.values()))
