"""A local hub: serves folders as repositories to huggingface_hub, and takes the uploads that it makes without Xet."""

import base64
import contextlib
import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tests.scripts import ROOT

COMMIT = "0" * 40
OWNER, TOKEN = "someone", "hf_of_someone"
"""The one user, who may write to repositories of that name, and the access token."""
LARGE_FILES = (".safetensors", ".onnx")
"""Endings of the files that the hub stores as LFS objects, not in the commit."""


@dataclass
class Hub:
    """A running hub, the requests that it received and what was uploaded."""

    address: str
    requests: list[str] = field(default_factory=list)
    """Paths of all requests."""
    fetched: list[str] = field(default_factory=list)
    """Files whose content was sent, as `someone/tiny/config.json`."""
    repositories: dict[str, Path] = field(default_factory=dict)
    """Folders by name."""
    private: set[str] = field(default_factory=set)
    """Names of private repositories."""
    commits: list[str] = field(default_factory=list)
    """The first line of each commit."""
    objects: dict[str, bytes] = field(default_factory=dict)
    """Uploaded LFS objects by SHA-256."""

    def environment(self, home: Path) -> dict[str, str]:
        """Environment variables of a process that uses this hub, with its cache below `home`."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGINGFACE_"))}
        return {**kept, "HF_ENDPOINT": self.address, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1"}


@contextlib.contextmanager
def serve_hub(repositories: dict[str, Path], uploads: Path | None = None) -> Iterator[Hub]:
    """Serves folders by repository name inside the `with` block; new repositories are made below `uploads`."""

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.answer(has_content=False)

        def do_GET(self) -> None:
            self.answer(has_content=True)

        def do_POST(self) -> None:
            path, body = self.note_path(), self.read_body()
            if not self.is_known_user():
                return self.send_json(401, {"error": "Invalid username or password."})
            if path == "api/validate-yaml":
                return self.send_json(200, {"errors": [], "warnings": []})
            if path == "api/repos/create":
                return self.create(json.loads(body))
            if path.endswith("/verify"):
                wanted = json.loads(body)
                is_whole = len(hub.objects.get(wanted["oid"], b"")) == wanted["size"]
                return self.send_json(200 if is_whole else 404, {})
            for name, folder in hub.repositories.items():
                if path == f"api/models/{name}/preupload/main":
                    files = [{"path": file["path"], **upload_mode(file["path"])} for file in json.loads(body)["files"]]
                    return self.send_json(200, {"files": files})
                if path == f"{name}.git/info/lfs/objects/batch":
                    found = [self.lfs_actions(name, wanted) for wanted in json.loads(body)["objects"]]
                    return self.send_json(200, {"transfer": "basic", "objects": found})
                if path == f"api/models/{name}/commit/main":
                    hub.commits.append(apply_commit(folder, hub.objects, body))
                    url = f"{hub.address}/{name}/commit/{COMMIT}"
                    return self.send_json(200, {"success": True, "commitOid": COMMIT, "commitUrl": url})
            return self.send_json(404, {"error": "no such place"})

        def do_PUT(self) -> None:
            oid, body = self.note_path().rpartition("/")[2], self.read_body()
            is_whole = hashlib.sha256(body).hexdigest() == oid
            if is_whole:
                hub.objects[oid] = body
            self.send_json(200 if is_whole else 400, {})

        def create(self, wanted: dict[str, Any]) -> None:
            name = f"{wanted['organization']}/{wanted['name']}"
            url = f"{hub.address}/{name}"
            if wanted["organization"] != OWNER:
                return self.send_json(403, {"error": f"You have no rights to create a model under {name}"})
            if name in hub.repositories:
                return self.send_json(409, {"error": "You already created this model repo", "url": url})
            assert uploads is not None, "this hub takes no uploads"
            hub.repositories[name] = uploads / name
            hub.repositories[name].mkdir(parents=True)
            (hub.repositories[name] / ".gitattributes").write_text("*.safetensors filter=lfs\n")
            if wanted.get("visibility") == "private":
                hub.private.add(name)
            return self.send_json(200, {"url": url, "name": name})

        def lfs_actions(self, name: str, wanted: dict[str, Any]) -> dict[str, Any]:
            if wanted["oid"] in hub.objects:
                return wanted
            upload = {"href": f"{hub.address}/{name}/objects/{wanted['oid']}"}
            return {**wanted, "actions": {"upload": upload, "verify": {"href": f"{hub.address}/{name}/verify"}}}

        def answer(self, has_content: bool) -> None:
            path = self.note_path()
            if path == "api/whoami-v2":
                user = {"type": "user", "name": OWNER, "orgs": []}
                return self.send_json(200, user) if self.is_known_user() else self.send_json(401, {})
            for name, folder in hub.repositories.items():
                if name in hub.private and not self.is_known_user():
                    continue
                if path in (f"api/models/{name}", f"api/models/{name}/revision/main"):
                    return self.send_json(200, describe(name, folder, name in hub.private), has_content)
                if path in (f"api/models/{name}/tree/{revision}" for revision in ("main", COMMIT)):
                    return self.send_json(200, list_tree(folder), has_content)
                for revision in ("main", COMMIT):
                    file = folder / path.removeprefix(f"{name}/resolve/{revision}/")
                    if path.startswith(f"{name}/resolve/{revision}/") and file.is_file():
                        if has_content:
                            hub.fetched.append(f"{name}/{file.relative_to(folder)}")
                        return self.send(200, file.read_bytes(), has_content)
                if path.startswith((f"api/models/{name}/", f"{name}/")):
                    return self.send(404, b"{}", has_content, error="EntryNotFound")
            return self.send(401, b"{}", has_content, error="RepoNotFound")

        def note_path(self) -> str:
            path = unquote(self.path.partition("?")[0]).strip("/")
            hub.requests.append(path)
            return path

        def is_known_user(self) -> bool:
            return self.headers.get("Authorization") == f"Bearer {TOKEN}"

        def read_body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))
            parts = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            return b"".join(parts)

        def send_json(self, code: int, content: object, has_content: bool = True) -> None:
            self.send(code, json.dumps(content).encode(), has_content)

        def send(self, code: int, content: bytes, has_content: bool, error: str | None = None) -> None:
            self.send_response(code)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Content-Type", "application/json")
            self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
            self.send_header("X-Repo-Commit", COMMIT)
            if error:
                self.send_header("X-Error-Code", error)
                self.send_header("X-Error-Message", error)
            self.end_headers()
            if has_content:
                self.wfile.write(content)

        def log_message(self, *_arguments: object) -> None:
            """Prints nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub = Hub(address=f"http://127.0.0.1:{server.server_port}", repositories=dict(repositories))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()


