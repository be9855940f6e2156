"""The card of a bundle states what its selection records, in numbers and words."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard

from mtlib.tasks import TASKS
from results.inference.bundle.card import bundle_card
from results.inference.bundle.manifest import Bundle
from results.records.selection import BundledMember, HeldOutScores, Member, Selection
from tests.results.inference.trained_sweep import selection_of


@pytest.fixture
def selection(tmp_path: Path) -> Selection:
    members = (Member(sweep=str(tmp_path), trial="0003-r0", epoch=2, weight=1.0),)
    return selection_of(tmp_path, {"sst": members, "sts": members})


@pytest.fixture
def bundle() -> Bundle:
    both = (BundledMember(model="models/1", weight=0.75), BundledMember(model="models/2", weight=0.25))
    return Bundle(
        created="2024-06-01T10:00:00.000+00:00",
        python="3.11.7",
        packages={"multitask-sweeps": "0.1.0", "numpy": "2.4.6", "torch": "2.13.0"},
        models={f"models/{number}": f"trial {number}" for number in (1, 2)},
        tasks={"sst": (BundledMember(model="models/2", weight=1.0),), "sts": both},
    )


def test_scores_members_and_usage_are_stated(selection: Selection, bundle: Bundle) -> None:
    text = bundle_card(selection, bundle, [])
    for row in (
        "| SST | accuracy | 0.500 | 0.400 to 0.600 | 13 dev examples | 0.600 |",
        "| STS | pearson | 0.500 | 0.400 to 0.600 | 13 dev examples | 0.600 |",
        "| SST | 1.000 | [`models/2`](models/2) | trial 2 |",
        "| STS | 0.750 | [`models/1`](models/1) | trial 1 |",
        "| STS | 0.250 | [`models/2`](models/2) | trial 2 |",
        "| `sts` (STS) | `sentence1`, `sentence2` | a number, 0 to 5 |",
    ):
        assert f"\n{row}\n" in text
    assert "with 2 trained models" in text
    assert "4 candidates of 2 trials" in text
    assert "not scored on held-out rows" in text
    assert "multitask-sweeps predict . --task sts --input FILE --output predictions.csv" in text
    assert "2024-06-01 with Python 3.11.7, multitask-sweeps 0.1.0, numpy 2.4.6, torch 2.13.0." in text
    assert not re.search(r"\bNone\b|\{|\}", text)


def test_a_class_in_the_name_of_a_metric_does_not_break_the_table(selection: Selection, bundle: Bundle) -> None:
    named = replace(TASKS["sst"], labels=("1", "2", "3", "4", "a|b"), metric="f1:a|b")
    changed = replace(selection, definitions={**selection.definitions, "sst": named})
    assert "\n| SST | f1:a\\|b | 0.500 | 0.400" in bundle_card(changed, bundle, [])


def test_card_lists_every_hold_out_evaluation(selection: Selection, bundle: Bundle) -> None:
    evaluations = tuple(
        HeldOutScores(
            time=f"2024-07-0{day}T10:00:00.000+00:00",
            scores={"sst": score, "qqp": 0.9},
            intervals={"sst": (score - 0.1, score + 0.1), "qqp": (0.8, 1.0)},
            num_examples={"sst": 1234, "qqp": 5},
        )
        for day, score in ((1, 0.45), (2, 0.55))
    )
    text = bundle_card(replace(selection, evaluations=evaluations), bundle, [])
    assert "- evaluation 1, 2024-07-01, SST: 0.450 (0.350 to 0.550), 1,234 rows" in text
    assert "- evaluation 2, 2024-07-02, SST: 0.550 (0.450 to 0.650), 1,234 rows" in text
    assert "QQP" not in text, "a task that the bundle does not have"


def test_front_matter_is_valid(selection: Selection, bundle: Bundle) -> None:
    def read(base_models: list[str]) -> dict[str, Any]:
        return dict(ModelCard(bundle_card(selection, bundle, base_models)).data.to_dict())  # type: ignore[no-untyped-call]

    data = read(["bert-base-uncased", "a/b"])
    assert data["base_model"] == ["bert-base-uncased", "a/b"]
    assert data["tags"] == ["multi-task", "multitask-sweeps", "sst", "sts"]
    assert "base_model" not in read([])
    assert TASKS.keys() >= set(data["tags"][2:])
