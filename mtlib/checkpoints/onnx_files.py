"""An exported model as ONNX: a file for each task, from the tokens of rows to their logits.

The files run in ONNX Runtime, in a process without torch. Rows and tokens may be any number.
"""

import contextlib
import logging
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from mtlib.checkpoints.export import build_model, load_exported, written_aside
from mtlib.data.batches import Batch, Inputs
from mtlib.model.encoder import quiet_transformers
from mtlib.model.multitask import MultiTaskModel, pooled
from mtlib.model.repeated_words import table_of_texts, text_batch
from mtlib.runtime.errors import require

ONNX_PACKAGES = ("onnx", "onnxscript", "onnxruntime")
"""That the extra `onnx` installs."""
INPUT_NAMES = ("input_ids", "attention_mask", "token_type_ids")
"""Arrays of each input of a row, (rows, tokens) int64; a second and third input's names end in `_2` and `_3`."""
TRACED, CHECKED = (7, 12, 5), (9, 3)
"""Lengths of the texts with which a model is traced, and checked, in word pieces."""
LARGEST_DEVIATION = 1e-4
"""The largest difference of logits from torch's, relative to the largest logit where it is above 1."""
INT8_ENDING = ".int8.onnx"
"""Ends the names of files with integer weights."""


class TaskLogits(nn.Module):
    """A model's logits of one task, from plain arrays of tokens."""

    def __init__(self, model: MultiTaskModel, task: str) -> None:
        super().__init__()
        self.model, self.task = model, task

    def forward(self, *arrays: Tensor) -> Tensor:
        """Logits (rows, num_logits), of a regression in its labels' scale.

        Args:
            arrays: those of `INPUT_NAMES` for each input of a row, one input after the other.
        """
        vectors = []
        for at in range(0, len(arrays), len(INPUT_NAMES)):
            inputs = Inputs(**dict(zip(INPUT_NAMES, arrays[at : at + len(INPUT_NAMES)], strict=True)))
            hidden, _ = self.model.encode(self.task, inputs, None, False)
            pooling, is_read_last = self.model.pooling[self.task], self.model.is_read_last
            vectors.append(pooled(hidden, inputs.attention_mask, pooling, is_read_last))
        logits = self.model.logits_of(self.task, torch.stack(vectors, dim=1)).float()
        return self.model.from_unit(self.task, logits)


def write_onnx(folder: Path, *, int8: bool = False) -> dict[str, float]:
    """Writes `TASK.onnx` for each task of an exported model into the folder `onnx` below its folder.

    Args:
        folder: that `export_model` has written.
        int8: whether to write `TASK.int8.onnx` too, which is not compared: its logits are others (see `quantise`).

    Returns:
        By task the largest difference of logits in ONNX Runtime from those of torch.

    Raises:
        ValueError: in one line: packages are missing, the folder holds no exported model, or logits differ.
    """
    runtime = import_onnx_runtime()
    exported, target = load_exported(folder), folder / "onnx"
    # The layers of `transformers`: those of this project decide by the values of a mask what they compute.
    plain = exported.config.override({"encoder.attention": "eager", "encoder.gradient_checkpointing": False})
    model = build_model(plain, exported.pretrained, exported.model.state_dict(), f"weights in {folder} must fit")
    found = {}
    with written_aside(target, "the folder of ONNX files", f"{plain.active_tasks[0]}.onnx") as partial:
        for task in plain.active_tasks:
            table = table_of_texts(plain.task(task), exported.pretrained, (*TRACED, *CHECKED))
            traced = text_batch(table, plain, range(len(TRACED)), plain.encoder.max_length)
            checked = text_batch(table, plain, [len(TRACED), len(TRACED) + 1], plain.encoder.max_length)
            logits, path = TaskLogits(model, task), partial / f"{task}.onnx"
            save_onnx(logits, arrays_of(traced), path)
            session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
            found[task] = deviation(logits, session, arrays_of(checked))
            rule = f"logits of {task} in ONNX Runtime must be those of torch to {LARGEST_DEVIATION:g}"
            require(found[task] <= LARGEST_DEVIATION, rule, f"a difference of {found[task]:.1g}")
            if int8:
                quantise(path, partial / f"{task}{INT8_ENDING}")
    return found


