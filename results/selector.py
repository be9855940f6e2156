"""The command that chooses an ensemble of trials per task and estimates its score on new text."""

import argparse
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from mtlib.model.hub import read_encoder_name
from mtlib.runtime.command_line import (
    INTERRUPTED,
    SUCCESS,
    WRONG_USE,
    as_command,
    new_parser,
    parse_words,
    whole_number,
)
from mtlib.runtime.console import fold, output_width, show_lines
from mtlib.runtime.errors import require
from mtlib.runtime.method_file import read_method_file
from mtlib.runtime.program_names import typed_command
from mtlib.runtime.storage import absolute_location, expanded_path, join_location
from results.ensembles.methods import AUTOMATIC, method_lines
from results.ensembles.selection_method import Settings
from results.inference.models import ModelSource, find_sweeps
from results.records.files import check_output, find_sweep
from results.records.selection import SELECTION_FILE, Selection, read_selection, write_selection
from results.selection.report import render_held_out_scores, render_selection
from results.selection.select_all import SelectionRequest, select_from

FOR_MODELS = ("--data", "--encoder", "--device")
"""Flags of `--score-hold-out`, which loads models; the only ones that may be given with it."""


@as_command
def main(arguments: Sequence[str] | None = None) -> None:
    """Selects, or scores what was selected on held-out rows, and prints the outcome."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    options = read_selector_command(words)
    shown = score_on_held_out(options) if options.score_hold_out else choose_and_write(options, words)
    show_lines(shown)
    if not options.score_hold_out:
        show_lines([f"Written: {join_location(options.home, SELECTION_FILE)}"])


def read_selector_command(words: Sequence[str]) -> argparse.Namespace:
    """Parses a command line, and adds `home`, the folder of `selection.json`; ValueError for any mistake in it."""
    options = parse_words(build_parser(), words)
    require(bool(options.sweeps), "SWEEP must name the folder of a sweep, or a URI (see --help)", "none")
    options.sweeps = [absolute_location(find_sweep(sweep)) for sweep in options.sweeps]
    options.home = absolute_location(options.output or options.sweeps[0])
    require(options.output is None or not Path(options.home).is_file(), "--output must be a folder", options.output)
    is_own = options.home == options.sweeps[0]
    check_output("--output", join_location(options.home, SELECTION_FILE), (), overwrite=options.overwrite or is_own)
    for flag in options.flags if options.score_hold_out else ():
        is_allowed = flag in ("--score-hold-out", "--trust-methods", *FOR_MODELS)
        require(is_allowed, f"{flag} must not be given with --score-hold-out", "both")
    for flag in () if options.score_hold_out else FOR_MODELS:
        rule = f"{flag} must come with --score-hold-out, which loads models"
        require(flag not in options.flags, rule, "no such flag")
    options.encoder = None if options.encoder is None else read_encoder_name(options.encoder)
    options.data = None if options.data is None else expanded_path(options.data)
    return options


def choose_and_write(options: argparse.Namespace, words: Sequence[str]) -> list[str]:
    """Selects with the options of the command line, writes `selection.json`, and returns the lines to print."""
    request = SelectionRequest(
        sweeps=options.sweeps,
        tasks=options.tasks,
        method=options.method,
        settings=Settings(max_models=options.max_models),
        base=options.base,
        files=[read_method_file(expanded_path(path)) for path in options.methods],
    )
    command = f"{typed_command('select')} {shlex.join(words)}"
    selection = select_from(request, command=command, on_progress=print_progress)
    width = output_width()
    lines = list(lost_tasks(options.home, selection))
    write_selection(options.home, selection)
    return [*render_selection(selection, width), *(part for line in lines for part in fold(line, width))]


def lost_tasks(home: str, selection: Selection) -> Iterator[str]:
    """Lines that name the tasks of the previous selection that the new one lacks."""
    try:
        before = read_selection(home)
    except ValueError:  # there is no usable one
        return
    lost = [before.definitions[name].title for name in before.tasks if name not in selection.tasks]
    if lost:
        yield ""
        hint = "it is overwritten; --output FOLDER writes another one"
        yield f"No longer in {SELECTION_FILE}: {', '.join(lost)} ({hint})."


def score_on_held_out(options: argparse.Namespace) -> list[str]:
    """Scores the selection of a sweep on the held-out rows and records the scores; returns the lines to print."""
    from results.selection.hold_out_score import count_evaluations, score_held_out  # only this needs torch

    rule = "--score-hold-out takes one SWEEP, whose selection.json is scored"
    require(len(options.sweeps) == 1, rule, len(options.sweeps))
    selection = read_selection(options.home)
    places = find_sweeps(selection, options.home)
    source = ModelSource(places=places, encoder=options.encoder, device=options.device)
    before = count_evaluations([str(place) for place in places.values()])
    scores = score_held_out(selection, source, options.data)
    write_selection(options.home, replace(selection, evaluations=(*selection.evaluations, scores)))
    return render_held_out_scores(selection, scores, before, output_width())


def build_parser() -> argparse.ArgumentParser:
    """Returns the parser."""
    select, predict, run = map(typed_command, ("select", "predict", "run"))
    examples = f"""\