def upload_mode(path: str) -> dict[str, object]:
    """How a file is to be uploaded."""
    return {"uploadMode": "lfs" if path.endswith(LARGE_FILES) else "regular", "shouldIgnore": False, "oid": None}


def apply_commit(folder: Path, objects: dict[str, bytes], body: bytes) -> str:
    """Writes and deletes the files of a commit, lines of JSON, and returns its first line of text."""
    header, *operations = map(json.loads, body.splitlines())
    for operation in operations:
        kind, value = operation["key"], operation["value"]
        path = folder / value["path"]
        if kind == "deletedFile":
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(objects[value["oid"]] if kind == "lfsFile" else base64.b64decode(value["content"]))
    return str(header["value"]["summary"])


def files_of(folder: Path) -> list[Path]:
    """The files in a repository's folder."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def describe(name: str, folder: Path, is_private: bool) -> dict[str, object]:
    """The hub's JSON description of a repository."""
    files = [{"rfilename": str(path.relative_to(folder)), "size": path.stat().st_size} for path in files_of(folder)]
    return {"id": name, "modelId": name, "sha": COMMIT, "private": is_private, "tags": [], "siblings": files}


def list_tree(folder: Path) -> list[dict[str, object]]:
    """The hub's JSON list of a repository's files."""
    return [
        {"type": "file", "path": str(path.relative_to(folder)), "size": path.stat().st_size, "oid": COMMIT}
        for path in files_of(folder)
    ]


def run_python(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    """Runs Python in the project's folder."""
    return subprocess.run(
        [sys.executable, *words], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120
    )
