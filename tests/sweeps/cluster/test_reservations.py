"""Placement groups without actors, by what Ray lists; the kind `lane` of `benchmarks/chaos.py` leaves real ones."""

from types import SimpleNamespace

import pytest
import ray

from sweeps.cluster import reservations
from sweeps.cluster.reservations import idle_groups


def test_groups_with_cpus_and_without_actors_are_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    bundles = {"idle": {"CPU": 1.0}, "used": {"CPU": 1.0}, "of-tune": {"node:head": 0.001}}
    groups = [SimpleNamespace(placement_group_id=name, bundles=[{"unit_resources": b}]) for name, b in bundles.items()]
    actors = [SimpleNamespace(placement_group_id=name) for name in ("used", None)]
    monkeypatch.setattr(ray, "get_runtime_context", lambda: SimpleNamespace(get_job_id=lambda: "1", gcs_address=""))
    monkeypatch.setattr(reservations, "list_placement_groups", lambda *_, **__: groups)
    monkeypatch.setattr(reservations, "list_actors", lambda *_, **__: actors)
    assert idle_groups() == {"idle"}
