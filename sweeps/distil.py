"""The command that teaches one model what a sweep's ensembles know; `--help` shows how."""

import argparse
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mtlib.config.trial import TrialConfig
from mtlib.model.hub import read_encoder_name
from mtlib.runtime.command_line import (
    INTERRUPTED,
    SUCCESS,
    WRONG_USE,
    new_parser,
    parse_words,
    run_command,
    whole_number,
)
from mtlib.runtime.console import COMMAND_INDENT, show_lines, show_note
from mtlib.runtime.errors import require, require_name
from mtlib.runtime.program_names import typed_command
from mtlib.runtime.storage import (
    absolute_location,
    expanded_path,
    is_file,
    join_location,
    local_path,
    open_folder,
    split_location,
)
from results.inference.dev_texts import data_folder
from results.inference.distillation.outcome import best_taught_trial, distillation_lines, ensemble_members
from results.inference.distillation.students import STUDENTS, student_space
from results.inference.distillation.taught_rows import TEACHERS_FOLDER, Lesson, TaughtRole, TaughtRows, train_rows
from results.inference.distillation.teacher import FurtherText, Taught, read_task_texts, teach
from results.inference.models import ModelSource, find_sweeps
from results.records.files import find_sweep
from results.records.selection import Selection, read_selection
from results.records.tables import read_trials
from results.records.trials import SWEEP_FILE, UNFINISHED, best_trial
from results.sweep import load_sweep
from search_spaces.set_values import expand_keys
from search_spaces.space import SearchSpace, grid_configs
from sweeps.cli.arguments import build_parser as build_run_parser
from sweeps.cli.arguments import given_options
from sweeps.cli.start import command_line, exit_code_of, exit_process, run_given
from sweeps.cluster.garbage_collection import collect_rarely
from sweeps.options import NAME_RULE, SAFE_NAME, flag_of
from sweeps.plan.given_options import CHANGEABLE_OPTIONS, GivenOptions, option_text, read_options, read_saved_options

DEFAULT_REPLICATES = 3
OWN_OPTIONS = (
    *("space", "vary", "search", "trials", "extend", "data", "encoder", "replicates", "methods", "hold_out"),
    *("storage", "name", "resume", "dry_run", "list_spaces", "list_keys"),
)
"""Options of `sweeps/run.py` that may not stand behind `--`: this command decides them, or they train nothing."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    words, code = sys.argv[1:] if arguments is None else list(arguments), SUCCESS

    def run() -> None:
        nonlocal code
        code = run_distil(words)

    return run_command(run) or code


def run_distil(words: Sequence[str]) -> int:
    """Teaches, trains students and prints the verdict; returns the exit code of the sweep of students."""
    from sweeps.lanes.peak_memory import release_memory  # here: --help loads no torch

    request = read_request(words)
    students = student_space(request.config, teach_all(request))
    release_memory()  # of the teachers, on a GPU too
    code, is_whole = train_students(request, students, words)
    if is_whole:
        show_lines(["", *outcome_lines(request, words)])
    return code


def train_students(request: "DistilRequest", space: SearchSpace, words: Sequence[str]) -> tuple[int, bool]:
    """Trains what is not trained yet of the space of students.

    Returns:
        The exit code of the sweep, and whether all its trials have ended.

    Raises:
        ValueError: the sweep of students has begun and learns from other files, or starts from another encoder.
    """
    place, given = request.students, sweep_options(request, space)
    if is_sweep(place):
        check_same(place, space, request.encoder)
        if has_ended(place) and "replicates" not in given:
            return SUCCESS, True
        if request.is_dry_run:
            show_lines([f"{place} has begun; what is left of it would be trained"])
            return SUCCESS, False
    command = command_line("sweeps/distil.py", words)
    code = exit_code_of(lambda: run_given(given, command))
    if code != SUCCESS and is_sweep(place):
        again = f"{typed_command('distil')} {shlex.join(words)}"
        show_lines(["The verdict needs all students; the same command trains the rest:", f"{COMMAND_INDENT}{again}"])
    return code, code == SUCCESS and not request.is_dry_run and has_ended(place)


def sweep_options(request: "DistilRequest", space: str | SearchSpace) -> GivenOptions:
    """Returns the options of the sweep of students: of a new one, or of the rest of one that has begun.

    Raises:
        ValueError: that one began with other options, which no resume changes.
    """
    place, given = request.students, request.run_options
    if is_sweep(place):
        begun, changes = read_saved_options(place), {}
        for name, value in given.items():
            if name in (*CHANGEABLE_OPTIONS, "address"):
                changes[name] = value
                continue
            rule = f"{flag_of(name)} must be what the students of {place} began with (or name others with --name)"
            require(getattr(begun, name) == value, rule, option_text(value))
        more = {"replicates": request.replicates} if request.replicates > begun.replicates else {}
        return {**changes, **more, "resume": place}
    storage, name = split_location(place)
    own = {"data": str(request.data), "encoder": request.encoder, "replicates": request.replicates}
    where = {"space": space, "storage": storage, "name": name, "dry_run": request.is_dry_run}
    return {**own, **given, **where}


def is_sweep(place: str) -> bool:
    """Returns whether there is a sweep in a folder."""
    return is_file(open_folder(place), SWEEP_FILE)


def has_ended(place: str) -> bool:
    """Returns whether no trial of a sweep is left to train."""
    return not any(record.status in UNFINISHED for record in read_trials(place))


def check_same(place: str, space: SearchSpace, encoder: str) -> None:
    """Raises ValueError unless a sweep that has begun learns from the files of a space, with that encoder."""
    configs = [TrialConfig.from_json(record.config) for record in read_trials(place)]
    found, wanted = (source_files(configs), source_files(grid_configs(space)))
    rule = f"{place} must learn from the same rows and models (or name another sweep with --name)"
    require(found == wanted, rule, f"a difference in {', '.join(sorted(found ^ wanted))}")
    encoders = {config.encoder.name for config in configs}
    rule = f"{place} must start from the same encoder (or name another sweep with --name)"
    require(encoders == {encoder}, rule, f"{encoder}, not {', '.join(sorted(encoders))}")


def source_files(configs: Sequence[TrialConfig]) -> set[str]:
    """Returns the names of the files of the further sources of data, which have hashes; their folder may have moved."""
    return {Path(source.path).name for config in configs for source in config.data.sources.values()}


def outcome_lines(request: "DistilRequest", words: Sequence[str]) -> list[str]:
    """Returns the verdict, and what to type next, after this command's `words`."""
    home, students = str(request.home), load_sweep(request.students)
    found = distillation_lines(
        home, request.selection, students, request.data, request.source, scores_held_out=request.scores_held_out
    )
    export = f"{typed_command('export')} {shlex.quote(request.students)} {best_taught_trial(students)} FOLDER"
    score = f"{typed_command('distil')} {shlex.join(['--score-hold-out', *words])}"
    has_held_out = request.config.data.hold_out > 0 and not request.scores_held_out
    once = ["  once, at the end: all three on the rows that were held out", f"    {score}"] if has_held_out else []
    return [*found, "Next:", *once, "  the best student as a folder that transformers loads", f"    {export}"]


