"""Starting weights: loaded exactly from every kind of folder or file, or refused before training."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoModel

from mtlib.checkpoints.best_weights import keep_best, weights_file
from mtlib.checkpoints.initial_weights import ENCODER_FILE, TASKS_FILE, load_start, read_starting_weights
from mtlib.checkpoints.state import StateFolder, saved_states
from mtlib.config.trial import TrialConfig
from mtlib.data.token_cache import Corpus
from mtlib.model.adapters import without_adapter
from mtlib.model.encoder import PretrainedEncoder, digest_of
from mtlib.model.multitask import MultiTaskModel
from mtlib.tasks import TASKS
from mtlib.train import prepare_run, train
from mtlib.training.step import Interrupted
from tests.mtlib.checkpoints.kept_files import flip
from tests.one_line_error import one_line_error

Begin = Callable[..., tuple[MultiTaskModel, dict[str, str]]]


@pytest.fixture
def trained(tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder) -> dict[str, Tensor]:
    """All weights of a model, each of them changed."""
    stream = torch.Generator().manual_seed(1)
    weights = MultiTaskModel(tiny_config, tiny_encoder).state_dict()
    return {name: weight + torch.randn(weight.shape, generator=stream) for name, weight in weights.items()}


@pytest.fixture
def trial_folder(tmp_path: Path, trained: dict[str, Tensor]) -> Path:
    """A trial's folder with checkpoints of two epochs: the trained weights, best overall, and twice those."""
    states = StateFolder(path=tmp_path / "trial" / "checkpoint")
    keep_best(states, 1, {"overall": 1, "qqp": 1}, trained)
    keep_best(states, 2, {"overall": 1, "qqp": 2}, {name: 2 * weight for name, weight in trained.items()})
    return tmp_path / "trial"


@pytest.fixture
def model_folder(tmp_path: Path, trained: dict[str, Tensor]) -> Path:
    """An exported model's folder with its two weight files."""
    folder = tmp_path / "model"
    folder.mkdir()
    save_file({n.removeprefix("encoder."): t for n, t in part(trained, True).items()}, folder / ENCODER_FILE)
    save_file(part(trained, False), folder / TASKS_FILE)
    return folder


@pytest.fixture
def begin(tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder) -> Begin:
    """A new model after `load_start`, and the digests, for `start_from` and further dotted keys."""

    def build(path: Path | str, **changes: Any) -> tuple[MultiTaskModel, dict[str, str]]:
        config = tiny_config.override({"encoder.start_from": str(path), "seed": 9, **changes})
        model = MultiTaskModel(config, tiny_encoder)
        return model, load_start(config.encoder, model, read_starting_weights(config.encoder))

    return build


def part(weights: dict[str, Tensor], is_encoder: bool) -> dict[str, Tensor]:
    """The encoder's weights, or all others."""
    return {name: weight for name, weight in weights.items() if name.startswith("encoder.") == is_encoder}


def head(weights: dict[str, Tensor], task: str) -> dict[str, Tensor]:
    """The weights of a task's head."""
    return {name: weight for name, weight in weights.items() if name.startswith(f"heads.{task}.")}


def assert_equal(found: dict[str, Tensor], expected: dict[str, Tensor], names: Iterable[str]) -> None:
    for name in names:
        assert torch.equal(found[name], expected[name]), name


