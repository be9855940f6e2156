"""`precision=auto` becomes bf16 where that is allowed and pays."""

import pytest
import torch

from mtlib.config.trial import TrialConfig
from mtlib.data.token_cache import Corpus
from mtlib.model.encoder import PretrainedEncoder
from mtlib.runtime.bf16 import Bf16Answer
from mtlib.train import prepare_run
from mtlib.training import auto_precision
from mtlib.training.auto_precision import choose_precision

CPU = torch.device("cpu")


def answer(monkeypatch: pytest.MonkeyPatch, *, pays: bool) -> list[tuple[int, int, bool]]:
    asked = []

    def ask(width: int, num_threads: int, *, on_gpu: bool) -> Bf16Answer:
        asked.append((width, num_threads, on_gpu))
        return Bf16Answer(pays=pays, why="because")

    monkeypatch.setattr(auto_precision, "does_bf16_pay", ask)
    return asked


@pytest.mark.parametrize(("pays", "expected"), [(True, "bf16"), (False, "fp32")])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_machine_decides(
    monkeypatch: pytest.MonkeyPatch,
    tiny_config: TrialConfig,
    tiny_encoder: PretrainedEncoder,
    pays: bool,
    expected: str,
    device: str,
) -> None:
    asked = answer(monkeypatch, pays=pays)
    config = tiny_config.override({"precision": "auto"})
    assert choose_precision(config, tiny_encoder, torch.device(device)) == tiny_config.override({"precision": expected})
    assert asked == [(tiny_encoder.config.hidden_size, torch.get_num_threads(), device == "cuda")]


@pytest.mark.parametrize("given", ["fp32", "bf16"])
def test_given_precision_stays(
    monkeypatch: pytest.MonkeyPatch, tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder, given: str
) -> None:
    asked = answer(monkeypatch, pays=True)
    config = tiny_config.override({"precision": given})
    assert choose_precision(config, tiny_encoder, CPU) is config
    assert asked == []


def test_setting_that_refuses_bf16_decides_before_the_machine(
    monkeypatch: pytest.MonkeyPatch, tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder
) -> None:
    asked = answer(monkeypatch, pays=True)
    config = tiny_config.override({"precision": "auto", "smart.weight": 1, "smart.tasks": "sst", "smart.mode": "paper"})
    assert choose_precision(config, tiny_encoder, CPU).precision == "fp32"
    assert asked == []


@pytest.mark.parametrize(("pays", "expected"), [(True, "bf16"), (False, "fp32")])
def test_run_trains_in_the_chosen_precision(
    monkeypatch: pytest.MonkeyPatch,
    tiny_config: TrialConfig,
    tiny_corpus: Corpus,
    tiny_encoder: PretrainedEncoder,
    pays: bool,
    expected: str,
) -> None:
    answer(monkeypatch, pays=pays)
    config = tiny_config.override({"precision": "auto"})
    run = prepare_run(config, tiny_corpus, tiny_encoder, CPU, lambda objective: objective, None)
    assert run.config.precision == expected
