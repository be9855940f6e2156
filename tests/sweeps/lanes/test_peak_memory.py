"""Peak memory, counted anew for each trial."""

import sys

import pytest
import torch

from sweeps.lanes.peak_memory import peak_memory, reset_peak_memory

MB = 2**20
CPU = torch.device("cpu")


def test_what_was_held_and_given_back_is_in_the_peak() -> None:
    reset_peak_memory(CPU)
    before = peak_memory(CPU)
    block = bytearray(200 * MB)
    block[::4096] = b"x" * len(block[::4096])  # touched, so that it is really there
    del block
    assert peak_memory(CPU) - before > 150 * MB


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux forgets a peak")
def test_a_reset_forgets_the_peak_of_the_trial_before() -> None:
    block = bytearray(200 * MB)
    block[::4096] = b"x" * len(block[::4096])
    high = peak_memory(CPU)
    del block
    reset_peak_memory(CPU)
    assert high - peak_memory(CPU) > 150 * MB


def test_a_running_process_holds_something() -> None:
    assert peak_memory(CPU) > 10 * MB
