"""The rules of the house that a machine can check: who may import whom, what may be named where."""

import ast
import builtins
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from mtlib.tasks import TASKS

ROOT = Path(__file__).resolve().parent.parent

ORDER = (
    "mtlib.tasks",
    "mtlib.schema",
    "mtlib.checksum",
    "mtlib.config_network",
    "mtlib.config_training",
    "mtlib.config_penalties",
    "mtlib.config_data",
    "mtlib.config_checks",
    "mtlib.config",
    "mtlib.seeds",
    "mtlib.workers",
    "mtlib.environment",
    "mtlib.active",
    "mtlib.missing_files",
    "mtlib.table_files",
    "mtlib.hub_data",
    "mtlib.data",
    "mtlib.hold_out",
    "mtlib.parts",
    "mtlib.sources",
    "mtlib.special_tokens",
    "mtlib.tokens",
    "mtlib.batches",
    "mtlib.demo_words",
    "mtlib.demo_text",
    "mtlib.demo_weights",
    "mtlib.demo_encoder",
    "mtlib.demo_settings",
    "mtlib.demo",
    "mtlib.hub_encoder",
    "mtlib.architecture",
    "mtlib.encoder",
    "mtlib.encoder_lookup",
    "mtlib.layers",
    "mtlib.heads",
    "mtlib.pals",
    "mtlib.dropout",
    "mtlib.losses",
    "mtlib.simcse",
    "mtlib.smart",
    "mtlib.model",
    "mtlib.objective",
    "mtlib.rehearsal",
    "mtlib.gradients",
    "mtlib.orders",
    "mtlib.samplers",
    "mtlib.plan",
    "mtlib.inert",
    "mtlib.stage_keys",
    "mtlib.optim",
    "mtlib.evaluate",
    "mtlib.checkpoint",
    "mtlib.best_weights",
    "mtlib.start",
    "mtlib.run_state",
    "mtlib.step",
    "mtlib.reports",
    "mtlib.train",
    "mtlib.model_card",
    "mtlib.export",
    "search_spaces.domain",
    "search_spaces.space",
    "search_spaces.presets",
    "search_spaces.*",
    "results.command_line",
    "results.storage",
    "results.heartbeat",
    "results.records",
    "results.hold_out",
    "results.predictions",
    "results.epochs",
    "results.epoch_files",
    "results.recovery",
    "results.mirror",
    "results.stats",
    "results.outputs",
    "results.folds",
    "results.pool",
    "results.base_configuration",
    "results.ensemble",
    "results.methods",
    "results.greedy",
    "results.weighting",
    "results.calibration",
    "results.soups",
    "results.cross_fitting",
    "results.rank_means",
    "results.one_model",
    "results.copies",
    "results.confidence_set",
    "results.ranking",
    "results.render",
    "results.table",
    "results.expected",
    "results.selection",
    "results.seen_by_search",
    "results.trade_offs",
    "results.trying",
    "results.selecting",
    "results.cost_text",
    "results.selection_text",
    "results.look_text",
    "results.weights",
    "results.card_facts",
    "results.models",
    "results.soup_models",
    "results.dev_texts",
    "results.text_input",
    "results.predicting",
    "results.bundled",
    "results.bundle_wheel",
    "results.bundle_card",
    "results.bundle",
    "results.latency",
    "results.last_score",
    "results.soup_scores",
    "results.soup_selecting",
    "results.choosing",
    "results.selector",
    "results.prediction_text",
    "results.leaderboard",
    "results.progress_bar",
    "results.predict_options",
    "results.predict",
    "sweeps.options",
    "sweeps.study",
    "sweeps.trial_spec",
    "sweeps.remaining",
    "sweeps.point_checks",
    "sweeps.held_out",
    "sweeps.prepare",
    "sweeps.stage_order",
    "sweeps.stage_tree",
    "sweeps.model_size",
    "sweeps.disk",
    "sweeps.dry_run",
    "sweeps.provenance",
    "sweeps.unchanged",
    "sweeps.resume",
    "sweeps.flags",
    "sweeps.command",
    "sweeps.opening",
    "sweeps.export",
    "sweeps.interrupts",
    "sweeps.cluster",
    "sweeps.leftovers",
    "sweeps.capacity",
    "sweeps.memory",
    "sweeps.messages",
    "sweeps.trial_mailbox",
    "sweeps.file_locks",
    "sweeps.stage_entry",
    "sweeps.stages",
    "sweeps.cleaning",
    "sweeps.finished",
    "sweeps.take_over",
    "sweeps.searcher",
    "sweeps.scheduler",
    "sweeps.trial",
    "sweeps.search",
    "sweeps.lane_link",
    "sweeps.course",
    "sweeps.already_there",
    "sweeps.lane_trial",
    "sweeps.lane",
    "sweeps.lanes",
    "sweeps.lane_pool",
    "sweeps.ledger",
    "sweeps.reported",
    "sweeps.tuner",
    "sweeps.progress",
    "sweeps.finish",
    "sweeps.run",
)
"""Every file, lowest first: a file imports only files above it in this list. `search_spaces.*` are the questions."""

