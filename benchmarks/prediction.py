"""The time of predicting a file, by this project, by a plain loop over `transformers`, and by ONNX Runtime.

Command:  pip install 'multitask-sweeps[onnx]', then
          python benchmarks/prediction.py --data DIR --encoder NAME [--precision bf16] [--rows 2000]
Cost:     about 5 minutes on one CPU core with a small encoder (6 layers, 384 wide)
Prints:   rows per second by each, the median over the rounds; for each but the plain loop the median of (seconds of the
          plain loop / its seconds), with the quartiles; the largest difference of its probabilities from those of the
          plain loop, and the share of rows with the same prediction

Paired: one process holds the same exported model, with new heads, for all of them. In a round each reads the file,
tokenizes, predicts and writes a CSV file; each round begins with another one. The plain loop sorts all rows by length
and takes batches of `--batch-size`; ONNX Runtime gets the same batches, with weights in fp32
or int8. Seconds are CPU time of one thread.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

if not __package__:  # started as a script: imports begin at the project's folder, not at this one
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import numpy as np
import onnxruntime
import pandas as pd
import torch
from safetensors.torch import load_file
from torch import nn
from transformers import AutoModel, AutoTokenizer

from benchmarks.two_checkouts import PRECISIONS, clock, quartiles
from mtlib.checkpoints.export import export_model, load_exported
from mtlib.checkpoints.initial_weights import TASKS_FILE
from mtlib.checkpoints.model_card import CardFacts
from mtlib.checkpoints.onnx_files import INT8_ENDING, write_onnx
from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from mtlib.model.encoder import load_encoder, quiet_transformers
from mtlib.model.multitask import MultiTaskModel
from mtlib.tasks import TASKS
from results.ensembles.ensemble import Ensemble
from results.inference.int8 import calibration_arrays
from results.inference.models import LoadedModel
from results.inference.predictor import Predictor
from results.inference.readers import open_input, read_texts
from results.predict import open_output, write_predictions

SST, MAX_LENGTH, PLAIN = TASKS["sst"], 64, "plain loop"
FACTS = CardFacts(title="", best="overall", epoch=1, steps=0, scores={}, data_fingerprint="", num_rows={}, versions={})
Logits = Callable[[dict[str, np.ndarray]], np.ndarray]
"""From the arrays of a batch, each (rows, tokens), to (rows, num_logits)."""
Contender = Callable[[Path, Path], None]
"""Predicts the rows of the first file, with tabs between cells, into the second."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder in the CS224N layout")
    parser.add_argument("--encoder", required=True, help="hub name or folder")
    parser.add_argument("--precision", choices=PRECISIONS, default="fp32", help="of all but ONNX Runtime")
    parser.add_argument("--rows", type=int, default=2000, help="the first ones of train (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=32, help="of the plain loop (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=7, help="at least 2 (default: %(default)s)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder, text = Path(name), Path(name, "text.csv")
        rows = pd.read_csv(options.data / SST.file_name("train"), sep="\t", dtype=str)
        rows.head(options.rows).to_csv(text, sep="\t", index=False)
        exported = export_new(options.encoder, options.precision, folder / "model")
        contenders = {
            PLAIN: build_loop(exported, options.batch_size, torch_logits(exported, options.precision)),
            "this project": own_contender(exported),
            **onnx_contenders(exported, options.batch_size, options.data),
        }
        seconds: dict[str, list[float]] = {one: [] for one in contenders}
        for number in range(options.rounds + 1):
            names = list(contenders)
            for one in names[number % len(names) :] + names[: number % len(names)]:
                started = clock(torch.device("cpu"))
                contenders[one](text, folder / f"{one}.csv")
                seconds[one].append(clock(torch.device("cpu")) - started)
        print(f"{options.rows} rows of {SST.title}, {options.precision}, {options.rounds} rounds, one thread")
        report({one: spent[1:] for one, spent in seconds.items()}, folder)  # the first round warms up


def export_new(encoder: str, precision: str, folder: Path) -> Path:
    """Exports an encoder with a new head; returns the folder."""
    config = TrialConfig(stages=(StageConfig(tasks=(SST.name,)),))
    config = config.override({"precision": precision, "encoder.max_length": MAX_LENGTH})
    pretrained = load_encoder(encoder)
    export_model(config, pretrained, MultiTaskModel(config, pretrained).state_dict(), folder, FACTS)
    return folder


def onnx_contenders(folder: Path, batch_size: int, data: Path) -> dict[str, Contender]:
    """The plain loop with ONNX Runtime in place of torch."""
    exported = load_exported(folder)
    write_onnx(exported, folder / "onnx", calibration_arrays(exported, data))
    files = {"fp32": folder / "onnx" / f"{SST.name}.onnx", "int8": folder / "onnx" / f"{SST.name}{INT8_ENDING}"}
    return {f"ONNX Runtime, {name}": build_loop(folder, batch_size, onnx_logits(files[name])) for name in files}


def own_contender(folder: Path) -> Contender:
    """This project, as its command predicts with one model."""
    found = load_exported(folder)
    model = LoadedModel(name="exported", model=found.model, config=found.config, pretrained=found.pretrained)
    predictor = Predictor(task=SST, models=(model,), ensemble=Ensemble(members=(0,), weights=(1.0,)))

    def predict(source: Path, target: Path) -> None:
        with open_input(str(source)) as stream, open_output(str(target)) as write:
            rows = read_texts(stream, source.name, "csv", SST.text_columns)
            write_predictions(predictor, rows, "csv", write, lambda _: None)

    return predict


def build_loop(folder: Path, batch_size: int, logits_of: Logits) -> Contender:
    """A plain loop over batches of similar length."""
    tokenizer = AutoTokenizer.from_pretrained(folder)

    def predict(source: Path, target: Path) -> None:
        rows = pd.read_csv(source, sep="\t", dtype=str)
        encoded = tokenizer(rows["sentence"].tolist(), truncation=True, max_length=MAX_LENGTH)
        order = np.argsort([len(ids) for ids in encoded["input_ids"]], kind="stable")
        logits = torch.empty(len(rows), SST.num_logits)
        for start in range(0, len(rows), batch_size):
            chosen = order[start : start + batch_size]
            batch = {name: [values[row] for row in chosen] for name, values in encoded.items()}
            logits[chosen] = torch.from_numpy(logits_of(dict(tokenizer.pad(batch, return_tensors="np"))))
        shares = logits.softmax(dim=1).numpy().round(6)
        columns = {f"probability_{label}": shares[:, label] for label in range(SST.num_classes)}
        outputs = {"id": rows["id"], "prediction": shares.argmax(axis=1), **columns}
        pd.DataFrame(outputs).to_csv(target, index=False)

    return predict


def torch_logits(folder: Path, precision: str) -> Logits:
    """Logits by the classes of `transformers` and a linear head on the state of [CLS]."""
    with quiet_transformers():  # it reports the pooler, which is not used
        encoder = AutoModel.from_pretrained(folder).eval()
    head, weights = nn.Linear(1, 1), load_file(folder / TASKS_FILE)
    head.weight, head.bias = (nn.Parameter(weights[f"heads.{SST.name}.{part}"]) for part in ("weight", "bias"))

    @torch.inference_mode()
    def logits_of(batch: dict[str, np.ndarray]) -> np.ndarray:
        inputs = {name: torch.from_numpy(values) for name, values in batch.items()}
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            first = encoder(**inputs).last_hidden_state[:, 0]
        return np.asarray(head(first.float()))

    return logits_of


def onnx_logits(path: Path) -> Logits:
    """Logits by ONNX Runtime on one thread."""
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    session: Any = onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
    names = [item.name for item in session.get_inputs()]
    return lambda batch: np.asarray(session.run(None, {name: batch[name] for name in names})[0])


def report(seconds: dict[str, list[float]], folder: Path) -> None:
    """Prints rates, ratios and how predictions differ."""
    found = {name: pd.read_csv(folder / f"{name}.csv") for name in seconds}
    shares = {name: table.filter(like="probability").to_numpy() for name, table in found.items()}
    plain = found[PLAIN]
    for name, spent in seconds.items():
        rate = f"{name:20} {len(plain) / statistics.median(spent):6.0f} rows/s"
        if name == PLAIN:
            print(rate)
            continue
        low, middle, high = quartiles([first / own for first, own in zip(seconds[PLAIN], spent, strict=True)])
        difference = np.abs(shares[name] - shares[PLAIN]).max()
        same = (found[name]["prediction"] == plain["prediction"]).mean()
        print(f"{rate}   {middle:.2f} times as fast   {low:.2f} to {high:.2f}   {difference:.5f}   {same:.1%}")


if __name__ == "__main__":
    main()
