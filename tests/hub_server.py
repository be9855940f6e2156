"""A local hub: serves folders as repositories to huggingface_hub."""

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

ROOT = Path(__file__).resolve().parents[1]
COMMIT = "0" * 40


@dataclass
class Hub:
    """A running hub and the requests that it received."""

    address: str
    requests: list[str] = field(default_factory=list)
    """Paths of all requests."""
    fetched: list[str] = field(default_factory=list)
    """Files whose content was sent, as `someone/tiny/config.json`."""

    def environment(self, home: Path) -> dict[str, str]:
        """Environment variables of a process that uses this hub, with its cache below `home`."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGINGFACE_"))}
        return {**kept, "HF_ENDPOINT": self.address, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1"}


@contextlib.contextmanager
def serve_hub(repositories: dict[str, Path]) -> Iterator[Hub]:
    """Serves folders by repository name inside the `with` block."""

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.answer(has_content=False)

        def do_GET(self) -> None:
            self.answer(has_content=True)

        def answer(self, has_content: bool) -> None:
            path = self.path.partition("?")[0].strip("/")
            hub.requests.append(path)
            for name, folder in repositories.items():
                if path in (f"api/models/{name}", f"api/models/{name}/revision/main"):
                    return self.send(200, json.dumps(describe(name, folder)).encode(), has_content)
                file = folder / path.rpartition("/")[2]
                if (
                    path in (f"{name}/resolve/{revision}/{file.name}" for revision in ("main", COMMIT))
                    and file.is_file()
                ):
                    if has_content:
                        hub.fetched.append(f"{name}/{file.name}")
                    return self.send(200, file.read_bytes(), has_content)
                if path.startswith((f"api/models/{name}/", f"{name}/")):
                    return self.send(404, b"{}", has_content, error="EntryNotFound")
            return self.send(401, b"{}", has_content, error="RepoNotFound")

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
    hub = Hub(address=f"http://127.0.0.1:{server.server_port}")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()


def describe(name: str, folder: Path) -> dict[str, object]:
    """The hub's JSON description of a repository."""
    files = [{"rfilename": path.name, "size": path.stat().st_size} for path in sorted(folder.iterdir())]
    return {"id": name, "modelId": name, "sha": COMMIT, "private": False, "tags": [], "siblings": files}


def run_python(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    """Runs Python in the project's folder."""
    return subprocess.run(
        [sys.executable, *words], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120
    )
