"""Uploads to a local hub: one commit with all files, and a line for each reason why there is none."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from sweeps.push import check_push, push_folder
from tests.hub_server import OWNER, TOKEN, Hub, serve_hub
from tests.one_line_error import one_line_error

NAME = f"{OWNER}/mine"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub that this process uses as a user who is logged in."""
    with serve_hub({}, tmp_path / "uploads") as served:
        use_hub(monkeypatch, tmp_path, served.address)
        yield served


def use_hub(monkeypatch: pytest.MonkeyPatch, folder: Path, address: str) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(folder / "token"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setenv("HF_TOKEN", TOKEN)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A folder with a large file, a small one and one in a folder of its own."""
    folder = tmp_path / "model"
    (folder / "onnx").mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(bytes(range(256)))
    (folder / "onnx" / "sst.onnx").write_bytes(b"onnx")
    (folder / "README.md").write_text("---\ntags:\n- a\n---\n")
    (folder / "trial.json").write_text(json.dumps({"encoder": {"name": "/home/me/encoder"}, "seed": 7}))
    return folder


def test_a_second_push_replaces_the_first_and_deletes_only_what_would_not_fit_it(hub: Hub, model: Path) -> None:
    check_push(NAME)
    assert push_folder(model, NAME, is_private=False) == f"{hub.address}/{NAME}"
    place = hub.repositories[NAME]
    (place / "LICENSE").write_text("the user's own")
    (model / "onnx" / "sst.onnx").rename(model / "onnx" / "qqp.onnx")
    (model / "model.safetensors").write_bytes(b"other weights")
    push_folder(model, NAME, is_private=False)
    assert len(hub.commits) == 2
    found = {str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()}
    assert found == {".gitattributes", "LICENSE", "README.md", "model.safetensors", "onnx/qqp.onnx", "trial.json"}
    assert (place / "model.safetensors").read_bytes() == b"other weights"


def test_the_configuration_is_uploaded_without_paths_and_kept_with_them(hub: Hub, model: Path) -> None:
    before = (model / "trial.json").read_bytes()
    push_folder(model, NAME, is_private=False)
    uploaded = json.loads((hub.repositories[NAME] / "trial.json").read_text())
    assert uploaded == {"encoder": {"name": "encoder"}, "seed": 7}
    assert (model / "trial.json").read_bytes() == before


def test_a_private_push_makes_a_private_repository_and_never_uploads_to_a_public_one(hub: Hub, model: Path) -> None:
    for _ in range(2):
        push_folder(model, NAME, is_private=True)
    assert hub.private == {NAME}
    hub.private.clear()
    message = one_line_error(push_folder, model, NAME, is_private=True)
    assert message.startswith(
        f"--private needs a repository that is new or private, got {hub.address}/{NAME}, which is"
    )
    assert len(hub.commits) == 2


@pytest.mark.parametrize("name", ["mine", "a/b/c", "some one/mine", "someone/a--b", "someone/mine.git", "/mine"])
def test_a_wrong_name_is_refused_without_a_request(name: str, hub: Hub) -> None:
    message = one_line_error(check_push, name)
    assert message.startswith("--push-to-hub must be OWNER/NAME")
    assert name in message
    assert hub.requests == []


def test_without_a_right_token_nothing_is_uploaded(hub: Hub, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = "--push-to-hub needs an access token"
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    message = one_line_error(check_push, NAME)
    assert message.startswith(
        f"{rule} with permission to write to {NAME} (set HF_TOKEN or use `hf auth login`), got 401"
    )
    monkeypatch.delenv("HF_TOKEN")
    assert one_line_error(check_push, NAME) == f"{rule} (set HF_TOKEN or use `hf auth login`), got none"
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    message = one_line_error(push_folder, model, "another/mine", is_private=False)
    assert (
        f"got 403 from {hub.address}: You have no rights to create a model under another/mine; the model is" in message
    )
    assert message.endswith(f"in {model}, the same command with --overwrite pushes it")
    assert hub.repositories == {}
