"""CPUs and memory within the limits of cgroups, of both versions, and of the CPU mask."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from sweeps.cluster import usable_resources
from sweeps.cluster.usable_resources import usable_cpus, usable_memory

GB = 10**9


@pytest.mark.parametrize(
    ("own", "files", "cpus", "memory"),
    [
        (None, {}, 8, 64 * GB),
        ("0::/", {"memory.max": "max", "cpu.max": "max 100000"}, 8, 64 * GB),
        ("0::/job/step", {"job/memory.max": 3 * GB, "job/step/memory.max": 5 * GB}, 8, 3 * GB),
        ("0::/job/step", {"job/cpu.max": "max 100000", "job/step/cpu.max": "250000 100000"}, 2, 64 * GB),
        ("0::/", {"cpu.max": "50000 100000", "memory.max": 65 * GB}, 1, 64 * GB),
        ("0::/../pod", {"memory.max": 2 * GB}, 8, 2 * GB),
        ("4:memory:/job\n3:cpuset:/", {"memory/job/memory.limit_in_bytes": GB}, 8, GB),
        ("4:memory:/docker/1", {"memory/memory.limit_in_bytes": GB}, 8, GB),
        ("2:cpu,cpuacct:/a", {"cpu/a/cpu.cfs_quota_us": 300000, "cpu/a/cpu.cfs_period_us": 100000}, 3, 64 * GB),
        ("2:cpu,cpuacct:/a", {"cpu/a/cpu.cfs_quota_us": -1, "cpu/a/cpu.cfs_period_us": 100000}, 8, 64 * GB),
        ("2:cpu:/a\n0::/b", {"unified/b/memory.max": GB, "unified/other/memory.max": 1}, 8, GB),
    ],
)
def test_the_tightest_limit_of_the_own_cgroups_counts(
    own: str | None,
    files: dict[str, int | str],
    cpus: int,
    memory: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: set(range(8)))
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(total=64 * GB))
    monkeypatch.setattr(usable_resources, "OWN_CGROUPS", tmp_path / "own")
    monkeypatch.setattr(usable_resources, "CGROUPS", tmp_path / "tree")
    for name, text in {**{f"tree/{name}": text for name, text in files.items()}, "own": own}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        if text is not None:
            (tmp_path / name).write_text(f"{text}\n")
    assert (usable_cpus(), usable_memory()) == (cpus, memory)
