"""What a sweep learns from: which data, which encoder, which settings, and what is refused before it starts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mtlib.config import TrialConfig
from mtlib.config_training import StageConfig
from mtlib.data import content_fingerprint, read_folder
from mtlib.demo import DEMO_NOTE, DEMO_OVERRIDES
from search_spaces.space import Choice, Float, SearchSpace, load_space
from sweeps import prepare as prepare_module
from sweeps.options import SweepOptions
from sweeps.prepare import active_tasks, grid_configs, planned_configs, prepare

Options = Callable[..., SweepOptions]


@pytest.fixture
def options(tmp_path: Path) -> Options:
    def build(**changes: Any) -> SweepOptions:
        return SweepOptions(**{"space": "smart_lambda", "name": "first", "storage": tmp_path, **changes})

    return build


def space_with(base: TrialConfig, **changes: Any) -> SearchSpace:
    return SearchSpace(**{"name": "trial", "question": "?", "base": base, "grid": {"smart.weight": (0.0,)}, **changes})


def test_without_data_and_encoder_the_demonstration_is_used_and_said(options: Options, tmp_path: Path) -> None:
    material = prepare(options())
    base = material.space.base
    assert material.notes == (DEMO_NOTE,)
    assert material.data_folder.is_relative_to(tmp_path / ".cache")
    assert Path(base.encoder.name).is_relative_to(tmp_path / ".cache")
    changed = load_space("smart_lambda").base.override({**DEMO_OVERRIDES, "encoder.name": base.encoder.name})
    assert base == changed


def test_with_data_alone_the_spaces_own_encoder_is_meant(options: Options, tiny_folder: Path) -> None:
    material = prepare(options(data=tiny_folder))
    assert material.space.base == load_space("smart_lambda").base
    assert material.space.base.encoder.name == "bert-base-uncased"
    assert material.notes == ()


def test_with_an_encoder_alone_the_demonstration_corpus_is_used_with_the_spaces_settings(options: Options) -> None:
    material = prepare(options(encoder="prajjwal1/bert-tiny"))
    assert material.space.base == load_space("smart_lambda").base.override({"encoder.name": "prajjwal1/bert-tiny"})
    assert "demonstration corpus" in material.notes[0]


def test_data_and_encoder_are_taken_as_named(options: Options, tiny_folder: Path) -> None:
    material = prepare(options(data=tiny_folder, encoder="roberta-base", seed=3))
    tables = read_folder(tiny_folder, ("sst", "qqp", "sts"))
    assert material.space.base.encoder.name == "roberta-base"
    assert material.space.base.seed == 3
    assert material.fingerprint == content_fingerprint(tables)
    assert material.num_rows == {key: len(table.ids) for key, table in tables.items()}
    assert material.num_train_rows == {"sst": 30, "qqp": 70, "sts": 22}


def test_set_comes_last_and_wins(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare_module, "DEMO_OVERRIDES", {"optimizer.learning_rate": 0.5, "encoder.max_length": 32})
    assert prepare(options()).space.base.optimizer.learning_rate == 0.5
    base = prepare(options(changes={"optimizer.learning_rate": "0.125"})).space.base
    assert (base.optimizer.learning_rate, base.encoder.max_length) == (0.125, 32)


def test_set_reaches_every_trial(options: Options, tiny_folder: Path) -> None:
    space = prepare(options(data=tiny_folder, changes={"stages.1.epochs": "3"})).space
    assert {config.stages[1].epochs for config in grid_configs(space)} == {3}
    assert [config.smart.weight for config in grid_configs(space)] == [0.0, 0.3, 0.45, 0.5, 0.7, 1.0, 3.0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"optimizer.learning_rte": "1"}, r"^--set: unknown key .* did you mean 'optimizer\.learning_rate'"),
        ({"optimizer.learning_rate": "fast"}, r"^--set: optimizer\.learning_rate must be a number, got 'fast'$"),
        ({"encoder.dropout": "1.5"}, r"^--set: encoder\.dropout must be at least 0 and below 1, got 1\.5$"),
        ({"stages.7.epochs": "1"}, r"^--set: stages has positions 0\.\.1, got '7' in 'stages\.7\.epochs'$"),
        ({"smart.weight": "2"}, r"^--set must leave alone what space 'smart_lambda' searches \(smart\.weight\), got"),
        ({"encoder.name": "x"}, r"^encoder\.name must be given by --encoder, not by --set, got encoder\.name=x$"),
        ({"seed": "1"}, r"^seed must be given by --seed, not by --set"),
        ({"replicate": "1"}, r"^replicate must be given by --replicates, not by --set"),
    ],
)
def test_a_wrong_set_is_one_line(options: Options, tiny_folder: Path, changes: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        prepare(options(data=tiny_folder, changes=changes))


def test_an_unknown_space_is_refused(options: Options) -> None:
    with pytest.raises(ValueError, match="unknown search space 'smart'"):
        prepare(options(space="smart"))


def test_a_missing_file_is_named(options: Options, tiny_folder: Path, tmp_path: Path) -> None:
    for path in tiny_folder.glob("*.csv"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "sts-dev.csv").unlink()
    with pytest.raises(ValueError, match=r"lacks sts-dev\.csv"):
        prepare(options(data=tmp_path))


def test_unusable_rows_are_counted(options: Options, tiny_folder: Path, tmp_path: Path) -> None:
    for path in tiny_folder.glob("*.csv"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    with (tmp_path / "ids-sst-dev.csv").open("a") as file:
        file.write("99\tlast\ta fine film\t\n")
    material = prepare(options(data=tmp_path))
    assert material.skipped == ("ids-sst-dev.csv:15: sentiment is blank",)
    assert material.num_rows["sst", "dev"] == 13


def test_a_storage_that_cannot_be_written_is_one_line(options: Options, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ValueError, match="--storage must be a place that can be written"):
        prepare(options(storage=tmp_path / "file"))


def test_a_space_without_a_grid_needs_a_search(
    options: Options, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = space_with(load_space("smart_lambda").base, grid={}, ranges={"smart.weight": Float(low=0, high=1)})
    monkeypatch.setattr(prepare_module, "load_space", lambda _name: space)
    with pytest.raises(ValueError, match="--search must be tpe or random for space 'trial', which has no grid"):
        prepare(options(data=tiny_folder))
    assert prepare(options(data=tiny_folder, search="tpe")).space.ranges == space.ranges


def test_only_tasks_that_some_trial_trains_are_read() -> None:
    base = TrialConfig(stages=(StageConfig(tasks=("sst",)),))
    assert active_tasks(space_with(base)) == ("sst",)
    assert active_tasks(space_with(base, grid={"stages.0.tasks": (("sst",), ("sts",))})) == ("sst", "sts")
    ranges = {"stages.0.tasks": Choice(values=(("sts",), ("qqp",)))}
    assert active_tasks(space_with(base, ranges=ranges)) == ("sst", "qqp", "sts")


def test_trials_that_are_yet_to_be_drawn_are_planned_as_the_base(options: Options) -> None:
    space = load_space("smart_lambda")
    assert planned_configs(options(search="random", trials=3), space) == [space.base] * 3
    assert planned_configs(options(), space) == grid_configs(space)
