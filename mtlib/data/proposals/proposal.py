"""Proposes a `tasks.toml` for a folder of data files: what it finds, and as comments what it is unsure of.

Every file is looked at for itself. Files that belong together, such as texts beside their labels or the splits of a
task, are joined. Each proposal is then read as a `tasks.toml` would be: the rows that it shows come from there. One
that cannot be read is a comment, with the reason. Each file is named in one key, or in one line that is unsure.
"""

import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mtlib.config.data import DELIMITED_FORMATS, as_number, format_of
from mtlib.config.task_file import MAX_TASKS, tasks_of_tree
from mtlib.data.files.quoting import find_quoting
from mtlib.data.files.readers import SURROGATE, WORDS_OF_SPLITS
from mtlib.data.load import TableKey, own_source, read_all, with_quoting
from mtlib.data.proposals.columns import id_columns, labels_in, parts_that_recur, split_columns
from mtlib.data.proposals.joined_files import (
    Group,
    groups_of,
    is_alike,
    join_files,
    names_of_labels,
    nearest_lists,
    take_class_folders,
)
from mtlib.data.proposals.samples import FAULTS, Sample, common_encoding, look_at
from mtlib.data.proposals.toml_text import comment, in_toml, path_in_toml
from mtlib.data.row_sources import read_unlabelled
from mtlib.data.tables import Table
from mtlib.runtime.errors import first_line, require
from mtlib.tasks import Task

NO_DATA = re.compile(
    r"(readme.*|licen[cs]es?|copying|citation|changelog)(\.(txt|rst|html?|bib|cff))?"
    r"|.*\.(md|toml|py|sh|ipynb|pdf|ya?ml)",
    re.IGNORECASE,
)
"""Names of files that are beside data, unless their ending is one of tables."""
HIDDEN = (".", "__")
"""Beginnings of the names of files and folders that hold no data."""
SHOWN_ROWS, SHOWN_CHARACTERS = 2, 100
"""Rows of a task that are shown, and characters of each cell."""
SHOWN_FILES = 10
"""Files that a line about many names."""
MOST_CLASSES = 20
"""More values that are numbers are a regression, unless they are counted and recur."""
REPEATS_OF_A_CLASS = 2
"""How often each of more numbers occurs, at least, if they are classes."""
NO_LABELS = (
    "lines are texts alone: their labels are in a file for each label, a file with a label a line or a pattern, see "
    "docs/layouts.md"
)


@dataclass(kw_only=True)
class Proposal:
    """The proposal of one task."""

    group: Group
    """Its files."""
    lines: list[str]
    """Of TOML, without the title."""
    doubts: list[str]
    rows: list[str] = field(default_factory=list)
    """As they were read."""
    fault: str = ""
    """Why it cannot be read; empty: it can."""


def suggest_tasks(folder: Path) -> Iterator[str]:
    """Yields the lines of a `tasks.toml` for the files of a folder.

    Raises:
        ValueError: there is no file with rows, with what is wrong with the others.
    """
    samples, not_read = look_at_files(folder)
    require(bool(samples), f"{folder} must hold a file with rows", "; ".join(files_by_reason(not_read)) or "none")
    lists = {sample: names for sample in samples if (names := names_of_labels(sample))}
    groups, unlabelled = groups_of(join_files([one for one in samples if one not in lists]))
    used = set[Sample]()
    proposals = [proposal_of(folder, group, lists, used) for group in groups]
    for proposal in [own for own in proposals if not own.fault][MAX_TASKS:]:
        proposal.fault = f"there must be at most {MAX_TASKS} tasks"
    proposals.sort(key=lambda proposal: bool(proposal.fault))
    yield "# A proposal, made from the files: check each line, above all those that begin with `# unsure`."
    num_read = sum(not proposal.fault for proposal in proposals)
    for number, proposal in enumerate(proposals[: num_read + MAX_TASKS], 1):
        is_alone = number == 1 and num_read < 2
        yield from ("", *lines_of_proposal(proposal, "task" if is_alone else f"task{number}"))
    rest = proposals[num_read + MAX_TASKS :]
    not_read += [(one.files or one.path, proposal.fault) for proposal in rest for one in proposal.group.samples]
    not_used: list[tuple[str | Path, str]] = [(one.path, NO_LABELS) for one in unlabelled]
    not_used += [(one.path, "it may list names of labels, but no task uses it") for one in lists if one not in used]
    lines = [f"unsure: not read: {line}" for line in files_by_reason(not_read)]
    lines += [f"unsure: not used: {line}" for line in files_by_reason(not_used)]
    yield from ("", *map(comment, lines)) if lines else ()


