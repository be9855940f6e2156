"""A trial must fit this machine; GPUs that are not used are named."""

import pytest

from sweeps.setup.machine_checks import check_capacity, check_machine, describe_gpus
from tests.sweeps.setup.conftest import Build


def test_trial_that_just_fits_is_allowed(options: Build) -> None:
    check_capacity(options(workers=2, cpus_per_worker=3), 6, 0)
    check_capacity(options(workers=2, gpus_per_worker=1), 6, 2)


def test_more_workers_than_cpus_are_refused(options: Build) -> None:
    with pytest.raises(ValueError) as raised:
        check_capacity(options(workers=2, cpus_per_worker=3), 5, 0)
    rule = "a trial must fit this machine, which has 5 CPUs"
    assert str(raised.value) == f"{rule}, got 2 workers with --cpus-per-worker 3"


def test_missing_gpu_is_refused(options: Build) -> None:
    with pytest.raises(ValueError, match="which has no GPUs, got 1 worker with --gpus-per-worker 1"):
        check_capacity(options(gpus_per_worker=1), 4, 0)
    with pytest.raises(ValueError, match="which has 1 GPU, got 2 workers with --gpus-per-worker 1"):
        check_capacity(options(workers=2, gpus_per_worker=1), 4, 1)


def test_remote_cluster_is_not_checked_against_this_machine(options: Build) -> None:
    check_machine(options(workers=10**6, address="auto"))
    with pytest.raises(ValueError, match="a trial must fit this machine"):
        check_machine(options(workers=10**6))
    with pytest.raises(ValueError, match="a trial must fit this machine"):
        check_machine(options(workers=10**6))


def test_unused_gpus_are_mentioned(options: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert describe_gpus(options()) == ["This machine has 2 GPUs, not used without --gpus-per-worker 1."]
    assert describe_gpus(options(gpus_per_worker=1)) == []
    assert describe_gpus(options(address="auto")) == []
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    assert describe_gpus(options()) == []
