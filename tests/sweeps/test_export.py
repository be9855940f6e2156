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
from mtlib.checkpoints.state import StateFolder
from mtlib.config.trial import TrialConfig
from mtlib.data.token_cache import Corpus
from mtlib.model.encoder import PretrainedEncoder
from mtlib.tasks import TASKS
from mtlib.train import train
from mtlib.training.epoch_report import EpochReport
from mtlib.training.evaluation import predict
from results.records.epochs import write_epoch
from results.records.predictions import read_predictions
from results.records.tables import read_trials, write_trials
from results.records.trials import TrialRecord, write_sweep
from sweeps.driver.trials.trial import queued_record
from sweeps.export import main
from tests.hub_server import OWNER, TOKEN, run_python, serve_hub
from tests.one_line_error import one_line_exit
from tests.scripts import ROOT, run_process

TRIAL = "0001-r0"


def record_of(number: int, config: TrialConfig, reports: list[EpochReport]) -> TrialRecord:
    """A trial's record as the ledger writes it; queued without reports."""
    points = [point for report in reports for point in report.points if point.split == "dev"]
    mains = {"overall": "overall", **{name: task.metric for name, task in TASKS.items()}}
    best: dict[str, tuple[float, int]] = {}
    for point in points:
        if point.metric == mains[point.task] and point.value > best.get(point.task, (-1.0, 0))[0]:
            best[point.task] = (point.value, point.epoch)
    queued = queued_record(number, 0, {}, config)
    if not reports:
        return queued
    return replace(
        queued,
        status="complete",
        best={name: value for name, (value, _) in best.items()},
        best_epoch={name: epoch for name, (_, epoch) in best.items()},
        epochs=len(reports),
        steps=reports[-1].step,
        checkpoint=f"trials/{queued.trial_id}/checkpoint",
    )


@pytest.fixture(scope="module")
def trained_sweep(
    tmp_path_factory: pytest.TempPathFactory,
    tiny_corpus: Corpus,
    tiny_encoder: PretrainedEncoder,
) -> Path:
    """A sweep of three trials, of which the second was trained for three epochs, with PALs on two tasks."""
    folder = tmp_path_factory.mktemp("sweeps") / "mine"
    config = TrialConfig.from_json(
        json.dumps({"stages": [{"tasks": ["qqp"], "steps_per_epoch": 4}, {"tasks": list(TASKS), "epochs": 2}]})
    )
    config = config.override(
        {
            "encoder.name": tiny_encoder.name,
            "encoder.max_length": 32,
            "optimizer.learning_rate": 1e-2,
            "pals.size": 8,
            "pals.num_heads": 2,
            "pals.tasks": ["sst", "qqp"],
            **{f"tasks.{task}.scored_train_rows": 0 for task in TASKS},
        }
    )
    reports: list[EpochReport] = []

    def keep(report: EpochReport) -> bool:
        write_epoch(folder, TRIAL, report)
        reports.append(report)
        return True

    states = StateFolder(path=folder / "trials" / TRIAL / "checkpoint")
    train(config, tiny_corpus, tiny_encoder, states=states, on_epoch=keep)
    info = {
        "name": "mine",
        "data": {"fingerprint": "0" * 64, "rows": {"sst-train": 30}},
        "git": {"revision": "abc", "is_changed": True},
        "python": "3.12.1",
        "packages": {"torch": "2.9"},
    }
    write_sweep(folder, info)
    records = [record_of(0, config, []), record_of(1, config, reports), record_of(2, config, [])]
    write_trials(folder, records, tuple(TASKS))
    return folder


@pytest.fixture
def sweep(trained_sweep: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return shutil.copytree(trained_sweep, tmp_path / "mine")


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
        if recorded:  # the first epoch scored one task alone
            found = predict(exported.model, exported.config, tiny_corpus, task, "dev", torch.device("cpu"))
            assert np.array_equal(found.logits, np.array(recorded, dtype=np.float32))
    card = ModelCard.load(tmp_path / "model" / "README.md")
    assert f"the weights of epoch {epoch}, of a trial among 3" in card.text.replace("\n", " ")


def test_best_names_the_trial_with_the_highest_score(
    sweep: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(sweep), "best", str(tmp_path / "model")]) == 0
    assert f"Exported {TRIAL} " in capsys.readouterr().out


