"""Reading and tokenising 10,000 to 400,000 pairs: this checkout, another one, the bare tokenizer and `datasets`.

Command:  python benchmarks/large_data.py [--pairs 10000 100000 400000] [--encoder NAME] [--questions FILE]
          [--against DIR] [--rounds 3]
          (git worktree add DIR COMMIT makes such a checkout)
Cost:     half a minute a round for 100,000 pairs on 2 CPU cores, two minutes for 400,000
Prints:   for each number of pairs, as medians over the rounds: wall and processor seconds and the most memory of a
          process that reads, checks and tokenises the pairs, and their ratios to this checkout's; then of one that
          finds the tokens in the cache, and what the pairs add to its memory, by itself and shared with others

The contenders take turns, each in a new process; which of them is first changes with every round. `bare` is the
library's `encode_batch_fast` in a loop over texts that are in memory; `datasets` is `load_dataset` of the same file and
a batched `map` of two processes with the same tokenizer. Where another checkout finds other tokens the command ends.

Texts are the questions of a file in the course's layout, by default the demonstration's, each with a number of its own:
no text is there twice. The encoder decides the tokenizer; by default it is the demonstration's.
"""

import argparse
import csv
import hashlib
import itertools
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

if not __package__:  # started as a script: imports begin at a checkout's folder, not at this one
    sys.path[0] = os.environ.get("CHECKOUT") or str(Path(__file__).resolve().parent.parent)

DEV_PAIRS = 2_000
CHUNK = 10_000
"""Texts of one call of the bare tokenizer, and of one batch of `map`."""
COLUMNS = ("id", "sentence1", "sentence2", "is_duplicate")


def main() -> None:
    """Measures each number of pairs and prints a table for it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, nargs="+", default=[10_000, 100_000, 400_000])
    parser.add_argument("--encoder", help="hub name or folder, whose tokenizer is used")
    parser.add_argument("--questions", type=Path, help="file with the columns sentence1 and sentence2")
    parser.add_argument("--against", type=Path, metavar="DIR", help="another checkout")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        contender, folder = options.serve
        {"bare": serve_bare, "datasets": serve_datasets}.get(contender, serve)(Path(folder), options.encoder)
        return
    from mtlib.demo.corpus import demo_folder

    for pairs in options.pairs:
        with tempfile.TemporaryDirectory(prefix="large-data-") as name:
            folder = Path(name)
            corpus, tiny = demo_folder(folder / "demo")
            questions = options.questions or corpus / "quora-train.csv"
            write_pairs(questions, folder, "train", pairs)
            write_pairs(questions, folder, "dev", DEV_PAIRS)
            measure(pairs, folder, options.encoder or str(tiny), options.against, options.rounds)


def write_pairs(questions: Path, folder: Path, split: str, count: int) -> None:
    """Writes a file of QQP in the course's layout."""
    with questions.open(newline="", encoding="utf-8") as file:
        found = [(row["sentence1"], row["sentence2"]) for row in csv.DictReader(file, delimiter="\t")]
    pairs = itertools.cycle([pair for pair in found if all(pair)])
    with (folder / f"quora-{split}.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, delimiter="\t")
        rows.writerow(["", *COLUMNS])
        for number, (first, second) in enumerate(itertools.islice(pairs, count)):
            texts = (f"{first} {split} {number}", f"{second} {split} {number}")
            rows.writerow([number, f"{split}{number:024d}", *texts, number % 2])


def measure(pairs: int, folder: Path, encoder: str, against: Path | None, rounds: int) -> None:
    """Lets the contenders take turns and prints their medians."""
    contenders = {"this": None, **({"other": against} if against else {}), "bare": None, "datasets": None}
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in contenders}
    for number in range(rounds):
        names = list(contenders)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            with loading(name, folder / f"{name}-{number}", folder, encoder, contenders[name]) as answer:
                found[name].append(answer)
    digests = {answer["digest"] for name in ("this", "other") for answer in found.get(name, ())}
    if len(digests) > 1:
        sys.exit("the checkouts find different tokens")
    file_bytes = sum(path.stat().st_size for path in folder.glob("*.csv"))
    print(f"\n{pairs:,} pairs, {file_bytes / 1e6:.0f} MB, medians of {rounds} rounds (ratio to this checkout's)")
    print(f"{'':10}{'wall s':>18}{'processor s':>18}{'most MB':>10}")
    for name, taken in found.items():
        cells = [f"{name:10}"]
        for key in ("wall", "processor"):
            values = [one[key] for one in taken]
            ratios = [one[key] / own[key] for one, own in zip(taken, found["this"], strict=True)]
            cells.append(f"{f'{statistics.median(values):.1f} ({statistics.median(ratios):.2f})':>18}")
        cells.append(f"{statistics.median(one['peak'] for one in taken) / 1e6:>10.0f}")
        print("".join(cells), flush=True)
    cache = folder / f"this-{rounds - 1}"
    with (
        loading("this", cache, folder, encoder, None),
        loading("this", cache, folder, encoder, None) as second,
    ):
        (own, shared), before = memory_of(second["pid"]), second["own_before"]
        seconds = f"{second['wall']:.1f} s wall, {second['processor']:.1f} s processor time"
        print(
            f"from the cache: {seconds}; memory {(own - before) / 1e6:.0f} MB by itself, {shared / 1e6:.0f} MB shared"
        )


