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
from mtlib.data.load import read_data, read_held_out
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


def test_dev_rows_are_whole_groups_drawn_from_train(folder: Path, tiny_config: TrialConfig) -> None:
    """Of 48 rows every third repeats the text of the row before it."""
    texts = [f"Film {row - (row % 3 == 2)}" if row % 2 else f"film  {row - (row % 3 == 2)}" for row in range(48)]
    lines = [json.dumps({"text": text, "tone": "neutral"}) for text in texts]
    (folder / "tone-train.jsonl").write_text("\n".join(lines))
    rewrite(folder, ('"tone-dev.jsonl"', "0.25"))
    config = config_for(folder, tiny_config)
    for changed in (config, config.override({"seed": 3, "replicate": 1})):
        tables = read_data(changed, folder)
        train, dev = (tables["tone", split] for split in ("train", "dev"))
        assert (len(train.ids), len(dev.ids), dev.split) == (36, 12, "dev")
        assert sorted(train.ids + dev.ids, key=int) == [str(row) for row in range(48)]
        assert not set(map(normalise, train.texts[0])) & set(map(normalise, dev.texts[0]))
        assert dev.texts[0] == [texts[int(row)].strip() for row in dev.ids]
        assert dev.ids == tables["tone", "dev"].ids
    assert tables["grade", "dev"].ids[0] == "dev0", "the other task has its file"


def test_dev_rows_drawn_from_train_and_held_out_rows_are_different_ones(folder: Path, tiny_config: TrialConfig) -> None:
    rewrite(folder, ('"tone-dev.jsonl"', "0.25"), ('"grade-dev.parquet"', "0.5"))
    frame = pd.DataFrame({"left": [f"l{row}" for row in range(20)], "right": [f"r{row}" for row in range(20)]})
    frame.assign(score=50.0, key=[f"k{row}" for row in range(20)]).to_parquet(folder / "grade-train.parquet")
    plain = read_data(config_for(folder, tiny_config), folder)
    config = config_for(folder, tiny_config).override({"data.hold_out": 0.2})
    tables, held = read_data(config, folder), read_held_out(config, folder)
    for task, num_rows in (("tone", (29, 12, 7)), ("grade", (8, 10, 2))):
        parts = [tables[task, "train"], tables[task, "dev"], held[task]]
        assert tuple(len(part.ids) for part in parts) == num_rows
        assert len({row for part in parts for row in part.ids}) == sum(num_rows)
        assert parts[1].ids == plain[task, "dev"].ids, "dev rows do not depend on those held out"
        assert set(parts[2].ids) <= set(plain[task, "train"].ids)


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
