"""Describes the tasks of a data folder: `python -m mtlib.data DIR`; each line that it prints has a function here."""

import argparse
import csv
import io
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from mtlib.config.data import DataConfig
from mtlib.config.methods import read_methods
from mtlib.config.network import EncoderConfig
from mtlib.config.task_file import GLUE_FILE, TASK_FILE
from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig, default_task_configs
from mtlib.data.cut_rows import CutRows, find_cut_rows
from mtlib.data.hold_out import (
    LARGEST_SHARE,
    LEAST_GROUPS,
    are_usable,
    group_rows,
    letters_of,
    normalise,
    normalise_columns,
)
from mtlib.data.load import TableKey, data_tasks, find_row_sources, read_all, task_source
from mtlib.data.near_copies import DEFAULT_SIMILARITY, describe_near_copies, find_near_copies
from mtlib.data.proposals.proposal import suggest_tasks
from mtlib.data.repeats import contradicting_rows, repeated_rows, repeats_row, tolerated_difference
from mtlib.data.row_sources import RowSources, describe_sources, has_folder, is_there, read_unlabelled, undrawn
from mtlib.data.tables import Table, check_folder, connecting_columns
from mtlib.metrics.constant_prediction import constant_prediction, constant_values
from mtlib.metrics.rare_classes import describe_rare_classes
from mtlib.runtime.command_line import as_command, counted, new_parser, number, parse_words, whole_number
from mtlib.runtime.console import show_lines, show_note, write_data
from mtlib.runtime.errors import require
from mtlib.runtime.program_names import typed_command
from mtlib.tasks import TASKS, Task

MAX_LISTED_ROWS = 3
"""Unusable rows of a split that are listed."""
SHARE_OF_ROWS = 0.95
"""Share of rows for which the number of words is printed that they have at most."""
MAX_PRINTED_LABELS = 20
"""Labels of a task whose counts are printed; the others are summed up."""
MAX_SHOWN_TEXT = 80
"""Characters of a text that are shown."""
MAX_CONTRADICTIONS = 2
"""Examples of contradicting labels."""
MAX_NEAR_COPIES = 3
"""Examples of dev rows of a task with near copies in train."""
NEAR_COPIES_FILE = "near-copies.csv"

DATA_DESCRIPTION = (
    "Print what a sweep with --data DIR would train on: the tasks, their rows, labels and lengths, texts that occur "
    "twice or have contradicting labels, groups and slices of rows, dev rows that train has too, the score of the most "
    "frequent label or of the mean, and rows that cannot be used. Reads every file and changes nothing; exits with 2 "
    "and one line if something is wrong."
)
CS224N_FILES = ", ".join(task.file_name("train") for task in TASKS.values())
GLUE_FILES = ", ".join(f"{task.glue.folder}/train.tsv" for task in TASKS.values() if task.glue is not None)
EXAMPLES = f"""\
DIR holds one of
  tasks.toml                        tasks of your own, in any files (every key: docs/tasks.md, docs/layouts.md)
  {CS224N_FILES}, ...-dev.csv    the files of Stanford CS224N's default project
  {GLUE_FILES}    folders of GLUE; for all nine tasks save what --glue prints as DIR/tasks.toml

a tasks.toml, with one section for each task:
  [tasks.tone]
  kind = "classes"                              # or "binary", "multilabel", "regression" with range = [0, 5]
  labels = ["negative", "neutral", "positive"]  # of the numbers 0, 1, 2; without names: num_labels = 3
  texts = ["text"]                              # the column of the text, or two columns of a pair
  label = "tone"                                # the column of the label
  train = "train-*.jsonl"                       # .csv, .tsv, .json, .xlsx, ...: a file, a pattern, a list; or hf://NAME
  dev = 0.1                                     # likewise, or a share of train
  group = "document"                            # a column whose equal values keep rows together (may be left out)

examples:
  python -m mtlib.data DIR                      describe the tasks of a folder
  python -m mtlib.data DIR > DIR/tasks.toml     propose definitions of the tasks of a folder that has none
  python -m mtlib.data DIR --encoder NAME --max-length 64    say too how many rows are longer than 64 tokens
  python -m mtlib.data DIR --contradictions     list the rows with the same texts and other labels
  python -m mtlib.data DIR --near-copies > DIR/near-copies.csv    find texts that are nearly equal, to keep together
  python -m mtlib.data --glue > GLUE/tasks.toml    define GLUE's nine tasks in the folder of its download
"""


