"""Reads a sweep into pandas, and prints its answer and ranking: `python results/table.py SWEEP`."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence

import pandas as pd

from mtlib.runtime.command_line import as_command, key_and_value, new_parser, number, parse_words
from mtlib.runtime.console import (
    COMMAND_INDENT,
    SPREADSHEET_SAFE,
    output_width,
    show_lines,
    show_note,
    spreadsheet_safe,
    wrapped,
    write_data,
)
from mtlib.runtime.errors import require
from mtlib.runtime.method_file import UntrustedCodeError
from mtlib.runtime.program_names import typed_command
from results.answers.effects_table import render_effects
from results.answers.next_commands import resume_command
from results.answers.ranking_table import render_ranking
from results.answers.slices_table import render_slices, slices_of
from results.health.checks import BELOW_RANKING
from results.health.equal_trainings import equal_trainings
from results.records.driver_file import clock_text
from results.records.expected_trials import describe_ended, status_counts
from results.records.trials import OVERALL, STOPPED_BY, UNFINISHED
from results.stats.trial_scores import best_overall_epochs
from results.sweep import Sweep
from results.sweep import load_sweep as load_sweep

RECORDED_ALONE = "Recorded scores alone, without errors, marks and intervals, as no metric was computed:"


def print_effects(sweep: Sweep, difference: float | None, bases: Mapping[str, str]) -> None:
    """Prints the answer to a sweep's question, and a table for each searched key."""
    found, width = sweep.estimate_effects(bases), output_width()
    show_lines(wrapped([*sweep.find_answer(difference, found).paragraphs, ""], width))
    show_lines(render_effects(found, width))
    show_lines(wrapped([f"{finding.line}." for finding in equal_trainings(sweep)], width))


def print_ranking(sweep: Sweep, difference: float | None = None) -> None:
    """Prints the answer to a sweep's question, its ranking with a legend, and what failed."""
    statuses = status_counts(sweep.info, sweep.records)
    counts = ", ".join(f"{count} {status}" for status, count in statuses.items()) or "none yet"
    is_left = any(statuses[status] for status in UNFINISHED)
    ended = f" ({describe_ended(sweep.info, sweep.records)})" if is_left else ""
    width = output_width()
    show_lines([f"Trials in {sweep.path}: {counts}{ended}", *stop_lines(sweep)])
    show_lines(wrapped(["", *sweep.answer(difference), ""], width))
    findings = list[str]()
    try:
        findings += [finding.line for check in BELOW_RANKING for finding in check(sweep)]
    except UntrustedCodeError as error:  # penalties and settings of configurations
        findings.append(f"Not all was checked: {error}.")
    try:
        show_lines(render_ranking(sweep.ranked, sweep.tasks, width, findings))
        show_lines(best_on_slices(sweep, width))
    except UntrustedCodeError as error:  # a metric must not be computed
        show_lines(recorded_values(sweep).to_string(index=False, na_rep="").split("\n"))
        show_lines(wrapped(["", f"{RECORDED_ALONE} {error}."], width))


def best_on_slices(sweep: Sweep, width: int) -> list[str]:
    """Returns the scores on slices of dev of the first configuration, in lines; none where no task has slices."""
    if not sweep.ranked:
        return []
    first = sweep.ranked[0]
    table = render_slices(((sweep.tasks[task], own) for task, own in slices_of(first, sweep.scores)), width)
    title = f"The first row, {first.number:04d}, on slices of dev (sweep.slices() has all configurations):"
    return ["", *wrapped([title], width), "", *table] if table else []


def recorded_values(sweep: Sweep) -> pd.DataFrame:
    """Returns what each trial recorded on dev at the epoch of its highest overall score: nothing is computed."""
    epochs, curves = best_overall_epochs(sweep.curves, sweep.records), sweep.curves[sweep.curves["split"] == "dev"]
    metrics = {name: task.metric for name, task in sweep.tasks.items()} | {OVERALL: OVERALL}
    is_shown = (curves["epoch"] == curves["trial"].map(epochs)) & (curves["metric"] == curves["task"].map(metrics))
    values = curves[is_shown].pivot(index="trial", columns="task", values="value")
    keys = dict.fromkeys(key for record in sweep.records for key in record.params)
    frame = sweep.trials[["trial", "status", *keys]]
    return frame.assign(epoch=frame["trial"].map(epochs).astype("Int64")).join(values, on="trial")