def look_at_files(folder: Path) -> tuple[list[Sample], list[tuple[str | Path, str]]]:
    """Returns the samples of all files of a folder that can be read, and the others with the reason."""
    every = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    paths = sorted(path for path in every if is_data(path))
    unnamed = [path for path in paths if SURROGATE.search(str(path))]  # stands for a byte that is not UTF-8
    faults: list[tuple[str | Path, str]] = [(path, "the name of a file must be UTF-8") for path in unnamed]
    samples, others = take_class_folders(folder, [path for path in paths if path not in unnamed])
    for path in others:
        try:
            samples.append(look_at(folder, path))
        except FAULTS as error:
            faults.append((path, first_line(error)))
    return samples, faults


def is_data(path: Path) -> bool:
    """Returns whether a file may hold rows, by the names of it and of its folders."""
    is_beside = NO_DATA.fullmatch(path.name) is not None and format_of(path.name) is None
    return not is_beside and not any(part.startswith(HIDDEN) for part in path.parts)


def files_by_reason(files: Iterable[tuple[str | Path, str]]) -> Iterator[str]:
    """Yields the names of files, of many the first ones, with the reason that they have in common."""
    by_reason = defaultdict[str, list[str]](list)
    for path, why in files:
        by_reason[why].append(str(path))
    for why, names in by_reason.items():
        more = f" and {len(names) - SHOWN_FILES} more" if len(names) > SHOWN_FILES else ""
        yield f"{', '.join(names[:SHOWN_FILES])}{more}: {why}"


def lines_of_proposal(proposal: Proposal, title: str) -> Iterator[str]:
    """Yields the lines of a proposal; comments alone if it cannot be read."""
    lines = [f"[tasks.{title}]", *proposal.lines]
    yield from map(comment, lines) if proposal.fault else lines
    yield from (comment(f"unsure: {doubt}") for doubt in proposal.doubts)
    if proposal.fault:
        yield comment(f"unsure: these files cannot be read so: {proposal.fault}")
    elif proposal.rows:
        yield from ("# rows as they were read:", *(comment(f"  {row}") for row in proposal.rows))


def proposal_of(folder: Path, group: Group, lists: Mapping[Sample, Sequence[str]], used: set[Sample]) -> Proposal:
    """Returns the proposal of one task.

    Args:
        folder: of the data.
        group: its files.
        lists: files with the names of labels 0, 1, ...
        used: gets the files of them that have the names of its labels.
    """
    first, columns = group.samples[0], group.columns
    files, doubts = files_of_splits(group)
    every = [one for own in files.values() for one in own]
    values = Counter(value for one in files["train"] or [first] for value in one.values(columns.label))
    label_names = list(first.class_names.get(columns.label, ()))
    near = [] if label_names else nearest_lists([one for one in lists if are_named(values, lists[one])], group)
    if near:
        label_names = list(lists[near[0]])
        used.update(near)
        others = "".join(f", not from {other.path}" for other in near[1:])
        found = ", ".join(label_names[:MOST_CLASSES])
        doubts.insert(0, f"the names of labels come from {near[0].path}{others}: {found}")
    ids = [name for name in id_columns([first]) if all(name in id_columns(own) for own in files.values() if own)]
    keys = {
        "texts": columns.texts,
        "label": columns.label or "label",
        "id": ids[0] if ids else "",
        "format": next((one.given.name for one in every if one.given.name), ""),
        "encoding": common_encoding(every),
        "separator": first.given.separator,
        "pattern": first.given.pattern,
        "columns": () if first.has_names or first.form not in DELIMITED_FORMATS else first.names,
    }
    lines = [
        *describe_kind(values, label_names),
        *(f"{key} = {in_toml(value)}" for key, value in keys.items() if value),
    ]
    own = dict.fromkeys(doubt for one in group.samples for doubt in one.doubts)
    doubts = [*own, *columns.doubts, *doubts, *group.doubts, *doubts_of_labels(values, label_names)]
    if any(one.form == "tsv" and find_quoting(folder / one.path, one.given).name == "unclear" for one in every):
        doubts.append('the cells in quotation marks may be quoted: quoting = "standard", or "none"')
    proposal = Proposal(group=group, lines=[*lines, *split_lines(first, files)], doubts=doubts)
    if not columns.texts:
        proposal.fault = "no column looks like texts"
    elif not files["train"]:
        proposal.fault = f"no file is for train, as {first.path} is for {first.split} by its name"
    else:
        read_proposal(folder, proposal)
    return proposal


