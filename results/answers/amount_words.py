"""How much of each task was trained, in words, where configurations were trained on different tasks."""

from collections.abc import Iterator, Mapping

from mtlib.runtime.command_line import counted
from mtlib.tasks import Task, title_of
from results.stats.trial_scores import STEP_COUNT, TOKEN_COUNT, Amounts

MOST_ALIKE = 1.1
"""Amounts of a task whose largest is at most so many times the smallest count as alike: batches end with an epoch."""


def amount_lines(amounts: Mapping[tuple[str, ...], Amounts], tasks: Mapping[str, Task]) -> Iterator[str]:
    """Yields how much of each task each set of tasks trained, and what that means for the effects of sets.

    Args:
        amounts: by set of tasks, the means over its trials.
        tasks: the definitions of the sweep's tasks.
    """
    differs = False
    for task in tasks:
        own = {names: found for names, found in amounts.items() if (task, TOKEN_COUNT) in found}
        counts = [found[task, TOKEN_COUNT] for found in own.values()]
        if counts and max(counts) > MOST_ALIKE * min(counts):
            differs = True
            parts = [f"{amount_text(found, task)} {set_text(names, task, tasks)}" for names, found in own.items()]
            yield f"{title_of(task, tasks)} was trained on {', '.join(parts)}."
    if differs:
        yield (
            "So an effect above is also that of training less of a task. Steps have a batch of every task with --set "
            "stages.0.order=max_size_cycle stages.0.sum_losses=true (docs/searching.md: Which tasks help which?)."
        )


def amount_text(amounts: Amounts, task: str) -> str:
    """E.g. `31,200 tokens in 300 steps`; older sweeps did not record steps."""
    tokens = f"{amounts[task, TOKEN_COUNT]:,.0f} tokens"
    return (
        f"{tokens} in {counted(round(amounts[task, STEP_COUNT]), 'step')}" if (task, STEP_COUNT) in amounts else tokens
    )


def set_text(names: tuple[str, ...], task: str, tasks: Mapping[str, Task]) -> str:
    """E.g. `alone`, or `with QQP and STS`."""
    others = [title_of(name, tasks) for name in names if name != task]
    return f"with {' and '.join(others)}" if others else "alone"
