"""Classes with few dev rows are named with what one error does to their score."""

import pytest
from sklearn.metrics import f1_score

from mtlib.metrics.rare_classes import FEWEST_CLASS_ROWS, describe_rare_classes

NAMES = ("billing", "legal", "other", "sales", "spam", "support")
ENOUGH = FEWEST_CLASS_ROWS


def test_a_class_with_enough_rows_is_not_named() -> None:
    assert describe_rare_classes(NAMES, [ENOUGH] * 6, "macro_f1") == ""
    assert "legal: 19" in describe_rare_classes(NAMES, [ENOUGH, ENOUGH - 1, *[ENOUGH] * 4], "macro_f1")


def test_one_error_moves_macro_f1_by_what_is_printed() -> None:
    found = describe_rare_classes(NAMES, [50, 8, 70, 70, 70, 70], "macro_f1")
    assert found == "class legal: 8 dev rows; one error moves macro F1 by .01"
    assert (1 - f1_score([1] * 8, [1] * 7 + [0], pos_label=1)) / 6 == pytest.approx(0.01, abs=0.002)


def test_macro_f1_is_over_the_classes_that_occur() -> None:
    assert describe_rare_classes(("a", "b", "c"), [30, 8, 0], "macro_f1").endswith("one error moves macro F1 by .03")


def test_of_other_metrics_it_is_the_change_of_the_class_s_own_f1() -> None:
    assert describe_rare_classes(NAMES, [50, 8, 70, 70, 70, 70], "accuracy").endswith("one error moves its F1 by .07")


def test_the_rarest_are_named_first_and_of_many_the_first_five() -> None:
    found = describe_rare_classes(NAMES, [6, 5, 4, 3, 2, 1], "macro_f1")
    assert found.startswith("classes support: 1, spam: 2, sales: 3, other: 4, legal: 5 and 1 more dev rows")


def test_a_class_without_a_row_has_no_error() -> None:
    assert describe_rare_classes(NAMES, [0, *[ENOUGH] * 5], "macro_f1") == "class billing: 0 dev rows"
