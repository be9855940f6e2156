"""The command that predicts new text with the ensembles that were selected; `--help` shows how."""

import argparse
import contextlib
import itertools
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

if not __package__:  # started as a script: imports begin at the project's folder, not at this one
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from mtlib.hub_encoder import read_encoder_name
from mtlib.schema import require, require_name
from mtlib.tasks import TASKS, Task
from results.command_line import be_silent, read_words, say_error
from results.leaderboard import write_leaderboard
from results.models import ModelSource, find_sweeps
from results.predicting import Predictor, load_predictor, predict_rows
from results.prediction_text import OutputFormat, find_output_format, header_text, rows_text
from results.progress_bar import show_rows
from results.selection import SELECTION_FILE, Selection, read_selection
from results.storage import open_folder, writing
from results.text_input import Format, TextRow, find_format, name_input, open_input, read_texts

STANDARD_OUTPUT = "-"
ALL_WELL, WRONG_USE, INTERRUPTED = 0, 2, 130
"""Exit codes."""

EXAMPLES = f"""\
examples:
  a file of your own; a column `id` is kept, rows without one are numbered from 0
    python results/predict.py ~/multitask-sweeps/NAME --task TASK --input reviews.csv --output predictions.csv
  whose texts are in columns of other names; JSON lines in and out
    python results/predict.py ~/multitask-sweeps/NAME --task TASK --input pairs.jsonl --columns question,other \\
      --output predictions.jsonl
  a text per line (or two with a tab between) through a pipe
    echo "A fine film" | python results/predict.py ~/multitask-sweeps/NAME --task TASK --input -
  the six files of the course's leaderboard, from the folder with its dev and test files
    python results/predict.py ~/multitask-sweeps/NAME --leaderboard --data DIR --output predictions
  where the encoder that the sweep began with has moved
    python results/predict.py ~/multitask-sweeps/NAME --task TASK --input reviews.csv --encoder DIR

tasks and their columns: {"; ".join(f"{task.name} ({', '.join(task.text_columns)})" for task in TASKS.values())}

input: .csv (tabs or commas, a header line, standard quoting), .tsv (tabs, a header line, no quoting), .jsonl (an object
per line), .txt (a text per line); UTF-8. It is read as it is predicted, so it may be larger than memory. A row with a
blank text keeps its line, with an empty prediction.

output: id, prediction, and the probability of each class, or of label 1; written under another name until it is whole.

exit codes: {ALL_WELL} predicted, {WRONG_USE} wrong use, {INTERRUPTED} interrupted
"""


Write = Callable[[str], object]


