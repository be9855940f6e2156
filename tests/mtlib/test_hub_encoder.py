"""Encoders are found by name, and what hinders that is one line at once."""

import subprocess
import sys
from pathlib import Path

import pytest
from huggingface_hub.errors import RepositoryNotFoundError

from mtlib.encoder import PretrainedEncoder
from mtlib.hub_encoder import check_hub, find_encoder, read_encoder_name


def test_an_encoder_is_loaded_from_its_folder(tiny_encoder_folder: Path, tiny_encoder: PretrainedEncoder) -> None:
    assert find_encoder(str(tiny_encoder_folder)).fingerprint == tiny_encoder.fingerprint


def test_a_folder_that_has_gone_is_not_looked_for_on_the_hub(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"or be named with --encoder, got no folder /.*/gone$"):
        find_encoder(str(tmp_path / "gone"))


def test_a_folder_is_named_absolutely_and_a_hub_name_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own").mkdir()
    assert read_encoder_name("own") == read_encoder_name("./own") == str((tmp_path / "own").resolve())
    assert read_encoder_name("bert-base-uncased") == "bert-base-uncased"
    assert read_encoder_name("owner/name") == "owner/name"


@pytest.mark.parametrize("name", ["./no", "/no/such", "~/no-such-folder", "a/b/c"])
def test_what_can_only_be_a_folder_must_be_there(name: str) -> None:
    with pytest.raises(ValueError, match="--encoder must be a hub name or a folder that exists, got '"):
        read_encoder_name(name)


def test_names_are_read_without_torch_or_the_hub() -> None:
    code = "import sys, mtlib.hub_encoder; print({'torch', 'transformers', 'huggingface_hub'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "set()\n"


def test_a_hub_that_cannot_be_reached_is_one_line_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object, **_options: object) -> None:
        raise ConnectionError("Name or service not known")

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", fail)
    with pytest.raises(ValueError, match="is not on this machine and the Hugging Face hub cannot be asked") as raised:
        check_hub("no-such-owner/no-such-encoder")
    assert "(Name or service not known); name a local folder" in str(raised.value)


def test_a_name_that_the_hub_does_not_know_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object, **_options: object) -> None:
        raise RepositoryNotFoundError.__new__(RepositoryNotFoundError)

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", fail)
    with pytest.raises(ValueError, match="a name that the Hugging Face hub knows, got 'bert-bse'"):
        check_hub("bert-bse")


def test_what_is_on_this_machine_needs_no_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object, **_options: object) -> None:
        raise AssertionError("asked")

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", fail)
    check_hub(str(tmp_path))
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda _name, file: f"/cache/{file}")
    check_hub("bert-base-uncased")
