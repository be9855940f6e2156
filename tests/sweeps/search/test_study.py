"""The Optuna study: draws follow the space, are reproducible, and are stored in the journal."""

import json
from pathlib import Path

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from mtlib.config.trial import TrialConfig
from search_spaces.domain import Choice, Condition, Float, Int
from search_spaces.space import SearchSpace, grid_trials
from sweeps.search.optuna_internals import reopen_trial
from sweeps.search.study import (
    JOURNAL_NAME,
    NUMBER_ATTRIBUTE,
    TRIALS_ATTRIBUTE,
    as_choice,
    ask_known,
    ask_new,
    describe_end,
    fail_unknown,
    has_all_params,
    name_metric,
    newest_trials,
    open_study,
    reopen_ended,
    repair_journal,
    sampler_for,
)


def space_of(base: TrialConfig, **fields: object) -> SearchSpace:
    return SearchSpace(name="tiny", question="?", base=base, **fields)  # type: ignore[arg-type]


def reload(folder: Path, name: str = "s") -> optuna.Study:
    """The study as its journal holds it, as for a second process."""
    storage = JournalStorage(JournalFileBackend(str(folder / JOURNAL_NAME)))
    return optuna.load_study(study_name=name, storage=storage)


def test_grid_points_are_returned_unchanged_in_any_order(tmp_path: Path, tiny_config: TrialConfig) -> None:
    batches = ("tasks.sst.batch_size", "tasks.qqp.batch_size")
    space = space_of(tiny_config, grid={"smart.weight": (0.0, 1.0), batches: ((8, 4), (4, 8))})
    study, points = open_study(tmp_path, "s"), grid_trials(space)
    for number in (2, 0, 3, 1):
        trial = ask_known(study, space, "grid", number, points[number])
        batch_sizes = [points[number][key] for key in batches]
        assert trial.params == {"smart.weight": points[number]["smart.weight"], " + ".join(batches): str(batch_sizes)}
    assert {number: trial.number for number, trial in newest_trials(study).items()} == {2: 0, 0: 1, 3: 2, 1: 3}


def test_keys_that_vary_together_are_one_parameter(tmp_path: Path, tiny_config: TrialConfig) -> None:
    batches = ("tasks.sst.batch_size", "tasks.qqp.batch_size")
    space = space_of(tiny_config, grid={batches: ((8, 4), (4, 8))})
    study = open_study(tmp_path, "s")
    ask_known(study, space, "grid", 0, grid_trials(space)[0])
    assert study.trials[0].params == {"tasks.sst.batch_size + tasks.qqp.batch_size": json.dumps([8, 4])}


def test_draws_are_in_the_journal_with_their_numbers(tmp_path: Path, tiny_config: TrialConfig) -> None:
    space = space_of(tiny_config, grid={"smart.weight": (0.0, 0.5, 1.0)})
    ask_known(open_study(tmp_path, "s"), space, "grid", 2, {"smart.weight": 1.0})
    (trial,) = reload(tmp_path).trials
    assert (trial.state, trial.params) == (TrialState.RUNNING, {"smart.weight": 1.0})
    assert trial.user_attrs == {NUMBER_ATTRIBUTE: 2, TRIALS_ATTRIBUTE: "0002-r0"}


@pytest.mark.parametrize("search", ["random", "tpe"])
def test_draws_depend_on_the_seed_alone(tmp_path: Path, tiny_config: TrialConfig, search: str) -> None:
    ranges = {
        "optimizer.learning_rate": Float(low=1e-6, high=1e-3, log=True),
        "encoder.max_length": Int(low=8, high=32),
    }
    space = space_of(tiny_config, ranges=ranges)

    def draws(name: str, seed: int) -> list[dict[str, object]]:
        study = open_study(tmp_path, name)
        return [ask_new(study, space, search, seed, number)[1] for number in range(5)]

    first = draws("a", seed=1)
    assert first == draws("b", seed=1)
    assert first != draws("c", seed=2)
    assert len({json.dumps(params) for params in first}) == 5


