"""Files of methods: what they add to the tables, and mistakes in them as one line."""

import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from mtlib.config.methods import BUILT_IN, TABLES, read_methods
from mtlib.runtime.lazy_functions import load_function
from tests.one_line_error import one_line_error

KEEN = """\
from dataclasses import dataclass
from mtlib.config.losses import Loss

@dataclass(frozen=True, kw_only=True)
class KeenSettings:
    keen_gamma: float = 2.0

def keen_loss(logits, labels, keen_gamma):
    return logits

LOSSES = {
    "keen": Loss(title="keen loss", description="", functions={"classes": keen_loss}, settings=KeenSettings)
}
"""
TWICE = """\
from dataclasses import dataclass
from mtlib.config.penalties import Penalty

@dataclass
class Settings:
    weight: float = 0.0
    tasks: tuple[str, ...] = ()

PENALTIES = {"twice": Penalty(title="twice", function=print, settings=Settings, terms=("twice",))}
"""
BUILT_IN_NAME = '{"cross_entropy": Loss(title="", description="", functions={"classes": keen_loss})}'
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(text: str, name: str = "mine.py") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize("table", [own for own, _ in TABLES.values() if own != "metrics"])
def test_built_in_entries_have_functions_that_exist_and_titles_of_their_own(table: str) -> None:
    entries = getattr(BUILT_IN, table)
    for entry in entries.values():
        functions = entry.functions.values() if table == "losses" else [entry.function]
        assert all(callable(load_function(function)) for function in functions if function is not None)
    assert len({entry.title for entry in entries.values()}) == len(entries) > 0


def test_entries_stand_beside_the_built_in_ones(write: Write) -> None:
    methods = read_methods([write(KEEN)])
    assert list(methods.losses) == [*BUILT_IN.losses, "keen"]
    assert methods.penalties == BUILT_IN.penalties
    assert [file.name for file in methods.files] == ["mine.py"]
    assert methods.origins == {("losses", "keen"): methods.files[0]}
    assert "keen" not in BUILT_IN.losses
    assert read_methods([]) is BUILT_IN


def test_methods_are_pickled_as_their_files_and_run_once_in_a_process(write: Write) -> None:
    path = write(KEEN)
    methods = read_methods([path])
    pickled = pickle.dumps(methods)
    path.unlink()
    assert pickle.loads(pickled) is methods


@pytest.mark.parametrize(
    ("text", "right", "wrong", "words"),
    [
        (KEEN, "LOSSES = {", "x = 1 / 0 + {", "line 11: ZeroDivisionError"),
        (KEEN, "LOSSES = {", "LOSS = {", "must define a table of methods, got none; did you mean 'LOSSES'"),
        (KEEN, "LOSSES = {", f"LOSSES = {BUILT_IN_NAME} | {{", "that of a built-in one, got 'cross_entropy'"),
        (KEEN, '"keen":', '"Keen":', "must be words in small letters, got 'Keen'"),
        (KEEN, '{"classes"', '{"klasses"', "functions must be by kind of task"),
        (KEEN, "keen_gamma: float", "sharp_gamma: float", "settings must be called keen_..."),
        (KEEN, "float = 2.0", "float = 2.0\n    def __post_init__(self): raise ValueError('no')", "right defaults"),
        (TWICE, "    tasks: tuple[str, ...] = ()\n", "", "settings must have the fields weight and tasks"),
        (TWICE, 'terms=("twice",)', "terms=()", "terms must be a tuple of names"),
        (TWICE, 'terms=("twice",)', "terms=('a', 'simcse')", "names that nothing else in the curves has"),
    ],
)
def test_mistake_is_one_line_with_the_file(text: str, right: str, wrong: str, words: str, write: Write) -> None:
    assert right in text
    error = one_line_error(read_methods, [write(text.replace(right, wrong))])
    assert error.startswith("mine.py")
    assert words in error


@pytest.mark.parametrize("name", ["accuracy", "tokens", "loss", "simcse"])
def test_a_metric_and_a_term_have_curves_of_their_own(name: str, write: Write) -> None:
    """Of one task and split, curves differ by these names alone."""
    metric = f"from mtlib.metrics.table import METRICS as BUILT_IN\nMETRICS = {{'{name}': BUILT_IN['f1']}}\n"
    files = [write(TWICE.replace('terms=("twice",)', f'terms=("{name}",)'))]
    files += [write(metric, "metric.py")] if name != "accuracy" else []
    for file in files:
        assert "names that nothing else in the curves has" in one_line_error(read_methods, [file])
