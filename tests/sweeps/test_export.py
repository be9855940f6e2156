"""One command exports a sweep's trained model to a folder; every fault is one line with exit code 2."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from huggingface_hub import ModelCard
from safetensors.torch import load_file
from transformers import AutoModel, BertConfig, BertModel

from mtlib.checkpoints.export import load_exported
from mtlib.data.token_cache import Corpus
from mtlib.tasks import TASKS
from mtlib.training.evaluation import predict
from results.records.predictions import read_predictions
from results.records.tables import read_trials, write_trials
from sweeps.export import main
from tests.hub_server import OWNER, TOKEN, run_python, serve_hub
from tests.one_line_error import one_line_exit
from tests.results.inference.test_models import rewrite_encoder
from tests.results.inference.trained_sweep import SECOND, THIRD
from tests.scripts import ROOT, run_process

TRIAL = SECOND


@pytest.fixture
def sweep(trained_folder: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return shutil.copytree(trained_folder, tmp_path / "mine")


@pytest.mark.parametrize("best", ["overall", *TASKS])
def test_exported_best_epoch_gives_the_recorded_predictions(
    best: str, sweep: Path, tmp_path: Path, tiny_corpus: Corpus, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(sweep), TRIAL, str(tmp_path / "model"), "--best", best]) == 0
    checkpoint = sweep / "trials" / TRIAL / "checkpoint"
    epoch = json.loads((checkpoint / "best.json").read_text())[best]
    assert (
        f"Exported {TRIAL} of {sweep}, epoch {epoch} (its best {best} on dev), to {tmp_path / 'model'}"
        in capsys.readouterr().out
    )
    kept = load_file(checkpoint / "weights" / f"epoch-{epoch:04d}.safetensors")
    encoder = AutoModel.from_pretrained(tmp_path / "model").state_dict()
    assert all(torch.equal(kept[f"encoder.{name}"], encoder[name]) for name in encoder if "pooler" not in name)
    exported = load_exported(tmp_path / "model")
    for task in exported.config.active_tasks:
        recorded = read_predictions(sweep, task, "dev", trial=TRIAL, epoch=epoch)["logits"].to_pylist()
        found = predict(exported.model, exported.config, tiny_corpus, task, "dev", torch.device("cpu"))
        assert np.array_equal(found.logits, np.array(recorded, dtype=np.float32))
    card = ModelCard.load(tmp_path / "model" / "README.md")
    assert f"the weights of epoch {epoch}, of a trial among 3" in card.text.replace("\n", " ")


def test_best_names_the_trial_with_the_highest_score(
    sweep: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, third = read_trials(sweep)
    write_trials(sweep, [first, replace(second, best={**second.best, "overall": 0.9}), third], tuple(TASKS))
    assert main([str(sweep), "best", str(tmp_path / "model")]) == 0
    assert f"Exported {TRIAL} " in capsys.readouterr().out


def test_moved_encoder_can_be_named(
    sweep: Path, tmp_path: Path, tiny_encoder_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rewrite_encoder(sweep, (TRIAL,), str(tmp_path / "gone"))
    line = one_line_exit(main, capsys, sweep, TRIAL, tmp_path / "model")
    assert f"encoder folder must exist, or be replaced with --encoder, got no folder {tmp_path / 'gone'}" in line
    line = one_line_exit(main, capsys, sweep, TRIAL, tmp_path / "model", "--encoder", tmp_path / "nowhere")
    assert "--encoder must be a hub name or a folder that exists" in line
    assert main([str(sweep), TRIAL, str(tmp_path / "model"), "--encoder", str(tiny_encoder_folder)]) == 0
    assert load_exported(tmp_path / "model").config.encoder.name == str(tmp_path / "gone")


def test_encoder_of_another_size_is_one_line(
    sweep: Path, tmp_path: Path, tiny_encoder_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = shutil.copytree(tiny_encoder_folder, tmp_path / "other")
    config = BertConfig.from_pretrained(tiny_encoder_folder, num_hidden_layers=1)
    BertModel(config).save_pretrained(other)
    capsys.readouterr()  # its bar
    line = one_line_exit(main, capsys, sweep, TRIAL, tmp_path / "model", "--encoder", other)
    assert "the weights must fit the trial's configuration: " in line
    assert "unknown to it, first encoder.encoder.layer.1." in line
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("arguments", "start"),
    [
        ([], "SWEEP, TRIAL and FOLDER must be named (see --help), got no SWEEP and no TRIAL and no FOLDER"),
        (["a", "best"], "SWEEP, TRIAL and FOLDER must be named (see --help), got no FOLDER"),
        (["a", "best", "c", "d"], "every value must follow its flag, got 'd'"),
        (["a", "best", "c", "--bset", "sst"], "unknown flag '--bset'; did you mean '--best'?"),
    ],
)
def test_wrong_use_is_one_line(arguments: list[str], start: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {start}")
    assert error.count("\n") == 1


Damage = Callable[[Path], object]
FAULTS: dict[str, tuple[Damage, tuple[str, ...], str]] = {
    "none kept": (lambda _: None, (THIRD,), "trial 0002-r0 (pruned) must have kept weights, got none in "),
    "no such best": (
        lambda _: None,
        (TRIAL, "--best", "overal"),
        "unknown --best for trial 0001-r0 'overal'; did you mean 'overall'?",
    ),
    "weights gone": (lambda place: shutil.rmtree(place / "weights"), (TRIAL,), "weights must be whole, "),
    "deleted": (
        lambda place: (place / "best.json").write_text("{}"),
        (TRIAL,),
        "(complete) must have kept weights, got none in ",
    ),
    "deleted for a task": (
        lambda place: (place / "best.json").write_text('{"overall": 2}'),
        (TRIAL, "--best", "qqp"),
        "must have kept weights of its best epoch by qqp, got those by overall alone (a sweep deletes those of trials",
    ),
    "damaged": (lambda place: (place / "best.json").write_text("{"), (TRIAL,), "best.json: truncated or damaged: "),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_unusable_weights_are_one_line(
    fault: str, sweep: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage, (trial, *flags), message = FAULTS[fault]
    damage(sweep / "trials" / TRIAL / "checkpoint")
    assert message in one_line_exit(main, capsys, sweep, trial, tmp_path / "model", *flags)
    assert not (tmp_path / "model").exists()


def test_only_an_exported_model_is_overwritten_and_only_on_request(
    sweep: Path, tmp_path: Path, tiny_encoder_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "model"
    assert main([str(sweep), TRIAL, str(model)]) == 0
    (model / "old.txt").write_text("of the earlier export")
    capsys.readouterr()
    line = one_line_exit(main, capsys, sweep, TRIAL, model)
    assert f"FOLDER must be new, or be overwritten with --overwrite, got {model}" in line
    link = tmp_path / "link"
    link.symlink_to(model)
    assert main([str(sweep), TRIAL, str(link), "--overwrite"]) == 0
    assert link.is_symlink()
    assert not (model / "old.txt").exists()
    assert load_exported(model).config.active_tasks
    encoder = tmp_path / "encoder"
    encoder.symlink_to(tiny_encoder_folder)
    capsys.readouterr()
    for place, words in ((sweep, ()), (sweep.parent, ()), (encoder, ("--encoder", tiny_encoder_folder))):
        line = one_line_exit(main, capsys, sweep, TRIAL, place, *words, "--overwrite")
        assert "FOLDER must not overwrite what is read, " in line


def test_a_model_that_cannot_be_written_as_onnx_leaves_the_folder_as_it_was(
    trained_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        print("def forward(self, ...)")  # as the exporter prints the graph
        raise torch.onnx.OnnxExporterError("advice\nin many lines") from RuntimeError("no operator sub\nbut others")

    monkeypatch.setattr("torch.onnx.export", fail)
    model = tmp_path / "model"
    rule = "an ONNX file needs an encoder that torch.onnx can write for any length of text (docs/encoders.md)"
    lines = ["Tracing the model for ONNX ...", f"error: {rule}, got bert: no operator sub"]
    for words in (("--onnx",), ("--onnx", "--overwrite")):
        assert main([str(trained_folder), TRIAL, str(model), *words]) == 2
        out, error = capsys.readouterr()
        assert (out, error.splitlines()) == ("", lines)
        assert [path.name for path in tmp_path.iterdir()] == ["model"] * model.exists()
        if not model.exists():
            assert main([str(trained_folder), TRIAL, str(model)]) == 0
            capsys.readouterr()
    assert load_exported(model).config.active_tasks


LOAD_FROM_HUB = """
import sys
from huggingface_hub import snapshot_download
from transformers import AutoModel
from mtlib.checkpoints.export import load_exported
name, folder = sys.argv[1:]
AutoModel.from_pretrained(name).save_pretrained(folder)
load_exported(snapshot_download(name))
"""


@pytest.mark.slow
def test_pushed_model_loads_from_the_hub_with_its_weights(trained_folder: Path, tmp_path: Path) -> None:
    name, folder, loaded = f"{OWNER}/mine", tmp_path / "model", tmp_path / "loaded"
    with serve_hub({}, tmp_path / "uploads") as hub:
        environment = hub.environment(tmp_path / "home")
        words = ["sweeps/export.py", str(trained_folder), TRIAL, str(folder), "--push-to-hub", name]
        done = run_python({**environment, "HF_TOKEN": TOKEN}, *words)
        assert (done.returncode, done.stdout.splitlines()[-1]) == (0, f"Pushed it to {hub.address}/{name}"), done.stderr
        assert len(hub.commits) == 1
        done = run_python(environment, "-c", LOAD_FROM_HUB, name, str(loaded))
        assert done.returncode == 0, done.stderr
    checkpoint = trained_folder / "trials" / TRIAL / "checkpoint"
    epoch = json.loads((checkpoint / "best.json").read_text())["overall"]
    kept = load_file(checkpoint / "weights" / f"epoch-{epoch:04d}.safetensors")
    encoder = load_file(loaded / "model.safetensors")
    assert all(torch.equal(kept[f"encoder.{key}"], encoder[key]) for key in encoder if "pooler" not in key)
    card = (tmp_path / "uploads" / name / "README.md").read_text()
    assert str(tmp_path) not in card
    assert str(trained_folder) not in card


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--push-to-hub", "mine"), "--push-to-hub must be OWNER/NAME, got 'mine'"),
        (("--private",), "--private needs --push-to-hub OWNER/NAME, got none"),
    ],
)
def test_a_wrong_push_is_refused_before_the_export(
    words: tuple[str, ...], message: str, trained_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert one_line_exit(main, capsys, trained_folder, TRIAL, tmp_path / "model", *words) == message
    assert not (tmp_path / "model").exists()


@pytest.mark.slow
def test_exporting_loads_no_ray(trained_folder: Path, tmp_path: Path) -> None:
    done = run_process(["-m", "sweeps.export", str(trained_folder), TRIAL, str(tmp_path / "model")], ROOT)
    assert (done.code, done.stderr) == (0, "")
    assert not done.heavy_packages & {"ray", "optuna"}
