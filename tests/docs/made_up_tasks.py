"""The tables of docs/tasks.md: reviews of three tones, and answers with a grade from 0 to 100."""

import json
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

from mtlib.demo.texts import write_headlines, write_review

TONES = ("negative", "negative", "neutral", "positive", "positive")
NUM_TONE_ROWS, NUM_GRADES = 600, {"train": 500, "dev": 120}


def write_tables(folder: Path) -> None:
    """Writes the files that the page's `tasks.toml` names; a tiny encoder can learn from them."""
    random = Random(1)
    reviews = [write_review(random) for _ in range(NUM_TONE_ROWS)]
    lines = [json.dumps({"text": text, "tone": TONES[int(value)]}) for (text,), value in reviews]
    (folder / "tone-2024.jsonl").write_text("\n".join(lines[: NUM_TONE_ROWS // 2]) + "\n")
    (folder / "tone-2025.jsonl").write_text("\n".join(lines[NUM_TONE_ROWS // 2 :]) + "\n")
    for split, count in NUM_GRADES.items():
        pairs = [write_headlines(random) for _ in range(count)]
        rows = [
            {"id": f"{split}-{row}", "answer": first, "solution": second, "grade": 20 * score}
            for row, ((first, second), score) in enumerate(pairs)
        ]
        pq.write_table(pa.Table.from_pylist(rows), folder / f"grades-{split}.parquet")
