"""The environment that two machines must share: every part is plain data and changes with its source."""

import hashlib
import importlib.metadata
import json
import platform
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import mtlib
from mtlib.runtime import environment
from mtlib.runtime.environment import (
    KERNEL_SETTINGS,
    LIBRARIES,
    choose_device,
    describe_device,
    describe_environment,
    describe_processor,
    library_versions,
    processor_fields,
    sources_hash,
    training_sources,
)

CPU = torch.device("cpu")
PACKAGE = Path(mtlib.__file__).parent


@pytest.fixture(autouse=True)
def clear_caches() -> Iterator[None]:
    """Clears the caches between tests."""
    yield
    for cached in (sources_hash, library_versions, describe_processor, processor_fields):
        cached.cache_clear()


def test_the_environment_is_plain_data_and_holds_all_that_numbers_depend_on(monkeypatch: pytest.MonkeyPatch) -> None:
    first = describe_environment("cpu")
    assert [worker.keys() for worker in first["workers"]] == [{"sources", "libraries", "device", "num_threads"}]
    assert json.loads(json.dumps(first)) == first == describe_environment(CPU)
    assert first["num_workers"] == 1
    monkeypatch.setattr(environment, "num_workers", lambda: 3)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 99)
    found = describe_environment("cpu")
    assert (found["num_workers"], found["workers"][0]["num_threads"]) == (3, 99)


def test_equal_workers_are_listed_once_and_different_ones_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "gather_from_workers", lambda own: [own, dict(own), own])
    (equal,) = describe_environment("cpu")["workers"]
    monkeypatch.setattr(environment, "gather_from_workers", lambda own: [own, {**own, "num_threads": 99}])
    assert describe_environment("cpu")["workers"] == [equal, {**equal, "num_threads": 99}]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small package that is hashed instead of the real one."""
    folder = tmp_path / "mtlib"
    for name in ("train.py", "loss/one.py", "data/one.py", "demo/corpus.py", "runtime/console.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"def f(x):\n    return x, {name!r}\n")
    monkeypatch.setattr(mtlib, "__file__", str(folder / "__init__.py"))
    return folder


def fresh_hash() -> str:
    sources_hash.cache_clear()
    return sources_hash()


def test_the_hash_changes_with_name_and_content_of_every_training_file(package: Path) -> None:
    hashes = [fresh_hash()]
    assert re.fullmatch("[0-9a-f]{64}", hashes[0])
    for name in ("train.py", "loss/one.py"):
        (package / name).write_text((package / name).read_text() + "\nOTHER = 1\n")
        hashes.append(fresh_hash())
    one, other = package / "loss" / "one.py", package / "data" / "one.py"
    contents = one.read_text(), other.read_text()
    one.write_text(contents[1])
    other.write_text(contents[0])
    hashes.append(fresh_hash())
    one.rename(package / "loss" / "two.py")
    hashes.append(fresh_hash())
    (package / "a" / "b").mkdir(parents=True)
    (package / "a" / "b" / "deep.py").touch()
    hashes.append(fresh_hash())
    assert len(set(hashes)) == len(hashes)


def test_what_cannot_change_a_trained_number_does_not_change_the_hash(package: Path) -> None:
    own = fresh_hash()
    (package / "train.py").write_text(
        '"""Said."""\n\n\ndef f(\n    x,\n):\n    """Said."""\n    return x, "train.py"  # said\n'
    )
    (package / "demo" / "corpus.py").write_text("OTHER = 1\n")
    (package / "runtime" / "console.py").write_text("OTHER = 1\n")
    (package / "notes.txt").write_text("x")
    assert fresh_hash() == own


def test_all_imports_of_training_are_hashed_except_what_is_shown_and_the_choice_of_precision() -> None:
    """Every other import of `mtlib.train`, direct or indirect, may change a trained number; keys hold the precision."""
    reached, waiting = set(), ["train.py"]
    while waiting:
        name = waiting.pop()
        reached.add(name)
        found = re.findall(r"^\s*from mtlib\.([\w.]+) import", (PACKAGE / name).read_text(), re.M)
        waiting += {place.replace(".", "/") + ".py" for place in found} - reached
    assert len(reached) > 30
    assert reached - set(training_sources(PACKAGE)) == {
        "data/files/suggestions.py",
        "runtime/bf16.py",
        "runtime/console.py",
    }


def test_versions_are_the_installed_ones() -> None:
    """Some installers record torch's version without its build, e.g. `+cpu`."""
    assert library_versions()["torch"].split("+")[0] == torch.__version__.split("+")[0]