def import_onnx_runtime() -> Any:
    """Returns the package `onnxruntime`; ValueError if it, or what writes ONNX, is not installed."""
    try:
        import onnx  # noqa: F401
        import onnxruntime
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise ValueError(f"--onnx needs {', '.join(ONNX_PACKAGES)}: pip install 'multitask-sweeps[onnx]'") from error
    return onnxruntime


def arrays_of(batch: Batch) -> tuple[Tensor, ...]:
    """Returns the arrays of all inputs of a batch, in the order of `INPUT_NAMES`."""
    return tuple(getattr(inputs, name) for inputs in batch.inputs for name in INPUT_NAMES)


def input_names(num_inputs: int) -> list[str]:
    """Returns the names of all arrays of rows with so many inputs."""
    endings = ["", *(f"_{number}" for number in range(2, num_inputs + 1))]
    return [f"{name}{ending}" for ending in endings for name in INPUT_NAMES]


def save_onnx(logits: TaskLogits, arrays: Sequence[Tensor], path: Path) -> None:
    """Traces a task with some rows, and writes its file."""
    from onnx_ir.passes.common import ClearMetadataAndDocStringPass

    num_inputs = len(arrays) // len(INPUT_NAMES)
    rows = torch.export.Dim("rows")
    lengths = [torch.export.Dim(f"tokens_{number}") for number in range(1, num_inputs + 1)]
    shapes = tuple({0: rows, 1: length} for length in lengths for _ in INPUT_NAMES)
    with silent_tracing(), quiet_transformers():
        program = torch.onnx.export(
            logits.eval(),
            tuple(arrays),
            dynamic_shapes=(shapes,),
            input_names=input_names(num_inputs),
            output_names=["logits"],
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    ClearMetadataAndDocStringPass()(program.model)  # traces of the calls, with paths of this machine
    program.save(str(path))


def quantise(path: Path, target: Path) -> None:
    """Writes a file's model with weights of 8 bits, scaled for each output channel; inputs are quantised as they come.

    Source: dynamic quantisation of ONNX Runtime, `onnxruntime.quantization.quantize_dynamic`.
    """
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.shape_inference import quant_pre_process

    folded = target.with_suffix(".folded")
    with silent_tracing():
        # Weights that several passes share are transposed in the file, where they would stay as they are.
        quant_pre_process(path, folded, skip_symbolic_shape=True)
        quantize_dynamic(folded, target, weight_type=QuantType.QInt8, per_channel=True)
    folded.unlink()


def deviation(logits: TaskLogits, session: Any, arrays: Sequence[Tensor]) -> float:
    """Returns the largest difference of a file's logits from a model's, relative to the largest one above 1."""
    with torch.no_grad():
        wanted = logits(*arrays)
    return float((run_session(session, arrays) - wanted).abs().max() / wanted.abs().max().clamp(min=1.0))


def run_session(session: Any, arrays: Sequence[Tensor]) -> Tensor:
    """Returns the logits of a file, (rows, num_logits), opened as an `InferenceSession`;
    `arrays` as `arrays_of` gives them."""
    names = [item.name for item in session.get_inputs()]  # without those that the encoder does not use
    given = dict(zip(input_names(len(arrays) // len(INPUT_NAMES)), arrays, strict=True))
    (found,) = session.run(None, {name: given[name].numpy() for name in names})
    return torch.from_numpy(found)


@contextlib.contextmanager
def silent_tracing() -> Iterator[None]:
    """Keeps advice of torch's exporter and of the quantisation from standard error."""
    logs = [logging.getLogger(name) for name in ("torch.onnx", None)]
    levels = [log.level for log in logs]
    for log in logs:
        log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for log, level in zip(logs, levels, strict=True):
            log.setLevel(level)
