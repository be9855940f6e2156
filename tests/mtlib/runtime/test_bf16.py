"""bf16 is for machines that have instructions for it; nothing is timed."""

import subprocess
from collections.abc import Sequence
from typing import Any

import pytest

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
    [("8.0\n", True), ("12.0\n", True), ("9.0\n7.0\n", False)],
)
def test_all_gpus_must_have_the_capability(monkeypatch: pytest.MonkeyPatch, lines: str, expected: bool) -> None:
    def answer(command: Sequence[str], **_options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 0, stdout=lines)

    monkeypatch.setattr(subprocess, "run", answer)
    assert has_bf16(on_gpu=True) == expected
