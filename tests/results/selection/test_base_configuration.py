"""The base configuration is found by its settings, not by its number, seed or replicate."""

import json
from pathlib import Path

import pytest

from mtlib.config.schema import to_dict
from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from mtlib.tasks import TASKS
from results.ensembles.selection_method import Settings
from results.records.tables import write_trials
from results.records.trials import write_sweep
from results.selection.base_configuration import find_base
from results.selection.report import render_selection
from results.selection.select_all import SelectionRequest, select_from
from tests.results.conftest import build_record
from tests.results.page.recorded_sweep import SPACE, write_recorded_sweep

BASE = TrialConfig(stages=(StageConfig(tasks=("sst",), epochs=1),))
CHANGED = {"optimizer.learning_rate": 0.5}


def write_configs(folder: Path, base: TrialConfig | None, *configs: TrialConfig) -> str:
    """A sweep with one trial for each configuration."""
    write_sweep(folder, {"name": folder.name} if base is None else {"name": folder.name, "base": to_dict(base)})
    write_trials(folder, [build_record(n, config=one.to_json()) for n, one in enumerate(configs)], tuple(TASKS))
    return str(folder)


def test_seed_and_replicate_do_not_change_the_configuration(tmp_path: Path) -> None:
    sweep = write_configs(tmp_path, BASE, BASE.override(CHANGED), BASE.override({"seed": 5, "replicate": 1}))
    assert find_base([sweep]) == {(sweep, 1)}


def test_a_search_whose_trials_all_differ_from_the_base_has_none(tmp_path: Path) -> None:
    sweep = write_configs(tmp_path, BASE, BASE.override(CHANGED))
    write_sweep(
        tmp_path, {"name": "mine", "base": to_dict(BASE), "space": {"grid": [], "ranges": []}, "search": "random"}
    )
    assert find_base([sweep]) == frozenset()


def test_base_is_that_of_the_first_sweep(tmp_path: Path) -> None:
    other = BASE.override(CHANGED)
    first = write_configs(tmp_path / "a", other, BASE)
    second = write_configs(tmp_path / "b", BASE, BASE, other, other.override({"seed": 9}))
    assert find_base([first, second]) == {(second, 1), (second, 2)}


def test_named_trial_stands_for_its_configuration_in_other_sweeps(tmp_path: Path) -> None:
    first = write_configs(tmp_path / "a", BASE, BASE, BASE.override(CHANGED))
    second = write_configs(tmp_path / "b", None, BASE.override({**CHANGED, "seed": 4}), BASE)
    assert find_base([first, second], "0001-r0") == {(first, 1), (second, 0)}


def test_configuration_is_named_by_number_and_optionally_sweep(tmp_path: Path) -> None:
    first = write_configs(tmp_path / "a", None, BASE, BASE.override(CHANGED))
    second = write_configs(tmp_path / "b", None, BASE.override({"seed": 1, **CHANGED}), BASE)
    for name, expected in (("0001", {(first, 1), (second, 0)}), ("b/0001", {(first, 0), (second, 1)})):
        assert find_base([first, second], name) == find_base([first, second], f"{name}-r0") == expected
    with pytest.raises(ValueError, match=r"^unknown sweep for --base 'c'; known: a, b$"):
        find_base([first, second], "c/0001")


def test_failed_trial_is_no_base(tmp_path: Path) -> None:
    sweep = write_configs(tmp_path, BASE, BASE)
    write_trials(tmp_path, [build_record(0, status="failed", config=BASE.to_json())], tuple(TASKS))
    with pytest.raises(ValueError, match=r"^--base must name a trial that has not failed, got 0000-r0$"):
        find_base([sweep], "0000-r0")


def test_configurations_of_another_version_are_ignored(tmp_path: Path) -> None:
    sweep = write_configs(tmp_path, BASE, BASE)
    later = json.dumps({**to_dict(BASE), "nonsense": 1})
    write_trials(tmp_path, [build_record(0, config=later), build_record(1, config=BASE.to_json())], tuple(TASKS))
    assert find_base([sweep]) == {(sweep, 1)}
    assert find_base([sweep], "0000-r0") == {(sweep, 0)}
    write_sweep(tmp_path, {"name": "a", "base": {**to_dict(BASE), "nonsense": 1}})
    assert find_base([sweep]) == frozenset()


def test_missing_trial_is_one_line_with_the_nearest_name(tmp_path: Path) -> None:
    sweep = write_configs(tmp_path, BASE, BASE, BASE.override(CHANGED))
    with pytest.raises(ValueError, match=r"unknown trial of .* for --base '0001-r7'; did you mean '0001-r0'"):
        find_base([sweep], "0001-r7")


@pytest.mark.parametrize(("base", "is_trained"), [(0.3, True), (0.5, False)])
def test_a_base_that_was_not_trained_is_not_mentioned(tmp_path: Path, base: float, is_trained: bool) -> None:
    info = to_dict(SPACE.base.override({"smart.weight": base}))
    sweep = write_recorded_sweep(tmp_path / "mine", num_replicates=1, base=info)
    assert find_base([sweep.path]) == ({(str(sweep.path), 1)} if is_trained else frozenset())
    request = SelectionRequest(sweeps=[sweep.path], settings=Settings(max_models=1, bags=0), repeats=1, tasks=["qqp"])
    selection = select_from(request)
    assert (selection.tasks["qqp"].methods[0].name == "base") == is_trained
    assert ("base" in " ".join(render_selection(selection))) == is_trained
