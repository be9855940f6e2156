"""Writes the demonstration to a folder: `python -m mtlib.demo DIR`."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from mtlib.demo.corpus import NUM_ROWS, WRITERS, write_demo
from mtlib.demo.overrides import demo_overrides
from mtlib.tasks import TASKS

STAGGERED = (
    StageConfig(tasks=("qqp",), epochs=2),
    StageConfig(tasks=tuple(WRITERS), order="sampled_round_robin", epochs=13),
)
"""The plan of the sweep that is shown as an example."""

DESCRIPTION = "Write the demonstration corpus and its tiny encoder to a folder, to see the format or to try things on."
EXAMPLES = """\
what you get, tab-separated, in the layout of Stanford CS224N's default project (own data must look like this):
  DIR/data/ids-sst-train.csv   film reviews: sentence, sentiment (0 very negative .. 4 very positive)
  DIR/data/quora-train.csv     pairs of questions: sentence1, sentence2, is_duplicate (0.0 or 1.0)
  DIR/data/sts-train.csv       pairs of headlines: sentence1, sentence2, similarity (0.0 .. 5.0)
  DIR/data/*-dev.csv           the same, to score on; *-test-student.csv: the same without labels
  DIR/encoder                  a BERT of three layers with its own vocabulary, for AutoModel and AutoTokenizer

examples:
  python -m mtlib.demo demo              the files of every sweep that is given no --data and no --encoder
  python -m mtlib.demo demo2 --seed 1    another corpus and another encoder of the same kind
  head -3 demo/data/quora-train.csv      see the format
"""


def main(arguments: list[str] | None = None) -> int:
    """Writes the demonstration to a folder and says what is there; 0, or 2 for wrong use."""
    options = parse_arguments(arguments)
    taken = [path for path in (options.folder / "data", options.folder / "encoder") if path.exists()]
    if taken:
        print(f"error: DIR must hold neither data nor encoder, got {taken[0]}", file=sys.stderr)
        return 2
    try:
        write_demo(options.folder, options.seed)
    except OSError as error:
        print(f"error: DIR must be a folder that can be written, got {options.folder}: {error}", file=sys.stderr)
        return 2
    print("\n".join(describe(options.folder)))
    return 0


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m mtlib.demo",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", metavar="DIR", type=Path, help="where to write; must hold neither data nor encoder")
    parser.add_argument(
        "--seed", metavar="S", type=seed_number, default=0, help="which corpus and encoder (default: 0)"
    )
    return parser.parse_args(arguments)


def seed_number(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 0, got '{text}'")
    return int(text)


def describe(folder: Path) -> Iterator[str]:
    """What was written and what to do with it, line by line."""
    for name, num_rows in NUM_ROWS.items():
        for split in ("train", "dev", "test"):
            yield f"{folder / 'data' / TASKS[name].file_name(split)}: {num_rows[split]} rows"
    yield f"{folder / 'encoder'}: a BERT of three layers, never pretrained"
    overrides = demo_overrides(TrialConfig(stages=STAGGERED))
    changes = " ".join(f"--set {key}={value}" for key, value in overrides.items())
    yield "Train on them with the settings that such an encoder needs:"
    yield (
        f"python sweeps/run.py --space smart_lambda --data {folder / 'data'} --encoder {folder / 'encoder'} {changes}"
    )


if __name__ == "__main__":
    sys.exit(main())
