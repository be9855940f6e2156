"""The command line of `results/predict.py`, and of a bundle's own `predict.py`, which names no selection."""

import argparse
import shlex
import sys
from pathlib import Path
from typing import get_args

from mtlib.data.file_readers import Format
from mtlib.errors import require
from mtlib.runtime.command_line import INTERRUPTED, SUCCESS, WRONG_USE, new_parser
from mtlib.tasks import TASKS
from results.bundle.manifest import BUNDLE_FILE
from results.records.selection import SELECTION_FILE

STANDARD_OUTPUT = "-"
COMMAND, EXAMPLE_SWEEP = "python results/predict.py", "~/multitask-sweeps/NAME"
INCOMPATIBLE = {
    "--leaderboard": ("--task", "--input", "--format", "--columns", "--bundle"),
    "--bundle": ("--input", "--output", "--format", "--columns", "--device", "--data"),
}
"""Flags that must not be given with another one."""

EXAMPLES = """\
examples:
  a file of your own; a column `id` is kept, rows without one are numbered from 0
    {command} --task TASK --input reviews.csv --output predictions.csv
  whose texts are in columns of other names; JSON lines in and out
    {command} --task TASK --input pairs.jsonl --columns question,other \\
      --output predictions.jsonl
  a text per line (or two with a tab between) through a pipe
    echo "A fine film" | {command} --task TASK --input -
  the six files of the course's leaderboard, from the folder with its dev and test files
    {command} --leaderboard --data DIR --output predictions
"""
EXAMPLES_OF_SWEEPS = """\
  where the encoder that the sweep began with has moved
    {command} --task TASK --input reviews.csv --encoder DIR
  a folder that predicts by itself, without the sweep: weights, tokenizers, the code, a card (--task: of one task alone)
    {command} --bundle my-bundle
    python my-bundle/predict.py --task TASK --input reviews.csv --output predictions.csv
"""
REST = f"""
tasks and their columns: {"; ".join(f"{task.name} ({', '.join(task.text_columns)})" for task in TASKS.values())}

input: .csv (tabs or commas, a header line, standard quoting), .tsv (tabs, a header line, no quoting), .jsonl (an object
per line), .txt (a text per line); UTF-8. It is read as it is predicted, so it may be larger than memory. A row with a
blank text keeps its line, with an empty prediction.

output: id, prediction, and the probability of each class, or of label 1; written under another name until it is whole.

exit codes: {SUCCESS} predicted, {WRONG_USE} wrong use, {INTERRUPTED} interrupted
"""


def build_parser(bundle: Path | None = None) -> argparse.ArgumentParser:
    """The parser.

    Args:
        bundle: the folder of the bundle whose own command this is; None for the project's.
    """
    program = COMMAND if bundle is None else f"python {shlex.quote(sys.argv[0])}"
    command = f"{COMMAND} {EXAMPLE_SWEEP}" if bundle is None else program
    examples = EXAMPLES if bundle else EXAMPLES + EXAMPLES_OF_SWEEPS
    usage = f"{'' if bundle else 'SELECTION '}--task TASK --input FILE|- [--output FILE|-] [more below]"
    description = "Predicts text with the ensemble that was selected for a task."
    parser = new_parser(program, usage, description, examples.format(command=command) + REST)
    if bundle is None:
        add_places(parser)
    else:
        parser.set_defaults(selection=str(bundle), encoder=None, bundle=None)
    add = parser.add_argument
    add("--task", metavar="TASK", help="what to predict (default: the selection's task, if it has one alone)")
    add("--input", metavar="FILE|-", help="text to predict, - for standard input")
    add("--output", metavar="FILE|-", help=".csv or .jsonl; - or left out: CSV to standard output")
    add("--format", choices=get_args(Format), help="what the input holds, if its name does not tell")
    add("--columns", metavar="A[,B]", help="columns of the texts (default: those of the task's own files)")
    add("--device", choices=("auto", "cpu", "cuda"), default="auto", help="default: a GPU if there is one")
    add("--leaderboard", action="store_true", help="write the files of CS224N's leaderboard into the folder --output")
    add("--data", metavar="DIR", help="folder with the dev and test files for --leaderboard")
    return parser


def add_places(parser: argparse.ArgumentParser) -> None:
    """Adds what a bundle's own command does not have."""
    place = f"folder of a sweep with {SELECTION_FILE}, that file, a URI, or a bundle's folder"
    parser.add_argument("selection", nargs="?", metavar="SELECTION", help=place)
    parser.add_argument("--encoder", metavar="NAME|DIR", help="pretrained encoder (default: the trials' own)")
    parser.add_argument("--bundle", metavar="DIR", help="write a new folder that predicts without the sweep")


def check_options(options: argparse.Namespace) -> None:
    """Raises ValueError if something is missing, or flags do not go together."""
    rule = "SELECTION must name the folder of a sweep, or a URI (see --help)"
    require(options.selection is not None, rule, "none")
    for flag, others in INCOMPATIBLE.items():
        for other in others if flag in options.given else ():
            require(other not in options.given, f"{other} must not be named beside {flag}", "both")
    if options.leaderboard:
        require(options.data is not None, "--leaderboard needs --data DIR", "none")
        require(options.output not in (None, STANDARD_OUTPUT), "--leaderboard needs --output DIR", options.output)
    elif options.bundle is None:
        require(options.input is not None, "--input must name a file, or - for standard input", "none")
        require(options.data is None, "--data must be named with --leaderboard alone", options.data)


def check_bundle(options: argparse.Namespace) -> None:
    """Raises ValueError if SELECTION, which is a bundle, does not go with what else is named."""
    rule = (
        f"with --bundle SELECTION must be a sweep, not a bundle, which can be copied as it is ({BUNDLE_FILE} is there)"
    )
    require(options.bundle is None, rule, options.selection)
    rule = "--encoder must not be named for a bundle, whose models have their own"
    require(options.encoder is None, rule, options.encoder)
