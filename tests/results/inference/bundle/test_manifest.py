"""A bundle's models give the sweep's outputs, and any fault is one line."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mtlib.checkpoints.export import EXPORTED_CONFIG_FILE
from mtlib.config.schema import to_dict
from mtlib.config.trial import TrialConfig
from mtlib.runtime.program_names import PROJECT_FOLDER
from mtlib.runtime.storage import open_folder
from mtlib.tasks import TASKS
from results.inference.bundle.manifest import (
    BUNDLE_FILE,
    Bundle,
    find_bundle,
    load_bundled,
    load_model_folder,
    read_bundle,
)
from results.inference.predictor import load_predictor, predict_texts
from results.records.files import write_json
from results.records.selection import BundledMember, Selection
from tests.one_line_error import one_line_error
from tests.results.inference.bundle.bundled_sweep import TEXTS, make_bundle
from tests.results.inference.trained_sweep import select_pairs, source_of

PAIR = (BundledMember(model="models/1", weight=0.1), BundledMember(model="models/1", weight=0.9))
BUNDLE = Bundle(
    created="2024-05-01T10:00:00.000+00:00",
    python="3.11.7",
    packages={"numpy": "2.4.6"},
    models={"models/1": "a trial"},
    tasks={"sst": PAIR[1:], "sts": PAIR},
)


@pytest.fixture(scope="module")
def selected(trained_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Selection]:
    """A copy of a trained sweep, and a selection from it."""
    folder = shutil.copytree(trained_folder, tmp_path_factory.mktemp("selected") / "mine")
    return folder, select_pairs(folder)


@pytest.fixture(scope="module")
def bundle_folder(selected: tuple[Path, Selection]) -> Path:
    """A bundle of the selection; must not be changed."""
    folder, selection = selected
    make_bundle(selection, folder, folder.parent / "bundle")
    return folder.parent / "bundle"


@pytest.fixture
def copied(bundle_folder: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return shutil.copytree(bundle_folder, tmp_path / "bundle")


@pytest.mark.parametrize(("is_there", "precision"), [(True, "bf16"), (False, "fp32")])
def test_bf16_is_not_emulated(copied: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool, precision: str) -> None:
    folder = next((copied / "models").iterdir())
    trial = folder / EXPORTED_CONFIG_FILE
    config = TrialConfig.from_json(trial.read_text()).override({"precision": "bf16"})
    trial.write_text(config.to_json())
    monkeypatch.setattr("mtlib.runtime.bf16.has_bf16", lambda **_words: is_there)
    assert load_model_folder(folder, "cpu").config.precision == precision


@pytest.mark.parametrize("task", TASKS)
def test_every_ensemble_predicts_exactly_as_the_selection(
    task: str, selected: tuple[Path, Selection], bundle_folder: Path
) -> None:
    folder, selection = selected
    wanted = load_predictor(selection, task, source_of(folder))
    found = load_bundled(bundle_folder, read_bundle(bundle_folder), task, "cpu")
    assert found.ensemble == wanted.ensemble
    assert all(model.pretrained.weights == {} and not model.model.training for model in found.models)
    texts = [(text, other)[: len(TASKS[task].text_columns)] for text, other in zip(TEXTS, TEXTS[::-1], strict=True)]
    outputs = predict_texts(found, texts)
    assert np.array_equal(outputs, predict_texts(wanted, texts))
    assert len(np.unique(outputs.round(6))) > 3, "the outputs must differ"


def test_bundle_in_a_bucket_must_be_copied(bucket: str) -> None:
    write_json(open_folder(bucket), BUNDLE_FILE, to_dict(BUNDLE))
    assert one_line_error(find_bundle, bucket).startswith("a bundle must be copied to a disk of this machine")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 1}, "version must be 2 (make it again with python results/predict.py SWEEP --bundle"),
        ({"models": {}}, "unknown model 'models/1'; known: "),
        ({"tasks": {"sstt": []}}, "unknown task 'sstt'; did you mean 'sst'?"),
        ({"tasks": {"sst": []}}, "the ensemble of sst must have members, got none"),
        ({"tasks": {"sst": [{"model": "models/1"}]}}, "tasks.sst.0.weight is missing"),
        *(
            ({"models": {"models/1": "a trial", place: "another"}}, f"a folder inside the bundle, got {place}")
            for place in ("../outside/1", "/outside/1", "models/../../1", "link/1")
        ),
    ],
)
def test_invalid_manifest_is_one_line(changes: dict[str, object], message: str, tmp_path: Path) -> None:
    write_json(open_folder(tmp_path), BUNDLE_FILE, to_dict(BUNDLE))
    path = tmp_path / BUNDLE_FILE
    (tmp_path / "link").symlink_to(tmp_path.parent)
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    line = one_line_error(read_bundle, tmp_path)
    assert line.startswith(f"{path}: ")
    assert message in line


@pytest.mark.parametrize("is_gone", [True, False])
def test_damaged_model_is_one_line_that_names_it(is_gone: bool, copied: Path) -> None:
    bundle = read_bundle(copied)
    path = copied / bundle.tasks["sst"][0].model / "model.safetensors"
    data = path.read_bytes()
    path.unlink()
    if not is_gone:
        path.write_bytes(data[:-1])
    assert str(path.parent) in one_line_error(load_bundled, copied, bundle, "sst", "cpu")


def test_missing_model_of_another_task_is_allowed(copied: Path) -> None:
    bundle = read_bundle(copied)
    own = {member.model for member in bundle.tasks["sts"]}
    assert len(own) == 2 < len(bundle.models), "some models are of other tasks alone"
    for place in bundle.models:
        if place not in own:
            shutil.rmtree(copied / place)
    assert len(load_bundled(copied, bundle, "sts", "cpu").models) == 2


def test_a_process_that_is_forked_after_loading_predicts(bundle_folder: Path) -> None:
    """As `gunicorn --preload` does. Torch has several threads there, of which a child has none."""
    program = """
import multiprocessing, sys
from pathlib import Path
from results.inference.bundle.manifest import load_bundled, read_bundle
from results.inference.predictor import predict_rows
folder = Path(sys.argv[1])
predictor = load_bundled(folder, read_bundle(folder), "sst", "cpu")
child = multiprocessing.get_context("fork").Process(target=predict_rows, args=(predictor, [("good film",)] * 50))
child.start()
child.join(20)
sys.exit(child.exitcode if child.exitcode is not None else child.kill() or "it hangs")
"""
    words = [sys.executable, "-c", program, str(bundle_folder)]
    subprocess.run(words, cwd=PROJECT_FOLDER, env={**os.environ, "OMP_NUM_THREADS": "4"}, check=True)
