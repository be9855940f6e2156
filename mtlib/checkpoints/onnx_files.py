"""An exported model as ONNX: a file for each task, from the tokens of rows to their logits.

The files run in ONNX Runtime, in a process without torch. Rows and tokens may be any number.
"""

import contextlib
import io
import json
import logging
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from mtlib.checkpoints.export import ExportedModel, build_model
from mtlib.config.trial import TrialConfig
from mtlib.data.batches import Batch, Inputs
from mtlib.data.token_cache import SIDES
from mtlib.model.encoder import quiet_transformers
from mtlib.model.multitask import MultiTaskModel
from mtlib.model.repeated_words import table_of_texts, text_batch
from mtlib.runtime.errors import reason_of, require

ONNX_PACKAGES = ("onnx", "onnxscript", "onnxruntime")
"""That the extra `onnx` installs."""
INPUT_NAMES = ("input_ids", "attention_mask", "token_type_ids")
"""Arrays of each input of a row, (rows, tokens) int64; of several inputs the names end in one of `SUFFIXES`."""
SUFFIXES = {1: ("",), 2: ("_first", "_second"), 3: ("_pair", "_first", "_second")}
"""By the number of inputs of a row, as `SIDES` orders them: both texts together, and each alone."""
TRACED, CHECKED = (7, 12, 5), (9, 3)
"""Lengths of the texts with which a model is traced, and checked, in word pieces."""
LARGEST_DEVIATION = 1e-4
"""The largest difference of logits from torch's, relative to the largest logit where it is above 1."""
INT8_ENDING = ".int8.onnx"
"""Ends the names of files with integer weights."""
PRODUCTS = ("MatMul", "Gemm")
"""ONNX's operators of matrix products."""

Arrays = dict[str, Tensor]
"""Arrays of some rows by the names of inputs."""


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
        texts = [
            Inputs(**dict(zip(INPUT_NAMES, arrays[at : at + len(INPUT_NAMES)], strict=True)))
            for at in range(0, len(arrays), len(INPUT_NAMES))
        ]
        vectors, _ = self.model.encode_texts(self.task, texts)
        logits = self.model.logits_of(self.task, vectors).float()
        return self.model.from_unit(self.task, logits)


def write_onnx(
    exported: ExportedModel, folder: Path, texts: Mapping[str, Iterable[Arrays]] | None = None
) -> dict[str, float]:
    """Writes `TASK.onnx` and `TASK.json` (see `describe_task`) for each task of a model into a folder.

    Args:
        exported: the model.
        folder: is made if it is missing.
        texts: by task, typical rows, by which `TASK.int8.onnx` is written too (see `quantise`). It is not compared: its
            logits are others. None: it is not written.

    Returns:
        By task the largest difference of logits in ONNX Runtime from those of torch.

    Raises:
        ValueError: in one line: packages are missing, the encoder's architecture cannot be written as ONNX, or logits
            differ.
    """
    runtime = import_onnx_runtime()
    # The layers of `transformers`: those of this project decide by the values of a mask what they compute.
    plain = exported.config.override({"encoder.attention": "eager", "encoder.gradient_checkpointing": False})
    model = build_model(plain, exported.pretrained, exported.model.state_dict(), "the weights must fit")
    settings, found = runtime.SessionOptions(), dict[str, float]()
    settings.log_severity_level = 4  # what fails is raised, and need not be printed too
    folder.mkdir(exist_ok=True)
    for task in plain.active_tasks:
        table = table_of_texts(plain.task(task), exported.pretrained, (*TRACED, *CHECKED))
        traced = text_batch(table, plain, range(len(TRACED)), plain.encoder.max_length)
        checked = text_batch(table, plain, [len(TRACED), len(TRACED) + 1], plain.encoder.max_length)
        logits, path, facts = TaskLogits(model, task), folder / f"{task}.onnx", describe_task(plain, task)
        path.with_suffix(".json").write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        try:
            save_onnx(logits, arrays_of(traced), path, facts)
            session = runtime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
            found[task] = deviation(logits, session, arrays_of(checked))
        except OSError:
            raise
        except Exception as error:  # the type depends on what torch, ONNX and ONNX Runtime meet
            rule = "an ONNX file needs an encoder that torch.onnx can write for any length of text (docs/encoders.md)"
            cause: BaseException = error
            while cause.__cause__ is not None:  # the exporter's own message is advice to its developers
                cause = cause.__cause__
            hint = " (torch 2.10 writes more of them)" if torch.__version__ < "2.10" else ""
            family = exported.pretrained.config.model_type
            raise ValueError(f"{rule}, got {family}: {reason_of(cause)}{hint}") from error
        rule = f"logits of {task} in ONNX Runtime must be those of torch to {LARGEST_DEVIATION:g}"
        require(found[task] <= LARGEST_DEVIATION, rule, f"a difference of {found[task]:.1g}")
        if texts is not None:
            quantise(path, folder / f"{task}{INT8_ENDING}", texts[task])
    return found


