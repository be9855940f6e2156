"""Model cards: training settings, limitations, and front matter that huggingface_hub reads."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard

from mtlib.checkpoints.model_card import CardFacts, card_text
from mtlib.config.trial import TrialConfig

FACTS: dict[str, Any] = {
    "title": "smart 0003-r0",
    "best": "overall",
    "epoch": 3,
    "steps": 1234,
    "scores": {"sst": {"accuracy": 0.5, "loss": 1.25}, "sts": {"pearson": 0.75}, "overall": {"overall": 0.61236}},
    "num_trials": 12,
    "data_fingerprint": "d" * 64,
    "num_rows": {"sst-train": 30},
    "versions": {"torch": "2.9.1"},
}

Write = Callable[..., str]


@pytest.fixture
def write(tiny_config: TrialConfig) -> Write:
    """A card for some dotted keys and facts."""

    def build(changes: dict[str, Any] | None = None, **facts: Any) -> str:
        config = tiny_config.override(changes or {})
        return card_text(config, "e" * 64, {"a.file": "what it holds"}, CardFacts(**{**FACTS, **facts}))

    return build


def test_the_hub_reads_the_front_matter(write: Write) -> None:
    card = ModelCard(write({"encoder.name": "google/bert_uncased"}))
    assert {name: value for name, value in vars(card.data).items() if value is not None} == {
        "base_model": "google/bert_uncased",
        "library_name": "transformers",
        "pipeline_tag": "feature-extraction",
        "tags": ["multi-task", "multitask-sweeps", "sst", "qqp", "sts"],
    }
    assert card.text.lstrip().startswith("# smart 0003-r0")


def test_a_local_encoder_is_named_by_its_folder_and_is_no_base_model(tmp_path: Path, write: Write) -> None:
    text = write({"encoder.name": str(tmp_path)})
    assert "\nbase_model: " not in text
    assert str(tmp_path) not in text
    assert f"- Encoder: `{tmp_path.name}`, fingerprint `{'e' * 64}`" in text


def test_extra_data_and_augmentation_of_trained_tasks_are_listed_without_their_paths(write: Write) -> None:
    more = {"task": "sst", "path": "/a/more.csv", "role": "augment"}
    keys = {f"data.sources.more.{key}": value for key, value in more.items()}
    keys |= {"encoder.start_from": "/home/me/sweeps/NAME/trials/0003-r0"}
    text = write({"stages.1.extra_data": ["snli"], **keys})
    assert "- data `snli`: task qqp, role extra" in text
    assert "- data `more`: task sst, role augment" in text
    assert "/a/more.csv" not in text
    assert "those of `NAME/trials/0003-r0`" in text
    assert "/home/me" not in text
    assert "data `cfimdb`" not in text


def test_texts_from_outside_have_no_meaning_in_markdown(write: Write) -> None:
    text = write(title="a *b* | <i> _c_ d_e")
    assert r"# a \*b\* \| \<i\> \_c\_ d_e" in text


def test_the_loading_example_compiles(write: Write) -> None:
    blocks = [part.split("```")[0] for part in write().split("```python\n")[1:]]
    assert len(blocks) == 2
    for block in blocks:
        compile(block, "card", "exec")
