"""The Optuna study: what is drawn is what the space says, reproducibly, and the journal holds it."""

import json
from pathlib import Path

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from mtlib.config import TrialConfig
from search_spaces.domain import Choice, Condition, Float, Int
from search_spaces.space import SearchSpace, grid_trials
from sweeps.study import JOURNAL_NAME, domain_of, draw, enqueue_grid, open_study, sampler_for


def space_of(base: TrialConfig, **fields: object) -> SearchSpace:
    return SearchSpace(name="tiny", question="?", base=base, **fields)  # type: ignore[arg-type]


def test_a_grid_is_drawn_point_by_point_in_order(tmp_path: Path, tiny_config: TrialConfig) -> None:
    batches = ("tasks.sst.batch_size", "tasks.qqp.batch_size")
    space = space_of(tiny_config, grid={"smart.weight": (0.0, 1.0), batches: ((8, 4), (4, 8))})
    study, domain = open_study(tmp_path, "s"), domain_of(space, "grid")
    enqueue_grid(study, grid_trials(space), domain)
    drawn = [draw(study, space, "grid", seed=0).params for _ in range(4)]
    assert drawn == grid_trials(space)


def test_keys_that_vary_together_are_one_parameter_in_optuna(tmp_path: Path, tiny_config: TrialConfig) -> None:
    batches = ("tasks.sst.batch_size", "tasks.qqp.batch_size")
    space = space_of(tiny_config, grid={batches: ((8, 4), (4, 8))})
    study, domain = open_study(tmp_path, "s"), domain_of(space, "grid")
    enqueue_grid(study, grid_trials(space), domain)
    draw(study, space, "grid", seed=0)
    assert study.trials[0].params == {"tasks.sst.batch_size + tasks.qqp.batch_size": json.dumps([8, 4])}


def test_the_queued_grid_is_in_the_journal_before_anything_runs(tmp_path: Path, tiny_config: TrialConfig) -> None:
    space = space_of(tiny_config, grid={"smart.weight": (0.0, 0.5, 1.0)})
    enqueue_grid(open_study(tmp_path, "s"), grid_trials(space), domain_of(space, "grid"))
    storage = JournalStorage(JournalFileBackend(str(tmp_path / JOURNAL_NAME)))
    assert [trial.state for trial in optuna.load_study(study_name="s", storage=storage).trials] == [
        TrialState.WAITING
    ] * 3


@pytest.mark.parametrize("search", ["random", "tpe"])
def test_the_same_seed_draws_the_same_and_another_seed_does_not(
    tmp_path: Path, tiny_config: TrialConfig, search: str
) -> None:
    ranges = {
        "optimizer.learning_rate": Float(low=1e-6, high=1e-3, log=True),
        "encoder.max_length": Int(low=8, high=32),
    }
    space = space_of(tiny_config, ranges=ranges)

    def draws(name: str, seed: int) -> list[dict[str, object]]:
        study = open_study(tmp_path, name)
        return [draw(study, space, search, seed).params for _ in range(5)]

    first = draws("a", seed=1)
    assert first == draws("b", seed=1)
    assert first != draws("c", seed=2)
    assert len({json.dumps(params) for params in first}) == 5


def test_a_study_that_goes_on_does_not_repeat_its_first_draws(tmp_path: Path, tiny_config: TrialConfig) -> None:
    space = space_of(tiny_config, ranges={"smart.weight": Float(low=0, high=3)})
    study = open_study(tmp_path, "s")
    before = [draw(study, space, "random", 0).params for _ in range(3)]
    storage = JournalStorage(JournalFileBackend(str(tmp_path / JOURNAL_NAME)))
    resumed = optuna.load_study(study_name="s", storage=storage)
    after = [draw(resumed, space, "random", 0).params for _ in range(3)]
    undisturbed = open_study(tmp_path, "t")
    assert before + after == [draw(undisturbed, space, "random", 0).params for _ in range(6)]


def test_draws_stay_within_their_ranges(tmp_path: Path, tiny_config: TrialConfig) -> None:
    ranges = {
        "optimizer.learning_rate": Float(low=1e-6, high=1e-3, log=True),
        "encoder.max_length": Int(low=8, high=9),
        "smart.tasks": Choice(values=(("sst",), ("sst", "qqp"))),
    }
    space, study = space_of(tiny_config, ranges=ranges), open_study(tmp_path, "s")
    for _ in range(20):
        params = draw(study, space, "random", 0).params
        assert 1e-6 <= params["optimizer.learning_rate"] <= 1e-3
        assert params["encoder.max_length"] in (8, 9)
        assert params["smart.tasks"] in (("sst",), ("sst", "qqp"))


