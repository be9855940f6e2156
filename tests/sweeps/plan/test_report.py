"""The report of a dry run, checked against numbers by hand."""

import dataclasses
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mtlib.config.methods import read_methods
from mtlib.config.penalties import SmartConfig
from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig, with_methods
from mtlib.data.load import read_held_out
from mtlib.model.encoder import PretrainedEncoder
from search_spaces.domain import Choice, Condition, Float, Int, SearchKey
from search_spaces.space import SearchSpace, load_space
from search_spaces.vary import vary
from sweeps.plan.inputs import SweepInputs
from sweeps.plan.precision import with_precision
from sweeps.plan.report import (
    EXPECTED_ROUNDS,
    describe_base,
    describe_disk_need,
    describe_early_ends,
    describe_skipped,
    describe_sweep,
    describe_total,
    describe_trials,
    describe_unused_methods,
    few_groups_lines,
    max_concurrent,
    steps_of_each,
    stored_ends,
)
from tests.mtlib.conftest import build_table
from tests.prepared import inputs_of, with_space
from tests.sweeps.plan.conftest import Build


@pytest.fixture
def inputs() -> SweepInputs:
    train = {"sst": 100, "qqp": 1000, "sts": 50}
    rows = {**{(task, "train"): count for task, count in train.items()}, **{(task, "dev"): 10 for task in train}}
    return with_precision(inputs_of(load_space("smart_lambda"), rows, notes=("A note.",)), "fp32", None)


