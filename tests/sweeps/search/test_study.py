"""The Optuna study: samples follow the space and depend on the seed alone; the journal holds every configuration."""

import errno
import json
import os
import time
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from mtlib.config.trial import TrialConfig
from search_spaces.domain import Choice, Condition, Float, Int
from search_spaces.space import SearchSpace, grid_trials
from sweeps.search.study import (
    JOURNAL_NAME,
    NUMBER_ATTRIBUTE,
    add_ended,
    ask_known,
    ask_new,
    open_study,
    sampler_for,
)
from tests.sweeps.search.recorded_draws import FILE, SPACES, draws

SEARCHES = ("random", "tpe", "gp")
BATCHES = ("tasks.sst.batch_size", "tasks.qqp.batch_size")
RANGES = {
    "smart.mode": Choice(values=("unit_norm", "paper", "random")),
    "smart.num_steps": Int(low=1, high=3),
    "smart.epsilon": Float(low=1e-5, high=1e-2, log=True),
    BATCHES: Choice(values=((8, 4), (4, 8))),
}
CONDITIONS = {
    "smart.num_steps": Condition(key="smart.mode", values=("unit_norm", "paper")),
    "smart.epsilon": Condition(key="smart.mode", values=("paper",)),
}
WEIGHT = {"smart.weight": Float(low=0, high=3)}


def space_of(base: TrialConfig, **fields: Any) -> SearchSpace:
    return SearchSpace(name="tiny", question="?", base=base, **fields)


def new_study(folder: Path, name: str = "s") -> optuna.Study:
    (folder / name).mkdir(exist_ok=True)
    return open_study(folder / name / JOURNAL_NAME, name, "overall")


def reload(folder: Path, name: str = "s") -> optuna.Study:
    """The study as its journal holds it, as for a second process."""
    storage = JournalStorage(JournalFileBackend(str(folder / name / JOURNAL_NAME)))
    return optuna.load_study(study_name=name, storage=storage)


def test_journal_needs_no_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_config: TrialConfig) -> None:
    """As on FAT and some mounts."""

    def refuse(*_arguments: Any) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    with monkeypatch.context() as patch:
        for name in ("link", "symlink"):
            patch.setattr(os, name, refuse)
        study = new_study(tmp_path)
        ask_new(study, space_of(tiny_config, ranges=WEIGHT), "tpe", 0, 0)
    assert [trial.params for trial in reload(tmp_path).trials] == [trial.params for trial in study.trials]
    assert [path.name for path in (tmp_path / "s").iterdir()] == [JOURNAL_NAME]


def test_lock_that_a_killed_driver_has_left_does_not_hold_up_the_next(tmp_path: Path) -> None:
    lock = tmp_path / "s" / f"{JOURNAL_NAME}.lock"
    lock.parent.mkdir()
    lock.symlink_to(JOURNAL_NAME)
    began = time.monotonic()
    study = new_study(tmp_path)
    study.ask()
    assert time.monotonic() - began < 10
    assert not lock.is_symlink()


def test_grid_points_are_stored_with_their_numbers_in_any_order(tmp_path: Path, tiny_config: TrialConfig) -> None:
    plans = {"short": {"stages.1.epochs": 1}, "long": {"stages.1.epochs": 3}}
    space = space_of(tiny_config, grid={"plan": plans, BATCHES: ((8, 4), (4, 8))})
    study, points = new_study(tmp_path), grid_trials(space)
    for number in (2, 0, 3, 1):
        ask_known(study, space, "grid", number, points[number])
    for trial, number in zip(reload(tmp_path).trials, (2, 0, 3, 1), strict=True):
        sizes = json.dumps([points[number][key] for key in BATCHES])
        assert trial.params == {"plan": points[number]["plan"], " + ".join(BATCHES): sizes}
        assert trial.user_attrs == {NUMBER_ATTRIBUTE: number}
        assert trial.state == TrialState.RUNNING


