"""The examples of docs/extending.md work as they stand: each is applied to a copy of the source and trained with."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from tests.docs.page_blocks import ROOT, apply_block, blocks_of, copy_packages, run_in

EXAMPLES = blocks_of((ROOT / "docs" / "extending.md").read_text())
CASES: dict[str, dict[str, Any]] = {
    "A loss": {
        "choose": {"tasks.sst.loss": "focal"},
        "vary": {"tasks.sst.focal_gamma": 1.5},
        "wrong": {"tasks.sst.loss": "focall"},
        "name": "focal",
        "shown": "focal loss (`focal`)",
    },
    "A batch order": {
        "choose": {"stages.0.sum_losses": False, "stages.0.order": "temperature"},
        "vary": {"stages.0.temperature_value": 4.0},
        "wrong": {"stages.0.order": "temperatur"},
        "name": "temperature",
        "shown": "temperature sampling: tasks",
    },
    "A penalty": {
        "choose": {"rdrop.weight": 1.0, "rdrop.tasks": ["sst", "qqp", "sts"]},
        "vary": {"rdrop.tasks": ["sst"]},
        "wrong": {"rdrp.weight": 1.0},
        "name": "rdrop",
        "shown": "R-Drop (`rdrop`): weight 1.0",
    },
    "A gradient method": {
        "choose": {"gradients": "equal_length"},
        "vary": {"equal_length_power": 0.5},
        "wrong": {"gradients": "equal"},
        "name": "equal_length",
        "shown": "gradients of equal length (`equal_length`)",
    },
}
"""By heading: what chooses the new method, what changes its settings, and a wrong name."""


@pytest.fixture(scope="module")
def shown(tiny_folder: Path, tiny_encoder_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each training method shows once all examples are in one copy."""
    folder = copy_packages(tmp_path_factory.mktemp("extended"))
    for title in CASES:
        for block in EXAMPLES[title]:
            apply_block(block, folder)
    (folder / "cases.json").write_text(json.dumps(CASES))
    script = Path(__file__).with_name("train_extended.py")
    printed = run_in(folder, script, str(tiny_folder), str(tiny_encoder_folder), str(folder / "cases.json"))
    found: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return found


@pytest.mark.parametrize("title", CASES)
def test_a_step_is_trained_with_it(title: str, shown: dict[str, Any]) -> None:
    assert shown[title]["losses"]
    assert all(map(math.isfinite, shown[title]["losses"]))
    assert ("rdrop" in shown[title]["metrics"]) == (title == "A penalty")


@pytest.mark.parametrize("title", CASES)
def test_a_wrong_name_lists_it(title: str, shown: dict[str, Any]) -> None:
    known = shown[title]["refusal"].partition(", got ")[0]
    assert CASES[title]["name"] in known.replace(",", " ").split()


@pytest.mark.parametrize("title", CASES)
def test_its_settings_are_recorded_and_count_only_where_it_is_chosen(title: str, shown: dict[str, Any]) -> None:
    assert shown[title]["is_read_back"]
    assert shown[title]["counts_when_chosen"]
    assert not shown[title]["counts_otherwise"]


@pytest.mark.parametrize("title", CASES)
def test_the_model_card_shows_its_title(title: str, shown: dict[str, Any]) -> None:
    assert CASES[title]["shown"] in shown[title]["card"]


def test_a_page_that_names_a_line_which_is_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("first\n")
    (block,) = blocks_of("\n## One\n<!-- file: a.py, below: second -->\n```python\nx\n```\n")["One"]
    with pytest.raises(AssertionError, match=r"a\.py must have one line 'second'"):
        apply_block(block, tmp_path)
