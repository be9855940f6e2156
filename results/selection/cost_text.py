"""Shows what is had for which cost at inference: the Pareto set of a task as a table."""

from collections.abc import Iterator, Sequence
from itertools import chain

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from results.ranking.render import error_text
from results.records.selection import TaskSelection, TradeOff

COSTS = (
    "Score against the cost of predicting: each way to choose for this task at most so many models, those",
    "that nothing beats. (The best of many scores is a little too high.)",
)
"""What is said above the table."""


def cost_parts(chosen: TaskSelection, titles: dict[str, str]) -> Iterator[RenderableType]:
    """What there is to show: nothing where nothing scores higher than the cheapest.

    Args:
        chosen: a task's selection.
        titles: what ways to choose are called.
    """
    best = [one for one in chosen.trade_offs if one.is_best]
    if len(best) < 2:
        return
    yield from map(Text, (*COSTS, ""))
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0))
    for title in chain(["models"], ["ms for one text"] if is_timed(best) else [], ["way", "cross-fitted"]):
        table.add_column(title, no_wrap=True, justify="left" if title == "way" else "right")
    for one in best:
        table.add_row(*map(Text, cells(one, titles)))
    yield from (table, Text(""))


def is_timed(found: Sequence[TradeOff]) -> bool:
    """Whether there are some whose latency was measured."""
    return any(one.latency_ms is not None for one in found)


def cells(one: TradeOff, titles: dict[str, str]) -> list[str]:
    """One row."""
    latency = [] if one.latency_ms is None else [f"{one.latency_ms:.1f}"]
    return [
        f"{one.num_models}",
        *latency,
        titles.get(one.name, one.name),
        f"{one.cross_fitted:.3f} {error_text(one.standard_error)}",
    ]