examples:
  per task the best selection method, its ensemble, and the expected score on new text
    {select} ~/multitask-sweeps/NAME
  from all trials of two sweeps over the same dev examples
    {select} ~/multitask-sweeps/A ~/multitask-sweeps/B
  at most five models for each task, added greedily
    {select} ~/multitask-sweeps/NAME --method greedy --max-models 5
  once, at the very end: the selection's scores on train rows that {run} --hold-out kept from all trials
    {select} ~/multitask-sweeps/NAME --score-hold-out

then predict text of your own:
  {predict} ~/multitask-sweeps/NAME --task TASK --input texts.csv --output predictions.csv

No model is loaded to select: dev predictions of every epoch are in the sweep's folder. Members are epochs
whose weights have been kept. selection.json is overwritten each time, with the requested tasks alone.

methods:
{method_lines()}

exit codes: {SUCCESS} written, {WRONG_USE} wrong use, {INTERRUPTED} interrupted
"""
    parser = new_parser(
        select,
        "SWEEP [SWEEP ...] [--task TASK] [--method METHOD] [more below]",
        "Chooses, per task, an ensemble of a sweep's trials by their dev scores, and estimates its score on new text.",
        examples,
        runs_methods=True,
    )
    add = parser.add_argument
    add("sweeps", metavar="SWEEP", nargs="*", help="name or folder of a sweep, or its URI")
    add("--task", dest="tasks", action="append", metavar="TASK", help="only this task; may be given several times")
    add(
        "--method", default=AUTOMATIC, help="selection method; auto: the simplest within one standard error of the best"
    )
    words = "Python files with selection methods of your own, which --method may name (docs/extending.md)"
    add("--methods", metavar="FILE", action="extend", nargs="+", default=[], help=words)
    add("--max-models", type=whole_number, default=10, metavar="K", help="most models per task (default: 10)")
    words = "compare with its configuration, e.g. 0003 or NAME/0003 (default: the base of the first SWEEP)"
    add("--base", metavar="TRIAL", help=words)
    add("--output", metavar="FOLDER", help="where selection.json goes (default: the first SWEEP)")
    add("--overwrite", action="store_true", help="replace what is in --output; a sweep's own selection always is")
    words = f"score the selection on the rows that {run} --hold-out held out: once, at the end"
    add("--score-hold-out", action="store_true", help=words)
    add("--data", metavar="DIR", help="data folder of the held-out rows (default: the sweep's own)")
    add("--encoder", metavar="NAME|DIR", help="pretrained encoder of the models that score, if it has moved")
    add("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where models score")
    return parser


def print_progress(line: str) -> None:
    """Prints a line on an interactive terminal."""
    if sys.stderr.isatty():
        show_lines([line], sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
