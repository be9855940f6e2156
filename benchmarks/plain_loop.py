"""The reference for results on real text: one loop that trains SST-5, QQP and STS-B in turn, without this project.

A person's first try: the state of [CLS], linear heads, the similarity divided by 5, AdamW, a linear warm-up and decay.

Command:  python benchmarks/plain_loop.py --data DIR --encoder DIR --steps 1200 --seeds 0 1 2 3 4
Cost:     with MiniLM about 1 s a step on one CPU core, with `--precision bf16` about .6 s
Prints:   per seed the scores on dev, and their mean with (r + 1) / 2 in place of STS's r

Add `--hold-out SWEEP/hold_out.json` to leave out the train rows that a sweep holds out, and to score them too, and
`--output DIR` to keep scores and predictions for benchmarks/against_plain_loop.py.
"""

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoModel, AutoTokenizer, get_linear_schedule_with_warmup

COLUMNS = {
    "sst": ["sentence", "sentiment"],
    "qqp": ["sentence1", "sentence2", "is_duplicate"],
    "sts": ["sentence1", "sentence2", "similarity"],
}
FILES = {"sst": "ids-sst-{}.csv", "qqp": "quora-{}.csv", "sts": "sts-{}.csv"}
NUM_OUTPUTS = {"sst": 5, "qqp": 1, "sts": 1}
LARGEST_SIMILARITY = 5.0
BATCH_SIZE, SCORED_AT_A_TIME, MAX_LENGTH = 16, 64, 128
LEARNING_RATE, DROPOUT, WARMUP_SHARE = 5e-5, 0.1, 0.1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the course's files")
    parser.add_argument("--encoder", default="bert-base-uncased", help="name or folder of a BERT")
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32", help="of the encoder, as in a sweep")
    parser.add_argument("--hold-out", type=Path, help="hold_out.json of a sweep: rows to leave out and score")
    parser.add_argument("--output", type=Path, help="folder: scores.csv and predictions.csv get the new rows")
    options = parser.parse_args()
    print("steps  seed  rows       SST    QQP    STS  overall")
    for seed in options.seeds:
        scores, predictions = run(options, seed)
        for row in scores:
            values = "  ".join(f"{row[name]:.3f}" for name in (*FILES, "overall"))
            print(f"{row['steps']:5}  {seed:4}  {row['rows']:8}  {values}  ({row['seconds']:.0f} s)", flush=True)
        if options.output:
            add_to(options.output / "scores.csv", pd.DataFrame(scores))
            add_to(options.output / "predictions.csv", predictions)


class Model(nn.Module):
    """An encoder with a linear head for each task."""

    def __init__(self, name: str, precision: str) -> None:
        super().__init__()
        self.is_bf16 = precision == "bf16"
        self.tokenizer, self.encoder = AutoTokenizer.from_pretrained(name), AutoModel.from_pretrained(name)
        width = self.encoder.config.hidden_size
        self.heads = nn.ModuleDict({task: nn.Linear(width, count) for task, count in NUM_OUTPUTS.items()})

    def forward(self, task: str, rows: pd.DataFrame) -> Tensor:
        """(rows, outputs) from the last hidden state of [CLS]."""
        texts = [rows[column].tolist() for column in COLUMNS[task][:-1]]
        inputs = self.tokenizer(*texts, padding=True, truncation=True, max_length=MAX_LENGTH, return_tensors="pt")
        with torch.autocast("cpu", torch.bfloat16, enabled=self.is_bf16):
            first = self.encoder(**inputs).last_hidden_state[:, 0].float()
        outputs: Tensor = self.heads[task](functional.dropout(first, DROPOUT, self.training))
        return outputs


