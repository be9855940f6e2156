"""The list of keys: each key can be set, with its base value, and bounds are those that are checked."""

import re

import pytest

from mtlib.config.schema import leaf_keys
from mtlib.tasks import TASKS
from search_spaces.domain import expand_stages, expand_tasks
from search_spaces.presets import general
from search_spaces.vary import unquoted
from sweeps.cli.keys import key_lines, list_keys
from sweeps.run import main
from tests.one_line_error import one_line_error

BASE = general(TASKS)
KEYS = {item.key: item for item in list_keys(BASE)}
LOWEST = re.compile(r"number (above|at least) ([\d.]+)")


def expanded(key: str, value: str) -> dict[str, str]:
    """A listed key and a value for each task, stage and source that it stands for."""
    sources = [key.replace("NAME", name) for name in BASE.data.sources] if "NAME" in key else [key]
    changes = dict.fromkeys(sources, value)
    return expand_stages(expand_tasks(changes, BASE.active_tasks), len(BASE.stages))


def test_every_key_is_listed_once_and_can_be_set_to_its_base_value() -> None:
    wanted = {key for key in leaf_keys(BASE.to_tree()) if not key.startswith(("data.tasks.", "methods"))}
    assert wanted <= {one for key in KEYS for one in expanded(key, "")}
    for key, item in KEYS.items():
        assert item.meaning
        if ": " not in item.base:
            assert BASE.override(expanded(key, unquoted(item.base))) == BASE, key


@pytest.mark.parametrize("key", [key for key, item in KEYS.items() if LOWEST.search(item.range)])
def test_listed_bounds_are_checked(key: str) -> None:
    found = LOWEST.search(KEYS[key].range)
    assert found is not None
    too_low = found[2] if found[1] == "above" else str(int(found[2]) - 1)
    message = one_line_error(BASE.override, expanded(key, too_low))
    assert f"must be {found[1]} {found[2]}" in message


def test_the_command_lists_the_keys_of_the_data_and_of_a_space(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list-keys", "--space", "smart_lambda"]) == 0
    printed = capsys.readouterr().out
    assert "optimizer.learning_rate " in printed
    assert "(a number above 0)" in printed
    assert max(map(len, key_lines(BASE, 100))) <= 100


def test_values_are_those_that_the_command_gives(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--set", "optimizer.learning_rate=3e-4", "stages.*.epochs=7"]
    assert main(["--list-keys", "--encoder", "roberta-base", *words]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    for part in ("roberta-base (set by --encoder)", "learning_rate 0.0003 (", "stages.*.epochs 7 ("):
        assert part in printed, part


def test_short_names_of_papers_and_none_are_explained_once() -> None:
    text = " ".join(" ".join(key_lines(BASE, 100)).split())
    for name, title in {"BB": "BERT and Beyond", "MP": "My PAL BERT", "TT": "Triple", "TU": "Tuning Up"}.items():
        assert len(re.findall(rf"\b{name} (is )?{title}", text)) == 1
    assert text.count("none: ") == 1
