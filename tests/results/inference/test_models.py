"""Models of members give their recorded logits; missing files are one line."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from mtlib.config.trial import TrialConfig
from mtlib.data.tokenizer_facts import AUTO_TOKENIZER, TOKENIZER_FILE
from mtlib.model import encoder
from mtlib.tasks import TASKS
from results.inference.models import ModelSource, check_frozen_encoder, find_sweeps, load_models
from results.records.tables import read_trials, write_trials
from results.records.trials import TOKENIZERS_KEY, TokenizerRecord, read_sweep, write_sweep
from tests.one_line_error import one_line_error
from tests.results.inference.trained_sweep import FIRST, SECOND, THIRD, kept_epoch, member_of, selection_of, source_of


def rewrite_encoder(folder: Path, trials: tuple[str, ...], name: str) -> None:
    """Changes the recorded encoder."""
    rewrite(folder, trials, {"encoder.name": name})


def rewrite(folder: Path, trials: tuple[str, ...], changes: dict[str, str]) -> None:
    """Changes the recorded configuration of some trials."""
    records = [
        replace(record, config=TrialConfig.from_json(record.config).override(changes).to_json())
        if record.trial_id in trials
        else record
        for record in read_trials(folder)
    ]
    write_trials(folder, records, tuple(TASKS))


@pytest.fixture
def folder(trained_folder: Path, tmp_path: Path) -> Path:
    """A copy to change."""
    return shutil.copytree(trained_folder, tmp_path / "copies" / "mine")


def test_models_have_the_weights_and_configuration_of_their_trials(trained_folder: Path) -> None:
    members = [member_of(trained_folder, SECOND, "sts"), member_of(trained_folder, FIRST, "sts")]
    second, first = load_models(members, "sts", source_of(trained_folder))
    assert (second.config.encoder.max_length, first.config.encoder.max_length) == (9, 32)
    for loaded, trial in ((second, SECOND), (first, FIRST)):
        assert not loaded.model.training
        epoch = kept_epoch(trained_folder, trial, "sts")
        weights = load_file(trained_folder / f"trials/{trial}/checkpoint/weights/epoch-{epoch:04d}.safetensors")
        own = loaded.model.state_dict()
        assert all(torch.equal(own[name], weight) for name, weight in weights.items())
        assert loaded.name == f"trial {trial} of {trained_folder} at epoch {epoch}"


def test_encoder_is_loaded_once(trained_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[str] = []
    real = encoder.load_encoder

    def load(name: str, tokenizer_source: str) -> encoder.PretrainedEncoder:
        loads.append(name)
        return real(name, tokenizer_source)

    monkeypatch.setattr(encoder, "load_encoder", load)
    source = source_of(trained_folder)
    for task in ("sts", "sst"):
        members = [member_of(trained_folder, trial, task) for trial in (FIRST, SECOND)]
        first, second = load_models(members, task, source)
        assert first.pretrained is second.pretrained
        assert first.model is not second.model
    assert len(loads) == 1


def test_a_model_keeps_the_tokenizer_of_its_training(folder: Path) -> None:
    member = member_of(folder, FIRST, "sts")
    (before,) = load_models([member], "sts", source_of(folder))
    name = before.config.encoder.name
    record = vars(TokenizerRecord(source=TOKENIZER_FILE))
    write_sweep(folder, {**read_sweep(folder), TOKENIZERS_KEY: {name: record}})
    (after,) = load_models([member], "sts", source_of(folder))
    assert [own.pretrained.tokenizer_source for own in (before, after)] == [AUTO_TOKENIZER, TOKENIZER_FILE]


def test_moved_encoder_can_be_named_but_not_two(folder: Path, tiny_encoder_folder: Path) -> None:
    members = [member_of(folder, FIRST, "sst"), member_of(folder, SECOND, "sst")]
    source = source_of(folder, encoder=str(tiny_encoder_folder))
    rewrite_encoder(folder, (SECOND,), "/no/such/encoder")
    message = one_line_error(load_models, members, "sst", source)
    assert "replace a single pretrained encoder only, got models of /" in message
    assert len(load_models(members[1:], "sst", source)) == 1
    message = one_line_error(load_models, members, "sst", source_of(folder))
    assert message.endswith("or be replaced with --encoder, got no folder /no/such/encoder")


def test_adapters_are_loaded_beside_the_encoder_of_their_sweep_alone(trained_folder: Path, tmp_path: Path) -> None:
    (loaded,) = load_models([member_of(trained_folder, FIRST, "sst")], "sst", source_of(trained_folder))
    write_sweep(
        tmp_path, {"encoder": {"name": loaded.config.encoder.name, "fingerprint": loaded.pretrained.fingerprint}}
    )
    config, other = loaded.config.override({"adapter.method": "lora"}), replace(loaded.pretrained, fingerprint="other")
    check_frozen_encoder(config, loaded.pretrained, tmp_path)
    check_frozen_encoder(loaded.config, other, tmp_path)
    message = one_line_error(check_frozen_encoder, config, other, tmp_path)
    assert message.startswith("the encoder must be the one beside which adapters of")


def test_missing_files_and_devices_are_one_line(
    trained_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    member, source = member_of(trained_folder, FIRST, "sst"), source_of(trained_folder)
    for wrong, task, message in (
        (replace(member, sweep="elsewhere"), "sst", "unknown sweep of a selection 'elsewhere'"),
        (
            replace(member, trial="0009-r0"),
            "sst",
            f"unknown trial of {trained_folder} '0009-r0'; did you mean '0002-r0'?",
        ),
        (replace(member, trial=THIRD), "sst", "trial 0002-r0 (pruned) must have kept weights, got none"),
        (replace(member, epoch=99), "sst", "epoch-0099.safetensors is missing (a sweep deletes"),
        (member, "tone", f"unknown task of trial {FIRST} of {trained_folder} at epoch {member.epoch} 'tone'"),
    ):
        assert message in one_line_error(load_models, [wrong], task, source)
    gone = ModelSource(places={str(trained_folder): tmp_path / "gone"})
    message = one_line_error(load_models, [member], "sst", gone)
    assert message.startswith("the sweep of a member must be at the path recorded in selection.json")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    message = one_line_error(load_models, [member], "sst", source_of(trained_folder, device="cuda"))
    assert message.startswith("--device cuda needs a GPU")


@pytest.mark.parametrize("before", ["/gone/mine", "/gone/renamed", "s3://bucket/sweeps/mine"])
@pytest.mark.parametrize("is_uri", [False, True])
def test_sweep_of_an_older_selection_is_found_at_its_folder_that_has_moved(
    folder: Path, is_uri: bool, before: str
) -> None:
    selection = selection_of(folder, {"sst": (member_of(folder, FIRST, "sst", sweep=before),)})
    selection = replace(selection, sweeps={before: "a", "/sweeps/other": "b"})
    home = folder.as_uri() if is_uri else folder
    places = find_sweeps(selection, home)
    assert places == {before: home, "/sweeps/other": "/sweeps/other"}
    (found,) = load_models(selection.tasks["sst"].members, "sst", ModelSource(places=places, device="cpu"))
    assert found.name.startswith(f"trial {FIRST} of {before} ")


def test_sweep_is_at_its_recorded_place_where_another_one_would_be_a_guess(folder: Path, tmp_path: Path) -> None:
    there, mine = str(folder), str(tmp_path / "mine")
    selection, elsewhere = selection_of(folder, {}), "python results/selector.py mine --output elsewhere"
    for changes in (
        {"sweeps": {there: "a"}},
        {"sweeps": {mine: "a", there: "a"}},
        {"sweeps": {mine: "a"}, "command": elsewhere},
    ):
        found = find_sweeps(replace(selection, **changes), folder)
        assert found == {sweep: sweep for sweep in changes["sweeps"]}
    assert find_sweeps(replace(selection, sweeps={mine: "a"}), tmp_path / "no-sweep") == {mine: mine}
