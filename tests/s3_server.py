"""A server of S3 buckets in a process of its own on this machine."""

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.fs as fs
import pytest

BUCKET = "tests"
ADDRESS = re.compile(r"Running on http://([\d.]+:\d+)")


@contextmanager
def s3_server(log: Path, host: str = "127.0.0.1") -> Iterator[str]:
    """Starts the server, with an empty bucket and the credentials for it; its address, `host:port`."""
    credentials = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_EC2_METADATA_DISABLED": "true"}
    with pytest.MonkeyPatch.context() as patch, log.open("w") as stream:
        for name, value in credentials.items():
            patch.setenv(name, value)
        command = [sys.executable, "-m", "moto.server", "-H", host, "-p", "0"]  # any free port
        server = subprocess.Popen(command, stdout=stream, stderr=stream)
        try:
            address = wait_for_address(server, log)
            fs.S3FileSystem(endpoint_override=address, scheme="http", allow_bucket_creation=True).create_dir(BUCKET)
            yield address
        finally:
            server.kill()
            server.wait()


def wait_for_address(server: "subprocess.Popen[bytes]", log: Path) -> str:
    """The server's address, once it has one."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and server.poll() is None:
        found = ADDRESS.search(log.read_text())
        if found is not None:
            return found[1]
        time.sleep(0.05)
    raise AssertionError(f"the server did not start: {log.read_text()}")


def uri_of(address: str, path: str) -> str:
    """The URI of a folder of the bucket."""
    return f"s3://{BUCKET}/{path}?endpoint_override={address}&scheme=http&region=us-east-1"
