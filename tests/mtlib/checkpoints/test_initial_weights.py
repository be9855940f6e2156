"""Starting weights: loaded exactly from every kind of folder or file, or refused before training."""

import json
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoModel, BertConfig, BertModel

from mtlib.checkpoints.best_weights import CHECKSUMS_FILE, keep_best, weights_file
from mtlib.checkpoints.initial_weights import ENCODER_FILE, TASKS_FILE, check_fit, load_start, read_starting_weights
from mtlib.checkpoints.state import StateFolder
from mtlib.config.trial import TrialConfig
from mtlib.data.token_cache import Corpus
from mtlib.model.adapters import without_adapter
from mtlib.model.encoder import PretrainedEncoder, digest_of
from mtlib.model.multitask import MultiTaskModel
from mtlib.tasks import TASKS
from mtlib.train import prepare_run, train
from mtlib.training.step import Interrupted

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


def assert_one_line(error: pytest.ExceptionInfo[ValueError]) -> None:
    assert len(str(error.value).splitlines()) == 1


def test_without_start_from_the_pretrained_weights_stay(
    tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder
) -> None:
    model = MultiTaskModel(tiny_config, tiny_encoder)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    assert load_start(tiny_config.encoder, model, None) == {}
    assert_equal(model.state_dict(), before, before)


@pytest.mark.parametrize("source", ["trial", "trial/checkpoint", "trial/checkpoint/weights/epoch-0001.safetensors"])
def test_a_trial_its_checkpoint_and_its_file_give_the_same_encoder(
    trial_folder: Path, trained: dict[str, Tensor], begin: Begin, source: str
) -> None:
    model, digests = begin(trial_folder.parent / source)
    assert_equal(model.state_dict(), trained, part(trained, True))
    assert digests == {"encoder": digest_of(part(trained, True))}


@pytest.mark.parametrize("source", ["model", "model/model.safetensors", "renamed.safetensors"])
def test_an_exported_model_and_its_file_give_the_same_encoder(
    model_folder: Path, trained: dict[str, Tensor], begin: Begin, source: str
) -> None:
    shutil.copy(model_folder / ENCODER_FILE, model_folder.parent / "renamed.safetensors")
    model, digests = begin(model_folder.parent / source)
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
    with pytest.raises(ValueError, match=r"encoder\.start_heads must be false .*no head weights that fit") as e:
        begin(model_folder, **{"encoder.start_heads": True})
    assert_one_line(e)


def test_the_best_epoch_of_a_task_can_be_chosen(trial_folder: Path, trained: dict[str, Tensor], begin: Begin) -> None:
    found = begin(trial_folder, **{"encoder.start_epoch": "qqp"})[0].state_dict()
    for name, weight in part(trained, True).items():
        assert torch.equal(found[name], 2 * weight)


def test_an_epoch_that_was_not_kept_is_refused_with_the_kept_ones(trial_folder: Path, begin: Begin) -> None:
    with pytest.raises(ValueError, match=r"unknown encoder\.start_epoch for .* 'sts'; .*known: overall, qqp") as e:
        begin(trial_folder, **{"encoder.start_epoch": "sts"})
    assert_one_line(e)


def test_an_unknown_epoch_is_refused_when_the_configuration_is_built(tiny_config: TrialConfig) -> None:
    with pytest.raises(ValueError, match=r"unknown encoder\.start_epoch 'overal'; did you mean 'overall'"):
        tiny_config.override({"encoder.start_epoch": "overal"})


def test_a_home_folder_may_be_abbreviated(
    model_folder: Path, trained: dict[str, Tensor], begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(model_folder.parent))
    assert_equal(begin("~/model")[0].state_dict(), trained, part(trained, True))


def test_a_pooler_saved_by_transformers_is_ignored(tmp_path: Path, begin: Begin, tiny_encoder_folder: Path) -> None:
    """As after `AutoModel.from_pretrained(folder).save_pretrained(other)`."""
    saved = AutoModel.from_pretrained(tiny_encoder_folder)
    saved.save_pretrained(tmp_path / "again")
    assert any(name.startswith("pooler.") for name in load_file(tmp_path / "again" / ENCODER_FILE))
    found = begin(tmp_path / "again")[0].state_dict()
    for name, weight in saved.state_dict().items():
        assert name.startswith("pooler.") or torch.equal(found[f"encoder.{name}"], weight)


