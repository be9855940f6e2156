"""The number of threads is changed for a block only."""

import pytest
import torch

from mtlib.runtime.threads import using_threads


def test_number_of_threads_is_restored_after_an_error() -> None:
    before = torch.get_num_threads()
    inside = []

    def fail() -> None:
        with using_threads(before + 1):
            inside.append(torch.get_num_threads())
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert inside == [before + 1]
    assert torch.get_num_threads() == before
