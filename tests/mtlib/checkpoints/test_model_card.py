"""Model cards: training settings, limitations, and front matter that huggingface_hub reads."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard

from mtlib.checkpoints.model_card import CardFacts, card_text, in_words, is_hub_name, shown
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


def front_matter_of(card: ModelCard) -> dict[str, Any]:
    """The front matter by huggingface_hub's names."""
    return {name: value for name, value in vars(card.data).items() if value is not None}


def test_the_hub_reads_the_front_matter(write: Write) -> None:
    card = ModelCard(write({"encoder.name": "google/bert_uncased"}))
    assert front_matter_of(card) == {
        "base_model": "google/bert_uncased",
        "library_name": "transformers",
        "pipeline_tag": "feature-extraction",
        "tags": ["multi-task", "multitask-sweeps", "sst", "qqp", "sts"],
    }
    assert card.text.lstrip().startswith("# smart 0003-r0")


@pytest.mark.parametrize(
    ("name", "is_on_hub"),
    [
        ("bert-base-uncased", True),
        ("google/bert", True),
        ("/a/b", False),
        ("./a", False),
        ("~/a", False),
        ("a/b/c", False),
    ],
)
def test_a_hub_name_has_at_most_one_slash_and_is_no_path(name: str, is_on_hub: bool) -> None:
    assert is_hub_name(name) is is_on_hub


def test_a_local_encoder_is_named_by_its_folder_and_is_no_base_model(tmp_path: Path, write: Write) -> None:
    text = write({"encoder.name": str(tmp_path)})
    assert "base_model" not in front_matter_of(ModelCard(text))
    assert str(tmp_path) not in text
    assert f"- Encoder: `{tmp_path.name}`, fingerprint `{'e' * 64}`" in text


def test_the_card_begins_with_what_the_model_is(write: Write) -> None:
    assert "One text encoder, fine-tuned on SST, QQP and STS together by multitask-sweeps." in write()
    alone = write({"stages.1.tasks": ["qqp"], "smart.weight": 0.0})
    assert "One text encoder, fine-tuned on QQP by multitask-sweeps." in alone


def test_scores_are_marked_as_selected_on_dev(write: Write) -> None:
    lines = write().splitlines()
    for line in ("| SST | accuracy | 0.5000 |", "| STS | pearson | 0.7500 |", "| overall | overall | 0.6124 |"):
        assert line in lines
    passage = " ".join(lines)
    assert "**Picked on dev.** These are the weights of epoch 3, of a trial among 12, kept because" in passage
    assert "Nothing was scored on test." in passage
    assert "among" not in write(num_trials=1)


def test_card_lists_all_training_settings(write: Write) -> None:
    text = write({"seed": 7, "replicate": 2, "optimizer.layer_decay": 0.9, "tasks.qqp.batch_size": 24})
    for passage in (
        f"- Data: fingerprint `{'d' * 64}`; rows: sst-train 30",
        "- Optimizer steps: 1234, of which the last ended epoch 3; precision fp32",
        "- AdamW: learning_rate 0.001, head_learning_rate none, weight_decay 0.01, decay_biases_and_norms true, "
        "layer_decay 0.9",
        "- SMART (`smart`): weight 0.5, tasks [sst, qqp], mode unit_norm",
        "- proximal point term (`proximal`): none",
        "- SimCSE (`simcse`): none",
        "- pals: none",
        "- Seed 7, replicate 2; configuration `",
        "- Versions: torch 2.9.1",
        "| QQP | binary | binary cross entropy (`binary_cross_entropy`), label_smoothing 0.0 "
        "| linear layer (`linear`), hidden_units none | cross |  | cls | raw | none | 1.0 | 24 |",
        "1. batch round robin: tasks [qqp], extra_data [], order batch_round_robin",
        "2. sampled round robin: tasks [sst, qqp, sts], extra_data [], order sampled_round_robin",
        "| `a.file` | what it holds |",
    ):
        assert passage in text, passage


def test_each_loss_term_and_module_is_listed_where_it_is_on(write: Write) -> None:
    text = write(
        {
            "pals.size": 8,
            "pals.num_heads": 2,
            "pals.tasks": ["sst", "qqp"],
            "simcse.weight": 0.1,
            "simcse.tasks": ["sts"],
            "relational_tasks": ["qqp", "sts"],
            "loss_weighting": "uncertainty",
            "encoder.start_from": "/home/me/sweeps/NAME/trials/0003-r0",
        }
    )
    assert "The encoder alone is not the whole model for SST and QQP" in text
    assert "SimCSE's projection served training only" in text
    assert "- pals: size 8, num_heads 2" in text
    assert "- SimCSE (`simcse`): weight 0.1, tasks [sts], temperature 0.05" in text
    assert "- Relational layer shared by QQP and STS" in text
    assert "- Tasks' losses: weights uncertainty; gradients: sum (`sum`)" in text
    assert "- Starting weights: not the pretrained ones but those of `NAME/trials/0003-r0`" in text
    assert "start_epoch overall" in text
    assert "/home/me" not in text


def test_the_card_warns_of_poolers_and_of_no_setting_that_is_off(write: Write) -> None:
    text = write()
    assert "it is random" in text
    assert "SimCSE's projection" not in text
    assert "not the whole model" not in text
    assert "Relational" not in text


def test_extra_data_is_listed_where_a_stage_uses_it(write: Write) -> None:
    assert "data `snli`" not in write()
    text = write({"stages.1.extra_data": ["snli"]})
    assert "- data `snli`: task qqp, role extra" in text
    assert "data `cfimdb`" not in text


def test_augmentation_is_listed_for_active_tasks_only(write: Write) -> None:
    source = {"data.sources.more.task": "sst", "data.sources.more.path": "/a/more.csv"}
    text = write({**source, "data.sources.more.role": "augment"})
    assert "- data `more`: task sst, role augment" in text
    assert "/a/more.csv" not in text


def test_the_loading_example_compiles(write: Write) -> None:
    blocks = [part.split("```")[0] for part in write().split("```python\n")[1:]]
    assert len(blocks) == 2
    for block in blocks:
        compile(block, "card", "exec")


@pytest.mark.parametrize(
    ("value", "text"), [(None, "none"), (True, "true"), ([], "[]"), (["a", 1], "[a, 1]"), (1e-5, "1e-05"), ("x", "x")]
)
def test_values_are_shown_as_they_are_typed(value: object, text: str) -> None:
    assert shown(value) == text


@pytest.mark.parametrize(("names", "text"), [(["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")])
def test_names_are_joined_as_a_sentence(names: list[str], text: str) -> None:
    assert in_words(names) == text