@pytest.mark.parametrize("search", ["random", "tpe"])
def test_without_conditions_the_draws_are_those_of_optunas_fixed_distributions(
    tmp_path: Path, tiny_config: TrialConfig, search: str
) -> None:
    space = space_of(
        tiny_config, ranges={"smart.weight": Float(low=0, high=3), "encoder.max_length": Int(low=8, high=32)}
    )
    study, reference = open_study(tmp_path, "s"), open_study(tmp_path, "reference")
    weight, length = optuna.distributions.FloatDistribution(0, 3), optuna.distributions.IntDistribution(8, 32)
    for number in range(15):
        reference.sampler = sampler_for(search, 7, number)
        asked = reference.ask({"smart.weight": weight, "encoder.max_length": length})
        drawn = draw(study, space, search, 7)
        assert drawn.params == asked.params
        for owner, trial in ((study, drawn.trial), (reference, asked)):
            owner.tell(trial, -abs(asked.params["smart.weight"] - 2))


RANGES = {
    "smart.mode": Choice(values=("unit_norm", "paper", "random")),
    "smart.num_steps": Int(low=1, high=3),
    "smart.epsilon": Float(low=1e-5, high=1e-2, log=True),
    "smart.step_size": Float(low=1e-4, high=1e-2, log=True),
}
CONDITIONS = {
    "smart.num_steps": Condition(key="smart.mode", values=("unit_norm", "paper")),
    "smart.epsilon": Condition(key="smart.mode", values=("paper",)),
}


@pytest.mark.parametrize("search", ["random", "tpe"])
def test_a_key_is_drawn_only_where_its_condition_holds_and_optuna_knows_no_such_parameter_elsewhere(
    tmp_path: Path, tiny_config: TrialConfig, search: str
) -> None:
    space = space_of(tiny_config, ranges=RANGES, conditions=CONDITIONS)
    study = open_study(tmp_path, "s")
    seen = set()
    for _ in range(25):
        drawn = draw(study, space, search, 3)
        mode = drawn.params["smart.mode"]
        expected = {"smart.mode", "smart.step_size"}
        expected |= {"smart.num_steps"} if mode != "random" else set()
        expected |= {"smart.epsilon"} if mode == "paper" else set()
        assert set(drawn.params) == set(study.trials[drawn.number].params) == expected
        study.tell(drawn.trial, drawn.params.get("smart.epsilon", 0.0))
        seen.add(mode)
    assert seen == {"unit_norm", "paper", "random"}


def test_tpe_learns_about_a_key_that_only_some_trials_have(tmp_path: Path, tiny_config: TrialConfig) -> None:
    ranges = {"smart.mode": Choice(values=("paper", "random")), "smart.epsilon": Float(low=1e-5, high=1.0)}
    conditions = {"smart.epsilon": Condition(key="smart.mode", values=("paper",))}
    space = space_of(tiny_config, ranges=ranges, conditions=conditions)
    study = open_study(tmp_path, "s")
    drawn = []
    for _ in range(40):
        found = draw(study, space, "tpe", 0)
        study.tell(found.trial, -abs(found.params.get("smart.epsilon", -1.0) - 0.8))
        drawn.append(found.params.get("smart.epsilon"))
    late = [epsilon for epsilon in drawn[-15:] if epsilon is not None]
    assert len(late) > 10
    assert sum(abs(epsilon - 0.8) for epsilon in late) / len(late) < 0.2


def test_a_condition_on_a_key_that_was_not_drawn_does_not_hold(tmp_path: Path, tiny_config: TrialConfig) -> None:
    ranges = {
        "smart.mode": Choice(values=("paper", "random")),
        "smart.reduction": Choice(values=("mean", "sum")),
        "smart.epsilon": Float(low=1e-5, high=1.0),
    }
    conditions = {
        "smart.reduction": Condition(key="smart.mode", values=("paper",)),
        "smart.epsilon": Condition(key="smart.reduction", values=("sum",)),
    }
    space = space_of(tiny_config, ranges=ranges, conditions=conditions)
    study = open_study(tmp_path, "s")
    kinds = {tuple(draw(study, space, "random", 0).params) for _ in range(30)}
    assert kinds == {
        ("smart.mode",),
        ("smart.mode", "smart.reduction"),
        ("smart.mode", "smart.reduction", "smart.epsilon"),
    }


def test_names_of_the_spaces_own_are_drawn_and_kept_as_they_are(tmp_path: Path, tiny_config: TrialConfig) -> None:
    grid = {"plan": {"short": {"stages.1.epochs": 1}, "long": {"stages.1.epochs": 3}}}
    space = space_of(tiny_config, grid=grid)
    study = open_study(tmp_path, "s")
    enqueue_grid(study, grid_trials(space), domain_of(space, "grid"))
    assert [draw(study, space, "grid", 0).params for _ in range(2)] == [{"plan": "short"}, {"plan": "long"}]
    assert study.trials[1].params == {"plan": "long"}
    assert draw(open_study(tmp_path, "t"), space, "tpe", 0).params["plan"] in grid["plan"]


def test_a_name_that_is_taken_is_one_clear_error(tmp_path: Path) -> None:
    open_study(tmp_path, "s")
    with pytest.raises(ValueError, match="must be new in its folder, got 's'"):
        open_study(tmp_path, "s")
