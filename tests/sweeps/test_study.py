"""The Optuna study: what is drawn is what the space says, reproducibly, and the journal holds it."""

import json
from pathlib import Path

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from mtlib.config import TrialConfig
from search_spaces.space import Choice, Float, Int, SearchSpace, grid_trials
from sweeps.study import JOURNAL_NAME, domain_of, draw, enqueue_grid, open_study


def space_of(base: TrialConfig, **fields: object) -> SearchSpace:
    return SearchSpace(name="tiny", question="?", base=base, **fields)  # type: ignore[arg-type]


def test_a_grid_is_drawn_point_by_point_in_order(tmp_path: Path, tiny_config: TrialConfig) -> None:
    batches = ("tasks.sst.batch_size", "tasks.qqp.batch_size")
    space = space_of(tiny_config, grid={"smart.weight": (0.0, 1.0), batches: ((8, 4), (4, 8))})
    study, domain = open_study(tmp_path, "s"), domain_of(space, "grid")
    enqueue_grid(study, grid_trials(space), domain)
    drawn = [draw(study, domain, "grid", seed=0).params for _ in range(4)]
    assert drawn == grid_trials(space)


def test_keys_that_vary_together_are_one_parameter_in_optuna(tmp_path: Path, tiny_config: TrialConfig) -> None:
    batches = ("tasks.sst.batch_size", "tasks.qqp.batch_size")
    space = space_of(tiny_config, grid={batches: ((8, 4), (4, 8))})
    study, domain = open_study(tmp_path, "s"), domain_of(space, "grid")
    enqueue_grid(study, grid_trials(space), domain)
    draw(study, domain, "grid", seed=0)
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
    domain = domain_of(space_of(tiny_config, ranges=ranges), search)

    def draws(name: str, seed: int) -> list[dict[str, object]]:
        study = open_study(tmp_path, name)
        return [draw(study, domain, search, seed).params for _ in range(5)]

    first = draws("a", seed=1)
    assert first == draws("b", seed=1)
    assert first != draws("c", seed=2)
    assert len({json.dumps(params) for params in first}) == 5


def test_a_study_that_goes_on_does_not_repeat_its_first_draws(tmp_path: Path, tiny_config: TrialConfig) -> None:
    domain = domain_of(space_of(tiny_config, ranges={"smart.weight": Float(low=0, high=3)}), "random")
    study = open_study(tmp_path, "s")
    before = [draw(study, domain, "random", 0).params for _ in range(3)]
    storage = JournalStorage(JournalFileBackend(str(tmp_path / JOURNAL_NAME)))
    resumed = optuna.load_study(study_name="s", storage=storage)
    after = [draw(resumed, domain, "random", 0).params for _ in range(3)]
    undisturbed = open_study(tmp_path, "t")
    assert before + after == [draw(undisturbed, domain, "random", 0).params for _ in range(6)]


def test_draws_stay_within_their_ranges(tmp_path: Path, tiny_config: TrialConfig) -> None:
    ranges = {
        "optimizer.learning_rate": Float(low=1e-6, high=1e-3, log=True),
        "encoder.max_length": Int(low=8, high=9),
        "smart.tasks": Choice(values=(("sst",), ("sst", "qqp"))),
    }
    domain, study = domain_of(space_of(tiny_config, ranges=ranges), "random"), open_study(tmp_path, "s")
    for _ in range(20):
        params = draw(study, domain, "random", 0).params
        assert 1e-6 <= params["optimizer.learning_rate"] <= 1e-3
        assert params["encoder.max_length"] in (8, 9)
        assert params["smart.tasks"] in (("sst",), ("sst", "qqp"))


def test_a_name_that_is_taken_is_one_clear_error(tmp_path: Path) -> None:
    open_study(tmp_path, "s")
    with pytest.raises(ValueError, match="must be new in its folder, got 's'"):
        open_study(tmp_path, "s")
