"""ONNX files give the logits of the exported model, for any number of rows and tokens, in another runtime."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from mtlib.checkpoints import onnx_files
from mtlib.checkpoints.export import export_model, load_exported
from mtlib.checkpoints.onnx_files import INT8_ENDING, arrays_of, describe_task, write_onnx
from mtlib.config.data import DataConfig
from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig, default_task_configs
from mtlib.data.batches import make_batch
from mtlib.data.load import read_data
from mtlib.data.token_cache import Corpus
from mtlib.model.encoder import PretrainedEncoder
from mtlib.model.multitask import MultiTaskModel
from mtlib.tasks import Task
from mtlib.training.evaluation import predict
from tests.architectures import ENCODERS, untrained
from tests.mtlib.checkpoints.test_export import FACTS
from tests.one_line_error import one_line_error

OLD_EXPORTER = "torch 2.6, 2.7 and 2.9 cannot export an encoder with a variable number of tokens"
UNIT = {"stages.0.tasks": ["sts"], "stages.1.tasks": ["sts"], "smart.weight": 0, "tasks.sts.target_scale": "unit"}
"""STS alone."""
CASES = {
    "pair": UNIT,
    "two texts": {**UNIT, "tasks.sts.encoding": "bi", "tasks.sts.head": "cosine", "tasks.sts.pooling": "mean"},
    "pair and texts": {**UNIT, "tasks.sts.encoding": "cross_and_bi"},
    "pals": {**UNIT, "pals.size": 8, "pals.num_heads": 2, "pals.tasks": ["sts"]},
    "last token": {**UNIT, "tasks.sts.pooling": "last", "tasks.sts.hidden_units": 5},
}
"""The first is traced in every run of the tests, which takes seconds."""
REFUSED = ("longformer", "funnel", "xlnet")
"""Families that the exporter cannot write: each fails at another step."""
ALONE = {**UNIT, "encoder.max_length": 32, "encoder.dropout": None}


def export(config: TrialConfig, encoder: PretrainedEncoder, place: Path) -> Path:
    """The folder of an exported model with new heads."""
    model = MultiTaskModel(config, encoder)
    for scale in model.label_scales:
        model.scale_of(scale).fit(np.array([1.0, 2.5, 4.0]))
    export_model(config, encoder, model.state_dict(), place / "model", FACTS)
    return place / "model"


@pytest.mark.skipif(torch.__version__ < "2.10", reason=OLD_EXPORTER)
@pytest.mark.parametrize("case", [pytest.param(name, marks=[pytest.mark.slow] * (name != "pair")) for name in CASES])
def test_logits_in_another_runtime_are_those_of_the_model(
    case: str,
    tiny_config: TrialConfig,
    tiny_folder: Path,
    tiny_corpus: Corpus,
    tiny_encoder: PretrainedEncoder,
    tmp_path: Path,
) -> None:
    config = tiny_config.override({"encoder.name": tiny_encoder.name, **CASES[case]})
    folder = export(config, tiny_encoder, tmp_path)
    loaded, table = load_exported(folder), tiny_corpus["sts", "dev"]
    encoding, max_length = config.tasks["sts"].encoding, config.encoder.max_length

    def arrays(split: str, rows: list[int]) -> dict[str, torch.Tensor]:
        return arrays_of(
            make_batch(tiny_corpus["sts", split], np.array(rows), encoding=encoding, max_length=max_length)
        )

    texts = {"sts": [arrays("train", [row]) for row in range(20)]}
    assert write_onnx(loaded, folder / "onnx", texts)["sts"] < 1e-5
    wanted = predict(loaded.model, loaded.config, tiny_corpus, "sts", "dev", torch.device("cpu")).logits
    exact, small = (folder / "onnx" / name for name in ("sts.onnx", f"sts{INT8_ENDING}"))
    place = str(Path(torch.__file__).parents[1]).encode()
    assert not [path for path in (exact, small) if place in path.read_bytes()], "a trace of calls names this machine"
    sessions = {path: onnxruntime.InferenceSession(str(path)) for path in (exact, small)}
    found: dict[Path, list[np.ndarray]] = {exact: [], small: []}
    for rows in (list(range(13)), *([row] for row in range(13))):
        for path, session in sessions.items():
            given = arrays("dev", rows)
            names = [item.name for item in session.get_inputs()]
            found[path].append(session.run(None, {name: given[name].numpy() for name in names})[0])
    for path, (together, *alone) in found.items():  # shorter rows have padding beside longer ones
        np.testing.assert_allclose(np.concatenate(alone), together, atol=1e-4, err_msg=path.name)
    np.testing.assert_allclose(found[exact][0], wanted[: table.num_rows], atol=1e-4)
    texts_of_dev = map(list, read_data(config, tiny_folder)["sts", "dev"].texts)
    given_texts = dict(zip(config.task("sts").text_columns, texts_of_dev, strict=True))
    np.testing.assert_allclose(logits_by_the_page(folder, given_texts), wanted, atol=1e-4)
    assert 0 < np.abs(found[small][0] - wanted).max() < 0.05 * np.abs(wanted).max()
    weights = onnx.load(small).graph.initializer
    assert not [item.name for item in weights if item.data_type == onnx.TensorProto.FLOAT and len(item.dims) > 1]
    facts = json.loads((folder / "onnx" / "sts.json").read_text())
    assert facts["inputs"].keys() == {name for name in given if name.startswith("input_ids")}
    for session in sessions.values():
        metadata = session.get_modelmeta().custom_metadata_map
        for name, fact in facts.items():
            assert metadata[name] == (fact if isinstance(fact, str) else json.dumps(fact))


def logits_by_the_page(folder: Path, texts: dict[str, list[str]]) -> Any:
    """The logits of STS by the lines of Python in docs/selecting.md, which know nothing of this project."""
    page = (Path(__file__).parents[3] / "docs" / "selecting.md").read_text()
    (program,) = (own for own in re.findall(r"```python\n(.*?)```", page, re.S) if "onnxruntime" in own)
    program = program.replace("my-model", str(folder)).replace("TASK", "sts")
    names: dict[str, Any] = {}
    exec(re.sub(r"texts = .*", f"texts = {texts!r}", program, count=1), names)
    return names["logits"]


@pytest.mark.parametrize(
    ("task", "link", "labels"),
    [
        (
            {"kind": "classes", "labels": ("bad", "good", "fair"), "label_range": (0, 2)},
            "softmax",
            ["bad", "good", "fair"],
        ),
        ({"kind": "classes", "label_range": (0, 2)}, "softmax", ["0", "1", "2"]),
        ({"kind": "binary", "labels": ("no", "yes"), "label_range": (0, 1)}, "sigmoid", ["no", "yes"]),
        ({"kind": "multilabel", "labels": ("cast", "plot"), "label_range": (0, 1)}, "sigmoid", ["cast", "plot"]),
        ({"kind": "regression", "metric": "rmse", "label_range": (0, 5)}, "identity", []),
    ],
)
def test_files_name_the_labels_of_each_kind(task: dict[str, Any], link: str, labels: list[str]) -> None:
    definition = Task(name="it", title="It", text_columns=("text",), label_column="label", **task)
    data, stages = DataConfig(tasks={"it": definition}), (StageConfig(tasks=("it",)),)
    config = TrialConfig(data=data, stages=stages, tasks=default_task_configs(data.tasks))
    facts = describe_task(config, "it")
    assert (facts["link"], facts["labels"], facts["metric"]) == (link, labels, definition.metric)
    assert facts["label_range"] == list(definition.label_range)
    assert facts["lower_is_better"] == (definition.metric == "rmse")


@pytest.mark.parametrize(
    "family", [pytest.param(name, marks=[pytest.mark.slow] * (name != "longformer")) for name in REFUSED]
)
def test_an_encoder_that_cannot_be_written_is_one_line_and_leaves_nothing(
    family: str,
    tiny_config: TrialConfig,
    tiny_encoder: PretrainedEncoder,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    config, encoder = tiny_config.override(ALONE), untrained(ENCODERS[family], tiny_encoder.tokenizer)
    weights = MultiTaskModel(config, encoder).state_dict()
    capfd.readouterr()
    message = one_line_error(export_model, config, encoder, weights, tmp_path / "model", FACTS, write_onnx=write_onnx)
    assert f"(docs/encoders.md), got {family}: " in message
    assert len(message) < 400
    assert capfd.readouterr() == ("", "")
    assert not list(tmp_path.iterdir())


def test_files_that_differ_from_the_model_are_refused(
    tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny_config.override({"encoder.name": tiny_encoder.name, **UNIT})
    weights = MultiTaskModel(config, tiny_encoder).state_dict()
    monkeypatch.setattr(onnx_files, "save_onnx", lambda *_: None)
    monkeypatch.setattr(onnxruntime, "InferenceSession", lambda *_, **__: None)
    monkeypatch.setattr(onnx_files, "deviation", lambda *_: 2e-4)
    message = one_line_error(
        export_model, config, tiny_encoder, weights, tmp_path / "model", FACTS, write_onnx=write_onnx
    )
    assert message == "logits of sts in ONNX Runtime must be those of torch to 0.0001, got a difference of 0.0002"
    assert not list(tmp_path.iterdir())
