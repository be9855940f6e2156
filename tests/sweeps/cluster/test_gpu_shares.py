"""How many workers share GPUs, and their memory, by given numbers."""

import pytest

from sweeps.cluster.gpu_shares import share_of, tensor_share, trials_per_gpu, workers_on_gpus

GB = 10**9


@pytest.mark.parametrize(
    ("gpus", "share", "workers"), [(2, 0.6, 2), (2, 1, 2), (8, 1 / 8, 64), (1.4, 0.6, 1), (1.5, 0.5, 3), (0.5, 0.6, 0)]
)
def test_a_worker_has_its_share_of_one_gpu(gpus: float, share: float, workers: int) -> None:
    assert workers_on_gpus(gpus, share) == workers


@pytest.mark.parametrize(("total", "peak", "trials"), [(80, 3, 8), (24, 3, 5), (12, 3, 2), (8, 7, 1), (8, 30, 1)])
def test_trials_on_a_gpu_follow_from_its_memory(total: int, peak: int, trials: int) -> None:
    assert trials_per_gpu(total * GB, peak * GB) == trials


@pytest.mark.parametrize("number", range(1, 9))
def test_as_many_workers_as_share_a_gpu_fit_it_in_rays_units(number: int) -> None:
    share = share_of(number)
    assert round(share * 10_000) * number <= 10_000
    assert workers_on_gpus(1, share) == number
    assert workers_on_gpus(3, share) == 3 * number


@pytest.mark.parametrize("trials", [2, 5, 8])
def test_tensors_and_processes_of_all_fit_the_gpu(trials: int) -> None:
    total = 24 * GB
    assert trials * (tensor_share(1 / trials, total) * total + 0.85 * GB) == pytest.approx(total)
    assert tensor_share(1, total) == 1
