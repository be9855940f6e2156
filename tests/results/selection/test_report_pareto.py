"""The report's table of the Pareto front."""

from dataclasses import replace
from typing import Any

from mtlib.tasks import TASKS
from results.records.selection import (
    TradeOff,
)
from results.selection.report import (
    PARETO_TITLE,
    pareto_lines,
)
from tests.results.selection.test_report import build_task


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


def lines_of(*found: TradeOff) -> list[str]:
    return list(pareto_lines(TASKS["sst"], build_task(trade_offs=found), 100))


def test_each_point_of_the_pareto_front_has_a_row() -> None:
    lines = lines_of(ONE, replace(TWO, is_best=False), FIVE)
    assert lines[:2] == list(PARETO_TITLE)
    assert [line.split() for line in lines[3:6:2]] == [
        ["models", "method", "cross-fitted"],
        ["1", "best", "single", "model", "0.500", "±.012"],
    ]
    assert lines[6].split() == ["5", "mean", "of", "the", "best", "k", "0.530", "±.012"]
    assert len(lines) == 8


def test_front_of_one_model_is_not_shown() -> None:
    assert lines_of(ONE, replace(TWO, is_best=False)) == []
    assert lines_of() == []


def test_method_without_a_title_is_called_by_its_name() -> None:
    assert "own_way" in lines_of(ONE, trade_off(2, 0.6, name="own_way"))[6]
