"""Sweeps that are prepared in part, or with encoders that have no weights."""

from collections.abc import Mapping
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from sweeps.options import SweepOptions
from sweeps.plan.inputs import SweepInputs
from sweeps.plan.prepare import PreparedSweep, prepare

WITHOUT_WEIGHTS: Any = {"tiny": SimpleNamespace(fingerprint="fingerprint", num_parameters=7)}
"""What a sweep records of its encoder, by name."""


class RowsReadError(Exception):
    """Ends `prepare` once the rows are read; its argument are the inputs."""


def prepare_rows(options: SweepOptions) -> SweepInputs:
    """The space and the rows of a sweep, as `prepare` has them before it looks for encoders."""

    def stop(_options: SweepOptions, inputs: SweepInputs) -> None:
        raise RowsReadError(inputs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sweeps.plan.prepare.describe_sweep", stop)
        with pytest.raises(RowsReadError) as caught:
            prepare(options, lambda _lines: None, ExitStack())
    inputs: SweepInputs = caught.value.args[0]
    return inputs


def prepared_with(
    options: SweepOptions, inputs: SweepInputs, encoders: Mapping[str, Any] = WITHOUT_WEIGHTS
) -> PreparedSweep:
    """A sweep as if it had been prepared."""
    return PreparedSweep(options=options, inputs=inputs, encoders=encoders)
