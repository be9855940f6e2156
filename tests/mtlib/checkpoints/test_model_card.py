"""Model cards: training settings, limitations, and front matter that huggingface_hub reads."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import EvalResult, ModelCard

from mtlib.checkpoints.model_card import CardFacts, card_text, dev_data
from mtlib.config.schema import to_dict
from mtlib.config.trial import TrialConfig
from mtlib.data.cut_rows import CutRows
from mtlib.tasks import TASKS, TaskFiles

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
    card = ModelCard(write({"encoder.name": "google/bert_uncased"}, scores={}))
    assert {name: value for name, value in vars(card.data).items() if value is not None} == {
        "base_model": "google/bert_uncased",
        "library_name": "transformers",
        "pipeline_tag": "feature-extraction",
        "tags": ["multi-task", "multitask-sweeps", "sst", "qqp", "sts"],
    }
    assert card.text.lstrip().startswith("# smart 0003-r0")


def test_the_hub_shows_the_dev_score_of_each_task_with_its_interval(write: Write) -> None:
    text = write(intervals={"sts": {"pearson": (0.7, 0.8)}})
    card = ModelCard(text)
    assert str(card) == text
    assert card.data.get("model_name") == "smart 0003-r0"
    sst, sts = card.data.get("eval_results")
    assert (sst.dataset_type, sst.dataset_split, sst.metric_type, sst.metric_value) == ("sst", "dev", "accuracy", 0.5)
    assert (sts.task_name, sts.metric_value) == ("STS", 0.75)
    assert "95 %" not in sst.metric_name
    assert sts.metric_name.endswith(" (95 % interval 0.7000 to 0.8000)")
    assert "| STS | pearson | 0.7500 | 0.7000 to 0.8000 |" in text


def test_labels_of_a_task_stand_in_the_order_of_its_logits(write: Write, tiny_config: TrialConfig) -> None:
    assert "Labels of" not in write(), "SST-5 has numbers"
    named = dataclasses.replace(TASKS["sst"], labels=("bad", "poor", "so-so", "good", "great"))
    data = dataclasses.replace(tiny_config.data, tasks={**TASKS, "sst": named})
    text = card_text(dataclasses.replace(tiny_config, data=data), "e" * 64, {}, CardFacts(**FACTS))
    assert "Labels of SST, from 0 on: `bad`, `poor`, `so-so`, `good`, `great`." in text


def test_rows_that_training_cut_are_a_limitation_of_the_models_of_that_training(write: Write) -> None:
    cut = CutRows(task="sts", encoder="tiny", encoding="cross", max_length=64, share=0.142)
    changes = {"encoder.name": "tiny", "tasks.sts.encoding": "cross"}
    limits = write({**changes, "encoder.max_length": 64}, cut_rows=[cut]).partition("## Limitations")[2]
    assert "- About 14.2% of the train rows of STS are longer than 64 tokens" in limits
    assert "lose their end" not in write({**changes, "encoder.max_length": 32}, cut_rows=[cut])


@pytest.mark.parametrize(
    ("dev", "dataset", "split"),
    [
        ("hf://nyu-mll/glue#sst2:validation", ("nyu-mll/glue", "sst2"), "validation"),
        ("hf:///home/me/data:validation", ("own", None), "dev"),
        ("/home/me/dev.csv", ("own", None), "dev"),
        (0.1, ("own", None), "dev"),
    ],
)
def test_the_data_set_of_a_score_is_one_of_the_hub_or_the_task_itself(
    dev: str | float, dataset: tuple[str, str | None], split: str
) -> None:
    files = TaskFiles(train="hf://nyu-mll/glue#sst2:train", dev=dev)
    task = dataclasses.replace(TASKS["sst"], name="own", title="Own", files=files)
    found = EvalResult(task_type="a", metric_type="b", metric_value=1, **dev_data(task))
    assert (found.dataset_type, found.dataset_config) == dataset
    assert (found.dataset_name, found.dataset_split) == ("Own", split)


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


def test_batches_are_a_line_of_settings_without_the_files_of_tasks(tiny_config: TrialConfig) -> None:
    files = {"train": "/home/me/train.csv", "dev": "hf:///home/me/ds:dev"}
    tasks = {name: {**to_dict(task), "files": files} for name, task in tiny_config.data.tasks.items()}
    tree = tiny_config.to_tree()
    config = TrialConfig.from_json(json.dumps({**tree, "data": {**tree["data"], "tasks": tasks}}))
    text = card_text(config, "e" * 64, {}, CardFacts(**FACTS))
    (line,) = [line for line in text.splitlines() if line.startswith("- Batches: ")]
    assert line == "- Batches: bucket_by_length true, bucket_batches 2, hold_out 0.0"
    assert "/home/me" not in text


@pytest.mark.parametrize("place", ["/home/me", "/me/best", "~/me/models/best", "s3://key:secret@me/best"])
def test_starting_weights_are_named_by_the_last_part_of_their_place(write: Write, place: str) -> None:
    text = write({"encoder.start_from": place})
    assert f"those of `{place.rpartition('/')[2]}`" in text
    assert "me/" not in text.partition("Starting weights")[2].partition("\n")[0]


def test_texts_from_outside_have_no_meaning_in_markdown(write: Write) -> None:
    text = write(title="a *b* | <i> _c_ d_e")
    assert r"# a \*b\* \| \<i\> \_c\_ d_e" in text


def test_the_loading_example_compiles(write: Write) -> None:
    blocks = [part.split("```")[0] for part in write().split("```python\n")[1:]]
    assert len(blocks) == 2
    for block in blocks:
        compile(block, "card", "exec")
