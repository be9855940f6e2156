#!/usr/bin/env bash
# huggingface_hub: its fsspec file system raises errors of an HTTP library where the hub cannot be reached, no OSError.
#
# Versions: huggingface_hub 2.4.0, fsspec 2026.9.0, Python 3.11.
# Expectation: `fsspec.open("hf://...")` behaves like any fsspec file system, and like `open`: what cannot be read raises
#   an OSError (FileNotFoundError, ConnectionError, TimeoutError), so `except OSError` is enough around it, as it was
#   while the library used requests, whose errors are OSErrors. `exists` returns False, or raises an OSError.
# Behaviour: without a network `open`, `ls` and `exists` raise `httpx2.ConnectError`, which is no OSError: a program that
#   handles unreadable files ends with a traceback on a laptop without a network. fsspec's own http file system raises
#   FileNotFoundError in the same case.
# Seen: "hf open httpx2.ConnectError, OSError: False", the same for ls and exists; "http open
#   builtins.FileNotFoundError, OSError: True".
# Who meets it: whoever reads Parquet files of the hub by path, or asks whether they are there, and runs offline too.
# Exit code: 0 while this is so, 1 once the errors are OSErrors.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv environment
environment/bin/pip install --quiet huggingface_hub==2.4.0 fsspec==2026.9.0 aiohttp
cat > read_unreachable.py <<'PYTHON'
import sys

import fsspec

NAME = "datasets/someone/texts/train.parquet"
CALLS = {
    "hf open": lambda: fsspec.open(f"hf://{NAME}", "rb").open().read(),
    "hf ls": lambda: fsspec.filesystem("hf").ls("datasets/someone/texts"),
    "hf exists": lambda: fsspec.filesystem("hf").exists(NAME),
    "http open": lambda: fsspec.open("http://127.0.0.1:9/train.parquet", "rb").open().read(),
}
found = {}
for name, call in CALLS.items():
    try:
        call()
    except Exception as error:
        kind, found[name] = type(error), isinstance(error, OSError)
        print(f"{name} {kind.__module__}.{kind.__name__}, OSError: {found[name]}")
sys.exit(found != {"hf open": False, "hf ls": False, "hf exists": False, "http open": True})
PYTHON
# No network: nothing listens at this address.
HF_ENDPOINT=http://127.0.0.1:9 environment/bin/python read_unreachable.py
