"""The command that makes a folder of a sweep's trained model, which `transformers` loads; `--help` shows how."""

import argparse
import difflib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pyarrow.fs import SubTreeFileSystem

from mtlib.config.trial import TrialConfig
from mtlib.data.tables import Table
from mtlib.model.hub import read_encoder_name
from mtlib.runtime.command_line import SUCCESS, WRONG_USE, as_command, counted, new_parser, parse_words
from mtlib.runtime.console import show_lines, show_note
from mtlib.runtime.errors import require, require_name
from mtlib.runtime.program_names import typed_command
from mtlib.runtime.storage import expanded_path, full_path, open_folder
from results.inference.dev_texts import data_folder, read_dev_table
from results.inference.int8 import MOST_SCORED_ROWS, calibration_arrays, int8_sentence, sample_rows
from results.records.files import check_output, find_sweep, read_json
from results.records.tables import read_trials
from results.records.trials import OVERALL, TrialRecord, best_trial, read_sweep, sweep_tokenizer
from results.records.weights import WHY_GONE, read_trial_weights
from sweeps.push import check_push, push_folder

if TYPE_CHECKING:  # the command line starts without torch
    from mtlib.checkpoints.export import ExportedModel
    from mtlib.checkpoints.onnx_files import Arrays

BEST_TRIAL = "best"
"""TRIAL for the trial with the highest dev score."""
NAMES_SHOWN = 8
"""Trials with the nearest names that an error lists."""


@as_command
def main(arguments: Sequence[str] | None = None) -> None:
    """Exports the trial of the command line, and prints what was written; exit code 2 where nothing could be."""
    options = parse_words(build_parser(), arguments)
    missing = [name.upper() for name in ("sweep", "trial", "folder") if getattr(options, name) is None]
    require(not missing, "SWEEP, TRIAL and FOLDER must be named (see --help)", f"no {' and no '.join(missing)}")
    require(not options.private or options.push_to_hub is not None, "--private needs --push-to-hub OWNER/NAME", "none")
    sweep, folder = find_sweep(options.sweep), Path(options.folder)
    if options.push_to_hub is not None:
        check_push(options.push_to_hub)  # before what takes long
    if options.onnx or options.int8:
        from mtlib.checkpoints.onnx_files import import_onnx_runtime

        import_onnx_runtime()  # before what takes long
    data = None if options.data is None else expanded_path(options.data)
    dev = read_dev_tables(sweep, options, data) if options.int8 else {}
    lines = list[str]()

    def write_onnx(exported: "ExportedModel", place: Path) -> None:
        texts = calibration_arrays(exported, data_folder(sweep, data)) if options.int8 else None
        lines.extend(write_onnx_files(exported, place, texts, dev))

    show_lines([export(sweep, options, folder, write_onnx if options.onnx or options.int8 else None), *lines])
    if options.push_to_hub is not None:
        url = push_folder(expanded_path(folder).absolute(), options.push_to_hub, is_private=options.private)
        show_lines([f"Pushed it to {url}"])


