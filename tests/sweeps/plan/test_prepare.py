"""From options to what is run: the space that is searched, its name, and that one function alone makes it."""

import ast
import dataclasses
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mtlib.data.tables import content_fingerprint
from mtlib.demo.overrides import DEMO_NOTE, demo_overrides
from results.records.trials import write_sweep
from search_spaces.space import grid_configs, load_space, space_names
from sweeps.options import SweepOptions
from sweeps.plan.prepare import check_name_is_free, with_name
from tests.one_line_error import one_line_error
from tests.prepared import prepare_rows
from tests.scripts import ROOT
from tests.sweeps.plan.conftest import Build, write_tones
from tests.task_tables import read_folder


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One storage for all tests, so that the demonstration is written once; no sweep is created in it."""
    return tmp_path_factory.mktemp("storage")


@pytest.fixture
def options(storage: Path) -> Build:
    def build(**changes: Any) -> SweepOptions:
        return SweepOptions(**{"space": "smart_lambda", "name": "first", "storage": str(storage), **changes})

    return build


STEPS = {
    "fit_space": ("search_spaces/task_fit.py", "search_spaces/space_file.py"),
    "with_methods": ("mtlib/config/trial.py",),
    "change_base": ("sweeps/plan/space_changes.py",),
    "vary": ("search_spaces/vary.py",),
    "short_grid": ("sweeps/plan/space_changes.py",),
    "set_stages": ("search_spaces/set_values.py",),
    "as_begun": ("sweeps/plan/space_changes.py",),
    "with_present_definitions": ("sweeps/plan/space_changes.py",),
    "fit_encoders": ("sweeps/plan/precision.py",),
    "use_gpus": ("sweeps/plan/checks/machine.py",),
    "with_searched_encoder": ("sweeps/plan/space_changes.py",),
    "pack_gpus": ("sweeps/plan/packing.py",),
}
"""The functions that change the space or the options of a sweep, with the files that define and use them."""


def calls_in(tree: ast.AST) -> set[str]:
    """Names of the functions that a piece of source calls."""
    functions = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return {ast.unparse(function).rpartition(".")[2] for function in functions}


def test_one_function_alone_changes_the_space_and_the_options_of_a_sweep() -> None:
    """But for the list of keys, which shows the base configuration of a space."""
    prepares = ROOT / "sweeps" / "plan" / "prepare.py"
    assert calls_in(ast.parse(prepares.read_text())) >= STEPS.keys() - {"fit_space"}
    for path in (path for path in (ROOT / "sweeps").rglob("*.py") if path != prepares):
        tree = ast.parse(path.read_text())
        tree.body = [node for node in tree.body if getattr(node, "name", "") != "show_keys"]
        place = path.relative_to(ROOT).as_posix()
        used = {name for name in calls_in(tree) & STEPS.keys() if place not in STEPS[name]}
        assert not used, f"{place} calls {', '.join(sorted(used))}, which is left to prepare"


def test_demonstration_is_the_default_and_is_mentioned(options: Build, storage: Path) -> None:
    inputs = prepare_rows(options())
    base = inputs.space.base
    assert inputs.notes == (DEMO_NOTE,)
    assert inputs.data_folder.is_relative_to(storage / ".cache")
    assert Path(base.encoder.name).is_relative_to(storage / ".cache")
    plain = load_space("smart_lambda").base
    assert base == plain.override({**demo_overrides(plain), "encoder.name": base.encoder.name})
    orders = prepare_rows(options(space="orders", set={"stages.*.steps_per_epoch": "7"})).space
    stages = [stage for config in grid_configs(orders) for stage in config.stages]
    assert {stage.steps_per_epoch for stage in stages} == {7}, "--set comes after the demonstration's settings"
    assert max(stage.epochs for stage in stages) < 10


NOT_FOR_DEMO = ("layer_scales", "layers_alone", "long_runs", "pals_more_data", "synthetic_data")
"""Spaces that name layers, or files, which the demonstration lacks."""
SHOWN = [name for name in space_names() if name not in NOT_FOR_DEMO]


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name != "orders")) for name in SHOWN])
def test_every_space_can_be_prepared_for_the_demonstration(options: Build, name: str) -> None:
    search = "grid" if load_space(name).grid else "tpe"
    space = prepare_rows(options(space=name, search=search)).space
    for config in space.configs:
        assert sum(stage.epochs for stage in config.stages) <= 10
        assert config.encoder.name == space.base.encoder.name


def test_data_alone_uses_the_spaces_encoder(options: Build, tiny_folder: Path) -> None:
    inputs = prepare_rows(options(data=tiny_folder))
    assert inputs.space.base == load_space("smart_lambda").base
    assert inputs.space.base.encoder.name == "bert-base-uncased"
    assert inputs.notes == ()


def test_given_data_encoder_seed_and_values_are_used(options: Build, tiny_folder: Path) -> None:
    changes = {"optimizer.learning_rate": "0.5"}
    asked = options(space="orders", data=tiny_folder, encoder="roberta-base", seed=3, hold_out=0.2, set=changes)
    inputs = prepare_rows(asked)
    for config in inputs.space.configs:
        assert (config.encoder.name, config.seed, config.data.hold_out) == ("roberta-base", 3, 0.2)
        assert config.optimizer.learning_rate == 0.5
    assert inputs.space.published == load_space("orders").published
    whole = prepare_rows(dataclasses.replace(asked, hold_out=0.0))
    assert whole.fingerprint == content_fingerprint(read_folder(tiny_folder, ("sst", "qqp", "sts")))


def test_varied_keys_replace_what_the_space_searches(options: Build, tiny_folder: Path) -> None:
    changes = {"smart.weight": "2", "stages.1.sum_losses": "true", "stages.1.order": "batch_round_robin"}
    space = prepare_rows(options(vary={"gradients": "sum,pcgrad"}, set=changes, data=tiny_folder)).space
    assert space.base == load_space("smart_lambda").base.override(changes)
    assert dict(space.grid) == {"gradients": ("sum", "pcgrad")}
    assert not space.ranges
    assert not prepare_rows(options(vary={"smart.weight": "0,0.3"}, data=tiny_folder)).space.published


def test_the_base_has_its_own_encoder_among_searched_ones_else_the_first(options: Build, tiny_folder: Path) -> None:
    for names, first in (("a,b", "a"), ("a,bert-base-uncased", "bert-base-uncased")):
        space = prepare_rows(options(vary={"encoder.name": names}, data=tiny_folder)).space
        assert space.base.encoder.name == first
        assert [config.encoder.name for config in grid_configs(space)] == names.split(",")
    message = one_line_error(prepare_rows, options(vary={"encoder.name": "a,b"}, encoder="c", data=tiny_folder))
    assert message == "--encoder must be left out where encoder.name is searched, got c"


@pytest.mark.parametrize("given", ["model", "~/model", "{}/far/model"])
def test_starting_weights_are_found_from_any_folder(
    options: Build, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    asked = options(data=tiny_folder, set={"encoder.start_from": given.format(tmp_path)})
    place = Path(given.format(tmp_path)).expanduser().resolve()
    message = one_line_error(prepare_rows, asked)
    assert message == f"encoder.start_from must be a folder or a file, got {place}, which is missing"
    place.mkdir(parents=True)
    assert {config.encoder.start_from for config in prepare_rows(asked).space.configs} == {str(place)}


@pytest.mark.parametrize("question", [{"space": "loss_weights"}, {"space": None, "vary": {"smart.weight": "0,1"}}])
def test_general_spaces_are_for_the_tasks_of_the_data_that_set_leaves(
    options: Build, tmp_path: Path, question: dict[str, Any]
) -> None:
    write_tones(tmp_path, "mood", "spam")
    assert prepare_rows(options(data=tmp_path, **question)).space.base.active_tasks == ("mood", "spam", "tone")
    inputs = prepare_rows(options(data=tmp_path, set={"stages.0.tasks": "tone,mood"}, **question))
    assert set(inputs.space.base.tasks) == set(inputs.space.base.smart.tasks) == {"tone", "mood"}
    rows = {"train": 30, "dev": 10}
    assert inputs.num_rows == {(task, split): rows[split] for task in ("mood", "tone") for split in rows}


def test_a_sweep_without_a_name_is_called_by_its_space_and_the_time(options: Build) -> None:
    space = load_space("orders")
    assert with_name(options(), space).name == "first"
    for vary, beginning in (({}, "orders"), ({"smart.weight": "0,1"}, "vary")):
        name = with_name(options(name="", vary=vary), space).name
        assert re.fullmatch(rf"{beginning}-\d{{8}}-\d{{6}}", name)


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone can act as another account")
@pytest.mark.parametrize(
    ("mode", "answer"),
    [(0o777, "{0}/.cache-65534"), (0o755, "--storage must be a place that can be written, got {0}: {0} is not")],
)
def test_second_account_has_its_own_cache_in_a_storage_that_it_may_write(mode: int, answer: str) -> None:
    def prepare() -> str:
        asked = SweepOptions(storage=folder, name="new")
        check_name_is_free(asked)
        assert asked.shared_folder == str(asked.cache_folder)
        return asked.shared_folder

    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder, ".cache").mkdir(mode=0o755)
        Path(folder).chmod(mode)
        assert as_other_account(prepare) == answer.format(folder)


def as_other_account(act: Callable[[], str]) -> str:
    """What a call returns, or the message of its ValueError, in a process of an account without rights."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        os.setuid(65534)
        try:
            os.write(writing, act().encode())
        except ValueError as error:
            os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as answer:
        return answer.read()


