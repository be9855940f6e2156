"""The table of losses: which kinds of task and how many outputs each has."""

import pytest

from mtlib.config.losses import LOSSES, losses_for
from mtlib.tasks import TASKS
from tests.config_cases import BASE, assert_range, override_error


@pytest.mark.parametrize("name", TASKS)
def test_a_task_accepts_the_losses_of_its_kind_alone(name: str) -> None:
    fitting = losses_for(TASKS[name].kind)
    assert TASKS[name].kind_entry.default_loss in fitting
    for loss in LOSSES:
        if loss in fitting:
            assert BASE.override({f"tasks.{name}.loss": loss}).tasks[name].loss == loss
        else:
            assert override_error({f"tasks.{name}.loss": loss}).startswith(f"tasks.{name}.loss must be one of")


def test_only_a_binary_task_can_have_two_outputs_for_its_logit() -> None:
    assert [LOSSES["cross_entropy"].num_outputs(*of_task) for of_task in (("classes", 5), ("binary", 1))] == [5, 2]
    assert LOSSES["binary_cross_entropy"].num_outputs("binary", 1) == 1
    assert LOSSES["mean_squared_error"].num_outputs("regression", 1) == 1


@pytest.mark.parametrize(
    ("name", "outside", "inside"),
    [
        ("label_smoothing", -1e-9, 0.0),
        ("label_smoothing", 1.0, 0.999),
        ("focal_gamma", -1e-9, 0.0),
        ("ordinal_alpha", 0.0, 1e-9),
    ],
)
def test_settings_have_ranges(name: str, outside: float, inside: float) -> None:
    assert_range(f"tasks.qqp.{name}", outside, inside)