def test_every_computing_library_is_listed() -> None:
    """Every import of the package, and of the projection libraries, except those that read files or print."""
    sources = PACKAGE.rglob("*.py")
    imported = {name for path in sources for name in re.findall(r"^\s*(?:from|import) (\w+)", path.read_text(), re.M)}
    readers = {"pyarrow", "pandas", "datasets", "fsspec", "huggingface_hub", "mtlib", "rich"}
    readers |= {"openpyxl", "onnx", "onnx_ir", "onnxruntime", "onnxscript"}  # the last four of exported models
    readers |= {"peft"}  # its version is in the keys of trials with an adapter alone
    readers |= {"datasketch"}  # of near copies, which are only shown
    distributions = importlib.metadata.packages_distributions()
    used = {own for name in imported - readers for own in distributions.get(name, ())}
    assert {"numpy", "torch"} <= used <= set(LIBRARIES)
    assert {"quadprog", "qpsolvers"} <= set(LIBRARIES)  # of torchjd's projections
    assert "scikit-learn" in LIBRARIES  # its metrics are imported by their names


def test_a_cpu_is_described_by_its_model_and_what_selects_its_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KERNEL_SETTINGS:
        monkeypatch.delenv(name, raising=False)
    found = describe_device(CPU)
    kernels = {"capability": torch.backends.cpu.get_cpu_capability()}
    assert found == {"type": "cpu", "model": describe_processor(), "kernels": kernels}
    for name in KERNEL_SETTINGS:
        monkeypatch.setenv(name, "avx2")
    assert describe_device(CPU)["kernels"] == {**kernels, **dict.fromkeys(KERNEL_SETTINGS, "avx2")}


INTEL = (
    "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Some CPU: fast\nflags\t\t: sse avx\n\nprocessor\t: 1\nmodel\t\t: 9\n"
)
ARM = "processor\t: 0\nBogoMIPS\t: 50\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n"


@pytest.mark.parametrize(
    ("text", "facts", "features"),
    [
        (INTEL, {"model": "85", "model name": "Some CPU: fast"}, "sse avx"),
        (ARM, {"CPU implementer": "0x41", "CPU part": "0xd0c"}, "fp asimd"),
        (None, {}, None),
    ],
)
def test_processor_is_described_by_cpuinfo_or_architecture(
    text: str | None, facts: dict[str, str], features: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if text is not None:
        (tmp_path / "cpuinfo").write_text(text)
    monkeypatch.setattr(environment, "Path", lambda _path: tmp_path / "cpuinfo")
    digest = {} if features is None else {"features": hashlib.sha256(features.encode()).hexdigest()}
    assert describe_processor() == (facts | digest or {"architecture": platform.processor() or platform.machine()})


def test_a_gpu_is_used_if_available_and_refused_if_not(monkeypatch: pytest.MonkeyPatch) -> None:
    for has_gpu, found in ((True, "cuda"), (False, "cpu")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda has_gpu=has_gpu: has_gpu)
        assert choose_device("auto") == torch.device(found)
        assert choose_device("cpu") == CPU
    with pytest.raises(ValueError, match="--device cuda needs a GPU that torch can use"):
        choose_device("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert choose_device("cuda") == torch.device("cuda")
