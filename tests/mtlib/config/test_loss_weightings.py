"""The table of loss weightings: what each method is made of."""

import pytest

from mtlib.config.loss_weightings import LOSS_WEIGHTINGS
from mtlib.runtime.lazy_functions import load_function
from tests.config_cases import undescribed_fields


@pytest.mark.parametrize("name", LOSS_WEIGHTINGS)
def test_a_weight_is_fixed_or_learned_with_the_model_or_set_by_each_step(name: str) -> None:
    entry = LOSS_WEIGHTINGS[name]
    kinds = (name == "fixed", entry.regularizer is not None, entry.function is not None)
    assert sum(kinds) == 1
    for function in (entry.function, entry.after_step, entry.after_epoch):
        assert function is None or callable(load_function(function))


def test_every_field_has_a_docstring() -> None:
    assert undescribed_fields("loss_weightings.py") == []