@as_command
def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the description of a folder, its contradictions, or the definitions of GLUE's tasks."""
    options = parse_words(build_parser(), arguments)
    if options.glue:
        require(options.folder is None, "--glue must be given without DIR: save what it prints", options.folder)
        show_lines(GLUE_FILE.read_text(encoding="utf-8").splitlines())
        return
    require(options.folder is not None, "DIR must name a folder (see --help)", "none")
    has_use = options.max_length is None or options.encoder is not None
    require(has_use, "--max-length must come with --encoder NAME, whose tokens are counted", "none")
    if options.near_copies:
        show_near_copies(options.folder, options.methods, options.similarity)
    elif options.contradictions:
        show_lines(list_contradictions(options.folder, options.methods))
    elif is_unknown(options.folder):
        show_note(f"{options.folder} has no {TASK_FILE}: a proposal for one follows (save it as {TASK_FILE} there)")
        show_lines(suggest_tasks(options.folder))
    else:
        show_lines(describe_data(options.folder, options.methods, options.encoder, options.max_length))


def is_unknown(folder: Path) -> bool:
    """Returns whether a folder is there and has neither definitions of tasks nor a file of the built-in ones."""
    config, path = config_of(TASKS), folder / TASK_FILE
    is_empty = path.is_file() and not path.stat().st_size  # the shell has made it, for what is printed
    return (
        folder.is_dir()
        and (is_empty or not path.is_file())
        and not any(has_files(config, folder, name) for name in TASKS)
    )


def build_parser() -> argparse.ArgumentParser:
    parser = new_parser("python -m mtlib.data", "DIR [options] | --glue", DATA_DESCRIPTION, EXAMPLES)
    parser.add_argument("folder", nargs="?", metavar="DIR", type=Path, help="the data folder")
    words = f"Python files of your own with the metrics that {TASK_FILE} names (docs/extending.md)"
    parser.add_argument("--methods", metavar="FILE", action="extend", nargs="+", default=[], help=words)
    parser.add_argument("--encoder", metavar="NAME", help="say how many rows are too long for this encoder's tokens")
    words = f"the longest input in tokens (encoder.max_length; default: {EncoderConfig.max_length})"
    parser.add_argument("--max-length", metavar="N", type=whole_number, help=words)
    words = "list all rows with the same texts whose labels differ, with file and line, and nothing else"
    parser.add_argument("--contradictions", action="store_true", help=words)
    words = (
        "print as CSV the texts of train and dev that have near copies, with the number of their set, to be group_file "
        f"in {TASK_FILE}, and examples on standard error"
    )
    parser.add_argument("--near-copies", action="store_true", help=words)
    words = "with --near-copies: the least Jaccard similarity of their pieces of 5 letters and digits (default: {:g})"
    words = words.format(DEFAULT_SIMILARITY)
    parser.add_argument("--similarity", metavar="S", type=number, default=DEFAULT_SIMILARITY, help=words)
    parser.add_argument("--glue", action="store_true", help=f"print a {TASK_FILE} of GLUE's nine tasks")
    return parser


