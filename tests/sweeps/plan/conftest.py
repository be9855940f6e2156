"""Options and inputs of a sweep of the space `smart_lambda`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from search_spaces.space import load_space
from sweeps.options import SweepOptions
from sweeps.plan.inputs import SweepInputs

Build = Callable[..., SweepOptions]


@pytest.fixture
def options(tmp_path: Path) -> Build:
    """Builds options; any may be given."""

    def build(**changes: Any) -> SweepOptions:
        return SweepOptions(**{"space": "smart_lambda", "name": "first", "storage": f"{tmp_path}/storage", **changes})

    return build


@pytest.fixture
def inputs() -> SweepInputs:
    """Inputs as if they had been read; there are no files."""
    return SweepInputs(
        space=load_space("smart_lambda"),
        data_folder=Path("/data"),
        num_rows={("sst", "train"): 3, ("sst", "dev"): 2},
        fingerprint="abc",
        fingerprints={"sst-train": "ab", "sst-dev": "c"},
        skipped=("sst.csv:2: x is blank",),
        left_out=("sst.csv: 7 rows have x 9, which labels does not name",),
        notes=(),
    )