def test_resumed_study_does_not_repeat_its_first_draws(tmp_path: Path, tiny_config: TrialConfig) -> None:
    space = space_of(tiny_config, ranges={"smart.weight": Float(low=0, high=3)})
    study = open_study(tmp_path, "s")
    before = [ask_new(study, space, "random", 0, number)[1] for number in range(3)]
    resumed = open_study(tmp_path, "s")
    after = [ask_new(resumed, space, "random", 0, number)[1] for number in range(3, 6)]
    uninterrupted = open_study(tmp_path, "t")
    assert before + after == [ask_new(uninterrupted, space, "random", 0, number)[1] for number in range(6)]


def test_draws_stay_within_their_ranges(tmp_path: Path, tiny_config: TrialConfig) -> None:
    ranges = {
        "optimizer.learning_rate": Float(low=1e-6, high=1e-3, log=True),
        "encoder.max_length": Int(low=8, high=9),
        "smart.tasks": Choice(values=(("sst",), ("sst", "qqp"))),
    }
    space, study = space_of(tiny_config, ranges=ranges), open_study(tmp_path, "s")
    for number in range(20):
        params = ask_new(study, space, "random", 0, number)[1]
        assert 1e-6 <= params["optimizer.learning_rate"] <= 1e-3
        assert params["encoder.max_length"] in (8, 9)
        assert params["smart.tasks"] in (("sst",), ("sst", "qqp"))