def describe_data(
    folder: Path, methods: Sequence[str] = (), encoder: str | None = None, max_length: int | None = None
) -> Iterator[str]:
    """Yields what a folder holds, and what to type next.

    Args:
        folder: of the data.
        methods: files that have metrics that its tasks may have.
        encoder: whose tokens are counted; None: rows are not tokenised.
        max_length: how many tokens trials would read; None for the default.

    Raises:
        ValueError: in one line: there are no tasks, or a file of a task is missing or wrong; or there is no encoder.
    """
    config, wanted, tables = read_folder(folder, methods)
    present = list(dict.fromkeys(name for name, _ in wanted))
    cut = {} if encoder is None else cut_rows_of(config, tables, encoder, max_length)
    named = TASK_FILE if (folder / TASK_FILE).is_file() else "the names of its files"
    yield f"{folder}: {counted(len(present), 'task')}, by {named}"
    for name in present:
        task, train, dev = config.task(name), tables[name, "train"], tables[name, "dev"]
        yield from ("", heading(task))
        yield from describe_split(task, train, f"of {describe_sources(wanted[name, 'train'])}")
        if name in cut:
            yield f"        {cut[name].sentence(task.title)}"
        yield from describe_split(task, dev, origin_of_dev(wanted[name, "dev"]))
        yield describe_overlap(train, dev)
        yield describe_constant(task, train.labels, dev.labels)
        yield from describe_test(config, folder, name)
    missing = [name for name in config.active_tasks if name not in present]
    for name in missing:
        paths = describe_sources(tuple(task_source(config, folder, name, split) for split in ("train", "dev")))
        yield from ("", f"{heading(config.task(name))}: not there ({paths})")
    yield from ("", *next_steps(folder, present if missing else [], methods, encoder or config.encoder.name))


def read_folder(
    folder: Path, methods: Sequence[str], *, may_lack_group_files: bool = False
) -> tuple[TrialConfig, dict[TableKey, RowSources], dict[TableKey, Table]]:
    """Returns a configuration of all tasks of a folder, and the sources and tables of those that are there.

    If `may_lack_group_files`, those that are named are left out unless all are there: one is perhaps being written.
    """
    check_folder(folder, ())
    tasks = data_tasks(folder, read_methods(methods).own_metrics)
    own = {name: task.files for name, task in tasks.items() if task.files is not None and task.files.group_file}
    paths = [folder / files.group_file for files in own.values()] if may_lack_group_files else []
    if not all(path.is_file() and path.stat().st_size for path in paths):
        bare = {name: replace(tasks[name], files=replace(files, group_file="")) for name, files in own.items()}
        tasks = {**tasks, **bare}
    config = config_of(tasks)
    present = [name for name in config.active_tasks if has_files(config, folder, name)] or config.active_tasks
    wanted = find_row_sources(config_of({name: config.task(name) for name in present}), folder)
    return config, wanted, read_all(wanted, folder)


def cut_rows_of(
    config: TrialConfig, tables: Mapping[TableKey, Table], encoder: str, max_length: int | None
) -> dict[str, CutRows]:
    """Returns the train rows by task that are longer than so many tokens; ValueError if there is no such encoder."""
    from mtlib.model.encoder import load_description  # here: it loads torch, which nothing else of this command needs

    length = {} if max_length is None else {"encoder.max_length": max_length}
    config = config.override({"encoder.name": encoder, **length})
    train = {name: table for (name, split), table in tables.items() if split == "train"}
    return {rows.task: rows for rows in find_cut_rows([config], train, {encoder: load_description(encoder)[1]})}


def list_contradictions(folder: Path, methods: Sequence[str] = ()) -> Iterator[str]:
    """Yields each row of a split whose texts another row has with another label: its place, id and label.

    A blank line separates rows of different texts. Raises ValueError as `describe_data`.
    """
    config, _, tables = read_folder(folder, methods)
    for (name, split), table in tables.items():
        task = config.task(name)
        found = contradicting_rows(task, table.labels, repeated_rows(table.texts))
        what = "pair" if task.is_pair else "text"
        yield f"{name} {split}: {counted(len(found), what)} in several rows with labels that differ"
        for rows in found:
            yield ""
            for row in rows:
                yield f"{table.places[row]}  id {table.ids[row]}  {row_label_text(task, table.labels[row])}"