def test_half_precision_is_converted_to_fp32(model_folder: Path, trained: dict[str, Tensor], begin: Begin) -> None:
    half = {name: weight.bfloat16() for name, weight in load_file(model_folder / ENCODER_FILE).items()}
    save_file(half, model_folder / ENCODER_FILE)
    model, digests = begin(model_folder)
    expected = {name: weight.bfloat16().float() for name, weight in part(trained, True).items()}
    assert_equal(model.state_dict(), expected, expected)
    assert digests == {"encoder": digest_of(expected)}


def test_one_changed_weight_changes_the_digest(trained: dict[str, Tensor]) -> None:
    name = next(iter(trained))
    changed = trained[name].clone()
    changed.view(-1)[0] += 1
    assert digest_of({**trained, name: changed}) != digest_of(trained)
    assert digest_of(dict(reversed(trained.items()))) == digest_of(trained)


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def widen(folder: Path) -> None:
    """Replaces the encoder by one of another width."""
    config = BertConfig(
        vocab_size=27, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=64
    )
    BertModel(config, add_pooling_layer=False).save_pretrained(folder)


def deepen(folder: Path) -> None:
    """Adds a third layer's weight."""
    weights = load_file(folder / ENCODER_FILE)
    save_file({**weights, "encoder.layer.2.output.dense.bias": torch.zeros(32)}, folder / ENCODER_FILE)


def thin(folder: Path) -> None:
    """Removes two weights."""
    weights = load_file(folder / ENCODER_FILE)
    save_file({name: weights[name] for name in sorted(weights)[2:]}, folder / ENCODER_FILE)


def break_up(folder: Path) -> None:
    """Makes one weight NaN."""
    weights = load_file(folder / ENCODER_FILE)
    weights["encoder.layer.1.output.dense.bias"][2] = float("nan")
    save_file(weights, folder / ENCODER_FILE)


FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "another width": (widen, r"must fit the encoder, in .*: \d+ weights are of another size, first encoder\."),
    "a layer more": (deepen, r": 1 weight is unknown to it, first encoder\.encoder\.layer\.2\.output\.dense\.bias"),
    "two weights less": (thin, r": 2 weights are missing, first encoder\.embeddings\."),
    "half a file": (lambda folder: truncate(folder / ENCODER_FILE), "got .*model.safetensors is cut off"),
    "half the heads": (lambda folder: truncate(folder / TASKS_FILE), "got .*tasks.safetensors is cut off"),
    "an empty file": (lambda folder: (folder / ENCODER_FILE).write_bytes(b""), "model.safetensors is empty"),
    "NaN": (break_up, r"must hold undamaged weights, in .*, got NaN .*encoder\.layer\.1\.output\.dense\.bias"),
    "no encoder": (lambda folder: (folder / ENCODER_FILE).unlink(), "which holds neither best.json nor model"),
    "no folder": (shutil.rmtree, "got .*model, which is missing"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_unusable_weights_are_one_line_before_any_step(
    fault: str, model_folder: Path, tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder
) -> None:
    spoil, message = FAULTS[fault]
    spoil(model_folder)
    config = tiny_config.override({"encoder.start_from": str(model_folder)})

    def never(_: object) -> bool:
        raise AssertionError("a step was taken")

    with pytest.raises(ValueError, match=message) as e:
        train(
            config,
            tiny_corpus,
            tiny_encoder,
            on_step=never,
            on_epoch=never,
            start=read_starting_weights(config.encoder),
        )
    assert_one_line(e)
    assert str(e.value).startswith("encoder.start_from must ")


def test_a_file_of_heads_alone_is_refused(model_folder: Path, begin: Begin) -> None:
    with pytest.raises(ValueError, match=r"weights are missing, first encoder\."):
        begin(model_folder / TASKS_FILE)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"overall": null}', '{"overall": "one"}'])