def test_moved_encoder_can_be_named(
    sweep: Path, tmp_path: Path, tiny_encoder_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rewrite_encoder(sweep, str(tmp_path / "gone"))
    line = one_line_exit(main, capsys, sweep, TRIAL, tmp_path / "model")
    assert f"encoder folder must exist, or be replaced with --encoder, got no folder {tmp_path / 'gone'}" in line
    line = one_line_exit(main, capsys, sweep, TRIAL, tmp_path / "model", "--encoder", tmp_path / "nowhere")
    assert "--encoder must be a hub name or a folder that exists" in line
    assert main([str(sweep), TRIAL, str(tmp_path / "model"), "--encoder", str(tiny_encoder_folder)]) == 0
    assert load_exported(tmp_path / "model").config.encoder.name == str(tmp_path / "gone")


def rewrite_encoder(sweep: Path, name: str) -> None:
    """Changes the recorded encoder."""
    records = [
        replace(record, config=TrialConfig.from_json(record.config).override({"encoder.name": name}).to_json())
        for record in read_trials(sweep)
    ]
    write_trials(sweep, records, tuple(TASKS))


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
    "never started": (lambda _: None, ("0002-r0",), "trial 0002-r0 (queued) must have kept weights, got none in "),
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
    trained_sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        print("def forward(self, ...)")  # as the exporter prints the graph
        raise torch.onnx.OnnxExporterError("advice\nin many lines") from RuntimeError("no operator sub\nbut others")

    monkeypatch.setattr("torch.onnx.export", fail)
    model = tmp_path / "model"
    rule = "an ONNX file needs an encoder that torch.onnx can write for any length of text (docs/encoders.md)"
    lines = ["Tracing the model for ONNX ...", f"error: {rule}, got bert: no operator sub"]
    for words in (("--onnx",), ("--onnx", "--overwrite")):
        assert main([str(trained_sweep), TRIAL, str(model), *words]) == 2
        out, error = capsys.readouterr()
        assert (out, error.splitlines()) == ("", lines)
        assert [path.name for path in tmp_path.iterdir()] == ["model"] * model.exists()
        if not model.exists():
            assert main([str(trained_sweep), TRIAL, str(model)]) == 0
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
def test_pushed_model_loads_from_the_hub_with_its_weights(trained_sweep: Path, tmp_path: Path) -> None:
    name, folder, loaded = f"{OWNER}/mine", tmp_path / "model", tmp_path / "loaded"
    with serve_hub({}, tmp_path / "uploads") as hub:
        environment = hub.environment(tmp_path / "home")
        words = ["sweeps/export.py", str(trained_sweep), TRIAL, str(folder), "--push-to-hub", name]
        done = run_python({**environment, "HF_TOKEN": TOKEN}, *words)
        assert (done.returncode, done.stdout.splitlines()[-1]) == (0, f"Pushed it to {hub.address}/{name}"), done.stderr
        assert len(hub.commits) == 1
        done = run_python(environment, "-c", LOAD_FROM_HUB, name, str(loaded))
        assert done.returncode == 0, done.stderr
    checkpoint = trained_sweep / "trials" / TRIAL / "checkpoint"
    epoch = json.loads((checkpoint / "best.json").read_text())["overall"]
    kept = load_file(checkpoint / "weights" / f"epoch-{epoch:04d}.safetensors")
    encoder = load_file(loaded / "model.safetensors")
    assert all(torch.equal(kept[f"encoder.{key}"], encoder[key]) for key in encoder if "pooler" not in key)
    card = (tmp_path / "uploads" / name / "README.md").read_text()
    assert str(tmp_path) not in card
    assert str(trained_sweep) not in card


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--push-to-hub", "mine"), "--push-to-hub must be OWNER/NAME, got 'mine'"),
        (("--private",), "--private needs --push-to-hub OWNER/NAME, got none"),
    ],
)
def test_a_wrong_push_is_refused_before_the_export(
    words: tuple[str, ...], message: str, trained_sweep: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert one_line_exit(main, capsys, trained_sweep, TRIAL, tmp_path / "model", *words) == message
    assert not (tmp_path / "model").exists()


@pytest.mark.slow
def test_exporting_loads_no_ray(trained_sweep: Path, tmp_path: Path) -> None:
    done = run_process(["-m", "sweeps.export", str(trained_sweep), TRIAL, str(tmp_path / "model")], ROOT)
    assert (done.code, done.stderr) == (0, "")
    assert not done.heavy_packages & {"ray", "optuna"}
