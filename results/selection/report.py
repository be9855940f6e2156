"""Shows a selection to people: every way that was tried, what was chosen, what to expect of it, how sure that is."""

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mtlib.tasks import TASKS
from results.ranking.render import PLAIN_WIDTH, error_text
from results.records.files import folder_name
from results.records.selection import MethodScore, Search, Selection, TaskSelection
from results.scoring.search_optimism import SCHEDULERS, SEARCHES, optimism_sentence
from results.selection.cost_text import cost_parts

TITLES = {
    "base": "base configuration",
    "one_model": "one model for all tasks",
    "single": "best single model",
    "topk": "mean of the best k",
    "topk_ranks": "mean rank of the best k",
    "weights": "weighted mean",
    "greedy": "greedy, with replacement",
    "soup_uniform": "uniform soup",
    "soup_greedy": "greedy soup",
    "auto": "choosing among them",
}
"""What methods are called in words."""
OF_ONE = ("one_model", "single")
"""Those that always choose one."""
MOST_MEMBERS = 10
"""Members of a task that are listed."""
MOST_CONTENDERS = 8
"""Configurations that may be the best one of a task that are named."""


def render_selection(selection: Selection) -> Group:
    """A selection as something to print: for each task a table of ways to choose, and the verdict in words.

    No line is longer than `PLAIN_WIDTH`.
    """
    parts: list[RenderableType] = []
    for name, chosen in selection.tasks.items():
        parts += [Text(line) for line in (*fit_line(describe_pool(name, chosen)), "")]
        parts += [methods_table(chosen), Text("")]
        rivals = confidence_set_sentences(chosen, len(selection.sweeps))
        told = (*paragraph(verdict(name, chosen)), *member_lines(chosen), *paragraph(rivals), "")
        parts += [*map(Text, told), *cost_parts(chosen, TITLES)]
    return Group(*parts, *(Text(line) for words in selection_legend(selection) for line in fit_line(words)))


def brief_verdict(selection: Selection) -> list[str]:
    """What was chosen and what to expect of it, without tables: for each task a few lines of at most `PLAIN_WIDTH`."""
    told = [list(verdict(name, chosen)) for name, chosen in selection.tasks.items()]
    return [line for sentences in (*told, optimism_sentences(selection)) for line in paragraph(sentences)]


def paragraph(sentences: Iterable[str]) -> list[str]:
    """Sentences one after the other, in lines."""
    return fit_line(" ".join(sentences))


def fit_line(line: str) -> list[str]:
    """A line as lines of at most `PLAIN_WIDTH`, those after the first indented as deep as the first, and by 2 more."""
    indent = " " * (len(line) - len(line.lstrip()))
    later = f"{indent}  " if indent else ""
    return textwrap.wrap(line, PLAIN_WIDTH, subsequent_indent=later, break_on_hyphens=False)


def describe_pool(name: str, chosen: TaskSelection) -> str:
    """What there was to choose from."""
    candidates, trials = count(chosen.num_candidates, "candidate"), count(chosen.num_trials, "trial")
    told = f"{candidates} ({trials}, at every epoch that was scored)"
    return f"{TASKS[name].title}: {told}, {count(chosen.num_examples, 'dev example')}, {TASKS[name].metric}"


def count(number: int, what: str) -> str:
    """How many of something there are, in words."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def methods_table(chosen: TaskSelection) -> Table:
    """A row for each way that was tried, the simplest first."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("way", "models", "on dev", "cross-fitted", "95 % interval", "over single"):
        table.add_column(title, no_wrap=True, justify="left" if title == "way" else "right")
    for score in (*chosen.methods, *([chosen.automatic] if chosen.automatic else [])):
        table.add_row(*map(Text, method_cells(score, chosen.method)))
    return table


def method_cells(score: MethodScore, chosen: str) -> list[str]:
    """One way's row; the chosen one carries a mark."""
    low, high = score.interval
    mark = " <" if score.name == chosen else ""
    lead = "" if score.name == "single" else f"{score.lead:+.3f}{'' if score.is_told_apart else '*'}"
    return [
        TITLES.get(score.name, score.name) + mark,
        f"{score.num_models}",
        f"{score.in_sample:.3f}",
        f"{score.cross_fitted:.3f} {error_text(score.standard_error)}",
        f"{low:.3f} to {high:.3f}",
        lead,
    ]


def verdict(name: str, chosen: TaskSelection) -> Iterator[str]:
    """Sentences: what was chosen, what to expect of it, and whether that is better than the best single model."""
    score, title = chosen.score, TITLES[chosen.method]
    low, high = score.interval
    yield f"Chosen for {TASKS[name].title}: {title}{ensemble_size(chosen)}."
    yield f"Expect {score.cross_fitted:.3f} ({low:.3f} to {high:.3f}) on new text of this kind."
    yield dev_sentence(score)
    others = [] if chosen.method == "single" else [("the best single model", score.lead, score.lead_interval)]
    if score.base_lead is not None:
        others.append(("the base configuration", score.base_lead, score.base_lead_interval))
    if others:
        yield f"By these examples it {compare_with(others)}."


def compare_with(others: Sequence[tuple[str, float, tuple[float, ...]]]) -> str:
    """How a score stands to others: what each is called, the lead over it, and the 95 % interval of that."""
    relations = [compare_in_words(lead, bounds) for _, lead, bounds in others]
    names = [f"{what} ({lead:+.3f})" for what, lead, _ in others]
    if len(set(relations)) == 1:
        return f"{relations[0]} {' and '.join(names)}"
    return " and ".join(f"{relation} {name}" for relation, name in zip(relations, names, strict=True))


