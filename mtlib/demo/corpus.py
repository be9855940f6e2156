"""The built-in demonstration: a small corpus of the three tasks and a tiny encoder, made from a seed, no download."""

import csv
import hashlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random

from mtlib.demo import encoder as demo_encoder
from mtlib.demo import encoder_weights as demo_weights
from mtlib.demo import texts as demo_text
from mtlib.demo import vocabulary as demo_words
from mtlib.demo.encoder import write_tiny_encoder
from mtlib.demo.texts import write_headlines, write_questions, write_review
from mtlib.tasks import TASKS, Task

Example = tuple[tuple[str, ...], float]
"""The texts of a row, and its label."""

WRITERS: dict[str, Callable[[Random], Example]] = {
    "sst": write_review,
    "qqp": write_questions,
    "sts": write_headlines,
}
NUM_ROWS = {
    "sst": {"dev": 600, "test": 200, "train": 800},
    "qqp": {"dev": 800, "test": 200, "train": 8000},
    "sts": {"dev": 600, "test": 200, "train": 800},
}
"""Rows by task and split, in the order in which they are drawn: train keeps clear of the texts of dev and test."""


def write_corpus(folder: Path, seed: int = 0) -> None:
    """Writes train, dev and test files of the three tasks.

    The same seed gives the same bytes. No text of train is in dev or test, no row is twice in a split.

    Args:
        folder: made if it is not there; files in it are replaced.
        seed: which corpus, any whole number.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, num_rows in NUM_ROWS.items():
        held_out: set[str] = set()
        for split, count in num_rows.items():
            examples = draw_examples(name, split, count, held_out, seed)
            write_file(folder, TASKS[name], split, examples, Random(f"{seed} {name} {split} index"))
            held_out |= {text for texts, _ in examples for text in texts} if split != "train" else set()


def draw_examples(name: str, split: str, count: int, held_out: set[str], seed: int) -> list[Example]:
    """`count` examples of a task, none twice, none with a text that is held out."""
    random = Random(f"{seed} {name} {split}")
    labels: dict[tuple[str, ...], float] = {}
    while len(labels) < count:
        texts, label = WRITERS[name](random)
        if held_out.isdisjoint(texts):
            labels.setdefault(texts, label)
    return list(labels.items())


def write_file(folder: Path, task: Task, split: str, examples: list[Example], random: Random) -> None:
    """Writes one file. As in the course's files the first column has no name, and in pair files no order."""
    index = random.sample(range(10 * len(examples)), len(examples)) if task.is_pair else range(len(examples))
    labels = [] if split == "test" else [task.label_column]
    with (folder / task.file_name(split)).open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, delimiter="\t", lineterminator="\n")
        rows.writerow(["", "id", *task.text_columns, *labels])
        for number, (texts, label) in zip(index, examples, strict=True):
            rows.writerow([number, example_id(texts), *texts, *([label_text(task, label)] if labels else [])])


def example_id(texts: tuple[str, ...]) -> str:
    """25 hexadecimal digits, as the course's ids."""
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:25]


def label_text(task: Task, label: float) -> str:
    """A label as the course writes it: `3` for a class, `1.0` for a duplicate, `3.6` for a similarity."""
    return str(int(label)) if task.kind == "classes" else str(label)


def write_encoder(folder: Path, seed: int = 0) -> None:
    """Writes a tiny BERT that `AutoModel` and `AutoTokenizer` load. The same seed gives the same bytes.

    Args:
        folder: made if it is not there; files in it are replaced.
        seed: which encoder, at least 0.
    """
    write_tiny_encoder(folder, seed)


def demo_folder(cache_folder: Path) -> tuple[Path, Path]:
    """The demonstration's corpus and encoder, seed 0, written once and reused.

    Args:
        cache_folder: where they are kept, under a name that follows from the sources that make them.

    Returns:
        Folder of the corpus and folder of the encoder, absolute.
    """
    folder = cache_folder.absolute() / f"demo-{sources_fingerprint()[:12]}"
    if not folder.exists():
        cache_folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache_folder, prefix=".demo-") as made:
            write_demo(Path(made) / "whole", seed=0)
            move_unless_there(Path(made) / "whole", folder)
    return folder / "data", folder / "encoder"


def write_demo(folder: Path, seed: int) -> None:
    write_corpus(folder / "data", seed)
    write_encoder(folder / "encoder", seed)


def move_unless_there(made: Path, folder: Path) -> None:
    """Renames a folder; another process that did the same a moment ago has won."""
    try:
        made.rename(folder)
    except OSError:
        if not folder.exists():
            raise


def sources_fingerprint() -> str:
    """SHA-256 of the files that make the demonstration, in hexadecimal."""
    sources = [Path(__file__), *(Path(str(m.__file__)) for m in (demo_words, demo_text, demo_weights, demo_encoder))]
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
