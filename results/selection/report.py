"""Shows a selection: the scores of every selection method, what was chosen, and its expected score on new text."""

from collections.abc import Iterable, Iterator, Sequence

from mtlib.data.hold_out import are_usable
from mtlib.runtime.command_line import counted
from mtlib.runtime.console import PLAIN_WIDTH, PrintedTable, TableCell, fold, table_lines
from mtlib.tasks import Task, title_of
from results.answers.slices_table import render_slices
from results.ensembles.methods import BASE, ONE_MODEL, SINGLE, title_of_method
from results.records.files import folder_name
from results.records.selection import HeldOutScores, MethodScore, Selection, TaskSelection
from results.stats.texts import capitalized, change_text, error_text
from search_spaces.domain import LEARNING_SEARCHES, NUM_STARTUP_TRIALS

MAX_MEMBERS = 10
"""Members of a task that are listed."""


def render_selection(selection: Selection, width: int = PLAIN_WIDTH) -> list[str]:
    """Returns a selection in lines of at most `width` columns:
    for each task a table of selection methods, and the verdict in words."""
    lines: list[str] = []
    for name, chosen in selection.tasks.items():
        task = selection.definitions[name]
        lines += [*fold(describe_pool(task, chosen), width), ""]
        lines += [*table_lines(width, methods_table(task, chosen)), ""]
        lines += [*paragraph(verdict(task, chosen), width), *member_lines(chosen, width), ""]
        if sliced := render_slices(((task, own) for own in chosen.slices), width):
            lines += [*sliced, ""]
    for words in (*gaps(selection), *one_model_sentences(selection)):
        lines += [*fold(words, width), ""]
    return [*lines, *(line for words in selection_legend(selection) for line in fold(words, width))]


def gaps(selection: Selection) -> list[str]:
    """Returns a paragraph for each task for which nothing was chosen, and for each trial that was left out."""
    reasons = selection.not_chosen.items()
    none = [f"Nothing was chosen for {title_of(name, selection.definitions)}: {why}." for name, why in reasons]
    lost = {trial: reason for chosen in selection.tasks.values() for trial, reason in chosen.lost.items()}
    return [*none, *(f"Left out: {trial}: {reason}." for trial, reason in lost.items())]


def brief_verdict(selection: Selection, width: int = PLAIN_WIDTH) -> list[str]:
    """Returns the verdict without tables: for each task a few lines of at most `width` columns."""
    verdicts = [list(verdict(selection.definitions[name], chosen)) for name, chosen in selection.tasks.items()]
    last = [*one_model_sentences(selection), *optimism_sentences(selection)]
    paragraphs = (*verdicts, *([one] for one in gaps(selection)), last)
    return [line for sentences in paragraphs for line in paragraph(sentences, width)]


def render_held_out_scores(
    selection: Selection, scores: HeldOutScores, num_before: int, width: int = PLAIN_WIDTH
) -> list[str]:
    """Returns the scores of a selection on held-out rows, which had been scored `num_before` times, next to the
    expected ones, in lines of at most `width` columns."""
    rows = []
    for name, score in scores.scores.items():
        task, expected = selection.definitions[name], selection.tasks[name].score
        found, *on_dev = (f"{task.value_of(one):.3f}" for one in (score, expected.cross_fitted, expected.in_sample))
        rows.append(
            [task.title, f"{scores.num_examples[name]:,}", found, task.bounds_text(scores.intervals[name]), *on_dev]
        )
    table = plain_table(["task", "examples", "held out", "95 % interval", "expected", "on dev"], rows)
    words = "No trial has used these rows, and nothing was chosen by them."
    if num_before > 0:
        times = "once" if num_before == 1 else f"{num_before} times"
        words = (
            f"These rows have been scored {times} before. If anything was chosen by that, they are no longer unseen."
        )
    sliced = ((selection.definitions[name], own) for name, found in scores.slices.items() for own in found)
    by_slice = [*lines, ""] if (lines := render_slices(sliced, width)) else []
    return [
        *table_lines(width, table),
        "",
        *by_slice,
        *fold(f"{words} They are train rows: dev may differ in kind.", width),
    ]


def plain_table(titles: Sequence[str], rows: Sequence[Sequence[TableCell]]) -> PrintedTable:
    """Returns a table whose columns `task` and `method` are aligned to the left, numbers to the right."""
    numbers = {at for at, title in enumerate(titles) if title not in ("task", "method")}
    return PrintedTable(titles=titles, rows=rows, numbers=numbers)


