"""The example of a service: a client over HTTP gets what the command predicts."""

import csv
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from mtlib.data.token_cache import Corpus
from mtlib.model.encoder import PretrainedEncoder
from results.predict import main as predict
from tests.results.inference.bundle.bundled_sweep import make_bundle
from tests.results.inference.trained_sweep import select_pairs, train_sweep
from tests.scripts import ROOT

JSON = {"Content-Type": "application/json"}
PAIRS = [["the good dog sleeps", "red"], ["old old car", "a film"]]


@pytest.fixture(scope="module")
def bundle(tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of ensembles of two models for each task."""
    folder = train_sweep(tmp_path_factory.mktemp("sweeps") / "mine", tiny_corpus, tiny_encoder)
    place = tmp_path_factory.mktemp("bundles") / "mine"
    make_bundle(select_pairs(folder), folder, place)
    return place


@pytest.fixture(scope="module")
def client(bundle: Path) -> Iterator[httpx.Client]:
    """A client of the service, which runs in a process of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, str(ROOT / "examples" / "serve.py"), str(bundle), "--port", str(port)]
    with (
        subprocess.Popen(command, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, stderr=subprocess.DEVNULL) as process,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as found,
    ):
        try:
            while True:  # ends with the test's own time limit
                assert process.poll() is None, "the service has ended"
                try:
                    found.get("/")
                    break
                except httpx.ConnectError:
                    time.sleep(0.2)
            yield found
        finally:
            process.terminate()


def test_a_client_gets_what_the_command_predicts(client: httpx.Client, bundle: Path, tmp_path: Path) -> None:
    assert client.get("/").json() == {"qqp": 2, "sst": 1, "sts": 2}
    (tmp_path / "pairs.txt").write_text("".join("\t".join(pair) + "\n" for pair in PAIRS))
    for task in ("qqp", "sts"):
        output = tmp_path / f"{task}.csv"
        words = [bundle, "--task", task, "--input", tmp_path / "pairs.txt", "--output", output, "--device", "cpu"]
        assert predict([str(word) for word in words]) == 0
        with output.open() as stream:
            wanted = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(stream)]
        answer = client.post(f"/{task}", json={"texts": PAIRS}).json()
        found = [{name: float(value) for name, value in row.items()} for row in answer]
        assert found == [pytest.approx(row, abs=1e-5) for row in wanted]


def test_a_wrong_request_is_refused_with_the_reason(client: httpx.Client) -> None:
    assert client.post("/sst", json={"texts": []}).json() == []
    for task, texts, code, words in (
        ("tone", [["a"]], 404, "known: "),
        ("sst", [["a", "b"]], 422, "must have 1"),
        ("qqp", [["a", " "]], 422, "not blank"),
        ("qqp", [["a", "b"], ["a", "half \ud83d"]], 422, "row 1: a text must hold no unpaired surrogate"),
    ):
        answer = client.post(f"/{task}", content=json.dumps({"texts": texts}), headers=JSON)
        assert answer.status_code == code
        assert words in answer.json()["detail"]
