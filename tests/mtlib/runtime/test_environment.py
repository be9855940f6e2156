"""The environment that two machines must share: every part is plain data and changes with its source."""

import hashlib
import importlib.metadata
import json
import os
import platform
import re
import shutil
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
    training_sources,
)
from mtlib.runtime.environment import sources_hash as hash_of_sources

CPU = torch.device("cpu")
OTHER_CODE = "\nOTHER = 1\n"


@pytest.fixture(autouse=True)
def clear_caches() -> Iterator[None]:
    """Clears the caches between tests."""
    yield
    for cached in (hash_of_sources, library_versions, describe_processor, processor_fields):
        cached.cache_clear()


def test_the_environment_is_plain_data_and_repeatable() -> None:
    first = describe_environment("cpu")
    assert first.keys() == {"num_workers", "workers"}
    assert [worker.keys() for worker in first["workers"]] == [{"sources", "libraries", "device", "num_threads"}]
    assert json.loads(json.dumps(first)) == first == describe_environment(CPU)
    assert first["num_workers"] == 1


def test_the_number_of_threads_is_part_of_the_environment() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(before + 1)
        assert describe_environment("cpu")["workers"][0]["num_threads"] == before + 1
    finally:
        torch.set_num_threads(before)


def test_the_number_of_workers_is_part_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "num_workers", lambda: 3)
    assert describe_environment("cpu")["num_workers"] == 3


def test_equal_workers_are_listed_once_and_different_ones_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "gather_from_workers", lambda own: [own, dict(own), own])
    equal_workers = describe_environment("cpu")["workers"]
    monkeypatch.setattr(environment, "gather_from_workers", lambda own: [own, {**own, "num_threads": 99}])
    assert describe_environment("cpu")["workers"] == [*equal_workers, {**equal_workers[0], "num_threads": 99}]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the package's sources that is hashed instead of the package."""
    source = Path(mtlib.__file__)
    shutil.copytree(source.parent, tmp_path / "mtlib", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(mtlib, "__file__", str(tmp_path / "mtlib" / source.name))
    return tmp_path / "mtlib"


def fresh_hash() -> str:
    hash_of_sources.cache_clear()
    return hash_of_sources()


def test_the_source_hash_is_that_of_names_and_content(package: Path) -> None:
    own = fresh_hash()
    assert re.fullmatch("[0-9a-f]{64}", own)
    with (package / "runtime" / "seeds.py").open("a") as file:
        file.write(OTHER_CODE)
    changed = fresh_hash()
    (package / "runtime" / "seeds.py").rename(package / "runtime" / "streams.py")
    renamed = fresh_hash()
    (package / "runtime" / "streams.py").unlink()
    assert len({own, changed, renamed, fresh_hash()}) == 4


@pytest.mark.parametrize(
    "name", ["train.py", "errors.py", "loss/losses.py", "config/schema.py", "data/tables.py", "new/a.py", "a/b/deep.py"]
)
def test_a_changed_training_file_in_any_folder_changes_the_hash(name: str, package: Path) -> None:
    path = package / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    own = fresh_hash()
    with path.open("a") as file:
        file.write(OTHER_CODE)
    assert fresh_hash() != own


def test_comments_docstrings_and_layout_change_no_hash(package: Path) -> None:
    path = package / "new.py"
    path.write_text("def double(x):\n    return 2 * x\n")
    own = fresh_hash()
    path.write_text('"""Said."""\n\n\ndef double(\n    x,\n):\n    """Said."""\n    return 2 * x  # said\n')
    assert fresh_hash() == own
    path.write_text("def double(x):\n    return 3 * x\n")
    assert fresh_hash() != own


def test_files_that_cannot_change_a_trained_number_do_not_change_the_hash(package: Path) -> None:
    own = fresh_hash()
    for name in (
        "demo/corpus.py",
        "demo/texts.py",
        "demo/encoder_weights.py",
        "checkpoints/model_card.py",
        "checkpoints/export.py",
        "runtime/command_line.py",
        "runtime/console.py",
        "data/file_suggestions.py",
        "training/preflight.py",
    ):
        assert (package / name).exists()
        with (package / name).open("a") as file:
            file.write(OTHER_CODE)
    assert fresh_hash() == own


@pytest.mark.parametrize("pattern", environment.WITHOUT_EFFECT)
def test_every_pattern_of_files_that_are_not_hashed_has_files(pattern: str) -> None:
    assert list(Path(mtlib.__file__).parent.glob(pattern))


def test_files_of_the_same_name_in_two_folders_both_count(package: Path) -> None:
    for folder in ("a", "b"):
        (package / folder).mkdir()
        (package / folder / "one.py").write_text(f"name = {folder!r}\n")
    own = fresh_hash()
    (package / "a" / "one.py").write_text("name = 'b'\n")
    (package / "b" / "one.py").write_text("name = 'a'\n")
    assert fresh_hash() != own


def test_all_imports_of_training_are_hashed_except_hints_in_messages_and_the_choice_of_precision() -> None:
    """Every other import of `mtlib.train`, direct or indirect, may change a trained number; keys hold the precision."""
    package = Path(mtlib.__file__).parent
    reached, waiting = set(), ["train.py"]
    while waiting:
        name = waiting.pop()
        reached.add(name)
        for found in re.findall(r"^\s*from mtlib\.([\w.]+) import", (package / name).read_text(), re.M):
            path = found.replace(".", "/") + ".py"
            if path not in reached:
                waiting.append(path)
    assert len(reached) > 30
    assert reached - set(training_sources(package)) == {"data/file_suggestions.py", "runtime/bf16.py"}


def test_only_python_sources_are_hashed_and_their_folder_is_not(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = fresh_hash()
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "seeds.cpython-311.pyc").write_bytes(b"x")
    (package / "notes.txt").write_text("x")
    os.utime(package / "runtime" / "seeds.py", (0, 0))
    assert fresh_hash() == own
    monkeypatch.undo()
    assert fresh_hash() == own


def test_versions_are_the_installed_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = library_versions()
    assert versions["torch"] == torch.__version__
    assert set(versions) <= set(LIBRARIES)
    library_versions.cache_clear()

    def version(name: str) -> str:
        if name == "torchjd":
            raise importlib.metadata.PackageNotFoundError
        return f"1 of {name}"

    monkeypatch.setattr(importlib.metadata, "version", version)
    assert library_versions() == {name: f"1 of {name}" for name in LIBRARIES if name != "torchjd"}


def test_every_computing_library_is_listed() -> None:
    """Every import of the package, and of the projection libraries, except those that read files or print."""
    sources = Path(mtlib.__file__).parent.rglob("*.py")
    imported = {name for path in sources for name in re.findall(r"^\s*(?:from|import) (\w+)", path.read_text(), re.M)}
    readers = {"pyarrow", "datasets", "huggingface_hub", "mtlib", "rich"}
    readers |= {"peft"}  # its version is in the keys of trials with an adapter alone
    distributions = importlib.metadata.packages_distributions()
    used = {own for name in imported - readers for own in distributions.get(name, ())}
    assert {"scikit-learn", "torch"} <= used <= set(LIBRARIES)
    assert {"quadprog", "qpsolvers"} <= set(LIBRARIES)  # of torchjd's projections


def test_a_cpu_is_described_by_its_model_and_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KERNEL_SETTINGS:
        monkeypatch.delenv(name, raising=False)
    found = describe_device(CPU)
    kernels = {"capability": torch.backends.cpu.get_cpu_capability()}
    assert found == {"type": "cpu", "model": describe_processor(), "kernels": kernels}
    assert found["model"]
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "other")
    assert describe_device(CPU)["kernels"] == {"capability": "other"}


