"""What is printed about groups of connected texts."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mtlib.data.tables import Table
from mtlib.tasks import TASKS
from results.ensembles.candidates import read_pool
from results.records.examples import write_groups
from results.records.selection import read_selection
from results.selection.report import describe_pool, selection_legend
from results.selection.shared_texts import describe_groups, shared_text_sentences
from results.selector import main
from tests.results.conftest import ROWS
from tests.results.selection.scored_sweep import build_sweep
from tests.results.selection.test_report import build_selection, build_task


def lines_of(**of_task: Any) -> list[str]:
    return list(shared_text_sentences(build_selection(build_task(**of_task))))


def test_earlier_sweep_does_not_say_which_texts_are_shared() -> None:
    (line,) = lines_of()
    assert line.startswith("The sweep is of an earlier version and does not record which dev examples share texts")
    assert line in list(selection_legend(build_selection(build_task())))


def test_nothing_is_printed_where_nothing_is_shared() -> None:
    assert lines_of(num_examples=40, num_groups=40) == []
    assert describe_groups(build_task(num_examples=40, num_groups=40)) == ""


@pytest.mark.parametrize(("num_groups", "text"), [(1000, "1,000 groups of"), (1, "1 group of")])
def test_pool_is_described_with_its_groups(num_groups: int, text: str) -> None:
    chosen = build_task(num_examples=1101, num_groups=num_groups, largest_group=5)
    assert f"1,101 dev examples in {text} connected texts, " in describe_pool(TASKS["sst"], chosen)


def test_grouped_folds_and_errors_are_named() -> None:
    assert lines_of(num_examples=100, num_groups=60, largest_group=9) == [
        "Dev examples that texts connect are drawn, and dealt to folds, as whole groups."
    ]


@pytest.mark.parametrize(("num_groups", "largest"), [(5, 20), (15, 86)])
def test_unusable_groups_are_named_with_their_task(num_groups: int, largest: int) -> None:
    (line,) = lines_of(num_examples=100, num_groups=num_groups, largest_group=largest)
    assert line.startswith("SST: too few groups of connected texts, or one too large")


def record_groups(sweep: Path, task: str, num_texts: int) -> None:
    """Records dev rows in groups: row r has one of so many texts."""
    ids = [f"{task}-dev-{row}" for row in range(ROWS[task])]
    texts = ([f"text {row % num_texts}" for row in range(len(ids))],)
    table = Table(
        task=task,
        split="dev",
        path=Path("x.csv"),
        ids=ids[::-1],
        texts=(texts[0][::-1],),
        labels=np.zeros(len(ids), dtype=np.float32),
        num_own_rows=len(ids),
        skipped=(),
    )
    write_groups(sweep, {task: table})


def test_groups_come_from_the_sweep_that_has_recorded_them(tmp_path: Path) -> None:
    first, second = (build_sweep(tmp_path / name, 0.2, 0.5) for name in ("first", "second"))
    assert read_pool([first, second], TASKS["sst"]).text_groups is None
    record_groups(second, "sst", 30)
    pool = read_pool([first, second], TASKS["sst"])
    assert pool.text_groups is not None
    assert [len(set(pool.groups[row::30])) for row in range(30)] == [1] * 30
    assert len(set(pool.groups)) == 30


def test_selector_scores_by_groups_and_names_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweep = build_sweep(tmp_path / "mine", 0.2, 1.0, 0.6)
    record_groups(sweep, "sst", 30)
    record_groups(sweep, "qqp", 80)
    assert main([str(sweep)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "60 dev examples in 30 groups of connected texts" in text
    assert "80 dev examples, accuracy" in text
    assert "Dev examples that texts connect are drawn" in text
    assert "The sweep is of an earlier version" in text, "STS"
    found = read_selection(sweep).tasks
    assert (found["sst"].num_groups, found["sst"].largest_group) == (30, 2)
    assert (found["qqp"].num_groups, found["sts"].num_groups) == (80, None)
