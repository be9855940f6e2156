"""`deploy/slurm.sh` on two nodes: namespaces of this machine with networks and processes of their own, no Slurm."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from mtlib.runtime.storage import join_location
from results.sweep import load_sweep
from tests.deploy.network import HOST, NODES, needs_network, open_network
from tests.s3_server import s3_server, uri_of
from tests.scripts import ROOT

SRUN = f"""#!/usr/bin/env bash
# Runs a command on each node, as one task; its exit code is the highest of them.
while [[ $1 == --* ]]; do shift; done
for node in {" ".join(NODES)}; do
    RAY_TMPDIR=$NODE_FOLDERS/$node ip netns exec "$node" unshare --pid --fork --mount-proc --kill-child "$@" &
    pids+=($!)
done
code=0
for pid in "${{pids[@]}}"; do
    wait "$pid" || {{ found=$?; code=$((found > code ? found : code)); }}
done
exit "$code"
"""
SCONTROL = f"""#!/usr/bin/env bash
[[ "$1 $2" == "show hostnames" ]] && printf '%s\\n' {" ".join(NODES.values())}
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.ray,
    pytest.mark.timeout(900),
    needs_network,
]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a job on two nodes."""
    programs, project = tmp_path / "bin", tmp_path / "project"
    programs.mkdir()
    project.mkdir()
    for name, text in (("srun", SRUN), ("scontrol", SCONTROL)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    for name in ("deploy", "mtlib", "results", "search_spaces", "sweeps"):
        (project / name).symlink_to(ROOT / name)
    activate = project / ".venv" / "bin" / "activate"
    activate.parent.mkdir(parents=True)
    activate.write_text(f'PATH="{Path(sys.executable).parent}:$PATH"\n')
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    with open_network(), TemporaryDirectory(prefix="n", dir="/tmp") as folder:  # Ray's sockets need a short path
        yield {
            **kept,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "HOME": str(tmp_path),
            "NODE_FOLDERS": folder,
            "SLURM_SUBMIT_DIR": str(project),
            "SLURM_JOB_NODELIST": "sweepnode[0-1]",
            "SLURM_JOB_NUM_NODES": str(len(NODES)),
            "SLURM_CPUS_ON_NODE": "1",
        }


def submit(environment: dict[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Runs the script as `sbatch` does, from a copy."""
    copy = Path(environment["HOME"], "slurm_script")
    shutil.copy(ROOT / "deploy" / "slurm.sh", copy)
    return subprocess.run(
        ["bash", str(copy), *arguments],
        env=environment,
        cwd=environment["SLURM_SUBMIT_DIR"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def test_a_sweep_uses_both_nodes_and_a_requeued_job_goes_on(cluster: dict[str, str], tmp_path: Path) -> None:
    with s3_server(tmp_path / "s3.txt", HOST) as address:
        storage = uri_of(address, "sweeps")
        keys = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_EC2_METADATA_DISABLED")
        cluster |= {name: os.environ[name] for name in keys}
        sizes = ("--set", "stages.0.epochs=1", "stages.1.epochs=2", "stages.1.steps_per_epoch=40", "--no-reuse")
        job = ("mine", storage, "--space", "smart_lambda", *sizes, "--", "--max-steps", "600")
        first, again = submit(cluster, *job), submit(cluster, *job)
        assert first.returncode == 4, first.stdout
        assert again.returncode == 0, again.stdout
        sweep = load_sweep(join_location(storage, "mine"))
    assert set(sweep.trials["status"]) == {"complete"}
    assert "trials have ended" in again.stdout, "it was resumed"
    assert "Opening 2 lanes" in first.stdout
