"""The command that predicts new text with the ensembles that were selected; `--help` shows how."""

import argparse
import contextlib
import io
import itertools
import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import IO, get_args

from mtlib.data.files.readers import MissingColumnError
from mtlib.model.hub import read_encoder_name
from mtlib.runtime.command_line import INTERRUPTED, SUCCESS, WRONG_USE, as_command, counted, new_parser, parse_words
from mtlib.runtime.console import SPREADSHEET_SAFE, show_note, write_data
from mtlib.runtime.errors import require, require_name
from mtlib.runtime.program_names import typed_command
from mtlib.runtime.storage import expanded_path, is_uri, open_folder, split_location, write_bytes
from mtlib.tasks import TASKS, Task
from results.inference.bundle.manifest import BUNDLE_FILE, find_bundle, load_bundled, make_bundle_again, read_bundle
from results.inference.models import ModelSource, find_sweeps
from results.inference.predictor import Predictor, load_predictor, predict_stream
from results.inference.progress_bar import show_rows
from results.inference.readers import (
    ID_COLUMN,
    STANDARD_INPUT,
    InputFormat,
    TextRow,
    find_format,
    input_file,
    name_input,
    new_text_format,
    open_input,
    read_texts,
)
from results.inference.writers import (
    OUTPUT_SUFFIXES,
    OutputFormat,
    columns_to_carry,
    find_output_format,
    format_header,
    format_rows,
)
from results.records.files import check_output, find_sweep
from results.records.selection import SELECTION_FILE, Selection, read_selection

STANDARD_OUTPUT = "-"
EXAMPLE_SWEEP = "~/multitask-sweeps/NAME"
NOT_FOR_BUNDLES = ("--input", "--output", "--format", "--columns", "--device", "--spreadsheet-safe")
"""Flags that must not be given with `--bundle`."""
NO_PIPE = "inputs must be files where --output is a folder"

Write = Callable[[str], object]


@dataclass(frozen=True, kw_only=True)
class PredictedFile:
    """A file to predict, or standard input, and what its predictions are written to."""

    place: str
    """The file, or `-`."""
    form: InputFormat
    columns: tuple[str, ...]
    """Those of the texts."""
    output: str
    """A file, or `-`."""
    output_form: OutputFormat


@as_command
def main(arguments: Sequence[str] | None = None) -> None:
    """Predicts files, or writes a bundle."""
    options = parse_words(build_parser(), arguments)
    check_options(options)
    if options.bundle is None:
        predict_files(options)
    else:
        make_bundle(options)


