"""A service is lost once it has refused some connections in a row."""

import socket

from sweeps.cluster.ray_services import MAX_MISSES, RayServices


def test_service_is_lost_after_some_failures_and_not_before() -> None:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        gone, here = (f"127.0.0.1:{server.getsockname()[1]}" for server in (one, other))
        one.close()
        services = RayServices({"the node": here, "the head": gone})
        found = []
        for _ in range(MAX_MISSES):
            services.check()
            assert not services.are_well
            found.append(services.why_lost)
    assert found == [None] * (MAX_MISSES - 1) + [f"the head, {gone}, does not answer any more"]


def test_an_answer_makes_earlier_failures_forgotten() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    services = RayServices({"the head": f"127.0.0.1:{port}"})
    services.check()
    with socket.create_server(("127.0.0.1", port)):
        services.check()
        assert services.are_well
    services.check()
    assert services.why_lost is None
