"""What a sweep, a bundle and an exported model predict from Python, several tasks at once as each alone."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from torch import nn

from mtlib.checkpoints.export import export_model
from mtlib.config.trial import TrialConfig
from mtlib.model.encoder import PretrainedEncoder
from mtlib.model.multitask import MultiTaskModel
from mtlib.tasks import TASKS
from results.inference.predictor import load_predictor, predict_texts
from results.load import TextPredictor, load
from tests.mtlib.checkpoints.test_export import FACTS
from tests.one_line_error import one_line_error
from tests.results.inference.bundle.bundled_sweep import TEXTS, make_bundle
from tests.results.inference.trained_sweep import select_pairs, source_of

PAIRS = [(text, TEXTS[number - 1]) for number, text in enumerate(TEXTS)]
PAIR_COLUMNS = ["qqp.prediction", "qqp.probability_1", "sts.prediction"]


@pytest.fixture
def sweep(trained_folder: Path) -> Path:
    """A trained sweep with an ensemble of two for each task."""
    select_pairs(trained_folder)
    return trained_folder


def export(config: TrialConfig, encoder: PretrainedEncoder, folder: Path, **changes: object) -> Path:
    """An exported model, with the same encoding and another pooling for each of the two tasks of pairs."""
    pairs = {"tasks.qqp.encoding": "cross", "tasks.sts.encoding": "cross", "tasks.sts.pooling": "mean"}
    own = {"encoder.name": encoder.name, **pairs, "tasks.qqp.pooling": "cls", "tasks.sts.target_scale": "unit"}
    config = config.override({**own, **changes})
    model = MultiTaskModel(config, encoder)
    model.scale_of("sts").fit(np.array([1.0, 2.5, 4.0]))
    export_model(config, encoder, model.state_dict(), folder, FACTS)
    return folder


@pytest.fixture
def exported(tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder, tmp_path: Path) -> Path:
    """The folder of an exported model."""
    return export(tiny_config, tiny_encoder, tmp_path / "model")


def test_sweep_and_bundle_predict_the_tasks_that_fit_as_each_ensemble_does(sweep: Path, tmp_path: Path) -> None:
    selection = select_pairs(sweep)
    make_bundle(selection, sweep, tmp_path / "bundle")
    wanted = {task: predict_texts(load_predictor(selection, task, source_of(sweep)), PAIRS) for task in ("qqp", "sts")}
    for folder in (sweep, str(tmp_path / "bundle")):
        predictor = load(folder, device="cpu")
        assert list(predictor.tasks) == list(TASKS)
        found = predictor.predict(PAIRS)
        assert list(found.columns) == PAIR_COLUMNS
        np.testing.assert_allclose(found["sts.prediction"], wanted["sts"][:, 0], atol=1e-5)
        np.testing.assert_allclose(2 * found["qqp.probability_1"] - 1, wanted["qqp"][:, 0], atol=1e-5)
        alone = predictor.predict(PAIRS, tasks="sts")
        assert list(alone.columns) == ["prediction"]
        np.testing.assert_allclose(alone["prediction"], found["sts.prediction"], atol=1e-5)


def count_passes(monkeypatch: pytest.MonkeyPatch, call: Callable[[], object]) -> int:
    """How often an encoder passes over texts."""
    with monkeypatch.context() as patch:
        passes, encode = [0], MultiTaskModel.encode

        def counted(*given: object, **named: object) -> object:
            passes[0] += 1
            return encode(*given, **named)  # type: ignore[arg-type]

        patch.setattr(MultiTaskModel, "encode", counted)
        call()
    return passes[0]


def test_tasks_that_read_the_same_texts_alike_share_a_pass(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    predictor = load(exported, device="cpu")
    assert list(predictor.tasks) == list(TASKS)
    once = count_passes(monkeypatch, lambda: predictor.predict(PAIRS, tasks="sts"))
    assert count_passes(monkeypatch, lambda: predictor.predict(PAIRS)) == once > 0
    together = predictor.predict(PAIRS)
    for task in ("qqp", "sts"):
        alone = predictor.predict(PAIRS, tasks=task).add_prefix(f"{task}.")
        np.testing.assert_allclose(alone, together[alone.columns], atol=1e-5)
    frame = pd.DataFrame(PAIRS, columns=TASKS["qqp"].text_columns)  # which are those of STS too
    assert count_passes(monkeypatch, lambda: predictor.predict(frame)) == once
    assert predictor.predict(frame).equals(together)


@pytest.mark.parametrize(
    "changes",
    [
        {"tasks.qqp.encoding": "bi"},
        {"tasks.qqp.prefix": "are these the same? "},
        {"pals.size": 8, "pals.num_heads": 2, "pals.tasks": ["sts"]},
    ],
    ids=["encoding", "prefix", "pals"],
)
def test_tasks_that_read_texts_otherwise_have_a_pass_of_their_own(
    changes: dict[str, object],
    tiny_config: TrialConfig,
    tiny_encoder: PretrainedEncoder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    predictor = load(export(tiny_config, tiny_encoder, tmp_path / "model", **changes), device="cpu")
    alone = [count_passes(monkeypatch, lambda task=task: predictor.predict(PAIRS, task)) for task in ("qqp", "sts")]  # type: ignore[misc]
    assert count_passes(monkeypatch, lambda: predictor.predict(PAIRS)) == sum(alone)
    together = predictor.predict(PAIRS)
    for task in ("qqp", "sts"):
        own = predictor.predict(PAIRS, tasks=task).add_prefix(f"{task}.")
        np.testing.assert_allclose(own, together[own.columns], atol=1e-5)


def test_ensembles_share_the_models_that_both_have(sweep: Path, tmp_path: Path) -> None:
    selection = select_pairs(sweep)
    make_bundle(selection, sweep, tmp_path / "bundle")
    members = [(own.trial, own.epoch) for task in selection.tasks.values() for own in task.members]
    for folder in (sweep, tmp_path / "bundle"):
        models: set[nn.Module] = {one.model for own in load(folder).predictors.values() for one in own.models}
        assert len(models) == len(set(members)) < len(members)


def test_a_frame_is_read_by_the_columns_of_each_task_and_blank_where_a_text_is(exported: Path) -> None:
    frame = pd.DataFrame({"sentence": ["a film", None, "red"], "sentence1": ["a", "b", " "], "x": [1, 2, 3]})
    predictor = load(exported, device="cpu")
    with pytest.warns(UserWarning, match="^1 row with a blank text without prediction, the first is row 1$"):
        found = predictor.predict(frame.set_index("x"))
    assert {name.split(".")[0] for name in found.columns} == {"sst"}, "sentence2 is missing"
    assert list(found.index) == [1, 2, 3]
    assert list(found["sst.prediction"].isna()) == [False, True, False]
    frame["sentence2"] = "c"
    with pytest.warns(UserWarning, match="^2 rows with a blank text without prediction, the first is row 1$"):
        found = predictor.predict(frame)
    assert list(found["sst.prediction"].isna()) == [False, True, False]
    assert list(found["sts.prediction"].isna()) == [False, False, True]
    assert list(predictor.predict(iter(["a film", "red"])).columns) == [name for name in found.columns if "sst" in name]


@pytest.mark.parametrize(
    ("texts", "tasks", "message"),
    [
        (["a film"], "sts", "every row of texts must be a tuple of 2 texts, got 'a film' in row 0"),
        (["a film"], "tone", "unknown task of the selection 'tone'; known: qqp, sst, sts"),
        (["a film"], [], "tasks must name at least one, got none"),
        ([("a", "b", "c")], None, "sts (sentence1, sentence2), got 3 texts a row"),
        (pd.DataFrame({"text": ["a"]}), None, "texts must have the columns of a task: sst (sentence); "),
        (pd.DataFrame({"text": ["a"]}), ["sst"], "texts must have the task's columns (sentence), each once, got text"),
        ([], None, None),
    ],
)
def test_texts_that_fit_no_task_are_refused(texts: object, tasks: Any, message: str | None, exported: Path) -> None:
    predictor: TextPredictor = load(exported, device="cpu")
    if message is None:
        assert predictor.predict(texts).shape == (0, 9), "the columns of all tasks"
        return
    assert message in one_line_error(predictor.predict, texts, tasks)


def load_task(folder: Path, task: str) -> TextPredictor:
    return load(folder, tasks=[task], device="cpu")


def test_tasks_to_load_are_chosen_by_name(exported: Path, sweep: Path, tmp_path: Path) -> None:
    for folder in (exported, sweep):
        assert list(load_task(folder, "sts").tasks) == ["sts"]
        assert "unknown task of the selection 'tone'" in one_line_error(load_task, folder, "tone")
    assert "must hold selection.json" in one_line_error(load, tmp_path / "nothing")
    assert list(load(sweep / "selection.json", tasks="sts", device="cpu").tasks) == ["sts"]
    assert one_line_error(lambda: load(exported, encoder="x")).startswith("encoder must be left out for a bundle or an")
    with pytest.raises(ValueError, match="encoder must be a hub name or a folder that exists"):
        load(sweep, encoder="./none")


def test_loading_loads_nothing_of_ray_optuna_or_plotting(exported: Path) -> None:
    program = f"""
import sys
from results.load import load
load({str(exported)!r}, device="cpu").predict(["a film"])
print(*(name for name in ("ray", "optuna", "plotly", "sklearn") if name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"
