"""The command that predicts new text with the ensembles that were selected; `--help` shows how."""

import argparse
import contextlib
import itertools
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

if not __package__:  # started as a script: imports begin at the project's folder, not at this one
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from mtlib.data.file_readers import Format, MissingColumnError
from mtlib.errors import require, require_name
from mtlib.model.hub import read_encoder_name
from mtlib.runtime.command_line import parse_words, run_command
from mtlib.tasks import TASKS, Task
from results.bundle.manifest import (
    BUNDLE_FILE,
    CARD_FILE,
    SCRIPT_FILE,
    is_bundle,
    load_bundled,
    local_bundle_folder,
    read_bundle,
)
from results.cli.predict_arguments import STANDARD_OUTPUT, build_parser, check_bundle, check_options
from results.inference.leaderboard import write_leaderboard
from results.inference.models import ModelSource, find_sweeps
from results.inference.predictor import Predictor, load_predictor, predict_stream
from results.inference.progress_bar import show_rows
from results.inference.readers import TextRow, find_format, name_input, open_input, read_texts
from results.inference.writers import OutputFormat, find_output_format, format_header, format_rows
from results.records.files import open_atomic, open_folder
from results.records.selection import SELECTION_FILE, Selection, read_selection

Write = Callable[[str], object]
Load = Callable[[str], Predictor]
"""Loads the ensemble of a task."""


@dataclass(frozen=True, kw_only=True)
class RowCounts:
    """Counts of the rows written so far."""

    num_rows: int = 0
    num_blank: int = 0
    """Rows with a blank text."""
    first_blank: str = ""
    """Where the first of them stands."""


def main(arguments: Sequence[str] | None = None, bundle: Path | None = None) -> int:
    """The command line; returns the exit code.

    Args:
        arguments: the words after the command's name; None for those that the process was started with.
        bundle: the folder of the bundle whose own command this is.
    """
    return run_command(lambda: run_predict(arguments, bundle))


def run_predict(arguments: Sequence[str] | None, bundle: Path | None) -> None:
    """Predicts a file or the leaderboard's files, or writes a bundle."""
    options = parse_words(build_parser(bundle), arguments)
    rule = f"{BUNDLE_FILE} of a bundle must be where it was written"
    require(bundle is None or is_bundle(bundle), rule, f"none in {bundle}")
    check_options(options)
    if options.leaderboard:
        predict_leaderboard(options)
    elif options.bundle is None:
        predict_file(options)
    else:
        make_bundle(options)


def predict_file(options: argparse.Namespace) -> None:
    """Predicts the rows of one file, or of standard input."""
    selection, load = read_source(options)
    task = selected_task(selection, options.task)
    form = options.format or find_format(options.input)
    columns = read_columns(options.columns, form, task)
    output_form: OutputFormat = "csv" if is_screen(options.output) else find_output_format(options.output)
    name, start = name_input(options.input), time.monotonic()
    with open_input(options.input) as stream:
        texts = read_texts(stream, name, form, columns)
        first = read_first(texts)  # a wrong header is found before models are loaded
        rows = itertools.chain(first, texts)
        predictor = load(task.name)
        with open_output(options.output) as write, show_rows(stream, name) as on_rows:
            done = write_predictions(predictor, rows, output_form, write, on_rows)
    rows_done = f"{done.num_rows:,} row{'' if done.num_rows == 1 else 's'}"
    print_note(f"{name}: {rows_done} predicted in {time.monotonic() - start:.1f} s{blank_text(done)}")


def read_first(texts: Iterator[TextRow]) -> list[TextRow]:
    """The first row, if there is one; ValueError, for a column that is missing, tells how others are named."""
    try:
        return list(itertools.islice(texts, 1))
    except MissingColumnError as error:
        raise ValueError(f"{error} (--columns names those of the texts, if they are others)") from error


def write_predictions(
    predictor: Predictor, rows: Iterable[TextRow], form: OutputFormat, write: Write, on_rows: Callable[[int], None]
) -> RowCounts:
    """Predicts rows, and writes each chunk of them before the next one is read.

    Args:
        predictor: the ensemble.
        rows: what to predict.
        form: of the output.
        write: writes text.
        on_rows: is given the number of rows that have been written.
    """
    done = RowCounts()
    write(format_header(predictor.task, form))
    for chunk, outputs in predict_stream(predictor, rows):
        write(format_rows(predictor.task, form, chunk, outputs))
        blank = [row.where for row in chunk if row.is_blank]
        done = RowCounts(
            num_rows=done.num_rows + len(chunk),
            num_blank=done.num_blank + len(blank),
            first_blank=done.first_blank or "".join(blank[:1]),
        )
        on_rows(done.num_rows)
    return done


