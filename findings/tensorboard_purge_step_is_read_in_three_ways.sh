#!/usr/bin/env bash
# TensorBoard: what `purge_step` takes back depends on who reads the events.
#
# Versions: tensorboard 2.21.0 (with tensorboard-data-server 0.7.2), tensorboardX 2.6.5, Python 3.11.
# Expectation: a run is written at steps 10, 20 and 30, goes on from an earlier state, and is opened again with
#   `SummaryWriter(purge_step=1)`, which is documented to hide all events from that step on. After a further point at
#   step 15 the run shows that point alone, whoever reads it.
# Behaviour: three readers of one TensorBoard give three answers. `EventAccumulator` has [15]. The page with its default
#   data server has [10, 15]: it drops what lies at or above the next point that is written, not at or above the purge
#   step. The page with `--load_fast=false` has [10, 20, 30, 15]: it drops nothing.
# Seen: "EventAccumulator [15]", "page, --load_fast=true [10, 15]", "page, --load_fast=false [10, 20, 30, 15]".
# Who meets it: whoever resumes a training from an older checkpoint, and looks at its curve.
# Exit code: 0 while this is so, 1 once a reader answers otherwise.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv environment
environment/bin/pip install --quiet tensorboard==2.21.0 tensorboard-data-server==0.7.2 tensorboardX==2.6.5
cat > read_three_ways.py <<'PYTHON'
import json
import socket
import subprocess
import sys
import time
import urllib.request

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboardX import SummaryWriter

RUN = "runs/trial"


def write(name, points, **options):
    writer = SummaryWriter(RUN, filename_suffix=f".{name}", **options)
    for step, value in points:
        writer.add_scalar("dev", value, step)
    writer.close()


def steps_of_page(load_fast):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["--logdir", "runs", "--host", "127.0.0.1", "--port", str(port), f"--load_fast={load_fast}"]
    server = subprocess.Popen([sys.executable, "-m", "tensorboard.main", *words], stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}/data/plugin/scalars/scalars?run=trial&tag=dev"
    try:
        for _ in range(60):
            time.sleep(1)
            try:
                with urllib.request.urlopen(address, timeout=5) as answer:
                    steps = [step for _, step, _ in json.load(answer)]
            except OSError:  # it has not read the run yet
                continue
            if 15 in steps:
                return steps
        raise SystemExit("the page did not show the run within a minute")
    finally:
        server.terminate()
        server.wait()


write("before", [(10, 0.1), (20, 0.2), (30, 0.3)])
time.sleep(1.1)  # the names of the files have the second, and are read in their order
write("after", [(15, 0.9)], purge_step=1)
accumulator = EventAccumulator(RUN)
accumulator.Reload()
found = {"EventAccumulator": [event.step for event in accumulator.Scalars("dev")]}
found |= {f"page, --load_fast={load_fast}": steps_of_page(load_fast) for load_fast in ("true", "false")}
for reader, steps in found.items():
    print(reader, steps)
sys.exit(list(found.values()) != [[15], [10, 15], [10, 20, 30, 15]])
PYTHON
environment/bin/python read_three_ways.py 2> /dev/null
