"""Random streams: named, independent and the same on every machine."""

import numpy as np
import pytest
import torch
from scipy.stats import kstest

from mtlib.runtime.seeds import numpy_stream, stream_seed, torch_stream

NAMES: list[tuple[int | str, ...]] = [
    (),
    (0,),
    ("0",),
    (0, 0),
    (0, 1),
    (1, 0),
    (10,),
    (0, "order", 1, "sst", 23),
    (0, "order", 12, "sst", 3),
    (0, "noise", 1, "sst", 23),
    ("ab", "c"),
    ("a", "bc"),
    ("abc",),
    ("a', 'bc",),
]


def test_different_names_give_different_seeds() -> None:
    assert len({stream_seed(*name) for name in NAMES}) == len(NAMES)


def test_a_seed_is_in_the_range_of_every_generator() -> None:
    for name in NAMES:
        assert 0 <= stream_seed(*name) < 2**63


def test_the_seed_of_a_name_is_the_same_in_every_process_and_version() -> None:
    # The first 63 bits of what `printf "(3, 'order', 1, 'sst')" | sha256sum` prints.
    assert stream_seed(3, "order", 1, "sst") == 0xBBFE5757852B6FB0 >> 1


def test_streams_of_the_same_name_are_equal() -> None:
    assert np.array_equal(numpy_stream(1, "a").random(5), numpy_stream(1, "a").random(5))
    first, second = (torch.rand(5, generator=torch_stream(1, "a")) for _ in range(2))
    assert torch.equal(first, second)
    assert not np.array_equal(numpy_stream(1, "a").random(5), numpy_stream(2, "a").random(5))
    assert not torch.equal(first, torch.rand(5, generator=torch_stream(1, "b")))


def test_a_stream_does_not_use_the_global_ones() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    torch.rand(4, generator=torch_stream(1))
    numpy_stream(1).random(4)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("part", range(3))
def test_seeds_of_similar_names_are_uniform(part: int) -> None:
    names = (tuple(7 if place == part else number for place in range(3)) for number in range(2000))
    seeds = [stream_seed(*name) / 2**63 for name in names]
    assert kstest(seeds, "uniform").pvalue > 1e-4
    drawn = [numpy_stream(number, part).random() for number in range(500)]
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 0.2


def test_a_torch_stream_is_on_the_cpu() -> None:
    assert torch_stream(0).device == torch.device("cpu")
