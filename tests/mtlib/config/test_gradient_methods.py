"""The table of gradient methods: every function gives a weight per task."""

import re
from dataclasses import replace

import pytest
import torch

from mtlib.config.gradient_methods import GRADIENT_METHODS, check_packages
from tests.config_cases import undescribed_fields
from tests.mtlib.loss.gradient_tables import METHODS


def test_only_the_sum_has_no_function() -> None:
    assert [name for name, method in GRADIENT_METHODS.items() if method.function is None] == ["sum"]


@pytest.mark.parametrize("name", METHODS)
def test_every_function_gives_a_weight_per_task(name: str) -> None:
    matrix = torch.tensor([[1.0, 1.0], [0.5, -1.0]], dtype=torch.float64)
    assert METHODS[name](matrix @ matrix.T, [0, 1], {0: list(matrix)}).shape == (2,)


def test_a_missing_package_is_named_with_the_extra_that_installs_it() -> None:
    needy = replace(GRADIENT_METHODS["cagrad"], packages=("numpy", "cvxpie"))
    line = "gradients cagrad must have its packages: pip install 'multitask-sweeps[cagrad]', got none called cvxpie"
    with pytest.raises(ValueError, match=f"^{re.escape(line)}$"):
        check_packages("cagrad", needy)
    check_packages("cagrad", replace(needy, packages=("numpy",)))


def test_titles_are_unique() -> None:
    assert len({method.title for method in GRADIENT_METHODS.values()}) == len(GRADIENT_METHODS)


def test_every_field_has_a_docstring() -> None:
    assert undescribed_fields("gradient_methods.py") == []