@dataclass(frozen=True, kw_only=True)
class Done:
    """What has been written so far."""

    num_rows: int = 0
    num_blank: int = 0
    """Rows with a blank text."""
    first_blank: str = ""
    """Where the first of them stands."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    try:
        options = read_words(build_parser(), sys.argv[1:] if arguments is None else arguments)
        check_options(options)
        (predict_leaderboard if options.leaderboard else predict_file)(options)
    except BrokenPipeError:  # who stops reading, as `head` does, has read enough
        be_silent()
    except (ValueError, OSError) as error:
        say_error(error)
        return WRONG_USE
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    return ALL_WELL


def build_parser() -> argparse.ArgumentParser:
    """The parser."""
    parser = argparse.ArgumentParser(
        prog="python results/predict.py",
        usage="%(prog)s SELECTION --task TASK --input FILE|- [--output FILE|-] [more below]",
        description="Predicts text with the ensemble that was selected for a task.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        exit_on_error=False,
    )
    add = parser.add_argument
    add(
        "selection",
        nargs="?",
        metavar="SELECTION",
        help=f"folder of a sweep with {SELECTION_FILE}, that file, or a URI",
    )
    add("--task", metavar="TASK", help="what to predict (default: the selection's task, if it has one alone)")
    add("--input", metavar="FILE|-", help="text to predict, - for standard input")
    add("--output", metavar="FILE|-", help=".csv or .jsonl; - or left out: CSV to standard output")
    add("--format", choices=get_args(Format), help="what the input holds, if its name does not tell")
    add("--columns", metavar="A[,B]", help="columns of the texts (default: those of the task's own files)")
    add("--encoder", metavar="NAME|DIR", help="pretrained encoder (default: the trials' own)")
    add("--device", choices=("auto", "cpu", "cuda"), default="auto", help="default: a GPU if there is one")
    add("--leaderboard", action="store_true", help="write the files of CS224N's leaderboard into the folder --output")
    add("--data", metavar="DIR", help="folder with the dev and test files for --leaderboard")
    return parser


def check_options(options: argparse.Namespace) -> None:
    """Raises ValueError if something is missing, or flags do not go together."""
    rule = "SELECTION must name the folder of a sweep, or a URI (see --help)"
    require(options.selection is not None, rule, "none")
    if options.leaderboard:
        for flag in ("task", "input", "format", "columns"):
            require(getattr(options, flag) is None, f"--{flag} must not be named beside --leaderboard", "both")
        require(options.data is not None, "--leaderboard needs --data DIR", "none")
        require(options.output not in (None, STANDARD_OUTPUT), "--leaderboard needs --output DIR", options.output)
        return
    require(options.input is not None, "--input must name a file, or - for standard input", "none")
    require(options.data is None, "--data must be named with --leaderboard alone", options.data)


def predict_file(options: argparse.Namespace) -> None:
    """Predicts the rows of one file, or of standard input."""
    selection, source = read_source(options)
    task = find_task(selection, options.task)
    form = options.format or find_format(options.input)
    columns = read_columns(options.columns, form, task)
    told = "csv" if is_screen(options.output) else find_output_format(options.output)
    name, start = name_input(options.input), time.monotonic()
    with open_input(options.input) as stream:
        texts = read_texts(stream, name, form, columns)
        first = list(itertools.islice(texts, 1))  # a wrong header is found before models are loaded
        rows = itertools.chain(first, texts)
        predictor = load_predictor(selection, task.name, source)
        with open_output(options.output) as write, show_rows(stream, name) as on_rows:
            done = write_predictions(predictor, rows, told, write, on_rows)
    note(f"{name}: {done.num_rows:,} rows predicted in {time.monotonic() - start:.1f} s{blank_text(done)}")


def write_predictions(
    predictor: Predictor, rows: Iterable[TextRow], told: OutputFormat, write: Write, on_rows: Callable[[int], None]
) -> Done:
    """Predicts rows, and writes each chunk of them before the next one is read.

    Args:
        predictor: the ensemble.
        rows: what to predict.
        told: what to write.
        write: writes text.
        on_rows: is given the number of rows that have been written.
    """
    done = Done()
    write(header_text(predictor.task, told))
    for chunk, outputs in predict_rows(predictor, rows):
        write(rows_text(predictor.task, told, chunk, outputs))
        blank = [row.where for row in chunk if row.is_blank]
        done = Done(
            num_rows=done.num_rows + len(chunk),
            num_blank=done.num_blank + len(blank),
            first_blank=done.first_blank or "".join(blank[:1]),
        )
        on_rows(done.num_rows)
    return done


def blank_text(done: Done) -> str:
    """What is said of rows that have no prediction."""
    if not done.num_blank:
        return ""
    which = f"the first is {done.first_blank}" if done.num_blank > 1 else done.first_blank
    return f"; {done.num_blank:,} with a blank text without prediction ({which})"


def predict_leaderboard(options: argparse.Namespace) -> None:
    """Writes the leaderboard's files."""
    selection, source = read_source(options)
    data, folder = (Path(place).expanduser() for place in (options.data, options.output))
    write_leaderboard(selection, data, folder, lambda task: load_predictor(selection, task, source), note)


def read_source(options: argparse.Namespace) -> tuple[Selection, ModelSource]:
    """The selection that is named, and where its models are."""
    home = (options.selection.removesuffix(SELECTION_FILE) or ".").rstrip("/") or "/"
    is_file = "://" not in home and Path(home).expanduser().is_file()
    require(not is_file, f"SELECTION must be a sweep's folder, its {SELECTION_FILE} or a URI", options.selection)
    selection = read_selection(home)
    encoder = None if options.encoder is None else read_encoder_name(options.encoder)
    return selection, ModelSource(places=find_sweeps(selection, home), encoder=encoder, device=options.device)


def find_task(selection: Selection, name: str | None) -> Task:
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
    """What writes text to standard output, or to a file that has its name once the block has ended well."""
    if place is None or is_screen(place):
        yield lambda text: print(text, end="", flush=True)
        return
    is_uri = "://" in place
    folder, name = place.rpartition("/")[::2] if is_uri else (Path(place).expanduser().parent, Path(place).name)
    is_other = not is_uri and Path(place).expanduser().exists() and not Path(place).expanduser().is_file()
    require(not is_other, "--output must be a file", f"{place}, which is none")
    with writing(open_folder(folder), name) as stream:
        yield lambda text: stream.write(text.encode())


def note(line: str) -> None:
    """Says something beside the predictions."""
    print(line, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
