"""Steps that are tried before trials start: settings that fail in the first step are refused in one line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BigBirdConfig, PreTrainedTokenizerFast

from mtlib.config.methods import read_methods
from mtlib.config.trial import TrialConfig, with_methods
from mtlib.model.encoder import PretrainedEncoder
from mtlib.training import preflight
from mtlib.training.preflight import check_step_runs
from tests.architectures import ENCODERS, ENDS, SMALL, untrained
from tests.one_line_error import one_line_error

PLAIN: dict[str, Any] = {"smart.weight": 0, "encoder.max_length": 40, "encoder.dropout": None}
SMART = {**PLAIN, "smart.weight": 1, "smart.tasks": ["sst"]}
PALS = {**PLAIN, "pals.size": 4, "pals.num_heads": 2, "pals.tasks": ["sst", "qqp"]}
PARALLEL_PALS = {**PALS, "pals.placement": "layer"}
BF16 = {**PLAIN, "precision": "bf16"}
BF16_ON_CPU = "precision bf16 on the CPU"
KINDS = {"plain": PLAIN, "SMART": SMART, "PALs (attention)": PALS, "PALs (layer)": PARALLEL_PALS, BF16_ON_CPU: BF16}
Try = Callable[..., None]


@pytest.fixture
def try_out(tiny_config: TrialConfig, bert_tokenizer: PreTrainedTokenizerFast) -> Try:
    """Tries changes of the tiny trial with an encoder of an architecture."""

    def check_one(architecture: Any, *changes: dict[str, Any], on_gpu: bool = False) -> None:
        configs = [tiny_config.override(change) for change in changes]
        check_step_runs(configs, untrained(architecture, bert_tokenizer), on_gpu)

    return check_one


@pytest.mark.parametrize("name", ["bert", "deberta-v2"])
def test_encoders_that_support_every_term_pass(name: str, try_out: Try) -> None:
    bi = {"tasks.qqp.encoding": "bi", "tasks.sts.encoding": "cross_no_separator"}
    terms = {"proximal.weight": 1, "proximal.tasks": ["sst"], "simcse.weight": 1, "simcse.tasks": ["sst"]}
    every = {**SMART, **PALS, **BF16, **bi, **terms, "smart.weight": 1, "loss_weighting": "uncertainty"}
    try_out(ENCODERS[name], *KINDS.values(), every)
    try_out(ENCODERS["deberta"], BF16, on_gpu=True)  # which has no bf16 on a CPU


TOKENS = "PALs need layers that keep the number of tokens"


@pytest.mark.parametrize(
    ("name", "faults"),
    [
        ("longformer", {"SMART": "one vector per token, got 40", "PALs (attention)": TOKENS, "PALs (layer)": TOKENS}),
        ("ibert", {"SMART": "its 'embeddings' must return one vector per token, got a tuple"}),
        ("deberta", {BF16_ON_CPU: "BFloat16 without overflow"}),
    ],
)
def test_an_unsupported_term_is_one_line_and_the_rest_passes(name: str, faults: dict[str, str], try_out: Try) -> None:
    for kind, fault in faults.items():
        line = one_line_error(try_out, ENCODERS[name], PLAIN, KINDS[kind])
        assert line.startswith(f"encoder 'random' ({name}) must read a text of 39 tokens with {kind}, as bert")
        assert fault in line
    try_out(ENCODERS[name], *(KINDS[kind] for kind in KINDS.keys() - faults.keys()))


def test_an_encoder_with_blocks_is_tried_with_a_full_block(try_out: Try) -> None:
    sparse = BigBirdConfig(**SMALL, **ENDS, block_size=4, num_random_blocks=1)  # full attention up to 28 tokens
    try_out(sparse, PLAIN)
    for kind in (SMART, PALS):
        assert "of 39 tokens" in one_line_error(try_out, sparse, kind)
        try_out(sparse, {**kind, "encoder.max_length": 28})


def test_each_kind_of_step_is_tried_once(try_out: Try, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = list[tuple[int, tuple[str, ...]]]()

    def note(config: TrialConfig, task: str, _pretrained: PretrainedEncoder, features: tuple[str, ...]) -> None:
        assert task in config.active_tasks
        tried.append((config.encoder.max_length, features))

    monkeypatch.setattr(preflight, "try_step", note)
    weights = [{**SMART, "smart.weight": weight} for weight in (0, 0.5, 1)]
    try_out(ENCODERS["bert"], *weights, {**PALS, "precision": "bf16"}, {**PLAIN, "encoder.max_length": 8})
    bf16 = (BF16_ON_CPU,)
    assert tried == [(8, ()), (40, ()), (40, ("SMART",)), (40, bf16), (40, (*bf16, "PALs (attention)"))]


def test_the_state_of_the_process_does_not_change(tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    threads = torch.get_num_threads()
    check_step_runs([tiny_config.override({"smart.weight": 1})], tiny_encoder, on_gpu=False)
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.rand(3), expected)
    assert torch.is_grad_enabled()


def test_flash_attention_needs_trials_on_gpus(try_out: Try) -> None:
    flash = {**BF16, "encoder.attention": "flash_attention_2"}
    assert "must not be flash_attention_2 on the CPU" in one_line_error(try_out, ENCODERS["bert"], flash)
    try_out(ENCODERS["bert"], flash, on_gpu=True)


OWN = """\
from dataclasses import dataclass

from mtlib.config.losses import Loss
from mtlib.config.penalties import Penalty, check_penalty


@dataclass(frozen=True, kw_only=True)
class MineSettings:
    weight: float = 0.0
    tasks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_penalty("mine", self)


def mean_loss(logits, labels):
    return (logits.sum(1) - labels).abs().mean()


def below_zero(clean, settings):
    return (-clean.output.logits.square().sum(1) - 1,)


LOSSES = {"mean": Loss(title="mean", description="mean", functions={"classes": mean_loss})}
PENALTIES = {
    "mine": Penalty(title="mine", function=below_zero, settings=MineSettings, terms=("mine",))
}
"""


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"tasks.sst.loss": "mean"}, "own.py:mean_loss must return (rows,), not a mean or a sum, got () for 2 rows"),
        (
            {"mine.weight": 1.0, "mine.tasks": ["sst"]},
            "own.py:below_zero must return values of at least 0, unless its entry is_signed, got -",
        ),
    ],
)
def test_own_methods_that_return_what_they_must_not_are_named(
    changes: dict[str, Any], line: str, tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder, tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text(OWN)
    config = with_methods(tiny_config.override(PLAIN), read_methods([tmp_path / "own.py"])).override(changes)
    assert one_line_error(check_step_runs, [config], tiny_encoder, on_gpu=False).startswith(line)