def test_every_configuration_of_a_grid_has_a_line_with_its_steps(options: Build, inputs: SweepInputs) -> None:
    lines = describe_trials(options(), inputs)
    assert lines[0] == "7 configurations on the grid, each trained once:"
    assert lines[1].split() == ["configuration", "smart.weight", "steps"]
    weights = ["0", "0.3", "0.45", "0.5", "0.7", "1", "3"]
    first = -(-1000 // 16)  # one pass over QQP
    rounds = -(-100 // 16)  # until SST, the larger of the small sets, is exhausted; QQP has a batch in each
    second = 2 * rounds + -(-50 // 16)  # STS is exhausted earlier
    steps = 2 * first + 13 * second
    assert [line.split() for line in lines[2:]] == [[f"000{n}", own, f"{steps}"] for n, own in enumerate(weights)]
    assert describe_total(options(replicates=2), inputs) == f"In all 14 trainings and {14 * steps:,} optimizer steps."


def test_replicates_of_the_best_are_in_the_title_and_the_total(options: Build, inputs: SweepInputs) -> None:
    once, best = options(), options(replicates=4, replicate_best=2)
    lines = describe_trials(best, inputs)
    assert lines[0] == "7 configurations on the grid, each trained once, then the 2 best 4 times in all:"
    assert lines[1:] == describe_trials(once, inputs)[1:]
    steps = int(describe_total(once, inputs).split()[5].replace(",", ""))
    assert describe_total(once, inputs).startswith("In all 7 trainings and ")
    assert describe_total(best, inputs) == f"In all 13 trainings and {steps * 13 // 7:,} optimizer steps."
    three = with_space(inputs, grid={"stages.0.epochs": (2, 4, 3)}, ranges={})
    lengths = sorted(steps_of_each(once, three))
    most = 4 * (lengths[1] + lengths[2]) + lengths[0]
    assert f"In all 9 trainings and at most {most:,} optimizer steps" in describe_total(best, three)


def test_key_with_a_condition_shows_it(options: Build, inputs: SweepInputs) -> None:
    ranges = {"smart.mode": Choice(values=("unit_norm", "paper", "random")), "smart.num_steps": Int(low=1, high=3)}
    conditions = {"smart.num_steps": Condition(key="smart.mode", values=("unit_norm", "paper"))}
    lines = describe_trials(
        options(search="tpe", trials=5), with_space(inputs, grid={}, ranges=ranges, conditions=conditions)
    )
    assert lines[1].split(maxsplit=1) == ["smart.mode:", "one of unit_norm, paper, random"]
    said = "a whole number from 1 to 3, only where smart.mode is unit_norm or paper"
    assert lines[2].split(maxsplit=1) == ["smart.num_steps:", said]


@pytest.mark.parametrize("search", ["tpe", "gp", "random"])
def test_search_shows_its_domain(options: Build, inputs: SweepInputs, search: str) -> None:
    lines = describe_trials(options(search=search, trials=5), inputs)
    assert lines == [
        f"5 configurations drawn by {search}, each trained once, from",
        "  smart.weight: a number from 0 to 3",
        *["The first is the base configuration."] * (search != "random"),
    ]


def sharing(inputs: SweepInputs, grid: dict[Any, Any], **changes: Any) -> SweepInputs:
    """A space over a plan of two epochs of QQP, 5 steps each, then three of SST, 7 steps each."""
    stages = (
        StageConfig(tasks=("qqp",), epochs=2, steps_per_epoch=5),
        StageConfig(tasks=("sst",), epochs=3, steps_per_epoch=7),
    )
    base = TrialConfig(stages=stages).override(changes)
    return dataclasses.replace(inputs, space=SearchSpace(name="s", question="?", base=base, grid=grid))


@pytest.mark.parametrize(("schedule", "num_lines"), [("constant", 0), ("cosine", 1), ("slanted_triangular", 1)])
def test_patience_with_a_rate_that_falls_has_a_line(inputs: SweepInputs, schedule: str, num_lines: int) -> None:
    patient = sharing(inputs, {"stages.1.patience": (None, 2)}, **{"optimizer.schedule": schedule})
    lines = describe_early_ends(patient.space.configs)
    assert len(lines) == num_lines
    assert all(line.startswith(f"stages.N.patience with the schedule {schedule}: ") for line in lines)
    assert describe_early_ends(sharing(inputs, SIZES, **{"optimizer.schedule": schedule}).space.configs) == []


SIZES = {"tasks.sst.batch_size": (8, 16, 32)}


def test_steps_that_sharing_stages_saves_are_counted(options: Build, inputs: SweepInputs) -> None:
    one = describe_total(options(), sharing(inputs, SIZES))
    assert one == "In all 3 trainings and 93 optimizer steps; sharing stages saves 20 of them (21.5%)."
    four = describe_total(options(replicates=4), sharing(inputs, SIZES))  # replicates share nothing
    assert four == "In all 12 trainings and 372 optimizer steps; sharing stages saves 80 of them (21.5%)."


def test_longer_run_continues_a_shorter_one(options: Build, inputs: SweepInputs) -> None:
    longer = sharing(inputs, {"stages.1.epochs": (9, 3)})
    assert describe_total(options(), longer).endswith(" 104 optimizer steps; sharing stages saves 31 of them (29.8%).")
    slanted = sharing(inputs, {"stages.1.epochs": (9, 3)}, **{"optimizer.schedule": "slanted_triangular"})
    assert describe_total(options(), slanted).endswith("; sharing stages saves 10 of them (9.6%).")


def test_concurrent_trials_are_as_many_as_fit(options: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sweeps.plan.report.usable_cpus", lambda: 8)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert max_concurrent(options(), 100) == 8
    assert max_concurrent(options(), 3) == 3
    assert max_concurrent(options(concurrent=2), 100) == 2
    assert max_concurrent(options(workers=2, cpus_per_worker=3), 100) == 1
    assert max_concurrent(options(workers=9), 100) == 1
    assert max_concurrent(options(gpus_per_worker=0.5), 100) == 4
    assert max_concurrent(options(address="auto"), 100) == 100
    assert max_concurrent(options(address="auto", concurrent=5), 100) == 5


def test_total_of_a_search_is_that_of_the_base(options: Build, inputs: SweepInputs) -> None:
    stages = (StageConfig(tasks=("sst",), epochs=3, steps_per_epoch=7),)
    base = TrialConfig(stages=stages, smart=SmartConfig(tasks=("sst",)))
    changed = dataclasses.replace(
        inputs, space=SearchSpace(name="s", question="?", base=base, ranges={"smart.weight": Float(low=0, high=1)})
    )
    line = describe_total(options(search="tpe", trials=4, scheduler="asha"), changed)
    assert line == (
        "In all 4 trainings and 84 optimizer steps, counted as in the space's base configuration, fewer where asha "
        "stops trials."
    )


def test_what_the_base_has_is_shown_and_what_takes_its_place_where_that_is_no_value(
    options: Build, inputs: SweepInputs
) -> None:
    def shown(**changes: Any) -> str:
        space = dataclasses.replace(inputs.space, **{"grid": {}, "ranges": {}, "published": (), **changes})
        (line,) = describe_base(options(), space)
        return line

    assert shown(grid={"optimizer.learning_rate": (1e-5, 2e-5)}).endswith(": optimizer.learning_rate 2e-5")
    best = "(none of the values: differences are from the value with the best mean)"
    found = shown(grid={"optimizer.learning_rate": (3e-5, 1e-4)})
    assert found.endswith(f"optimizer.learning_rate 2e-5 {best}")
    named = {"way": {"one": {"smart.weight": 1.0}, "none": {"smart.weight": 0.0}}}
    assert shown(grid=named).endswith(": way none")
    assert shown(ranges={"smart.weight": Float(low=1, high=2)}).endswith(": smart.weight 0")
    base = inputs.space.base.override({"encoder.dropout": None})
    assert shown(grid={"encoder.dropout": (0.0, 0.1)}, base=base).endswith(f"encoder.dropout none {best}")


@pytest.mark.parametrize(
    ("key", "values", "typed"),
    [
        ("optimizer.learning_rate", "1e-5,3e-5", "2e-5"),
        ("encoder.dropout", "0,0.1", "none"),
        ("stages.0.tasks", "[sst],[sst,qqp]", "[qqp]"),
    ],
)
def test_value_of_the_base_that_is_not_tried_is_offered(
    options: Build, inputs: SweepInputs, key: str, values: str, typed: str
) -> None:
    base = inputs.space.base.override({"encoder.dropout": None})

    def lines(text: str) -> list[str]:
        return describe_base(options(vary={key: text}), vary(base, "overall", {key: text}))[1:]

    (line,) = lines(values)
    assert f"{key} {typed} is not tried" in line
    (offered,) = shlex.split(line.partition("--vary ")[2])
    assert offered == f"{key}={values},{typed}"
    assert lines(offered.removeprefix(f"{key}=")) == []


def test_nothing_is_offered_where_a_range_holds_the_base(options: Build, inputs: SweepInputs) -> None:
    typed = {"optimizer.learning_rate": "1e-5..1e-4"}
    assert len(describe_base(options(vary=typed, search="tpe"), vary(inputs.space.base, "overall", typed))) == 1


def test_race_has_an_expected_cost_beside_the_most(options: Build, inputs: SweepInputs) -> None:
    raced = options(until_decided=0.0, replicates=20)
    line, once = describe_total(raced, inputs), sum(steps_of_each(raced, inputs))
    assert f"about {7 * EXPECTED_ROUNDS} trainings and {EXPECTED_ROUNDS * once:,} optimizer steps expected" in line
    assert f"at most 140 and {20 * once:,}" in line
    few = describe_total(options(until_decided=0.0, replicates=3), inputs)
    assert few.startswith(f"In all at most 21 trainings and at most {3 * once:,} optimizer steps")
    best = options(until_decided=0.0, replicates=9, replicate_best=2, search="random", trials=10)
    assert f"about {10 + 2 * (EXPECTED_ROUNDS - 1)} trainings" in describe_total(best, inputs)


@pytest.mark.parametrize(("schedule", "num_stored"), [("constant", 4), ("slanted_triangular", 1)])
def test_last_stage_is_stored_where_a_longer_trial_could_go_on_from_it(
    options: Build, inputs: SweepInputs, schedule: str, num_stored: int
) -> None:
    shared = sharing(inputs, SIZES, **{"optimizer.schedule": schedule})
    assert len(stored_ends(options(), shared)) == num_stored


def test_train_rows_without_held_out_ones_are_counted_by_task(
    options: Build, inputs: SweepInputs, tiny_config: TrialConfig, tiny_folder: Path
) -> None:
    held = read_held_out(tiny_config.override({"data.hold_out": 0.2}), tiny_folder)
    lines = describe_sweep(options(hold_out=0.2), dataclasses.replace(inputs, held_out=held, left_out=("a",)))
    assert lines[-2:] == ["Held out for a last score, 0.2 of train: sst 6, qqp 14, sts 4 rows.", "Left out: a."]


OWN_LOSSES = """
from mtlib.config.losses import Loss

def loss(outputs, batch):
    raise NotImplementedError

LOSSES = {name: Loss(title=name, description="", functions={"classes": loss}) for name in ("mine", "other")}
"""


def test_dev_rows_in_too_few_groups_are_named_before_anything_is_trained(inputs: SweepInputs) -> None:
    space, few = inputs.space, build_table("sst", [f"text {row % 9}" for row in range(60)])
    tables = {("sst", "dev"): few, ("sts", "dev"): build_table("sts", *[[f"{row}" for row in range(40)]] * 2)}
    own = SimpleNamespace(
        rows=lambda split: {task: table for (task, its), table in tables.items() if its == split}, held_out={}
    )
    (line,) = [" ".join(few_groups_lines(space, own, is_race=False))]  # type: ignore[arg-type]
    assert line == "No difference can be claimed from dev rows of SST in 9 groups (at least 10 are needed)."
    tables["sst", "dev"] = build_table("sst", [f"text {row % 10}" for row in range(60)])
    assert few_groups_lines(space, own, is_race=True) == []  # type: ignore[arg-type]


def test_own_methods_that_no_trial_uses_are_named(inputs: SweepInputs, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN_LOSSES)
    base = with_methods(inputs.space.base, read_methods([tmp_path / "own.py"]))
    grid: dict[SearchKey, tuple[Any, ...]] = {"tasks.sst.loss": ("cross_entropy", "mine")}
    space = dataclasses.replace(inputs.space, base=base, grid=grid, published=())
    (line,) = describe_unused_methods(space)
    assert line.startswith("Used by no trial: other (own.py); ")
    assert describe_unused_methods(inputs.space) == []
    assert describe_unused_methods(dataclasses.replace(space, grid={"tasks.sst.loss": ("mine", "other")})) == []


def test_unusable_rows_are_counted_and_ten_named() -> None:
    assert describe_skipped(()) == []
    assert describe_skipped(["a:1: x"]) == ["1 row cannot be used and will be left out:", "  a:1: x"]
    lines = describe_skipped([f"a:{n}: x" for n in range(12)])
    assert lines[0] == "12 rows cannot be used and will be left out:"
    assert (len(lines), lines[10], lines[11]) == (12, "  a:9: x", "  and 2 more")


@pytest.mark.parametrize("missing", ["", "a/b"])
def test_free_disk_is_that_of_the_nearest_existing_folder(
    options: Build,
    inputs: SweepInputs,
    tiny_encoder: PretrainedEncoder,
    tmp_path: Path,
    missing: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    free = {tmp_path: SimpleNamespace(free=5 * 10**9)}
    monkeypatch.setattr("shutil.disk_usage", free.__getitem__)
    short = sharing(inputs, SIZES, **{"encoder.max_length": 16})
    lines = describe_disk_need(
        options(storage=str(tmp_path / missing)), short, {short.space.base.encoder.name: tiny_encoder}
    )
    assert "; 5.0 GB free." in lines[0]


@pytest.mark.parametrize(
    ("expected", "need", "free", "shown"),
    [
        (3_000_000, 4_000_000, 4_000_000, ["Disk: about 3.0 MB expected, at most 4.0 MB; 4.0 MB free."]),
        (4_000, 4_000, None, ["Disk: at most 4.0 kB."]),
        (
            4_000,
            4_000,
            3_999,
            ["Disk: at most 4.0 kB; 4.0 kB free.", "Warning: the sweep may need more disk than is free"],
        ),
    ],
)
def test_disk_is_what_is_expected_and_what_is_possible_with_a_warning_if_too_little_is_free(
    options: Build,
    inputs: SweepInputs,
    monkeypatch: pytest.MonkeyPatch,
    expected: int,
    need: int,
    free: int | None,
    shown: list[str],
) -> None:
    """A bucket does not say what is free."""
    needs = iter((expected, need))
    monkeypatch.setattr("sweeps.plan.report.disk_need", lambda *_given: next(needs))
    monkeypatch.setattr("shutil.disk_usage", lambda _folder: SimpleNamespace(free=free))
    if free is None:
        monkeypatch.setattr("sweeps.plan.report.local_path", lambda _bucket: None)
    lines = describe_disk_need(options(), inputs, {})
    assert [line.partition(";")[0] if line.startswith("Warning") else line for line in lines] == shown
