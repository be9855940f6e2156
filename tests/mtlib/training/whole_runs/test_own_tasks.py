"""Tasks that a `tasks.toml` defines are read, trained and scored by the names of their labels."""

import json
import random
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mtlib.config.data import DataConfig
from mtlib.config.task_file import TASK_FILE, find_tasks
from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig, default_task_configs
from mtlib.data.hold_out import normalise
from mtlib.data.load import read_data
from mtlib.data.token_cache import tokenize
from mtlib.model.encoder import PretrainedEncoder
from tests.mtlib.config.test_task_file import GRADE, TONE, write
from tests.mtlib.test_train import run_whole

WORDS = {"negative": "bad", "neutral": "so", "positive": "good"}
NUM_ROWS = {"train": 48, "dev": 30}


def write_tone(folder: Path, split: str, names: list[str]) -> None:
    """Texts of which one word tells the label."""
    lines = [json.dumps({"text": f"a {WORDS[name]} film {row}", "tone": name}) for row, name in enumerate(names)]
    (folder / f"tone-{split}.jsonl").write_text("\n".join(lines))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, TONE, GRADE)
    draw = random.Random(0)
    for split, count in NUM_ROWS.items():
        write_tone(tmp_path, split, [draw.choice(list(WORDS)) for _ in range(count)])
        scores = [draw.choice([0.0, 50.0, 100.0]) for _ in range(count)]
        pairs = [
            {"left": "a film", "right": f"a {'good' if score else 'bad'} film", "score": score} for score in scores
        ]
        frame = pd.DataFrame(pairs).assign(key=[f"{split}{row}" for row in range(count)])
        frame.to_parquet(tmp_path / f"grade-{split}.parquet")
    return tmp_path


def config_for(folder: Path, tiny_config: TrialConfig) -> TrialConfig:
    tasks = find_tasks(folder)
    return TrialConfig(
        stages=(StageConfig(tasks=tuple(tasks), epochs=24),),
        data=DataConfig(tasks=tasks),
        tasks=default_task_configs(tasks),
        encoder=tiny_config.encoder,
        optimizer=tiny_config.optimizer,
    ).override({"encoder.dropout": 0, "tasks.grade.loss_weight": 0.0001})


def rewrite(folder: Path, *changes: tuple[str, str]) -> None:
    """Changes the folder's `tasks.toml`."""
    path = folder / TASK_FILE
    for right, wrong in changes:
        assert right in path.read_text()
        path.write_text(path.read_text().replace(right, wrong))


def test_no_other_set_is_trained_on_drawn_dev_rows(folder: Path, tiny_config: TrialConfig) -> None:
    rewrite(folder, ('"tone-dev.jsonl"', "0.25"))
    drawn = read_data(config_for(folder, tiny_config), folder)["tone", "dev"]
    frame = pd.read_parquet(folder / "grade-train.parquet")
    frame.loc[5, "left"] = drawn.texts[0][0].upper()
    frame.loc[[7, 8], "right"] = drawn.texts[0][1]
    frame.to_parquet(folder / "grade-train.parquet")
    config = config_for(folder, tiny_config)
    table = read_data(config, folder)["grade", "train"]
    assert set(frame["key"]) - set(table.ids) == {"train5", "train7", "train8"}
    assert table.left_out == ("grade-train.parquet: 3 rows share a text with dev rows drawn from train",)
    labels = [f"{name}:{number}" for number, name in enumerate(WORDS)]
    again = {"task": "tone", "role": "augment", "path": "tone-train.jsonl", "labels": labels}
    augmented = config.override({f"data.sources.again.{key}": value for key, value in again.items()})
    table = read_data(augmented, folder)["tone", "train"]
    assert not set(map(normalise, table.texts[0])) & set(map(normalise, drawn.texts[0]))
    assert len(table.ids) == 2 * table.num_own_rows == 72


def test_they_are_trained_and_scored(
    folder: Path, tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder, tmp_path: Path
) -> None:
    config = config_for(folder, tiny_config)
    corpus = tokenize(read_data(config, folder), tiny_encoder.tokenizer, tmp_path / "cache")
    report = run_whole(config, corpus, tiny_encoder).reports[24]
    scores = {(point.task, point.metric): point.value for point in report.points if point.split == "dev"}
    assert scores["tone", "accuracy"] > 0.8
    expected = (scores["tone", "accuracy"] + 2 * (1 - scores["grade", "rmse"] / 100)) / 3  # of weights 1 and 2
    assert scores["overall", "overall"] == pytest.approx(expected)
    logits = {part.task: part.logits for part in report.predictions if part.split == "dev"}
    assert {task: values.shape for task, values in logits.items()} == {"grade": (30, 1), "tone": (30, 3)}
    assert np.isfinite(logits["grade"]).all()
