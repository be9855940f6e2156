"""Options and inputs of a sweep of the space `smart_lambda`, and data with tasks of its own."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mtlib.config.trial import TrialConfig
from search_spaces.space import SearchSpace, load_space
from sweeps.options import SweepOptions
from sweeps.plan.inputs import SweepInputs
from tests.prepared import inputs_of

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
    return inputs_of(
        load_space("smart_lambda"),
        {("sst", "train"): 3, ("sst", "dev"): 2},
        fingerprints={"sst-train": "ab", "sst-dev": "c"},
        skipped=("sst.csv:2: x is blank",),
        left_out=("sst.csv: 7 rows have x 9, which labels does not name",),
    )


def space_with(base: TrialConfig, **changes: Any) -> SearchSpace:
    """A space of one configuration, of which more may be given."""
    return SearchSpace(**{"name": "trial", "question": "?", "base": base, "grid": {"smart.weight": (0.0,)}, **changes})


def write_tones(folder: Path, *further: str) -> None:
    """A data folder with a task of its own, and others of these names, each with the same rows."""
    folder.mkdir(exist_ok=True)
    rows = [json.dumps({"text": f"text {number}", "tone": "good" if number % 2 else "bad"}) for number in range(40)]
    (folder / "tone.jsonl").write_text("\n".join(rows))
    entries = [
        f'[tasks.{name}]\nkind = "binary"\nlabels = ["bad", "good"]\ntexts = ["text"]\nlabel = "tone"\n'
        'train = "tone.jsonl"\ndev = 0.25\n'
        for name in ("tone", *further)
    ]
    (folder / "tasks.toml").write_text("".join(entries))
