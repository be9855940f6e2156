"""What is printed about dev examples that share texts: how many groups they form, and whether these were used."""

from collections.abc import Iterator

from mtlib.runtime.command_line import counted
from results.analysis.comparison.groups import are_usable
from results.records.selection import Selection, TaskSelection


def describe_groups(chosen: TaskSelection) -> str:
    """The number of groups, after that of dev examples; empty where no texts are shared, or this is not known."""
    if chosen.num_groups in (None, chosen.num_examples):
        return ""
    return f" in {counted(chosen.num_groups, 'group')} of connected texts"


def shared_text_sentences(selection: Selection) -> Iterator[str]:
    """Whether folds and standard errors are of whole groups of connected texts; nothing where no texts are shared."""
    unknown, unusable, grouped = list[str](), list[str](), list[str]()
    for name, chosen in selection.tasks.items():
        if chosen.num_groups is None:
            unknown.append(name)
        elif not are_usable(chosen.num_groups, chosen.largest_group, chosen.num_examples):
            unusable.append(selection.definitions[name].title)
        elif chosen.num_groups < chosen.num_examples:
            grouped.append(name)
    if grouped:
        yield "Dev examples that texts connect are drawn, and dealt to folds, as whole groups."
    if unusable:
        yield (
            f"{', '.join(unusable)}: too few groups of connected texts, or one too large, to draw whole groups; every "
            "example counts as independent, so standard errors are too small."
        )
    if unknown:
        yield (
            "The sweep is of an earlier version and does not record which dev examples share texts: every example "
            "counts as independent. Resuming the sweep adds the record, even if it has finished."
        )
