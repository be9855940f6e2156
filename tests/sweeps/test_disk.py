"""How much disk a sweep needs."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from mtlib.config import TrialConfig
from mtlib.config_training import StageConfig
from mtlib.encoder import PretrainedEncoder
from search_spaces.space import load_space
from sweeps.disk import (
    Disk,
    copies_in_state,
    count_parameters,
    describe_disk,
    estimate_disk,
    in_units,
    prediction_bytes,
)
from sweeps.prepare import Material

ROWS = {"sst": 100, "qqp": 1000, "sts": 50}


@pytest.fixture
def material() -> Material:
    rows = {(task, split): count // (10 if split == "dev" else 1) for task, count in ROWS.items() for split in SPLITS}
    return Material(
        space=load_space("smart_lambda"),
        data_folder=Path("/data"),
        num_rows=rows,
        fingerprint="0",
        skipped=(),
        notes=(),
    )


SPLITS = ("train", "dev")


def test_the_parameters_of_a_local_encoder_are_read_from_its_header(
    tiny_encoder_folder: Path, tiny_encoder: PretrainedEncoder
) -> None:
    pooler = 32 * 32 + 32  # in the file, not in what is trained
    assert count_parameters(str(tiny_encoder_folder)) == tiny_encoder.num_parameters + pooler


def test_weights_in_several_files_are_summed(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(2, 3)}, tmp_path / "model-00001-of-00002.safetensors", metadata={"format": "pt"})
    save_file({"b": torch.zeros(5), "c": torch.zeros(())}, tmp_path / "model-00002-of-00002.safetensors")
    (tmp_path / "pytorch_model.bin").write_bytes(bytes(400))
    assert count_parameters(str(tmp_path)) == 12


def test_other_weights_are_counted_by_their_size(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(bytes(400))
    assert count_parameters(str(tmp_path)) == 100


def test_an_encoder_that_is_not_here_has_no_known_size(tmp_path: Path) -> None:
    assert count_parameters(str(tmp_path)) is None
    assert count_parameters("no-such-owner/no-such-encoder") is None


def test_predictions_are_counted_for_every_epoch_since_their_task_is_active(material: Material) -> None:
    config = TrialConfig(
        stages=(StageConfig(tasks=("qqp",), epochs=2), StageConfig(tasks=("sst",), epochs=3)),
    ).override({"tasks.sst.scored_train_rows": 40})
    qqp, sst = 100 * (20 + 4), (10 + 40) * (20 + 4 * 5)
    assert prediction_bytes(config, material) == 5 * qqp + 3 * sst


def test_scored_train_rows_are_no_more_than_there_are(material: Material) -> None:
    config = TrialConfig(stages=(StageConfig(tasks=("sst",)),)).override({"tasks.sst.scored_train_rows": 2000})
    assert prediction_bytes(config, material) == (10 + 100) * (20 + 4 * 5)


def test_every_trial_keeps_its_best_weights_per_task_and_overall(material: Material) -> None:
    configs = [
        TrialConfig(stages=(StageConfig(tasks=("sst", "sts")),)),
        TrialConfig(stages=(StageConfig(tasks=("qqp",)),)),
    ]
    disk = estimate_disk(configs, 3, material, 1000)
    assert disk.weights == 3 * ((2 + 1) + (1 + 1)) * 4000
    assert disk.state == 3 * 12000
    assert disk.predictions == 3 * sum(prediction_bytes(config, material) for config in configs)


TEACHER = {"proximal.weight": 1e-9, "proximal.tasks": ["sst"]}
PLAIN = TrialConfig(stages=(StageConfig(tasks=("sst",)),))
FROM_BEST = TrialConfig(stages=(StageConfig(tasks=("sst",)), StageConfig(tasks=("sst",), start_from="best")))


@pytest.mark.parametrize(
    ("config", "copies"),
    [
        (PLAIN, 0),
        (PLAIN.override({**TEACHER, "proximal.weight": 0}), 0),
        (PLAIN.override(TEACHER), 1),
        (FROM_BEST.override({"stages.1.start_from": "last"}), 0),
        (FROM_BEST, 1),
        (FROM_BEST.override(TEACHER), 2),
    ],
)
def test_a_state_holds_a_teachers_weights_and_those_of_the_best_epoch_where_it_is_gone_back_to(
    config: TrialConfig, copies: int
) -> None:
    assert copies_in_state(config) == copies


def test_states_are_as_large_as_those_of_the_trial_with_most_copies(material: Material) -> None:
    for configs, copies in (([PLAIN, FROM_BEST.override(TEACHER), FROM_BEST], 2), ([FROM_BEST, PLAIN], 1)):
        disk = estimate_disk(configs, 1, material, 1000)
        assert disk.state == 3 * (12_000 + copies * 4000)
        assert disk.weights == len(configs) * 2 * 4000


def test_without_the_encoders_size_predictions_are_still_counted(material: Material) -> None:
    disk = estimate_disk([material.space.base], 1, material, None)
    assert (disk.weights, disk.state) == (None, None)
    assert "checkpoints are not counted" in describe_disk(disk, 1)[0]


def test_too_little_free_disk_is_a_warning() -> None:
    disk = Disk(weights=2_000_000_000, state=500_000, predictions=1_500)
    assert describe_disk(disk, 10**12) == [
        "Disk: at most 2 GB (best weights 2 GB, predictions 1.5 kB, state of each running trial 500 kB); 1 TB free."
    ]
    assert describe_disk(disk, 10**9)[1].startswith("Warning: the sweep may need more disk than is free")


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (1536, "1.54 kB"), (999_999, "1 MB"), (12_345_678, "12.3 MB")],
)
def test_sizes_are_in_decimal_units(size: int, text: str) -> None:
    assert in_units(size) == text
