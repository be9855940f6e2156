"""Configurations and checks shared by the tests of mtlib/config."""

from typing import Any

from mtlib.config.batch_orders import BATCH_ORDERS
from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from tests.method_tables import ROUND_ORDERS
from tests.one_line_error import one_line_error

BASE = TrialConfig(stages=(StageConfig(tasks=("sst", "qqp", "sts")),))
"""All defaults, one stage."""
FIXED_ROUND_ORDERS = tuple(name for name in ROUND_ORDERS if not BATCH_ORDERS[name].length_counts(BASE.stages[0]))
"""Orders of rounds that begin alike in stages of any length."""
PENALIZED = BASE.override(
    {
        **{f"{term}.tasks": "qqp" for term in ("smart", "proximal", "simcse", "pals")},
        "data.sources.snli.role": "augment",
    }
)
"""BASE with extra data and tasks for every term, all of them with weight 0."""


def override_error(changes: dict[str, Any], base: TrialConfig = BASE) -> str:
    """The error of an override that is refused."""
    return one_line_error(base.override, changes)


def assert_range(key: str, outside: Any, inside: Any) -> None:
    """A value outside is refused by the key's name, the nearest inside is accepted and kept by JSON."""
    group, _, name = key.rpartition(".")
    rule, _, value = override_error({key: outside}, PENALIZED).rpartition(", got ")
    assert rule.startswith(group)
    assert name in rule
    assert value in (str(outside), repr(outside))
    changed = PENALIZED.override({key: inside})
    assert TrialConfig.from_json(changed.to_json()) == changed
    assert (changed.content_hash == PENALIZED.content_hash) == (changed == PENALIZED)