def are_named(values: Iterable[str], names: Sequence[str]) -> bool:
    """Returns whether all labels are numbers of names."""
    numbers = {as_number(label) for cell in values for label in labels_in(cell)}
    return bool(numbers) and numbers <= {*range(len(names))}


def files_of_splits(group: Group) -> tuple[dict[str, list[Sample]], list[str]]:
    """Returns the files of each split, and what is unsure: several files of one split, and those of none."""
    first, doubts = group.samples[0], list[str]()
    files: dict[str, list[Sample]] = {split: [] for split in WORDS_OF_SPLITS}
    for sample in group.samples:
        name = sample.files or sample.path
        split = sample.split or ("" if first.split == "train" else "train")
        if not is_alike(sample, first):
            doubts.append(f"{name} is not used: files of a task must be of one format, as {first.path} is")
        elif not split or (first.files and files[split]):
            doubts.append(f"{name} is not used, and has the same columns: may it be for {split or 'train'} too?")
        elif sample is not first and (first.arrays or (split_columns(first) and sample.split)):
            doubts.append(f"{name} is not used, as {first.path} has rows of several splits")
        else:
            files[split].append(sample)
    for split, own in files.items():
        if len(own) > 1:
            doubts.append(f"{split} has {len(own)} files: are the rows of all of them for it?")
    return files, doubts


def split_lines(first: Sample, files: Mapping[str, Sequence[Sample]]) -> Iterator[str]:
    """Yields the keys that name the files of each split."""
    by_split = {split: files_in_toml(own) for split, own in files.items() if own}
    if first.arrays and files["train"]:
        by_split = {split: files_in_toml([first]) for split in first.arrays}
    elif files["train"] and (found := split_columns(first)):
        values = {value: None for one in files["train"] for value in one.values(found[0])}
        by_split, every, column = {}, files_in_toml(files["train"]), in_toml(found[0])
        for split, words in WORDS_OF_SPLITS.items():
            if own := [value for value in values if value.casefold() in words]:
                by_split[split] = f"{{files = {every}, where = {{{column} = {in_toml(own)}}}}}"
    for split in WORDS_OF_SPLITS:
        if split in by_split:
            yield f"{split} = {by_split[split]}"
        elif split == "dev":
            yield "dev = 0.1  # a share of train, as no file is for dev by its name"


def files_in_toml(samples: Sequence[Sample]) -> str:
    """Returns the files of a split as TOML."""
    own = [one.files or path_in_toml(one.path) for one in samples]
    return own[0] if len(own) == 1 else f"[{', '.join(own)}]"


def read_proposal(folder: Path, proposal: Proposal) -> None:
    """Reads the rows of a proposal as its lines say, and notes the first of train, or the fault.

    If it can be read without its key for test alone, this becomes a doubt.
    """
    test = [line for line in proposal.lines if line.startswith("test = ")]
    proposal.rows, proposal.fault = first_rows(folder, proposal.lines)
    if proposal.fault and test:
        lines = [line for line in proposal.lines if line not in test]
        proposal.rows, fault = first_rows(folder, lines)
        if not fault:
            proposal.doubts.append(f"{test[0]}, but it cannot be read so: {proposal.fault}")
            proposal.lines = lines
        proposal.fault = fault