@dataclass(frozen=True, kw_only=True)
class DistilRequest:
    """What the command line asks for."""

    home: Path
    """The folder of the sweep."""
    selection: Selection
    data: Path
    source: ModelSource
    config: TrialConfig
    """The configuration of the sweep's best trial."""
    further: tuple[FurtherText, ...]
    students: str
    """The folder of the sweep of students."""
    encoder: str
    replicates: int
    run_options: GivenOptions
    """Further options of the sweep of students, behind `--`."""
    scores_held_out: bool
    is_dry_run: bool


def read_request(words: Sequence[str]) -> DistilRequest:
    """Reads the command line; ValueError for any mistake in it."""
    at = list(words).index("--") if "--" in words else len(words)
    options, further = parse_words(build_parser(), words[:at]), words[at + 1 :]
    require(options.sweep is not None, "SWEEP must name the folder of a sweep (see --help)", "none")
    place = absolute_location(find_sweep(options.sweep))
    home = local_path(place)
    if home is None:
        raise ValueError(f"SWEEP must be on a disk of this machine, got {place}: copy it to distil it")
    selection = read_selection(home)
    config = best_config(place)
    missing = [task for task in config.active_tasks if task not in selection.tasks]
    rule = f"every task must have an ensemble ({typed_command('select')} SWEEP)"
    require(not missing, rule, f"none of {', '.join(missing)}")
    storage, name = split_location(place)
    students = options.name or f"{name}-students"
    require(SAFE_NAME.fullmatch(students) is not None, NAME_RULE, repr(students))
    request = DistilRequest(
        home=home,
        selection=selection,
        data=data_folder(place, None if options.data is None else expanded_path(options.data)),
        source=ModelSource(places=find_sweeps(selection, place), device=options.device),
        config=config,
        further=tuple(further_text(text, selection) for text in options.unlabelled),
        students=join_location(storage, students),
        encoder=config.encoder.name if options.student is None else read_encoder_name(options.student, "--student"),
        replicates=options.replicates,
        run_options=read_run_options(further),
        scores_held_out=options.score_hold_out,
        is_dry_run=options.dry_run,
    )
    # Mistakes are found before an ensemble predicts.
    read_options(sweep_options(request, STUDENTS), None)
    config.override(expand_keys(request.run_options.get("set", {}), config))
    return request


