"""The table of losses: each entry matches its functions."""

import inspect

import pytest
import torch

from mtlib.config.losses import LOSSES, losses_for
from mtlib.config.schema import fields_of
from mtlib.kinds import KINDS
from mtlib.runtime.lazy_functions import load_function
from mtlib.tasks import TASKS
from tests.config_cases import undescribed_fields


@pytest.mark.parametrize("name", LOSSES)
def test_every_function_exists_and_takes_the_settings_by_name(name: str) -> None:
    loss = LOSSES[name]
    fields = fields_of([loss.settings])
    for kind, place in loss.functions.items():
        function = load_function(place)
        assert list(inspect.signature(function).parameters)[2:] == list(fields)
        defaults = {field: default for field, (_, default) in fields.items()}
        logits = torch.zeros(3, KINDS[kind].num_logits(5))
        labels = torch.ones_like(logits) if KINDS[kind].has_several_labels else torch.ones(3)
        found = function(logits, labels, **defaults)
        assert found.shape == labels.shape


def test_the_default_loss_of_every_task_suits_it() -> None:
    assert all(task.default_loss in losses_for(task.kind) for task in TASKS.values())


def test_only_a_binary_task_can_have_two_outputs_for_its_logit() -> None:
    assert [LOSSES["cross_entropy"].num_outputs(*of_task) for of_task in (("classes", 5), ("binary", 1))] == [5, 2]
    assert LOSSES["binary_cross_entropy"].num_outputs("binary", 1) == 1
    assert LOSSES["mean_squared_error"].num_outputs("regression", 1) == 1


def test_titles_are_unique() -> None:
    assert len({loss.title for loss in LOSSES.values()}) == len(LOSSES)


def test_every_field_has_a_docstring() -> None:
    assert undescribed_fields("losses.py") == []