@pytest.mark.parametrize(
    "source",
    [
        *("trial", "trial/checkpoint", "trial/checkpoint/weights/epoch-0001.safetensors"),
        *("model", "~/model/model.safetensors"),
    ],
)
@pytest.mark.usefixtures("trial_folder", "model_folder")
def test_every_folder_and_file_of_a_trial_or_model_gives_the_same_encoder(
    source: str, tmp_path: Path, trained: dict[str, Tensor], begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    model, digests = begin(source)
    assert_equal(model.state_dict(), trained, part(trained, True))
    assert digests == {"encoder": digest_of(part(trained, True))}


def test_an_adapter_is_added_to_the_weights_that_a_trial_starts_from(
    model_folder: Path, trained: dict[str, Tensor], begin: Begin, tmp_path: Path
) -> None:
    model, digests = begin(model_folder, **{"adapter.method": "lora"})
    plain = {without_adapter(name): weight for name, weight in model.state_dict().items()}
    assert_equal(plain, trained, part(trained, True))
    assert digests == {"encoder": digest_of(part(trained, True))}
    save_file(model.state_dict(), tmp_path / "adapted.safetensors")
    with pytest.raises(ValueError, match="a trial with an adapter, which must be exported first"):
        begin(tmp_path / "adapted.safetensors")


def test_heads_are_new_without_start_heads(
    model_folder: Path, trial_folder: Path, trained: dict[str, Tensor], begin: Begin
) -> None:
    heads = part(trained, False)
    new = begin(trial_folder)[0].state_dict()
    assert not any(torch.equal(new[name], heads[name]) for name in heads if name.endswith("weight"))
    for source in (model_folder, trial_folder):
        model, digests = begin(source, **{"encoder.start_heads": True})
        assert_equal(model.state_dict(), trained, trained)
        by_part = {"encoder": part(trained, True)} | {f"heads.{task}": head(trained, task) for task in TASKS}
        assert digests == {name: digest_of(weights) for name, weights in by_part.items()}


def test_heads_of_another_shape_or_name_are_new(model_folder: Path, trained: dict[str, Tensor], begin: Begin) -> None:
    changes = {"tasks.sst.hidden_units": 7, "pals.size": 8, "pals.num_heads": 2, "pals.tasks": ["qqp"]}
    model, digests = begin(model_folder, **{"encoder.start_heads": True, **changes})
    assert set(digests) == {"encoder", "heads.qqp", "heads.sts"}  # SST's bias alone would fit
    found, same = model.state_dict(), [name for name in part(trained, False) if ".sst." not in name]
    assert_equal(found, trained, same)
    assert found["heads.sst.weight"].shape == (5, 7)
    assert any(name.startswith("pals.qqp.") for name in found)


def test_starting_from_missing_heads_is_refused(model_folder: Path, begin: Begin) -> None:
    (model_folder / TASKS_FILE).unlink()
    begin(model_folder)
    message = one_line_error(begin, model_folder, **{"encoder.start_heads": True})
    assert "encoder.start_heads must be false unless heads fit" in message


def test_the_best_epoch_of_a_task_can_be_chosen(trial_folder: Path, trained: dict[str, Tensor], begin: Begin) -> None:
    found = begin(trial_folder, **{"encoder.start_epoch": "qqp"})[0].state_dict()
    assert all(torch.equal(found[name], 2 * weight) for name, weight in part(trained, True).items())
    message = one_line_error(begin, trial_folder, **{"encoder.start_epoch": "sts"})
    assert "unknown encoder.start_epoch for " in message
    assert message.endswith("known: overall, qqp")


def test_a_pooler_saved_by_transformers_is_ignored(tmp_path: Path, begin: Begin, tiny_encoder_folder: Path) -> None:
    """As after `AutoModel.from_pretrained(folder).save_pretrained(other)`."""
    saved = AutoModel.from_pretrained(tiny_encoder_folder)
    saved.save_pretrained(tmp_path / "again")
    assert any(name.startswith("pooler.") for name in load_file(tmp_path / "again" / ENCODER_FILE))
    found = begin(tmp_path / "again")[0].state_dict()
    for name, weight in saved.state_dict().items():
        assert name.startswith("pooler.") or torch.equal(found[f"encoder.{name}"], weight)


def spoil(folder: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    """Changes the encoder's weights in their file."""
    weights = load_file(folder / ENCODER_FILE)
    change(weights)
    save_file(weights, folder / ENCODER_FILE)


BIAS = "encoder.layer.2.output.dense.bias"
FAULTS: dict[str, Callable[[Path], object]] = {
    f": 1 weight is unknown to it, first encoder.{BIAS}": lambda folder: spoil(
        folder, lambda weights: weights.update({BIAS: torch.zeros(32)})
    ),
    "must hold undamaged weights, in ": lambda folder: spoil(
        folder, lambda weights: weights["embeddings.LayerNorm.bias"].fill_(float("nan"))
    ),
    "tasks.safetensors is cut off": lambda folder: os.truncate(folder / TASKS_FILE, 100),
    "which holds neither best.json nor model": lambda folder: (folder / ENCODER_FILE).unlink(),
}


@pytest.mark.parametrize("message", FAULTS)
def test_unusable_weights_are_one_line(message: str, model_folder: Path, begin: Begin) -> None:
    FAULTS[message](model_folder)
    found = one_line_error(begin, model_folder)
    assert found.startswith("encoder.start_from must ")
    assert message in found


def test_damaged_weights_of_a_trial_are_one_line(trial_folder: Path, begin: Begin) -> None:
    flip(StateFolder(path=trial_folder / "checkpoint"), weights_file(1))
    found = one_line_error(begin, trial_folder)
    assert found.startswith("encoder.start_from must hold undamaged weights, got ")
    assert begin(trial_folder, **{"encoder.start_epoch": "qqp"})[1]  # those of the other epoch are whole


def test_a_run_and_its_mean_teacher_start_from_the_weights(
    model_folder: Path,
    trained: dict[str, Tensor],
    tiny_config: TrialConfig,
    tiny_corpus: Corpus,
    tiny_encoder: PretrainedEncoder,
) -> None:
    changes = {"encoder.start_from": str(model_folder), "proximal.weight": 1.0, "proximal.tasks": ["sst"]}
    config = tiny_config.override(changes)
    start, cpu = read_starting_weights(config.encoder), torch.device("cpu")
    run = prepare_run(config, tiny_corpus, tiny_encoder, cpu, lambda objective: objective, None, start)
    assert run.teacher is not None
    for model in (run.model, run.teacher):
        assert_equal(model.state_dict(), trained, part(trained, True))


def test_a_state_with_other_starting_weights_is_not_resumed(
    tmp_path: Path,
    model_folder: Path,
    tiny_config: TrialConfig,
    tiny_corpus: Corpus,
    tiny_encoder: PretrainedEncoder,
) -> None:
    config = tiny_config.override({"encoder.start_from": str(model_folder)})
    states, start = StateFolder(path=tmp_path / "states", checkpoint_steps=1), read_starting_weights(config.encoder)
    for step in (2, 3):  # of the same weights it is
        with pytest.raises(Interrupted):
            train(config, tiny_corpus, tiny_encoder, states=states, on_step=lambda now: now.step < step, start=start)  # noqa: B023
        assert saved_states(states)[0].startswith(f"state-{step:09d}")
    weights = load_file(model_folder / ENCODER_FILE)
    save_file({name: weight + 1 for name, weight in weights.items()}, model_folder / ENCODER_FILE)
    with pytest.raises(ValueError, match="a saved state must be of the same starting weights, "):
        train(config, tiny_corpus, tiny_encoder, states=states, start=read_starting_weights(config.encoder))


def test_heads_after_start_from_use_another_stream(tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder) -> None:
    settings = {"pals.size": 8, "pals.num_heads": 2, "pals.tasks": ["sst"], "relational_tasks": ["qqp", "sts"]}
    first, second = (
        MultiTaskModel(tiny_config.override({**settings, "encoder.start_from": start}), tiny_encoder).state_dict()
        for start in (None, "/there")
    )
    for name, tensor in first.items():
        is_new = not name.startswith("encoder.") and not name.endswith("bias")
        assert torch.equal(tensor, second[name]) != is_new, name