def paragraph(sentences: Iterable[str], width: int) -> list[str]:
    """Sentences as the lines of one paragraph; none without sentences."""
    text = " ".join(sentences)
    return fold(text, width) if text else []


def describe_pool(task: Task, chosen: TaskSelection) -> str:
    """Returns the numbers of candidates and of dev examples,
    and how many groups of connected texts these are, if fewer."""
    candidates, trials = counted(chosen.num_candidates, "candidate"), counted(chosen.num_trials, "trial")
    examples, groups = counted(chosen.num_examples, "dev example"), ""
    if chosen.num_groups not in (None, chosen.num_examples):
        groups = f" in {counted(chosen.num_groups, 'group')} of connected texts"
    return f"{task.title}: {candidates} ({trials}, at every epoch that was scored), {examples}{groups}, {task.metric}"


def methods_table(task: Task, chosen: TaskSelection) -> PrintedTable:
    """Returns a row for each selection method, the simplest first; the chosen one carries a mark."""
    rows = [
        [
            title_of_method(score.name, chosen.titles) + (" <" if score.name == chosen.method else ""),
            f"{score.num_models}",
            f"{task.value_of(score.in_sample):.3f}",
            f"{task.value_of(score.cross_fitted):.3f} {error_text(score.standard_error)}",
            task.bounds_text(score.interval),
            f"{task.value_of(score.lead):+.3f}{significance_mark(score)}" * (score.name != SINGLE),
        ]
        for score in (*chosen.methods, *([chosen.automatic] if chosen.automatic else []))
    ]
    return plain_table(["method", "models", "on dev", "cross-fitted", "95 % interval", "over single"], rows)


def significance_mark(score: MethodScore) -> str:
    """Returns ` n.s.` after a lead that is not significant; nothing where that is not known, either."""
    return " n.s." if score.lead_interval and not score.is_significant else ""


def verdict(task: Task, chosen: TaskSelection) -> Iterator[str]:
    """Sentences: what was chosen, its expected score, and whether it is better than the best single model.

    They are about these trained models: what training them again would change is the ranking's question.
    """
    score = chosen.score
    size = "" if chosen.method in (ONE_MODEL, SINGLE) else f", {counted(len(chosen.members), 'model')}"
    expected = f"{task.value_of(score.cross_fitted):.3f} ({task.bounds_text(score.interval)})"
    yield f"Chosen for {task.title}: {title_of_method(chosen.method, chosen.titles)}{size}."
    yield f"Expect {expected} of these trained models on new text of this kind."
    if not score.interval:
        yield "Dev examples are in too few groups to show how sure that is, and it may be too high."
    yield f"On dev, by which it was chosen, it scores {task.value_of(score.in_sample):.3f}."
    yield from error_sentences(task, chosen)
    leads = [] if chosen.method == SINGLE else [("picking one model by dev", score.lead, score.lead_interval)]
    base = next((one for one in chosen.methods if one.name == BASE), None)
    best = next(one for one in chosen.methods if one.name == chosen.method)
    if base is not None and (base.num_models, base.in_sample) == (best.num_models, best.in_sample):
        yield "It is the best one of the base configuration."
    elif base is not None and score.base_lead is not None:
        leads.append(("the base configuration's best one", score.base_lead, score.base_lead_interval))
    if leads:
        yield f"That is {' and '.join(lead_text(task, *own) for own in leads)}."


def one_model_sentences(selection: Selection) -> list[str]:
    """Returns a sentence where one model serves all tasks about as well as what was chosen for each, within one
    standard error of its expected score."""
    for chosen in selection.tasks.values():
        shared = next((score for score in chosen.methods if score.name == ONE_MODEL), None)
        if shared is None or chosen.method == ONE_MODEL:
            return []
        if not shared.interval or chosen.score.cross_fitted - shared.cross_fitted > shared.standard_error:
            return []
    if len(selection.tasks) < 2:
        return []
    return [
        "One model for all tasks is expected within one standard error of these on each: --method one_model chooses "
        "it, and then --bundle writes it alone."
    ]


def error_sentences(task: Task, chosen: TaskSelection) -> Iterator[str]:
    """Yields the error in the unit of the label, where the metric of a regression says nothing of the labels' scale."""
    error, (low, high) = chosen.score.mean_absolute_error, task.label_range
    if task.metric_entry.has_scale or error is None:
        return
    others = [] if chosen.method == SINGLE else [one for one in chosen.methods if one.name == SINGLE]
    beside = "".join(f", the best single model {one.mean_absolute_error:.3f}" for one in others)
    yield f"On average it is {error:.3f} off the label{beside} (mean absolute error; labels are {low:g} to {high:g})."


