"""Options by name become those of a sweep, new or resumed: defaults, places, and what a resume may change."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from results.records.trials import write_sweep
from sweeps.options import BEST_RACED, MOST_RACED, SweepOptions, saved_options
from sweeps.plan.given_options import find_sweep_folder, read_options, read_saved_options
from tests.one_line_error import one_line_error
from tests.sweeps.conftest import UNUSUAL_OPTIONS


def read(**given: Any) -> SweepOptions:
    return read_options(given, None)


def stored(storage: Path, **own: Any) -> SweepOptions:
    """A stored sweep with these options."""
    options = SweepOptions(**{"space": "smart_lambda", "name": "begun", "storage": str(storage), **own})
    write_sweep(options.folder, {"options": saved_options(options)})
    return options


def test_range_makes_tpe_the_default_search() -> None:
    vary: dict[str, Any] = {"smart.weight": (0, 1), "optimizer.learning_rate": "1e-5..1e-4:log"}
    assert read(vary=vary, trials=7).search == "tpe"
    assert read(vary=vary, search="random").search == "random"
    assert read(vary={"smart.weight": (0, 1)}).search == "grid"


def test_relative_and_home_folders_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    options = read(space="./own.py", data="data", encoder="data", storage="sweeps", methods=("mine.py",))
    assert (options.data, options.encoder) == (tmp_path / "data", str(tmp_path / "data"))
    assert (options.space, options.storage) == (f"{tmp_path}/own.py", f"{tmp_path}/sweeps")
    assert options.methods == (f"{tmp_path}/mine.py",)
    assert read(space="smart_lambda", storage="~/here").storage == str(Path.home().resolve() / "here")
    for names in ("./data,owner/name", ("./data", "owner/name")):
        (found,) = read(vary={"encoder.name": names}).vary.values()
        assert list(found.split(",") if isinstance(found, str) else found) == [f"{tmp_path}/data", "owner/name"]


def test_address_is_that_of_the_environment_unless_another_or_this_machine_is_given() -> None:
    for given, address in (({}, "10.0.0.1:6379"), ({"address": "auto"}, "auto"), ({"address": "local"}, None)):
        assert read_options({"space": "orders", **given}, "10.0.0.1:6379").address == address


@pytest.mark.parametrize(
    ("given", "number", "finds", "packs"),
    [(None, 0.0, True, False), (0.5, 0.5, False, False), (0.0, 0.0, False, False), ("auto", 1.0, False, True)],
)
def test_gpus_of_a_worker_are_given_found_or_measured(given: Any, number: float, finds: bool, packs: bool) -> None:
    found = read(space="orders", **({} if given is None else {"gpus_per_worker": given}))
    assert (found.gpus_per_worker, found.finds_gpus, found.packs_gpus) == (number, finds, packs)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "--space must name a search space, got none; known: "),
        (
            {"space": "joint", "gpus_per_worker": "auto", "workers": 2},
            "--gpus-per-worker auto must come with one worker",
        ),
        ({"space": "joint", "storage": "s3:/bucket/x"}, "--storage must be a folder, or a URI such as s3://"),
        ({"resume": "s3:/bucket/NAME"}, "a URI must have two slashes"),
        ({"space": "joint", "data": "/no/such"}, "--data must be a folder that exists, got '/no/such'"),
        ({"space": "joint", "encoder": "./no"}, "--encoder must be a hub name or a folder that exists, got './no'"),
        ({"space": "joint", "extend": 3}, "--extend must come with --resume SWEEP, got none"),
        ({"space": "joint", "retry_failed": True}, "--retry-failed must come with --resume SWEEP, got none"),
        ({"space": "joint", "take_over": True}, "--take-over must come with --resume SWEEP, got none"),
        ({"space": "joint", "seed": -1}, "--seed must be at least 0, got -1"),
    ],
)
def test_mistake_is_one_line(given: dict[str, Any], message: str) -> None:
    assert one_line_error(read, **given).startswith(message)


@pytest.mark.parametrize(
    ("given", "margin", "replicates", "best"),
    [
        ({"until_decided": 0.0}, 0.0, MOST_RACED, None),
        ({"until_decided": 0.01, "replicates": 6}, 0.01, 6, None),
        ({"until_decided": 0.0, "search": "tpe"}, 0.0, MOST_RACED, BEST_RACED),
        ({"until_decided": 0.0, "search": "tpe", "replicate_best": 3}, 0.0, MOST_RACED, 3),
    ],
)
def test_race_has_defaults_for_its_rounds_and_of_a_search_for_those_that_are_raced(
    given: dict[str, Any], margin: float, replicates: int, best: int | None
) -> None:
    options = read(space="smart_lambda", **given)
    assert (options.until_decided, options.replicates, options.replicate_best) == (margin, replicates, best)


def test_every_option_but_place_and_those_of_one_command_is_read_back(tmp_path: Path) -> None:
    """None is at its default, so that a lost one would be noticed."""
    options = stored(tmp_path, data=tmp_path / "data", **UNUSUAL_OPTIONS)
    of_one_command: dict[str, Any] = {"address": None, "dry_run": False, "max_hours": None, "max_steps": None}
    back = read_saved_options(options.folder)
    assert back == replace(options, resume=True, **of_one_command)
    plain = saved_options(SweepOptions(space="smart_lambda", name="mine", storage=options.storage))
    assert {key for key, value in saved_options(options).items() if value == plain[key]} == {"space", "claim"}


def test_resumed_sweep_keeps_its_options_but_those_that_may_change(tmp_path: Path) -> None:
    begun = stored(tmp_path, search="tpe", trials=4, concurrent=3, keep_gb=5, seed=8, hold_out=0.2)
    by_name = read(resume="begun", storage=str(tmp_path))
    assert by_name == read(resume=begun.folder) == replace(begun, resume=True)
    changes: dict[str, Any] = {
        "concurrent": 1,
        "keep_gb": 0.25,
        "keep_models": 4,
        "checkpoint_steps": 9,
        "node_wait_minutes": 0.5,
        "silent_minutes": 2.0,
        "max_hours": 2.0,
        "max_steps": 50,
        "extend": 6,
        "retry_failed": True,
        "take_over": True,
        "address": "auto",
        "log_to": ("wandb",),
    }
    assert read(resume=begun.folder, **changes) == replace(begun, resume=True, **changes)
    moved = read(resume=begun.folder, data=str(tmp_path), encoder="roberta-base")
    places: dict[str, Any] = {"data": tmp_path, "encoder": "roberta-base"}
    assert moved == replace(begun, resume=True, began_as_demonstration=True, **places)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"seed": 8}, "--seed must be left out with --resume, which continues the sweep as it began, got 8"),
        (
            {"reuse": False},
            "--no-reuse must be left out with --resume, which continues the sweep as it began, got --no-",
        ),
        ({"dry_run": True}, "--dry-run must be left out with --resume, which continues the sweep as it began (python "),
        ({"replicates": 2}, "--replicates must not be lowered with --resume, as what was trained stays, got 2"),
        ({"replicates": "9"}, "--replicates must be a whole number, got '9'"),
        ({"extend": -1}, "--extend must be at least 0, got -1"),
        ({"checkpoint_steps": 0}, "--checkpoint-steps must be at least 1, got 0"),
    ],
)
def test_mistake_in_resuming_is_one_line(tmp_path: Path, given: dict[str, Any], message: str) -> None:
    begun = stored(tmp_path, search="tpe", replicates=3)
    assert one_line_error(read, resume=begun.folder, **given).startswith(message)


def test_sweep_can_become_a_race_when_it_is_resumed(tmp_path: Path) -> None:
    begun = stored(tmp_path, replicates=3)
    assert [read(resume=begun.folder, **own).replicates for own in ({}, {"replicates": 9})] == [3, 9]
    raced = read(resume=begun.folder, until_decided=0.0)
    assert (raced.until_decided, raced.replicates) == (0.0, MOST_RACED)
    write_sweep(raced.folder, {"options": saved_options(raced)})
    again = read(resume=raced.folder, replicates=30)
    assert (again.until_decided, again.replicates) == (0.0, 30)
    best = read(resume=raced.folder, replicates=30, replicate_best=2)
    assert best.chosen_by == 1, "the trainings that every configuration of a race has"


@pytest.mark.parametrize("begun", [1, 3])
def test_best_of_a_resumed_sweep_are_chosen_by_the_trainings_that_all_have(begun: int, tmp_path: Path) -> None:
    changed = read(resume=stored(tmp_path, replicates=begun).folder, replicates=9, replicate_best=4)
    assert (changed.replicates, changed.replicate_best, changed.chosen_by) == (9, 4, begun)
    write_sweep(changed.folder, {"options": saved_options(changed)})
    again = read(resume=changed.folder, replicates=12, replicate_best=2)
    assert (again.replicates, again.replicate_best, again.chosen_by) == (12, 2, begun)


GRID = {"optimizer.learning_rate": "1e-5,1e-4", "smart.weight": "0,1"}


def test_values_can_be_added_to_a_grid_again_and_again(tmp_path: Path) -> None:
    begun = stored(tmp_path, space=None, vary=GRID)
    wider = read(resume=begun.folder, vary={"optimizer.learning_rate": "3e-5,1e-5,1e-4"})
    assert wider.vary == {"optimizer.learning_rate": "1e-5,1e-4,3e-5", "smart.weight": "0,1"}
    assert wider.smaller_grids == (GRID,)
    write_sweep(begun.folder, {"options": saved_options(wider)})
    same = read(resume=begun.folder, vary={"optimizer.learning_rate": (0.00001, 3e-5, 1e-4)})
    assert same == replace(wider, resume=True), "what is given again adds nothing"
    widest = read(resume=begun.folder, vary={"smart.weight": "0,1,3"})
    assert widest.smaller_grids == (GRID, wider.vary)


@pytest.mark.parametrize(
    ("own", "key", "values"),
    [
        ({}, "smart.weight", "1,3"),
        ({}, "smart.weight", "0..1"),
        ({}, "smart.num_steps", "1,2"),
        ({"vary": {"encoder.name": "a,b"}}, "encoder.name", "a,b,c"),
        ({"search": "tpe"}, "smart.weight", "0,1,3"),
        ({"vary": {}, "space": "smart_lambda"}, "smart.weight", "0,1,3"),
    ],
)
def test_grid_that_loses_or_changes_anything_is_refused_with_the_way_out(
    tmp_path: Path, own: dict[str, Any], key: str, values: str
) -> None:
    begun = stored(tmp_path, **{"space": None, "vary": GRID, **own})
    message = one_line_error(read, resume=begun.folder, vary={key: values})
    assert message.startswith("--vary with --resume must keep ")
    assert f"got {key}={values}" in message
    assert "--name NEW" in message


def test_sweep_is_found_by_name_or_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage, nowhere = f"{tmp_path}/storage", f"{tmp_path}/nowhere"
    folder = f"{storage}/mine"
    write_sweep(folder, {})
    assert find_sweep_folder("mine", storage) == folder
    assert find_sweep_folder(folder, nowhere) == folder
    assert find_sweep_folder(f"{folder}/", nowhere) == folder
    monkeypatch.chdir(tmp_path)
    assert find_sweep_folder("storage/mine", nowhere) == folder
    assert "nowhere/other is no sweep folder" in one_line_error(find_sweep_folder, "other", nowhere)


CLAIM = "smart.weight=1 beats smart.weight=0 by 0.005"


def test_claim_needs_no_space_and_has_the_defaults_of_a_race() -> None:
    options = read(claim=CLAIM)
    assert (options.claim, options.space, options.search) == (CLAIM, None, "grid")
    assert (options.until_decided, options.replicates, options.replicate_best) == (0.0, MOST_RACED, None)
    assert read(claim=CLAIM, replicates=6).replicates == 6
    assert read(claim=CLAIM, space="smart_lambda").space == "smart_lambda"


@pytest.mark.parametrize(
    "changes",
    [
        {"vary": {"smart.num_steps": "1,2"}},
        {"vary": {"smart.epsilon": "1e-5..1e-4"}},
        {"search": "tpe"},
        {"search": "random"},
        {"until_decided": 0.0},
        {"until_decided": 0.01},
        {"replicate_best": 2},
        {"scheduler": "asha"},
    ],
    ids=str,
)
def test_claim_is_given_without_another_question_or_way_to_search(changes: dict[str, Any]) -> None:
    message = one_line_error(read, claim=CLAIM, **changes)
    assert "must be left out with" in message
    assert "--claim" in message


@pytest.mark.parametrize("claim", ["smart.weight=1", "", 1, "a=1 beats a=1"])
def test_claim_that_cannot_be_read_is_one_line(claim: Any) -> None:
    assert one_line_error(read, space="smart_lambda", claim=claim).startswith("--claim must ")


def test_encoder_folder_of_a_claim_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my own").mkdir()
    found = read(claim="'encoder.name=./my own' smart.weight=1 beats encoder.name=owner/name by 0.01 in sst").claimed
    assert found is not None
    assert found.better == {"encoder.name": f"{tmp_path}/my own", "smart.weight": "1"}
    assert (found.worse, found.margin, found.task) == ({"encoder.name": "owner/name"}, 0.01, "sst")
    message = one_line_error(read, claim="encoder.name=./none beats base")
    assert message.startswith("--claim encoder.name must be a hub name or a folder that exists")


def test_claim_is_read_back_and_stays_when_its_sweep_is_resumed(tmp_path: Path) -> None:
    begun = stored(tmp_path, space=None, claim=CLAIM, until_decided=0.0, replicates=5)
    assert read(resume=begun.folder) == replace(begun, resume=True)
    assert read(resume=begun.folder, replicates=9) == replace(begun, resume=True, replicates=9)


@pytest.mark.parametrize(
    ("given", "flag"),
    [
        ({"claim": CLAIM}, "--claim must be left out with --resume"),
        ({"until_decided": 0.01}, "--until-decided"),
        ({"replicate_best": 2}, "--replicate-best"),
        ({"vary": {"smart.weight": "0,1,2"}}, "--vary"),
        ({"extend": 1}, "--extend"),
        ({"replicates": 4}, "--replicates must not be lowered"),
    ],
    ids=str,
)
def test_resumed_claim_stays_what_it_was(tmp_path: Path, given: dict[str, Any], flag: str) -> None:
    begun = stored(tmp_path, space=None, claim=CLAIM, until_decided=0.0, replicates=5)
    assert flag in one_line_error(read, resume=begun.folder, **given)


def test_claim_is_not_added_to_a_sweep_that_began_without_one(tmp_path: Path) -> None:
    message = one_line_error(read, resume=stored(tmp_path).folder, claim=CLAIM)
    assert message.startswith("--claim must be left out with --resume")
