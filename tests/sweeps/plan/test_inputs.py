"""The inputs of a sweep: data, encoder, settings, and what is refused before it starts."""

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mtlib.config.schema import to_dict
from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from mtlib.data.load import read_data
from mtlib.data.row_sources import HELD, RowSource, read_all_rows
from mtlib.data.tables import Table, content_fingerprint
from mtlib.demo.overrides import DEMO_NOTE, demo_overrides
from results.records.examples import held_out_rows
from results.records.trials import write_sweep
from search_spaces.domain import Choice, Float
from search_spaces.space import SearchSpace, encoder_names, grid_configs, load_space, space_names
from search_spaces.space_source import space_source
from sweeps.options import SweepOptions
from sweeps.plan import inputs as prepare_module
from sweeps.plan.inputs import SweepInputs, find_methods, read_inputs, read_points, sets_searched
from tests.one_line_error import one_line_error
from tests.task_tables import read_folder

Options = Callable[..., SweepOptions]


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One storage for all tests, so that the demonstration is written once; no sweep is created in it."""
    return tmp_path_factory.mktemp("storage")


@pytest.fixture
def options(storage: Path) -> Options:
    def build(**changes: Any) -> SweepOptions:
        return SweepOptions(**{"space": "smart_lambda", "name": "first", "storage": storage, **changes})

    return build


def space_with(base: TrialConfig, **changes: Any) -> SearchSpace:
    return SearchSpace(**{"name": "trial", "question": "?", "base": base, "grid": {"smart.weight": (0.0,)}, **changes})


def test_demonstration_is_the_default_and_is_mentioned(options: Options, storage: Path) -> None:
    inputs = read_inputs(options())
    base = inputs.space.base
    assert inputs.notes == (DEMO_NOTE,)
    assert inputs.data_folder.is_relative_to(storage / ".cache")
    assert Path(base.encoder.name).is_relative_to(storage / ".cache")
    plain = load_space("smart_lambda").base
    assert base == plain.override({**demo_overrides(plain), "encoder.name": base.encoder.name})


NOT_FOR_DEMO = ("layer_scales", "layers_alone", "long_runs", "pals_more_data", "synthetic_data")
"""Spaces that name layers, or files, which the demonstration lacks."""


SHOWN = [name for name in space_names() if name not in NOT_FOR_DEMO]


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name != "orders")) for name in SHOWN])
def test_every_space_can_be_prepared_for_the_demonstration(options: Options, name: str) -> None:
    search = "grid" if load_space(name).grid else "tpe"
    space = read_inputs(options(space=name, search=search)).space
    for config in space.configs:
        assert sum(stage.epochs for stage in config.stages) <= 10
        assert config.encoder.name == space.base.encoder.name


@pytest.mark.parametrize("changes", [{"search": "tpe"}, {"scheduler": "asha"}])
def test_scheduler_is_refused_for_trials_of_different_tasks(options: Options, changes: dict[str, Any]) -> None:
    rule = r"^--search tpe and --scheduler compare trials, which in space 'baselines' train different tasks, got qqp; "
    with pytest.raises(ValueError, match=rule):
        read_inputs(options(space="baselines", **changes))
    assert read_inputs(options(space="baselines", search="grid")).space.name == "baselines"


def test_data_alone_uses_the_spaces_encoder(options: Options, tiny_folder: Path) -> None:
    inputs = read_inputs(options(data=tiny_folder))
    assert inputs.space.base == load_space("smart_lambda").base
    assert inputs.space.base.encoder.name == "bert-base-uncased"
    assert inputs.notes == ()


def test_named_data_and_encoder_are_used(options: Options, tiny_folder: Path) -> None:
    inputs = read_inputs(options(data=tiny_folder, encoder="roberta-base", seed=3))
    tables = read_folder(tiny_folder, ("sst", "qqp", "sts"))
    assert inputs.space.base.encoder.name == "roberta-base"
    assert inputs.space.base.seed == 3
    assert inputs.fingerprint == content_fingerprint(tables)
    assert inputs.num_rows == {key: len(table.ids) for key, table in tables.items()}
    assert inputs.train_rows_of(inputs.space.base) == {"sst": 30, "qqp": 70, "sts": 22}


def test_set_overrides_everything(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = {"optimizer.learning_rate": 0.5, "encoder.max_length": 32}
    monkeypatch.setattr(prepare_module, "demo_overrides", lambda _config: changed)
    assert read_inputs(options()).space.base.optimizer.learning_rate == 0.5
    base = read_inputs(options(set={"optimizer.learning_rate": "0.125"})).space.base
    assert (base.optimizer.learning_rate, base.encoder.max_length) == (0.125, 32)


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ("model", "{}/model"),
        ("~/model", "{}/home/model"),
        ("{}/far/model", "{}/far/model"),
    ],
)
def test_starting_weights_are_found_from_any_folder(
    options: Options, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    wanted = str(Path(place.format(tmp_path)).resolve())
    changes = {"encoder.start_from": given.format(tmp_path)}
    with pytest.raises(
        ValueError, match=rf"^encoder.start_from must be a folder or a file, got {wanted}, which is miss"
    ):
        read_inputs(options(data=tiny_folder, set=changes))
    Path(wanted).mkdir(parents=True)
    space = read_inputs(options(data=tiny_folder, set=changes)).space
    Path(wanted).rmdir()
    assert {config.encoder.start_from for config in [space.base, *grid_configs(space)]} == {wanted}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"optimizer.learning_rte": "1"}, r"^--set: unknown key .* did you mean 'optimizer\.learning_rate'"),
        ({"optimizer.learning_rate": "fast"}, r"^--set: optimizer\.learning_rate must be a number, got 'fast'$"),
        ({"smart.weight": "2"}, r"^--set must leave alone what space 'smart_lambda' searches \(smart\.weight\), got"),
        ({"encoder.name": "x"}, r"^encoder\.name must be given by --encoder, not by --set, got encoder\.name=x$"),
        ({"seed": "1"}, r"^seed must be given by --seed, not by --set"),
        ({"replicate": "1"}, r"^replicate must be given by --replicates, not by --set"),
        ({"data.hold_out": "0.1"}, r"^data.hold_out must be given by --hold-out, not by --set, got data.hold_out=0.1$"),
    ],
)
def test_invalid_set_is_one_line(options: Options, tiny_folder: Path, changes: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_inputs(options(data=tiny_folder, set=changes))


def test_unwritable_storage_is_one_line(options: Options, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ValueError, match="--storage must be a place that can be written"):
        read_inputs(options(storage=f"{tmp_path}/file"))


def test_set_must_not_change_keys_of_a_named_point(options: Options, tiny_folder: Path) -> None:
    for key, value in (("stages.0.epochs", "1"), ("smart.weight", "1")):
        with pytest.raises(
            ValueError, match=r"must leave alone what space 'orders' searches \(stages, smart\.weight\)"
        ):
            read_inputs(options(space="orders", data=tiny_folder, set={key: value}))
    with pytest.raises(ValueError, match=r"got stages\.0\.epochs=1; 'stages\.\*\.KEY=VALUE' sets a key in all stages"):
        read_inputs(options(space="orders", data=tiny_folder, set={"stages.0.epochs": "1"}))
    changes = {"optimizer.learning_rate": "0.5"}
    space = read_inputs(options(space="orders", data=tiny_folder, set=changes)).space
    assert space.base.optimizer.learning_rate == 0.5
    assert space.published == load_space("orders").published


def test_set_changes_every_stage_of_whole_plans_that_are_searched(options: Options, tiny_folder: Path) -> None:
    changes = {"stages.*.epochs": "3", "stages.*.steps_per_epoch": "7"}
    short = grid_configs(read_inputs(options(space="orders", data=tiny_folder, set=changes)).space)
    plain = grid_configs(load_space("orders"))
    assert {len(config.stages) for config in plain} > {1, 2}
    for old, new in zip(plain, short, strict=True):
        wanted = tuple(dataclasses.replace(stage, epochs=3, steps_per_epoch=7) for stage in old.stages)
        assert new.stages == wanted
    demo = grid_configs(read_inputs(options(space="orders", set=changes)).space)
    assert {(stage.epochs, stage.steps_per_epoch) for config in demo for stage in config.stages} == {(3, 7)}
    with pytest.raises(ValueError, match=r"^--set: order=epoch_round_robin: stages\.0: epochs .* got 1$"):
        read_inputs(options(space="orders", data=tiny_folder, set={"stages.*.epochs": "1"}))


def test_varied_keys_replace_what_the_space_searches(options: Options, tiny_folder: Path) -> None:
    changes = {"smart.weight": "2", "stages.1.sum_losses": "true", "stages.1.order": "batch_round_robin"}
    asked = options(vary={"gradients": "sum,pcgrad"}, set=changes, data=tiny_folder)
    space = read_inputs(asked).space
    assert space.base == load_space("smart_lambda").base.override(changes)
    assert dict(space.grid) == {"gradients": ("sum", "pcgrad")}
    assert not space.ranges
    assert not read_inputs(options(vary={"smart.weight": "0,0.3"}, data=tiny_folder)).space.published


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vary": {"seed": "1,2"}}, "seed must be given by --seed, not by --vary, got seed=1,2"),
        ({"vary": {"smart.wieght": "1,2"}}, "--vary: unknown key 'smart.wieght'; did you mean 'smart.weight'"),
        (
            {"vary": {"smart.weight": "0,1", "smart.epsilon": "1e-5..1e-4"}},
            "--search grid must have a list of values for each key of --vary, got smart.epsilon=1e-5..1e-4",
        ),
        (
            {"vary": {"smart.weight": "0,1"}, "set": {"smart.weight": "1"}},
            "--set must leave alone what --vary searches (smart.weight), got smart.weight=1",
        ),
        (
            {"vary": {"tasks.*.batch_size": "8,16"}, "set": {"tasks.sts.batch_size": "4"}},
            "--set must leave alone what --vary searches (tasks.sst.batch_size, tasks.qqp.batch_size, ",
        ),
    ],
)
def test_mistake_in_varied_keys_is_one_line(
    options: Options, tiny_folder: Path, changes: dict[str, Any], message: str
) -> None:
    assert one_line_error(read_inputs, options(data=tiny_folder, **changes)).startswith(message)


def test_the_base_has_its_own_encoder_among_searched_ones_else_the_first(options: Options, tiny_folder: Path) -> None:
    for names, first in (("a,b", "a"), ("a,bert-base-uncased", "bert-base-uncased")):
        space = read_inputs(options(vary={"encoder.name": names}, data=tiny_folder)).space
        assert space.base.encoder.name == first
        assert [config.encoder.name for config in grid_configs(space)] == names.split(",")
    with pytest.raises(ValueError, match=r"--encoder must be left out where encoder\.name is searched, got c"):
        read_inputs(options(vary={"encoder.name": "a,b"}, encoder="c", data=tiny_folder))


def test_a_space_names_encoders_by_absolute_paths_alone(options: Options, tiny_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    base = load_space("smart_lambda").base
    for name, is_right in (("owner/name", True), (f"{tmp_path}/here", True), ("./here", False), ("/no/such", False)):
        named = {"first": {"encoder.name": name}, "base": {}}
        space = SearchSpace(name="own", question="?", base=base, grid={"encoder_of": named})
        path = tmp_path / "own.py"
        path.write_text(space_source(space))
        if is_right:
            names = (base.encoder.name, name)
            assert encoder_names(read_inputs(options(space=str(path), data=tiny_folder)).space) == names
        else:
            with pytest.raises(ValueError, match=r"^encoder\.name must be a hub name or"):
                read_inputs(options(space=str(path), data=tiny_folder))


def test_space_without_a_grid_needs_a_search(
    options: Options, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = space_with(load_space("smart_lambda").base, grid={}, ranges={"smart.weight": Float(low=0, high=1)})
    monkeypatch.setattr(prepare_module, "find_space", lambda *_: (space, None))
    with pytest.raises(ValueError, match="--search must be tpe or random for space 'trial', which has no grid"):
        read_inputs(options(data=tiny_folder))
    assert read_inputs(options(data=tiny_folder, search="tpe")).space.ranges == space.ranges


def test_only_trained_tasks_are_read(tiny_folder: Path) -> None:
    base = TrialConfig(stages=(StageConfig(tasks=("sst",)),))

    def tasks_read(**changes: Any) -> set[str]:
        return {task for (task, _), _ in read_points(space_with(base, **changes), tiny_folder)}

    assert tasks_read() == {"sst"}
    assert tasks_read(grid={"stages.0.tasks": (("sst",), ("sts",))}) == {"sst", "sts"}
    assert tasks_read(ranges={"stages.0.tasks": Choice(values=(("sts",), ("qqp",)))}) == {"sst", "qqp", "sts"}


EXTRA_ROWS = "id,sentence,sentiment\na,fine,1\nb,dull,0\nc,odd,2\n"
"""In the layout of CFIMDB, with a label that its mapping does not name."""


@pytest.fixture
def folder(tiny_folder: Path, tmp_path: Path) -> Path:
    """The tiny corpus with an extra set."""
    shutil.copytree(tiny_folder, tmp_path / "data")
    (tmp_path / "data" / "ids-cfimdb-train.csv").write_text(EXTRA_ROWS)
    return tmp_path / "data"


def material_of(space: SearchSpace, folder: Path, options: Options, monkeypatch: pytest.MonkeyPatch) -> SweepInputs:
    monkeypatch.setattr(prepare_module, "find_space", lambda *_: (space, None))
    return read_inputs(options(data=folder))


def test_each_point_has_its_own_rows_and_each_file_is_read_once(
    folder: Path, options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "more.csv").write_text(EXTRA_ROWS + "d,,2\n")
    changes = {"task": "sst", "path": "more.csv", "role": "extra"}
    plain = TrialConfig(stages=(StageConfig(tasks=("sst",)),))
    base = plain.override({f"data.sources.more.{key}": value for key, value in changes.items()})
    grid = {"data.sources.more.role": ("extra", "augment"), "optimizer.learning_rate": (1e-5, 2e-5)}
    read = list[RowSource]()

    def count(part: RowSource, place: Path) -> Table:
        read.append(part)
        return read_all_rows(part, place)

    monkeypatch.setattr("mtlib.data.row_sources.read_all_rows", count)
    inputs = material_of(space_with(base, grid=grid), folder, options, monkeypatch)
    assert len(read) == len(set(read)) == 3  # train, augmentation, dev
    assert [inputs.train_rows_of(config) for config in grid_configs(inputs.space)] == [
        {"sst": 30},
        {"sst": 30},
        {"sst": 33},
        {"sst": 33},
    ]
    assert inputs.train_rows_of(inputs.space.base) == {"sst": 30}
    assert inputs.skipped == ("more.csv:5: sentence is blank",)
    tables = read_folder(folder, ("sst",))
    assert inputs.fingerprint != content_fingerprint(tables)
    (augmented,) = set(inputs.fingerprints) - {"sst-train", "sst-dev"}
    assert "more.csv" in augmented
    own = {f"{name}-{split}": content_fingerprint({(name, split): table}) for (name, split), table in tables.items()}
    assert inputs.fingerprints == {**own, augmented: inputs.fingerprints[augmented]}
    assert inputs.fingerprints[augmented] != own["sst-train"]


def test_missing_data_of_any_point_is_one_line(folder: Path, options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "ids-sst-dev.csv").unlink()
    base = TrialConfig(stages=(StageConfig(tasks=("sst", "qqp")),))
    space = space_with(base, grid={"stages.0.extra_data": ((), ("snli",))})
    with pytest.raises(ValueError, match=r"lacks ids-sst-dev\.csv, snli-train\.csv;"):
        material_of(space, folder, options, monkeypatch)


def test_held_out_rows_reach_no_trial(options: Options, tiny_folder: Path, tmp_path: Path) -> None:
    asked = options(data=tiny_folder, hold_out=0.2, storage=str(tmp_path))
    inputs = read_inputs(asked)
    base = inputs.space.base
    assert {config.data.hold_out for config in inputs.space.configs} == {0.2}
    assert {task: len(table.ids) for task, table in inputs.held_out.items()} == {"sst": 6, "qqp": 14, "sts": 4}
    assert inputs.train_rows_of(base) == {"sst": 24, "qqp": 56, "sts": 18}
    assert [inputs.num_rows[task, HELD] for task in inputs.held_out] == [6, 14, 4]
    for config in grid_configs(inputs.space):
        for (name, split), table in read_data(config, tiny_folder).items():
            assert split == "dev" or not set(table.ids) & set(inputs.held_out[name].ids)
    rows = held_out_rows(inputs.held_out)
    assert {f"{task}-held": own.fingerprint for task, own in rows.items()}.items() <= inputs.fingerprints.items()


def test_space_that_varies_hold_out_shares_or_files_is_refused(
    folder: Path, options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = TrialConfig(stages=(StageConfig(tasks=("sst",)),))
    monkeypatch.setattr(
        prepare_module, "find_space", lambda *_: (space_with(base, grid={"data.hold_out": (0.1,)}), None)
    )
    with pytest.raises(ValueError, match=r"^data.hold_out must be left to --hold-out, .*, got 0, 0.1$"):
        read_inputs(options(data=folder))
    rows = "".join(f"{number},Text {number}.,1\n" for number in range(9))
    for split in ("train", "dev"):
        (folder / f"other-{split}.csv").write_text(f"id,sentence,sentiment\n{rows}")
    source = {"task": "sst", "path": "other-{split}.csv"}
    other = base.override({f"data.sources.other.{key}": value for key, value in source.items()})
    varied = space_with(other, grid={"data.sources.other.role": ("extra", "replace")})
    monkeypatch.setattr(prepare_module, "find_space", lambda *_: (varied, None))
    assert read_inputs(options(data=folder)).held_out == {}
    with pytest.raises(ValueError, match=r"^--hold-out must find a task's train rows in the same place in all trials"):
        read_inputs(options(data=folder, hold_out=0.2))


def write_tones(folder: Path, *further: str) -> None:
    """A data folder with a task of its own, and others of these names, each with the same rows."""
    folder.mkdir(exist_ok=True)
    rows = [json.dumps({"text": f"text {number}", "tone": "good" if number % 2 else "bad"}) for number in range(40)]
    (folder / "tone.jsonl").write_text("\n".join(rows))
    entries = [
        f'[tasks.{name}]\nkind = "binary"\nlabels = ["bad", "good"]\ntexts = ["text"]\nlabel = "tone"\n'
        'train = "tone.jsonl"\ndev = 0.25\n'
        for name in ("tone", *further)
    ]
    (folder / "tasks.toml").write_text("".join(entries))


def test_general_spaces_are_for_the_tasks_of_the_data(options: Options, tmp_path: Path) -> None:
    write_tones(tmp_path, "mood")
    for changes in ({"space": "smart_lambda"}, {"space": None, "vary": {"smart.weight": "0,1"}}):
        inputs = read_inputs(options(data=tmp_path, **changes))
        assert inputs.space.base.active_tasks == ("mood", "tone")
        rows = {"train": 30, "dev": 10}
        assert inputs.num_rows == {(task, split): rows[split] for task in ("mood", "tone") for split in rows}
        assert inputs.space.base.task("tone").labels == ("bad", "good")
    message = one_line_error(read_inputs, options(data=tmp_path, space="encodings"))
    assert message == "space 'encodings' is about sst, qqp, sts, which the data must have, got mood, tone"


def test_spaces_for_any_tasks_are_made_for_those_that_set_leaves(options: Options, tmp_path: Path) -> None:
    write_tones(tmp_path, "mood", "spam")
    part = {"stages.0.tasks": "tone,mood"}
    for changes in ({"space": "loss_weights"}, {"space": None, "vary": {"smart.weight": "0,1"}}):
        inputs = read_inputs(options(data=tmp_path, set=part, **changes))
        assert set(inputs.space.base.tasks) == {"tone", "mood"}
        assert set(inputs.space.base.smart.tasks) == {"tone", "mood"}


def test_resumed_sweep_keeps_the_tasks_that_it_began_with(options: Options, tmp_path: Path) -> None:
    write_tones(tmp_path / "data")
    begun = options(data=tmp_path / "data", storage=str(tmp_path))
    before = read_inputs(begun)
    write_sweep(begun.folder, {"base": to_dict(before.space.base)})
    write_tones(tmp_path / "data", "mood")
    assert read_inputs(options(data=tmp_path / "data")).space.base.active_tasks == ("mood", "tone")
    after = read_inputs(dataclasses.replace(begun, resume=True))
    assert after.space == before.space
    assert after.fingerprint == before.fingerprint
    path = tmp_path / "data" / "tasks.toml"
    path.write_text(path.read_text().replace("[tasks.tone]", "[tasks.tones]"))
    message = one_line_error(read_inputs, dataclasses.replace(begun, resume=True))
    assert message == f"{path.parent} must define the tasks that the sweep began with, got no tone"


Begin = Callable[..., tuple[Path, SweepOptions]]


@pytest.fixture
def begin(options: Options, tmp_path: Path) -> Begin:
    """Begins a sweep over the tasks tone, mood and spam; returns their file and the options to resume it."""

    def begin_sweep(**changes: Any) -> tuple[Path, SweepOptions]:
        write_tones(tmp_path / "data", "mood", "spam")
        begun = options(data=tmp_path / "data", storage=str(tmp_path), **changes)
        write_sweep(begun.folder, {"base": to_dict(read_inputs(begun).space.base)})
        return tmp_path / "data" / "tasks.toml", dataclasses.replace(begun, resume=True)

    return begin_sweep


def test_changed_definition_of_a_trained_task_is_refused_with_the_difference(begin: Begin) -> None:
    path, resumed = begin()
    text = path.read_text()
    rule = "the tasks must be defined as they were when the sweep began (tasks.toml), got "
    path.write_text(text.replace('label = "tone"', 'label = "other"\nweight = 2.0', 1))
    assert one_line_error(read_inputs, resumed) == (
        f"{rule}tasks.tone.label_column was tone, is other; tasks.tone.weight was 1.0, is 2.0"
    )
    path.write_text(text.replace("dev = 0.25", "dev = 0.5", 1))
    assert one_line_error(read_inputs, resumed) == f"{rule}tasks.tone.files.dev_share was 0.25, is 0.5"


def test_title_and_files_of_a_task_may_change_while_its_rows_are_the_same(begin: Begin) -> None:
    path, resumed = begin()
    before = read_inputs(resumed)
    (path.parent / "tone.jsonl").rename(path.parent / "renamed.jsonl")
    path.write_text(path.read_text().replace("tone.jsonl", "renamed.jsonl") + 'title = "Junk"\n')
    after = read_inputs(resumed)
    assert after.fingerprint == before.fingerprint
    task = after.space.base.task("spam")
    assert (task.title, task.files and task.files.train) == ("Junk", "renamed.jsonl")


def test_a_mistake_in_a_selection_method_is_found_before_training(options: Options, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("SELECTION_METHODS = {'mine': 1}")
    assert one_line_error(find_methods, options(methods=(str(path),))).startswith("mine.py: SELECTION_METHODS['mine']")


@pytest.mark.parametrize(
    ("searched", "is_hit"),
    [
        ("stages", False),
        ("stages.1", True),
        ("stages.1.epochs", True),
        ("stages.1.order", False),
        ("smart.weight", False),
    ],
)
def test_a_key_of_all_stages_is_not_set_where_a_stage_is_searched(searched: str, is_hit: bool) -> None:
    assert sets_searched("stages.*.epochs", searched) == is_hit
