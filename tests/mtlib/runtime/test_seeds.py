"""Random streams: named, independent and the same on every machine."""

import numpy as np
import torch
from scipy.stats import kstest

from mtlib.runtime.seeds import numpy_stream, stream_seed, torch_stream


def test_different_names_give_different_seeds() -> None:
    names: list[tuple[int | str, ...]] = [(), (0,), ("0",), (0, 0), (0, "a", 1, "b", 23), (0, "a", 12, "b", 3)]
    names += [("ab", "c"), ("a", "bc"), ("abc",), ("a', 'bc",)]
    assert len({stream_seed(*name) for name in names}) == len(names)


def test_the_seed_of_a_name_is_the_same_in_every_process_and_version() -> None:
    # The first 63 bits of what `printf "(3, 'order', 1, 'sst')" | sha256sum` prints.
    assert stream_seed(3, "order", 1, "sst") == 0xBBFE5757852B6FB0 >> 1


def test_streams_of_the_same_name_are_equal_and_use_no_global_one() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    assert np.array_equal(numpy_stream(1, "a").random(5), numpy_stream(1, "a").random(5))
    assert not np.array_equal(numpy_stream(1, "a").random(5), numpy_stream(2, "a").random(5))
    first, second, other = (torch.rand(5, generator=torch_stream(1, name)) for name in "aab")
    assert torch.equal(first, second)
    assert not torch.equal(first, other)
    assert torch.equal(torch.rand(3), expected)


def test_seeds_of_similar_names_are_uniform_and_independent() -> None:
    for part in range(3):
        names = (tuple(7 if place == part else number for place in range(3)) for number in range(2000))
        assert kstest([stream_seed(*name) / 2**63 for name in names], "uniform").pvalue > 1e-4
        drawn = [numpy_stream(number, part).random() for number in range(500)]
        assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 0.2
