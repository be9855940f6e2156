"""Shows the scores of a selection on rows held out, beside what was to be expected of it."""

from collections.abc import Iterator

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from mtlib.tasks import TASKS
from results.records.selection import Look, Selection
from results.selection.report import paragraph


def render_look(selection: Selection, look: Look, num_before: int) -> Group:
    """The scores of a selection on rows held out, beside what was to be expected; lines as `render_selection`'s.

    Args:
        selection: what was selected.
        look: its scores.
        num_before: how often these rows had been looked at before.
    """
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("task", "examples", "held out", "95 % interval", "expected", "on dev"):
        table.add_column(title, no_wrap=True, justify="left" if title == "task" else "right")
    for task, score in look.scores.items():
        (low, high), expected = look.intervals[task], selection.tasks[task].score
        told = [f"{score:.3f}", f"{low:.3f} to {high:.3f}", f"{expected.cross_fitted:.3f}", f"{expected.in_sample:.3f}"]
        table.add_row(*map(Text, (TASKS[task].title, f"{look.num_examples[task]:,}", *told)))
    return Group(table, Text(""), *map(Text, paragraph(look_sentences(num_before))))


def look_sentences(num_before: int) -> Iterator[str]:
    """How honest a look at rows held out is, after so many others."""
    if num_before == 0:
        yield "No trial has seen these rows, and nothing was chosen by them."
    else:
        times = "once" if num_before == 1 else f"{num_before} times"
        yield f"These rows have been looked at {times} before."
        yield "If anything was chosen by that, they are no longer unseen."
    yield "They are train rows: dev may differ in kind."
