"""The table of costs has the Pareto set alone, says how dear each is, and is left out where there is nothing to win."""

import io
from dataclasses import replace
from typing import Any

from rich.console import Console, Group

from results.records.selection import TradeOff
from results.selection.cost_text import COSTS, cost_parts
from tests.results.selection.test_report import build_task

TITLES = {"single": "best single model", "topk": "mean of the best k"}


def trade_off(num_models: int, score: float, **changes: Any) -> TradeOff:
    values: dict[str, Any] = {
        "name": "single" if num_models == 1 else "topk",
        "max_models": num_models,
        "num_models": num_models,
        "cross_fitted": score,
        "standard_error": 0.0124,
        "is_best": True,
    }
    return TradeOff(**{**values, **changes})


ONE, TWO, FIVE = trade_off(1, 0.5), trade_off(2, 0.5213), trade_off(5, 0.53)


def shown(*found: TradeOff) -> list[str]:
    console = Console(file=io.StringIO(), width=100, highlight=False)
    console.print(Group(*cost_parts(build_task(trade_offs=found), TITLES)))
    file = console.file
    assert isinstance(file, io.StringIO)
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_each_that_nothing_beats_has_a_row_and_no_other() -> None:
    lines = shown(ONE, replace(TWO, is_best=False), FIVE)
    assert lines[:2] == list(COSTS)
    assert [line.split() for line in lines[3:6:2]] == [
        ["models", "way", "cross-fitted"],
        ["1", "best", "single", "model", "0.500", "±.012"],
    ]
    assert lines[6].split() == ["5", "mean", "of", "the", "best", "k", "0.530", "±.012"]
    assert len(lines) == 8


def test_nothing_is_shown_where_no_more_models_are_worth_it() -> None:
    assert shown(ONE, replace(TWO, is_best=False)) == []
    assert shown() == []


def test_a_way_without_a_title_is_called_by_its_name() -> None:
    assert "own_way" in shown(ONE, trade_off(2, 0.6, name="own_way"))[6]
