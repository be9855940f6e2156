"""A bundle predicts as the selection does in an environment with only its requirements, or is not written."""

import gc
import os
import resource
import shutil
import subprocess
import sys
import weakref
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from mtlib.checkpoints.export import load_exported
from mtlib.tasks import TASKS
from results.inference.bundle import write as bundle
from results.inference.bundle.manifest import read_bundle
from results.inference.bundle.write import write_bundle
from results.inference.models import LoadedModel, load_models
from results.predict import main
from results.records.selection import Selection, read_selection
from tests.one_line_error import one_line_error
from tests.results.inference.bundle.bundled_sweep import TEXTS, make_bundle
from tests.results.inference.test_models import rewrite_encoder
from tests.results.inference.trained_sweep import FIRST, SECOND, kept_epoch, select_pairs, source_of
from tests.scripts import ROOT


@pytest.fixture
def sweep(trained_folder: Path, tmp_path: Path) -> Path:
    """A copy of a trained sweep with both trials selected for every task."""
    folder = shutil.copytree(trained_folder, tmp_path / "sweeps" / "mine")
    select_pairs(folder)
    return folder


def bundle_error(selection: Selection, sweep: Path, place: Path, *, overwrite: bool = False, **changes: Any) -> str:
    source = replace(source_of(sweep), **changes)
    return one_line_error(write_bundle, selection, sweep, source, place, lambda _: None, overwrite=overwrite)


