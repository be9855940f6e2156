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


def test_the_hub_reads_the_front_matter(write: Write) -> None:
    card = ModelCard(write({"encoder.name": "google/bert_uncased"}))
    assert {name: value for name, value in vars(card.data).items() if value is not None} == {
        "base_model": "google/bert_uncased",
        "library_name": "transformers",
        "pipeline_tag": "feature-extraction",
        "tags": ["multi-task", "multitask-sweeps", "sst", "qqp", "sts"],
    }
    assert card.text.lstrip().startswith("# smart 0003-r0")


def test_a_hub_name_has_at_most_one_slash_and_is_no_path() -> None:
    names = ("bert-base-uncased", "google/bert", "/a/b", "./a", "~/a", "a/b/c")
    assert [is_hub_name(name) for name in names] == [True, True, False, False, False, False]


def test_a_local_encoder_is_named_by_its_folder_and_is_no_base_model(tmp_path: Path, write: Write) -> None:
    text = write({"encoder.name": str(tmp_path)})
    assert "\nbase_model: " not in text
    assert str(tmp_path) not in text
    assert f"- Encoder: `{tmp_path.name}`, fingerprint `{'e' * 64}`" in text


def test_tasks_files_and_scores_that_were_picked_on_dev_are_listed(write: Write) -> None:
    text = write()
    assert "fine-tuned on SST, QQP and STS together" in text
    assert "\n| `a.file` | what it holds |\n" in text
    lines = (
        "SST | accuracy | 0.5000",
        "STS | pearson | 0.7500",
        "overall | overall | 0.6124",
        "`a.file` | what it holds",
    )
    for line in lines:
        assert f"\n| {line} |\n" in text
    assert "the weights of epoch 3, of a trial among 12, kept because that epoch scored best" in text
    alone = write({"stages.1.tasks": ["qqp"], "smart.weight": 0.0}, num_trials=1)
    assert "fine-tuned on QQP by" in alone
    assert "among" not in alone


def test_settings_are_listed_with_their_values(write: Write) -> None:
    text = write({"seed": 7, "replicate": 2, "optimizer.layer_decay": 0.9, "tasks.qqp.batch_size": 24})
    for passage in (
        f"fingerprint `{'d' * 64}`; rows: sst-train 30",
        "Optimizer steps: 1234, of which the last ended epoch 3",
        "learning_rate 0.001, head_learning_rate none,",
        "layer_decay 0.9",
        "SMART (`smart`): weight 0.5, tasks [sst, qqp],",
        "SimCSE (`simcse`): none",
        "Seed 7, replicate 2; configuration `",
        "Versions: torch 2.9.1",
        "| QQP | binary | binary cross entropy (`binary_cross_entropy`), label_smoothing 0.0 | linear layer",
        "| none | 1.0 | 24 |",
        "\n2. sampled round robin: tasks [sst, qqp, sts], extra_data [], order sampled_round_robin",
    ):
        assert passage in text, passage


def test_each_loss_term_and_module_is_listed_where_it_is_on_and_no_path_of_the_machine(write: Write) -> None:
    pals = {"pals.size": 8, "pals.num_heads": 2, "pals.tasks": ["sst", "qqp"]}
    simcse = {"simcse.weight": 0.1, "simcse.tasks": ["sts"]}
    start = {"encoder.start_from": "/home/me/sweeps/NAME/trials/0003-r0"}
    text = write({**pals, **simcse, **start, "relational_tasks": ["qqp", "sts"], "loss_weighting": "uncertainty"})
    for passage in (
        "The encoder alone is not the whole model for SST and QQP",
        "SimCSE's projection served training only",
        "pals: size 8, num_heads 2",
        "SimCSE (`simcse`): weight 0.1, tasks [sts]",
        "Relational layer shared by QQP and STS",
        "weights uncertainty; gradients: sum (`sum`)",
        "those of `NAME/trials/0003-r0`",
    ):
        assert passage in text, passage
    assert "/home/me" not in text


def test_what_is_off_or_not_used_is_not_mentioned(write: Write) -> None:
    text = write()
    for passage in ("SimCSE's projection", "not the whole model", "Relational", "data `snli`"):
        assert passage not in text


def test_extra_data_and_augmentation_of_trained_tasks_are_listed_without_their_paths(write: Write) -> None:
    more = {"task": "sst", "path": "/a/more.csv", "role": "augment"}
    keys = {f"data.sources.more.{key}": value for key, value in more.items()}
    text = write({"stages.1.extra_data": ["snli"], **keys})
    assert "- data `snli`: task qqp, role extra" in text
    assert "- data `more`: task sst, role augment" in text
    assert "/a/more.csv" not in text
    assert "data `cfimdb`" not in text


def test_texts_from_outside_have_no_meaning_in_markdown(write: Write) -> None:
    text = write(title="a *b* | <i> _c_ d_e")
    assert r"# a \*b\* \| \<i\> \_c\_ d_e" in text


def test_the_loading_example_compiles(write: Write) -> None:
    blocks = [part.split("```")[0] for part in write().split("```python\n")[1:]]
    assert len(blocks) == 2
    for block in blocks:
        compile(block, "card", "exec")


def test_values_are_shown_as_they_are_typed_and_names_joined_as_a_sentence() -> None:
    values = {"none": None, "true": True, "[]": [], "[a, 1]": ["a", 1], "1e-05": 1e-5, "x": "x"}
    assert {text: shown(value) for text, value in values.items()} == {text: text for text in values}
    assert [in_words(names) for names in ("a", "ab", "abc")] == ["a", "a and b", "a, b and c"]
