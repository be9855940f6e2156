"""Names of encoders, and errors from the hub's responses."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from huggingface_hub import HfApi
from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

from mtlib.model.hub import ask_hub, is_folder, read_encoder_name


def test_a_folder_is_resolved_and_a_hub_name_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own").mkdir()
    assert read_encoder_name("own") == read_encoder_name("./own") == str((tmp_path / "own").resolve())
    assert read_encoder_name("bert-base-uncased") == "bert-base-uncased"
    assert read_encoder_name("owner/name") == "owner/name"


@pytest.mark.parametrize("name", ["./no", "/no/such", "~/no-such-folder", "a/b/c"])
def test_a_name_that_can_only_be_a_folder_must_exist(name: str) -> None:
    with pytest.raises(ValueError, match="--encoder must be a hub name or a folder that exists, got '"):
        read_encoder_name(name)


def test_names_are_parsed_without_torch_or_the_hub() -> None:
    code = "import sys, mtlib.model.hub; print({'torch', 'transformers', 'huggingface_hub'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "set()\n"


def test_a_folder_is_never_looked_up_on_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own").mkdir()
    assert is_folder("own")
    assert is_folder(str(tmp_path / "gone"))
    assert not is_folder("bert-base-uncased")
    assert not is_folder("owner/name")


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """Sets the hub's response, or its exception, for a model."""

    def set_answer(found: Any) -> None:
        def reply(*_arguments: object, **_options: object) -> Any:
            if isinstance(found, Exception):
                raise found
            return SimpleNamespace(siblings=[SimpleNamespace(rfilename=name, size=size) for name, size in found])

        monkeypatch.setattr("huggingface_hub.HfApi.model_info", reply)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", "/cache")

    return set_answer


def test_an_unreachable_hub_is_one_line_without_retries(answer: Callable[[Any], None]) -> None:
    answer(ConnectionError("Name or service not known"))
    with pytest.raises(ValueError) as raised:
        ask_hub("no-such-owner/no-such-encoder")
    assert str(raised.value) == (
        "encoder 'no-such-owner/no-such-encoder' is neither a local folder nor complete in /cache, and the Hugging "
        "Face hub cannot be queried (Name or service not known); name a local folder with --encoder"
    )


def test_an_unknown_name_is_one_line(answer: Callable[[Any], None]) -> None:
    answer(RepositoryNotFoundError.__new__(RepositoryNotFoundError))
    with pytest.raises(ValueError) as raised:
        ask_hub("bert-bse")
    assert str(raised.value) == (
        "--encoder must be a local folder or a name that the Hugging Face hub knows, got 'bert-bse', neither a local "
        f"folder nor complete in /cache, nor at {HfApi().endpoint}"
    )


def test_a_gated_encoder_names_the_access_token_that_it_needs(answer: Callable[[Any], None]) -> None:
    answer(GatedRepoError.__new__(GatedRepoError))
    with pytest.raises(ValueError) as raised:
        ask_hub("owner/gated")
    assert str(raised.value) == (
        f"encoder 'owner/gated' is gated at {HfApi().endpoint} and needs an access token with permission "
        "(set HF_TOKEN or use `hf auth login`); it is neither a local folder nor complete in /cache"
    )


@pytest.mark.parametrize("files", [[], [("config.json", 5), ("tf_model.h5", 100), ("optimizer.bin", 9)]])
def test_a_repository_without_weights_is_one_line(files: list[tuple[str, int]], answer: Callable[[Any], None]) -> None:
    answer(files)
    rule = "encoder 'a/b' must have its weights as model.safetensors or pytorch_model.bin, got neither a local folder"
    with pytest.raises(ValueError, match=re.escape(rule)) as raised:
        ask_hub("a/b")
    assert str(raised.value).endswith(f"nor complete in /cache, and none of these at {HfApi().endpoint}/a/b")


@pytest.mark.parametrize(
    ("files", "size"),
    [
        ([("model.safetensors", 400), ("pytorch_model.bin", 401), ("tf_model.h5", 402)], 400),
        ([("pytorch_model.bin", 401), ("config.json", 7)], 401),
        ([(f"model-0000{n}-of-00002.safetensors", n) for n in (1, 2)] + [("model.safetensors.index.json", 9)], 3),
        ([(f"pytorch_model-0000{n}-of-00002.bin", n) for n in (1, 2)], 3),
        ([("model.safetensors", None)], 0),
    ],
)
def test_the_size_of_the_weights_to_fetch_is_known(
    files: list[tuple[str, Any]], size: int, answer: Callable[[Any], None]
) -> None:
    answer(files)
    assert ask_hub("a/b") == size
