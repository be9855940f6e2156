"""What options change in a space: the copy that is kept of it, places that are absolute, tasks as they are now."""

import dataclasses
from pathlib import Path

import pytest

from mtlib.config.methods import BUILT_IN
from mtlib.config.schema import to_dict
from mtlib.data.load import data_tasks
from mtlib.demo.overrides import DEMO_NOTE
from mtlib.runtime.method_file import trusting_methods
from mtlib.runtime.storage import open_folder, write_bytes
from mtlib.tasks import TASKS
from results.records.trials import SPACE_FILE
from search_spaces.domain import Float
from search_spaces.presets import general
from search_spaces.space import SearchSpace, load_space
from search_spaces.space_file import find_space
from search_spaces.space_json import SPACE_JSON, space_to_json
from sweeps.plan.space_changes import (
    change_base,
    find_methods,
    find_sources,
    read_asked_space,
    short_grid,
    with_present_definitions,
)
from tests.one_line_error import one_line_error
from tests.sweeps.plan.conftest import Build, write_tones

SPACE = SearchSpace(name="mine", question="?", base=general(TASKS), grid={"smart.weight": (0.0, 1.0)})
SPACE_TEXT = b"""\
from search_spaces.presets import general
from search_spaces.space import SearchSpace

def make_space(tasks):
    return SearchSpace(name="mine", question="?", base=general(tasks), grid={"smart.weight": (0.0, 1.0)})
"""


@pytest.mark.parametrize(
    ("place", "file", "kept"),
    [
        ("/gone/mine.py", SPACE_FILE, SPACE_TEXT),
        ("/gone/mine", SPACE_FILE, SPACE_TEXT),
        (SPACE_JSON, SPACE_JSON, space_to_json(SPACE)),
    ],
)
def test_resumed_sweep_reads_the_space_that_was_kept(
    options: Build, location: str, place: str, file: str, kept: bytes
) -> None:
    """The file of it is gone, or there was none."""
    resumed = options(space=place, storage=location, resume=True)
    write_bytes(open_folder(resumed.folder), file, kept)
    if file == SPACE_FILE and "://" in location:
        message = one_line_error(read_asked_space, resumed, TASKS, BUILT_IN)
        assert message.endswith("got a file in a bucket, where files have no owner")
    with trusting_methods():
        assert read_asked_space(resumed, TASKS, find_methods(resumed, {"base": to_dict(SPACE.base)})) == (SPACE, kept)


def test_a_mistake_in_a_selection_method_is_found_before_training(options: Build, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("SELECTION_METHODS = {'mine': 1}")
    message = one_line_error(find_methods, options(methods=(str(path),)), None)
    assert message.startswith("mine.py: SELECTION_METHODS['mine']")


def test_an_encoder_of_ones_own_may_read_the_demonstration(options: Build) -> None:
    space = load_space("smart_lambda")
    demo_folder, _, demo_notes = find_sources(options(), space.base, space)
    folder, encoder, (note,) = find_sources(options(encoder="roberta-base"), space.base, space)
    assert demo_notes == (DEMO_NOTE,)
    assert (folder, encoder) == (demo_folder, "roberta-base")
    assert "your encoder and the settings of 'smart_lambda'" in note


def test_demonstration_keeps_its_settings_where_its_own_files_are_named(options: Build) -> None:
    """A sweep that is resumed after its storage was moved."""
    corpus, encoder, _ = find_sources(options(), SPACE.base, SPACE)
    named = options(began_as_demonstration=True, data=corpus, encoder=encoder)
    for moved in (named, dataclasses.replace(named, data=None), dataclasses.replace(named, encoder=None)):
        assert find_sources(moved, SPACE.base, SPACE)[:2] == (corpus, encoder)
        assert change_base(SPACE.base, encoder, moved) == change_base(SPACE.base, encoder, options())


def test_unwritable_storage_is_one_line(options: Build, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    message = one_line_error(find_sources, options(storage=f"{tmp_path}/file"), SPACE.base, SPACE)
    assert message.startswith("--storage must be a place that can be written")


def test_set_comes_after_the_settings_of_the_demonstration(options: Build, tiny_folder: Path) -> None:
    assert change_base(SPACE.base, "tiny", options()) != change_base(SPACE.base, "tiny", options(data=tiny_folder))
    rate = {"optimizer.learning_rate": "0.125"}
    assert change_base(SPACE.base, "tiny", options(set=rate)).optimizer.learning_rate == 0.125
    for key, value, message in (
        ("optimizer.learning_rte", "1", "--set: unknown key 'optimizer.learning_rte'; did you mean 'optimizer.learn"),
        ("optimizer.learning_rate", "fast", "--set: optimizer.learning_rate must be a number, got 'fast'"),
    ):
        assert one_line_error(change_base, SPACE.base, "tiny", options(set={key: value})).startswith(message)


def test_space_without_a_grid_needs_a_search(options: Build) -> None:
    space = dataclasses.replace(SPACE, grid={}, ranges={"smart.weight": Float(low=0, high=1)})
    message = one_line_error(short_grid, space, SPACE.base, options())
    assert message == "--search must be tpe, gp or random for space 'mine', which has no grid, got grid"
    assert short_grid(space, SPACE.base, options(search="tpe")) == space


@pytest.fixture
def begun(tmp_path: Path) -> tuple[SearchSpace, Path]:
    """A space for the tasks tone, mood and spam, and their file."""
    write_tones(tmp_path, "mood", "spam")
    return find_space("smart_lambda", data_tasks(tmp_path))[0], tmp_path / "tasks.toml"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'label = "tone"',
            'label = "other"\nweight = 2.0',
            "tasks.tone.label_column was tone, is other; tasks.tone.weight was 1.0, is 2.0",
        ),
        ("dev = 0.25", "dev = 0.5", "tasks.tone.files.dev_share was 0.25, is 0.5"),
        ("dev = 0.25", 'dev = 0.25\ngroup = "doc"', 'tasks.tone.files.group_columns was [], is ["doc"]'),
        (
            "dev = 0.25",
            'dev_from = {column = "year", after = 2020}',
            'tasks.tone.files.dev_from was null, is {"column": "year", "after": "2020"}; '
            "tasks.tone.files.dev_share was 0.25, is 0.0",
        ),
        ("[tasks.tone]", "[tasks.tones]", "no tone"),
    ],
)
def test_changed_definition_of_a_trained_task_is_refused_with_the_difference(
    begun: tuple[SearchSpace, Path], old: str, new: str, message: str
) -> None:
    space, file = begun
    file.write_text(file.read_text().replace(old, new, 1))
    assert one_line_error(with_present_definitions, space, file.parent).endswith(f", got {message}")


def test_title_and_files_of_a_task_may_change_and_other_tasks_may_be_added(begun: tuple[SearchSpace, Path]) -> None:
    space, file = begun
    assert with_present_definitions(space, file.parent) == space
    changed = file.read_text().replace("tone.jsonl", "renamed.jsonl") + 'title = "Junk"\n'
    file.write_text(changed + changed.replace("[tasks.", "[tasks.further_"))
    now = with_present_definitions(space, file.parent)
    task = now.base.task("spam")
    assert (task.title, task.files and task.files.train) == ("Junk", "renamed.jsonl")
    assert now.base.active_tasks == space.base.active_tasks