@contextmanager
def loading(name: str, cache: Path, folder: Path, encoder: str, checkout: Path | None) -> Iterator[dict[str, Any]]:
    """A process that has loaded the data, and stays until the end; yields what it says of that."""
    command = [sys.executable, __file__, "--serve", name, str(folder), "--encoder", encoder]
    variables = {**os.environ, "CACHE": str(cache), "HF_HOME": str(cache), "CHECKOUT": str(checkout or "")}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=checkout, env=variables
    ) as process:
        assert process.stdout is not None
        answer = process.stdout.readline()
        if not answer:
            sys.exit(f"the process of {name} has ended; its error is above")
        yield {**json.loads(answer), "pid": process.pid}
        process.terminate()


def say(wall: float, processor: float, digest: str = "", own_before: int = 0) -> None:
    """Prints what this process took, and waits."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    peak = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss + children.ru_maxrss)
    print(
        json.dumps(
            {
                "wall": time.perf_counter() - wall,
                "processor": time.process_time() + children.ru_utime + children.ru_stime - processor,
                "peak": peak,
                "digest": digest,
                "own_before": own_before,
            }
        ),
        flush=True,
    )
    sys.stdin.readline()


def serve(folder: Path, encoder_name: str) -> None:
    """Loads encoder and data as a driver does."""
    from mtlib.config.training import StageConfig
    from mtlib.config.trial import TrialConfig
    from mtlib.data.load import read_data
    from mtlib.data.token_cache import tokenize
    from mtlib.model.encoder import load_encoder

    config = TrialConfig(stages=(StageConfig(tasks=("qqp",)),)).override({"encoder.name": encoder_name})
    encoder = load_encoder(encoder_name)
    own_before, _ = memory_of("self")
    began = time.perf_counter(), time.process_time()
    corpus = tokenize(read_data(config, folder), encoder.tokenizer, Path(os.environ["CACHE"]))
    parts = [array.tobytes() for table in corpus.values() for array in (*table.pieces, *table.offsets)]  # every page
    say(*began, hashlib.sha256(b"".join(parts)).hexdigest(), own_before)


def serve_bare(folder: Path, encoder_name: str) -> None:
    """Tokenises the texts in a bare loop."""
    from transformers import AutoTokenizer

    backend = AutoTokenizer.from_pretrained(encoder_name).backend_tokenizer
    texts = []
    for path in sorted(folder.glob("*.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file, delimiter="\t"))
        texts += [row[column] for column in ("sentence1", "sentence2") for row in rows]
    began = time.perf_counter(), time.process_time()
    for start in range(0, len(texts), CHUNK):
        backend.encode_batch_fast(texts[start : start + CHUNK], add_special_tokens=False)
    say(*began)


def serve_datasets(folder: Path, encoder_name: str) -> None:
    """Loads and tokenises the files with the library `datasets`, in two processes."""
    import datasets
    from transformers import AutoTokenizer

    datasets.disable_progress_bars()
    tokenizer = AutoTokenizer.from_pretrained(encoder_name)
    began = time.perf_counter(), time.process_time()
    files = {path.stem.replace("-", "_"): str(path) for path in folder.glob("*.csv")}
    names = {"delimiter": "\t", "column_names": ["", *COLUMNS], "skiprows": 1}
    data = datasets.load_dataset("csv", data_files=files, **names)
    for column in ("sentence1", "sentence2"):
        data = data.map(
            lambda rows, column=column: {
                f"{column}_pieces": tokenizer(rows[column], add_special_tokens=False)["input_ids"]
            },
            batched=True,
            batch_size=CHUNK,
            num_proc=2,
        )
    say(*began)


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
