"""The columns that are proposed are those that a reader of the table would choose, or doubts say what is unsure."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from mtlib.data.proposals.columns import choose_columns, id_columns, parts_that_recur, split_columns
from mtlib.data.proposals.samples import Sample


def table(**columns: Callable[[int], object]) -> Sample:
    """A file of 40 rows whose columns have these cells by row."""
    rows = [{name: str(cell(row)) for name, cell in columns.items()} for row in range(40)]
    return Sample(path=Path("train.csv"), names=list(columns), rows=rows)


def text(row: int) -> str:
    return f"this is text {row}"


def two(row: int) -> str:
    return "ab"[row % 2]


def number(row: int) -> int:
    return 900 + row


PRODUCTS = ("Credit card or prepaid", "Student loan of mine", "Checking and savings account")


@pytest.mark.parametrize(
    ("columns", "texts", "label"),
    [
        ({"label": two, "review": lambda row: f"\u5f88\u597d\u770b{row}"}, ("review",), "label"),
        ({"word": lambda row: f"w{row}", "id": number, "class": two}, ("word",), "class"),
        ({"narrative": text, "product": lambda row: PRODUCTS[row % 3]}, ("narrative",), "product"),
        ({"tweet_id": number, "tweet": text, "polarity": lambda row: row % 2 * 4}, ("tweet",), "polarity"),
        ({"qid1": number, "question": text, "is_duplicate": lambda row: row % 2}, ("question",), "is_duplicate"),
        ({"text": text, "annotator_class": two, "labeler": two, "sentiment": two}, ("text",), "sentiment"),
        ({"Summary": text, "Text": text, "Score": lambda row: row % 5}, ("Summary", "Text"), "Score"),
        ({"text": text, "score": lambda row: row / 7}, ("text",), "score"),
        ({"text": text}, ("text",), ""),
        ({"id": number, "label": two}, (), "label"),
    ],
)
def test_the_likeliest_columns_are_proposed(
    columns: dict[str, Callable[[int], object]], texts: tuple[str, ...], label: str
) -> None:
    found = choose_columns(table(**columns))
    assert (found.texts, found.label) == (texts, label)


@pytest.mark.parametrize(
    ("columns", "doubt"),
    [
        ({"label": two, "word": lambda row: f"w{row}"}, "no column has texts of several words"),
        ({"first": text, "second": text, "label": two}, "two columns look like texts, and are a pair here"),
        ({"a": text, "b": text, "c": text, "label": two}, "these columns look like texts: a, b, c"),
        ({"text": text, "label": two, "mood": two}, "these columns may be labels: label, mood"),
        ({"text": text}, "no column looks like labels"),
    ],
)
def test_a_guess_is_a_doubt(columns: dict[str, Callable[[int], object]], doubt: str) -> None:
    (found,) = choose_columns(table(**columns)).doubts
    assert found.startswith(doubt)


def test_ids_are_all_different() -> None:
    assert id_columns([table(id=number, key=two, score=number)]) == ["id"]


def test_a_column_of_splits_has_words_for_two_of_them() -> None:
    sample = table(part=lambda row: ("TRAIN", "Test", "other")[row % 3], kind=lambda row: ("train", "bus")[row % 2])
    assert split_columns(sample) == ["part"]


@pytest.mark.parametrize(
    ("cells", "parts"),
    [
        (["joy, anger", "joy", "fear"], ["anger", "fear", "joy"]),
        (["['joy', 'anger']", "['joy']"], ["anger", "joy"]),
        (["yes, a lot", "no"], []),
        (["a", "b"], []),
    ],
)
def test_parts_of_cells_that_recur_are_labels(cells: list[str], parts: list[str]) -> None:
    assert parts_that_recur(Counter(cells)) == parts
