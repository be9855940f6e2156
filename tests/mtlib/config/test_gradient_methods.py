"""The table of gradient methods: every function gives a weight per task."""

import pytest
import torch

from mtlib.config.gradient_methods import GRADIENT_METHODS
from mtlib.config.schema import fields_of
from mtlib.runtime.lazy_functions import load_function
from tests.mtlib.config.config_cases import undescribed_fields


@pytest.mark.parametrize("name", GRADIENT_METHODS)
def test_every_function_exists_and_gives_a_weight_per_task(name: str) -> None:
    function = GRADIENT_METHODS[name].function
    assert (function is None) == (name == "sum")
    if function:
        gramian = torch.tensor([[2.0, -0.5], [-0.5, 1.0]], dtype=torch.float64)
        settings = {field: default for field, (_, default) in fields_of([GRADIENT_METHODS[name].settings]).items()}
        assert load_function(function)(gramian, **settings).shape == (2,)


def test_titles_are_unique() -> None:
    assert len({method.title for method in GRADIENT_METHODS.values()}) == len(GRADIENT_METHODS)


def test_every_field_has_a_docstring() -> None:
    assert undescribed_fields("gradient_methods.py") == []