def blank_text(done: RowCounts) -> str:
    """The part of the last line about rows without a prediction."""
    if not done.num_blank:
        return ""
    which = f"the first is {done.first_blank}" if done.num_blank > 1 else done.first_blank
    return f"; {done.num_blank:,} with a blank text without prediction ({which})"


def predict_leaderboard(options: argparse.Namespace) -> None:
    """Writes the leaderboard's files."""
    selection, load = read_source(options)
    data, folder = (Path(place).expanduser() for place in (options.data, options.output))
    write_leaderboard(selection, data, folder, load, print_note)


def make_bundle(options: argparse.Namespace) -> None:
    """Writes a folder that predicts without the sweep."""
    from results.bundle.write import format_bytes, write_bundle  # predicting does without pandas

    home = read_home(options)
    selection = read_selection(home)
    if options.task is not None:
        selection = only_tasks(selection, [selected_task(selection, options.task).name])
    require("://" not in options.bundle, "--bundle must name a folder on this machine", options.bundle)
    folder = Path(options.bundle).expanduser().absolute()
    size = format_bytes(write_bundle(selection, home, source_of(options, selection, home, "cpu"), folder, print_note))
    print_note(f"{folder}: {size}, predicts {', '.join(selection.tasks)} without the sweep; {CARD_FILE} says how well")
    script = shlex.quote(str(folder / SCRIPT_FILE))
    print_note(f"python {script} --task {next(iter(selection.tasks))} --input FILE --output predictions.csv")


def read_source(options: argparse.Namespace) -> tuple[Selection, Load]:
    """The selection of a sweep or bundle, and a function that loads its ensembles."""
    home = read_home(options)
    if is_bundle(home):
        folder = local_bundle_folder(home)
        bundle = read_bundle(folder)
        selection = only_tasks(read_selection(folder), bundle.tasks)
        return selection, lambda task: load_bundled(folder, bundle, task, options.device)
    selection = read_selection(home)
    source = source_of(options, selection, home, options.device)
    return selection, lambda task: load_predictor(selection, task, source)


def read_home(options: argparse.Namespace) -> str:
    """The folder or URI that is named; ValueError if it is a file, or a bundle that does not go with other flags."""
    home: str = (options.selection.removesuffix(SELECTION_FILE) or ".").rstrip("/") or "/"
    is_file = "://" not in home and Path(home).expanduser().is_file()
    require(not is_file, f"SELECTION must be a sweep's folder, its {SELECTION_FILE} or a URI", options.selection)
    if is_bundle(home):
        check_bundle(options)
    return home


def source_of(options: argparse.Namespace, selection: Selection, home: str, device: str) -> ModelSource:
    """Where a selection's models are."""
    encoder = None if options.encoder is None else read_encoder_name(options.encoder)
    return ModelSource(places=find_sweeps(selection, home), encoder=encoder, device=device)


def only_tasks(selection: Selection, names: Iterable[str]) -> Selection:
    """A selection of some of its tasks."""
    return replace(selection, tasks={name: selection.tasks[name] for name in names if name in selection.tasks})


def selected_task(selection: Selection, name: str | None) -> Task:
    """The task of that name, or the only one; ValueError if the selection has no such task, or several."""
    names = list(selection.tasks)
    require(name is not None or len(names) == 1, f"--task must be one of {', '.join(names)}", "none")
    require_name(name or names[0], names, "task of the selection")
    return TASKS[name or names[0]]


def read_columns(text: str | None, form: Format, task: Task) -> tuple[str, ...]:
    """Columns of the texts: those that are named, else the task's own."""
    if text is None:
        return task.text_columns
    columns = tuple(name.strip() for name in text.split(","))
    require(form != "lines", "--columns must not be named for plain lines, which have none", text)
    require(
        len(columns) == len(task.text_columns), f"--columns must name {len(task.text_columns)} for {task.name}", text
    )
    return columns


def is_screen(place: str | None) -> bool:
    """Whether predictions go to standard output."""
    return place in (None, STANDARD_OUTPUT)


@contextlib.contextmanager
def open_output(place: str | None) -> Iterator[Write]:
    """A function that writes text to standard output, or atomically to a file."""
    if place is None or is_screen(place):
        yield lambda text: print(text, end="", flush=True)
        return
    is_uri = "://" in place
    folder, name = place.rpartition("/")[::2] if is_uri else (Path(place).expanduser().parent, Path(place).name)
    is_other = not is_uri and Path(place).expanduser().exists() and not Path(place).expanduser().is_file()
    require(not is_other, "--output must be a file", f"{place}, which is none")
    with open_atomic(open_folder(folder), name) as stream:
        yield lambda text: stream.write(text.encode())


def print_note(line: str) -> None:
    """Prints a line on standard error."""
    print(line, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
