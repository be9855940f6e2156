"""Architecture rules: imports, names, folder sizes."""

import ast
import builtins
import graphlib
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from mtlib.tasks import TASKS

ROOT = Path(__file__).resolve().parent.parent

ROOMS = (
    *(
        "mtlib.runtime",
        "mtlib.kinds",
        "mtlib.metrics",
        "mtlib.tasks",
        "mtlib.config",
        "mtlib.stages",
        "mtlib.data",
        "mtlib.model",
    ),
    "mtlib.data.__main__",
    *("mtlib.checkpoints", "mtlib.demo", "mtlib.loss", "mtlib.training", "mtlib.train"),
    *("search_spaces", "search_spaces.questions"),
    *(
        "results.records",
        "results.stats",
        "results.stats.effects",
        "results.answers",
        "results.ensembles",
        "results.figures",
        "results.sweep",
        "results.health",
        "results.inference",
    ),
    *("results.selection", "results.page", "results.inference.bundle"),
    "results.inference.distillation",
    "results.load",
    *("results.table", "results.report", "results.selector", "results.predict"),
    *("sweeps.options", "sweeps.cluster", "sweeps.reuse", "sweeps.driver.trials", "sweeps.lanes", "sweeps.tracking"),
    *("sweeps.search", "sweeps.plan"),
    *("sweeps.driver", "sweeps.cli", "sweeps.api", "sweeps.push", "sweeps.export", "sweeps.distil", "sweeps.run"),
    *("sweeps.status", "sweeps.__main__"),
)
"""Every folder and top-level file, lowest first: a file imports only from its own folder and from those before it. The
files of an inner folder that is not listed belong to the outer one."""
UNCOUNTED = ("__", ".", "conftest", "py.typed", "test___")
"""Beginnings of the names of entries that every folder may have."""
MOST_ENTRIES = 15
"""Files and folders in a folder without `__init__.py`; `questions` has one file per question."""

PACKAGES = ("mtlib", "search_spaces", "results", "sweeps")
FORBIDDEN_NAMES = {"utils", "util", "common", "helpers", "helper", "manager", "base", "misc", "select", "statistics"}
ONLY_IN_SWEEPS = {"ray", "optuna"}
PRINTS = "mtlib.runtime.console"
"""The file through which everything is printed but data."""
MAY_USE_RICH = {
    "results.inference.bundle.write": {"rich.filesize"},
    "results.inference.progress_bar": {"rich.console", "rich.progress"},
    "sweeps.cli.progress": {"rich.console"},
    "sweeps.plan.report": {"rich.filesize"},
}
"""The other files that use rich, and what of it."""
NOT_IN_RESULTS = {"torch", "ray", "transformers", "optuna"}
WITHOUT_TORCH = (
    "mtlib.metrics.table",
    "mtlib.tasks",
    "mtlib.config.trial",
    "mtlib.data.load",
    "search_spaces.space",
    "results.table",
)
MAY_NAME_TASKS = ("mtlib.tasks", "mtlib.demo", "search_spaces")
EXTENDS_ITS_PATH = "search_spaces"
"""The one package whose `__init__.py` is not empty: questions are found by their short names too."""
MAY_INHERIT_FROM = ("torch", "ray", "pyarrow")
MAY_BE_TWICE = {
    "main": "every command has one",
    "build_parser": "every command has one",
    "EXAMPLES": "the examples in a command's --help",
}
"""Public names that several files may define, with the reason."""
BETTER_TERMS = {
    "anew": "again, new",
    "complaint": "error",
    "foretold": "predicted",
    "had for which": "the cost of",
    "kept aside": "held out",
    "nobody": "no, none",
    "refusal": "error",
    "said": "given, recorded, printed",
    "told": "passed, reported, described",
    "way to choose": "selection method",
    "ways to choose": "selection methods",
    "whatever": "any",
    "wherever": "in any",
    "yardstick": "reference, metric",
}
"""Words and phrases that no public name, test name or module docstring uses, with what they use instead."""
BETTER_NAMES = BETTER_TERMS | {"course": "trial, order", "ground": "fixture, folder"}
"""The same for names alone: in docstrings a course is CS224N."""
EXCEPTIONS = {
    name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, Exception)
}

FILES = sorted(path for package in PACKAGES for path in (ROOT / package).glob("**/*.py"))
MODULES = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in FILES if path.name != "__init__.py"]


def modules_of(package: str) -> list[str]:
    """Dotted names of a package's files."""
    return [module for module in MODULES if module.split(".")[0] == package]


@cache
def tree_of(module: str) -> ast.Module:
    return ast.parse(path_of(module).read_text())


def path_of(module: str) -> Path:
    return ROOT / Path(*module.split(".")).with_suffix(".py")


def room_of(module: str) -> str:
    """The folder, or top-level file, of `ROOMS` that a file belongs to: the innermost one."""
    parts = module.split(".")
    rooms = [".".join(parts[:depth]) for depth in range(len(parts), 0, -1)]
    return next((room for room in rooms if room in ROOMS), ".".join(parts[:2]))