def test_a_damaged_list_of_best_epochs_is_one_line(trial_folder: Path, begin: Begin, text: str) -> None:
    (trial_folder / "checkpoint" / "best.json").write_text(text)
    with pytest.raises(ValueError, match=r"encoder\.start_from must hold an undamaged best\.json, got ") as e:
        begin(trial_folder)
    assert_one_line(e)


def test_weights_that_best_json_names_but_are_missing_are_one_line(trial_folder: Path, begin: Begin) -> None:
    (trial_folder / "checkpoint" / weights_file(1)).unlink()
    with pytest.raises(ValueError, match=r"must hold undamaged weights, got .*0001\.safetensors is missing$") as e:
        begin(trial_folder)
    assert_one_line(e)


def test_weights_with_one_flipped_bit_are_one_line(trial_folder: Path, begin: Begin) -> None:
    path = trial_folder / "checkpoint" / weights_file(1)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(ValueError, match=r"must hold undamaged weights, got .*0001.* its checksum is wrong$") as e:
        begin(trial_folder)
    assert_one_line(e)
    assert begin(trial_folder, **{"encoder.start_epoch": "qqp"})[1]  # those of the other epoch are whole


def test_weights_without_checksums_can_be_started_from(trial_folder: Path, begin: Begin) -> None:
    _, digests = begin(trial_folder)
    (trial_folder / "checkpoint" / CHECKSUMS_FILE).unlink()
    assert begin(trial_folder)[1] == digests


def test_a_folder_with_deleted_weights_lists_what_remains(trial_folder: Path, begin: Begin) -> None:
    best = trial_folder / "checkpoint" / "best.json"
    best.write_text('{"qqp": 2}')
    with pytest.raises(ValueError, match=r"^unknown encoder\.start_epoch for .* 'overall'; known: qqp$"):
        begin(trial_folder)
    best.write_text("{}")
    with pytest.raises(
        ValueError, match=r"must hold weights of a best epoch, got .*, whose weights were pruned, "
    ) as e:
        begin(trial_folder)
    assert_one_line(e)


def test_weights_fit_by_name_and_shape() -> None:
    expected = {"a": torch.zeros(2), "b": torch.zeros(3, 1)}
    check_fit("rule", {"a": torch.ones(2), "b": torch.ones(3, 1)}, expected)
    check_fit("rule", {}, {})
    with pytest.raises(ValueError, match=r"^rule: 1 weight is of another size, first b$"):
        check_fit("rule", {"a": torch.ones(2), "b": torch.ones(1, 3)}, expected)
    with pytest.raises(ValueError, match=r"^rule: 2 weights are missing, first a$"):
        check_fit("rule", {}, expected)


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
    with pytest.raises(Interrupted):
        train(config, tiny_corpus, tiny_encoder, states=states, on_step=lambda progress: progress.step < 2, start=start)
    with pytest.raises(Interrupted):  # the same weights
        train(config, tiny_corpus, tiny_encoder, states=states, on_step=lambda progress: progress.step < 3, start=start)
    kept = json.loads(max((tmp_path / "states").glob("state-*/state.json")).read_text())
    assert json.loads(kept["numbers"])["step"] == 3
    weights = load_file(model_folder / ENCODER_FILE)
    save_file({name: weight + 1 for name, weight in weights.items()}, model_folder / ENCODER_FILE)
    with pytest.raises(ValueError, match="a saved state must be of the same starting weights, ") as e:
        train(config, tiny_corpus, tiny_encoder, states=states, start=read_starting_weights(config.encoder))
    assert_one_line(e)


def test_heads_after_start_from_use_another_stream(tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder) -> None:
    settings = {"pals.size": 8, "pals.num_heads": 2, "pals.tasks": ["sst"], "relational_tasks": ["qqp", "sts"]}
    first, second = (
        MultiTaskModel(tiny_config.override({**settings, "encoder.start_from": start}), tiny_encoder).state_dict()
        for start in (None, "/there")
    )
    for name, tensor in first.items():
        is_new = not name.startswith("encoder.") and not name.endswith("bias")
        assert torch.equal(tensor, second[name]) != is_new, name
