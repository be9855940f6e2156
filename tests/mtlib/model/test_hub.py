"""Names of encoders, errors from the hub's responses, and previews of encoders that read no weights."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest
import torch
from huggingface_hub import get_session
from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

from mtlib.model.encoder import PretrainedEncoder, load_encoder, preview_encoder
from mtlib.model.hub import ask_hub, is_folder, read_encoder_name
from tests.architectures import DECODERS
from tests.hub_server import Hub, serve_hub
from tests.one_line_error import one_line_error


def test_a_folder_is_resolved_and_a_hub_name_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own").mkdir()
    assert read_encoder_name("own") == read_encoder_name("./own") == str((tmp_path / "own").resolve())
    assert is_folder("own")
    assert is_folder(str(tmp_path / "gone"))
    for name in ("bert-base-uncased", "owner/name"):
        assert read_encoder_name(name) == name
        assert not is_folder(name)


@pytest.mark.parametrize("name", ["./no", "~/no-such-folder", "a/b/c"])
def test_a_name_that_can_only_be_a_folder_must_exist(name: str) -> None:
    with pytest.raises(ValueError, match="--encoder must be a hub name or a folder that exists, got '"):
        read_encoder_name(name)


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


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        (ConnectionError("Name or service not known"), "cannot be queried (Name or service not known); name a local"),
        (RepositoryNotFoundError.__new__(RepositoryNotFoundError), "a name that the Hugging Face hub knows, got 'a/b'"),
        (GatedRepoError.__new__(GatedRepoError), "needs an access token with permission (set HF_TOKEN"),
        ([("config.json", 5), ("tf_model.h5", 100), ("optimizer.bin", 9)], "must have its weights as"),
    ],
)
def test_an_encoder_that_cannot_be_fetched_is_one_line_with_the_searched_places(
    found: Any, fault: str, answer: Callable[[Any], None]
) -> None:
    answer(found)
    message = one_line_error(ask_hub, "a/b")
    assert fault in message
    assert "neither a local folder nor complete in /cache" in message


@pytest.mark.parametrize(
    ("files", "size"),
    [
        ([("model.safetensors", 400), ("pytorch_model.bin", 401), ("tf_model.h5", 402)], 400),
        ([(f"model-0000{n}-of-00002.safetensors", n) for n in (1, 2)] + [("model.safetensors.index.json", 9)], 3),
        ([(f"pytorch_model-0000{n}-of-00002.bin", n) for n in (1, 2)], 3),
    ],
)
def test_the_size_of_the_weights_to_fetch_is_known(
    files: list[tuple[str, Any]], size: int, answer: Callable[[Any], None]
) -> None:
    answer(files)
    assert ask_hub("a/b") == size


@pytest.fixture(scope="module")
def served(tiny_encoder_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub with an encoder and a decoder."""
    decoder = tmp_path_factory.mktemp("repositories") / "decoder"
    DECODERS["llama"].save_pretrained(decoder)
    (decoder / "model.safetensors").write_bytes(bytes(100))
    with serve_hub({"someone/tiny": tiny_encoder_folder, "someone/llama": decoder}) as hub:
        yield hub


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """Where fetched encoders are kept; there is nothing yet."""
    return tmp_path / "cache"


@pytest.fixture
def hub(served: Hub, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    """The hub, which gets all requests to the public one; nothing is recorded yet."""
    client = type(get_session())
    send, address = client.send, urlsplit(served.address)

    def redirect(own: Any, request: Any, **named: Any) -> Any:
        request.url = request.url.copy_with(scheme="http", host=address.hostname, port=address.port)
        return send(own, request, **named)

    monkeypatch.setattr(client, "send", redirect)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))
    served.requests.clear()
    served.fetched.clear()
    return served


def assert_same(found: PretrainedEncoder, encoder: PretrainedEncoder) -> None:
    """Both have weights of the same names and shapes, tokens and length."""
    one, other = ({name: part.shape for name, part in own.weights.items()} for own in (found, encoder))
    assert one == other
    assert found.tokenizer("the dog sings") == encoder.tokenizer("the dog sings")
    assert found.max_length == encoder.max_length


def test_the_preview_of_a_hub_encoder_reads_all_but_its_weights_and_keeps_nothing(
    hub: Hub,
    cache: Path,
    tiny_encoder: PretrainedEncoder,
    tiny_encoder_folder: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    state = torch.get_rng_state()
    found, place = preview_encoder("someone/tiny")
    assert torch.equal(torch.get_rng_state(), state)
    assert capfd.readouterr() == ("", "")
    size = (tiny_encoder_folder / "model.safetensors").stat().st_size / 1e6
    assert place == f"on the Hugging Face hub, not in {cache}: {size:.1f} MB of weights will be fetched"
    assert_same(found, tiny_encoder)
    assert "someone/tiny/config.json" in hub.fetched
    assert "someone/tiny/model.safetensors" not in hub.fetched
    assert not list(cache.rglob("models--someone--tiny/**/*.json"))


def test_a_fetched_encoder_is_found_in_the_cache_without_the_hub(
    hub: Hub, cache: Path, tiny_encoder: PretrainedEncoder
) -> None:
    assert load_encoder("someone/tiny").fingerprint == tiny_encoder.fingerprint
    assert "someone/tiny/model.safetensors" in hub.fetched
    hub.requests.clear()
    assert load_encoder("someone/tiny").fingerprint == tiny_encoder.fingerprint
    found, place = preview_encoder("someone/tiny")
    assert place == f"in {cache}"
    assert_same(found, tiny_encoder)
    assert hub.requests == []


def test_the_preview_refuses_what_loading_refuses_with_the_same_message(hub: Hub) -> None:
    message = one_line_error(preview_encoder, "someone/llama")
    assert "whose first token does not attend to later tokens (llama)" in message
    assert one_line_error(load_encoder, "someone/llama") == message
    assert {*hub.fetched} == {"someone/llama/config.json"}
