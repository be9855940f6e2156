"""The decay of the mean teacher over the steps."""

import pytest

from mtlib.config.penalties import ProximalConfig
from mtlib.loss.proximal import decay_at

WHOLE_PARTS = [(0.1, 10, 1), (0.1, 30, 3), (0.1, 1000, 100), (0.29, 100, 29), (0.7, 10, 7)]
BROKEN_PARTS = [(0.5, 1, 0), (0.6, 1, 1), (0.1, 4, 0), (0.1, 14, 1), (0.1, 16, 2), (0.999, 10, 10)]
"""The nearest whole number of steps."""


@pytest.mark.parametrize(("fraction", "num_steps", "num_early"), [*WHOLE_PARTS, *BROKEN_PARTS])
def test_the_first_decay_lasts_for_its_share_of_the_steps(fraction: float, num_steps: int, num_early: int) -> None:
    config = ProximalConfig(decay=0.99, late_decay=0.999, early_fraction=fraction)
    found = [decay_at(config, step, num_steps) for step in range(num_steps)]
    assert found == [0.99] * num_early + [0.999] * (num_steps - num_early)


def test_without_a_late_decay_the_decay_is_constant() -> None:
    config = ProximalConfig(decay=0.97, early_fraction=0.5)
    assert {decay_at(config, step, 8) for step in range(8)} == {0.97}
