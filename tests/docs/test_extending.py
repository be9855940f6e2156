"""The examples of docs/extending.md, applied to a copy of the source, train a step."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from results.records.selection import read_selection
from tests.docs.page_blocks import ROOT, apply_block, blocks_of, copy_packages, run_in
from tests.results.selection.scored_sweep import build_sweep

EXAMPLES = blocks_of((ROOT / "docs" / "extending.md").read_text())
CASES: dict[str, dict[str, Any]] = {
    "A loss": {
        "choose": {"tasks.sst.loss": "focal"},
        "vary": {"tasks.sst.focal_gamma": 1.5},
        "wrong": {"tasks.sst.loss": "focall"},
        "name": "focal",
        "title": "focal loss (`focal`)",
    },
    "A batch order": {
        "choose": {"stages.0.sum_losses": False, "stages.0.order": "temperature"},
        "vary": {"stages.0.temperature_value": 4.0},
        "wrong": {"stages.0.order": "temperatur"},
        "name": "temperature",
        "title": "temperature sampling: tasks",
    },
    "A penalty": {
        "choose": {"rdrop.weight": 1.0, "rdrop.tasks": ["sst", "qqp", "sts"]},
        "vary": {"rdrop.tasks": ["sst"]},
        "wrong": {"rdrp.weight": 1.0},
        "name": "rdrop",
        "title": "R-Drop (`rdrop`): weight 1.0",
    },
    "A gradient method": {
        "choose": {"gradients": "equal_length"},
        "vary": {"equal_length_power": 0.5},
        "wrong": {"gradients": "equal"},
        "name": "equal_length",
        "title": "gradients of equal length (`equal_length`)",
    },
}
"""By heading: what chooses the new method, what changes its settings, and a wrong name."""


@pytest.fixture(scope="module")
def results(tiny_folder: Path, tiny_encoder_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Results of each training method in a copy with all examples."""
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
def test_each_example_trains_a_step(title: str, results: dict[str, Any]) -> None:
    assert results[title]["losses"]
    assert all(map(math.isfinite, results[title]["losses"]))
    assert ("rdrop" in results[title]["metrics"]) == (title == "A penalty")


@pytest.mark.parametrize("title", CASES)
def test_a_wrong_name_lists_the_new_one(title: str, results: dict[str, Any]) -> None:
    known = results[title]["error"].partition(", got ")[0]
    assert CASES[title]["name"] in known.replace(",", " ").split()


@pytest.mark.parametrize("title", CASES)
def test_new_settings_are_recorded_and_change_the_key_only_where_they_are_used(
    title: str, results: dict[str, Any]
) -> None:
    assert results[title]["is_read_back"]
    assert results[title]["key_changes_when_chosen"]
    assert not results[title]["key_changes_otherwise"]


@pytest.mark.parametrize("title", CASES)
def test_the_model_card_shows_the_title(title: str, results: dict[str, Any]) -> None:
    assert CASES[title]["title"] in results[title]["card"]


@pytest.fixture(scope="module")
def extended_selector(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the packages with the selection method of the page."""
    folder = copy_packages(tmp_path_factory.mktemp("extended"))
    for block in EXAMPLES["A selection method"]:
        apply_block(block, folder)
    return folder


def test_the_selection_method_is_compared_and_can_be_chosen(extended_selector: Path, tmp_path: Path) -> None:
    sweep, script = build_sweep(tmp_path / "mine", 0.5, 0.6), extended_selector / "results/selector.py"
    words = (str(sweep), "--task", "sst", "--repeats", "1", "--bags", "0")
    run_in(extended_selector, script, *words)
    names = [score.name for score in read_selection(sweep).tasks["sst"].methods]
    assert names == ["single", "topk", "harmonic", "weights", "greedy"]
    printed = run_in(extended_selector, script, *words, "--method", "harmonic")
    assert "Chosen for SST: best models, weighted by rank, 2 models." in printed
    assert [member.weight for member in read_selection(sweep).tasks["sst"].members] == pytest.approx([2 / 3, 1 / 3])


def test_a_wrong_selection_method_lists_the_new_one(extended_selector: Path) -> None:
    with pytest.raises(AssertionError, match=r"unknown method 'harmonik'; did you mean 'harmonic'\?"):
        run_in(extended_selector, extended_selector / "results/selector.py", "mine", "--method", "harmonik")


def test_the_metric_is_that_of_scikit_learn_with_a_standard_error(tmp_path: Path) -> None:
    folder = copy_packages(tmp_path)
    (block,) = EXAMPLES["A metric"]
    apply_block(block, folder)
    found = json.loads(run_in(folder, Path(__file__).with_name("score_extended.py")).splitlines()[-1])
    assert found["score"] == pytest.approx(found["kappa"])
    assert found["resampled"] == pytest.approx(found["standard_error"], rel=0.15)
    assert found["overall"] == pytest.approx((1 + found["kappa"]) / 2)
    assert "did you mean 'kappa'?" in found["error"]


def test_a_block_below_a_missing_line_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("first\n")
    (block,) = blocks_of("\n## One\n<!-- file: a.py, below: second -->\n```python\nx\n```\n")["One"]
    with pytest.raises(AssertionError, match=r"a\.py must have one line 'second'"):
        apply_block(block, tmp_path)
