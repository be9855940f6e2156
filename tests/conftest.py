"""Tiny encoder, corpus and configuration of all tests; a bucket; test files that share a process."""

# ruff: noqa: E402 - libraries read the environment when they are imported
import functools
import gc
import os
import uuid
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

OF_THE_SHELL = ("HF_", "TRANSFORMERS_", "WANDB_", "MLFLOW_", "RAY_ADDRESS", "NO_COLOR", "FORCE_COLOR")
"""Beginnings of variables that a user's shell or a cluster may set and that change what libraries do, such as to ask no
hub (`HF_HUB_OFFLINE`), or to use a Ray that is running."""
for variable in [name for name in os.environ if name.startswith(OF_THE_SHELL)]:
    del os.environ[variable]

import numpy as np
import pytest
import torch
from xdist.scheduler import LoadFileScheduling, Scheduling

from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from mtlib.data.token_cache import Corpus, tokenize
from mtlib.model.encoder import PretrainedEncoder, load_encoder
from mtlib.tasks import TASKS
from tests.s3_server import s3_server, uri_of
from tests.task_tables import read_folder

os.environ["OMP_NUM_THREADS"] = "1"  # of the processes that tests run in and start: more threads slow small arrays down
torch.set_num_threads(1)
os.environ["COLUMNS"] = "100"  # of what is printed, whatever terminal the tests run in

SHARED_FIXTURES = ("private_ray", "run_on_both")
"""Fixtures that start processes, about ten seconds each; test files that use the same one run in one process."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keeps the garbage collector from walking through all imported modules again and again, now and during tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling | None:
    """The scheduler of `--dist loadfile`; it runs all files that use the same shared fixture in one process."""
    if config.getoption("dist") != "loadfile":
        return None
    scheduler = LoadFileScheduling(config, log)
    scheduler._split_scope = functools.partial(scope_of, config.rootpath)
    return scheduler


def scope_of(root: Path, node_id: str) -> str:
    """The shared fixture that a test's file uses, otherwise the file."""
    file = node_id.partition("::")[0]
    return shared_fixture(root / file) or file


@functools.cache
def shared_fixture(path: Path) -> str | None:
    text = path.read_text()
    return next((name for name in SHARED_FIXTURES if name in text), None)


TEXT = "the a film dog cat car road good bad fine dull bright slow fast runs sleeps sings very not old new red"
WORDS = TEXT.split()
ROWS = {"sst": 30, "qqp": 70, "sts": 22}


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train, dev and test files in the CS224N layout: random words; the first one decides the label."""
    folder = tmp_path_factory.mktemp("data")
    for name, count in ROWS.items():
        for split, rows in (("train", count), ("dev", 13), ("test", 5)):
            write_rows(folder, name, split, rows)
    return folder


def write_rows(folder: Path, name: str, split: str, count: int) -> None:
    """Writes one file of random texts."""
    task, stream = TASKS[name], np.random.default_rng(len(name) + 7 * count)
    columns = ["", "id", *task.text_columns] + ([] if split == "test" else [task.label_column])
    lines = ["\t".join(columns)]
    for row in range(count):
        texts = [" ".join(stream.choice(WORDS, stream.integers(2, 12))) for _ in task.text_columns]
        labels = [] if split == "test" else [label_text(name, WORDS.index(texts[0].split()[0]))]
        lines.append("\t".join([str(row), f"{name}{split}{row}", *texts, *labels]))
    (folder / task.file_name(split)).write_text("\n".join(lines) + "\n")


def label_text(name: str, word: int) -> str:
    """The label for the number of a text's first word, as written in the files."""
    return {"sst": str(word % 5), "qqp": f"{word % 2}.0"}.get(name, f"{5 * word / len(WORDS):.2f}")


@pytest.fixture(scope="session")
def tiny_encoder_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of two layers, 32 wide, with a vocabulary of its own."""
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder = tmp_path_factory.mktemp("encoder")
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    BertTokenizerFast(vocab=str(folder / "vocab.txt"), model_max_length=64).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    BertModel(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_encoder(tiny_encoder_folder: Path) -> PretrainedEncoder:
    return load_encoder(str(tiny_encoder_folder))


@pytest.fixture(scope="session")
def tiny_corpus(tiny_folder: Path, tiny_encoder: PretrainedEncoder, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return tokenize(read_folder(tiny_folder, tuple(ROWS)), tiny_encoder.tokenizer, tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def tiny_config() -> TrialConfig:
    """Staggered fine-tuning: QQP alone, then all three tasks with SMART on two; with dropout."""
    changes: Mapping[str, Any] = {
        "encoder.name": "tiny",
        "encoder.max_length": 32,
        "encoder.dropout": 0.1,
        "optimizer.learning_rate": 1e-3,
        "smart.weight": 0.5,
        "smart.tasks": ["sst", "qqp"],
        "tasks.sst.scored_train_rows": 11,
        **{f"tasks.{name}.batch_size": size for name, size in (("sst", 8), ("qqp", 8), ("sts", 5))},
    }
    stages = (
        StageConfig(tasks=("qqp",), epochs=1, steps_per_epoch=4),
        StageConfig(tasks=("sst", "qqp", "sts"), order="sampled_round_robin", epochs=2),
    )
    return TrialConfig(stages=stages).override(changes)


@pytest.fixture(scope="session")
def s3_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server of S3 buckets."""
    with s3_server(tmp_path_factory.mktemp("s3") / "log.txt") as address:
        yield address


@pytest.fixture
def bucket(s3_address: str) -> str:
    """The URI of a folder in a bucket, in which there is nothing yet."""
    return uri_of(s3_address, f"{uuid.uuid4().hex}/sweeps")


@pytest.fixture(params=["disk", "bucket"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A folder that does not exist yet, on a disk and in a bucket."""
    return str(tmp_path / "sweeps") if request.param == "disk" else str(request.getfixturevalue("bucket"))


@pytest.fixture(scope="session")
def trained_folder(
    tmp_path_factory: pytest.TempPathFactory, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder
) -> Path:
    """A sweep of trained trials with a selection for every task; must not be changed."""
    from tests.results.inference.trained_sweep import select_pairs, train_sweep

    folder = train_sweep(tmp_path_factory.mktemp("sweeps") / "mine", tiny_corpus, tiny_encoder)
    select_pairs(folder)
    return folder
