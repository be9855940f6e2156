"""A bundle predicts as the selection does in an environment with only its requirements, or is not written."""

import gc
import os
import re
import resource
import shutil
import subprocess
import sys
import weakref
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from mtlib.checkpoints.export import load_exported
from mtlib.tasks import TASKS
from results.inference.bundle import write as bundle
from results.inference.bundle.manifest import read_bundle
from results.inference.bundle.write import format_bytes, write_bundle
from results.inference.models import LoadedModel, find_trials, load_models
from results.predict import main
from results.records.selection import Selection, read_selection
from tests.one_line_error import one_line_error
from tests.results.inference.bundle.bundled_sweep import (
    TEXTS,
    copy_sweep,
    make_bundle,
    select_mixed,
    source_of,
)
from tests.results.inference.test_models import rewrite_encoder
from tests.results.inference.trained_sweep import FIRST, SECOND, kept_epoch

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture
def sweep(trained_folder: Path, tmp_path: Path) -> Path:
    """A copy of a trained sweep with both trials selected for every task."""
    folder = copy_sweep(trained_folder, tmp_path / "sweeps")
    select_mixed(folder)
    return folder


def bundle_error(selection: Selection, sweep: Path, place: Path, **changes: Any) -> str:
    source = replace(source_of(sweep), **changes)
    return one_line_error(write_bundle, selection, sweep, source, place, lambda _: None)


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
    assert [line.split(":")[0] for line in models] == [
        f"model {number + 1} of {len(epochs_of(sweep))}" for number in range(len(epochs_of(sweep)))
    ]
    assert re.match(rf"{place}: [\d.]+ MB, predicts sst, qqp, sts without the sweep", made)
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


def test_bundle_holds_each_model_once_and_the_selection(sweep: Path, tmp_path: Path) -> None:
    selection, place = read_selection(sweep), tmp_path / "deep" / "bundle"
    lines = make_bundle(selection, sweep, place)
    epochs = epochs_of(sweep)
    assert 2 <= len(epochs) < 6, "some models must have several tasks, but not all"
    assert sorted(path.name for path in (place / "models").iterdir()) == [str(n + 1) for n in range(len(epochs))]
    assert [path.name for path in place.parent.iterdir()] == ["bundle"]
    names = {"README.md", "bundle.json", "models", "requirements.txt", "selection.json"}
    assert {path.name for path in place.iterdir()} == names
    assert f"multitask-sweeps=={version('multitask-sweeps')}\n" in (place / "requirements.txt").read_text()
    assert (place / "selection.json").read_bytes() == (sweep / "selection.json").read_bytes()
    origins = [f"trial {trial} of mine, epoch {epoch}" for trial, epoch in epochs]
    found = read_bundle(place)
    assert sorted(model.origin for model in found.models.values()) == sorted(origins)
    for task in TASKS:
        own = [found.models[member.model].origin for member in found.tasks[task]]
        epoch_of = {trial: kept_epoch(sweep, trial, task) for trial in (FIRST, SECOND)}
        assert own == [f"trial {trial} of mine, epoch {epoch}" for trial, epoch in epoch_of.items()]
    assert len(lines) == len(epochs)
    assert re.fullmatch(rf"model 1 of {len(epochs)}: models/1, trial .* of mine, epoch \d, 0\.\d MB", lines[0])


def test_each_models_card_names_its_trial_and_epoch(sweep: Path, tmp_path: Path) -> None:
    make_bundle(read_selection(sweep), sweep, tmp_path / "bundle")
    for place, model in read_bundle(tmp_path / "bundle").models.items():
        text = (tmp_path / "bundle" / place / "README.md").read_text()
        trial, epoch = re.fullmatch(r"trial (.*) of mine, epoch (\d)", model.origin).groups()  # type: ignore[union-attr]
        assert f"# mine {trial}\n" in text
        assert f"These are the weights of epoch {epoch}, of a trial among 3" in text