def first_rows(folder: Path, lines: Iterable[str]) -> tuple[list[str], str]:
    """Returns the first rows of train as text, and why a split cannot be read as the lines say; empty: all can."""
    try:
        tree = tomllib.loads("\n".join(["[tasks.task]", *lines]))
        task = with_quoting(tasks_of_tree(tree)["task"], folder)
        assert task.files is not None, "tasks.toml defines the task"
        splits: list[TableKey] = [("task", split) for split in ("train", "dev")]
        table = read_all({key: (own_source(task, task.files, key[1]),) for key in splits}, folder)["task", "train"]
        if task.files.test:
            read_unlabelled(own_source(task, task.files, "test"), folder)
        return [describe_row(task, table, row) for row in range(min(SHOWN_ROWS, len(table.ids)))], ""
    except FAULTS as error:
        return [], first_line(error)


def describe_row(task: Task, table: Table, row: int) -> str:
    """Returns the texts and the label of a row, with the names of their columns."""
    label = table.labels[row]
    named = f"{label:g}" if task.is_regression else task.names_of(label)
    texts = (column[row] for column in table.texts)
    pairs = zip((*task.text_columns, task.label_column), (*texts, named), strict=True)
    return "  ".join(f"{key}: {value[:SHOWN_CHARACTERS]!r}" for key, value in pairs)


def describe_kind(cells: Counter[str], label_names: Sequence[str]) -> Iterator[str]:
    """Yields the keys of the kind of task that labels are of.

    Args:
        cells: of the column of the label, with how often each occurs.
        label_names: of the labels 0, 1, ...; empty: none are known.
    """
    lists = [labels_in(cell) for cell in cells]
    found = {one for own in lists for one in own}
    values = sorted(found, key=lambda value: (isinstance(as_number(value), str), as_number(value), value))
    numbers = [number for value in values if isinstance(number := as_number(value), float)]
    are_numbers = bool(values) and len(numbers) == len(values)
    is_named = bool(label_names) and ({*values} <= {*label_names} or are_numbers)
    is_counted = numbers == list(range(len(values)))
    are_few = len(values) <= MOST_CLASSES
    recur = is_counted and min(cells.values(), default=0) >= REPEATS_OF_A_CLASS
    names = in_toml(label_names if is_named else values)
    if numbers and not is_named:
        pairs = (f"{in_toml(own)} = {in_toml(f'label {own}')}" for own in values)
        names = f"{{{', '.join(pairs)}}}  # unsure: the names of these values"
    if any(len(own) != 1 for own in lists):
        yield from ('kind = "multilabel"', f"labels = {names}")
    elif is_named:
        yield from (f'kind = "{"binary" if len(label_names) == 2 else "classes"}"', f"labels = {names}")
    elif are_numbers and not ((are_few or recur) and all(map(float.is_integer, numbers))):
        other = "" if are_few or not is_counted else '; or kind = "classes" with their number, num_labels'
        low_high = f"[{numbers[0]:.12g}, {numbers[-1]:.12g}]"
        yield from ('kind = "regression"', f"range = {low_high}  # unsure: of these rows{other}")
    elif is_counted and len(values) > 2:
        range_of = f"range = [0, {len(values) - 1}]"
        other = "" if are_few else f'  # unsure: or scores, kind = "regression" with {range_of}'
        yield from ('kind = "classes"', f"num_labels = {len(values)}{other}")
    elif is_counted and len(values) == 2:
        yield 'kind = "binary"'
    elif len(values) < 2:
        yield from ('kind = "classes"', 'labels = ["one", "two"]  # unsure: the names of the labels')
    else:
        yield from (f'kind = "{"binary" if len(values) == 2 else "classes"}"', f"labels = {names}")


def doubts_of_labels(cells: Counter[str], label_names: Sequence[str]) -> Iterator[str]:
    """Yields that cells seem to hold several labels each that are no list in JSON."""
    names = parts_that_recur(cells) if not label_names and all(len(labels_in(cell)) == 1 for cell in cells) else []
    if names:
        has_lists = any(cell.startswith("[") for cell in cells)
        form = " (lists must be JSON, in double quotation marks)" if has_lists else ""
        yield f'cells seem to hold several labels: kind = "multilabel" with labels = {in_toml(names)}{form}'
