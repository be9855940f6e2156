"""Names in the built-in tables that several tests need."""

from mtlib.config.batch_orders import BATCH_ORDERS
from mtlib.config.penalties import PENALTIES

ROUND_ORDERS = tuple(name for name, order in BATCH_ORDERS.items() if order.has_rounds)
"""Orders whose rounds may hold several sets."""
TERMS = ("loss", *(term for penalty in PENALTIES.values() for term in penalty.terms))
"""What a batch's details hold, in this order."""