def test_models_are_loaded_one_at_a_time(sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alive: list[weakref.ref[Any]] = []

    def load(*arguments: Any) -> tuple[LoadedModel, ...]:
        gc.collect()
        assert not any(reference() for reference in alive)
        models = load_models(*arguments)
        alive.extend(weakref.ref(loaded.model) for loaded in models)
        return models

    monkeypatch.setattr(bundle, "load_models", load)
    make_bundle(read_selection(sweep), sweep, tmp_path / "bundle")
    assert len(alive) == len(epochs_of(sweep))


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


def test_transformers_and_our_export_load_its_models(sweep: Path, tmp_path: Path) -> None:
    make_bundle(read_selection(sweep), sweep, tmp_path / "bundle")
    for place in read_bundle(tmp_path / "bundle").models:
        assert load_exported(tmp_path / "bundle" / place).config.active_tasks == tuple(TASKS)


def test_failure_leaves_nothing(sweep: Path, tmp_path: Path) -> None:
    selection, place = read_selection(sweep), tmp_path / "out" / "bundle"
    place.parent.mkdir()
    last = selection.tasks["sts"].members[1]
    path = sweep / f"trials/{last.trial}/checkpoint/weights/epoch-{last.epoch:04d}.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    assert f"{path} is truncated or damaged" in bundle_error(selection, sweep, place)
    assert not list(place.parent.iterdir())


def test_mistakes_are_reported_before_anything_is_written(
    sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> str:
        raise AssertionError("loaded")

    monkeypatch.setattr(bundle, "load_models", fail)
    selection = read_selection(sweep)
    assert "--bundle must not overwrite what is read, " in bundle_error(selection, sweep, tmp_path)
    place = tmp_path / "bundle"
    place.mkdir()
    (place / "mine.txt").write_text("mine")
    assert "--bundle must be new, or be overwritten with --overwrite" in bundle_error(selection, sweep, place)
    source = source_of(sweep)
    line = one_line_error(write_bundle, selection, sweep, source, place, lambda _: None, overwrite=True)
    assert line == f"a bundle's folder may replace an empty folder, or one that holds bundle.json, got {place}"
    assert (place / "mine.txt").read_text() == "mine"
    shutil.rmtree(place)
    line = bundle_error(selection, sweep, place, places={str(sweep): tmp_path / "gone"})
    assert f"no sweep at {tmp_path}/gone" in line
    assert not place.exists()


def test_one_encoder_cannot_replace_two(sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = find_trials

    def differ(members: Any, task: str, source: Any) -> Any:
        found = real(members, task, source)
        record, config = found[0]
        return [(record, config.override({"encoder.name": "other"})), *found[1:]] if task == "sts" else found

    monkeypatch.setattr("results.inference.bundle.write.find_trials", differ)
    selection, source = read_selection(sweep), replace(source_of(sweep), encoder="mine")
    rule = "--encoder can replace a single pretrained encoder only"
    with pytest.raises(ValueError, match=rf"^{rule}, got models of .*, other$"):
        write_bundle(selection, sweep, source, tmp_path / "bundle", lambda _line: None)
    assert not (tmp_path / "bundle").exists()


def test_ctrl_c_leaves_nothing(sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: object) -> Mapping[str, int]:
        raise KeyboardInterrupt

    monkeypatch.setattr(bundle, "file_crc32", interrupt)
    (tmp_path / "out").mkdir()
    with pytest.raises(KeyboardInterrupt):
        make_bundle(read_selection(sweep), sweep, tmp_path / "out" / "bundle")
    assert not list((tmp_path / "out").iterdir())


def test_unwritable_folder_is_one_line(sweep: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    line = bundle_error(read_selection(sweep), sweep, tmp_path / "file" / "bundle")
    assert f"must be a place that can be written, got {tmp_path}/file/bundle: " in line


@pytest.mark.parametrize("most", [600, 2000, 60_000])
def test_full_disk_is_one_line_and_leaves_nothing(most: int, sweep: Path, tmp_path: Path) -> None:
    """A limit on the process's file size fails like a full disk."""
    (tmp_path / "out").mkdir()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        with pytest.raises(ValueError, match=r"^[^\n]* must be a place that can be written, got [^\n]*$") as caught:
            make_bundle(read_selection(sweep), sweep, tmp_path / "out" / "bundle")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "File too large" in str(caught.value)
    assert not list((tmp_path / "out").iterdir())


def test_weights_have_the_cards_permissions(sweep: Path, tmp_path: Path) -> None:
    make_bundle(read_selection(sweep), sweep, tmp_path / "bundle")
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "bundle").rglob("*") if path.is_file()}
    assert len(modes) == 1


@pytest.mark.parametrize(
    ("num_bytes", "text"),
    [(0, "0.0 MB"), (437_951_000, "438.0 MB"), (10**9, "1.00 GB"), (123456 * 10**7, "1,234.56 GB")],
)
def test_sizes_have_readable_units(num_bytes: int, text: str) -> None:
    assert format_bytes(num_bytes) == text