@pytest.mark.parametrize("name", KERNEL_SETTINGS)
def test_variables_that_choose_kernels_are_part_of_the_environment(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "avx2")
    assert describe_device(CPU)["kernels"][name] == "avx2"


def test_a_gpu_is_described_by_its_model_and_library_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _device: "Some GPU")
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: 91000)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    expected = {"type": "cuda", "model": "Some GPU", "cuda": "13.0", "cudnn": 91000}
    assert describe_device(torch.device("cuda:0")) == describe_device(torch.device("cuda")) == expected


INTEL = (
    "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Some CPU: fast\nflags\t\t: sse avx\n\nprocessor\t: 1\nmodel\t\t: 9\n"
)
ARM = "processor\t: 0\nBogoMIPS\t: 50\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n"


@pytest.mark.parametrize(
    ("text", "facts", "features"),
    [
        (INTEL, {"model": "85", "model name": "Some CPU: fast"}, "sse avx"),
        (ARM, {"CPU implementer": "0x41", "CPU part": "0xd0c"}, "fp asimd"),
        ("processor\t: 0\nBogoMIPS\t: 50\n", {}, None),
        (None, {}, None),
    ],
)
def test_processor_is_described_by_cpuinfo_or_architecture(
    text: str | None, facts: dict[str, str], features: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    describe_processor.cache_clear()
    processor_fields.cache_clear()
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
    with pytest.raises(ValueError, match="--device cuda needs a GPU that torch can use, got none"):
        choose_device("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert choose_device("cuda") == torch.device("cuda")