PACKAGES = ("mtlib", "search_spaces", "results", "sweeps")
FORBIDDEN_NAMES = {"utils", "util", "common", "helpers", "helper", "manager", "base", "misc", "select", "statistics"}
ONLY_IN_SWEEPS = {"ray", "optuna"}
NOT_IN_RESULTS = {"torch", "ray", "transformers", "optuna"}
WITHOUT_TORCH = ("mtlib.tasks", "mtlib.schema", "mtlib.config", "mtlib.data", "mtlib.sources", "search_spaces.space")
MAY_NAME_TASKS = ("mtlib.tasks", "mtlib.demo", "search_spaces")
MAY_INHERIT_FROM = ("torch", "ray")
EXCEPTIONS = {
    name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, Exception)
}

FILES = sorted(path for package in PACKAGES for path in (ROOT / package).glob("**/*.py"))
MODULES = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in FILES if path.name != "__init__.py"]


@cache
def tree_of(module: str) -> ast.Module:
    return ast.parse(path_of(module).read_text())


def path_of(module: str) -> Path:
    return ROOT / Path(*module.split(".")).with_suffix(".py")


def rank(module: str) -> int | None:
    """Place in `ORDER`; None for a file that has none."""
    if module in ORDER:
        return ORDER.index(module)
    return ORDER.index("search_spaces.*") if module.startswith("search_spaces.") else None


def imports(module: str, only_when_loaded: bool = False) -> Iterator[str]:
    """Dotted names of what a file imports, our own files by their full name; those in functions too unless told not."""
    nodes = loaded_nodes(tree_of(module)) if only_when_loaded else ast.walk(tree_of(module))
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if node.module in PACKAGES else str(node.module) for name in found)