def build_parser() -> argparse.ArgumentParser:
    """Returns the parser."""
    export, run = map(typed_command, ("export", "run"))
    examples = f"""\
examples:
  the best trial of a sweep, at its best epoch by the overall dev score
    {export} ~/multitask-sweeps/NAME best ~/models/mine
  one trial (column `trial` of load_sweep("...").trials), at its best epoch for one task
    {export} ~/multitask-sweeps/NAME 0003-r0 ~/models/mine --best TASK
  where the encoder that the sweep began with has moved
    {export} ~/multitask-sweeps/NAME best ~/models/mine --encoder DIR
  for ONNX Runtime too, a file for each task, from tokens to logits, and one that names its labels
    {export} ~/multitask-sweeps/NAME best ~/models/mine --onnx
  a quarter as large, with integers scaled by train texts; prints what each task's score on dev loses
    {export} ~/multitask-sweeps/NAME best ~/models/mine --int8
  to a private model repository of the Hugging Face hub too
    {export} ~/multitask-sweeps/NAME best ~/models/mine --push-to-hub OWNER/NAME --private

then, in Python, the encoder alone, or the whole model:
  from transformers import AutoModel, AutoTokenizer
  encoder, tokenizer = AutoModel.from_pretrained(FOLDER), AutoTokenizer.from_pretrained(FOLDER)
  from mtlib.checkpoints.export import load_exported
  exported = load_exported(FOLDER)     # exported.model, exported.config, exported.pretrained.tokenizer

or start a further sweep from these weights:
  {run} --space SPACE --set encoder.start_from=FOLDER

FOLDER holds config.json, model.safetensors and the tokenizer's files (the encoder), tasks.safetensors (heads and all
else), trial.json (the whole configuration) and README.md (how it was trained, dev scores, what it is not).

--push-to-hub needs an access token with permission to write, as huggingface_hub finds it: the variable HF_TOKEN, or
what `hf auth login` has stored. All of FOLDER is uploaded; trial.json has the last part of each path.

exit codes: {SUCCESS} written, {WRONG_USE} wrong use
"""
    parser = new_parser(
        export,
        f"SWEEP TRIAL FOLDER [--best {OVERALL}|TASK] [--push-to-hub OWNER/NAME] [more below]",
        "Makes a folder of a trial's best weights that transformers loads, with heads and model card.",
        examples,
        runs_methods=True,
    )
    parser.add_argument("sweep", nargs="?", metavar="SWEEP", help="name or folder of the sweep, or its URI")
    parser.add_argument("trial", nargs="?", metavar="TRIAL", help=f"a trial, e.g. 0003-r0, or `{BEST_TRIAL}`")
    parser.add_argument("folder", nargs="?", metavar="FOLDER", help="folder to make")
    words = "score whose best epoch on dev is exported (default: %(default)s)"
    parser.add_argument("--best", default=OVERALL, metavar=f"{OVERALL}|TASK", help=words)
    parser.add_argument("--encoder", metavar="NAME|DIR", help="pretrained encoder (default: the trial's own)")
    words = "write an ONNX file for each task too, into FOLDER/onnx (needs the extra `onnx`)"
    parser.add_argument("--onnx", action="store_true", help=words)
    words = "with --onnx's files, ones with integers of 8 bits, and score both on dev"
    parser.add_argument("--int8", action="store_true", help=words)
    parser.add_argument("--data", metavar="DIR", help="data folder, for --int8 (default: the sweep's own)")
    words = "upload FOLDER to this model repository of the Hugging Face hub, which is made if it is missing"
    parser.add_argument("--push-to-hub", metavar="OWNER/NAME", help=words)
    parser.add_argument("--private", action="store_true", help="make that repository private")
    parser.add_argument("--overwrite", action="store_true", help="replace FOLDER if it holds an exported model")
    return parser


def export(
    sweep: str,
    options: argparse.Namespace,
    folder: Path,
    write_onnx: "Callable[[ExportedModel, Path], object] | None",
) -> str:
    """Exports the weights of one trial's best epoch, as the command line says.

    Returns:
        A line about what was written.

    Raises:
        ValueError: in one line: there is no such sweep, trial or best epoch, its weights were not kept, the folder
            must not be replaced (see `check_output`), the encoder cannot be loaded or is another one, or as
            `write_onnx`, which `export_model` calls.
    """
    trial, best, encoder = options.trial, options.best, options.encoder
    info, root = read_sweep(sweep), open_folder(sweep)
    records = read_trials(sweep)
    record = find_trial(sweep, records, trial, best)
    folder = expanded_path(folder).absolute()
    config = TrialConfig.from_json(record.config)
    name = config.encoder.name if encoder is None else read_encoder_name(encoder)
    check_output("FOLDER", folder, (sweep, name), overwrite=options.overwrite)
    epoch = find_epoch(root, record, best)

    from mtlib.checkpoints.export import export_model
    from mtlib.model.encoder import find_encoder
    from results.inference.card_facts import trial_card_facts
    from results.inference.models import check_frozen_encoder

    weights = read_trial_weights(root, record, epoch)
    facts = trial_card_facts(info, root, record, best, epoch, records)
    pretrained = find_encoder(name, sweep_tokenizer(info, config.encoder.name).source)
    check_frozen_encoder(config, pretrained, sweep)
    export_model(config, pretrained, weights, folder, facts, overwrite=options.overwrite, write_onnx=write_onnx)
    return f"Exported {record.trial_id} of {sweep}, epoch {epoch} (its best {best} on dev), to {folder}"


