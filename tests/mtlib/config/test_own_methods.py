"""Configurations that name methods of a user's own file."""

import copy
import dataclasses
import pickle
from pathlib import Path
from typing import Any

import pytest

from mtlib.config.methods import BUILT_IN, Methods, join_methods, load_methods, read_methods
from mtlib.config.trial import TrialConfig, trial_class, with_methods
from mtlib.runtime.method_file import read_method_file
from mtlib.stages.effective_settings import effective_settings
from mtlib.tasks import TASKS, overall_score
from tests.config_cases import BASE
from tests.one_line_error import one_line_error

FILE = """\
from dataclasses import dataclass
from functools import partial

from mtlib.config.batch_orders import BatchOrder, drawn_rounds
from mtlib.config.gradient_methods import GradientMethod
from mtlib.config.heads import Head
from mtlib.config.losses import Loss
from mtlib.config.penalties import Penalty, check_penalty
from mtlib.metrics.metric import Metric


@dataclass(frozen=True, kw_only=True)
class SharpSettings:
    sharp_gamma: float = 2.0


@dataclass(frozen=True, kw_only=True)
class DeepSettings:
    deep_layers: int = 2


@dataclass(frozen=True, kw_only=True)
class TwiceSettings:
    weight: float = 0.0
    tasks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_penalty("twice", self)


@dataclass(frozen=True, kw_only=True)
class WarmSettings:
    warm_power: float = 0.5


@dataclass(frozen=True, kw_only=True)
class LengthSettings:
    length_power: float = 1.0


def none(*_arguments, **_settings):
    raise NotImplementedError


LOSSES = {"sharp": Loss(title="sharp", description="", functions={"classes": none}, settings=SharpSettings)}
HEADS = {"deep": Head(title="deep", description="", function=none, settings=DeepSettings)}
PENALTIES = {"twice": Penalty(title="Twice", function=none, settings=TwiceSettings, terms=("twice",))}
BATCH_ORDERS = {
    "warm": BatchOrder(title="", description="", function=partial(drawn_rounds, exponent=0.3), settings=WarmSettings)
}
GRADIENT_METHODS = {
    "length": GradientMethod(title="length", description="", function=none, settings=LengthSettings)
}
METRICS = {
    "agreed": Metric(title="agreed", kinds=("classes",), reads="class", function="sklearn.metrics:cohen_kappa_score")
}
"""
SUMMED = {"stages.0.sum_losses": True, "stages.0.order": "max_size_cycle"}
CHANGES: dict[str, dict[str, Any]] = {
    "loss": {"tasks.sst.loss": "sharp"},
    "head": {"tasks.sst.head": "deep"},
    "penalty": {"twice.weight": 1.0, "twice.tasks": "sst"},
    "order": {"stages.0.order": "warm"},
    "gradients": {"gradients": "length", **SUMMED},
}
SETTINGS: dict[str, dict[str, Any]] = {
    "loss": {"tasks.sst.sharp_gamma": 3.0},
    "head": {"tasks.sst.deep_layers": 3},
    "penalty": {"twice.weight": 2.0},
    "order": {"stages.0.warm_power": 0.7},
    "gradients": {"length_power": 2.0},
}
ALL = BASE.override({"stages.0.tasks": ["sst", "qqp"]})


@pytest.fixture
def methods(tmp_path: Path) -> Methods:
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    return read_methods([path])


def test_built_in_methods_need_no_further_class() -> None:
    assert trial_class(BUILT_IN) is TrialConfig
    assert with_methods(BASE, BUILT_IN) is BASE


@pytest.mark.parametrize("change", CHANGES)
def test_own_methods_and_their_settings_are_named_like_built_in_ones(change: str, methods: Methods) -> None:
    config = with_methods(ALL, methods).override(CHANGES[change] | SETTINGS[change])
    assert isinstance(config, TrialConfig)
    with pytest.raises(ValueError, match=r"^(unknown key|.*must be one of)"):
        ALL.override(CHANGES[change])
    again = type(config).from_json(config.to_json())
    assert (again, again.content_hash) == (config, config.content_hash)


@pytest.mark.parametrize("change", CHANGES)
def test_setting_counts_where_its_method_is_used_and_nowhere_else(change: str, methods: Methods) -> None:
    plain = with_methods(ALL, methods)
    used = plain.override(CHANGES[change])
    assert used.override(SETTINGS[change]).content_hash != used.content_hash
    assert effective_settings(used.override(SETTINGS[change]), 0, 1) != effective_settings(used, 0, 1)
    if change != "penalty":  # whose weight turns it on
        assert effective_settings(plain.override(SETTINGS[change]), 0, 1) == effective_settings(plain, 0, 1)


def test_configuration_that_uses_no_own_method_has_the_hash_and_keys_that_it_has_without_them(
    methods: Methods,
) -> None:
    config = with_methods(ALL, methods)
    assert config.content_hash == ALL.content_hash
    assert effective_settings(config, 0, 1) == effective_settings(ALL, 0, 1)
    assert config.override({"stages": [ALL.stages[0]]}).content_hash == ALL.content_hash


