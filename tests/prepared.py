"""Sweeps that are prepared in part, or with encoders that have no weights, and inputs without files."""

import dataclasses
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from search_spaces.space import SearchSpace
from sweeps.options import SweepOptions
from sweeps.plan.inputs import SweepInputs
from sweeps.plan.prepare import PreparedSweep, prepare

WITHOUT_WEIGHTS: Any = {"tiny": SimpleNamespace(fingerprint="fingerprint", num_parameters=7)}
"""What a sweep records of its encoder, by name."""


def inputs_of(space: SearchSpace, num_rows: Mapping[tuple[str, str], int], **changes: Any) -> SweepInputs:
    """Inputs as if they had been read from `/data`; there are no files."""
    given: dict[str, Any] = {"data_folder": Path("/data"), "fingerprint": "abc", "skipped": ()}
    return SweepInputs(**{"space": space, "num_rows": num_rows, **given, **changes})


def with_space(inputs: SweepInputs, **changes: Any) -> SweepInputs:
    """The inputs with a space of which this is changed."""
    return dataclasses.replace(inputs, space=dataclasses.replace(inputs.space, **changes))


def with_base(inputs: SweepInputs, **changes: Any) -> SweepInputs:
    """The inputs with other settings of the base, by key with `__` for dots."""
    dotted = {key.replace("__", "."): value for key, value in changes.items()}
    return with_space(inputs, base=inputs.space.base.override(dotted))


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
