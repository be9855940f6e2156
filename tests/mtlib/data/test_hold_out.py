"""Held-out rows: whole groups of rows that share texts, as many as fit; against groups found by hand."""

import hashlib

import numpy as np
import pytest

from mtlib.data.hold_out import (
    group_rows,
    group_value,
    hold_out_texts,
    label_strata,
    letters_of,
    normalise,
    quotas,
    share_text,
)

SEEDS = range(8)
Columns = list[list[str]]


def random_texts(seed: int) -> Columns:
    """One or two columns of 1 to 60 rows with few distinct texts, in several spellings."""
    stream = np.random.default_rng(seed)
    rows, kinds = int(stream.integers(1, 61)), int(stream.integers(1, 90))
    spellings = ["text {}", "TEXT {}", "  Text\t {} "]
    return [
        [spellings[stream.integers(3)].format(stream.integers(kinds)) for _ in range(rows)]
        for _ in range(stream.integers(1, 3))
    ]


def rows_of(columns: Columns) -> list[set[str]]:
    """Each row's texts, normalised."""
    return [{normalise(text) for text in row} for row in zip(*columns, strict=True)]


def groups_by_hand(columns: Columns) -> list[set[int]]:
    """Groups of rows connected by texts: each row in turn joins all groups that have one of its texts."""
    groups: list[tuple[set[int], set[str]]] = []
    for number, texts in enumerate(rows_of(columns)):
        joined = [group for group in groups if group[1] & texts]
        groups = [group for group in groups if not group[1] & texts]
        groups.append((set().union({number}, *(rows for rows, _ in joined)), texts.union(*(own for _, own in joined))))
    return [rows for rows, _ in groups]


def held_rows(columns: Columns, share: float) -> set[int]:
    return set(np.flatnonzero(share_text(columns, hold_out_texts(columns, share))).tolist())


@pytest.mark.parametrize("share", [0.1, 0.5])
@pytest.mark.parametrize("seed", SEEDS)
def test_no_text_is_on_both_sides_and_the_share_is_filled_as_far_as_groups_fit(seed: int, share: float) -> None:
    columns = random_texts(seed)
    numbers = group_rows([[normalise(text) for text in column] for column in columns])
    found = {frozenset(np.flatnonzero(numbers == number).tolist()) for number in range(max(numbers) + 1)}
    assert found == set(map(frozenset, groups_by_hand(columns)))
    held, texts = held_rows(columns, share), rows_of(columns)
    left = set(range(len(texts))) - held
    assert not set().union(*(texts[row] for row in held)) & set().union(*(texts[row] for row in left))
    lacking = share * len(texts) - len(held)
    assert lacking >= -1e-6
    for group in groups_by_hand(columns):
        assert group <= held or (not group & held and len(group) > lacking - 1e-6)


def test_single_texts_are_sorted_by_their_hash() -> None:
    texts = [f"text {number}" for number in range(100)]
    by_hash = sorted(texts, key=lambda text: hashlib.sha256(text.encode()).hexdigest())
    for share, count in ((0.01, 1), (0.1, 10), (0.29, 29), (0.299, 29), (0.3, 30), (1.0, 100)):
        assert hold_out_texts([texts], share) == set(by_hash[:count]), share


def test_a_group_is_sorted_by_its_smallest_hash_and_skipped_where_it_does_not_fit() -> None:
    """Sorted by hash: c (2e7d...), e (3f79...), a (ca97...); c is the smallest text of a group of three rows."""
    assert [hashlib.sha256(text.encode()).hexdigest()[:4] for text in "cea"] == ["2e7d", "3f79", "ca97"]
    columns = [["d", "c", "x", "e", "a"], ["c", "x", "x", "e", "a"]]
    assert hold_out_texts(columns, 0.19) == set()
    assert hold_out_texts(columns, 0.2) == {"e"}
    assert hold_out_texts(columns, 0.4) == {"e", "a"}
    assert hold_out_texts(columns, 0.59) == {"e", "a"}
    assert hold_out_texts(columns, 0.6) == {"c", "d", "x"}
    assert hold_out_texts(columns, 0.8) == {"c", "d", "x", "e"}


def test_case_and_white_space_are_ignored_and_letters_are_not() -> None:
    for text in ("a fine film", "A Fine FILM", "  a fine\tfilm ", "a\u00a0fine \r\n film"):
        assert normalise(text) == "a fine film"
    assert normalise("A FİNE fiLM") != "a fine film"
    assert normalise("Straße") == normalise("STRASSE")


def drawn_rows(columns: list[list[str]], labels: np.ndarray, share: float, least: int = 1) -> np.ndarray:
    return share_text(columns, hold_out_texts(columns, share, labels, least))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("share", [0.1, 0.5])
def test_each_class_of_single_texts_gets_its_share_within_one_row_and_at_least_one(seed: int, share: float) -> None:
    stream = np.random.default_rng(seed)
    labels = stream.choice(5, size=int(stream.integers(20, 300)), p=[0.6, 0.25, 0.1, 0.03, 0.02])
    drawn = drawn_rows([[f"text {row}" for row in range(len(labels))]], labels, share)
    for label in np.unique(labels):
        size, found = np.sum(labels == label), np.sum(drawn & (labels == label))
        assert abs(found - share * size) <= 1
        assert size < 2 or 1 <= found < size