def show_near_copies(folder: Path, methods: Sequence[str], similarity: float) -> None:
    """Prints the sets of near copies among the texts of all tasks, and about them; ValueError as `describe_data`."""
    _, wanted, tables = read_folder(folder, methods, may_lack_group_files=True)
    every = read_all({key: tuple(map(undrawn, sources)) for key, sources in wanted.items()}, folder)
    texts = dict.fromkeys(text for table in every.values() for column in table.texts for text in column)
    sets = find_near_copies(texts, similarity)
    show_note(f"{len(sets):,} of {len(texts):,} texts are in {max(sets.values(), default=0):,} sets of near copies")
    for name in dict.fromkeys(name for name, _ in wanted):
        for line in describe_near_copies(sets, tables[name, "train"], tables[name, "dev"], MAX_NEAR_COPIES):
            show_note(line)
    if sets:
        show_note(f"If you save them as {folder / NEAR_COPIES_FILE}, this key of a task keeps their rows together:")
        show_note(f'group_file = "{NEAR_COPIES_FILE}"')
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows([("text", "group"), *sets.items()])
    write_data(stream.getvalue())


def config_of(tasks: Mapping[str, Task]) -> TrialConfig:
    """Returns a configuration that trains all of the tasks."""
    return TrialConfig(
        stages=(StageConfig(tasks=tuple(tasks)),), data=DataConfig(tasks=tasks), tasks=default_task_configs(tasks)
    )


def has_files(config: TrialConfig, folder: Path, name: str) -> bool:
    """Returns whether a task's train or dev file is there, or the folder that `tasks.toml` names:
    then a file is missing."""
    sources = [task_source(config, folder, name, split) for split in ("train", "dev")]
    is_own = config.task(name).files is not None
    return any(has_folder(source, folder) if is_own else is_there(source, folder) for source in sources)


def heading(task: Task) -> str:
    title = f" ({task.title})" if task.title != task.name else ""
    of_labels = f" of {task.num_classes}" if task.num_logits > 1 else ""
    return f"{task.name}{title}: {task.kind}{of_labels}, metric {task.metric}, weight {task.weight:g}"


def describe_split(task: Task, table: Table, origin: str) -> Iterator[str]:
    """Yields the rows of a split: how many, their labels and lengths, and those that are not used."""
    yield f"  {table.split:<6}{counted(len(table.ids), 'row')} {origin}"
    yield f"        {describe_labels(task, table.labels)}"
    yield from describe_reading(task, table)
    if table.split == "dev" and not task.is_regression:
        few = describe_rare_classes(task.class_names, task.class_sizes(table.labels), task.metric)
        yield from [f"        {few}"] if few else []
    yield f"        {describe_lengths(table.texts)}"
    yield from describe_repeats(task, table)
    yield from describe_groups(task, table)
    for column, cells in table.slices.items():
        shown = (f"{value or 'blank'} {count:,}" for value, count in Counter(cells).most_common(MAX_PRINTED_LABELS))
        more = len(set(cells)) - MAX_PRINTED_LABELS
        yield f"        {column}: {', '.join(shown)}{f' and {more:,} more values' if more > 0 else ''}"
    yield from (f"        {note}" for note in table.notes)
    yield from describe_unused(table.skipped, table.left_out)


def origin_of_dev(sources: RowSources) -> str:
    """Returns where dev rows are from: a share of train, the later rows of it, or files of their own."""
    share, later = sources[0].dev_share, sources[0].layout.dev_from
    if later is not None:
        return f"of train, whose {later.column} is after {later.after}"
    return f"drawn from train (at most {share:g} of its rows)" if share else f"of {describe_sources(sources)}"