def imports(module: str, only_when_loaded: bool = False) -> Iterator[str]:
    """Dotted names of a file's imports, our own files by full name; of imports in functions too by default."""
    nodes = loaded_nodes(tree_of(module)) if only_when_loaded else ast.walk(tree_of(module))
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if path_of(name).exists() else str(node.module) for name in found)


def loaded_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Nodes that run when a file is loaded: not those in functions, nor those for the type checker alone."""
    for child in ast.iter_child_nodes(tree):
        is_for_types = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
        if not is_for_types and not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child
            yield from loaded_nodes(child)


@cache
def loaded_packages(module: str) -> set[str]:
    """Third-party packages that loading a file imports, directly or through our own files."""
    found: set[str] = set()
    for name in set(imports(module, only_when_loaded=True)):
        is_ours = name.split(".")[0] in PACKAGES
        found |= loaded_packages(name) if is_ours and path_of(name).exists() else {name.split(".")[0]}
    return found


def strings(module: str) -> Iterator[tuple[int, str]]:
    """Line and text of every string of a file except docstrings."""
    tree = tree_of(module)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.lineno, node.value


@pytest.mark.parametrize("package", PACKAGES)
def test_files_import_only_from_their_own_and_lower_rooms(package: str) -> None:
    for module in modules_of(package):
        own = room_of(module)
        assert own in ROOMS, f"{own} has no place in ROOMS of tests/test_architecture.py: add it there"
        for name in imports(module):
            if name.split(".")[0] in PACKAGES and name not in PACKAGES and room_of(name) != own:
                assert room_of(name) in ROOMS, f"{module} imports {name}, which has no place in ROOMS"
                assert ROOMS.index(room_of(name)) < ROOMS.index(own), (
                    f"{module} must not import {name}: it is not lower"
                )


def test_imports_form_no_cycle() -> None:
    known = set(MODULES)
    graph = {module: {name for name in imports(module) if name in known} for module in MODULES}
    list(graphlib.TopologicalSorter(graph).static_order())  # CycleError names the cycle


def test_every_room_exists() -> None:
    assert {room_of(module) for module in MODULES} == set(ROOMS)


@pytest.mark.parametrize("package", [*PACKAGES, *(f"tests/{package}" for package in PACKAGES)])
def test_a_folder_has_few_entries(package: str) -> None:
    folders = {path.parent for path in (ROOT / package).rglob("*.py")} | {ROOT / package}
    for folder in (folder for folder in folders if folder.name != "questions"):
        entries = {path.name for path in folder.iterdir() if not path.name.startswith(UNCOUNTED)}
        rule = f"at most {MOST_ENTRIES}: put what is new beside its siblings, or a part into a folder of its own"
        assert len(entries) <= MOST_ENTRIES, f"{folder} has {len(entries)} entries, {rule}: {sorted(entries)}"


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_are_absolute_and_without_stars(package: str) -> None:
    for module in modules_of(package):
        for node in ast.walk(tree_of(module)):
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{module}:{node.lineno}: imports must be absolute"
                assert all(alias.name != "*" for alias in node.names), f"{module}:{node.lineno}: no star imports"


@pytest.mark.parametrize("package", [package for package in PACKAGES if package != "sweeps"])
def test_only_sweeps_imports_ray_or_optuna(package: str) -> None:
    for module in modules_of(package):
        assert not {name.split(".")[0] for name in imports(module)} & ONLY_IN_SWEEPS, module


@pytest.mark.parametrize("package", [*PACKAGES, "benchmarks"])
def test_no_library_is_patched_and_ray_and_optuna_are_used_by_public_names_alone(package: str) -> None:
    for path in (ROOT / package).rglob("*.py"):
        tree = ast.parse(path.read_text())
        assert not [name for name in imported_modules(tree) if "mock" in name or is_private_module(name)], path
        if not {name.partition(".")[0] for name in imported_modules(tree)} & ONLY_IN_SWEEPS:
            continue
        own = {
            node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and is_attribute_of(node, "self")
        }
        used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and is_private(node.attr)}
        assert used - own <= {"_exit"}, path  # of `os`


def imported_modules(tree: ast.AST) -> set[str]:
    """The modules that a file imports, with what it imports from them."""
    found = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {f"{node.module}.{name.name}" for name in node.names}
    return found


def is_private_module(name: str) -> bool:
    """Whether a dotted name has a private part."""
    return any(is_private(part) for part in name.split("."))


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def is_attribute_of(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name


@pytest.mark.parametrize("package", PACKAGES)
def test_one_file_prints(package: str) -> None:
    for module in (module for module in modules_of(package) if module != PRINTS):
        used = {name for name in imports(module) if name.split(".")[0] == "rich"}
        assert used <= MAY_USE_RICH.get(module, set()), f"{module} must show texts by {PRINTS}"
        calls = [node for node in ast.walk(tree_of(module)) if isinstance(node, ast.Call)]
        names = [node.func.id for node in calls if isinstance(node.func, ast.Name)]
        assert "print" not in names, f"{module} must print by {PRINTS}"


def test_results_load_without_torch_ray_transformers_or_optuna() -> None:
    for module in modules_of("results"):
        assert not {name.split(".")[0] for name in imports(module)} & NOT_IN_RESULTS, module
        assert not loaded_packages(module) & NOT_IN_RESULTS, module


@pytest.mark.parametrize("module", WITHOUT_TORCH)
def test_tasks_and_configurations_load_without_torch(module: str) -> None:
    assert not loaded_packages(module) & {"torch", "transformers", *ONLY_IN_SWEEPS}


def test_training_loads_no_library_that_only_some_trials_need() -> None:
    """Each worker would wait for them at its start."""
    assert not loaded_packages("mtlib.train") & {"pandas", "qpsolvers", "scipy", "sklearn", "torchjd"}


def test_only_the_tasks_file_names_tasks() -> None:
    named = re.compile(rf"\b({'|'.join(TASKS)})\b")
    for module in (module for module in MODULES if not module.startswith(MAY_NAME_TASKS)):
        found = [f"{module}:{line}: {text!r}" for line, text in strings(module) if named.search(text)]
        assert not found, f"tasks are named in mtlib/tasks.py only: {found}"


@pytest.mark.parametrize("package", PACKAGES)
def test_every_folder_is_a_package_with_an_empty_init_file(package: str) -> None:
    for folder in {path.parent for path in (ROOT / package).rglob("*.py")}:
        is_empty = (folder / "__init__.py").read_bytes() == b""
        assert is_empty or folder == ROOT / EXTENDS_ITS_PATH, folder


@pytest.mark.parametrize("package", PACKAGES)
def test_files_have_specific_names_and_a_docstring(package: str) -> None:
    for module in modules_of(package):
        assert module.split(".")[-1] not in FORBIDDEN_NAMES, module
        assert ast.get_docstring(tree_of(module)), f"{module} has no docstring"


@pytest.mark.parametrize("package", ["sweeps", "results"])
def test_script_folders_shadow_no_standard_module(package: str) -> None:
    """The folder of a script comes first on the path, in Ray's workers too."""
    assert not {path.stem for path in (ROOT / package).iterdir()} & sys.stdlib_module_names


