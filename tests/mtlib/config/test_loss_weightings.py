"""The table of loss weightings: what each method is made of."""

import pytest

from mtlib.config.loss_weightings import LOSS_WEIGHTINGS
from mtlib.runtime.lazy_functions import load_function
from tests.config_cases import assert_range


@pytest.mark.parametrize("name", LOSS_WEIGHTINGS)
def test_a_weight_is_fixed_or_learned_with_the_model_or_set_by_each_step(name: str) -> None:
    entry = LOSS_WEIGHTINGS[name]
    kinds = (name == "fixed", entry.regularizer is not None, entry.function is not None)
    assert sum(kinds) == 1
    for function in (entry.function, entry.after_step, entry.after_epoch):
        assert function is None or callable(load_function(function))


@pytest.mark.parametrize(
    ("name", "outside", "inside"),
    [
        ("famo_learning_rate", 0.0, 1e-9),
        ("famo_weight_decay", -1e-9, 0.0),
        ("dwa_temperature", 0.0, 1e-9),
        ("stch_mu", 0.0, 1e-9),
    ],
)
def test_settings_have_ranges(name: str, outside: float, inside: float) -> None:
    assert_range(name, outside, inside)
