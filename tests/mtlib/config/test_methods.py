"""Files of methods: what they add to the tables, and every mistake in them as one line."""

import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from mtlib.config.methods import BUILT_IN, TABLES, load_methods, read_methods
from tests.one_line_error import one_line_error

FOCAL = '''\
"""The keen loss."""

from dataclasses import dataclass

import torch

from mtlib.config.losses import Loss
from mtlib.loss.losses import cross_entropy


@dataclass(frozen=True, kw_only=True)
class KeenSettings:
    keen_gamma: float = 2.0
    """gamma, at least 0."""


def keen_loss(logits, labels, keen_gamma):
    losses = cross_entropy(logits, labels)
    return (1 - torch.exp(-losses)) ** keen_gamma * losses


LOSSES = {
    "keen": Loss(title="keen loss", description="", functions={"classes": keen_loss}, settings=KeenSettings)
}
'''
LOSS = """\
from mtlib.config.losses import Loss
ONE = Loss(title="one", description="", functions={"classes": "any:thing"})
"""
PENALTY = "from mtlib.config.penalties import Penalty\nfrom dataclasses import dataclass\n"
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(text: str, name: str = "mine.py") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def test_entries_stand_beside_the_built_in_ones(write: Write) -> None:
    methods = read_methods([write(FOCAL)])
    assert list(methods.losses) == [*BUILT_IN.losses, "keen"]
    assert methods.penalties == BUILT_IN.penalties
    assert [file.name for file in methods.files] == ["mine.py"]
    assert methods.origins == {("losses", "keen"): methods.files[0]}
    assert "keen" not in BUILT_IN.losses


def test_two_sets_of_methods_in_one_process_do_not_see_each_other(write: Write) -> None:
    first = read_methods([write(FOCAL)])
    second = read_methods([write(FOCAL.replace("keen", "other").replace("Keen", "Other"), "other.py")])
    assert "other" not in first.losses
    assert "keen" not in second.losses
    both = load_methods((*first.files, *second.files))
    assert {"keen", "other"} <= set(both.losses)


def test_no_files_are_the_built_in_methods() -> None:
    assert read_methods([]) is BUILT_IN
    assert pickle.loads(pickle.dumps(BUILT_IN)) is BUILT_IN


def test_methods_are_pickled_as_their_files_and_run_once_in_a_process(write: Write) -> None:
    path = write(FOCAL)
    methods = read_methods([path])
    pickled = pickle.dumps(methods)
    path.unlink()
    assert pickle.loads(pickled) is methods
    assert load_methods(methods.files) is methods


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("x = 1 / 0\n", ", line 1: ZeroDivisionError: division by zero"),
        ("LOSS = {}\n", " must define a table of methods, got none; did you mean 'LOSSES'? known: LOSSES, "),
        ("LOSSES = {}\n", ": LOSSES must be a table of entries by name, got {}"),
        ("LOSSES = {'one': 3}\n", ": LOSSES['one'] must be a Loss, got 3"),
        (
            LOSS + "LOSSES = {'cross_entropy': ONE}\n",
            ": the name of a method must not be that of a built-in one, got 'cross_entropy'",
        ),
        (
            LOSS.replace("classes", "klasses") + "LOSSES = {'one': ONE}\n",
            ": LOSSES['one']: functions must be by kind of task, classes, binary, multilabel, regression, got klasses",
        ),
        (LOSS + "LOSSES = {'One': ONE}\n", ": names in LOSSES must be words in small letters, got 'One'"),
        (
            FOCAL.replace("settings=KeenSettings", "settings=dict"),
            ": LOSSES['keen']: settings must be a dataclass, got <class 'dict'>",
        ),
        (
            FOCAL.replace("keen_gamma: float", "ordinal_alpha: float"),
            ": LOSSES['keen']: settings must be called keen_..., as they stand beside others, got ordinal_alpha",
        ),
        (
            FOCAL.replace("keen_gamma: float = 2.0", "keen_gamma: float"),
            ": LOSSES['keen']: settings must each have a plain default, got none of keen_gamma",
        ),
        (
            PENALTY + "@dataclass\nclass A:\n    weight: float = 0.0\n"
            "PENALTIES = {'a': Penalty(title='a', function=print, settings=A, terms=('a',))}\n",
            ": PENALTIES['a']: settings must have the fields weight and tasks, got weight",
        ),
        *(
            (
                PENALTY + "@dataclass\nclass A:\n    weight: float = 0.0\n    tasks: tuple[str, ...] = ()\n"
                f"PENALTIES = {{'a': Penalty(title='a', function=print, settings=A, terms={terms})}}\n",
                f": PENALTIES['a']: terms must be {rule}",
            )
            for terms, rule in (
                ("()", "a tuple of names, at least one, got ()"),
                ("'pp'", "a tuple of names, at least one, got 'pp'"),
                ("('loss',)", "names that nothing else in the curves has, got ['loss']"),
                ("('a', 'simcse')", "names that nothing else in the curves has, got ['a', 'simcse']"),
            )
        ),
    ],
)
def test_mistake_is_one_line_with_the_file(text: str, error: str, write: Write) -> None:
    assert one_line_error(read_methods, [write(text)]).startswith(f"mine.py{error}")


def test_file_that_is_missing_or_of_a_name_given_twice_is_refused(write: Write, tmp_path: Path) -> None:
    missing = tmp_path / "missing.py"
    rule = "--methods must be a file that can be read"
    assert one_line_error(read_methods, [missing]) == f"{rule}, got '{missing}': No such file or directory"
    path = write(FOCAL)
    error = one_line_error(read_methods, [path, path])
    assert error == "files of methods must have different names: rename one, got ['mine.py', 'mine.py']"


def test_each_table_of_a_file_is_a_field() -> None:
    assert all(getattr(BUILT_IN, own) for own, _ in TABLES.values())
