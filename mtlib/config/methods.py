"""The methods that a configuration may name: the built-in tables, and with them a user's own entries."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mtlib.config.batch_orders import BATCH_ORDERS, BatchOrder
from mtlib.config.gradient_methods import GRADIENT_METHODS, GradientMethod
from mtlib.config.losses import LOSSES, Loss
from mtlib.config.penalties import PENALTIES, Penalty
from mtlib.metrics.metric import Metric
from mtlib.metrics.table import METRICS


@dataclass(frozen=True, kw_only=True, eq=False)
class Methods:
    """All tables, by the names that configurations use. Two are the same only if they are one object."""

    losses: Mapping[str, Loss] = field(default_factory=lambda: LOSSES)
    batch_orders: Mapping[str, BatchOrder] = field(default_factory=lambda: BATCH_ORDERS)
    penalties: Mapping[str, Penalty] = field(default_factory=lambda: PENALTIES)
    gradient_methods: Mapping[str, GradientMethod] = field(default_factory=lambda: GRADIENT_METHODS)
    metrics: Mapping[str, Metric] = field(default_factory=lambda: METRICS)


BUILT_IN = Methods()
