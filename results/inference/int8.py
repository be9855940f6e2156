"""What a task's score on dev loses when the weights of its ONNX file are integers of 8 bits."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mtlib.data.row_sources import pick_rows
from mtlib.data.tables import Table
from mtlib.runtime.command_line import counted
from results.ensembles.outputs import outputs_of, values_of
from results.inference.predictor import PREDICTED_SPLIT, tokenize_rows
from results.stats.groups import text_groups_of
from results.stats.resampling import Floats, bootstrap_scores, percentile_interval, score_examples

MOST_SCORED_ROWS = 4000
"""Most dev rows that both files predict; of more a fixed random sample."""

if TYPE_CHECKING:  # `results` must load without torch
    from mtlib.checkpoints.export import ExportedModel


def scored_rows(table: Table) -> Table:
    """Returns the dev rows that are predicted: all, or a random sample that is the same each time."""
    if len(table.ids) <= MOST_SCORED_ROWS:
        return table
    return pick_rows(table, np.sort(np.random.default_rng(0).permutation(len(table.ids))[:MOST_SCORED_ROWS]))


def int8_sentence(exported: "ExportedModel", folder: Path, table: Table) -> str:
    """States the dev score of a task's file with integer weights, and its difference from the file with 32 bits.

    The interval of the difference, of 95 %, is over examples: both files predict the same ones.

    Args:
        exported: the model, loaded.
        folder: its ONNX files.
        table: the task's dev rows, as `scored_rows` returns them.
    """
    from mtlib.checkpoints.onnx_files import INT8_ENDING

    definition, labels = exported.config.task(table.task), table.labels.astype(np.float64)
    paths = [folder / f"{table.task}{ending}" for ending in (INT8_ENDING, ".onnx")]
    outputs = np.stack([outputs_of(definition, file_logits(path, exported, table)) for path in paths])
    values = values_of(definition, outputs, labels)
    own, exact = score_examples(definition, values, labels)
    resampled = bootstrap_scores(definition, values, labels, groups=text_groups_of(table))
    low, high = percentile_interval(resampled[0] - resampled[1])
    rows = counted(len(table.ids), "dev row")
    return f"{definition.metric} on {rows} {own:.3f}, {own - exact:+.3f} ({low:.3f} to {high:.3f}) from 32 bits"


def file_logits(path: Path, exported: "ExportedModel", table: Table) -> Floats:
    """Returns the logits that an ONNX file gives for every row of a table, (rows, num_logits)."""
    from mtlib.checkpoints.onnx_files import arrays_of, import_onnx_runtime, run_session
    from mtlib.training.evaluation import evaluate_rows

    session = import_onnx_runtime().InferenceSession(str(path), providers=["CPUExecutionProvider"])
    config, texts = exported.config, list(zip(*table.texts, strict=True))
    task = config.task(table.task)
    tokens = tokenize_rows(task, texts, exported.pretrained, config.tasks[task.name].prefix)[task.name, PREDICTED_SPLIT]
    rows, device = np.arange(len(texts)), next(exported.model.parameters()).device
    return evaluate_rows(
        exported.model, config, tokens, rows, device, lambda _, batch: run_session(session, arrays_of(batch))
    )