@pytest.mark.parametrize("package", PACKAGES)
def test_classes_inherit_from_torch_ray_and_exceptions_only(package: str) -> None:
    for module in modules_of(package):
        tree = tree_of(module)
        origins = {
            alias.asname or alias.name: str(node.module if isinstance(node, ast.ImportFrom) else alias.name)
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        for base in (base for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for base in node.bases):
            name = ast.unparse(base).split(".")[0]
            # A protocol has no implementation: it says what several classes share.
            is_allowed = name in (*EXCEPTIONS, "Protocol") or origins.get(name, "").split(".")[0] in MAY_INHERIT_FROM
            assert is_allowed, f"{module}:{base.lineno}: {ast.unparse(base)} must not be inherited from"


@pytest.mark.parametrize("package", PACKAGES)
def test_every_source_file_has_a_mirrored_test_file(package: str) -> None:
    for module in (module for module in modules_of(package) if not is_question(module)):
        *folders, name = module.split(".")
        path = Path("tests", *folders, f"test_{name}.py")
        assert (ROOT / path).exists(), f"{path} is missing"


def test_public_names_are_defined_once() -> None:
    places = defaultdict(list)
    for module in (module for module in MODULES if not is_question(module)):
        for name in defined_names(tree_of(module)):
            places[name].append(module)
    twice = {name: modules for name, modules in places.items() if len(modules) > 1 and name not in MAY_BE_TWICE}
    assert not twice, f"names that several files define: {twice}"
    assert not [name for name in MAY_BE_TWICE if len(places[name]) < 2]


@pytest.mark.parametrize("package", [*PACKAGES, "tests"])
def test_names_and_docstrings_use_the_terms_of_the_field(package: str) -> None:
    found = []
    for path in sorted((ROOT / package).rglob("*.py")):
        tree = ast.parse(path.read_text())
        names = ((name, name.replace("_", " "), BETTER_NAMES) for name in defined_names(tree))
        docstring = ("the docstring", ast.get_docstring(tree) or "", BETTER_TERMS)
        for where, text, terms in (*names, docstring):
            used = [word for word in terms if re.search(rf"\b{word}\b", " ".join(text.lower().split()))]
            found += [f"{path.relative_to(ROOT)}: {where}: {word!r}: better {terms[word]}" for word in used]
    assert not found, "\n".join(found)


def is_question(module: str) -> bool:
    """Whether a file is a search space: data that no other file imports and that tests of all spaces check."""
    return room_of(module) == "search_spaces.questions"


def defined_names(tree: ast.Module) -> Iterator[str]:
    """Public names that a file defines at its top."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names = [node.name]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)]
        else:
            names = []
        yield from (name for name in names if not name.startswith("_"))
