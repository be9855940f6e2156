"""The table of gradient methods: packages that a method needs, and ranges of settings."""

from dataclasses import replace

import pytest

from mtlib.config.gradient_methods import GRADIENT_METHODS, check_packages
from tests.config_cases import assert_range


def test_a_missing_package_is_named_with_the_extra_that_installs_it() -> None:
    needy = replace(GRADIENT_METHODS["cagrad"], packages=("numpy", "cvxpie"))
    with pytest.raises(ValueError, match=r"\[cagrad\]'.*called cvxpie$"):
        check_packages("cagrad", needy)
    check_packages("cagrad", replace(needy, packages=("numpy",)))


@pytest.mark.parametrize(
    ("name", "outside", "inside"),
    [
        ("cagrad_c", -1e-9, 0.0),
        ("fairgrad_alpha", -1e-9, 0.0),
        ("gradvac_beta", -1e-9, 0.0),
        ("gradvac_beta", 1.001, 1.0),
        ("excess_mtl_step_size", 0.0, 1e-9),
        ("excess_mtl_warmup_steps", 0, 1),
    ],
)
def test_settings_have_ranges(name: str, outside: float, inside: float) -> None:
    assert_range(name, outside, inside)