def test_the_largest_remainders_are_rounded_up_and_single_rows_stay() -> None:
    assert quotas(np.array([10, 14, 16]), 0.1, 0) == [1, 1, 2]  # 1.0, 1.4, 1.6: four in all
    assert quotas(np.array([10, 14, 6]), 0.1, 0) == [1, 1, 1]
    assert quotas(np.array([1, 4, 4]), 0.25, 1) == [0, 1, 1]
    assert quotas(np.array([2, 98]), 0.05, 1) == [1, 5]
    assert quotas(np.array([100]), 0.29, 0) == [29]


@pytest.mark.parametrize("seed", SEEDS)
def test_order_and_spelling_do_not_matter_and_no_text_is_on_both_sides_of_a_draw(seed: int) -> None:
    stream = np.random.default_rng(seed)
    columns = [[f"Text {number}" for number in stream.integers(0, 150, 200)] for _ in range(2)]
    labels, order = stream.integers(0, 3, 200), stream.permutation(200)
    drawn = drawn_rows(columns, labels, 0.3)
    sides = [{normalise(column[row]) for column in columns for row in np.flatnonzero(side)} for side in (drawn, ~drawn)]
    assert not sides[0] & sides[1]
    shuffled = [[column[row].upper() for row in order] for column in reversed(columns)]
    assert np.array_equal(drawn_rows(shuffled, labels[order], 0.3), drawn[order])


def test_bins_of_numbers_are_deciles_and_equal_numbers_share_one() -> None:
    labels = np.random.default_rng(0).permutation(1000) / 7
    assert np.bincount(label_strata(labels, True, 0.1)).tolist() == [100] * 10
    assert np.array_equal(np.argsort(np.argsort(labels)) // 100, label_strata(labels, True, 0.1))
    assert set(label_strata(np.array([1.0] * 6 + [2.0] * 6), True, 0.25).tolist()) == {0, 1}
    assert label_strata(np.arange(12.0), True, 0.05).tolist() == [0] * 12


def group_column(seed: int, num_rows: int, num_groups: int) -> list[str]:
    """What stands for the groups of rows, some of which have none: a row's own number in place of it."""
    numbers = np.random.default_rng(seed).integers(num_groups, size=num_rows)
    return [group_value("doc", f"Text {number}") if number else f"none {row}" for row, number in enumerate(numbers)]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("num_groups", [1, 5, 50])
def test_groups_connect_rows_as_texts_do_and_are_on_one_side(seed: int, num_groups: int) -> None:
    texts = random_texts(seed)
    columns = [*texts, group_column(seed, len(texts[0]), num_groups)]
    numbers = group_rows([[normalise(text) for text in column] for column in columns])
    found = {frozenset(np.flatnonzero(numbers == number).tolist()) for number in range(max(numbers) + 1)}
    assert found == set(map(frozenset, groups_by_hand(columns)))
    held = held_rows(columns, 0.3)
    assert all(group <= held or not group & held for group in groups_by_hand(columns))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_group_of_its_own_for_every_row_changes_nothing(seed: int) -> None:
    texts = random_texts(seed)
    apart = [group_value("doc", str(row)) for row in range(len(texts[0]))]
    spelled = [[normalise(text) for text in column] for column in texts]
    assert group_rows([*spelled, apart]).tolist() == group_rows(spelled).tolist()
    labels = np.random.default_rng(seed).integers(3, size=len(apart))
    for share in (0.1, 0.3, 0.5):
        for strata in (None, labels):
            drawn = hold_out_texts([*texts, apart], share, strata)
            assert {value for value in drawn if not value.startswith("\0")} == hold_out_texts(texts, share, strata)


def test_groups_are_drawn_in_the_order_of_their_smallest_text_not_of_their_names() -> None:
    """Sorted by hash: c (2e7d...), e (3f79...), a (ca97...)."""
    for names in ("xyz", "zyx"):
        columns = [["c", "e", "a"], [group_value("doc", name) for name in names]]
        assert [text for text in "cea" if text in hold_out_texts(columns, 0.34)] == ["c"]


def test_groups_are_compared_exactly_and_within_their_space() -> None:
    one = group_value("doc", "A")
    assert normalise(one) == one != group_value("doc", "a")
    assert one not in (group_value("author", "A"), normalise("A"), normalise("doc A"))
    assert group_value("doc", "") == ""


def test_letters_marks_and_numbers_of_any_script_are_kept() -> None:
    assert letters_of("It\u2019s 5 %, OK?  (U\u0308ber\u0301)") == "its5oku\u0308ber\u0301"
    assert letters_of("\u0915\u093f \u0663\u00bd!") == "\u0915\u093f\u0663\u00bd"
    assert letters_of(" :-) ") == ":-)", "a text without any letter is itself"