def build_parser() -> argparse.ArgumentParser:
    """Returns the parser."""
    predict = typed_command("predict")
    usage = "SELECTION --task TASK --input FILE ...|- [--output FILE|FOLDER|-] [more below]"
    description = "Predicts text with the ensemble that was selected for a task."
    examples = f"""\
examples:
  a file of your own; a column `id` is kept, rows without one are numbered from 0
    {predict} {EXAMPLE_SWEEP} --task TASK --input reviews.csv --output predictions.csv
  whose texts are in columns of other names; JSON lines in and out
    {predict} {EXAMPLE_SWEEP} --task TASK --input pairs.jsonl --columns question,other \\
      --output predictions.jsonl
  a text per line (or two with a tab between) through a pipe
    echo "A fine film" | {predict} {EXAMPLE_SWEEP} --task TASK --input -
  several files; the folder gets a.csv, b.csv and so on
    {predict} {EXAMPLE_SWEEP} --task TASK --input a.csv b.jsonl --output predictions/
  where the encoder that the sweep began with has moved
    {predict} {EXAMPLE_SWEEP} --task TASK --input reviews.csv --encoder DIR
  a folder that predicts without the sweep: weights, tokenizers, a card (--task: of one task alone)
    {predict} {EXAMPLE_SWEEP} --bundle my-bundle
    {predict} my-bundle --task TASK --input reviews.csv --output predictions.csv

tasks and their columns: {"; ".join(f"{task.name} ({', '.join(task.text_columns)})" for task in TASKS.values())}; others
as in their tasks.toml

input: .csv (tabs or commas, a header line, standard quoting), .tsv (tabs, a header line, quoted or not as the task's
own files, else as it shows), .jsonl (an object per line), .json, .txt (a text per line), .parquet or .xlsx; each may be
compressed (.gz, .zst, .zip). It is read as it is predicted, so it may be larger than memory, unless it is .json, .xlsx
or .zst. A row with a blank text keeps its line, with an empty prediction.

output: id, the columns of the task's group and slices that the input has, prediction (a label by its name, if it has
one), and the probability of each class, or of label 1; written under another name until it is whole. What is there
already is replaced with --overwrite only, an input never. With several inputs, and where it ends in /, --output is a
folder, which gets a CSV file for each input.

exit codes: {SUCCESS} predicted, {WRONG_USE} wrong use, {INTERRUPTED} interrupted
"""
    parser = new_parser(predict, usage, description, examples, runs_methods=True)
    add = parser.add_argument
    place = f"name or folder of a sweep with {SELECTION_FILE}, that file, a URI, or a bundle's folder"
    add("selection", nargs="?", metavar="SELECTION", help=place)
    add("--task", metavar="TASK", help="what to predict (default: the selection's task, if it has one alone)")
    add("--input", nargs="+", action="extend", metavar="FILE|-", help="text to predict, - for standard input")
    add("--output", metavar="PLACE", help=".csv, .jsonl or a folder; - or left out: CSV to standard output")
    add(
        "--format",
        choices=get_args(InputFormat),
        help="format of the input, if its suffix does not identify it",
    )
    add("--columns", metavar="A[,B]", help="columns of the texts (default: those of the task's own files)")
    add("--device", choices=("auto", "cpu", "cuda"), default="auto", help="default: a GPU if there is one")
    add("--encoder", metavar="NAME|DIR", help="pretrained encoder (default: the trials' own)")
    add("--bundle", metavar="DIR", help="write a new folder that predicts without the sweep")
    add("--spreadsheet-safe", action="store_true", help=SPREADSHEET_SAFE)
    add("--overwrite", action="store_true", help="replace what is there; never what is read")
    return parser


def check_options(options: argparse.Namespace) -> None:
    """Raises ValueError if something is missing, or flags do not go together."""
    rule = "SELECTION must name the folder of a sweep, or a URI, before --input (see --help)"
    require(options.selection is not None, rule, "none")
    if options.bundle is None:
        require(options.input is not None, "--input must name a file, or - for standard input", "none")
        return
    for flag in NOT_FOR_BUNDLES:
        require(flag not in options.flags, f"{flag} cannot be combined with --bundle", "both")


def predict_files(options: argparse.Namespace) -> None:
    """Predicts the rows of each file, or of standard input."""
    selection, load = read_source(options)
    task = selected_task(selection, options.task)
    files = predicted_files(options, task)
    for file in files[1:]:  # a wrong header in any file is found before models are loaded
        with open_rows(file, task) as (stream, _):
            require(stream.seekable(), NO_PIPE, file.place)  # it is opened a second time
    load_once = cache(load)
    for file in files:
        predict_file(file, task, load_once)


def predicted_files(options: argparse.Namespace, task: Task) -> list[PredictedFile]:
    """Returns what is read and written; ValueError if a format is unknown,
    or an output is there already or is an input."""
    inputs, output = options.input, STANDARD_OUTPUT if options.output is None else options.output
    is_folder = len(inputs) > 1 or output.endswith("/")
    outputs = find_outputs(inputs, output) if is_folder else [output]
    return [predicted_file(options, task, *places) for places in zip(inputs, outputs, strict=True)]


