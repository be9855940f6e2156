"""The joint space: every draw builds, and only settings that are searched are drawn."""

import random
from typing import Any

import pytest

from search_spaces.domain import Float, Int, Range, SearchKey, holds
from search_spaces.questions.joint import SPACE
from search_spaces.space import grid_trials, range_configs, search_domain, trial_config, trial_params


def draw(stream: random.Random) -> dict[SearchKey, Any]:
    """A random point of the space."""
    drawn: dict[SearchKey, Any] = {}
    for key, item in search_domain(SPACE).items():
        if holds(SPACE.conditions.get(key), drawn):
            drawn[key] = value_of(item, stream)
    return drawn


def value_of(item: Range, stream: random.Random) -> Any:
    if isinstance(item, Float):
        return stream.uniform(item.low, item.high)
    return stream.randint(item.low, item.high) if isinstance(item, Int) else stream.choice(item.values)


@pytest.mark.parametrize("seed", range(5))
def test_every_draw_builds_a_configuration_with_its_values(seed: int) -> None:
    stream = random.Random(seed)
    for _ in range(20):
        drawn = draw(stream)
        config = trial_config(SPACE, trial_params(drawn))
        assert config.smart.weight == drawn["smart.weight"]
        assert (config.loss_weighting == "fixed") == ("tasks.sst.loss_weight" in drawn)
        assert config.stages[1].sum_losses == ("gradients" in drawn)
        assert (config.smart.mode == "random") == ("smart.num_steps" not in drawn)
        assert (config.smart.mode == "paper") == ("smart.epsilon" in drawn)


def test_every_end_and_every_condition_builds() -> None:
    configs = list(range_configs(SPACE))
    assert {config.gradients for config in configs} == {"sum", "pcgrad", "imtl_g", "aligned_mtl"}
    assert {config.smart.num_steps for config in configs if config.smart.mode == "paper"} == {1, 3}
    assert {config.optimizer.layer_decay for config in configs} == {0.75, 1.0}
    assert grid_trials(SPACE) == []
