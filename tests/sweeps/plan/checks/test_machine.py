"""A trial must fit this machine; each worker has a GPU where there are as many."""

import pytest

from sweeps.plan.checks.machine import check_machine, describe_gpus, use_gpus
from tests.sweeps.plan.conftest import Build


def set_machine(monkeypatch: pytest.MonkeyPatch, num_cpus: int, num_gpus: int) -> None:
    monkeypatch.setattr("sweeps.plan.checks.machine.usable_cpus", lambda: num_cpus)
    monkeypatch.setattr("torch.cuda.device_count", lambda: num_gpus)


def test_trial_that_just_fits_is_allowed(options: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    set_machine(monkeypatch, 6, 2)
    check_machine(options(workers=2, cpus_per_worker=3))
    check_machine(options(workers=2, gpus_per_worker=1))


def test_more_workers_than_cpus_or_gpus_are_refused(options: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    set_machine(monkeypatch, 5, 1)
    with pytest.raises(ValueError) as raised:
        check_machine(options(workers=2, cpus_per_worker=3))
    rule = "a trial must fit this machine, which has 5 CPUs"
    assert str(raised.value) == f"{rule}, got 2 workers with --cpus-per-worker 3"
    with pytest.raises(ValueError, match="has 1 GPU, got 2 workers with --gpus-per-worker 1"):
        check_machine(options(workers=2, gpus_per_worker=1))
    check_machine(options(workers=2, gpus_per_worker=1, address="auto"))


@pytest.mark.parametrize(
    ("num_gpus", "num_workers", "expected"), [(0, 1, 0.0), (1, 1, 1.0), (2, 2, 1.0), (1, 2, 0.0), (8, 3, 1.0)]
)
def test_each_worker_has_a_gpu_by_default_if_there_are_as_many(
    num_gpus: int, num_workers: int, expected: float, options: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_machine(monkeypatch, 8, num_gpus)
    chosen = use_gpus(options(workers=num_workers, finds_gpus=True))
    assert chosen == options(workers=num_workers, gpus_per_worker=expected)
    check_machine(chosen)


def test_gpus_of_a_cluster_are_counted_there(options: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    node = {"NodeID": "n", "Alive": True, "Resources": {"CPU": 4.0, "GPU": 1.0}}
    monkeypatch.setattr("ray.nodes", lambda: [node, node, {**node, "Alive": False}])
    assert [use_gpus(options(workers=n, address="auto", finds_gpus=True)).gpus_per_worker for n in (1, 2, 3)] == [
        1.0,
        1.0,
        0.0,
    ]


def test_gpus_of_a_worker_are_shown(options: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    unused = "GPUs per worker: 0 (this machine has 2, not used without --gpus-per-worker 1)"
    assert describe_gpus(options()) == unused
    assert describe_gpus(options(gpus_per_worker=0.5)) == "GPUs per worker: 0.5 (this machine has 2)"
    of_cluster = describe_gpus(options(gpus_per_worker=1, address="auto"))
    assert of_cluster == "GPUs per worker: 1 (--gpus-per-worker changes it)"
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    assert describe_gpus(options()) == "GPUs per worker: 0 (this machine has none)"