def find_outputs(inputs: Sequence[str], folder: str) -> list[str]:
    """Returns the CSV file in a folder for each input; ValueError if it is no folder, or inputs have the same name."""
    has_suffix = not folder.endswith("/") and Path(folder).suffix in OUTPUT_SUFFIXES
    is_folder = folder not in ("", STANDARD_OUTPUT) and not has_suffix and not expanded_path(folder).is_file()
    require(is_folder, "--output must be a folder for several inputs", folder or "none")
    require(STANDARD_INPUT not in inputs, NO_PIPE, STANDARD_INPUT)
    stems = Counter(Path(place).stem for place in inputs)
    repeated = [stem for stem, count in stems.items() if count > 1]
    require(not repeated, "inputs must have different names before their suffixes", ", ".join(repeated))
    return [f"{folder.rstrip('/')}/{stem}.csv" for stem in stems]


def predicted_file(options: argparse.Namespace, task: Task, place: str, output: str) -> PredictedFile:
    """Returns how one input is read and its output written; ValueError as `predicted_files`."""
    form = options.format or find_format(place)
    columns = read_columns(options.columns, form, task)
    output_form: OutputFormat = "csv" if output == STANDARD_OUTPUT else find_output_format(output)
    if output != STANDARD_OUTPUT:
        path = expanded_path(output)
        require(path.is_file() or not path.exists(), "--output must be a file", f"{output}, which is none")
        check_output("--output", output, map(input_file, options.input), overwrite=options.overwrite)
    if options.spreadsheet_safe:
        require(output_form == "csv", "--spreadsheet-safe must come with an --output of CSV", output)
        output_form = "safe_csv"
    return PredictedFile(place=place, form=form, columns=columns, output=output, output_form=output_form)


def predict_file(file: PredictedFile, task: Task, load: Callable[[str], Predictor]) -> None:
    """Predicts the rows of one file, or of standard input."""
    name, start = name_input(file.place), time.monotonic()
    with open_rows(file, task) as (stream, rows):
        predictor = load(task.name)
        with open_output(file.output) as write, show_rows(stream, name) as on_rows:
            num_rows, num_blank, first_blank = write_predictions(predictor, rows, file.output_form, write, on_rows)
    blank = f"; {num_blank:,} with a blank text without prediction (the first is {first_blank})" if num_blank else ""
    show_note(f"{name}: {counted(num_rows, 'row')} predicted in {time.monotonic() - start:.1f} s{blank}")


@contextlib.contextmanager
def open_rows(file: PredictedFile, task: Task) -> Iterator[tuple[IO[bytes], Iterator[TextRow]]]:
    """The stream of a file and its rows; ValueError at once if its header is wrong."""
    id_column = (task.files and task.files.id_column) or ID_COLUMN
    with open_input(file.place) as stream:
        given = new_text_format(task, file.place, file.form)
        name, carried = name_input(file.place), columns_to_carry(task)
        texts = read_texts(stream, name, file.form, file.columns, id_column, given, carried)
        try:
            first = list(itertools.islice(texts, 1))
        except MissingColumnError as error:
            raise ValueError(f"{error} (--columns names those of the texts, if they are others)") from error
        yield stream, itertools.chain(first, texts)


def write_predictions(
    predictor: Predictor, rows: Iterable[TextRow], form: OutputFormat, write: Write, on_rows: Callable[[int], None]
) -> tuple[int, int, str]:
    """Predicts rows, and writes each chunk before the next one is read; `on_rows` gets the number of written rows.

    Returns:
        The number of rows, the number of those with a blank text, and where the first of these stands.
    """
    num_rows, num_blank, first_blank, ahead = 0, 0, "", iter(rows)
    first = list(itertools.islice(ahead, 1))
    write(format_header(predictor.task, form, first[0].carried if first else ()))
    for chunk, outputs in predict_stream(predictor, itertools.chain(first, ahead)):
        write(format_rows(predictor.task, form, chunk, outputs))
        blank = [row.where for row in chunk if row.is_blank]
        num_rows, num_blank = num_rows + len(chunk), num_blank + len(blank)
        first_blank = first_blank or "".join(blank[:1])
        on_rows(num_rows)
    return num_rows, num_blank, first_blank


