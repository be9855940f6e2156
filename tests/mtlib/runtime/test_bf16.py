"""bf16 is for machines that have instructions for it; nothing is timed."""

import subprocess
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from mtlib.runtime import bf16
from mtlib.runtime.bf16 import has_bf16


@pytest.mark.parametrize(
    ("features", "expected"),
    [("fma avx512f avx512_bf16 sse2", True), ("fma amx_bf16", True), ("avx512_bf16x amx_tile", False), ("", False)],
)
def test_instructions_of_the_processor_decide(monkeypatch: pytest.MonkeyPatch, features: str, expected: bool) -> None:
    monkeypatch.setattr(bf16, "processor_fields", lambda: {"features": features} if features else {})
    assert has_bf16(on_gpu=False) == expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [("8.0\n", True), ("7.5\n", False), ("12.0\n", True), ("9.0\n7.0\n", False), ("", False)],
)
def test_all_gpus_must_have_the_capability(monkeypatch: pytest.MonkeyPatch, lines: str, expected: bool) -> None:
    def answer(command: Sequence[str], **_options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 0, stdout=lines)

    monkeypatch.setattr(subprocess, "run", answer)
    assert has_bf16(on_gpu=True) == expected


@pytest.mark.parametrize(("has_gpu", "is_supported"), [(True, True), (True, False), (False, True)])
def test_torch_is_asked_where_nvidia_smi_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, has_gpu: bool, is_supported: bool
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_gpu)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: is_supported)  # noqa: ARG005

    def fail(*_arguments: object, **_options: object) -> None:
        raise FileNotFoundError("nvidia-smi")

    monkeypatch.setattr(subprocess, "run", fail)
    assert has_bf16(on_gpu=True) == (has_gpu and is_supported)