def describe_labels(task: Task, labels: np.ndarray) -> str:
    """Returns how often each label occurs, or the range, mean and standard deviation of numbers."""
    if task.is_regression:
        found = f"labels {labels.min():g} to {labels.max():g}"
        bounds = "{:g} to {:g}".format(*task.label_range)
        return f"{found} (range {bounds}), mean {labels.mean():.3g}, standard deviation {labels.std():.3g}"
    named = zip(task.class_names, task.class_sizes(labels), strict=True)
    parts = [f"{name}: {count:,} ({percent(count / len(labels))})" for name, count in named]
    more = len(parts) - MAX_PRINTED_LABELS
    none = f"; none: {np.sum(~labels.any(axis=1)):,}" if task.kind_entry.has_several_labels else ""
    return f"labels {', '.join(parts[:MAX_PRINTED_LABELS])}{f' and {more} more' if more > 0 else ''}{none}"


def describe_reading(task: Task, table: Table) -> Iterator[str]:
    """Yields how TSV files with quotation marks are read, with a text, and labels that no row of train has."""
    quoting = task.files.format.quoting if task.files else ""
    if quoting in ("standard", "none"):
        texts = list(zip(table.places, *table.texts, strict=True))
        place, *own = next((row for row in texts if any('"' in text for text in row[1:])), texts[0])
        text = next((text for text in own if '"' in text), own[0])
        shown = text if len(text) <= MAX_SHOWN_TEXT else f"{text[:MAX_SHOWN_TEXT]} ..."
        yield f"        quoting {quoting}: {place} is read as {shown}"
    if table.split == "train" and not task.is_regression:
        sizes = task.class_sizes(table.labels)
        unused = [name for name, count in zip(task.class_names, sizes, strict=True) if not count]
        yield from [f"        no row has {', '.join(unused)}"] if unused else []


def describe_lengths(texts: Sequence[Sequence[str]]) -> str:
    """Returns the numbers of words, separated by white space, of the rows' texts, of pairs both together."""
    words = np.array([sum(len(text.split()) for text in row) for row in zip(*texts, strict=True)])
    median, most = (np.quantile(words, share, method="inverted_cdf") for share in (0.5, SHARE_OF_ROWS))
    both = " of both texts" if len(texts) == 2 else ""
    return f"words{both}: median {median}, {percent(SHARE_OF_ROWS)} of rows at most {most}, longest {words.max()}"


def describe_unused(skipped: Sequence[str], left_out: Sequence[str] = ()) -> Iterator[str]:
    """Rows that are not used: how many, and the first with file and line."""
    if skipped:
        more = f", and {len(skipped) - MAX_LISTED_ROWS:,} more" if len(skipped) > MAX_LISTED_ROWS else ""
        yield f"        unusable: {counted(len(skipped), 'row')}: {', '.join(skipped[:MAX_LISTED_ROWS])}{more}"
    yield from (f"        left out: {line}" for line in left_out)


def describe_repeats(task: Task, table: Table) -> Iterator[str]:
    """Yields the texts that several rows of a split have, and examples of contradicting labels, with file and line."""
    groups = repeated_rows(table.texts)
    found = contradicting_rows(task, table.labels, groups)
    number = counted(len(groups), "pair" if len(table.texts) == 2 else "text")
    yield f"        {number} in several rows" + (f", {sum(map(len, groups)):,} in all" if groups else "")
    if found:
        differ = f" by more than {tolerated_difference(task):g}" if task.is_regression else ""
        examples = "; ".join(describe_contradiction(task, table, rows) for rows in found[:MAX_CONTRADICTIONS])
        yield f"        {len(found):,} of them with labels that differ{differ}, e.g. {examples}"


def describe_groups(task: Task, table: Table) -> Iterator[str]:
    """Yields how many groups of rows texts and groups connect, of a task with groups, and whether they are enough."""
    if table.groups and task.files is not None:
        sizes = np.bincount(group_rows(normalise_columns(connecting_columns(table))))
        names = " or ".join(filter(None, ("texts", *task.files.group_columns, task.files.group_file)))
        rows = f"{counted(len(table.ids), 'row')} in {counted(len(sizes), 'group')} that {names} connect"
        yield f"        {rows}, the largest {percent(sizes.max() / len(table.ids))} of rows"
        if table.split == "dev" and not are_usable(len(sizes), int(sizes.max()), len(table.ids)):
            few = f"fewer than {LEAST_GROUPS} groups, or with more than {percent(LARGEST_SHARE)} of them in one"
            yield f"        WARNING: no difference between configurations can be claimed from rows in {few}"


