"""What a task's score on dev loses when its ONNX file has integers of 8 bits, and the rows that scale them."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mtlib.data.load import find_row_sources, read_all
from mtlib.data.row_sources import pick_rows
from mtlib.data.tables import Table
from mtlib.data.token_cache import TokenTable
from mtlib.runtime.command_line import counted
from results.ensembles.outputs import outputs_of, values_of
from results.inference.predictor import tokenize_rows
from results.stats.groups import score_interval, text_groups_of
from results.stats.resampling import Floats, score_examples

MOST_SCORED_ROWS = 4000
"""Most dev rows that both files predict; of more a fixed random sample."""
NUM_CALIBRATED_ROWS = 64
"""Train rows by which activations are scaled: a fixed random sample."""

if TYPE_CHECKING:  # `results` must load without torch
    from mtlib.checkpoints.export import ExportedModel
    from mtlib.checkpoints.onnx_files import Arrays


def sample_rows(table: Table, most: int) -> Table:
    """Returns a table's rows: all, or a random sample that is the same each time."""
    if len(table.ids) <= most:
        return table
    return pick_rows(table, np.sort(np.random.default_rng(0).permutation(len(table.ids))[:most]))


def calibration_arrays(exported: "ExportedModel", data: Path) -> "Mapping[str, list[Arrays]]":
    """Returns the arrays of some of each task's own train rows, each row alone, for `write_onnx`.

    ValueError if files of the data folder are missing, or one cannot be used.
    """
    from mtlib.checkpoints.onnx_files import arrays_of
    from mtlib.model.repeated_words import text_batch

    config, found = exported.config, {}
    sources = find_row_sources(config, data)
    own = {(task, "train"): sources[task, "train"][:1] for task in config.active_tasks}
    for (task, _), table in read_all(own, data).items():
        tokens = tokens_of(exported, sample_rows(table, NUM_CALIBRATED_ROWS))
        rows = [text_batch(tokens, config, [row], config.encoder.max_length) for row in range(tokens.num_rows)]
        found[task] = list(map(arrays_of, rows))
    return found


def tokens_of(exported: "ExportedModel", table: Table) -> TokenTable:
    """Returns the tokens of a table's rows as a model reads them."""
    task, texts = exported.config.task(table.task), list(zip(*table.texts, strict=True))
    prefix = exported.config.tasks[task.name].prefix
    return tokenize_rows(task, texts, exported.pretrained, prefix)


def int8_sentence(exported: "ExportedModel", folder: Path, table: Table) -> str:
    """States the dev score of a task's file with integers, and its difference from the file with 32 bits.

    The interval of the difference, of 95 %, is over examples: both files predict the same ones.

    Args:
        exported: the model, loaded.
        folder: its ONNX files.
        table: the task's dev rows, not too many.
    """
    from mtlib.checkpoints.onnx_files import INT8_ENDING

    definition, labels = exported.config.task(table.task), table.labels.astype(np.float64)
    paths = [folder / f"{table.task}{ending}" for ending in (INT8_ENDING, ".onnx")]
    outputs = np.stack([outputs_of(definition, file_logits(path, exported, table)) for path in paths])
    values = values_of(definition, outputs, labels)
    own, exact = score_examples(definition, values, labels)
    value, change = map(definition.value_of, (own, own - exact))
    bounds = definition.bounds_text(score_interval(definition, values, labels, text_groups_of(table)))
    rows = counted(len(table.ids), "dev row")
    return f"{definition.metric} on {rows} {value:.3f}, {change:+.3f} ({bounds}) from 32 bits"


def file_logits(path: Path, exported: "ExportedModel", table: Table) -> Floats:
    """Returns the logits that an ONNX file gives for every row of a table, (rows, num_logits)."""
    from mtlib.checkpoints.onnx_files import arrays_of, import_onnx_runtime, run_session
    from mtlib.training.evaluation import evaluate_rows

    session = import_onnx_runtime().InferenceSession(str(path), providers=["CPUExecutionProvider"])
    tokens, device = tokens_of(exported, table), next(exported.model.parameters()).device
    rows = np.arange(tokens.num_rows)
    return evaluate_rows(
        exported.model, exported.config, tokens, rows, device, lambda _, batch: run_session(session, arrays_of(batch))
    )