def make_bundle(options: argparse.Namespace) -> None:
    """Writes a folder that predicts without the sweep."""
    from results.inference.bundle.write import write_bundle  # predicting does without pandas

    home = read_home(options)
    selection = read_selection(home)
    if options.task is not None:
        selection = only_tasks(selection, [selected_task(selection, options.task).name])
    require(not is_uri(options.bundle), "--bundle must name a folder on this machine", options.bundle)
    folder = expanded_path(options.bundle).absolute()
    source = source_of(options, selection, home, "cpu")
    write_bundle(selection, home, source, folder, show_note, overwrite=options.overwrite)
    task = next(iter(selection.tasks))
    place = shlex.quote(str(folder))
    show_note(f"{typed_command('predict')} {place} --task {task} --input FILE --output predictions.csv")


def read_source(options: argparse.Namespace) -> tuple[Selection, Callable[[str], Predictor]]:
    """Returns the selection of a sweep or bundle, and a function that loads its ensembles."""
    home = read_home(options)
    folder = find_bundle(home)
    if folder is not None:
        bundle = read_bundle(folder)
        selection = only_tasks(read_selection(folder, make_bundle_again()), bundle.tasks)
        return selection, lambda task: load_bundled(folder, bundle, task, options.device)
    selection = read_selection(home)
    source = source_of(options, selection, home, options.device)
    return selection, lambda task: load_predictor(selection, task, source)


def read_home(options: argparse.Namespace) -> str:
    """Returns the folder or URI that is named;
    ValueError if it is a file, or a bundle that does not go with other flags."""
    folder, name = split_location(options.selection)
    home = find_sweep((folder or ".") if name == SELECTION_FILE else options.selection)
    is_file = not is_uri(home) and expanded_path(home).is_file()
    require(not is_file, f"SELECTION must be a sweep's folder, its {SELECTION_FILE} or a URI", options.selection)
    if find_bundle(home) is not None:
        rule = "with --bundle SELECTION must be a sweep, not a bundle, which can be copied as it is"
        require(options.bundle is None, f"{rule} ({BUNDLE_FILE} is there)", options.selection)
        rule = "--encoder cannot be combined with a bundle, whose models have their own"
        require(options.encoder is None, rule, options.encoder)
    return home


def source_of(options: argparse.Namespace, selection: Selection, home: str, device: str) -> ModelSource:
    """Returns where a selection's models are."""
    encoder = None if options.encoder is None else read_encoder_name(options.encoder)
    return ModelSource(places=find_sweeps(selection, home), encoder=encoder, device=device)


def only_tasks(selection: Selection, names: Iterable[str]) -> Selection:
    """Returns a selection of some of its tasks."""
    return replace(selection, tasks={name: selection.tasks[name] for name in names if name in selection.tasks})


def selected_task(selection: Selection, name: str | None) -> Task:
    """Returns the task of that name, or the only one; ValueError if the selection has no such task, or several."""
    names = list(selection.tasks)
    require(name is not None or len(names) == 1, f"--task must be one of {', '.join(names)}", "none")
    require_name(name or names[0], names, "task of the selection")
    return selection.definitions[name or names[0]]


def read_columns(text: str | None, form: InputFormat, task: Task) -> tuple[str, ...]:
    """Columns of the texts: those that are named, else the task's own."""
    if text is None:
        return task.text_columns
    columns, num_texts = tuple(name.strip() for name in text.split(",")), len(task.text_columns)
    require(form != "lines", "--columns cannot be combined with plain lines, which have none", text)
    require(len(columns) == num_texts, f"--columns must name {num_texts} for {task.name}", text)
    return columns


@contextlib.contextmanager
def open_output(place: str) -> Iterator[Write]:
    """A function that writes text to standard output, or atomically to a file."""
    if place == STANDARD_OUTPUT:
        yield write_data
        return
    folder, name = split_location(place if is_uri(place) else expanded_path(place))
    stream = io.BytesIO()
    yield lambda text: stream.write(text.encode())
    write_bytes(open_folder(folder or "."), name, stream.getvalue())


if __name__ == "__main__":
    sys.exit(main())
