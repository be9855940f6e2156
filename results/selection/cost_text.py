"""Shows what is had for which cost at inference: the Pareto set of a task as a table."""

from collections.abc import Iterator

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
    for title in ("models", "way", "cross-fitted"):
        table.add_column(title, no_wrap=True, justify="left" if title == "way" else "right")
    for one in best:
        table.add_row(*map(Text, pareto_cells(one, titles)))
    yield from (table, Text(""))


def pareto_cells(one: TradeOff, titles: dict[str, str]) -> list[str]:
    """One row."""
    return [
        f"{one.num_models}",
        titles.get(one.name, one.name),
        f"{one.cross_fitted:.3f} {error_text(one.standard_error)}",
    ]
