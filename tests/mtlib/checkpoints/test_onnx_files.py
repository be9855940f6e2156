"""ONNX files give the logits of the exported model, for any number of rows and tokens, in another runtime."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from mtlib.checkpoints import onnx_files
from mtlib.checkpoints.export import export_model, load_exported
from mtlib.checkpoints.onnx_files import INT8_ENDING, arrays_of, input_names, write_onnx
from mtlib.config.trial import TrialConfig
from mtlib.data.batches import make_batch
from mtlib.data.token_cache import Corpus
from mtlib.model.encoder import PretrainedEncoder
from mtlib.model.multitask import MultiTaskModel
from mtlib.training.evaluation import predict
from tests.mtlib.checkpoints.test_export import FACTS
from tests.one_line_error import one_line_error

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


def export(config: TrialConfig, encoder: PretrainedEncoder, place: Path) -> Path:
    """The folder of an exported model with new heads."""
    model = MultiTaskModel(config, encoder)
    for scale in model.label_scales:
        model.scale_of(scale).fit(np.array([1.0, 2.5, 4.0]))
    export_model(config, encoder, model.state_dict(), place / "model", FACTS)
    return place / "model"


@pytest.mark.parametrize("case", [pytest.param(name, marks=[pytest.mark.slow] * (name != "pair")) for name in CASES])
def test_logits_in_another_runtime_are_those_of_the_model(
    case: str, tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder, tmp_path: Path
) -> None:
    config = tiny_config.override({"encoder.name": tiny_encoder.name, **CASES[case]})
    folder = export(config, tiny_encoder, tmp_path)
    assert write_onnx(folder, int8=True)["sts"] < 1e-5
    loaded, table = load_exported(folder), tiny_corpus["sts", "dev"]
    wanted = predict(loaded.model, loaded.config, tiny_corpus, "sts", "dev", torch.device("cpu")).logits
    exact, small = (folder / "onnx" / name for name in ("sts.onnx", f"sts{INT8_ENDING}"))
    place = str(Path(torch.__file__).parents[1]).encode()
    assert not [path for path in (exact, small) if place in path.read_bytes()], "a trace of calls names this machine"
    session, rounded = (onnxruntime.InferenceSession(str(path)) for path in (exact, small))
    for rows in (np.arange(13), np.array([4])):
        batch = make_batch(table, rows, encoding=config.tasks["sts"].encoding, max_length=config.encoder.max_length)
        arrays = dict(zip(input_names(len(batch.inputs)), arrays_of(batch), strict=True))
        given = {item.name: arrays[item.name].numpy() for item in session.get_inputs()}
        np.testing.assert_allclose(session.run(None, given)[0], wanted[rows], atol=1e-4)
        off = np.abs(rounded.run(None, given)[0] - wanted[rows]).max()
        assert 0 < off < 0.05 * np.abs(wanted).max()
    weights = onnx.load(small).graph.initializer
    assert not [item.name for item in weights if item.data_type == onnx.TensorProto.FLOAT and len(item.dims) > 1]


def test_files_that_differ_from_the_model_are_refused(
    tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = export(tiny_config.override({"encoder.name": tiny_encoder.name, **UNIT}), tiny_encoder, tmp_path)
    monkeypatch.setattr(onnx_files, "save_onnx", lambda *_: None)
    monkeypatch.setattr(onnxruntime, "InferenceSession", lambda *_, **__: None)
    monkeypatch.setattr(onnx_files, "deviation", lambda *_: 2e-4)
    message = one_line_error(write_onnx, folder)
    assert message == "logits of sts in ONNX Runtime must be those of torch to 0.0001, got a difference of 0.0002"
    assert not (folder / "onnx").exists()
