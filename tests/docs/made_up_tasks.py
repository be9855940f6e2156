"""The tables of docs/tasks.md: reviews of three tones, and answers with a grade from 0 to 100."""

import json
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from mtlib.demo.corpus import write_demo

TONES = ("negative", "negative", "neutral", "positive", "positive")
NUM_TONE_ROWS, NUM_GRADES = 600, {"train": 500, "dev": 120}


def write_tables(folder: Path) -> None:
    """Writes the files that the page's `tasks.toml` names; a tiny encoder can learn from them."""
    write_demo(folder / "demo")
    reviews, headlines = (
        pd.read_csv(folder / "demo/data" / f"{name}-train.csv", sep="\t") for name in ("ids-sst", "sts")
    )
    pairs = zip(reviews["sentence"][:NUM_TONE_ROWS], reviews["sentiment"], strict=False)
    lines = [json.dumps({"text": text, "tone": TONES[value]}) for text, value in pairs]
    (folder / "tone-2024.jsonl").write_text("\n".join(lines[: NUM_TONE_ROWS // 2]) + "\n")
    (folder / "tone-2025.jsonl").write_text("\n".join(lines[NUM_TONE_ROWS // 2 :]) + "\n")
    rest = iter(headlines[["sentence1", "sentence2", "similarity"]].to_numpy().tolist())
    for split, count in NUM_GRADES.items():
        rows = [
            {"id": f"{split}-{row}", "answer": first, "solution": second, "grade": 20 * similarity}
            for row, (first, second, similarity) in zip(range(count), rest, strict=False)
        ]
        pq.write_table(pa.Table.from_pylist(rows), folder / f"grades-{split}.parquet")