def stop_lines(sweep: Sweep) -> list[str]:
    """When or by which limit an unfinished sweep stopped, and the command that resumes it;
    empty if it runs or has finished."""
    stopped, limit = sweep.stopped_at, sweep.info.get(STOPPED_BY)
    if stopped is None and limit is None:
        return []
    how = [*([] if stopped is None else [f"at {clock_text(stopped)}"]), *([] if limit is None else [f"by {limit}"])]
    return [f"Stopped {' '.join(how)}. To continue:", f"{COMMAND_INDENT}{resume_command(sweep.path)}"]


@as_command
def main(arguments: Sequence[str] | None = None) -> None:
    """Prints a sweep's ranking, or its effects, as tables or as CSV; exit code 2 where no sweep can be read."""
    options = parse_words(build_parser(), arguments)
    require(options.sweep is not None, "SWEEP must name the folder of a sweep, or a URI (see --help)", "none")
    require(options.difference is None or options.difference > 0, "--difference must be above 0", options.difference)
    require(not options.csv or options.difference is None, "--difference must not be given with --csv", "both")
    others = [f"--{name}" for name in ("csv", "effects", "difference") if getattr(options, name)]
    require(not options.json or not others, "--json must be given alone: it holds the effects too", " ".join(others))
    require(options.csv or not options.spreadsheet_safe, "--spreadsheet-safe must come with --csv", "none")
    require(options.effects or not options.base, "--base must be given with --effects", " ".join(options.base))
    bases = dict(key_and_value("--base", text, "smart.weight=0.45") for text in options.base)
    sweep = load_sweep(options.sweep)
    if options.json:
        write_data(json.dumps(sweep.answer_data(), indent=2, allow_nan=False) + "\n")
    elif options.csv:
        try:
            frame = sweep.effects(bases) if options.effects else sweep.ranking()
        except UntrustedCodeError as error:
            show_note(f"{RECORDED_ALONE} {error}.")
            frame = recorded_values(sweep)
        frame = frame.rename(columns=spreadsheet_safe).map(spreadsheet_safe) if options.spreadsheet_safe else frame
        write_data(frame.to_csv(index=False))
    elif options.effects:
        print_effects(sweep, options.difference, bases)
    else:
        print_ranking(sweep, options.difference)


def build_parser() -> argparse.ArgumentParser:
    """Returns the parser."""
    table = typed_command("table")
    usage, description = (
        "SWEEP [--effects] [--base KEY=VALUE] [--difference X] [--csv | --json]",
        "Prints the answer and ranking of a sweep, ended or running.",
    )
    examples = f"""\
examples:
  {table} ~/multitask-sweeps/NAME
  {table} ~/multitask-sweeps/NAME --csv > ranking.csv
  {table} s3://bucket/sweeps/NAME
  the mean score at each searched value, and its difference from the base value
    {table} ~/multitask-sweeps/NAME --effects
  differences from another value than the base configuration's
    {table} ~/multitask-sweeps/NAME --effects --base smart.weight=0.45
  how many replicates would find a difference of .01
    {table} ~/multitask-sweeps/NAME --difference 0.01

in Python:
  from results.table import load_sweep
  sweep = load_sweep("~/multitask-sweeps/NAME")
  sweep.trials, sweep.curves, sweep.predictions(task, "dev")     # pandas data frames
  sweep.ranking(), sweep.effects(), sweep.slices()               # likewise
"""
    parser = new_parser(table, usage, description, examples, runs_methods=True)
    parser.add_argument("sweep", nargs="?", metavar="SWEEP", help="name or folder of the sweep, or its URI")
    effects_help = "print the mean score at each searched value, and its difference from the base value"
    parser.add_argument("--effects", action="store_true", help=effects_help)
    base_help = (
        "with --effects: the value of KEY that others are compared with (default: the base configuration's, or the "
        "first if that was not trained); may be repeated"
    )
    parser.add_argument("--base", metavar="KEY=VALUE", action="append", default=[], help=base_help)
    difference_help = "state how many replicates would find a true difference of X"
    parser.add_argument("--difference", type=number, metavar="X", help=difference_help)
    parser.add_argument("--csv", action="store_true", help="print comma-separated values, all digits, no legend")
    json_help = "print the answer as data, as answer.json in the sweep's folder has it (docs/results.md)"
    parser.add_argument("--json", action="store_true", help=json_help)
    parser.add_argument("--spreadsheet-safe", action="store_true", help=f"with --csv: {SPREADSHEET_SAFE}")
    return parser


if __name__ == "__main__":
    sys.exit(main())