def ensemble_size(chosen: TaskSelection) -> str:
    """How many models were chosen, where it may be several."""
    if chosen.method in OF_ONE:
        return ""
    models = count(len(chosen.members), "model")
    if not chosen.is_soup:
        return f", {models}"
    if len(chosen.members) == 1:
        return ", of one trial alone: to mix in another did not help"
    return f", one model mixed from {models}"


def compare_in_words(lead: float, bounds: tuple[float, ...]) -> str:
    """How a score stands to another one, by the 95 % interval of its lead."""
    low, high = bounds
    if low <= 0 <= high:
        return "cannot be told apart from"
    return "is better than" if lead > 0 else "is worse than"


def dev_sentence(score: MethodScore) -> str:
    """How the dev score differs from what to expect, by the digits that are shown."""
    dev, expected = round(score.in_sample, 3), round(score.cross_fitted, 3)
    if dev == expected:
        return "Its dev score is the same."
    how = "optimistic" if dev > expected else "lower"
    return f"Its dev score, {dev:.3f}, is {how} by {abs(dev - expected):.3f}."


def member_lines(chosen: TaskSelection) -> list[str]:
    """The members and their weights."""
    shown = [
        f"  {member.weight:.3f}  {member.trial} of {folder_name(member.sweep)}, epoch {member.epoch}"
        + ("" if member.temperature == 1 else f", temperature {member.temperature:.2f}")
        for member in chosen.members[:MOST_MEMBERS]
    ]
    left = len(chosen.members) - len(shown)
    told = [*shown, *([f"  and {left} more"] if left else [])]
    return [line for words in told for line in fit_line(words)]


def confidence_set_sentences(chosen: TaskSelection, num_sweeps: int) -> Iterator[str]:
    """Which configurations may be the best one, where there are several; with their sweeps where these are several."""
    if chosen.num_configurations < 2:
        return
    names = [f"{contender.number:04d}" for contender in chosen.contenders]
    if num_sweeps > 1:
        names = [f"{folder_name(one.sweep)}/{name}" for one, name in zip(chosen.contenders, names, strict=True)]
    shown, left = ", ".join(names[:MOST_CONTENDERS]), len(names) - MOST_CONTENDERS
    rest = f" and {left} more" if left > 0 else ""
    of = f"Of {chosen.num_configurations:,} configurations, compared all at once,"
    if len(names) == 1:
        yield f"{of} {shown} is the best one by these examples (95 %)."
    else:
        yield f"{of} {len(names):,} may be the best one by these examples (95 %): {shown}{rest}."


def selection_legend(selection: Selection) -> Iterator[str]:
    """What the columns mean, and what is not in them."""
    ways = selection.tasks.values()
    rule = "the simplest way within one standard error (of the difference) of the best"
    if any(chosen.is_soup for chosen in ways):
        rule = rule.replace("way", "soup")
    elif all(chosen.automatic is None for chosen in ways):
        rule = "in the way that was asked for"
    times = "once" if selection.num_repeats == 1 else f"{selection.num_repeats} times"
    yield "on dev: the score of what is chosen by all of dev, on dev itself: too high."
    yield (
        "cross-fitted: each example is judged by what was chosen without it, epochs, trials and how many among it "
        f"({selection.num_folds} folds, {times}); ± its standard error."
    )
    yield "over single: cross-fitted, less that of the best single model; * cannot be told from 0."
    if selection.is_calibrated:
        yield "temperature: what a model's logits are divided by before they are averaged as probabilities."
    if any(chosen.is_soup for chosen in selection.tasks.values()):
        yield "models of a soup are those whose weights are averaged; predicting costs one model."
        yield "Soups are of kept epochs alone, which all of dev chose; their scores are corrected for that."
    if not any(score.name == "base" for chosen in selection.tasks.values() for score in chosen.methods):
        yield "No trial has the base configuration of the space; --base TRIAL names one to compare with."
    yield f"<: what was chosen, {rule}."
    if any(chosen.automatic is not None for chosen in ways):
        yield "choosing among them: the way is chosen without the fold, too; this is what to expect."
    if any(score.name == "one_model" for chosen in ways for score in chosen.methods):
        yield "one model for all tasks: the one with the best overall dev score."
    yield from optimism_sentences(selection)


def optimism_sentences(selection: Selection) -> list[str]:
    """What the searches and schedulers have seen of dev, each once, by the largest standard error of all tasks."""
    if not selection.tasks:
        return []
    error = max(chosen.score.standard_error for chosen in selection.tasks.values())
    if any(not is_known(search) for search in selection.searches.values()) or not selection.searches:
        return ["What a search or a scheduler has seen of dev while trials were trained is not undone by this."]
    largest: dict[tuple[str, str], int] = {}
    for own in selection.searches.values():
        key = (own.search, own.scheduler)
        largest[key] = max(own.num_configurations, largest.get(key, 0))
    found = (optimism_sentence(*key, count, error) for key, count in largest.items() if count > 0)
    return [sentence for sentence in found if sentence is not None]


def is_known(search: Search) -> bool:
    """Whether a sweep says how it chose its trials."""
    return search.search in SEARCHES and search.scheduler in SCHEDULERS
