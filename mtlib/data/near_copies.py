"""Finds texts that are nearly equal, by MinHash and locality-sensitive hashing, so that they can be kept together."""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from mtlib.data.hold_out import letters_of, normalise
from mtlib.data.tables import Table
from mtlib.runtime.console import show_note
from mtlib.runtime.errors import first_line, require

DEFAULT_SIMILARITY = 0.8
"""Jaccard similarity from which two texts are near copies: of a question of 60 letters one short word may differ."""
SHINGLE_LETTERS = 5
"""Length of the pieces by which texts are compared. Source: Leskovec, Rajaraman and Ullman 2014, "Mining of Massive
Datasets", 3.2.2, where short documents have pieces of 5 characters."""
NUM_HASHES = 128
"""Minimal hashes of each text: 512 bytes in memory."""
MISSED_WEIGHT = 0.9
"""Weight of missing a pair where bands are chosen, beside that of comparing one in vain, which costs time alone. Of the
pairs of Quora's questions from 0.8 on, 1.5 % were missed, all but two of them below 0.86 (73,532 questions)."""
NOTE_TEXTS = 100_000
"""Texts after which a line says how far it is."""


def find_near_copies(texts: Iterable[str], similarity: float) -> dict[str, int]:
    """Returns the number, from 1, of the set of near copies of each normalised text that has one.

    Texts whose letters and digits are equal are near copies, and those whose pieces of `SHINGLE_LETTERS` letters have a
    Jaccard similarity of at least `similarity`; so are two near copies of a third. Each pair is compared exactly, but
    some pairs are never compared: hashing misses few that are far more similar.

    Args:
        texts: in any spelling; equal ones count once.
        similarity: from 0.1 to 0.99.

    Raises:
        ValueError: the library datasketch is missing, or the similarity is out of range.
    """
    require(0.1 <= similarity <= 0.99, "--similarity must be from 0.1 to 0.99", similarity)
    spellings = defaultdict[str, list[str]](list)
    for text in dict.fromkeys(map(normalise, texts)):
        spellings[letters_of(text)].append(text)
    letters = list(spellings)
    sets = connected_sets(letters, similarity)
    copies = defaultdict[int, list[str]](list)
    for own, number in zip(letters, sets, strict=True):
        copies[number] += spellings[own]
    several = (own for own in copies.values() if len(own) > 1)
    return {text: number for number, own in enumerate(several, 1) for text in own}


def connected_sets(letters: Sequence[str], similarity: float) -> list[int]:
    """Returns the number of one text of each text's set, which near copies connect."""
    from scipy.cluster.hierarchy import DisjointSet  # only this needs it, and it takes long to import

    sets = DisjointSet(range(len(letters)))
    for rows in alike_rows(letters, similarity):
        parts: list[list[int]] = []  # the rows of each set
        for row in rows:
            pieces, near, far = shingles_of(letters[row]), list[list[int]](), list[list[int]]()
            for part in parts:
                is_near = sets.connected(part[0], row) or any(
                    jaccard(pieces, shingles_of(letters[other])) >= similarity for other in part
                )
                (near if is_near else far).append(part)
            for part in near:
                sets.merge(part[0], row)
            parts = [*far, [row, *itertools.chain(*near)]]
    return [sets[row] for row in range(len(letters))]


def alike_rows(letters: Sequence[str], similarity: float) -> Iterator[list[int]]:
    """Yields rows of texts that have one of the bands of their minimal hashes in common, which near copies likely have.

    Source: Broder 1997, "On the resemblance and containment of documents"; bands as `datasketch.MinHashLSH` chooses
    them. Its index takes an entry of a dictionary for each text and band; here one band is in memory at a time.
    """
    try:
        from datasketch import MinHash, MinHashLSH
    except ImportError as error:
        rule = "--near-copies needs the library datasketch: pip install 'multitask-sweeps[near-copies]'"
        raise ValueError(f"{rule} ({first_line(error)})") from error
    weights = (1 - MISSED_WEIGHT, MISSED_WEIGHT)
    bands = MinHashLSH(threshold=similarity, num_perm=NUM_HASHES, weights=weights).hashranges
    hashes, sketch = np.empty((len(letters), NUM_HASHES), dtype=np.uint32), MinHash(num_perm=NUM_HASHES)
    for row, text in enumerate(letters):
        if row and row % NOTE_TEXTS == 0:
            show_note(f"{row:,} of {len(letters):,} texts hashed")
        sketch.clear()
        sketch.update_batch([piece.encode() for piece in shingles_of(text)])
        hashes[row] = sketch.hashvalues
    for start, end in bands:
        buckets = defaultdict[bytes, list[int]](list)
        for row, band in enumerate(np.ascontiguousarray(hashes[:, start:end])):
            buckets[band.tobytes()].append(row)
        yield from (rows for rows in buckets.values() if len(rows) > 1)


def shingles_of(text: str) -> set[str]:
    """Returns the pieces of a text; of a shorter one itself."""
    return {text[at : at + SHINGLE_LETTERS] for at in range(max(1, len(text) - SHINGLE_LETTERS + 1))}


def jaccard(first: set[str], second: set[str]) -> float:
    """Returns the share of all elements that both sets have."""
    common = len(first & second)
    return common / (len(first) + len(second) - common)


def describe_near_copies(sets: Mapping[str, int], train: Table, dev: Table, num_examples: int) -> Iterator[str]:
    """Yields how many dev rows of a task have a text of train, how many more a near copy of one, and a few of these."""
    known = dict(texts_and_rows(train))
    copies = {sets[text]: text for text in known if text in sets}
    same = {row for text, row in texts_and_rows(dev) if text in known}
    near = {row: text for text, row in texts_and_rows(dev) if row not in same and sets.get(text) in copies}
    counts = f"{len(same):,} of {len(dev.ids):,} dev rows have a text of a train row"
    yield f"{dev.task}: {counts}, {len(near):,} more ({len(near) / len(dev.ids):.1%}) a near copy of one"
    for row, text in itertools.islice(near.items(), num_examples):
        copy = copies[sets[text]]
        yield from (f"  {dev.places[row]}: {text}", f"  {train.places[known[copy]]}: {copy}")


def texts_and_rows(table: Table) -> Iterator[tuple[str, int]]:
    """Yields each normalised text of a table with the number of its row."""
    for column in table.texts:
        yield from ((normalise(text), row) for row, text in enumerate(column))