def read_dev_tables(sweep: str, options: argparse.Namespace, data: Path | None) -> dict[str, Table]:
    """Returns dev rows of each task of the trial that is exported; ValueError as `read_dev_table`."""
    config = TrialConfig.from_json(find_trial(sweep, read_trials(sweep), options.trial, options.best).config)
    return {task: sample_rows(read_dev_table(sweep, task, data), MOST_SCORED_ROWS) for task in config.active_tasks}


def write_onnx_files(
    exported: "ExportedModel", place: Path, texts: "Mapping[str, Iterable[Arrays]] | None", dev: Mapping[str, Table]
) -> Iterator[str]:
    """Writes ONNX files of a model, and gives a line for each; raises as `write_onnx`, which takes the first arguments.

    Files with integers are scored on dev rows, of all tasks.
    """
    from mtlib.checkpoints.onnx_files import INT8_ENDING, write_onnx

    show_note("Tracing the model for ONNX ...")
    for task, difference in write_onnx(exported, place, texts).items():
        path, small = (place / f"{task}{ending}" for ending in (".onnx", INT8_ENDING))
        yield f"  onnx/{path.name}: {size_of(path)}, logits are those of torch to {difference:.0e}"
        if texts is not None:
            show_note(f"{task}: both files predict {counted(len(dev[task].ids), 'dev row')} ...")
            yield f"  onnx/{small.name}: {size_of(small)}, {int8_sentence(exported, place, dev[task])}"


def size_of(path: Path) -> str:
    """Returns the size of a file, in words."""
    return f"{path.stat().st_size / 1e6:,.1f} MB"


def find_trial(sweep: str, records: Sequence[TrialRecord], trial: str, best: str) -> TrialRecord:
    """Returns the trial of that name, or the one with the highest score if `best` is asked for."""
    if trial == BEST_TRIAL:
        highest = best_trial(records, best)
        if highest is None:
            raise ValueError(f"{sweep} must hold a trial with a dev score '{best}', got none")
        return highest
    by_name = {record.trial_id: record for record in records}
    require(bool(by_name), f"{sweep} must hold trials", "none yet")
    nearest = difflib.get_close_matches(trial, by_name, n=NAMES_SHOWN, cutoff=0.0)
    require_name(trial, [trial] if trial in by_name else nearest, f"trial of {sweep}")
    return by_name[trial]


def find_epoch(root: SubTreeFileSystem, record: TrialRecord, best: str) -> int:
    """Returns the best epoch whose weights the trial's checkpoint keeps."""
    try:
        best_epochs = {} if record.checkpoint is None else read_json(root, f"{record.checkpoint}/best.json")
    except (FileNotFoundError, NotADirectoryError):
        best_epochs = {}
    rule = f"trial {record.trial_id} ({record.status}) must have kept weights"
    where = full_path(root, f"trials/{record.trial_id}/checkpoint")
    require(bool(best_epochs), rule, f"none in {where}{WHY_GONE * (record.epochs > 0)}")
    left = ", ".join(best_epochs)
    is_gone = best in record.best and best not in best_epochs
    require(not is_gone, f"{rule} of its best epoch by {best}", f"those by {left} alone{WHY_GONE}")
    require_name(best, best_epochs, f"--best for trial {record.trial_id}")
    return int(best_epochs[best])


if __name__ == "__main__":
    sys.exit(main())
