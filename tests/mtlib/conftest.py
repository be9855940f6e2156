"""Small tokenizers and tables, runs of the tiny trial, two workers, a full disk."""

import errno
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import SafetensorError
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast, XLNetTokenizer

import mtlib.checkpoints.state
from mtlib.checkpoints.initial_weights import read_starting_weights
from mtlib.config.trial import TrialConfig
from mtlib.data.load import read_data
from mtlib.data.tables import Table
from mtlib.data.token_cache import Corpus, tokenize
from mtlib.model.encoder import PretrainedEncoder
from mtlib.tasks import TASKS
from mtlib.train import prepare_run
from mtlib.training.run import Run
from tests.combinations import EVERY_METHOD, ORDERS, Changes, Material
from tests.further_data import write_further_data
from tests.worker_pair import RunOnBoth, pair_of_workers

WORDS = ["the", "cat", "sat", "a", "b", "road", "un", "##able", "##s", "?", "film"]


@pytest.fixture(scope="session")
def bert_tokenizer() -> PreTrainedTokenizerFast:
    """`[CLS] a [SEP] b [SEP]` with segment ids 0 and 1; lower case; [PAD] is 0, [CLS] 2, [SEP] 3."""
    vocabulary = {word: index for index, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]"
    )


@pytest.fixture(scope="session")
def roberta_tokenizer() -> PreTrainedTokenizerFast:
    """`<s> a </s></s> b </s>`, segment ids all 0; one token per byte; <s> is 0, <pad> 1, </s> 2."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: index for index, token in enumerate(["<s>", "<pad>", "</s>", *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        cls_token="<s>",
        sep_token="</s>",
        pad_token="<pad>",
    )


@pytest.fixture(scope="session")
def xlnet_tokenizer() -> XLNetTokenizer:
    """`a <sep> b <sep> <cls>` with segment ids 0, 1 and, for the last, 2; <cls> is 3, <sep> 4, <pad> 5."""
    special = ["<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>"]
    words = ["▁", *(f"▁{word}" for word in WORDS), *"abcdefghijklmnopqrstuvwxyz"]
    return XLNetTokenizer(vocab=[*((word, 0.0) for word in special), *((word, -1.0) for word in words)])


@pytest.fixture(params=["bert", "roberta"])
def tokenizer(request: pytest.FixtureRequest) -> PreTrainedTokenizerFast:
    """Both kinds, in turn."""
    chosen: PreTrainedTokenizerFast = request.getfixturevalue(f"{request.param}_tokenizer")
    return chosen


@pytest.fixture
def new_run(tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder) -> Callable[..., Run]:
    """Begins a run of the tiny trial with some dotted keys changed; its logits differ strongly between texts."""

    def begin(changes: dict[str, Any] | None = None) -> Run:
        config, cpu = tiny_config.override(changes or {}), torch.device("cpu")
        start = read_starting_weights(config.encoder)
        run = prepare_run(config, tiny_corpus, tiny_encoder, cpu, lambda objective: objective, None, start)
        with torch.no_grad():
            models = [run.model, *run.averages.values()]
            for parameter in (parameter for model in models for parameter in model.parameters()):
                parameter.mul_(5 if parameter.dim() > 1 else 1)
        return run

    return begin


@pytest.fixture(scope="session")
def further_folder(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny data with extra data."""
    folder = tmp_path_factory.mktemp("further")
    write_further_data(tiny_folder, folder)
    return folder


@pytest.fixture(scope="session")
def inputs(
    tiny_config: TrialConfig,
    tiny_encoder: PretrainedEncoder,
    further_folder: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[str, str, Changes], Material]:
    """Configuration, corpus and encoder of an order and a method, with further changes."""
    cache = tmp_path_factory.mktemp("cache")
    base = tiny_config.override({"smart.weight": 0, "stages.1.epochs": 2, "stages.1.steps_per_epoch": 23})

    def build(order: str, method: str, changes: Changes) -> Material:
        config = base.override({**ORDERS[order], **EVERY_METHOD[method], **changes})
        corpus = tokenize(read_data(config, further_folder), tiny_encoder.tokenizer, cache)
        return Material(config=config, corpus=corpus, encoder=tiny_encoder)

    return build


@pytest.fixture(scope="session")
def run_on_both() -> Iterator[RunOnBoth]:
    """Two worker processes for the whole session."""
    with pair_of_workers() as run:
        yield run


def build_table(name: str, *texts: list[str], labels: list[float] | None = None) -> Table:
    """A checked train table of the task `name` with one list per text column; labels are 0 if not given."""
    return Table(
        task=name,
        split="train",
        path=Path(TASKS[name].file_name("train")),
        ids=[f"{name}{row}" for row in range(len(texts[0]))],
        places=[f"{name}:{row}" for row in range(len(texts[0]))],
        texts=texts,
        labels=np.array(labels or np.zeros(len(texts[0])), dtype=np.float32),
        skipped=(),
        num_own_rows=len(texts[0]),
    )


@pytest.fixture
def pair_table() -> Table:
    """50 pairs of 1 to 14 words each, some of them unknown or of several pieces."""
    stream = np.random.default_rng(0)
    texts = [random_texts(stream, 50) for _ in range(2)]
    return build_table("qqp", *texts, labels=stream.integers(0, 2, 50).tolist())


@pytest.fixture
def single_table() -> Table:
    """40 texts of 1 to 14 words."""
    stream = np.random.default_rng(1)
    return build_table("sst", random_texts(stream, 40), labels=stream.integers(0, 5, 40).tolist())


def random_texts(stream: np.random.Generator, count: int) -> list[str]:
    words = ["The", "cats", "sat", "unable", "roads?", "naïve", "a", "film"]
    return [" ".join(stream.choice(words, stream.integers(1, 15))) for _ in range(count)]


FULL_DISKS = [
    OSError(errno.ENOSPC, "No space left on device"),
    OSError(errno.EDQUOT, "Disk quota exceeded"),
    SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
    SafetensorError("Error while serializing: I/O error: File too large (os error 27)"),
]


@pytest.fixture(params=FULL_DISKS, ids=[str(error) for error in FULL_DISKS])
def full_disk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A disk that is full after half of a file has been written."""

    def write_half(_tensors: Any, path: Path) -> None:
        path.write_bytes(b"half of it")
        raise request.param

    with monkeypatch.context() as patch:
        patch.setattr(mtlib.checkpoints.state, "save_file", write_half)
        yield