@pytest.mark.parametrize("search", SEARCHES)
def test_samples_depend_on_the_seed_alone(tmp_path: Path, tiny_config: TrialConfig, search: str) -> None:
    space = space_of(tiny_config, ranges={**WEIGHT, "encoder.max_length": Int(low=8, high=32)})

    def samples(name: str, seed: int) -> list[dict[str, object]]:
        study = new_study(tmp_path, name)
        return [ask_new(study, space, search, seed, number)[1] for number in range(5)]

    first = samples("a", seed=1)
    assert first == samples("b", seed=1)
    assert first != samples("c", seed=2)
    assert len({json.dumps(params) for params in first}) == 5


def test_new_study_replaces_the_journal_and_repeats_no_samples(tmp_path: Path, tiny_config: TrialConfig) -> None:
    """It has been told of the last of three configurations only."""
    space, study = space_of(tiny_config, ranges=WEIGHT), new_study(tmp_path)
    before = [ask_new(study, space, "random", 0, number)[1] for number in range(3)]
    study = new_study(tmp_path)
    assert reload(tmp_path).trials == []
    ask_known(study, space, "random", 2, before[2])
    after = [ask_new(study, space, "random", 0, number)[1] for number in (3, 4)]
    undisturbed = new_study(tmp_path, "other")
    assert before + after == [ask_new(undisturbed, space, "random", 0, number)[1] for number in range(5)]


@pytest.mark.parametrize("search", SEARCHES)
def test_samples_without_conditions_are_those_of_optunas_fixed_distributions(
    tmp_path: Path, tiny_config: TrialConfig, search: str
) -> None:
    space = space_of(tiny_config, ranges={**WEIGHT, "encoder.max_length": Int(low=8, high=32)})
    study, reference = new_study(tmp_path), new_study(tmp_path, "reference")
    weight, length = optuna.distributions.FloatDistribution(0, 3), optuna.distributions.IntDistribution(8, 32)
    for number in range(15):
        reference.sampler = sampler_for(search, 7, number)
        asked = reference.ask({"smart.weight": weight, "encoder.max_length": length})
        trial, params = ask_new(study, space, search, 7, number)
        assert params == asked.params
        for owner, own in ((study, trial), (reference, asked)):
            owner.tell(own, -abs(asked.params["smart.weight"] - 2))


@pytest.mark.parametrize("search", SEARCHES)
def test_samples_are_within_their_ranges_and_have_keys_whose_condition_holds(
    tmp_path: Path, tiny_config: TrialConfig, search: str
) -> None:
    space, study, seen = space_of(tiny_config, ranges=RANGES, conditions=CONDITIONS), new_study(tmp_path), set()
    for number in range(14 if search == "gp" else 25):  # whose draws take longer
        trial, params = ask_new(study, space, search, 3, number)
        mode = params["smart.mode"]
        expected = {"smart.mode", *BATCHES, *({"smart.num_steps"} if mode != "random" else ())}
        assert set(params) == expected | ({"smart.epsilon"} if mode == "paper" else set())
        assert 1e-5 <= params.get("smart.epsilon", 1e-5) <= 1e-2
        assert params.get("smart.num_steps", 1) in (1, 2, 3)
        assert tuple(params[key] for key in BATCHES) in ((8, 4), (4, 8))
        study.tell(trial, params.get("smart.epsilon", 0.0))
        seen.add(mode)
    assert seen == {"unit_norm", "paper", "random"}


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("search", ["random", "tpe"])
def test_a_command_draws_the_same_configurations_with_every_version_that_is_allowed(search: str, name: str) -> None:
    """The same choices, and numbers up to the last digits, which another library of mathematics may round."""
    recorded, drawn = json.loads(FILE.read_text())[search][name], draws(search, SPACES[name])
    for number, (expected, found) in enumerate(zip(recorded, drawn, strict=True)):
        assert found.keys() == expected.keys()
        for key, value in expected.items():
            is_number = isinstance(value, float)
            assert found[key] == (pytest.approx(value, rel=1e-9) if is_number else value), (number, key)


