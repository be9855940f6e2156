"""The head of a cluster is lost once it has refused three connections in a row."""

import socket

from sweeps.cluster.head import MAX_FAILURES, Head


def test_head_that_listens_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        head = Head(f"127.0.0.1:{server.getsockname()[1]}")
        assert head.answers()
        assert (head.is_well, head.is_lost) == (True, False)


def test_head_is_lost_after_some_failures_and_not_before() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    head = Head(address)
    assert [head.answers() for _ in range(MAX_FAILURES)] == [True] * (MAX_FAILURES - 1) + [False]
    assert not head.is_well
    assert address in head.why_lost


def test_an_answer_makes_earlier_failures_forgotten() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    head = Head(f"127.0.0.1:{port}")
    head.answers()
    with socket.create_server(("127.0.0.1", port)):
        head.answers()
        assert head.is_well
    assert head.answers()