def add_to(path: Path, rows: pd.DataFrame) -> None:
    """Adds rows to a CSV file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows.to_csv(path, mode="a", header=not path.exists(), index=False)


def run(options: argparse.Namespace, seed: int) -> tuple[list[dict[str, Any]], pd.DataFrame]:
    """Trains with a seed; returns scores and predictions on dev and, if there are any, on rows held out."""
    torch.manual_seed(seed)
    train, dev = ({task: read(options.data, task, split) for task in FILES} for split in ("train", "dev"))
    scored = {"dev": dev}
    if options.hold_out:
        withheld = json.loads(options.hold_out.read_text())["tasks"]
        scored["held out"] = {task: rows[rows["id"].isin(withheld[task]["ids"])] for task, rows in train.items()}
        train = {task: without(rows, scored["held out"][task], COLUMNS[task][:-1]) for task, rows in train.items()}
    model = Model(options.encoder, options.precision)
    started = time.perf_counter()
    fit(model, train, options.steps)
    seconds = time.perf_counter() - started
    scores, predictions = [], []
    for name, tables in scored.items():
        which = {"steps": options.steps, "seed": seed, "rows": name}
        found = {task: predict(model, task, rows) for task, rows in tables.items()}
        scores.append({**which, "seconds": seconds, **score_all(found)})
        predictions += [rows.assign(**which, task=task) for task, rows in found.items()]
    return scores, pd.concat(predictions)


def read(folder: Path, task: str, split: str) -> pd.DataFrame:
    """The complete rows of a file."""
    rows = pd.read_csv(folder / FILES[task].format(split), sep="\t", dtype={"id": str})
    return rows.dropna(subset=COLUMNS[task])


def without(rows: pd.DataFrame, withheld: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """The rows that share no text with those withheld, whatever its case and white space."""
    texts = rows[columns].apply(lambda column: column.str.lower().str.split().str.join(" "))
    known = set(texts.loc[withheld.index].to_numpy().flatten())
    is_free: pd.Series[bool] = ~texts.isin(known).any(axis=1)
    return rows[is_free]


def fit(model: Model, train: dict[str, pd.DataFrame], steps: int) -> None:
    """One batch of each task in turn; a task's rows are shuffled anew when all were seen."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, fused=True)
    schedule = get_linear_schedule_with_warmup(optimizer, int(WARMUP_SHARE * steps), steps)
    batches = {task: shuffled(rows) for task, rows in train.items()}
    model.train()
    for step in range(steps):
        task = list(train)[step % len(train)]
        rows = next(batches[task])
        outputs = model(task, rows)
        labels = torch.tensor(rows[COLUMNS[task][-1]].to_numpy(), dtype=torch.float32)
        if task == "sst":
            loss = functional.cross_entropy(outputs, labels.long())
        elif task == "qqp":
            loss = functional.binary_cross_entropy_with_logits(outputs[:, 0], labels)
        else:
            loss = functional.mse_loss(outputs[:, 0], labels / LARGEST_SIMILARITY)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()


def shuffled(rows: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Batches without end."""
    while True:
        order = torch.randperm(len(rows)).numpy()
        for start in range(0, len(order) - BATCH_SIZE + 1, BATCH_SIZE):
            yield rows.iloc[order[start : start + BATCH_SIZE]]


@torch.no_grad()
def predict(model: Model, task: str, rows: pd.DataFrame) -> pd.DataFrame:
    """The label and the prediction of each row, by id: a class, or the similarity on a scale of its own."""
    model.eval()
    rows = rows.sort_values(COLUMNS[task][0], key=lambda texts: texts.str.len())  # for little padding
    starts = range(0, len(rows), SCORED_AT_A_TIME)
    outputs = torch.cat([model(task, rows.iloc[start : start + SCORED_AT_A_TIME]) for start in starts])
    predicted = {"sst": outputs.argmax(dim=1), "qqp": (outputs[:, 0] > 0).long(), "sts": outputs[:, 0]}[task]
    return pd.DataFrame({"id": rows["id"], "label": rows[COLUMNS[task][-1]], "prediction": predicted.numpy()})


def score_all(predictions: dict[str, pd.DataFrame]) -> dict[str, float]:
    """Accuracy, accuracy, Pearson's r, and their mean with (r + 1) / 2 in place of r."""
    scores = {
        task: rows["label"].corr(rows["prediction"]) if task == "sts" else (rows["label"] == rows["prediction"]).mean()
        for task, rows in predictions.items()
    }
    return {**scores, "overall": (scores["sst"] + scores["qqp"] + (scores["sts"] + 1) / 2) / len(scores)}


if __name__ == "__main__":
    main()
