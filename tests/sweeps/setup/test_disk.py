"""The most disk of a sweep: parts by hand, and the total against a trained sweep."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import mtlib.checkpoints.best_weights
import mtlib.checkpoints.state
import mtlib.runtime.checksum
from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from mtlib.model.encoder import PretrainedEncoder, load_encoder
from mtlib.model.multitask import MultiTaskModel
from results.records.tables import write_caches
from results.records.trials import write_sweep
from search_spaces.space import SearchSpace, grid_configs, load_space
from sweeps.options import SweepOptions, SweepPlan
from sweeps.reuse.weight_pruning import prune_weights
from sweeps.search.stage_order import find_cuts
from sweeps.setup.disk import (
    BYTES_PER_EPOCH,
    BYTES_PER_TABLE,
    BYTES_PER_TRIAL,
    DiskNeed,
    describe_disk,
    disk_need,
    entry_bytes,
    measure_model,
    prediction_bytes,
    state_bytes,
)
from sweeps.setup.inputs import SweepInputs, first_tables, read_points
from sweeps.setup.report import shared_paths
from sweeps.setup.stage_tree import Segment, simulate_training
from tests.combinations import METHODS
from tests.sweeps.lanes.plain_sweep import train_sweep

ROWS = {"sst": 100, "qqp": 1000, "sts": 50}
ALL = SweepOptions(space="tiny", name="tiny", storage="/storage", keep_gb=1000, keep_models=10**6)

TWO_STAGES = (StageConfig(tasks=("qqp",), epochs=2), StageConfig(tasks=("sst",), epochs=3))
PLAIN = TrialConfig(stages=(StageConfig(tasks=("sst",)),))
SUMMED = TrialConfig(stages=(StageConfig(tasks=("sst", "qqp"), order="max_size_cycle", sum_losses=True),))
FROM_BEST = TrialConfig(stages=(StageConfig(tasks=("sst",)), StageConfig(tasks=("sst",), start_from="best")))
TEACHER = {"proximal.weight": 1e-9, "proximal.tasks": ["sst"]}


def four_thousand(_config: TrialConfig) -> int:
    return 4000


@pytest.fixture
def inputs() -> SweepInputs:
    rows = {
        (task, split): count // (10 if split == "dev" else 1)
        for task, count in ROWS.items()
        for split in ("train", "dev")
    }
    return SweepInputs(
        space=load_space("smart_lambda"),
        data_folder=Path("/data"),
        num_rows=rows,
        fingerprint="0",
        skipped=(),
        notes=(),
    )


def paths_of(*configs: TrialConfig, shares: bool = True) -> list[list[Segment]]:
    rows = [dict.fromkeys(config.train_sets, 100) for config in configs]
    cuts = [find_cuts(config, Path("/data"), 1, own) for config, own in zip(configs, rows, strict=True)]
    return simulate_training(configs, cuts, shares)


def test_predictions_count_from_the_epoch_where_their_task_is_active(inputs: SweepInputs) -> None:
    config = TrialConfig(stages=TWO_STAGES).override({"tasks.sst.scored_train_rows": 40})
    qqp, sst = 100 * (20 + 4) + BYTES_PER_TABLE, (10 + 40) * (20 + 4 * 5) + 2 * BYTES_PER_TABLE
    assert [prediction_bytes(config, inputs, epochs) for epochs in range(6)] == [
        *(0, qqp, 2 * qqp),
        *(2 * qqp + epochs * (qqp + sst) for epochs in (1, 2, 3)),
    ]


def test_scored_train_rows_are_at_most_all_rows(inputs: SweepInputs) -> None:
    config = PLAIN.override({"tasks.sst.scored_train_rows": 2000})
    assert prediction_bytes(config, inputs, 1) == (10 + 100) * (20 + 4 * 5) + 2 * BYTES_PER_TABLE


def test_epochs_that_are_not_scored_have_no_predictions(inputs: SweepInputs) -> None:
    config = TrialConfig(stages=TWO_STAGES).override({"stages.0.score_every": 2, "stages.1.score_every": 2})
    qqp, sst = 100 * (20 + 4) + BYTES_PER_TABLE, (10 + 100) * (20 + 4 * 5) + 2 * BYTES_PER_TABLE
    sizes = [prediction_bytes(config, inputs, epochs) for epochs in range(6)]
    assert sizes == [0, 0, qqp, qqp, 2 * qqp + sst, 3 * qqp + 2 * sst]


@pytest.mark.parametrize(
    ("config", "copies"),
    [
        (PLAIN, 3),
        (PLAIN.override({**TEACHER, "proximal.weight": 0}), 3),
        (PLAIN.override(TEACHER), 4),
        (FROM_BEST.override({"stages.1.start_from": "last"}), 3),
        (FROM_BEST, 4),
        (FROM_BEST.override(TEACHER), 5),
        (SUMMED, 3),
        (SUMMED.override({"gradients": "excess_mtl"}), 5),
    ],
)
def test_state_holds_weights_moments_teacher_and_best_weights(config: TrialConfig, copies: int) -> None:
    assert state_bytes(config, 0, four_thousand) == copies * 4000


def test_sweep_without_sharing_keeps_records_and_best_weights(inputs: SweepInputs) -> None:
    configs = [TrialConfig(stages=TWO_STAGES).override({"tasks.sst.batch_size": size}) for size in (8, 16)]
    need = disk_need(paths_of(*configs, shares=False), inputs, four_thousand, dataclasses.replace(ALL, replicates=3), 1)
    each = prediction_bytes(configs[0], inputs, 5) + 5 * BYTES_PER_EPOCH + BYTES_PER_TRIAL
    assert need == DiskNeed(records=6 * each, weights=6 * 3 * 4000, stages=0, states=3 * 12_000)
    assert need.total == 6 * each + 72_000 + 36_000


def test_shared_stage_counts_once_and_stages_are_limited(inputs: SweepInputs) -> None:
    configs = [TrialConfig(stages=TWO_STAGES).override({"tasks.sst.batch_size": size}) for size in (8, 16)]
    paths = paths_of(*configs)
    (first, second), (same, third) = paths
    assert first is same
    whole = sum(entry_bytes(segment, inputs, four_thousand) for segment in (first, second, third))
    assert disk_need(paths, inputs, four_thousand, ALL, 1).stages == whole
    assert disk_need(paths, inputs, four_thousand, dataclasses.replace(ALL, keep_gb=5e-6), 1).stages == 5000


def test_keep_models_limits_weights(inputs: SweepInputs) -> None:
    configs = [TrialConfig(stages=TWO_STAGES).override({"tasks.sst.batch_size": size}) for size in range(8, 28)]
    paths = paths_of(*configs, shares=False)
    needs = [
        disk_need(paths, inputs, four_thousand, dataclasses.replace(ALL, keep_models=number), 2)
        for number in (1, 2, 100)
    ]
    trials = [3 * 1 + 2, 3 * 2 + 2, 20]  # a trial for each of three scores, and two that run
    assert [need.weights for need in needs] == [3 * 4000 * number for number in trials]


@pytest.mark.parametrize("method", METHODS)
def test_model_is_measured_without_being_built(
    method: str, tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder
) -> None:
    config = tiny_config.override({"smart.weight": 0, **METHODS[method]})
    weights = MultiTaskModel(config, tiny_encoder).parameters()
    kept = [weight for weight in weights if weight.requires_grad or config.adapter.method == "none"]
    assert measure_model(config, tiny_encoder) == 4 * sum(weight.numel() for weight in kept)


def test_too_little_free_disk_is_a_warning() -> None:
    need = DiskNeed(records=1_500, weights=2 * 10**9, stages=10**9, states=10**9)
    (line,) = describe_disk(need, 4 * 10**9 + 1_500, 2)
    assert "at most 4.0 GB" in line
    assert describe_disk(need, 4 * 10**9, 1)[1].startswith("Warning: the sweep may need more disk than is free")
    assert len(describe_disk(need, None, 1)) == 1


Prepare = Callable[..., tuple[SweepOptions, SweepInputs, SweepPlan]]


@pytest.fixture
def prepare(tmp_path: Path, tiny_folder: Path, tiny_encoder_folder: Path, tiny_config: TrialConfig) -> Prepare:
    """A small sweep over three batch sizes, two stages each, prepared as by `sweeps/run.py`."""

    def make(changes: dict[str, Any], **settings: Any) -> tuple[SweepOptions, SweepInputs, SweepPlan]:
        short = {"smart.weight": 0, "stages.1.steps_per_epoch": 6, "optimizer.learning_rate": 3e-3}
        base = tiny_config.override({"encoder.name": str(tiny_encoder_folder), **short, **changes})
        space = SearchSpace(name="tiny", question="?", base=base, grid={"tasks.sst.batch_size": (8, 15, 30)})
        options = SweepOptions(space="tiny", name="tiny", storage=str(tmp_path), data=tiny_folder, **settings)
        tables, _ = first_tables(read_points(space, tiny_folder))
        inputs = SweepInputs(
            space=space,
            data_folder=tiny_folder,
            num_rows={key: len(table.ids) for key, table in tables.items()},
            fingerprint="0",
            skipped=(),
            notes=(),
        )
        return options, inputs, SweepPlan(options=options, space=space, data_folder=tiny_folder)

    return make


def disk_usage(*folders: Path) -> int:
    """Bytes of the blocks that files take, hard links counted once."""
    files = (path.stat() for folder in folders for path in folder.rglob("*") if path.is_file())
    return sum({status.st_ino: 512 * status.st_blocks for status in files}.values())


CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a shared stage": ({}, {}),
    "no sharing": ({}, {"reuse": False}),
    "no longer runs, a best epoch to start from": (
        {"optimizer.schedule": "slanted_triangular", "stages.1.start_from": "best", "stages.0.epochs": 2},
        {},
    ),
    "little room": ({}, {"keep_gb": 0.0009}),
    "projected attention": ({"pals.size": 16, "pals.num_heads": 2, "pals.tasks": ["sst", "qqp", "sts"]}, {}),
    "two models, a teacher": (
        {"proximal.weight": 0.1, "proximal.tasks": ["sst"]},
        {"keep_models": 2, "reuse": False},
    ),
    "an average": ({"optimizer.average_power": 1.0}, {}),
}


@pytest.mark.parametrize("case", CASES)
def test_disk_need_bounds_what_a_sweep_uses(case: str, prepare: Prepare, monkeypatch: pytest.MonkeyPatch) -> None:
    changes, settings = CASES[case]
    options, inputs, plan = prepare(changes, checkpoint_steps=2, **settings)
    configs: Sequence[TrialConfig] = grid_configs(plan.space)
    folders, peak = (Path(plan.options.folder), plan.options.cache_folder / "stages"), [0]
    checksum = mtlib.runtime.checksum.file_crc32

    def measure(path: Path) -> int:
        peak.append(disk_usage(*folders))  # a new state is written before the old ones are deleted
        return checksum(path)

    monkeypatch.setattr(mtlib.checkpoints.state, "file_crc32", measure)
    records = train_sweep(plan, configs)
    write_sweep(plan.options.folder, {"name": "tiny"})
    prune_weights(plan.options.folder, records, plan.options.keep_models)
    write_caches(plan.options.folder, [])
    encoder = load_encoder(plan.space.base.encoder.name)
    measure = functools.cache(lambda config: measure_model(config, encoder))
    need = disk_need(shared_paths(options, inputs), inputs, measure, options, 1)
    assert need.total / 3 < max(peak) <= need.total