def describe_task(config: TrialConfig, task: str) -> dict[str, Any]:
    """Returns what a file's inputs and logits mean, for a service that has nothing else of this project."""
    definition, settings = config.task(task), config.tasks[task]
    return {
        "task": task,
        "title": definition.title,
        "kind": definition.kind,
        "labels": [] if definition.is_regression else list(definition.class_names),
        "label_range": list(definition.label_range),
        "link": definition.kind_entry.link,
        "metric": definition.metric,
        "lower_is_better": definition.metric_entry.lower_is_better,
        "encoding": settings.encoding,
        "inputs": {
            f"{INPUT_NAMES[0]}{suffix}": [definition.text_columns[side] for side in sides]
            for suffix, sides in zip(SUFFIXES[len(SIDES[settings.encoding])], SIDES[settings.encoding], strict=True)
        },
        "prefix": settings.prefix,
        "max_length": config.encoder.max_length,
    }


def import_onnx_runtime() -> Any:
    """Returns the package `onnxruntime`; ValueError if it, or what writes ONNX, is not installed."""
    try:
        import onnx  # noqa: F401
        import onnxruntime
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise ValueError(f"--onnx needs {', '.join(ONNX_PACKAGES)}: pip install 'multitask-sweeps[onnx]'") from error
    return onnxruntime


def arrays_of(batch: Batch) -> Arrays:
    """Returns the arrays of all inputs of a batch."""
    return {
        f"{name}{suffix}": getattr(inputs, name)
        for suffix, inputs in zip(SUFFIXES[len(batch.inputs)], batch.inputs, strict=True)
        for name in INPUT_NAMES
    }


def save_onnx(logits: TaskLogits, arrays: Arrays, path: Path, facts: Mapping[str, Any]) -> None:
    """Traces a task with some rows, and writes its file, with `facts` as metadata: as JSON where they are no text."""
    from onnx_ir.passes.common import ClearMetadataAndDocStringPass

    num_inputs = len(arrays) // len(INPUT_NAMES)
    rows = torch.export.Dim("rows")
    lengths = [torch.export.Dim(f"tokens_{number}") for number in range(1, num_inputs + 1)]
    shapes = tuple({0: rows, 1: length} for length in lengths for _ in INPUT_NAMES)
    with silent_tracing(), quiet_transformers():
        program = torch.onnx.export(
            logits.eval(),
            tuple(arrays.values()),
            dynamic_shapes=(shapes,),
            input_names=list(arrays),
            output_names=["logits"],
            dynamo=True,
            verbose=False,
        )
        assert program is not None
        ClearMetadataAndDocStringPass()(program.model)  # traces of the calls, with paths of this machine
        program.model.metadata_props.update(
            {name: fact if isinstance(fact, str) else json.dumps(fact) for name, fact in facts.items()}
        )
        program.save(str(path))


def quantise(path: Path, target: Path, texts: Iterable[Arrays]) -> None:
    """Writes a file's model with integers of 8 bits, which has the same logits for a row alone and among others.

    Weights have a scale for each output channel. What is multiplied by them has one scale, from its range over
    `texts`: with `quantize_dynamic`, whose scale is that of the batch, a row's logits depend on all rows beside it.

    Source: static quantisation of ONNX Runtime, `onnxruntime.quantization.quantize_static`.
    """
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    folded = target.with_suffix(".folded")
    with silent_tracing():
        # Weights that several passes share are transposed in the file, where they would stay as they are.
        quant_pre_process(path, folded, skip_symbolic_shape=True)
        quantize_dynamic(folded, folded, weight_type=QuantType.QInt8, op_types_to_quantize=["Gather"])
        graph = onnx.load(folded).graph
        weights = {weight.name for weight in graph.initializer}
        feeds = ({item.name: arrays[item.name].numpy() for item in graph.input} for arrays in texts)
        quantize_static(
            folded,
            target,
            SimpleNamespace(get_next=lambda: next(feeds, None)),
            op_types_to_quantize=list(PRODUCTS),
            # Products of two activations, as in attention, stay as they are.
            nodes_to_exclude=[
                node.name for node in graph.node if node.op_type in PRODUCTS and node.input[1] not in weights
            ],
            per_channel=True,
            activation_type=QuantType.QUInt8,  # with signed ones x86 processors multiply slowly
            weight_type=QuantType.QInt8,
            extra_options={"OpTypesToExcludeOutputQuantization": list(PRODUCTS)},
        )
    folded.unlink()


def deviation(logits: TaskLogits, session: Any, arrays: Arrays) -> float:
    """Returns the largest difference of a file's logits from a model's, relative to the largest one above 1."""
    with torch.no_grad():
        wanted = logits(*arrays.values())
    return float((run_session(session, arrays) - wanted).abs().max() / wanted.abs().max().clamp(min=1.0))


def run_session(session: Any, arrays: Arrays) -> Tensor:
    """Returns the logits of a file, (rows, num_logits), opened as an `InferenceSession`;
    `arrays` as `arrays_of` gives them."""
    names = [item.name for item in session.get_inputs()]  # without those that the encoder does not use
    (found,) = session.run(None, {name: arrays[name].numpy() for name in names})
    return torch.from_numpy(found)


@contextlib.contextmanager
def silent_tracing() -> Iterator[None]:
    """Keeps what torch's exporter and the quantisation log and print from standard error and output.

    Of a model that it cannot write the exporter prints the whole graph, in hundreds of lines.
    """
    logging.disable()
    try:
        unseen = io.StringIO()
        with contextlib.redirect_stdout(unseen), contextlib.redirect_stderr(unseen), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)
