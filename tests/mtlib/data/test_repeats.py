"""Rows that repeat others: in any order of a pair between splits, in the same columns within one."""

import dataclasses

import numpy as np

from mtlib.data.hold_out import letters_of
from mtlib.data.repeats import contradicting_rows, label_shift, repeated_rows, repeats_row
from mtlib.tasks import TASKS


def test_a_row_is_repeated_where_one_row_has_all_its_texts() -> None:
    others = [["a film", "new", "x"], ["a cat", "a DOG", "x"]]
    texts = [["a  film", "a cat", "a film", "a film", "x", "x"], ["A cat", "A film", "a film", "a dog", "X", "y"]]
    assert repeats_row(texts, others).tolist() == [True, True, False, False, True, False]
    assert repeats_row([["New", "film"]], others[:1]).tolist() == [True, False]
    spelled = [["new!", "a film?"], ["a  dog", "a cat..."]]
    assert repeats_row(spelled, others).tolist() == [False, False]
    assert repeats_row(spelled, others, letters_of).tolist() == [True, True]


def test_rows_with_the_same_texts_in_the_same_columns_are_one_group() -> None:
    texts = [["a film", "new", "A  Film", "a cat", "NEW"], ["a cat", "x", "a CAT", "a film", "x"]]
    assert repeated_rows(texts) == [[0, 2], [1, 4]]
    assert repeated_rows(texts[:1]) == [[0, 2], [1, 4]]
    assert repeated_rows([["a", "b"]]) == []


def test_labels_contradict_if_they_differ_and_numbers_by_more_than_a_tenth_of_the_range() -> None:
    groups = [[0, 1], [2, 3, 4]]
    assert contradicting_rows(TASKS["sst"], np.array([1, 1, 2, 2, 3]), groups) == [[2, 3, 4]]
    assert contradicting_rows(TASKS["sts"], np.array([1, 1.6, 2, 2.25, 2.5]), groups) == [[0, 1]]
    several = dataclasses.replace(TASKS["sst"], kind="multilabel", label_range=(0, 1), metric="micro_f1")
    labels = np.array([[1, 0], [1, 1], [1, 0], [1, 0], [1, 0]])
    assert contradicting_rows(several, labels, groups) == [[0, 1]]


def test_the_shift_of_labels_is_that_of_the_mean_or_of_the_share_that_changes_most() -> None:
    every = np.array([0, 1, 1, 2, 2, 2, 2, 2], dtype=np.float32)
    shift = label_shift(TASKS["sst"], every, every[:3])
    assert "0.0% of the rest have label 2, before 62.5%" in shift
    shift = label_shift(TASKS["sts"], every, every[:3])
    assert "the mean label of the rest is 0.667, before 1.5" in shift
    tags = dataclasses.replace(
        TASKS["sst"], kind="multilabel", label_range=(0, 1), metric="micro_f1", labels=("a", "b")
    )
    several = np.array([[1, 1], [1, 0]], dtype=np.float32)
    assert "100.0% of the rest have label b, before 50.0%" in label_shift(tags, several, several[:1])
