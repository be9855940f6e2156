"""Near copies: as comparing all pairs finds them, in any spelling and order; what is printed about them."""

import itertools
import sys

import numpy as np
import pytest

from mtlib.data.hold_out import normalise
from mtlib.data.near_copies import describe_near_copies, find_near_copies
from tests.mtlib.conftest import build_table
from tests.one_line_error import one_line_error

WORDS = [f"word{number}" for number in range(40)]


def varied_texts(seed: int) -> list[str]:
    """Sentences of 12 words, some of which repeat another with a word changed or cut."""
    stream = np.random.default_rng(seed)
    texts = [" ".join(stream.choice(WORDS, 12)) for _ in range(60)]
    for text in stream.choice(texts, 60).tolist():
        words = text.split()
        words[stream.integers(12)] = stream.choice([*WORDS, ""])
        texts.append(" ".join(words).strip())
    return texts


def similarity_of(first: str, second: str) -> float:
    """The Jaccard similarity of the pieces of five letters."""
    one, other = ({text[at : at + 5] for at in range(len(text) - 4)} for text in (first, second))
    return len(one & other) / len(one | other)


def partition(sets: dict[str, int]) -> set[frozenset[str]]:
    return {frozenset(text for text, own in sets.items() if own == number) for number in sets.values()}


def sets_by_hand(texts: list[str], similarity: float) -> set[frozenset[str]]:
    """The sets that comparing all pairs connects."""
    bare = {text: text.replace(" ", "") for text in texts}
    sets = [{text} for text in texts]
    for one, other in itertools.combinations(texts, 2):
        if similarity_of(bare[one], bare[other]) >= similarity:
            joined = [own for own in sets if one in own or other in own]
            sets = [own for own in sets if own not in joined] + [set[str]().union(*joined)]
    return {frozenset(own) for own in sets if len(own) > 1}


@pytest.mark.parametrize("seed", range(4))
def test_sets_are_connected_by_near_copies_and_hashing_misses_none_that_is_nearer(seed: int) -> None:
    texts = sorted(set(map(normalise, varied_texts(seed))))
    found, every, nearer = find_near_copies(texts, 0.8), sets_by_hand(texts, 0.8), sets_by_hand(texts, 0.87)
    assert sorted(set(found.values())) == list(range(1, len(partition(found)) + 1))
    assert all(any(own <= other for other in every) for own in partition(found))
    assert all(any(own <= other for other in partition(found)) for own in nearer)
    assert len(nearer) > 10


def test_order_and_spelling_do_not_matter() -> None:
    texts = varied_texts(0)
    found = find_near_copies(texts, 0.8)
    again = find_near_copies([text.upper().replace(" ", "  ") for text in reversed(texts)], 0.8)
    assert partition(again) == partition(found)


@pytest.mark.parametrize(
    ("first", "second", "are_copies"),
    [
        ("Can't we go?", "cant we go", True),
        ("hello,world", "Hello world!", True),
        ("\u0915\u093f", "\u0915\u0940", False),  # the vowel is a mark
        ("5 km", "6 km", False),
        (":-)", ":-(", False),
        (":-)", " :-)", None),  # one text
        ("", "?", False),
    ],
)
def test_texts_that_differ_in_punctuation_alone_are_copies(first: str, second: str, are_copies: bool | None) -> None:
    assert set(find_near_copies([first, second], 0.8)) == (
        {normalise(first), normalise(second)} if are_copies else set()
    )


def test_a_similarity_out_of_range_and_a_missing_library_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for similarity in (0.1, 0.99):
        find_near_copies(["a", "b"], similarity)
    for similarity in (0.09, 1.0, float("nan")):
        message = one_line_error(find_near_copies, ["a"], similarity)
        assert message == f"--similarity must be from 0.1 to 0.99, got {similarity}"
    monkeypatch.setitem(sys.modules, "datasketch", None)
    message = one_line_error(find_near_copies, ["a"], 0.8)
    assert message.startswith("--near-copies needs the library datasketch: pip install 'multitask-sweeps[near-copies]'")


def test_dev_rows_with_a_text_of_train_and_those_with_a_near_copy_are_counted_apart() -> None:
    train, dev = (
        build_table("qqp", ["A b", "C d!"], ["E", "F"]),
        build_table("qqp", ["a B", "c d", "g"], ["x", "y", "z"]),
    )
    lines = list(describe_near_copies(find_near_copies(["c d", "C d!"], 0.8), train, dev, 2))
    assert lines == [
        "qqp: 1 of 3 dev rows have a text of a train row, 1 more (33.3%) a near copy of one",
        "  qqp:1: c d",
        "  qqp:1: c d!",
    ]