def lead_text(task: Task, what: str, lead: float, interval: Sequence[float]) -> str:
    """Returns how far a score is above another one, with the 95 % interval of the difference: `+.040 over picking one
    model by dev (-.004 to +.084: not significant)`."""
    if not interval:
        return f"{change_text(task.value_of(lead))} over {what} (not known how surely)"
    value, *bounds = (task.value_of(own) for own in (lead, *interval))
    shown, low, high = map(change_text, (value, *sorted(bounds)))
    is_open = ": not significant" if min(interval) <= 0 <= max(interval) else ""
    return f"{shown} over {what} ({low} to {high}{is_open})"


def member_lines(chosen: TaskSelection, width: int = PLAIN_WIDTH) -> list[str]:
    """Returns the members and their weights."""
    shown = [
        f"  {member.weight:.3f}  {member.trial} of {folder_name(member.sweep)}, epoch {member.epoch}"
        for member in chosen.members[:MAX_MEMBERS]
    ]
    if len(chosen.members) > MAX_MEMBERS:
        shown.append(f"  and {len(chosen.members) - MAX_MEMBERS} more")
    return [line for words in shown for line in fold(words, width, "    ")]


def selection_legend(selection: Selection) -> Iterator[str]:
    """Yields what the columns mean, and what they leave out."""
    tasks = selection.tasks.values()
    rule = (
        "the simplest method within one standard error (of the difference) of the best, or the best single model where "
        "choosing among them is not above it"
    )
    if all(chosen.automatic is None for chosen in tasks):
        rule = "by the method that was requested"
    times = "once" if selection.num_repeats == 1 else f"{selection.num_repeats} times"
    yield "on dev: the score on dev of what is chosen by all of dev; too high."
    yield (
        "cross-fitted: each example is scored by what was chosen without it (epochs, trials and their number) "
        f"({selection.num_folds} folds, {times}); ± its standard error."
    )
    yield (
        "over single: cross-fitted, minus that of the best single model; n.s., not significant: the 95 % interval, "
        "which holds for all methods at once, contains 0."
    )
    yield f"<: what was chosen, {rule}."
    if any(chosen.automatic is not None for chosen in tasks):
        yield "choosing among them: the method is chosen without the fold, too; this is the expected score."
    if any(score.name == ONE_MODEL for chosen in tasks for score in chosen.methods):
        yield "one model for all tasks: the one with the best overall dev score."
    yield from shared_text_sentences(selection)
    yield from optimism_sentences(selection)


def optimism_sentences(selection: Selection) -> list[str]:
    """Returns what cross-fitting cannot correct, in at most one sentence:
    trials that were proposed or stopped by dev scores.

    Cross-fitting takes trials as given, but a search has proposed them, and ASHA stopped them, by scores on all of dev.
    """
    searches = selection.searches.values()
    learning = [own.search for own in searches if own.num_configurations > NUM_STARTUP_TRIALS]
    proposing = dict.fromkeys(LEARNING_SEARCHES[search] for search in learning if search in LEARNING_SEARCHES)
    has_stopped = any(own.scheduler == "asha" for own in searches)
    causes = [f"{' and '.join(proposing)} proposed trials"] if proposing else []
    causes += ["ASHA stopped trials"] * has_stopped
    if not causes:
        return []
    return [
        f"{capitalized(' and '.join(causes))} by scores on these dev examples, which cross-fitting cannot undo: "
        "expected scores are somewhat too high, the more so the more trials there are."
    ]


def shared_text_sentences(selection: Selection) -> Iterator[str]:
    """Yields whether folds and standard errors are of whole groups of connected texts;
    nothing where no texts are shared."""
    unknown, unusable, grouped = list[str](), list[str](), list[str]()
    for name, chosen in selection.tasks.items():
        if chosen.num_groups is None:
            unknown.append(selection.definitions[name].title)
        elif not are_usable(chosen.num_groups, chosen.largest_group, chosen.num_examples):
            unusable.append(selection.definitions[name].title)
        elif chosen.num_groups < chosen.num_examples:
            grouped.append(name)
    if grouped:
        yield "Dev examples that texts or groups connect are drawn, and dealt to folds, as whole groups."
    if unusable:
        yield (
            f"{', '.join(unusable)}: too few groups of connected examples, or one too large: no difference is claimed, "
            "and folds are of single examples, so that expected scores may be too high."
        )
    if unknown:
        yield (
            f"{', '.join(unknown)}: the record of dev examples that share texts is missing, so every example counts as "
            "independent. Resuming the sweep writes it again, even if it has finished."
        )
