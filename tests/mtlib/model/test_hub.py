"""Names of encoders, errors from the hub's responses, and previews of encoders that read no weights."""

import contextlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from huggingface_hub import HfApi
from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError
from safetensors.torch import load_file

from mtlib.model.encoder import PretrainedEncoder, preview_encoder
from mtlib.model.hub import ask_hub, is_folder, read_encoder_name
from tests.architectures import DECODERS
from tests.hub_server import ROOT, Hub, serve_hub


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
        "Face hub cannot be queried (Name or service not known); name a local folder"
    )


def test_an_unknown_name_is_one_line(answer: Callable[[Any], None]) -> None:
    answer(RepositoryNotFoundError.__new__(RepositoryNotFoundError))
    with pytest.raises(ValueError) as raised:
        ask_hub("bert-bse")
    assert str(raised.value) == (
        "an encoder must be a local folder or a name that the Hugging Face hub knows, got 'bert-bse', neither a local "
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


ANSWER = """
import json, sys, torch
from mtlib.model.encoder import load_encoder, preview_encoder

def describe(encoder):
    shapes = {name: weight.shape for name, weight in encoder.weights.items()}
    tokens = encoder.tokenizer("the dog sings")["input_ids"]
    return {"shapes": shapes, "tokens": tokens, "max_length": encoder.max_length}

def load(name):
    return describe(load_encoder(name))

def preview(name):
    torch.manual_seed(3)
    found = preview_encoder(name)
    where = {"place": found.place, "is_local": found.is_local, "draw": torch.rand(()).item()}
    return {**where, **describe(found.pretrained)}

for line in sys.stdin:
    function, name = line.split()
    try:
        answer = {"load": load, "preview": preview}[function](name)
    except ValueError as error:
        answer = str(error)
    print(json.dumps(answer), flush=True)
"""
"""A process that loads or previews an encoder for each input line and prints its description or error."""

Answer = dict[str, object] | str
Query = Callable[[str, str], Answer]
"""`query("load", name)` or `query("preview", name)`: a description of the encoder, or the error."""


@contextlib.contextmanager
def start_process(hub: Hub, home: Path) -> Iterator[Query]:
    """A process with this hub, whose caches are below `home`; huggingface_hub reads both when it is imported."""
    with subprocess.Popen(
        [sys.executable, "-c", ANSWER],
        cwd=ROOT,
        env=hub.environment(home),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,  # the preview must print nothing
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        questions, answers = process.stdin, process.stdout

        def query(function: str, name: str) -> Answer:
            print(function, name, file=questions, flush=True)
            answer: Answer = json.loads(answers.readline())
            return answer

        yield query
        questions.close()


@pytest.fixture(scope="module")
def served(tiny_encoder_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub with an encoder under two names, a decoder, and an encoder without weights."""
    folder = tmp_path_factory.mktemp("repositories")
    decoder, bare = folder / "decoder", folder / "bare"
    DECODERS["llama"].save_pretrained(decoder)
    (decoder / "model.safetensors").write_bytes(bytes(100))
    shutil.copytree(tiny_encoder_folder, bare)
    (bare / "model.safetensors").rename(bare / "tf_model.h5")
    names = {"someone/tiny": tiny_encoder_folder, "someone/cached": tiny_encoder_folder}
    with serve_hub({**names, "someone/llama": decoder, "someone/bare": bare}) as hub:
        yield hub


@pytest.fixture
def hub(served: Hub) -> Hub:
    """The hub without recorded requests."""
    served.requests.clear()
    served.fetched.clear()
    return served


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def query(served: Hub, home: Path) -> Iterator[Query]:
    """One process serves all tests: they use encoders of different names."""
    with start_process(served, home) as query:
        yield query


def test_the_preview_of_a_folder_matches_the_loaded_encoder(
    tiny_encoder_folder: Path, tiny_encoder: PretrainedEncoder
) -> None:
    found = preview_encoder(str(tiny_encoder_folder))
    assert found.pretrained.fingerprint == tiny_encoder.fingerprint
    assert (found.is_local, found.place) == (True, f"in the folder {tiny_encoder_folder}")


def test_the_preview_of_a_hub_encoder_reads_all_but_its_weights_and_keeps_nothing(
    query: Query, hub: Hub, home: Path, tiny_encoder: PretrainedEncoder, tiny_encoder_folder: Path
) -> None:
    found = query("preview", "someone/tiny")
    assert isinstance(found, dict)
    size = (tiny_encoder_folder / "model.safetensors").stat().st_size / 1e6
    place = f"on the Hugging Face hub, not in {home}/hub: {size:.1f} MB of weights will be fetched"
    assert (found["place"], found["is_local"]) == (place, False)
    assert found["shapes"] == {name: list(weight.shape) for name, weight in tiny_encoder.weights.items()}
    assert found["tokens"] == tiny_encoder.tokenizer("the dog sings")["input_ids"]
    assert found["max_length"] == tiny_encoder.max_length
    assert found["draw"] == torch.rand((), generator=torch.Generator().manual_seed(3)).item(), (
        "no random number is drawn"
    )
    assert "someone/tiny/config.json" in hub.fetched
    assert "someone/tiny/model.safetensors" not in hub.fetched
    assert not list(home.rglob("models--someone--tiny/**/*.json"))


def test_a_fetched_encoder_is_found_in_the_cache_without_the_hub(
    query: Query, hub: Hub, home: Path, tiny_encoder_folder: Path
) -> None:
    loaded = query("load", "someone/cached")
    assert isinstance(loaded, dict)
    saved = load_file(tiny_encoder_folder / "model.safetensors")
    shapes = {name: list(weight.shape) for name, weight in saved.items() if not name.startswith("pooler.")}
    assert loaded["shapes"] == shapes
    assert "someone/cached/model.safetensors" in hub.fetched
    hub.requests.clear()
    found = query("preview", "someone/cached")
    assert isinstance(found, dict)
    assert found.items() >= {"place": f"in {home}/hub", "is_local": True, **loaded}.items()
    assert hub.requests == []


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("someone/llama", "whose first token does not attend to later tokens (llama)"),
        ("someone/bare", "must have its weights as model.safetensors or pytorch_model.bin"),
        (
            "someone/none",
            "an encoder must be a local folder or a name that the Hugging Face hub knows, got 'someone/none'",
        ),
    ],
)
def test_the_preview_refuses_what_loading_refuses_with_the_same_message(
    name: str, fault: str, query: Query, hub: Hub
) -> None:
    refused = query("preview", name)
    assert fault in str(refused)
    assert query("load", name) == refused
    assert {*hub.fetched} <= {"someone/llama/config.json"}


@pytest.mark.slow
def test_without_a_hub_an_unknown_name_is_refused_with_the_same_message(tmp_path: Path) -> None:
    with start_process(Hub(address="http://127.0.0.1:9"), tmp_path) as query:
        refused = query("preview", "someone/tiny")
        start = (
            f"encoder 'someone/tiny' is neither a local folder nor complete in {tmp_path}/hub, and the Hugging Face hub"
        )
        assert str(refused).startswith(f"{start} cannot be queried (")
        assert query("load", "someone/tiny") == refused
