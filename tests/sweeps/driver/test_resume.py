"""A resumed sweep: its stored options, its checks, and the trials that run again."""

import dataclasses
import importlib.metadata
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mtlib.config.trial import TrialConfig
from mtlib.tasks import TASKS as TASK_FILES
from mtlib.tasks import TaskFiles
from results.answers.race_words import decision_lines
from results.records.race import (
    DECIDED,
    EXCLUDED_CLAIM,
    LAST_ROUND,
    SHOWN_CLAIM,
    UNDECIDABLE,
    ClaimEstimate,
    RaceRecord,
    RoundDecision,
    race_of,
    race_to_json,
)
from results.records.trials import TrialRecord, read_sweep, sweep_tasks, write_sweep
from search_spaces.domain import Float
from search_spaces.space import SearchSpace
from sweeps.driver.history import KnownTrials
from sweeps.driver.resume import continued_race, describe_progress, relocate, resume_sweep
from sweeps.driver.trials.table import open_table
from sweeps.driver.trials.trial import make_trial, num_left_to_run
from sweeps.options import SweepOptions, SweepPlan
from sweeps.plan.create import create_sweep
from sweeps.plan.given_options import read_saved_options
from sweeps.plan.inputs import SweepInputs
from tests.prepared import inputs_of, prepared_with, with_base
from tests.recorded_trials import write_trial
from tests.sweeps.conftest import UNUSUAL_OPTIONS, MakePlan
from tests.sweeps.driver.trials.test_trial import known_of as records_of

OTHER_ENCODERS: Any = {"tiny": SimpleNamespace(fingerprint="another", num_parameters=7)}
TASKS = ("sst", "qqp", "sts")
STATUSES = ("complete", "reused", "pruned", "failed", "interrupted")
Build = Callable[..., SweepOptions]


@pytest.fixture
def options(tmp_path: Path) -> SweepOptions:
    """Options of a sweep, none at its default."""
    return SweepOptions(data=tmp_path / "data", storage=f"{tmp_path}/storage", **UNUSUAL_OPTIONS)


@pytest.fixture
def inputs(tiny_config: TrialConfig) -> SweepInputs:
    space = SearchSpace(name="tiny", question="?", base=tiny_config, ranges={"smart.weight": Float(low=0, high=9)})
    rows = {(task, split): 5 for task in TASKS for split in ("train", "dev")}
    return inputs_of(space, rows)


@pytest.fixture
def sweep(options: SweepOptions, inputs: SweepInputs) -> Build:
    """Makes a sweep with a trial of each status, after two epochs, and gives its stored options, some replaced."""

    def build(*statuses: str, **own: Any) -> SweepOptions:
        first = dataclasses.replace(
            options, trials=len(statuses), replicates=1, replicate_best=None, until_decided=None
        )
        plan = create_sweep(prepared_with(first, inputs), "")
        for number, status in enumerate(statuses):
            if status != "queued":  # which has no folder
                spec = make_trial(plan.space, number, 0, {"smart.weight": float(number)})
                write_trial(plan.options.folder, spec, status, (0.2, 0.3))
        return dataclasses.replace(read_saved_options(plan.options.folder), **own)

    return build


def resume(options: SweepOptions, inputs: SweepInputs) -> tuple[SweepPlan, KnownTrials]:
    return resume_sweep(prepared_with(options, inputs), "")


def known_of(options: SweepOptions, inputs: SweepInputs) -> tuple[TrialRecord, ...]:
    return resume(options, inputs)[1].records


