"""The built-in demonstration: a small corpus of the three tasks and a tiny encoder, generated from a seed."""

import csv
import hashlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random

from mtlib.demo.encoder import write_demo_encoder
from mtlib.demo.texts import write_headlines, write_questions, write_review
from mtlib.tasks import TASKS, Task

Example = tuple[tuple[str, ...], float]
"""The texts of a row, and its label."""

WRITERS: dict[str, Callable[[Random], Example]] = {"sst": write_review, "qqp": write_questions, "sts": write_headlines}
NUM_ROWS = {
    "sst": {"dev": 600, "test": 200, "train": 800},
    "qqp": {"dev": 800, "test": 200, "train": 8000},
    "sts": {"dev": 600, "test": 200, "train": 800},
}
"""Rows by task and split; train is drawn last, without the texts of dev and test."""


def write_corpus(folder: Path, seed: int = 0) -> None:
    """Writes train, dev and test files of the three tasks into a folder that is created if missing.

    The same seed gives the same bytes. No text of train is in dev or test, no row occurs twice in a split.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, num_rows in NUM_ROWS.items():
        held_out: set[str] = set()
        for split, count in num_rows.items():
            examples = draw_examples(name, split, count, held_out, seed)
            write_split(folder, TASKS[name], split, examples, Random(f"{seed} {name} {split} index"))
            held_out |= {text for texts, _ in examples for text in texts} if split != "train" else set()


def draw_examples(name: str, split: str, count: int, held_out: set[str], seed: int) -> list[Example]:
    """`count` different examples of a task, none with a text of `held_out`."""
    random = Random(f"{seed} {name} {split}")
    labels: dict[tuple[str, ...], float] = {}
    while len(labels) < count:
        texts, label = WRITERS[name](random)
        if held_out.isdisjoint(texts):
            labels.setdefault(texts, label)
    return list(labels.items())


def write_split(folder: Path, task: Task, split: str, examples: list[Example], random: Random) -> None:
    """Writes one file in the course's layout. The first column is an index without a name, shuffled in pair files."""
    index = random.sample(range(10 * len(examples)), len(examples)) if task.is_pair else range(len(examples))
    labels = [] if split == "test" else [task.label_column]
    label_type = int if task.kind == "classes" else float  # written as `3`, and as `1.0` or `3.6`
    with (folder / task.file_name(split)).open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, delimiter="\t", lineterminator="\n")
        rows.writerow(["", "id", *task.text_columns, *labels])
        for number, (texts, label) in zip(index, examples, strict=True):
            name = hashlib.sha256("\n".join(texts).encode()).hexdigest()[:25]  # as long as the course's ids
            rows.writerow([number, name, *texts, *([label_type(label)] if labels else [])])


def demo_folder(cache_folder: Path) -> tuple[Path, Path]:
    """Absolute folders of the demonstration's corpus and encoder, seed 0, written once and reused.

    They are kept in `cache_folder` under a name with a hash of the source files in this folder.
    """
    sources = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
    folder = cache_folder.absolute() / f"demo-{hashlib.sha256(sources).hexdigest()[:12]}"
    if not folder.exists():
        cache_folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache_folder, prefix=".demo-") as made:
            write_demo(Path(made) / "whole", seed=0)
            move_unless_there(Path(made) / "whole", folder)
    return folder / "data", folder / "encoder"


def write_demo(folder: Path, seed: int) -> None:
    write_corpus(folder / "data", seed)
    write_demo_encoder(folder / "encoder", seed)


def move_unless_there(made: Path, folder: Path) -> None:
    """Renames a folder unless another process was first."""
    try:
        made.rename(folder)
    except OSError:
        if not folder.exists():
            raise
