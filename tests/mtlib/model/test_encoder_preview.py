"""Encoders that are looked up are those that would be loaded, and cost no weights."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from safetensors.torch import load_file

from mtlib.model.encoder import PretrainedEncoder, preview_encoder
from tests.hub_server import Hub, run_python, serve_hub
from tests.mtlib.model.architectures import DECODERS

LOOK = """
import json, sys, torch
from {module} import {function}
torch.manual_seed(3)
try:
    found = {function}(sys.argv[1])
except ValueError as error:
    print(json.dumps(str(error)))
else:
    print(json.dumps({answer}))
"""
FOUND = """{
    "place": found.place, "is_local": found.is_local,
    "shapes": {k: w.shape for k, w in found.pretrained.weights.items()},
    "tokens": found.pretrained.tokenizer("the dog sings")["input_ids"], "max_length": found.pretrained.max_length,
    "stream": float(torch.rand(())),
}"""
LOOKED_UP = LOOK.replace("{module}", "mtlib.model.encoder").replace("{function}", "preview_encoder")
LOADED = LOOK.replace("{module}", "mtlib.model.encoder").replace("{function}", "load_encoder")


@pytest.fixture
def hub(tiny_encoder_folder: Path, tmp_path: Path) -> Iterator[Hub]:
    """A hub with an encoder, a decoder, and an encoder without weights."""
    decoder, bare = tmp_path / "decoder", tmp_path / "bare"
    DECODERS["llama"].save_pretrained(decoder)
    (decoder / "model.safetensors").write_bytes(bytes(100))
    shutil.copytree(tiny_encoder_folder, bare)
    (bare / "model.safetensors").rename(bare / "tf_model.h5")
    with serve_hub({"someone/tiny": tiny_encoder_folder, "someone/llama": decoder, "someone/bare": bare}) as served:
        yield served


def answer_of(hub: Hub, home: Path, code: str, name: str) -> dict[str, object] | str:
    """What a process with this hub finds, or the line with which it refuses."""
    done = run_python(hub.environment(home), "-c", code, name)
    assert done.stderr == ""
    answer: dict[str, object] | str = json.loads(done.stdout)
    return answer


def test_what_is_in_a_folder_is_loaded(tiny_encoder_folder: Path, tiny_encoder: PretrainedEncoder) -> None:
    found = preview_encoder(str(tiny_encoder_folder))
    assert found.pretrained.fingerprint == tiny_encoder.fingerprint
    assert (found.is_local, found.place) == (True, f"in the folder {tiny_encoder_folder}")


def test_of_an_encoder_on_the_hub_all_but_its_weights_is_read_and_nothing_is_kept(
    hub: Hub, tiny_encoder: PretrainedEncoder, tiny_encoder_folder: Path, tmp_path: Path
) -> None:
    found = answer_of(hub, tmp_path / "home", LOOKED_UP.replace("{answer}", FOUND), "someone/tiny")
    assert isinstance(found, dict)
    size = (tiny_encoder_folder / "model.safetensors").stat().st_size / 1e6
    place = f"on the Hugging Face hub, not in {tmp_path}/home/hub: {size:.1f} MB of weights will be fetched"
    assert (found["place"], found["is_local"]) == (place, False)
    assert found["shapes"] == {name: list(weight.shape) for name, weight in tiny_encoder.weights.items()}
    assert found["tokens"] == tiny_encoder.tokenizer("the dog sings")["input_ids"]
    assert found["max_length"] == tiny_encoder.max_length
    assert "someone/tiny/config.json" in hub.fetched
    assert "someone/tiny/model.safetensors" not in hub.fetched
    assert not list((tmp_path / "home").rglob("*.json"))


def test_what_has_been_fetched_is_found_in_the_cache_without_the_hub(
    hub: Hub, tiny_encoder_folder: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    count = "sum(weight.numel() for weight in found.weights.values())"
    loaded = answer_of(hub, home, LOADED.replace("{answer}", count), "someone/tiny")
    saved = load_file(tiny_encoder_folder / "model.safetensors")
    assert loaded == sum(weight.numel() for name, weight in saved.items() if not name.startswith("pooler."))
    assert "someone/tiny/model.safetensors" in hub.fetched
    hub.fetched.clear()
    found = answer_of(Hub(address="http://127.0.0.1:9"), home, LOOKED_UP.replace("{answer}", FOUND), "someone/tiny")
    assert isinstance(found, dict)
    assert (found["place"], found["is_local"]) == (f"in {home}/hub", True)


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        pytest.param(
            "someone/llama",
            "whose first token does not see those behind it, as in decoders (llama)",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "someone/bare", "must have its weights as model.safetensors or pytorch_model.bin", marks=pytest.mark.slow
        ),
        (
            "someone/none",
            "--encoder must be a local folder or a name that the Hugging Face hub knows, got 'someone/none'",
        ),
    ],
)
def test_what_loading_would_refuse_is_refused_in_the_same_words(
    name: str, fault: str, hub: Hub, tmp_path: Path
) -> None:
    refused = answer_of(hub, tmp_path / "home", LOOKED_UP.replace("{answer}", "0"), name)
    assert fault in str(refused)
    assert answer_of(hub, tmp_path / "home", LOADED.replace("{answer}", "0"), name) == refused
    assert {*hub.fetched} <= {"someone/llama/config.json"}


@pytest.mark.slow
def test_without_a_hub_what_is_nowhere_is_refused_in_the_same_words(tmp_path: Path) -> None:
    nowhere = Hub(address="http://127.0.0.1:9")
    refused = answer_of(nowhere, tmp_path, LOOKED_UP.replace("{answer}", "0"), "someone/tiny")
    start = f"encoder 'someone/tiny' is neither a folder here nor whole in {tmp_path}/hub, and the Hugging Face hub "
    assert str(refused).startswith(f"{start}cannot be asked for it (")
    assert answer_of(nowhere, tmp_path, LOADED.replace("{answer}", "0"), "someone/tiny") == refused
