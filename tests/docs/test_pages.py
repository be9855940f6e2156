"""Flags, files, modules, keys and links in the README and the documentation exist."""

import argparse
import ast
import importlib.util
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import mtlib.data.__main__ as data
import mtlib.demo.__main__ as demo
import results.report as report
import results.selector as selector
import results.table as table
import sweeps.export as export
import sweeps.status as status
from mtlib.config.batch_orders import BATCH_ORDERS
from mtlib.config.gradient_methods import GRADIENT_METHODS
from mtlib.config.heads import HEADS
from mtlib.config.loss_weightings import LOSS_WEIGHTINGS
from mtlib.config.losses import LOSSES
from mtlib.config.penalties import PENALTIES
from mtlib.config.schema import to_dict
from mtlib.runtime.command_line import parse_words
from mtlib.tasks import TASKS
from results.ensembles.methods import COMMAND_LINE_METHODS
from results.predict import build_parser as build_predict_parser
from search_spaces.domain import expand_stages, expand_tasks
from search_spaces.presets import general
from search_spaces.space import grid_trials, load_space, space_names
from search_spaces.space_file import find_space, is_path
from search_spaces.vary import vary
from sweeps.cli.arguments import build_parser as build_run_parser
from sweeps.distil import build_parser as build_distil_parser
from tests.scripts import ROOT

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("**/*.md"))]

PARSERS: dict[str, Callable[[], argparse.ArgumentParser]] = {
    "sweeps/run.py": build_run_parser,
    "sweeps/export.py": export.build_parser,
    "sweeps/status.py": status.build_parser,
    "results/table.py": table.build_parser,
    "results/report.py": report.build_parser,
    "results/selector.py": selector.build_parser,
    "results/predict.py": build_predict_parser,
    "sweeps/distil.py": build_distil_parser,
    "mtlib.data": data.build_parser,
    "mtlib.demo": demo.build_parser,
}
FOLDERS = ("mtlib", "search_spaces", "results", "sweeps", "tests", "benchmarks", "examples", "docs", ".ci")

FENCE = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
COMMAND = re.compile(r"python3? (?:-m )?(\S+)(.*)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return FENCE.sub("", page.read_text())


def iter_commands(page: Path) -> Iterator[tuple[str, list[str]]]:
    """Script or module, and arguments, of every `python` command on a page."""
    blocks = "\n".join(FENCE.findall(page.read_text())).replace("\\\n", " ")
    for line in (*blocks.splitlines(), *INLINE.findall(prose(page))):
        for part in re.split(r"&&|[|>]", line):
            if found := COMMAND.search(part):
                yield found[1], shlex.split(found[2], comments=True)


def examples_of(page: Path) -> list[str]:
    """Files that the examples of a page make or change; another test executes them."""
    return re.findall(r"^<!-- file: ([\w./]+)", page.read_text(), re.MULTILINE)


def mirror_of(source: str) -> str:
    """The test file of a source file."""
    path = Path("tests", source)
    return str(path.with_name(f"test_{path.name}"))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in HEADING.findall(prose(page))}


def test_every_command_is_documented() -> None:
    assert set(PARSERS) <= {command for page in PAGES for command, _ in iter_commands(page)}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_documented_commands_parse(page: Path) -> None:
    for command, words in () if examples_of(page) else iter_commands(page):
        if command in PARSERS:
            check_space(parse_words(PARSERS[command](), words))
        elif command.startswith("benchmarks/"):
            text = benchmark_text(command)
            assert [word for word in words if word.startswith("--") and f'"{word}"' not in text] == []
        else:
            assert command in ("venv", "pytest", "docs/reference/generated_blocks.py"), f"unknown command: {command}"


def benchmark_text(command: str) -> str:
    """The code of a benchmark and of the benchmarks that it imports."""
    text = (ROOT / command).read_text()
    imported = re.findall(r"^from benchmarks\.(\w+) import", text, re.MULTILINE)
    return "\n".join((text, *((ROOT / "benchmarks" / f"{name}.py").read_text() for name in imported)))