def describe_contradiction(task: Task, table: Table, rows: Sequence[int]) -> str:
    """Returns two rows with the same texts whose labels differ most from each other: their places and labels."""
    ordered = sorted(rows, key=lambda row: table.labels[row].tolist())
    first, second = sorted((ordered[0], ordered[-1]))
    return " and ".join(f"{table.places[row]} ({row_label_text(task, table.labels[row])})" for row in (first, second))


def row_label_text(task: Task, label: np.ndarray) -> str:
    """Returns a row's label as `Task.names_of`, or the number of a regression."""
    return f"{label:.3g}" if task.is_regression else task.names_of(label)


def describe_constant(task: Task, train: np.ndarray, dev: np.ndarray) -> str:
    """Returns the values of all metrics on dev for the most frequent label, or the mean, of train;
    the task's own first."""
    prediction = constant_prediction(task.kind, train, task.num_classes)
    several = "the labels that most rows have" if task.kind_entry.has_several_labels else ""
    what = "the mean" if task.is_regression else several or "the most frequent label"
    values = constant_values(task.metrics, task.kind, prediction, dev)
    texts = {name: "undefined" if np.isnan(value) else f"{value:.3f}" for name, value in values.items()}
    ordered = sorted(texts, key=lambda name: name != task.metric)
    shown = ", ".join(f"{task.metrics[name].title} {texts[name]}" for name in ordered)
    return f"        always {row_label_text(task, prediction)}, {what} of train: {shown}"


def describe_overlap(train: Table, dev: Table) -> str:
    """Returns how many dev rows have their texts in a row of train, ignoring case and white space, and how many more
    ignoring punctuation too."""
    count, letters_count = (int(repeats_row(dev.texts, train.texts, own).sum()) for own in (normalise, letters_of))
    more = f", {letters_count - count:,} more but for punctuation" if letters_count > count else ""
    what = "both texts" if len(dev.texts) == 2 else "the text"
    have = "has" if count == 1 else "have"
    return f"        {counted(count, 'row')} ({percent(count / len(dev.ids), 1)}) {have} {what} of a train row{more}"


def describe_test(config: TrialConfig, folder: Path, name: str) -> Iterator[str]:
    """Yields the rows without labels of a task's test files, if it has any."""
    files = config.task(name).files
    source = None if files is not None and not files.test else task_source(config, folder, name, "test")
    if source is not None and is_there(source, folder):
        texts, skipped = read_unlabelled(source, folder)
        yield f"  test  {counted(len(texts[0]), 'row')} without labels of {describe_sources((source,))}"
        yield f"        {describe_lengths(texts)}"
        yield from describe_unused(skipped)
    elif source is not None and files is not None:
        yield f"  test  not there ({describe_sources((source,))}); only predictions need it"


def next_steps(folder: Path, trained: Sequence[str], methods: Sequence[str], encoder: str) -> Iterator[str]:
    """Yields a command that shows what a sweep would do; `trained` names the tasks if they are not all there."""
    tasks = f" --set stages.0.tasks={','.join(trained)}" if trained else ""
    own = f" --methods {shlex.join(methods)}" if methods else ""
    yield "Next: see what a sweep over three learning rates would do (without --dry-run it starts):"
    yield (
        f"{typed_command('run')} --data {shlex.quote(str(folder))} --encoder {shlex.quote(encoder)}{own}{tasks} "
        "--vary optimizer.learning_rate=3e-5,7e-5,2e-4 --dry-run"
    )


def percent(share: float, digits: int = 0) -> str:
    return f"{100 * share:.{digits}f} %"


if __name__ == "__main__":
    sys.exit(main())
