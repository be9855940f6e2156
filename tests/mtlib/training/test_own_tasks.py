"""Tasks that a `tasks.toml` defines are read, trained and scored by the names of their labels."""

import json
import random
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mtlib.config.data import DataConfig
from mtlib.config.task_file import find_tasks
from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig, default_task_configs
from mtlib.data.load import read_data
from mtlib.data.token_cache import tokenize
from mtlib.model.encoder import PretrainedEncoder
from tests.mtlib.config.test_task_file import GRADE, TONE, write
from tests.mtlib.test_train import run_whole
from tests.one_line_error import one_line_error

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


def test_rows_have_the_numbers_of_their_labels(folder: Path, tiny_config: TrialConfig) -> None:
    tables = read_data(config_for(folder, tiny_config), folder)
    assert {key: len(table.ids) for key, table in tables.items()} == {
        (task, split): count for task in ("grade", "tone") for split, count in NUM_ROWS.items()
    }
    lines = [json.loads(line) for line in (folder / "tone-dev.jsonl").read_text().splitlines()]
    assert tables["tone", "dev"].labels.tolist() == [list(WORDS).index(line["tone"]) for line in lines]
    assert tables["tone", "dev"].ids == [str(row) for row in range(NUM_ROWS["dev"])]
    assert tables["grade", "dev"].ids[3] == "dev3"
    assert set(tables["grade", "dev"].labels) == {0.0, 50.0, 100.0}


def test_a_label_without_a_name_is_refused_with_its_row(folder: Path, tiny_config: TrialConfig) -> None:
    write_tone(folder, "dev", ["neutral", "positive"])
    path = folder / "tone-dev.jsonl"
    path.write_text(path.read_text().replace('"positive"', '"postive"'))
    message = one_line_error(read_data, config_for(folder, tiny_config), folder)
    assert message.startswith("unknown label in column tone of tone-dev.jsonl:2 'postive'; did you mean 'positive'?")


def test_a_missing_file_is_named(folder: Path, tiny_config: TrialConfig) -> None:
    (folder / "grade-dev.parquet").unlink()
    assert "lacks grade-dev.parquet" in one_line_error(read_data, config_for(folder, tiny_config), folder)


def test_they_are_trained_and_scored(
    folder: Path, tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder, tmp_path: Path
) -> None:
    config = config_for(folder, tiny_config)
    corpus = tokenize(read_data(config, folder), tiny_encoder.tokenizer, tmp_path / "cache")
    report = run_whole(config, corpus, tiny_encoder).reports[24]
    scores = {(point.task, point.metric): point.value for point in report.points if point.split == "dev"}
    assert scores["tone", "accuracy"] > 0.8
    expected = (scores["tone", "accuracy"] + (1 + scores["grade", "pearson"]) / 2) / 2
    assert scores["overall", "overall"] == pytest.approx(expected)
    logits = {part.task: part.logits for part in report.predictions if part.split == "dev"}
    assert {task: values.shape for task, values in logits.items()} == {"grade": (30, 1), "tone": (30, 3)}
    assert np.isfinite(logits["grade"]).all()
