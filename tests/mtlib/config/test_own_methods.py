"""Configurations that name methods of a user's own file."""

import copy
import dataclasses
import itertools
import pickle
from pathlib import Path
from typing import Any

import pytest

from mtlib.config.methods import Methods, read_methods
from mtlib.config.trial import TrialConfig, with_methods
from mtlib.stages.effective_settings import effective_settings
from mtlib.tasks import TASKS
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


@pytest.mark.parametrize("change", CHANGES)
def test_own_methods_and_their_settings_are_named_like_built_in_ones(change: str, methods: Methods) -> None:
    config = with_methods(ALL, methods).override(CHANGES[change] | SETTINGS[change])
    with pytest.raises(ValueError, match=r"^(unknown key|.*must be one of)"):
        ALL.override(CHANGES[change])
    again = TrialConfig.from_json(config.to_json())
    assert (again, again.content_hash) == (config, config.content_hash)
    for own in (config, config.stages[0], config.tasks["sst"], config.penalties["twice"]):
        for copied in (pickle.loads(pickle.dumps(own)), copy.deepcopy(own)):
            assert copied == own
            assert type(copied) is type(own)


@pytest.mark.parametrize("change", CHANGES)
def test_setting_and_code_count_where_a_method_is_used(change: str, methods: Methods, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(FILE.replace("raise NotImplementedError", "return None"))
    other = read_methods([tmp_path / "mine.py"])
    plain = with_methods(ALL, methods)
    used, recoded = (with_methods(ALL, own).override(CHANGES[change]) for own in (methods, other))
    configs = [plain, used, recoded, used.override(SETTINGS[change])]
    assert len({config.content_hash for config in configs}) == 4
    keys = [effective_settings(config, 0, 1) for config in configs]
    assert all(one != other for one, other in itertools.combinations(keys, 2))
    if change != "penalty":  # whose weight turns it on
        unused = plain.override(SETTINGS[change])
        assert unused.content_hash not in {config.content_hash for config in configs}
        assert effective_settings(unused, 0, 1) == keys[0]


def test_configuration_that_uses_no_own_method_has_the_hash_and_keys_that_it_has_without_them(
    methods: Methods,
) -> None:
    config = with_methods(ALL, methods)
    assert config.content_hash == ALL.content_hash
    assert effective_settings(config, 0, 1) == effective_settings(ALL, 0, 1)
    assert config.override({"stages": [ALL.stages[0]]}).content_hash == ALL.content_hash


def test_task_may_have_a_metric_of_a_file_whose_code_counts(methods: Methods) -> None:
    file = methods.own_metrics["agreed"]
    same, other = (dataclasses.replace(file, source=file.source + text) for text in ("# a comment\n", "x = 1\n"))
    with pytest.raises(ValueError, match="unknown metric of a classes task 'agreed'"):
        dataclasses.replace(TASKS["sst"], metric="agreed")
    configs = [
        ALL.override({"data.tasks.sst": dataclasses.replace(TASKS["sst"], metric="agreed", metric_file=own)})
        for own in (file, same, other)
    ]
    for config in configs:
        assert TrialConfig.from_json(config.to_json()).task("sst").metric_entry.title == "agreed"
    assert [config.content_hash == configs[0].content_hash for config in configs] == [True, True, False]
    keys = [effective_settings(config, 0, 1) for config in configs]
    assert [key == keys[0] for key in keys] == [True, True, False]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({'{"twice"': '{"task"'}, "the name of a penalty must not be that of another group or attribute"),
        ({'{"twice"': '{"lambda"'}, "or a keyword, got 'lambda'"),
        ({'{"sharp"': '{"loss"', "sharp_gamma": "loss_weight"}, "a setting of 'loss' must not be called"),
    ],
)
def test_names_of_other_parts_of_the_configuration_are_refused(
    changes: dict[str, str], words: str, tmp_path: Path
) -> None:
    text = FILE
    for right, wrong in changes.items():
        text = text.replace(right, wrong)
    (tmp_path / "mine.py").write_text(text)
    assert words in one_line_error(with_methods, ALL, read_methods([tmp_path / "mine.py"]))
