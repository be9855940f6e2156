"""Configurations and checks shared by the tests of mtlib/config."""

import ast
import dataclasses
import itertools
from pathlib import Path
from typing import Any

from mtlib.config.batch_orders import BATCH_ORDERS
from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from tests.method_tables import ROUND_ORDERS
from tests.one_line_error import one_line_error

ROOT = Path(__file__).parents[1]
RANDOM_ORDERS = tuple(name for name, order in BATCH_ORDERS.items() if order.is_random)
"""Batch orders that draw the set of each step."""
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

Case = tuple[str, Any, str, Any]
"""A dotted key, the nearest value outside, the first words of the message, the nearest value inside."""


def override_error(changes: dict[str, Any], base: TrialConfig = BASE) -> str:
    """The error of an override that is refused."""
    return one_line_error(base.override, changes)


def assert_range(case: Case) -> None:
    """Outside: refused with the rule, then the value. Inside: accepted, preserved by JSON, with another hash."""
    key, outside, rule, inside = case
    message = override_error({key: outside}, PENALIZED)
    assert message.startswith(rule)
    assert message.endswith((f", got {outside}", f", got {outside!r}"))
    changed = PENALIZED.override({key: inside})
    assert TrialConfig.from_json(changed.to_json()) == changed
    assert (changed.content_hash == PENALIZED.content_hash) == (changed == PENALIZED)


def assert_every_field_changes_the_hash(group: str, cls: type, values: dict[str, Any]) -> None:
    """Each field of a group changes the hash when it gets a value that differs from PENALIZED."""
    assert set(values) == {f.name for f in dataclasses.fields(cls)}, "a field is missing here, or too many"
    hashes = {PENALIZED.override({f"{group}.{name}": value}).content_hash for name, value in values.items()}
    assert PENALIZED.content_hash not in hashes
    assert len(hashes) == len(values)


def undescribed_fields(file_name: str) -> list[str]:
    """Dataclass fields of a configuration file without a docstring."""
    module = ast.parse((ROOT / "mtlib" / "config" / file_name).read_text())
    found = []
    for cls in (node for node in module.body if isinstance(node, ast.ClassDef)):
        for node, below in itertools.pairwise([*cls.body, ast.Pass()]):
            is_text = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            if isinstance(node, ast.AnnAssign) and not is_text:
                found.append(f"{cls.name}.{ast.unparse(node.target)}")
    return found
