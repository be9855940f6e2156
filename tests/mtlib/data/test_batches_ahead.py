"""Batches that are built ahead are the same, in the same order; an error comes where its batch would."""

import threading

import pytest
import torch

from mtlib.data.batches_ahead import build_ahead, num_ahead


@pytest.mark.parametrize(("ahead", "count"), [(0, 3), (4, 0), (4, 3), (4, 20)])
def test_everything_is_built_once_in_order(ahead: int, count: int) -> None:
    built = []

    def build(part: int) -> int:
        built.append(part)
        return 10 * part

    assert list(build_ahead(range(count), build, ahead)) == [(part, 10 * part) for part in range(count)]
    assert built == list(range(count))
    threads = {thread for _, thread in build_ahead(range(count), lambda _part: threading.get_ident(), ahead)}
    assert (threads == {threading.get_ident()}) == (ahead == 0)
    assert len(threads) <= 1


@pytest.mark.parametrize("ahead", [0, 3])
def test_error_is_raised_in_place_of_its_part(ahead: int) -> None:
    def build(part: int) -> float:
        return 1 / (2 - part)

    found = build_ahead(range(9), build, ahead)
    assert [next(found)[0], next(found)[0]] == [0, 1]
    with pytest.raises(ZeroDivisionError):
        next(found)


def test_what_is_not_needed_any_more_is_not_built() -> None:
    built, threads, is_first_done = [], set(), threading.Event()

    def build(part: int) -> int:
        threads.add(threading.current_thread())
        if part > 0:
            is_first_done.wait(10)
        built.append(part)
        return part

    found = build_ahead(range(9), build, 5)
    assert next(found) == (0, 0)
    threading.Timer(0.05, is_first_done.set).start()
    found.close()  # type: ignore[attr-defined]
    assert built in ([0], [0, 1])
    assert not any(thread.is_alive() for thread in threads)


def test_only_a_gpu_has_batches_built_ahead() -> None:
    assert num_ahead(torch.device("cpu")) == 0
    assert num_ahead(torch.device("cuda")) > 0