@pytest.mark.parametrize("change", CHANGES)
def test_code_of_a_file_counts_where_one_of_its_methods_is_used(change: str, methods: Methods, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(FILE.replace("raise NotImplementedError", "return None"))
    other = read_methods([tmp_path / "mine.py"])
    hashes = {with_methods(ALL, own).override(CHANGES[change]).content_hash for own in (methods, other)}
    keys = [effective_settings(with_methods(ALL, own).override(CHANGES[change]), 0, 1) for own in (methods, other)]
    assert (len(hashes), keys[0] == keys[1]) == (2, False)


def test_whole_and_parts_are_pickled_and_copied(methods: Methods) -> None:
    config = with_methods(ALL, methods).override(CHANGES["loss"] | CHANGES["penalty"])
    for own in (config, config.stages[0], config.tasks["sst"], config.twice):  # type: ignore[attr-defined]
        for again in (pickle.loads(pickle.dumps(own)), copy.deepcopy(own)):
            assert again == own
            assert type(again) is type(own)


def test_task_may_have_a_metric_of_a_file(methods: Methods) -> None:
    file = methods.own_metrics["agreed"]
    own = dataclasses.replace(TASKS["sst"], metric="agreed", metric_file=file)
    assert own.metric_entry.title == "agreed"
    assert pickle.loads(pickle.dumps(own)) == own
    with pytest.raises(ValueError, match="unknown metric of a classes task 'agreed'"):
        dataclasses.replace(TASKS["sst"], metric="agreed")
    config = ALL.override({"data.tasks.sst": own})
    assert TrialConfig.from_json(config.to_json()).task("sst").metric_entry.title == "agreed"
    assert overall_score({"sst": 1.0}, config.data.tasks) == 1.0


def test_code_of_a_metric_counts_and_its_comments_do_not(methods: Methods) -> None:
    file = methods.own_metrics["agreed"]
    same, other = (dataclasses.replace(file, source=file.source + text) for text in ("# a comment\n", "x = 1\n"))
    configs = [
        ALL.override({"data.tasks.sst": dataclasses.replace(TASKS["sst"], metric="agreed", metric_file=own)})
        for own in (file, same, other)
    ]
    assert [one.content_hash == configs[0].content_hash for one in configs] == [True, True, False]
    keys = [effective_settings(one, 0, 1) for one in configs]
    assert [one == keys[0] for one in keys] == [True, True, False]


@pytest.mark.parametrize("change", ["loss", "head", "order"])
def test_grid_of_a_method_and_its_setting_has_different_trials(change: str, methods: Methods) -> None:
    plain = with_methods(ALL, methods)
    grid = [{}, CHANGES[change], SETTINGS[change], CHANGES[change] | SETTINGS[change]]
    assert len({plain.override(changes).content_hash for changes in grid}) == 4


def test_kept_file_counts_where_its_method_has_been_built_in_since(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        FILE.replace('{"sharp": Loss', '{"ordinal_log_loss": Loss').replace("sharp_gamma", "ordinal_log_loss_gamma")
    )
    assert "must not be that of a built-in one, got 'ordinal_log_loss'" in one_line_error(read_methods, [path])
    kept = load_methods((read_method_file(path),))
    config = with_methods(ALL, kept).override({"tasks.sst.loss": "ordinal_log_loss"})
    assert config.tasks["sst"].loss_entry.title == "sharp"
    assert config.content_hash != ALL.override({"tasks.sst.loss": "ordinal_log_loss"}).content_hash


def test_joined_methods_have_each_file_once(methods: Methods, tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text(
        "from mtlib.metrics.table import METRICS as ALL\nMETRICS = {'more': ALL['f1']}\n"
    )
    more = read_methods([tmp_path / "other.py"])
    both = join_methods(methods, more)
    assert [file.name for file in both.files] == ["mine.py", "other.py"]
    assert join_methods(both, more) is both
    assert {"sharp", "more"} <= {*both.losses, *both.metrics}


@pytest.mark.parametrize("name", ["task", "override", "penalties", "data", "tasks", "methods"])
def test_penalty_called_like_another_part_of_the_configuration_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(FILE.replace('PENALTIES = {"twice"', f'PENALTIES = {{"{name}"'))
    error = one_line_error(with_methods, ALL, read_methods([path]))
    rule = "mine.py: the name of a penalty must not be that of another group or attribute"
    assert error == f"{rule}, got '{name}'"


def test_setting_called_like_another_field_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(FILE.replace('LOSSES = {"sharp"', 'LOSSES = {"loss"').replace("sharp_gamma", "loss_weight"))
    error = one_line_error(with_methods, ALL, read_methods([path]))
    assert error == "mine.py: a setting of 'loss' must not be called like another one, got 'loss_weight'"
