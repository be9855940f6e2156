"""One recorded sweep for the tests of a file, which leave its folder as it is."""

import pytest

from results.sweep import Sweep
from tests.results.page.recorded_sweep import write_recorded_sweep


@pytest.fixture(scope="module")
def recorded_sweep(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    """A finished sweep of three weights with two replicates each."""
    return write_recorded_sweep(tmp_path_factory.mktemp("recorded") / "mine")