def test_bundle_predicts_without_the_sweep_and_its_encoder(
    sweep: Path, tiny_encoder_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the command that it names, from another folder, through a pipe, without a network."""
    encoder = shutil.copytree(tiny_encoder_folder, tmp_path / "encoder")
    rewrite_encoder(sweep, (FIRST, SECOND), str(encoder))
    place = tmp_path / "first" / "bundle"
    assert main([str(sweep), "--bundle", str(place)]) == 0
    notes = capsys.readouterr()
    assert notes.out == ""
    *models, made, how = notes.err.splitlines()
    assert [line.split(":")[0] for line in models] == [f"models/{n + 1}" for n in range(len(epochs_of(sweep)))]
    assert made.startswith(f"{place}: ")
    assert how == f"python results/predict.py {place} --task sst --input FILE --output predictions.csv"
    rows = "\n".join(TEXTS)
    (tmp_path / "a.txt").write_text(rows)
    assert main([str(sweep), "--task", "sst", "--input", str(tmp_path / "a.txt"), "--device", "cpu"]) == 0
    wanted = capsys.readouterr().out
    moved = tmp_path / "second place" / "mine"
    moved.parent.mkdir()
    place.rename(moved)
    shutil.rmtree(sweep)
    shutil.rmtree(encoder)
    command = [sys.executable, str(ROOT / "results/predict.py"), str(moved), "--task", "sst", "--input", "-"]
    environment = {**os.environ, "HF_ENDPOINT": "http://127.0.0.1:9", "HOME": str(tmp_path)}
    done = subprocess.run([*command, "--device", "cpu"], input=rows, env=environment, capture_output=True, text=True)
    assert done.stdout == wanted, done.stderr


def epochs_of(sweep: Path) -> set[tuple[str, int]]:
    """The models of the selection: each trial at each epoch with weights selected for some task."""
    return {(trial, kept_epoch(sweep, trial, task)) for trial in (FIRST, SECOND) for task in TASKS}


def test_bundle_holds_each_model_once_and_the_selection(
    sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    selection, place, epochs = read_selection(sweep), tmp_path / "deep" / "bundle", epochs_of(sweep)
    assert 2 <= len(epochs) < 6, "some models must have several tasks, but not all"
    alive: list[weakref.ref[Any]] = []

    def load(*arguments: Any) -> tuple[LoadedModel, ...]:
        gc.collect()
        assert not any(reference() for reference in alive), "one model at a time is in memory"
        models = load_models(*arguments)
        alive.extend(weakref.ref(loaded.model) for loaded in models)
        return models

    monkeypatch.setattr(bundle, "load_models", load)
    make_bundle(selection, sweep, place)
    assert len(alive) == len(epochs)
    assert [path.name for path in place.parent.iterdir()] == ["bundle"]
    names = {"README.md", "bundle.json", "models", "requirements.txt", "selection.json"}
    assert {path.name for path in place.iterdir()} == names
    released = version("multitask-sweeps").partition("+")[0]  # between releases it names the commit
    assert f"multitask-sweeps=={released}\n" in (place / "requirements.txt").read_text()
    assert {name: one.methods for name, one in read_selection(place).tasks.items()} == {
        name: one.methods for name, one in selection.tasks.items()
    }
    assert list(read_selection(place).sweeps) == ["mine"]
    machine = str(sweep.parents[1]).encode()
    assert not [path for path in place.rglob("*") if path.is_file() and machine in path.read_bytes()]
    found = read_bundle(place)
    assert sorted(found.models) == sorted(f"models/{path.name}" for path in (place / "models").iterdir())
    origins = {f"trial {trial} of mine, epoch {epoch}": (trial, epoch) for trial, epoch in epochs}
    assert sorted(found.models.values()) == sorted(origins)
    for task in TASKS:
        own = [origins[found.models[member.model]] for member in found.tasks[task]]
        assert own == [(trial, kept_epoch(sweep, trial, task)) for trial in (FIRST, SECOND)]
    for name, origin in found.models.items():
        assert load_exported(place / name).config.active_tasks == tuple(TASKS)
        card, (trial, epoch) = (place / name / "README.md").read_text(), origins[origin]
        assert f"# mine {trial}\n" in card
        assert f"weights of epoch {epoch}, of a trial among 3" in card
    modes = {path.stat().st_mode & 0o777 for path in place.rglob("*") if path.is_file()}
    assert len(modes) == 1


def test_bundle_of_some_tasks(sweep: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = read_selection(sweep)
    make_bundle(replace(whole, tasks={"sts": whole.tasks["sts"]}), sweep, tmp_path / "bundle")
    assert list(read_bundle(tmp_path / "bundle").tasks) == ["sts"]
    assert list(read_selection(tmp_path / "bundle").tasks) == list(TASKS)
    assert len(list((tmp_path / "bundle" / "models").iterdir())) == 2
    (tmp_path / "a.txt").write_text("a film\ta dog\n")
    assert main([str(tmp_path / "bundle"), "--input", str(tmp_path / "a.txt")]) == 0
    assert capsys.readouterr().out.startswith("id,prediction\n0,")
    assert main([str(tmp_path / "bundle"), "--task", "sst", "--input", str(tmp_path / "a.txt")]) == 2
    assert "unknown task of the selection 'sst'; did you mean 'sts'? known: sts\n" in capsys.readouterr().err


def test_mistakes_are_reported_before_anything_is_written(
    sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "load_models", Mock(side_effect=AssertionError("loaded")))
    selection, place = read_selection(sweep), tmp_path / "bundle"
    assert "--bundle must not overwrite what is read, " in bundle_error(selection, sweep, tmp_path)
    assert "no sweep at /no" in bundle_error(selection, sweep, place, places={str(sweep): Path("/no")})
    rewrite_encoder(sweep, (SECOND,), "/other")
    line = bundle_error(selection, sweep, place, encoder="mine")
    assert line.startswith("--encoder can replace a single pretrained encoder only, got models of ")
    assert not place.exists()
    place.mkdir()
    (place / "mine.txt").write_text("mine")
    assert "--bundle must be new, or be overwritten" in bundle_error(selection, sweep, place)
    line = bundle_error(selection, sweep, place, overwrite=True)
    assert line == f"a bundle's folder may replace an empty folder, or one that holds bundle.json, got {place}"
    assert (place / "mine.txt").read_text() == "mine"


@pytest.mark.parametrize("why", ["damaged weights", "full disk", "Ctrl-C"])
def test_failure_leaves_nothing(why: str, sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    selection, place = read_selection(sweep), tmp_path / "out" / "bundle"
    place.parent.mkdir()
    if why == "damaged weights":
        last = selection.tasks["sts"].members[1]
        path = sweep / f"trials/{last.trial}/checkpoint/weights/epoch-{last.epoch:04d}.safetensors"
        path.write_bytes(path.read_bytes()[:-1])
        assert f"{path} is truncated or damaged" in bundle_error(selection, sweep, place)
    elif why == "full disk":
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))  # it fails as a full disk does
        try:
            line = bundle_error(selection, sweep, place)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert "must be a place that can be written, got " in line
        assert "File too large" in line
    else:
        monkeypatch.setattr(bundle, "bundle_card", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            make_bundle(selection, sweep, place)
    assert not list(place.parent.iterdir())
