"""The frame of effects has typed columns, and the printed table a row per value."""

from dataclasses import replace

import numpy as np
import pytest

from results.answers.effects_table import COLUMNS, effects_frame, render_effects
from results.stats.effects.range_effect import RangeEffect
from results.stats.effects.searched_keys import SearchedKey
from results.stats.effects.sweep_effects import SweepEffects
from search_spaces.domain import Float
from tests.results.answers.test_answer import KEY, sweep_of, value

EFFECTS = sweep_of([value(0.0, None), value(0.45, 0.014), value(1.0, -0.02, None)])


def curve_of() -> RangeEffect:
    points = np.linspace(0.0, 4.0, 101)
    return RangeEffect(
        points=points,
        means=0.7 - 0.01 * points,
        differences=0.02 - 0.01 * points,
        errors=np.full(101, 0.002),
        half_widths=np.full(101, 0.004),
        optimum=0.0,
        optimum_interval=(0.0, 0.5),
        p_value=0.01,
        edge="low",
        degrees=20.0,
        is_linear=False,
    )


def with_range() -> SweepEffects:
    key = SearchedKey(name="rate", values=(), range=Float(low=0.0, high=4.0, log=False))
    column = replace(EFFECTS.columns["overall"], curves={"rate": curve_of()})
    return replace(EFFECTS, keys=[KEY, key], columns={"sst": replace(column, task="sst"), "overall": column})


def test_frame_has_a_row_for_each_value_and_typed_columns() -> None:
    frame = effects_frame(EFFECTS)
    assert {name: str(frame[name].dtype) for name in frame} == COLUMNS
    assert frame["value"].tolist() == [0.0, 0.45, 1.0]
    assert list(frame["is_base"]) == [True, False, False]
    assert frame["difference"].isna().tolist() == [True, False, False]
    assert [frame["low"].iloc[1], frame["high"].iloc[1]] == pytest.approx([0.004, 0.024])
    assert frame["low"].isna().tolist() == [True, False, True]


def test_frame_without_effects_has_the_same_columns() -> None:
    frame = effects_frame(replace(EFFECTS, columns={}))
    assert frame.empty
    assert {name: str(frame[name].dtype) for name in frame} == COLUMNS


def test_points_of_a_curve_are_rows() -> None:
    frame = effects_frame(with_range())
    curve = frame[(frame["key"] == "rate") & (frame["task"] == "sst")]
    assert len(curve) == 101
    assert (curve["high"] - curve["low"]).to_numpy() == pytest.approx(0.008)
    assert curve["num_trials"].isna().all()


def text_of(effects: SweepEffects, width: int = 100) -> str:
    return "\n".join(render_effects(effects, width)) + "\n"


def test_table_has_a_row_per_value_with_its_interval() -> None:
    text = text_of(EFFECTS)
    assert "smart.weight\n" in text
    assert "0.700 +0.014" in text
    assert "+0.004 to +0.024" in text
    assert "0.700 -0.020" in text
    assert "Ranges" not in text
    assert "base value" in text


@pytest.mark.parametrize(("width", "num_columns"), [(100, 4), (80, 5), (40, 4)])
def test_numbers_and_values_are_whole_in_narrow_tables(width: int, num_columns: int) -> None:
    column, name = EFFECTS.columns["overall"], "heads_at_the_rate_of_the_encoder"
    values = [value(0.0, None), replace(value(0.45, 0.014), value=name)]
    columns = {f"t{number}": replace(column, values={KEY.name: values}) for number in range(num_columns)}
    text = text_of(replace(EFFECTS, columns=columns), width)
    table = text[: text.index("Mean score")]
    assert "…" not in table
    for part in ("0.700", "+0.014", "+0.004 to", "+0.024"):
        assert table.count(part) == num_columns * (2 if part == "0.700" else 1), part
    assert max(map(len, table.splitlines())) <= width
    assert table.count(name) == 1


def test_points_of_a_narrow_range_differ() -> None:
    effects = with_range()
    own = effects.columns["overall"].curves["rate"]
    curves = {"rate": replace(own, points=0.999 + own.points / 1e6)}
    columns = {name: replace(column, curves=curves) for name, column in effects.columns.items()}
    rows = [line.split()[0] for line in text_of(replace(effects, columns=columns)).splitlines() if "±.004" in line]
    assert rows == ["0.999", "0.999001", "0.999002", "0.999003", "0.999004"]


def test_table_of_a_range_has_five_points() -> None:
    text = text_of(with_range())
    rows = [line.split() for line in text.splitlines() if "±.004" in line]
    assert [row[0] for row in rows] == ["0", "1", "2", "3", "4"]
    assert rows[-1][1:] == ["0.660", "±.004", "0.660", "±.004"]
    assert "Ranges: fitted score" in text
