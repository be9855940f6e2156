"""Estimates of a sweep's disk: parts by hand, and the total against a trained sweep."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import mtlib.checkpoints.best_weights
import mtlib.checkpoints.state
import mtlib.runtime.checksum
from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from mtlib.model.encoder import load_encoder
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
    DiskEstimate,
    describe_disk,
    entry_bytes,
    epochs_by_score,
    estimate_disk,
    expected_weights,
    prediction_bytes,
    state_bytes,
)
from sweeps.setup.inputs import SweepInputs, first_tables, read_points
from sweeps.setup.model_size import EncoderSize, measure_encoder
from sweeps.setup.report import shared_paths
from sweeps.setup.stage_tree import Segment, simulate_training
from tests.sweeps.lanes.plain_sweep import train_sweep

ROWS = {"sst": 100, "qqp": 1000, "sts": 50}
ENCODER = EncoderSize(num_parameters=1000)
ALL = SweepOptions(space="tiny", name="tiny", storage="/storage", keep_gb=1000, keep_models=10**6)

TWO_STAGES = (StageConfig(tasks=("qqp",), epochs=2), StageConfig(tasks=("sst",), epochs=3))
PLAIN = TrialConfig(stages=(StageConfig(tasks=("sst",)),))
FROM_BEST = TrialConfig(stages=(StageConfig(tasks=("sst",)), StageConfig(tasks=("sst",), start_from="best")))
TEACHER = {"proximal.weight": 1e-9, "proximal.tasks": ["sst"]}


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


def test_best_epochs_of_a_task_start_where_it_becomes_active() -> None:
    assert sorted(epochs_by_score(TrialConfig(stages=TWO_STAGES))) == [(1, 2, 3, 4, 5), (3, 4, 5), (3, 4, 5)]
    assert epochs_by_score(PLAIN) == [(1,), (1,)]


def test_epochs_that_are_not_scored_have_neither_predictions_nor_best_weights(inputs: SweepInputs) -> None:
    config = TrialConfig(stages=TWO_STAGES).override({"stages.0.score_every": 2, "stages.1.score_every": 2})
    assert epochs_by_score(config) == [(4, 5), (2, 4, 5), (4, 5)]  # SST, QQP, overall
    found = [size / 4000 for size in expected_weights(config, None, 1, ENCODER)]
    late = 1 - 2 / 3 * (1 / 2) ** 2
    assert found == pytest.approx([0, 1 / 3, 0, late, late])
    qqp, sst = 100 * (20 + 4) + BYTES_PER_TABLE, (10 + 100) * (20 + 4 * 5) + 2 * BYTES_PER_TABLE
    sizes = [prediction_bytes(config, inputs, epochs) for epochs in range(6)]
    assert sizes == [0, 0, qqp, qqp, 2 * qqp + sst, 3 * qqp + 2 * sst]


def test_one_epoch_can_be_best_for_all_tasks() -> None:
    assert expected_weights(PLAIN, None, 1, ENCODER) == [4000]
    assert expected_weights(PLAIN, None, 0.25, ENCODER) == [pytest.approx(4000 * (1 - 0.75**2))]


def test_expected_number_of_distinct_best_epochs() -> None:
    config = TrialConfig(stages=TWO_STAGES)
    found = [size / 4000 for size in expected_weights(config, None, 1, ENCODER)]
    late = 1 - 4 / 5 * (2 / 3) ** 2  # QQP draws among five epochs, SST and the overall score among three
    assert found == pytest.approx([1 / 5, 1 / 5, late, late, late])
    (first, _), *_ = paths_of(config)
    assert [size / 4000 for size in expected_weights(config, first.cut, 1, ENCODER)] == pytest.approx([1 / 2, 1 / 2])


@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        (PLAIN, 3),
        (PLAIN.override({**TEACHER, "proximal.weight": 0}), 3),
        (PLAIN.override(TEACHER), 4),
        (FROM_BEST.override({"stages.1.start_from": "last"}), 3),
        (FROM_BEST, 4),
        (FROM_BEST.override(TEACHER), 5),
        (PLAIN.override({"encoder.trained_layers": []}), 1),
    ],
)
def test_state_holds_moments_of_trained_weights_and_the_best_weights(config: TrialConfig, parameters: int) -> None:
    assert state_bytes(config, 0, ENCODER) == parameters * 4000


def test_sweep_without_sharing_keeps_records_and_best_weights(inputs: SweepInputs) -> None:
    configs = [TrialConfig(stages=TWO_STAGES).override({"tasks.sst.batch_size": size}) for size in (8, 16)]
    disk = estimate_disk(paths_of(*configs, shares=False), inputs, ENCODER, dataclasses.replace(ALL, replicates=3), 1)
    each = prediction_bytes(configs[0], inputs, 5) + 5 * BYTES_PER_EPOCH + BYTES_PER_TRIAL
    assert disk.records == 6 * each
    assert disk.weights == round(6 * sum(expected_weights(configs[0], None, 1, ENCODER)))
    assert (disk.stages, disk.running) == (0, 3 * 12_000)
    assert disk.end == disk.records + disk.weights
    assert disk.peak == disk.end + max(disk.records, 36_000)
    assert disk.max_bytes == disk.records + 6 * 3 * 4000 + max(disk.records, 36_000)


def test_shared_stage_counts_once(inputs: SweepInputs) -> None:
    configs = [TrialConfig(stages=TWO_STAGES).override({"tasks.sst.batch_size": size}) for size in (8, 16)]
    paths = paths_of(*configs)
    (first, second), (same, third) = paths
    assert first is same
    disk = estimate_disk(paths, inputs, ENCODER, ALL, 1)
    assert disk.stages == sum(entry_bytes(segment, inputs, ENCODER) for segment in (first, second, third))
    early, late = expected_weights(configs[0], first.cut, 1, ENCODER), expected_weights(configs[0], None, 1, ENCODER)
    assert disk.weights == round(sum(early) + 2 * sum(late[2:]))


def test_without_room_spare_stages_are_evicted_first(inputs: SweepInputs) -> None:
    paths = paths_of(*(TrialConfig(stages=TWO_STAGES).override({"tasks.sst.batch_size": size}) for size in (8, 16)))
    shared = entry_bytes(paths[0][0], inputs, ENCODER)
    one = shared + sum(expected_weights(paths[0][0].config, paths[0][0].cut, 1, ENCODER))
    for room, kept in ((0, 0), (math.ceil(one) - 1, 0), (math.ceil(one), shared)):
        disk = estimate_disk(paths, inputs, ENCODER, dataclasses.replace(ALL, keep_gb=room / 1e9), 1)
        assert disk.stages == kept
    twice = dataclasses.replace(ALL, keep_gb=math.ceil(2 * one) / 1e9, replicates=2)
    assert estimate_disk(paths, inputs, ENCODER, twice, 1).stages == 2 * shared


def test_keep_models_lowers_the_estimate(inputs: SweepInputs) -> None:
    configs = [TrialConfig(stages=TWO_STAGES).override({"tasks.sst.batch_size": size}) for size in range(8, 28)]
    found = []
    for num_models in (1, 10, 20):
        keeping = dataclasses.replace(ALL, keep_models=num_models)
        disk = estimate_disk(paths_of(*configs, shares=False), inputs, ENCODER, keeping, 1)
        found.append(disk.weights)
    assert found[0] < found[1] < found[2]
    assert found[0] <= 3 * 4000, "three names, and a trial each"


def test_too_little_free_disk_is_a_warning() -> None:
    disk = DiskEstimate(records=1_500, weights=2 * 10**9, stages=10**9, running=500_000, max_bytes=4 * 10**9)
    lines = describe_disk(disk, 4 * 10**9, 2)
    assert lines == [
        "Disk: about 3.0 GB at the end: best weights 2.0 GB, kept stages 1.0 GB, predictions and curves 1.5 kB.",
        "Disk while 2 trials run: about 3.0 GB, at most 4.0 GB; 4.0 GB free.",
    ]
    assert describe_disk(disk, 4 * 10**9 - 1, 1)[2].startswith("Warning: the sweep may need more disk than is free")


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
    "projected attention on a frozen encoder": (
        {"pals.size": 16, "pals.num_heads": 2, "pals.tasks": ["sst", "qqp", "sts"], "encoder.trained_layers": []},
        {},
    ),
    "two models, a teacher": (
        {"proximal.weight": 0.1, "proximal.tasks": ["sst"]},
        {"keep_models": 2, "reuse": False},
    ),
    "an average": ({"optimizer.average_power": 1.0}, {}),
}


@pytest.mark.parametrize("case", CASES)
def test_disk_estimate_matches_usage(case: str, prepare: Prepare, monkeypatch: pytest.MonkeyPatch) -> None:
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
    encoder = measure_encoder(load_encoder(plan.space.base.encoder.name))
    disk = estimate_disk(shared_paths(options, inputs), inputs, encoder, options, 1)
    for used, foretold in ((disk_usage(*folders), disk.end), (max(peak), disk.peak)):
        assert used / 1.5 < foretold < used * 1.5, (used, disk)
    assert max(disk.peak, *peak) <= disk.max_bytes
