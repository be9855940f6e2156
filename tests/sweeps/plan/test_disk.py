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
from search_spaces.space import Grid, SearchSpace, grid_configs, load_space
from sweeps.options import SweepOptions, SweepPlan
from sweeps.plan.disk import (
    BYTES_PER_EPOCH,
    BYTES_PER_TABLE,
    BYTES_PER_TRIAL,
    disk_need,
    expected_best,
    measure_model,
    most_best,
    record_bytes,
    state_bytes,
)
from sweeps.plan.inputs import SweepInputs, read_inputs
from sweeps.plan.report import stored_ends
from sweeps.reuse.weight_pruning import prune_weights
from tests.combinations import METHODS
from tests.prepared import inputs_of
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
    return inputs_of(load_space("smart_lambda"), rows)


@pytest.mark.parametrize(
    ("config", "copies"),
    [
        (PLAIN, 3),
        (PLAIN.override(TEACHER), 4),
        (FROM_BEST, 4),
        (FROM_BEST.override(TEACHER), 5),
        (SUMMED, 3),
        (SUMMED.override({"gradients": "excess_mtl"}), 5),
    ],
)
def test_state_holds_weights_moments_teacher_and_best_weights(config: TrialConfig, copies: int) -> None:
    assert state_bytes(config, four_thousand) == copies * 4000


@pytest.mark.parametrize("method", ["plain", "low rank", "learned weights", "lora, pals, averages"])
def test_model_is_measured_without_being_built(
    method: str, tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder
) -> None:
    config = tiny_config.override({"smart.weight": 0, **METHODS[method]})
    weights = MultiTaskModel(config, tiny_encoder).parameters()
    kept = [weight for weight in weights if weight.requires_grad or config.adapter.method == "none"]
    assert measure_model(config, tiny_encoder) == 4 * sum(weight.numel() for weight in kept)


def test_predictions_count_from_the_epoch_where_their_task_is_active(inputs: SweepInputs) -> None:
    config = TrialConfig(stages=TWO_STAGES).override({"tasks.sst.scored_train_rows": 40})
    qqp, sst = 100 * (20 + 4) + BYTES_PER_TABLE, (10 + 40) * (20 + 4 * 5) + 2 * BYTES_PER_TABLE
    assert record_bytes(config, inputs) == 5 * qqp + 3 * sst + 5 * BYTES_PER_EPOCH + BYTES_PER_TRIAL


def test_models_and_stages_that_are_kept_limit_the_need(inputs: SweepInputs) -> None:
    grid: Grid = {"tasks.sst.batch_size": tuple(range(8, 28))}
    space = SearchSpace(name="tiny", question="?", base=TrialConfig(stages=TWO_STAGES), grid=grid)
    inputs, ends = dataclasses.replace(inputs, space=space), grid_configs(space)

    def need(num_best: Callable[[TrialConfig], int] = most_best, **changes: Any) -> int:
        return disk_need(dataclasses.replace(ALL, **changes), inputs, ends, four_thousand, 2, num_best)

    weights = {1: 3 * 1 + 2 * 3, 2: 3 * 2 + 2 * 3, 100: 3 * 20}  # one for each of three scores, all of two that run
    assert need(keep_models=2) - need(keep_models=1) == 4000 * (weights[2] - weights[1])
    assert need(keep_models=100) - need(keep_models=2) == 4000 * (weights[100] - weights[2])
    fewer = need(reuse=False) - need(expected_best, reuse=False)
    assert fewer == 4000 * 20, "two of three scores are expected to have one best epoch"
    assert need(keep_gb=5e-6) - need(reuse=False) == 5000


Prepare = Callable[..., tuple[SweepOptions, SweepInputs, SweepPlan]]


@pytest.fixture
def prepare(tmp_path: Path, tiny_folder: Path, tiny_encoder_folder: Path, tiny_config: TrialConfig) -> Prepare:
    """A small sweep over three batch sizes, two stages each, prepared as by `sweeps/run.py`."""

    def make(changes: dict[str, Any], **settings: Any) -> tuple[SweepOptions, SweepInputs, SweepPlan]:
        short = {"smart.weight": 0, "stages.1.steps_per_epoch": 6, "optimizer.learning_rate": 3e-3}
        base = tiny_config.override({"encoder.name": str(tiny_encoder_folder), **short, **changes})
        space = SearchSpace(name="tiny", question="?", base=base, grid={"tasks.sst.batch_size": (8, 15, 30)})
        options = SweepOptions(space="tiny", name="tiny", storage=str(tmp_path), data=tiny_folder, **settings)
        inputs = read_inputs(space, tiny_folder)
        return options, inputs, SweepPlan(options=options, space=space, data_folder=tiny_folder)

    return make


def disk_usage(*folders: Path) -> int:
    """Bytes of the blocks that files take, hard links counted once."""
    files = (path.stat() for folder in folders for path in folder.rglob("*") if path.is_file())
    return sum({status.st_ino: 512 * status.st_blocks for status in files}.values())


CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a shared stage": ({}, {}),
    "no longer runs, a best epoch to start from": (
        {"optimizer.schedule": "slanted_triangular", "stages.1.start_from": "best", "stages.0.epochs": 2},
        {},
    ),
    "two models, a teacher": (
        {"proximal.weight": 0.1, "proximal.tasks": ["sst"]},
        {"keep_models": 2, "reuse": False},
    ),
}


@pytest.mark.parametrize("case", [pytest.param(name, marks=[pytest.mark.slow] * ("two" not in name)) for name in CASES])
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
    need = disk_need(options, inputs, stored_ends(options, inputs), measure, 1, most_best)
    assert need / 3 < max(peak) <= need