def test_condition_on_a_key_without_a_value_does_not_hold(tmp_path: Path, tiny_config: TrialConfig) -> None:
    ranges = {
        "smart.mode": Choice(values=("paper", "random")),
        "smart.reduction": Choice(values=("mean", "sum")),
        "smart.epsilon": Float(low=1e-5, high=1.0),
    }
    conditions = {
        "smart.reduction": Condition(key="smart.mode", values=("paper",)),
        "smart.epsilon": Condition(key="smart.reduction", values=("sum",)),
    }
    space, study = space_of(tiny_config, ranges=ranges, conditions=conditions), new_study(tmp_path)
    assert {len(ask_new(study, space, "random", 0, number)[1]) for number in range(20)} == {1, 2, 3}


def test_tpe_learns_about_a_key_that_only_some_trials_have(tmp_path: Path, tiny_config: TrialConfig) -> None:
    ranges = {"smart.mode": Choice(values=("paper", "random")), "smart.epsilon": Float(low=1e-5, high=1.0)}
    conditions = {"smart.epsilon": Condition(key="smart.mode", values=("paper",))}
    space, study = space_of(tiny_config, ranges=ranges, conditions=conditions), new_study(tmp_path)
    sampled = []
    for number in range(40):
        trial, params = ask_new(study, space, "tpe", 0, number)
        study.tell(trial, -abs(params.get("smart.epsilon", -1.0) - 0.8))
        sampled.append(params.get("smart.epsilon"))
    late = [epsilon for epsilon in sampled[-15:] if epsilon is not None]
    assert len(late) > 10
    assert sum(abs(epsilon - 0.8) for epsilon in late) / len(late) < 0.2


def test_a_gaussian_process_is_repeated_by_its_seed_and_finds_a_peak(tmp_path: Path, tiny_config: TrialConfig) -> None:
    """The tenth configuration is the last that is drawn at random."""
    space = space_of(tiny_config, ranges={**WEIGHT, "smart.mode": RANGES["smart.mode"]})

    def weights(name: str) -> list[float]:
        study, found = new_study(tmp_path, name), []
        for number in range(14):
            trial, params = ask_new(study, space, "gp", 0, number)
            study.tell(trial, -((params["smart.weight"] - 2.5) ** 2))
            found.append(params["smart.weight"])
        return found

    drawn = weights("a")
    assert weights("b") == drawn
    at_random, proposed = (sorted(abs(weight - 2.5) for weight in part) for part in (drawn[:10], drawn[10:]))
    assert proposed[2] < at_random[5], "the third of four against the middle"


@pytest.mark.parametrize("search", SEARCHES)
def test_added_configuration_equals_one_that_was_asked_for_and_has_ended(
    tmp_path: Path, tiny_config: TrialConfig, search: str
) -> None:
    """Its searched values come from JSON, where tuples are lists."""
    space = space_of(tiny_config, ranges=RANGES, conditions=CONDITIONS)
    told, added = new_study(tmp_path), new_study(tmp_path, "t")
    for number, state in enumerate((TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL) * 3):
        trial, params = ask_new(told, space, search, 3, number)
        trial.report(0.25, 1)
        value = number / 10 if state == TrialState.COMPLETE else None
        told.tell(trial, value, state)
        known = {"params": json.loads(json.dumps(params)), "state": state, "value": value, "reports": [(1, 0.25)]}
        add_ended(added, space, search, number, **known)
    for own, other in zip(reload(tmp_path, "t").trials, reload(tmp_path).trials, strict=True):
        for name in ("number", "state", "value", "params", "distributions", "intermediate_values", "user_attrs"):
            assert getattr(own, name) == getattr(other, name), name