def test_the_name_of_a_new_sweep_must_be_free(options: Build, tmp_path: Path) -> None:
    asked = options(storage=str(tmp_path))
    check_name_is_free(asked)
    write_sweep(asked.folder, {})
    check_name_is_free(dataclasses.replace(asked, resume=True))
    message = one_line_error(check_name_is_free, asked)
    assert message.endswith(
        f"choose another with --name, or leave it out for one made from the time, got {asked.folder}"
    )
    Path(asked.folder, "sweep.json").unlink()
    assert "it has no sweep.json: if a sweep was killed when it began there" in one_line_error(
        check_name_is_free, asked
    )


def claim_of(claim: str, **changes: Any) -> dict[str, Any]:
    """Options of a sweep that checks a claim."""
    return {"space": None, "claim": claim, "until_decided": 0.0, "replicates": 5, **changes}


def test_claim_replaces_what_the_space_searches_and_keeps_its_base_and_set(options: Build, tiny_folder: Path) -> None:
    asked = claim_of("smart.weight=1 beats smart.weight=0.5", space="orders", set={"optimizer.learning_rate": "0.5"})
    space = prepare_rows(options(**asked, data=tiny_folder)).space
    base = load_space("orders").base.override({"optimizer.learning_rate": 0.5})
    assert [config.smart.weight for config in grid_configs(space)] == [0.5, 1.0]
    assert grid_configs(space)[0] == base.override({"smart.weight": 0.5}) == space.base
    assert space.metric == load_space("orders").metric
    named = prepare_rows(options(**claim_of("smart.weight=1 beats base in sts"), data=tiny_folder)).space
    assert named.metric == "sts"


def test_sweep_of_a_claim_is_called_by_it_and_the_time(options: Build) -> None:
    name = with_name(options(name="", **claim_of("smart.weight=1 beats base")), None).name
    assert re.fullmatch(r"claim-\d{8}-\d{6}", name)


def test_claim_compares_two_encoders(options: Build, tiny_folder: Path) -> None:
    space = prepare_rows(options(**claim_of("encoder.name=a beats encoder.name=b"), data=tiny_folder)).space
    assert [config.encoder.name for config in grid_configs(space)] == ["b", "a"]


@pytest.mark.parametrize(
    ("claim", "names"),
    [
        ("encoder.name=a beats base", ["bert-base-uncased", "a"]),
        ("base beats encoder.name=a", ["a", "bert-base-uncased"]),
    ],
)
def test_claim_compares_an_encoder_with_that_of_the_base(
    options: Build, tiny_folder: Path, claim: str, names: list[str]
) -> None:
    space = prepare_rows(options(**claim_of(claim), data=tiny_folder)).space
    assert [config.encoder.name for config in grid_configs(space)] == names
