"""The wheel holds exactly the project's sources, is reproducible, and leaves the checkout unchanged."""

import os
import shutil
import zipfile
from pathlib import Path

import pytest

from results.inference.bundle.wheel import build_wheel
from results.records.files import PROJECT_FOLDER
from tests.one_line_error import one_line_error

PACKAGES = ("mtlib", "search_spaces", "results", "sweeps")


def small_project(folder: Path) -> Path:
    """A checkout with a file in each package."""
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        folder.mkdir(exist_ok=True)
        shutil.copy(PROJECT_FOLDER / name, folder / name)
    for package in PACKAGES:
        (folder / package).mkdir()
        (folder / package / "__init__.py").touch()
        (folder / package / "one.py").write_text(f'NAME = "{package}"\n')
    (folder / "mtlib" / "room" / "inner").mkdir(parents=True)
    for room in ("room", "room/inner"):
        (folder / "mtlib" / room / "__init__.py").touch()
        (folder / "mtlib" / room / "two.py").write_text("NAME = 2\n")
    return folder


def build(folder: Path, root: Path = PROJECT_FOLDER) -> Path:
    folder.mkdir()
    return folder / build_wheel(folder, root)


def test_wheel_holds_all_sources_and_the_licence(tmp_path: Path) -> None:
    before = sorted(PROJECT_FOLDER.iterdir())
    wheel = build(tmp_path / "out")
    assert sorted(PROJECT_FOLDER.iterdir()) == before
    assert list(wheel.parent.iterdir()) == [wheel]
    with zipfile.ZipFile(wheel) as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    sources = {
        path.relative_to(PROJECT_FOLDER).as_posix(): path.read_bytes()
        for package in PACKAGES
        for path in (PROJECT_FOLDER / package).rglob("*.py")
    }
    assert {name: data for name, data in held.items() if name.endswith(".py")} == sources
    sources |= {f"{package}/py.typed": b"" for package in PACKAGES}
    data_files = [
        "mtlib/config/glue.toml",
        *(f"results/page/template/page.{kind}" for kind in ("html.jinja", "css", "js")),
    ]
    sources |= {name: (PROJECT_FOLDER / name).read_bytes() for name in data_files}
    assert sources.items() <= held.items()
    rest = {name.partition(".dist-info/")[2] for name in held.keys() - sources.keys()}
    assert rest == {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "top_level.txt", "licenses/LICENSE"}


def test_equal_sources_give_equal_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = small_project(tmp_path / "first")
    wheel = build(tmp_path / "a", first)
    second = shutil.copytree(first, tmp_path / "second")
    for path in second.rglob("*.py"):
        path.chmod(0o600)
        os.utime(path, (10**9, 10**9))
    (second / "mtlib" / "__pycache__").mkdir()
    (second / "mtlib" / "__pycache__" / "one.pyc").touch()
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1500000000")
    previous = os.umask(0o077)
    try:
        again = build(tmp_path / "b", second)
    finally:
        os.umask(previous)
    assert wheel.read_bytes() == again.read_bytes()
    (second / "mtlib" / "one.py").write_text("NAME = 1\n")
    assert build(tmp_path / "c", second).read_bytes() != wheel.read_bytes()


def test_wheel_holds_nested_folders(tmp_path: Path) -> None:
    wheel = build(tmp_path / "out", small_project(tmp_path / "project"))
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    assert {"mtlib/one.py", "mtlib/room/two.py", "mtlib/room/inner/two.py", "sweeps/one.py"} <= held


@pytest.mark.parametrize("lacks", ["pyproject.toml", "LICENSE", "README.md"])
def test_missing_checkout_is_one_line(lacks: str, tmp_path: Path) -> None:
    root = small_project(tmp_path / "project")
    (root / lacks).unlink()
    line = one_line_error(build, tmp_path / "out", root)
    assert line.startswith("a bundle needs ")
    assert lacks in line
    assert not list((tmp_path / "out").iterdir())


def test_another_project_is_no_checkout(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "other"\n')
    assert f"no pyproject.toml of it in {tmp_path}" in one_line_error(build, tmp_path / "out", tmp_path)


def test_setuptools_error_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = small_project(tmp_path / "project")
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "setuptools.py").write_text("raise ImportError('it is broken')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "path"))
    line = one_line_error(build, tmp_path / "out", root)
    wanted = "room on the disk and setuptools>=77 (pip install 'setuptools>=77'), got ImportError: it is broken"
    assert line == f"to build a wheel of the project takes {wanted}"
    assert not list((tmp_path / "out").iterdir())