def test_flags_in_prose_exist() -> None:
    known = {flag for build in PARSERS.values() for flag in build()._option_string_actions}
    known |= set(re.findall(r"^#SBATCH (--[a-z-]+)", (ROOT / "deploy" / "slurm.sh").read_text(), re.MULTILINE))
    for page in PAGES:
        shown = {text.split()[0] for text in INLINE.findall(prose(page)) if text.startswith("--") and text != "--"}
        assert shown <= known, name_of(page)


def check_space(found: argparse.Namespace) -> None:
    """Builds the base of the space that a command names, with what it sets, and the space that it varies."""
    name, varied = getattr(found, "space", None), getattr(found, "vary", None)
    if name and not is_path(name):
        base = load_space(name).base
        changes = expand_stages(dict(change.split("=", 1) for change in found.set), len(base.stages))
        base.override(expand_tasks(changes, tuple(TASKS)))
    if varied:
        base = load_space(name).base if name else general(TASKS)
        vary(base, "overall", dict(words.split("=", 1) for words in varied))


def test_space_on_the_page_is_one(tmp_path: Path) -> None:
    section = (DOCS / "searching.md").read_text().partition("## A question of your own")[2]
    (code, *_) = FENCE.findall(section)
    (tmp_path / "my_space.py").write_text(code)
    space, _ = find_space(str(tmp_path / "my_space.py"), TASKS)
    assert len(grid_trials(space)) == 4


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_relative_links_resolve(page: Path) -> None:
    for target in LINK.findall(prose(page)):
        path, _, anchor = target.partition("#")
        if path.startswith(("http:", "https:")):
            continue
        file = (page.parent / path).resolve() if path else page
        assert file.is_file(), f"{name_of(page)} links to {target}"
        assert not anchor or anchor in anchors(file), f"{name_of(page)} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_paths_and_modules_in_backticks_exist(page: Path) -> None:
    for text in INLINE.findall(prose(page)):
        if any(text in (example, mirror_of(example)) for example in examples_of(page)):
            continue
        if re.fullmatch(rf"({'|'.join(map(re.escape, FOLDERS))})/[\w./-]*", text):
            assert (ROOT / text).exists(), f"{name_of(page)} names {text}"
        elif re.fullmatch(r"(mtlib|search_spaces|results|sweeps)(\.\w+)+", text):
            assert is_module_or_name(text), f"{name_of(page)} names {text}"


def is_module_or_name(dotted: str) -> bool:
    """Whether a dotted name is a module or is defined in one."""
    path = ROOT / Path(*dotted.split("."))
    if path.is_dir() or path.with_suffix(".py").is_file():
        return True
    module = path.parent.with_suffix(".py")
    return module.is_file() and re.search(rf"^(def|class) {path.name}\b", module.read_text(), re.MULTILINE) is not None


def test_documented_objects_of_the_reference_exist() -> None:
    text = "\n".join(page.read_text() for page in PAGES)
    named = re.findall(r"^::: (\S+)\n(?:    options:\n      members: \[(.+)\])?", text, re.MULTILINE)
    assert named
    for name, members in named:
        assert is_module_or_name(name), name
        module = ROOT / Path(*name.split(".")).with_suffix(".py")
        for member in members.split(", ") if members and module.is_file() else ():
            assert re.search(rf"\b{member}\b", module.read_text()), f"{name}.{member}"


def test_sections_of_documented_docstrings_are_indented_by_fours_as_the_reference_needs() -> None:
    text = "\n".join(page.read_text() for page in PAGES)
    modules = {name for name in re.findall(r"^::: (\S+)$", text, re.MULTILINE) if name.rpartition(".")[2].islower()}
    assert modules
    for name in modules:
        tree = ast.parse((ROOT / Path(*name.split(".")).with_suffix(".py")).read_text())
        definitions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)]
        for docstring in filter(None, map(ast.get_docstring, definitions)):
            _, *sections = re.split(r"^(?:Args|Returns|Raises):$", docstring, flags=re.MULTILINE)
            indents = [len(line) - len(line.lstrip()) for line in "".join(sections).splitlines()]
            assert [indent for indent in indents if indent % 4] == [], f"{name}: {docstring}"


def test_settings_of_every_table_are_in_the_reference() -> None:
    shown = pages_hook().on_page_markdown((DOCS / "reference" / "configuration.md").read_text())
    tables = (LOSSES, HEADS, BATCH_ORDERS, PENALTIES, GRADIENT_METHODS, LOSS_WEIGHTINGS)
    found = [entry.settings for table in tables for entry in table.values() if entry.settings is not None]
    assert [one for one in found if f"::: {one.__module__}.{one.__name__}\n" not in shown] == []


