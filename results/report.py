"""The command that writes the page of a sweep: `python results/report.py SWEEP`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from mtlib.config.methods import methods_of_tree
from mtlib.runtime.command_line import as_command, counted, new_parser, parse_words
from mtlib.runtime.console import show_lines
from mtlib.runtime.errors import require
from mtlib.runtime.program_names import typed_command
from mtlib.runtime.storage import absolute_location, expanded_path, is_uri, join_location
from results.records.files import check_output, find_sweep


@as_command
def main(arguments: Sequence[str] | None = None) -> None:
    """Writes the page, and images if asked for, and prints where they are; exit code 2 where no sweep can be read."""
    options = read_report_command(arguments)

    # Here, so that --help and mistakes answer at once.
    from results.page.predictions import texts_reader
    from results.page.write import IMAGES_FOLDER, PAGE_FILE, build_page, inputs_of, write_figures, write_page
    from results.sweep import load_sweep

    home = options.output or options.sweep
    images = Path(home) / IMAGES_FOLDER
    sweep = load_sweep(options.sweep)
    methods_of_tree(sweep.info.get("base") or {})  # refused at once, not in parts of the page
    inputs_read = [options.sweep, options.data, (sweep.info.get("data") or {}).get("folder")]
    is_own = home == options.sweep  # what was there is an earlier page of this sweep
    for output in (join_location(home, PAGE_FILE), *([images] if options.images else [])):
        check_output("--output", output, inputs_read, overwrite=options.overwrite or is_own)
    page = build_page(inputs_of(sweep, texts_reader(sweep, options.data) if options.texts else None))
    if options.images:  # first: where they cannot be drawn nothing is written, and the command can be typed again
        show_lines([f"Drawing {counted(len(page.figures), 'figure')} ..."])
        show_lines([f"Images: {write_figures(page, images)} files in {images}"])
    show_lines([f"Page: {write_page(home, page)}"])


def read_report_command(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parses a command line; ValueError for any mistake in it."""
    options = parse_words(build_parser(), arguments)
    require(options.sweep is not None, "SWEEP must name the folder of a sweep, or a URI (see --help)", "none")
    options.sweep = absolute_location(find_sweep(options.sweep))
    if options.output is not None:
        options.output = absolute_location(options.output)
        require(not Path(options.output).is_file(), "--output must be a folder", options.output)
    home = options.output or options.sweep
    is_here = not options.images or not is_uri(home)
    require(is_here, "--images must come with --output, a folder on this machine, where SWEEP is a URI", home)
    require(options.data is None or options.texts, "--data must come with --texts", options.data)
    options.data = None if options.data is None else expanded_path(options.data)
    return options


def build_parser() -> argparse.ArgumentParser:
    """Returns the parser."""
    report = typed_command("report")
    usage = "SWEEP [--output DIR] [--images] [--texts] [more below]"
    description = "Writes a page about a sweep: its answer, health, effects, training, predictions, ensembles."
    examples = f"""\
examples:
  the page of a sweep, ended or still running: SWEEP/report.html, which opens without a network
    {report} ~/multitask-sweeps/NAME
  its figures as PNG and SVG for a paper, beside it in images/
    {report} ~/multitask-sweeps/NAME --images
  with the texts of errors (reads the data again)
    {report} ~/multitask-sweeps/NAME --texts

in a notebook, the same figures:
  from results.table import load_sweep
  load_sweep("~/multitask-sweeps/NAME").plot.effects("smart.weight")
"""
    parser = new_parser(report, usage, description, examples, runs_methods=True)
    add = parser.add_argument
    add("sweep", metavar="SWEEP", nargs="?", help="name or folder of a sweep, or its URI")
    add("--output", metavar="DIR", help="folder of the page (default: SWEEP)")
    add("--overwrite", action="store_true", help="replace what is in --output; a sweep's own page always is")
    add("--images", action="store_true", help="also write each figure as PNG and SVG")
    add("--texts", action="store_true", help="show errors with their texts; reads the data")
    add("--data", metavar="DIR", help="data folder (default: the one that the sweep names)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