def loaded_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Nodes that run when a file is loaded: not those in functions, nor those for the type checker alone."""
    for child in ast.iter_child_nodes(tree):
        is_for_types = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
        if not is_for_types and not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child
            yield from loaded_nodes(child)


def loaded_packages(module: str) -> set[str]:
    """Top packages of others that loading a file brings in, through our own files too."""
    found: set[str] = set()
    for name in set(imports(module, only_when_loaded=True)):
        is_ours = name.split(".")[0] in PACKAGES
        found |= loaded_packages(name) if is_ours and path_of(name).exists() else {name.split(".")[0]}
    return found


def strings(module: str) -> Iterator[tuple[int, str]]:
    """Line and text of every string of a file that is no docstring."""
    tree = tree_of(module)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.lineno, node.value


@pytest.mark.parametrize("module", MODULES)
def test_every_file_has_its_place_in_the_order(module: str) -> None:
    assert rank(module) is not None, f"{module} has no place in ORDER of tests/test_architecture.py: add it there"


@pytest.mark.parametrize("module", MODULES)
def test_a_file_imports_only_files_below_it(module: str) -> None:
    own = rank(module)
    for name in imports(module):
        if name.split(".")[0] in PACKAGES and own is not None and name not in PACKAGES:
            other = rank(name)
            assert other is not None, f"{module} imports {name}, which has no place in ORDER"
            assert other < own, f"{module} must not import {name}, which is not below it"


def test_every_name_in_the_order_is_a_file() -> None:
    missing = [module for module in ORDER if not module.endswith("*") and not path_of(module).exists()]
    assert not missing, f"ORDER of tests/test_architecture.py names files that are not there: {missing}"


@pytest.mark.parametrize("module", MODULES)
def test_imports_are_absolute_and_name_what_they_take(module: str) -> None:
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno}: imports must be absolute"
            assert all(alias.name != "*" for alias in node.names), f"{module}:{node.lineno}: no star imports"


@pytest.mark.parametrize("module", [module for module in MODULES if not module.startswith("sweeps.")])
def test_only_sweeps_imports_ray_or_optuna(module: str) -> None:
    assert not {name.split(".")[0] for name in imports(module)} & ONLY_IN_SWEEPS


@pytest.mark.parametrize("module", [module for module in MODULES if module.startswith("results.")])
def test_results_load_without_torch_ray_transformers_or_optuna(module: str) -> None:
    assert not {name.split(".")[0] for name in imports(module)} & NOT_IN_RESULTS
    assert not loaded_packages(module) & NOT_IN_RESULTS


@pytest.mark.parametrize("module", WITHOUT_TORCH)
def test_tasks_and_configurations_load_without_torch(module: str) -> None:
    assert not loaded_packages(module) & {"torch", "transformers", *ONLY_IN_SWEEPS}


@pytest.mark.parametrize("module", [module for module in MODULES if not module.startswith(MAY_NAME_TASKS)])
def test_only_the_file_of_tasks_names_tasks(module: str) -> None:
    named = re.compile(rf"\b({'|'.join(TASKS)})\b")
    found = [f"{module}:{line}: {text!r}" for line, text in strings(module) if named.search(text)]
    assert not found, f"tasks are named in mtlib/tasks.py only: {found}"


@pytest.mark.parametrize("package", PACKAGES)
def test_package_files_are_empty(package: str) -> None:
    assert (ROOT / package / "__init__.py").read_bytes() == b""


@pytest.mark.parametrize("module", MODULES)
def test_file_names_say_what_they_hold(module: str) -> None:
    assert module.split(".")[-1] not in FORBIDDEN_NAMES


@pytest.mark.parametrize("module", [module for module in MODULES if module.startswith(("sweeps.", "results."))])
def test_scripts_folders_hide_no_standard_module(module: str) -> None:
    """The folder of a script comes first on the path, in Ray's workers too."""
    assert module.split(".")[-1] not in sys.stdlib_module_names


@pytest.mark.parametrize("module", MODULES)
def test_a_file_begins_by_saying_what_it_does(module: str) -> None:
    assert ast.get_docstring(tree_of(module)), f"{module} has no docstring"


@pytest.mark.parametrize("module", MODULES)
def test_classes_inherit_from_torch_ray_and_exceptions_only(module: str) -> None:
    tree = tree_of(module)
    origins = {
        alias.asname or alias.name: str(node.module if isinstance(node, ast.ImportFrom) else alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    for node in ast.walk(tree):
        for base in node.bases if isinstance(node, ast.ClassDef) else ():
            name = ast.unparse(base).split(".")[0]
            is_allowed = name in EXCEPTIONS or origins.get(name, "").split(".")[0] in MAY_INHERIT_FROM
            assert is_allowed, f"{module}:{base.lineno}: {ast.unparse(base)} must not be inherited from"


@pytest.mark.parametrize("module", MODULES)
def test_every_source_file_has_its_mirrored_test_file(module: str) -> None:
    package, name = module.split(".")
    assert (ROOT / "tests" / package / f"test_{name}.py").exists(), f"tests/{package}/test_{name}.py is missing"