def test_every_method_is_described_in_the_reference() -> None:
    text = (DOCS / "reference" / "configuration.md").read_text()
    shown = pages_hook().on_page_markdown(text)
    entries: dict[str, Any] = {**LOSSES, **HEADS, **BATCH_ORDERS, **GRADIENT_METHODS, **LOSS_WEIGHTINGS}
    for name, entry in entries.items():
        assert f"\n- `{name}`: {entry.description}\n" in shown
        assert entry.description.endswith(".")


def test_searched_configuration_keys_exist() -> None:
    tree = to_dict(load_space("smart_lambda").base)
    keys = [text for text in INLINE.findall(prose(DOCS / "searching.md")) if text.split(".")[0] in tree and "." in text]
    assert len(keys) > 20
    for key in keys:
        group = tree
        for part in key.partition("=")[0].removesuffix(".*").split("."):
            group = group[int(part.replace("N", "0"))] if isinstance(group, list) else group[part.replace("*", "sst")]


def test_every_search_space_is_listed() -> None:
    words = set(INLINE.findall(prose(DOCS / "searching.md")))
    assert set(space_names()) - words == set(), "docs/searching.md lists every search space"


def test_every_selection_method_is_listed() -> None:
    words = set(INLINE.findall(prose(DOCS / "selecting.md")))
    assert set(COMMAND_LINE_METHODS) - words == set(), "docs/selecting.md lists every selection method"


def test_pages_that_docstrings_and_comments_name_are_there_and_hold_more_than_links() -> None:
    texts = [
        path.read_text()
        for package in ("mtlib", "search_spaces", "sweeps", "results")
        for path in (ROOT / package).rglob("*.py")
    ]
    named = {page for text in texts for page in re.findall(r"\bdocs/[\w/]+\.md", text)}
    assert len(named) > 5
    assert [page for page in sorted(named) if not (ROOT / page).is_file()] == []
    assert "docs/measurements.md" not in named, "an index: name the page in docs/measurements"


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text()
    pages = [page.relative_to(DOCS).as_posix() for page in DOCS.glob("**/*.md")]
    assert [page for page in pages if page not in navigation] == []


def pages_hook() -> ModuleType:
    """The hook that fills pages when the site is built."""
    spec = importlib.util.spec_from_file_location("generated_blocks", DOCS / "reference" / "generated_blocks.py")
    assert spec is not None
    assert spec.loader is not None
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    return hook


def test_help_of_a_command_is_inserted_into_its_page() -> None:
    shown = pages_hook().on_page_markdown("before\n\n<!-- help: -m json.tool -->\n\nafter")
    assert shown.startswith("before\n\n```text\nusage: ")
    assert shown.endswith("\n```\n\nafter")


def test_files_are_inserted_into_the_pages_that_name_them_and_examples_stay_as_they_are() -> None:
    hook = pages_hook()
    shown = hook.on_page_markdown((DOCS / "reference" / "python.md").read_text())
    assert (ROOT / "examples" / "train_one_model.py").read_text() in shown
    extending = (DOCS / "extending.md").read_text()
    assert hook.on_page_markdown(extending) == extending


def test_the_page_of_the_configuration_has_every_key_as_it_is_now() -> None:
    """After a change of a field: `python docs/reference/generated_blocks.py`."""
    text = (DOCS / "reference" / "configuration.md").read_text()
    assert pages_hook().with_keys(text) == text


def test_walk_to_a_trial_names_at_most_ten_functions_that_are_where_it_says() -> None:
    section = (DOCS / "architecture.md").read_text().partition("## From a command to a trial")[2].partition("\n## ")[0]
    steps = re.findall(r"^\| `([\w.]+)` \| `([\w/]+\.py)` \|", section, re.MULTILINE)
    assert 0 < len(steps) <= 10
    for name, file in steps:
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        found = {node.name for node in ast.walk(ast.parse((ROOT / file).read_text())) if isinstance(node, kinds)}
        assert set(name.split(".")) <= found, f"{name} in {file}"
