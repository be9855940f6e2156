"""Reading and tokenising 10,000 to 400,000 pairs, and the memory of the processes that train on them.

Command:  python benchmarks/large_data.py [--pairs 10000 100000 400000] [--encoder NAME]
Cost:     about 4 minutes on one CPU core
Prints:   for each number of pairs the size of their file and of the cache; processor seconds in which a first process
          reads, checks and tokenises the pairs, and in which a second one finds the tokens in the cache; the most
          memory of both meanwhile; and what the pairs add to the memory of each, by itself and shared with the other

Pairs are the demonstration's questions, each with a number of its own. The encoder decides the tokenizer; by default
it is the demonstration's.
"""

import argparse
import csv
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any

if not __package__:  # started as a script: imports begin at the project's folder, not at this one
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.start_up import peak_bytes
from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from mtlib.data.load import read_data
from mtlib.data.token_cache import tokenize
from mtlib.demo.corpus import demo_folder
from mtlib.model.encoder import load_encoder
from mtlib.tasks import TASKS

DEV_PAIRS = 2_000
COLUMNS = ("pairs", "file MB", "cache MB", "first s", "second s", "first MB", "second MB", "own MB", "shared MB")


def main() -> None:
    """Measures each number of pairs and prints a row for it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, nargs="+", default=[10_000, 100_000, 400_000])
    parser.add_argument("--encoder", help="hub name or folder, whose tokenizer is used")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.encoder)
        return
    print("".join(f"{name:>11}" for name in COLUMNS), flush=True)
    for pairs in options.pairs:
        with tempfile.TemporaryDirectory(prefix="large-data-") as name:
            folder = Path(name)
            encoder = options.encoder or str(demo_folder(folder / "demo")[1])
            write_pairs(folder, "train", pairs)
            write_pairs(folder, "dev", DEV_PAIRS)
            show(pairs, folder, encoder)


def write_pairs(folder: Path, split: str, count: int) -> None:
    """Writes a file of QQP in the course's layout."""
    task, random = TASKS["qqp"], Random(split)
    words = [f"word{number}" for number in range(2000)]
    with (folder / task.file_name(split)).open("w", newline="") as file:
        rows = csv.writer(file, delimiter="\t")
        rows.writerow(["", "id", *task.text_columns, task.label_column])
        for number in range(count):
            first, second = (" ".join(random.choices(words, k=12)) for _ in range(2))
            rows.writerow([number, f"{split}{number:024d}", f"{first} {number}", f"{second} {number}", number % 2])


def show(pairs: int, folder: Path, encoder: str) -> None:
    """Prints a row."""
    with ExitStack() as stack:
        first, second = (stack.enter_context(loading(folder, encoder)) for _ in range(2))
        file_bytes = sum(path.stat().st_size for path in folder.glob("*.csv"))
        cache_bytes = sum(path.stat().st_size for path in (folder / "cache").rglob("*") if path.is_file())
        (own, shared), taken = memory_of(second["pid"]), (first, second)
        megabytes = [file_bytes, cache_bytes], [one["peak"] for one in taken], [own - second["own_before"], shared]
        sizes, peaks, added = ([f"{count / 1e6:.0f}" for count in counts] for counts in megabytes)
        cells = [f"{pairs:,}", *sizes, *(f"{one['seconds']:.1f}" for one in taken), *peaks, *added]
        print("".join(f"{cell:>11}" for cell in cells), flush=True)


@contextmanager
def loading(folder: Path, encoder: str) -> Iterator[dict[str, Any]]:
    """A process that has loaded the data, and stays until the end; yields what it says of that."""
    command = [sys.executable, __file__, "--serve", str(folder), "--encoder", encoder]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        answer = process.stdout.readline()
        if not answer:
            sys.exit("a process of the benchmark has ended; its error is above")
        yield {**json.loads(answer), "pid": process.pid}
        process.terminate()


def serve(folder: Path, encoder_name: str) -> None:
    """Loads encoder and data as a driver does, says in which time and memory, and waits."""
    config = TrialConfig(stages=(StageConfig(tasks=("qqp",)),)).override({"encoder.name": encoder_name})
    encoder = load_encoder(encoder_name)
    own_before, _ = memory_of("self")
    began = time.process_time()
    corpus = tokenize(read_data(config, folder), encoder.tokenizer, folder / "cache")
    seconds = time.process_time() - began
    assert all(int(pieces.sum()) > 0 for table in corpus.values() for pieces in table.pieces)  # every page is read
    print(json.dumps({"seconds": seconds, "peak": peak_bytes("self"), "own_before": own_before}), flush=True)
    sys.stdin.readline()


def memory_of(pid: int | str) -> tuple[int, int]:
    """Bytes of memory that a process has by itself, and of the token cache that it shares with others."""
    rolled = Path("/proc", str(pid), "smaps_rollup").read_text()
    own = sum(int(size) for size in re.findall(r"^Private_\w+:\s*(\d+) kB", rolled, re.MULTILINE))
    mapped = Path("/proc", str(pid), "smaps").read_text().split("VmFlags")
    cached = [part for part in mapped if "tokens.arrow" in part]
    shared = sum(int(size) for part in cached for size in re.findall(r"^Shared_\w+:\s*(\d+) kB", part, re.MULTILINE))
    return 1024 * own, 1024 * shared


if __name__ == "__main__":
    main()
