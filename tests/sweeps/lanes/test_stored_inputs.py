"""What comes out of the object store is what went in, read in place; other rows and weights are read by a task."""

import errno
import os
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from mtlib.checkpoints.initial_weights import read_starting_weights
from mtlib.config.trial import TrialConfig
from mtlib.data.load import read_data
from mtlib.data.token_cache import Corpus, tokenize
from mtlib.model.encoder import PretrainedEncoder, build_encoder
from sweeps.lanes.stored_inputs import InputsReader, put_inputs
from sweeps.options import SweepPlan
from tests.sweeps.conftest import MakePlan
from tests.training_inputs import read_inputs_of

pytestmark = pytest.mark.ray


@pytest.fixture
def plan(
    private_ray: None,  # noqa: ARG001 - must be there
    make_plan: MakePlan,
    tiny_folder: Path,
    tiny_encoder_folder: Path,
    tiny_encoder: PretrainedEncoder,
    tiny_config: TrialConfig,
    tmp_path: Path,
) -> SweepPlan:
    """A sweep whose folders are its own, over starting weights in half precision or none."""
    data, encoder = (shutil.copytree(folder, tmp_path / folder.name) for folder in (tiny_folder, tiny_encoder_folder))
    weights = {name: (weight + 1).bfloat16() for name, weight in tiny_encoder.weights.items()}
    save_file(weights, tmp_path / "start.safetensors")
    base = tiny_config.override({"encoder.name": str(encoder)})
    grid = {"encoder.start_from": (None, str(tmp_path / "start.safetensors"))}
    return make_plan(base=base, grid=grid, data_folder=data)


def open_reader(plan: SweepPlan) -> InputsReader:
    return InputsReader(put_inputs(read_inputs_of(plan), plan.data_folder, plan.options.cache_folder))


def assert_same_corpus(found: Corpus, expected: Corpus) -> None:
    assert found.keys() == expected.keys()
    for key, table in expected.items():
        same = found[key]
        assert (same.fingerprint, same.special) == (table.fingerprint, table.special)
        assert (same.ids, same.num_own_rows) == (table.ids, table.num_own_rows)
        arrays, wanted = ((one.labels, *one.pieces, *one.offsets) for one in (same, table))
        for one, other in zip(arrays, wanted, strict=True):
            assert one.dtype == other.dtype
            assert np.array_equal(one, other)
            assert not one.flags.writeable


def test_lane_reads_what_the_driver_had_without_any_of_its_folders(
    plan: SweepPlan, tiny_folder: Path, tiny_encoder: PretrainedEncoder, tmp_path: Path
) -> None:
    started = plan.space.configs[-1]
    start = read_starting_weights(started.encoder)
    assert start is not None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reader = open_reader(plan)
        for folder in (plan.data_folder, Path(plan.space.base.encoder.name), plan.options.cache_folder):
            shutil.rmtree(folder)
        (tmp_path / "start.safetensors").unlink()
        corpus, found = reader.read_corpus(plan.space.base), reader.read_start(started)
    tables = read_data(plan.space.base, tiny_folder)
    assert_same_corpus(corpus, tokenize(tables, tiny_encoder.tokenizer, tmp_path / "b"))
    assert found is not None
    assert found.keys() == start.keys()
    assert all(torch.equal(weight, start[name].float()) for name, weight in found.items())
    assert reader.read_start(plan.space.base) is None
    encoder = reader.read_encoder(plan.space.base)
    assert encoder.fingerprint == tiny_encoder.fingerprint
    assert encoder.max_length == tiny_encoder.max_length
    built = build_encoder(encoder, plan.space.base.encoder).state_dict()
    assert all(torch.equal(weight, tiny_encoder.weights[name]) for name, weight in built.items())
    for weight in built.values():  # the store's memory would end the process
        weight.zero_()
    again = build_encoder(encoder, plan.space.base.encoder).state_dict()
    assert all(torch.equal(weight, tiny_encoder.weights[name]) for name, weight in again.items())


@pytest.mark.slow
def test_data_and_weights_of_no_point_of_the_space_are_read_on_the_drivers_node(
    plan: SweepPlan, tiny_encoder: PretrainedEncoder, tmp_path: Path
) -> None:
    reader = open_reader(plan)
    other = plan.space.base.override({"stages.1.tasks": ["sst"], "data.hold_out": 0.2})
    expected = tokenize(read_data(other, plan.data_folder), tiny_encoder.tokenizer, tmp_path / "b")
    found = reader.read_corpus(other)
    assert_same_corpus(found, expected)
    assert reader.read_corpus(other) is found
    shutil.copy(tmp_path / "start.safetensors", tmp_path / "other.safetensors")
    weights = reader.read_start(other.override({"encoder.start_from": str(tmp_path / "other.safetensors")}))
    assert weights is not None
    assert weights.keys() == tiny_encoder.weights.keys()
    gone = other.override({"encoder.start_from": str(tmp_path / "gone.safetensors")})
    with pytest.raises(ValueError, match=r"^encoder\.start_from must be .*gone\.safetensors, which is missing$"):
        reader.read_start(gone)


@pytest.mark.slow
def test_disk_that_the_driver_cannot_read_is_an_error_of_the_storage(
    plan: SweepPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    reader = open_reader(plan)
    monkeypatch.setattr("sweeps.lanes.stored_inputs.read_tokens", fail)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)) as caught:
        reader.read_corpus(plan.space.base.override({"data.hold_out": 0.2}))
    assert type(caught.value) is OSError
