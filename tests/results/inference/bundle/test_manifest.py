"""A bundle is read as written, its models give the sweep's outputs, and any fault is one line."""

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from mtlib.tasks import TASKS
from results.inference.bundle.manifest import (
    Bundle,
    BundledModel,
    is_bundle,
    load_bundled,
    local_bundle_folder,
    read_bundle,
    write_bundle_file,
)
from results.inference.predictor import load_predictor, predict_texts
from results.records.selection import BundledMember
from tests.one_line_error import one_line_error
from tests.results.inference.bundle.bundled_sweep import (
    TEXTS,
    copy_sweep,
    make_bundle,
    select_mixed,
    source_of,
)


def build_bundle(**changes: object) -> Bundle:
    """A bundle of one model, without files."""
    values = {
        "created": "2024-05-01T10:00:00.000+00:00",
        "python": "3.11.7",
        "packages": {"numpy": "2.4.6"},
        "models": {"models/1": BundledModel(origin="a trial", files={"config.json": 1})},
        "tasks": {"sst": (BundledMember(model="models/1", weight=1.0),)},
    }
    return Bundle(**{**values, **changes})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def bundle_folder(trained_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of a deleted sweep; must not be changed."""
    home = tmp_path_factory.mktemp("bundled")
    sweep = copy_sweep(trained_folder, home)
    selection = select_mixed(sweep)
    make_bundle(selection, sweep, home / "bundle")
    shutil.rmtree(sweep)
    return home / "bundle"


@pytest.fixture
def copied(bundle_folder: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return shutil.copytree(bundle_folder, tmp_path / "bundle")


def loading_error(folder: Path, task: str = "sst") -> str:
    return one_line_error(load_bundled, folder, read_bundle(folder), task, "cpu")


@pytest.mark.parametrize("task", TASKS)
def test_every_ensemble_predicts_exactly_as_the_selection(
    task: str, trained_folder: Path, bundle_folder: Path, tmp_path: Path
) -> None:
    sweep = copy_sweep(trained_folder, tmp_path)
    wanted = load_predictor(select_mixed(sweep), task, source_of(sweep))
    found = load_bundled(bundle_folder, read_bundle(bundle_folder), task, "cpu")
    assert found.ensemble == wanted.ensemble
    assert (found.ensemble.temperatures is None) == (TASKS[task].kind != "classes")
    texts = [(text, other)[: len(TASKS[task].text_columns)] for text, other in zip(TEXTS, TEXTS[::-1], strict=True)]
    outputs = predict_texts(found, texts)
    assert np.array_equal(outputs, predict_texts(wanted, texts))
    assert len(np.unique(outputs.round(6))) > 3, "the outputs must differ"


def test_models_with_one_tokenizer_share_it_and_add_no_weights(bundle_folder: Path) -> None:
    first, second = load_bundled(bundle_folder, read_bundle(bundle_folder), "sts", "cpu").models
    assert first.pretrained is second.pretrained
    assert first.pretrained.weights == {}
    assert first.model is not second.model
    assert not first.model.training


def test_models_with_two_tokenizers_keep_their_own(copied: Path) -> None:
    bundle = read_bundle(copied)
    other = bundle.tasks["sts"][1].model
    path = copied / other / "tokenizer_config.json"
    path.write_text(path.read_text() + "\n")
    files = bundle.models[other].files
    changed = dataclasses.replace(bundle.models[other], files={n: v for n, v in files.items() if n != path.name})
    bundle = dataclasses.replace(bundle, models={**bundle.models, other: changed})
    first, second = load_bundled(copied, bundle, "sts", "cpu").models
    assert first.pretrained is not second.pretrained


def test_manifest_is_read_back_as_written(tmp_path: Path) -> None:
    pair = (
        BundledMember(model="models/1", weight=0.1, temperature=0.3),
        BundledMember(model="models/1", weight=0.9),
    )
    bundle = build_bundle(tasks={"sts": pair, "sst": pair[1:]})
    write_bundle_file(tmp_path, bundle)
    assert read_bundle(tmp_path) == bundle


def test_bundle_is_recognized_by_its_file(tmp_path: Path) -> None:
    assert not is_bundle(tmp_path)
    assert not is_bundle(tmp_path / "gone")
    write_bundle_file(tmp_path, build_bundle())
    for home in (tmp_path, str(tmp_path), tmp_path.as_uri()):
        assert is_bundle(home)
        assert local_bundle_folder(home) == tmp_path
    with pytest.raises(ValueError, match="must be copied to a disk of this machine to predict with it, got mock:///a"):
        local_bundle_folder("mock:///a")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 2}, "version must be 1, got 2"),
        ({"models": {}}, "unknown model 'models/1'; known: "),
        ({"tasks": {"sstt": []}}, "unknown task 'sstt'; did you mean 'sst'?"),
        ({"tasks": {"sst": []}}, "the ensemble of sst must have members, got none"),
        ({"tasks": {"sst": [{"model": "models/1"}]}}, "tasks.sst.0.weight is missing"),
        ({"models": {"models/1": {"origin": "a", "files": {"a": "b"}}}}, "must be a whole number, got 'b'"),
    ],
)
def test_invalid_manifest_is_one_line(changes: dict[str, object], message: str, tmp_path: Path) -> None:
    write_bundle_file(tmp_path, build_bundle())
    path = tmp_path / "bundle.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(ValueError) as caught:
        read_bundle(tmp_path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)


def test_truncated_manifest_is_one_line(tmp_path: Path) -> None:
    write_bundle_file(tmp_path, build_bundle())
    path = tmp_path / "bundle.json"
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ValueError, match=r"bundle\.json: truncated or damaged: "):
        read_bundle(tmp_path)


def test_invalid_ensemble_weights_are_one_line(copied: Path) -> None:
    bundle = read_bundle(copied)
    heavy = tuple(dataclasses.replace(member, weight=0.75) for member in bundle.tasks["sst"])
    write_bundle_file(copied, dataclasses.replace(bundle, tasks={"sst": heavy}))
    assert loading_error(copied) == "weights of members must sum to 1, got 1.5"


@pytest.mark.parametrize(
    "name", ["model.safetensors", "tasks.safetensors", "trial.json", "config.json", "tokenizer.json"]
)
@pytest.mark.parametrize("how", ["cut", "changed", "gone"])
def test_damaged_file_is_one_line_that_names_it(name: str, how: str, copied: Path) -> None:
    model = read_bundle(copied).tasks["sst"][0].model
    path = copied / model / name
    data = path.read_bytes()
    path.unlink()
    if how != "gone":
        path.write_bytes(data[:-1] if how == "cut" else data[:-9] + bytes([data[-9] ^ 1]) + data[-8:])
    what = "cannot be read: No such file or directory" if how == "gone" else "is truncated or damaged"
    assert loading_error(copied) == f"a bundle's models must be whole (copy it again), {path} {what}"


def test_changed_card_and_missing_model_of_another_task_are_allowed(copied: Path) -> None:
    bundle = read_bundle(copied)
    own = {member.model for member in bundle.tasks["sts"]}
    for place in bundle.models:
        if place in own:
            (copied / place / "README.md").write_text("Licence: mine\n")
        else:
            shutil.rmtree(copied / place)
    assert {member.model for members in bundle.tasks.values() for member in members} == set(bundle.models)
    assert len(own) == 2 < len(bundle.models), "some models are of other tasks alone"
    assert len(load_bundled(copied, bundle, "sts", "cpu").models) == 2


def test_missing_gpu_is_one_line(bundle_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="--device cuda needs a GPU that torch can use, got none"):
        load_bundled(bundle_folder, read_bundle(bundle_folder), "sst", "cuda")
