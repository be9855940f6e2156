"""Writes the demonstration to a folder: `python -m mtlib.demo DIR`."""

import argparse
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from mtlib.demo.corpus import write_demo
from mtlib.demo.overrides import demo_overrides
from mtlib.runtime.command_line import as_command, new_parser, parse_words
from mtlib.runtime.console import show_lines
from mtlib.runtime.errors import require
from mtlib.runtime.program_names import typed_command
from mtlib.tasks import TASKS

STAGGERED = (
    StageConfig(tasks=("qqp",), epochs=2),
    StageConfig(tasks=tuple(TASKS), order="sampled_round_robin", epochs=13),
)
"""The plan of the sweep in the printed example."""

DEMO_DESCRIPTION = (
    "Write the demonstration corpus and its tiny encoder to a folder, as an example of the format or for experiments."
)
EXAMPLES = """\
what you get, tab-separated, in the layout of Stanford CS224N's default project (own data must look like this):
  DIR/data/ids-sst-train.csv   film reviews: sentence, sentiment (0 very negative .. 4 very positive)
  DIR/data/quora-train.csv     pairs of questions: sentence1, sentence2, is_duplicate (0.0 or 1.0)
  DIR/data/sts-train.csv       pairs of headlines: sentence1, sentence2, similarity (0.0 .. 5.0)
  DIR/data/*-dev.csv           the same, to score on; *-test-student.csv: the same without labels
  DIR/encoder                  a BERT of three layers with its own vocabulary, for AutoModel and AutoTokenizer

examples:
  python -m mtlib.demo demo            the files of every sweep that is given no --data and no --encoder
  head -3 demo/data/quora-train.csv    see the format
"""


@as_command
def main(arguments: Sequence[str] | None = None) -> None:
    """Writes the demonstration to a folder and prints what is there."""
    options = parse_words(build_parser(), arguments)
    require(options.folder is not None, "DIR must name a folder (see --help)", "none")
    for path in (options.folder / "data", options.folder / "encoder"):
        require(not path.exists(), "DIR must hold neither data nor encoder", path)
    try:
        write_demo(options.folder)
    except OSError as error:
        raise ValueError(f"DIR must be a folder that can be written, got {options.folder}: {error}") from error
    show_lines(summary_lines(options.folder))


def build_parser() -> argparse.ArgumentParser:
    parser = new_parser("python -m mtlib.demo", "DIR", DEMO_DESCRIPTION, EXAMPLES)
    words = "where to write; must hold neither data nor encoder"
    parser.add_argument("folder", nargs="?", metavar="DIR", type=Path, help=words)
    return parser


def summary_lines(folder: Path) -> Iterator[str]:
    """Yields the files that were written, and a command that trains on them."""
    for task in TASKS.values():
        for split in ("train", "dev", "test"):
            path = folder / "data" / task.file_name(split)
            yield f"{path}: {len(path.read_text(encoding='utf-8').splitlines()) - 1} rows"
    yield f"{folder / 'encoder'}: a BERT of three layers, never pretrained"
    overrides = demo_overrides(TrialConfig(stages=STAGGERED))
    changes = " ".join(f"--set {key}={value}" for key, value in overrides.items())
    yield "Train on them with the settings that such an encoder needs:"
    data, encoder = (shlex.quote(str(folder / name)) for name in ("data", "encoder"))
    yield f"{typed_command('run')} --space smart_lambda --data {data} --encoder {encoder} {changes}"


if __name__ == "__main__":
    sys.exit(main())
