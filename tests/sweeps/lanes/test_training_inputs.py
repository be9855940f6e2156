"""What trials are trained from: each table once, the corpus of every point, and each of the starting weights."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mtlib.config.trial import TrialConfig
from mtlib.data.load import read_data
from mtlib.data.token_cache import tokenize
from mtlib.model.encoder import PretrainedEncoder
from search_spaces.space import SearchSpace
from sweeps.lanes.training_inputs import TrainingInputs, data_key, read_training_inputs
from sweeps.plan.inputs import read_points
from tests.own_tokenizers import letter_tokenizer

ReadInputs = Callable[..., TrainingInputs]
TASK_SPLITS = {(task, split) for task in ("sst", "qqp", "sts") for split in ("train", "dev")}


@pytest.fixture
def read(tiny_folder: Path, tiny_encoder: PretrainedEncoder, tmp_path: Path) -> ReadInputs:
    """Reads the inputs of a space with this base and grid."""

    def read(base: TrialConfig, **grid: tuple[Any, ...]) -> TrainingInputs:
        searched: dict[str | tuple[str, ...], tuple[Any, ...]] = {"seed": (1, 2)}
        searched |= {key.replace("__", "."): values for key, values in grid.items()}
        space = SearchSpace(name="tiny", question="?", base=base, grid=searched)
        encoders = {space.base.encoder.name: tiny_encoder}
        return read_training_inputs(space, read_points(space, tiny_folder), encoders, tiny_folder, tmp_path)

    return read


def augmented(config: TrialConfig, folder: Path) -> TrialConfig:
    more = {"task": "sst", "path": str(folder / "ids-sst-dev.csv"), "role": "augment"}
    return config.override({f"data.sources.more.{key}": value for key, value in more.items()})


def test_configurations_that_read_the_same_rows_share_a_corpus(read: ReadInputs, tiny_config: TrialConfig) -> None:
    base, plans = tiny_config, (("sst", "qqp", "sts"), ("sst", "qqp"))
    inputs = read(base, stages__1__tasks=plans, optimizer__learning_rate=(1e-3, 1e-5))
    whole, fewer = (base.override({"stages.1.tasks": list(tasks)}) for tasks in plans)
    assert set(inputs.corpora) == {data_key(whole), data_key(fewer)}
    assert set(inputs.corpora[data_key(whole)]) == TASK_SPLITS
    assert set(inputs.corpora[data_key(fewer)]) == {key for key in TASK_SPLITS if key[0] != "sts"}
    for key, table in inputs.corpora[data_key(fewer)].items():
        assert inputs.corpora[data_key(whole)][key] is table


def test_only_settings_that_decide_which_rows_are_read_change_the_key(
    tiny_config: TrialConfig, tiny_folder: Path
) -> None:
    key = data_key(tiny_config)
    same: list[dict[str, Any]] = [{"seed": 5}, {"data.bucket_batches": 7}, {"smart.weight": 0}, {"stages.0.epochs": 9}]
    assert {data_key(tiny_config.override(changes)) for changes in same} == {key}
    assert data_key(TrialConfig.from_json(tiny_config.to_json())) == key
    changed: list[dict[str, Any]] = [{"data.hold_out": 0.2}, {"stages.1.tasks": ["sst"]}, {"tasks.qqp.prefix": "a "}]
    others = [tiny_config.override(changes) for changes in changed]
    assert len({key, *map(data_key, (*others, augmented(tiny_config, tiny_folder)))}) == 5


def test_each_encoder_reads_the_tables_with_its_own_tokenizer(
    tiny_config: TrialConfig, tiny_folder: Path, tiny_encoder: PretrainedEncoder, tmp_path: Path
) -> None:
    other = dataclasses.replace(tiny_encoder, tokenizer=letter_tokenizer())
    encoders, base = {"a": tiny_encoder, "b": other, "c": tiny_encoder}, tiny_config.override({"encoder.name": "a"})
    space = SearchSpace(name="tiny", question="?", base=base, grid={"encoder.name": tuple(encoders)})
    inputs = read_training_inputs(space, read_points(space, tiny_folder), encoders, tiny_folder, tmp_path)
    found = {config.encoder.name: inputs.corpora[data_key(config)] for config in space.configs}
    for name, corpus in found.items():
        expected = tokenize(read_data(space.base, tiny_folder), encoders[name].tokenizer, tmp_path)
        assert corpus.keys() == expected.keys()
        assert all(corpus[key].fingerprint == table.fingerprint for key, table in expected.items())
    weights = sum(weight.nbytes for weight in tiny_encoder.weights.values())
    tokens = sum(table.num_bytes for name in ("a", "b") for table in found[name].values())
    assert inputs.num_bytes == 3 * weights + tokens