@pytest.mark.parametrize("search", ["random", "tpe"])
def test_draws_without_conditions_are_those_of_optunas_fixed_distributions(
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
        drawn, params = ask_new(study, space, search, 7, number)
        assert params == asked.params
        for owner, trial in ((study, drawn), (reference, asked)):
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
def test_key_is_a_parameter_only_where_its_condition_holds(
    tmp_path: Path, tiny_config: TrialConfig, search: str
) -> None:
    space = space_of(tiny_config, ranges=RANGES, conditions=CONDITIONS)
    study = open_study(tmp_path, "s")
    seen = set()
    for number in range(25):
        drawn, params = ask_new(study, space, search, 3, number)
        mode = params["smart.mode"]
        expected = {"smart.mode", "smart.step_size"}
        expected |= {"smart.num_steps"} if mode != "random" else set()
        expected |= {"smart.epsilon"} if mode == "paper" else set()
        assert set(params) == set(study.trials[number].params) == expected
        study.tell(drawn, params.get("smart.epsilon", 0.0))
        seen.add(mode)
    assert seen == {"unit_norm", "paper", "random"}


def test_tpe_learns_about_a_key_that_only_some_trials_have(tmp_path: Path, tiny_config: TrialConfig) -> None:
    ranges = {"smart.mode": Choice(values=("paper", "random")), "smart.epsilon": Float(low=1e-5, high=1.0)}
    conditions = {"smart.epsilon": Condition(key="smart.mode", values=("paper",))}
    space = space_of(tiny_config, ranges=ranges, conditions=conditions)
    study = open_study(tmp_path, "s")
    drawn = []
    for number in range(40):
        trial, params = ask_new(study, space, "tpe", 0, number)
        study.tell(trial, -abs(params.get("smart.epsilon", -1.0) - 0.8))
        drawn.append(params.get("smart.epsilon"))
    late = [epsilon for epsilon in drawn[-15:] if epsilon is not None]
    assert len(late) > 10
    assert sum(abs(epsilon - 0.8) for epsilon in late) / len(late) < 0.2


def test_condition_on_an_undrawn_key_does_not_hold(tmp_path: Path, tiny_config: TrialConfig) -> None:
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
    kinds = {tuple(ask_new(study, space, "random", 0, number)[1]) for number in range(30)}
    assert kinds == {
        ("smart.mode",),
        ("smart.mode", "smart.reduction"),
        ("smart.mode", "smart.reduction", "smart.epsilon"),
    }


def test_own_names_of_a_space_are_drawn_unchanged(tmp_path: Path, tiny_config: TrialConfig) -> None:
    grid = {"plan": {"short": {"stages.1.epochs": 1}, "long": {"stages.1.epochs": 3}}}
    space = space_of(tiny_config, grid=grid)
    study = open_study(tmp_path, "s")
    for number, point in enumerate(grid_trials(space)):
        ask_known(study, space, "grid", number, point)
    assert [trial.params for trial in study.trials] == [{"plan": "short"}, {"plan": "long"}]
    assert ask_new(open_study(tmp_path, "t"), space, "tpe", 0, 0)[1]["plan"] in grid["plan"]


def test_reopened_study_is_the_same(tmp_path: Path, tiny_config: TrialConfig) -> None:
    space = space_of(tiny_config, ranges={"smart.weight": Float(low=0, high=3)})
    study = open_study(tmp_path, "s")
    study.tell(ask_new(study, space, "random", 0, 0)[0], 0.5)
    again = open_study(tmp_path, "s")
    assert [trial.value for trial in again.trials] == [0.5]
    assert open_study(tmp_path, "t").trials == []


@pytest.mark.parametrize("search", ["random", "tpe"])
def test_known_configuration_is_found_with_its_conditions(
    tmp_path: Path, tiny_config: TrialConfig, search: str
) -> None:
    space = space_of(tiny_config, ranges=RANGES, conditions=CONDITIONS)
    first, again = open_study(tmp_path, "s"), open_study(tmp_path, "t")
    for number in range(8):
        _, params = ask_new(first, space, search, 3, number)
        ask_known(again, space, search, number, params)
        assert again.trials[number].params == first.trials[number].params


def test_linked_values_and_lists_are_found(tmp_path: Path, tiny_config: TrialConfig) -> None:
    batches = ("tasks.sst.batch_size", "tasks.qqp.batch_size")
    ranges = {"smart.tasks": Choice(values=(("sst",), ("sst", "qqp")))}
    space = space_of(tiny_config, grid={batches: ((8, 4), (4, 8))}, ranges=ranges)
    study = open_study(tmp_path, "s")
    _, params = ask_new(study, space, "tpe", 0, 0)
    ask_known(study, space, "tpe", 0, json.loads(json.dumps(params)))  # as read from `trials.parquet`
    assert study.trials[1].params == study.trials[0].params


def test_newest_draw_of_a_repeated_configuration_counts(tmp_path: Path, tiny_config: TrialConfig) -> None:
    space = space_of(tiny_config, grid={"smart.weight": (0.0, 1.0)})
    study = open_study(tmp_path, "s")
    study.tell(ask_known(study, space, "grid", 1, {"smart.weight": 1.0}), state=TrialState.FAIL)
    ask_known(study, space, "grid", 1, {"smart.weight": 1.0})
    study.ask()  # killed before it was numbered
    assert [(number, trial.number) for number, trial in newest_trials(study).items()] == [(1, 1)]


def test_draws_unknown_to_the_sweep_are_failed(tmp_path: Path, tiny_config: TrialConfig) -> None:
    space = space_of(tiny_config, ranges={"smart.weight": Float(low=0, high=3)})
    study = open_study(tmp_path, "s")
    first, *_ = (ask_new(study, space, "random", 0, number)[0] for number in range(3))
    study.tell(first, 0.7)
    study.ask()  # killed before it was numbered
    for weight in (1.0, 2.0):
        study.enqueue_trial({"smart.weight": weight})  # killed before they were drawn
    fail_unknown(study, [0, 1])
    assert [trial.state.name for trial in study.trials] == ["COMPLETE", "RUNNING", *["FAIL"] * 4]
    fail_unknown(study, [0, 1])
    assert [trial.state.name for trial in study.trials] == ["COMPLETE", "RUNNING", *["FAIL"] * 4]
    assert [trial.user_attrs[NUMBER_ATTRIBUTE] for trial in study.trials[:3]] == [0, 1, None]
    assert sorted(newest_trials(study)) == [0, 1], "the number of one that is given up is free"
    params = {"smart.weight": 0.5}
    assert ask_known(study, space, "random", 2, params).params == params, "nothing queued comes before it"


def test_draws_before_a_kill_can_be_completed(tmp_path: Path, tiny_config: TrialConfig) -> None:
    space = space_of(tiny_config, ranges={"smart.weight": Float(low=0, high=3)})
    drawn, params = ask_new(open_study(tmp_path, "s"), space, "random", 0, 4)
    drawn.report(0.4, 1)
    study = open_study(tmp_path, "s")
    again = reopen_trial(study, newest_trials(study)[4])
    again.report(0.6, 2)
    study.tell(again, 0.6)
    (trial,) = reload(tmp_path).trials
    assert (trial.value, trial.intermediate_values, trial.params) == (0.6, {1: 0.4, 2: 0.6}, params)


def finished_study(folder: Path, space: SearchSpace) -> optuna.Study:
    """A study of three configurations: one complete, one failed, one running."""
    study = open_study(folder, "s")
    drawn = [ask_new(study, space, "random", 0, number)[0] for number in range(3)]
    for number, trial in enumerate(drawn):
        trial.report(0.1 * number, 1)
    study.tell(drawn[0], 0.7)
    describe_end(drawn[1], ["0001-r0"], [{"sst": 0.4}])
    study.tell(drawn[1], state=TrialState.FAIL)
    return study


@pytest.mark.parametrize("is_anew", [False, True])
def test_reopened_configuration_runs_again_and_the_rest_of_the_journal_stays(
    tmp_path: Path, tiny_config: TrialConfig, is_anew: bool
) -> None:
    space = space_of(tiny_config, ranges={"smart.weight": Float(low=0, high=3)})
    study = finished_study(tmp_path, space)
    study.set_user_attr("note", "from a dashboard")
    before = study.get_trials()
    again = reopen_ended(study, tmp_path, [1], restarted=[1] if is_anew else [])
    for found in (again, reload(tmp_path)):
        trials = found.get_trials()
        assert [trial.state.name for trial in trials] == ["COMPLETE", "RUNNING", "RUNNING"]
        assert [trials[0], trials[2]] == [before[0], before[2]]
        attributes = {NUMBER_ATTRIBUTE: 1, TRIALS_ATTRIBUTE: "0001-r0", **({} if is_anew else {"best_sst": 0.4})}
        assert (trials[1].params, trials[1].user_attrs) == (before[1].params, attributes)
        assert trials[1].intermediate_values == ({} if is_anew else {1: 0.1})
        assert found.user_attrs == {"note": "from a dashboard"}
    again.tell(reopen_trial(again, newest_trials(again)[1]), 0.9)
    assert [trial.value for trial in reload(tmp_path).trials] == [0.7, 0.9, None]
    assert [path.name for path in tmp_path.iterdir()] == [JOURNAL_NAME]


def test_metric_is_named_once(tmp_path: Path) -> None:
    study = open_study(tmp_path, "s")  # as an earlier version began it
    assert study.metric_names is None
    for metric in ("overall", "sst"):
        name_metric(study, metric)
        journal = (tmp_path / JOURNAL_NAME).read_bytes()
        name_metric(reload(tmp_path), metric)
        assert (tmp_path / JOURNAL_NAME).read_bytes() == journal
        assert reload(tmp_path).metric_names == [metric]


def test_described_end_has_the_means_of_the_scores(tmp_path: Path, tiny_config: TrialConfig) -> None:
    space = space_of(tiny_config, ranges={"smart.weight": Float(low=0, high=3)})
    study = open_study(tmp_path, "s")
    trials = [ask_new(study, space, "random", 0, number)[0] for number in range(2)]
    describe_end(trials[0], ["0000-r0", "0000-r2"], [{"sst": 0.5, "sts": -0.2}, {"sst": 0.25, "sts": 0.4}])
    describe_end(trials[1], ["0001-r0"], [])
    found = [trial.user_attrs for trial in reload(tmp_path).trials]
    assert found[0] == {
        NUMBER_ATTRIBUTE: 0,
        TRIALS_ATTRIBUTE: "0000-r0 0000-r2",
        "best_sst": 0.375,
        "best_sts": pytest.approx(0.1),
    }
    assert found[1] == {NUMBER_ATTRIBUTE: 1, TRIALS_ATTRIBUTE: "0001-r0"}


def test_journal_without_ends_to_remove_is_left_alone(tmp_path: Path, tiny_config: TrialConfig) -> None:
    study = finished_study(tmp_path, space_of(tiny_config, ranges={"smart.weight": Float(low=0, high=3)}))
    before = (tmp_path / JOURNAL_NAME).read_bytes()
    assert reopen_ended(study, tmp_path, [2, 7], restarted=[2]) is study, "2 is running, 7 is not known"
    assert (tmp_path / JOURNAL_NAME).read_bytes() == before


def test_whole_or_missing_journal_is_not_repaired(tmp_path: Path, tiny_config: TrialConfig) -> None:
    assert repair_journal(tmp_path) is None
    assert not list(tmp_path.iterdir())
    finished_study(tmp_path, space_of(tiny_config, ranges={"smart.weight": Float(low=0, high=3)}))
    before = (tmp_path / JOURNAL_NAME).read_bytes()
    assert repair_journal(tmp_path) is None
    assert (tmp_path / JOURNAL_NAME).read_bytes() == before


TORN = (b'{"op_code":6,"wor', b"\x00\x00\x00\n", b"17\n", b'{"op_code":6}', b'{"op_co{"op_code":0}\n{"op_code":0}\n')
"""Truncated, zeros after a power loss, no entry at all, without its end, and joined to the next line."""


@pytest.mark.parametrize("torn", TORN)
def test_torn_end_of_a_journal_is_dropped_and_reported(tmp_path: Path, tiny_config: TrialConfig, torn: bytes) -> None:
    space = space_of(tiny_config, ranges={"smart.weight": Float(low=0, high=3)})
    before = finished_study(tmp_path, space).get_trials()
    journal = tmp_path / JOURNAL_NAME
    whole = journal.read_bytes()
    journal.write_bytes(whole + torn)
    note = repair_journal(tmp_path)
    assert note is not None
    assert f"last {len(torn)} bytes" in note
    assert str(journal) in note
    assert journal.read_bytes() == whole
    study = open_study(tmp_path, "s")
    ask_new(study, space, "random", 0, 3)
    assert reload(tmp_path).get_trials()[:3] == before
    assert len(reload(tmp_path).trials) == 4
    assert repair_journal(tmp_path) is None


def test_journal_without_a_whole_line_becomes_a_new_study(tmp_path: Path) -> None:
    (tmp_path / JOURNAL_NAME).write_bytes(b'{"op_code"')
    assert "last 10 bytes" in str(repair_journal(tmp_path))
    assert open_study(tmp_path, "s").trials == []


@pytest.mark.parametrize("search", ["grid", "random"])
def test_draw_without_its_last_values_is_not_whole(tmp_path: Path, tiny_config: TrialConfig, search: str) -> None:
    grid = {("tasks.sst.batch_size", "tasks.qqp.batch_size"): ((8, 4), (4, 8)), "seed": (1, 2)}
    space = space_of(tiny_config, grid=grid, ranges=RANGES, conditions=CONDITIONS)
    params = grid_trials(space)[0] | ({} if search == "grid" else {"smart.mode": "random", "smart.step_size": 1e-3})
    study = open_study(tmp_path, "s")
    ask_known(study, space, search, 0, params)
    (trial,) = study.get_trials()
    assert has_all_params(trial, space, search, params)
    assert len(trial.params) == (2 if search == "grid" else 4)
    for title in trial.params:
        kept = {name: value for name, value in trial.params.items() if name != title}
        ranges = {name: trial.distributions[name] for name in kept}
        few = optuna.trial.create_trial(value=0.0, params=kept, distributions=ranges)
        assert not has_all_params(few, space, search, params)


@pytest.mark.parametrize("value", [None, True, 3, 0.5, "mean"])
def test_scalar_is_stored_unchanged(value: object) -> None:
    assert as_choice(value) is value