def files_of(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("retry_failed", [False, True])
def test_unfinished_trials_are_queued_ended_ones_stay_and_failed_ones_are_queued_on_request(
    sweep: Build, inputs: SweepInputs, retry_failed: bool
) -> None:
    plan, known = resume(sweep(*STATUSES, "queued", retry_failed=retry_failed), inputs)
    statuses = [(record.status, record.error) for record in known.records]
    failed = ("queued", None) if retry_failed else ("failed", "it broke")
    assert statuses == [*((status, None) for status in STATUSES[:3]), failed, ("queued", None)]
    assert [record.epochs for record in known.records] == [2] * 5
    assert (plan.space, plan.data_folder) == (inputs.space, inputs.data_folder)
    assert num_left_to_run(plan, known.records, None) > 0


def test_trials_name_the_encoders_current_place(sweep: Build, inputs: SweepInputs) -> None:
    options = sweep("complete", "interrupted")
    moved = with_base(inputs, encoder__name="elsewhere")
    for old, new in zip(known_of(options, inputs), known_of(options, moved), strict=True):
        was, config = TrialConfig.from_json(old.config), TrialConfig.from_json(new.config)
        assert config == was.override({"encoder.name": "elsewhere"}) != was
        assert new == dataclasses.replace(old, config=config.to_json(), config_hash=config.content_hash)
        assert relocate(new, inputs.space) == old, "moved back"


def test_trials_and_the_record_of_the_sweep_get_the_present_files_of_tasks(sweep: Build, inputs: SweepInputs) -> None:
    options = sweep("complete", "interrupted")
    files = TaskFiles(train="train.csv", dev="dev.csv")
    sst = dataclasses.replace(TASK_FILES["sst"], title="Films", files=files)
    for record in known_of(options, with_base(inputs, data__tasks={**TASK_FILES, "sst": sst})):
        assert TrialConfig.from_json(record.config).task("sst") == sst
    assert sweep_tasks(read_sweep(options.folder))["sst"] == sst


def test_sweep_is_over_unless_failed_trials_are_retried_or_configurations_added(
    sweep: Build, inputs: SweepInputs
) -> None:
    options = sweep("complete", "reused", "pruned", "failed")
    for change, is_over in (({}, True), ({"retry_failed": True}, False), ({"extend": 1}, False)):
        plan, known = resume(dataclasses.replace(options, **change), inputs)
        assert (num_left_to_run(plan, known.records, None) == 0) == is_over


def test_sweep_file_records_resuming_and_new_options(sweep: Build, inputs: SweepInputs) -> None:
    options = sweep("complete", "interrupted", extend=3, concurrent=1)
    before = read_sweep(options.folder)
    plan = resume_sweep(prepared_with(options, inputs), "first command")[0]
    assert (plan.options.num_drawn, plan.options.concurrent) == (5, 1)
    resume_sweep(prepared_with(read_saved_options(options.folder), inputs), "second command")
    info = read_sweep(options.folder)
    assert [entry["command"] for entry in info["resumed"]] == ["first command", "second command"]
    changed = {key for key in info if info[key] != before.get(key)}
    assert changed == {"resumed", "options", "num_trials", "num_configurations"}
    assert (info["num_trials"], info["options"]["trials"], info["options"]["concurrent"]) == (5, 5, 1)


def test_a_search_that_another_version_of_optuna_began_is_resumed_with_a_note(
    sweep: Build, inputs: SweepInputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = sweep("complete", "complete")
    monkeypatch.setattr("sweeps.driver.resume.versions_of", lambda _names: {"optuna": "7.1.0"})

    def notes(search: Any, **changes: Any) -> list[str]:
        changes = {"search": search, "scheduler": "none", **changes}
        _, known = resume(dataclasses.replace(begun, **changes), inputs)
        return [line for line in known.notes if "Optuna" in line]

    present = importlib.metadata.version("optuna")
    for search in ("tpe", "gp"):
        (line,) = notes(search, extend=1)
        assert line.startswith(f"Note: the search began with Optuna {present}, this is 7.1.0: ")
    assert notes("random", extend=1) == []
    assert notes("tpe") == [], "nothing is left to draw"


@pytest.mark.parametrize(
    ("replicates", "search", "declared"), [((1, 3, 9), "grid", 3), ((3, 9), "grid", 3), ((1, 3), "random", 1)]
)
def test_declared_look_is_that_of_the_first_command_that_can_tell_anything_apart(
    replicates: Sequence[int], search: Any, declared: int, options: SweepOptions, inputs: SweepInputs
) -> None:
    if search == "grid":
        space = dataclasses.replace(inputs.space, ranges={}, grid={"smart.weight": (0.0, 1.0)})
        inputs = dataclasses.replace(inputs, space=space)
    trials = None if search == "grid" else 2
    own = dataclasses.replace(options, search=search, trials=trials, replicate_best=None, until_decided=None, extend=0)
    first, *later = (dataclasses.replace(own, replicates=number) for number in replicates)
    create_sweep(prepared_with(first, inputs), "")
    for following in later:
        resume(following, inputs)
    assert read_sweep(own.folder)["first_look"] == {"configurations": 2, "replicates": declared}


def create_race(options: SweepOptions, inputs: SweepInputs, last: RoundDecision) -> SweepOptions:
    """Begins a race whose only decision on record is the given one; its options."""
    own = dataclasses.replace(options, extend=0)
    create_sweep(prepared_with(own, inputs), "")
    info = read_sweep(own.folder)
    assert (info["race"], info["first_look"]["replicates"]) == ([], None)
    info["race"] = race_to_json([last])
    info.pop("schema_version")
    write_sweep(own.folder, info)
    return own


@pytest.mark.parametrize(
    ("end", "change"),
    [(LAST_ROUND, {"replicates": 9}), (UNDECIDABLE, {"replicates": 9}), (UNDECIDABLE, {"until_decided": 0.05})],
)
def test_race_that_ended_undecided_goes_on_where_it_may_be_decided_now(
    options: SweepOptions, inputs: SweepInputs, end: str, change: dict[str, Any]
) -> None:
    last = RoundDecision(num_rounds=5, open=(0, 1), worse=(2,), end=end)
    own = create_race(options, inputs, last)
    assert resume(own, inputs)[0].race == RaceRecord(decisions=(last,))
    more = dataclasses.replace(own, **change)
    going = RaceRecord(decisions=(dataclasses.replace(last, end="", expected_rounds=(more.replicates,) * 2),))
    assert resume(more, inputs)[0].race == going
    assert race_of(read_sweep(own.folder)) == going


def claim_options(tmp_path: Path, replicates: int) -> SweepOptions:
    claim = "smart.weight=1 beats smart.weight=0"
    storage = f"{tmp_path}/storage"
    return SweepOptions(name="mine", storage=storage, claim=claim, until_decided=0.0, replicates=replicates)


def info_of_claim(last: RoundDecision) -> dict[str, Any]:
    """The content of `sweep.json` of a race about a claim with at most 5 replicates."""
    return {"options": {"until_decided": 0.0}, "replicates": 5, "race": race_to_json([last])}


@pytest.mark.parametrize("end", [SHOWN_CLAIM, EXCLUDED_CLAIM])
def test_decided_claim_stays_decided_with_more_replicates(tmp_path: Path, end: str) -> None:
    estimate = ClaimEstimate(difference=0.1, margin=0.05, needed=None)
    last = RoundDecision(num_rounds=4, open=(0, 1), end=end, claimed=estimate)
    for replicates in (5, 30):
        race = continued_race(info_of_claim(last), claim_options(tmp_path, replicates))
        assert race == RaceRecord(decisions=(last,))


@pytest.mark.parametrize("end", [LAST_ROUND, UNDECIDABLE])
def test_open_claim_goes_on_with_more_replicates_and_keeps_its_estimate(tmp_path: Path, end: str) -> None:
    estimate = ClaimEstimate(difference=0.1, margin=0.2, needed=11)
    last = RoundDecision(num_rounds=5, open=(0, 1), end=end, claimed=estimate)
    info = info_of_claim(last)
    assert continued_race(info, claim_options(tmp_path, 5)) == RaceRecord(decisions=(last,))
    race = continued_race(info, claim_options(tmp_path, 12))
    assert race is not None
    (going,) = race.decisions
    assert (race.end, going.claimed, going.num_rounds, going.expected_rounds) == ("", estimate, 5, (12, 12))


def test_refused_sweep_is_left_unchanged(sweep: Build, inputs: SweepInputs) -> None:
    options = sweep("interrupted", extend=3)
    before = files_of(Path(options.folder))
    with pytest.raises(ValueError, match="the encoder must be what it was"):
        resume_sweep(prepared_with(options, inputs, OTHER_ENCODERS), "")
    assert files_of(Path(options.folder)) == before


def test_complete_rounds_of_a_race_are_decided_before_it_goes_on(
    options: SweepOptions, inputs: SweepInputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill may have come between a training and its decision; with nothing left to train no driver decides."""
    second = RoundDecision(num_rounds=2, open=(0, 1), expected_rounds=(3, 3))
    own = create_race(options, inputs, second)
    third = RoundDecision(num_rounds=3, open=(0,), worse=(1,), end=DECIDED)
    ended = RaceRecord(decisions=(second, third))
    monkeypatch.setattr("sweeps.driver.resume.decide", lambda folder, _waiting: {own.folder: ended}[folder])
    plan, known = resume(own, inputs)
    assert plan.race == ended
    assert set(decision_lines(ended, 1)) <= set(known.notes)


def test_values_added_to_a_grid_are_new_configurations_beside_the_old_trials(
    options: SweepOptions, inputs: SweepInputs
) -> None:
    def with_grids(*weights: tuple[float, ...]) -> SweepInputs:
        grids: list[Any] = [{"smart.weight": values} for values in weights]
        *smaller, grid = grids
        space = dataclasses.replace(inputs.space, ranges={}, grid=grid, smaller_grids=tuple(smaller))
        return dataclasses.replace(inputs, space=space)

    changes: dict[str, Any] = {"search": "grid", "trials": None, "replicate_best": None, "until_decided": None}
    begun = dataclasses.replace(options, **changes, extend=0, smaller_grids=(), vary={"smart.weight": "0,1"})
    plan = create_sweep(prepared_with(begun, with_grids((0.0, 1.0))), "")
    write_trial(begun.folder, make_trial(plan.space, 1, 0, {"smart.weight": 1.0}), "complete", (0.2, 0.3))
    wider = dataclasses.replace(begun, vary={"smart.weight": "0,1,0.5"}, smaller_grids=(begun.vary,))
    grids = with_grids((0.0, 1.0), (0.0, 1.0, 0.5))
    plan, known = resume(wider, grids)
    assert any(line.startswith("1 of 15 trials have ended") for line in known.notes)
    assert {record.trial_id: record.status for record in known.records} == {"0001-r0": "complete"}
    records = open_table(plan, known.records).records.values()
    assert {record.number: record.params["smart.weight"] for record in records} == {0: 0.0, 1: 1.0, 2: 0.5}
    info = read_sweep(begun.folder)
    assert (dict(info["space"]["grid"]), info["num_configurations"]) == ({"smart.weight": [0.0, 1.0, 0.5]}, 3)
    assert resume(read_saved_options(begun.folder), grids)[0].space == plan.space


def test_unfinished_trials_are_pending_with_any_status(make_plan: MakePlan) -> None:
    plan = make_plan(trials=7, search="tpe", grid={}, ranges={"smart.weight": Float(low=0, high=1)})
    known = records_of(plan, "complete", "queued", "failed", "interrupted", "pruned", "running", "reused")
    known[3] = dataclasses.replace(known[3], epochs=2)
    assert num_left_to_run(plan, known, None) > 0
    assert describe_progress(plan, known).startswith("4 of 7 trials have ended; 1 of the others had begun")


@pytest.mark.parametrize("statuses", [("complete", "reused", "pruned"), ("complete", "failed", "failed")])
def test_sweep_whose_trials_have_ended_is_over(make_plan: MakePlan, statuses: tuple[str, ...]) -> None:
    plan = make_plan()
    known = records_of(plan, *statuses)
    assert num_left_to_run(plan, known, None) == 0
    assert "All 3 trials have ended" in describe_progress(plan, known)