def read_run_options(words: Sequence[str]) -> GivenOptions:
    """Returns the options behind `--`; ValueError if one of them is none of the sweep of students."""
    given = given_options(parse_words(build_run_parser(), words))
    wrong = [flag_of(name) for name in OWN_OPTIONS if name in given]
    rule = "flags behind -- must leave to this command what students learn from, and where they are"
    require(not wrong, rule, ", ".join(wrong))
    return given


def build_parser() -> argparse.ArgumentParser:
    """Returns the parser."""
    select, distil, predict, run = map(typed_command, ("select", "distil", "predict", "run"))
    usage = f"SWEEP [more below] [-- FLAGS of {run}]"
    purpose = "Teaches one model what the ensembles of a sweep know, and says how good it is."
    examples = f"""\
examples:
  teach one model what the ensembles of a sweep know (choose them first: {select} SWEEP)
    {distil} ~/multitask-sweeps/NAME
  by further text without labels, in files that {predict} reads; #COLUMN for columns of other names
    {distil} ~/multitask-sweeps/NAME --unlabelled TASK=new.txt --unlabelled PAIRS=new.csv#left,right
  a smaller student; flags after -- go to {run}
    {distil} ~/multitask-sweeps/NAME --student DIR -- --concurrent 2 --set distillation.temperature=2
  once, at the very end: all of them on the rows that {run} --hold-out kept from all trials
    {distil} ~/multitask-sweeps/NAME --score-hold-out

The ensembles predict the train rows once; files in the sweep's folder `{TEACHERS_FOLDER}` keep what they say. Students
are an ordinary sweep beside it, NAME-students: the best trial's configuration, taught by the ensembles alone, by these
and the labels, and by the labels alone. The same command again goes on where it stopped, and shows the verdict.

exit codes: {SUCCESS} done, {WRONG_USE} wrong use, {INTERRUPTED} interrupted, else that of {run}
"""
    parser = new_parser(distil, usage, purpose, examples, runs_methods=True)
    add = parser.add_argument
    add("sweep", nargs="?", metavar="SWEEP", help="name or folder of a sweep whose ensembles have been selected")
    words = "texts without labels for a task, from which its ensemble teaches too; may be given several times"
    add("--unlabelled", metavar="TASK=FILE", action="append", default=[], help=words)
    add("--student", metavar="NAME|DIR", help="encoder of the students (default: the best trial's)")
    add("--name", metavar="NAME", help="of the sweep of students (default: SWEEP-students)")
    words = "trainings of each student (default: %(default)s)"
    add("--replicates", type=whole_number, default=DEFAULT_REPLICATES, metavar="K", help=words)
    add("--data", metavar="DIR", help="data folder (default: the sweep's own)")
    add("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where the ensembles predict")
    words = "score the best student, the best single model and the ensembles on the rows that were held out"
    add("--score-hold-out", action="store_true", help=words)
    words = "train nothing: write what the ensembles teach, and print the plan of the trainings"
    add("--dry-run", action="store_true", help=words)
    return parser


def best_config(sweep: str) -> TrialConfig:
    """Returns the configuration of the trial with the highest overall dev score; ValueError if there is none."""
    best = best_trial(read_trials(sweep))
    if best is None:
        raise ValueError(f"{sweep} must hold a trial with an overall dev score, got none")
    return TrialConfig.from_json(best.config)


def further_text(text: str, selection: Selection) -> FurtherText:
    """Returns a `TASK=FILE#COLUMN,COLUMN` of the command line; ValueError if it is none."""
    task, equals, rest = text.partition("=")
    require(bool(equals and rest), "--unlabelled must be TASK=FILE", f"'{text}'")
    require_name(task, selection.tasks, "task of the selection")
    place, _, columns = rest.partition("#")
    names = tuple(name.strip() for name in columns.split(",")) if columns else ()
    wanted = len(selection.definitions[task].text_columns)
    require(len(names) in (0, wanted), f"--unlabelled must name {wanted} columns for {task}", columns)
    found = FurtherText(task=task, place=place, columns=names)
    with found.open():  # a mistake is found before an ensemble predicts
        return found


def teach_all(request: DistilRequest) -> list[Taught]:
    """Returns what the ensembles teach of all tasks: train rows and further texts, each predicted once."""
    texts = {
        name: read_task_texts(request.selection, name, request.source, request.data, request.further, show_note)
        for name in request.config.active_tasks
    }
    members, found = ensemble_members(request.selection), list[Taught]()
    for name, (train, further) in texts.items():
        task = request.selection.definitions[name]
        parts: dict[TaughtRole, TaughtRows] = {"train": train_rows(task, train)}
        if further.texts:
            parts["augment"] = further
        for role, rows in parts.items():
            lesson = Lesson(members=members[name], rows=rows)
            found.append(teach(task, role, lesson, request.source, request.home, show_note))
    return found


if __name__ == "__main__":
    collect_rarely()
    exit_process(main())
