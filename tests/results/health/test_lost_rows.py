"""Rows that were cut or left out are found in what a sweep has recorded of its data."""

import dataclasses
from typing import Any

import pytest

from mtlib.data.cut_rows import CutRows
from mtlib.data.repeats import DroppedRows
from results.health.finding import Finding
from results.health.lost_rows import MAX_CUT, MAX_DROPPED, dropped_rows, lost_ends
from tests.results.health.given import only, records, sweep_of


def found_with(**data: Any) -> list[Finding]:
    sweep = sweep_of(records({}), [])
    sweep = dataclasses.replace(sweep, info={**sweep.info, "data": {"folder": "/my data", **data}})
    return [*lost_ends(sweep), *dropped_rows(sweep)]


def cut(share: float, max_length: int = 64) -> dict[str, Any]:
    return vars(CutRows(task="sst", encoder="tiny", encoding="single", max_length=max_length, share=share))


def test_a_task_whose_rows_are_often_cut_is_one_finding_of_its_worst_kind_of_trial() -> None:
    finding = only(found_with(cut_rows=[cut(0.142), cut(0.07, 128)]))
    assert finding.level == "warning"
    assert finding.what.startswith("About 14.2% of the train rows of SST are longer than 64 tokens")
    assert "encoder.max_length" in finding.advice


def test_rows_left_out_for_another_task_are_a_finding_with_what_was_recorded_of_them() -> None:
    rows = DroppedRows(share=0.296, sentence="142 of 480 train rows of similar.csv (29.6%) share a text")
    finding = only(found_with(dropped_rows={"sts": vars(rows)}))
    assert finding.level == "warning"
    assert rows.sentence in finding.what
    assert finding.command == "python -m mtlib.data '/my data'"


@pytest.mark.parametrize(("is_above", "number"), [(False, 0), (True, 1)])
def test_few_rows_are_no_finding(is_above: bool, number: int) -> None:
    more = 1e-3 if is_above else 0
    rows = DroppedRows(share=MAX_DROPPED + more, sentence="")
    assert len(found_with(cut_rows=[cut(MAX_CUT + more)])) == number
    assert len(found_with(dropped_rows={"sts": vars(rows)})) == number


def test_a_sweep_without_these_records_has_no_finding() -> None:
    assert found_with() == []
    sweep = sweep_of(records({}), [])
    assert [*lost_ends(sweep), *dropped_rows(sweep)] == []
