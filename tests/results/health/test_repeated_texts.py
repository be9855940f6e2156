"""Repeated texts are found in what a sweep has recorded of its data."""

import dataclasses
from typing import Any

from results.health.finding import Finding
from results.health.repeated_texts import repeated_texts
from tests.results.health.given import records, sweep_of


def found_with(**data: Any) -> list[Finding]:
    sweep = sweep_of(records({}), [])
    return list(repeated_texts(dataclasses.replace(sweep, info={**sweep.info, "data": data})))


def test_dev_rows_of_train_and_contradictions_are_findings() -> None:
    repeats = {
        "sst": {"dev_rows_in_train": 1, "contradictions": 200},
        "qqp": {"dev_rows_in_train": 3, "contradictions": 0},
    }
    one, texts, more = found_with(folder="/my data", rows={"sst-dev": 100, "qqp-dev": 200}, repeats=repeats)
    assert one.what.startswith("1 dev row of SST (1.0%) has the texts of a train row")
    assert texts.what.startswith("200 texts of SST in several train rows")
    assert more.what.startswith("3 dev rows of QQP (1.5%) have the texts of a train row")
    assert [one.level, texts.level, more.level] == ["note", "note", "warning"]
    assert {finding.command for finding in (one, more)} == {"python -m mtlib.data '/my data'"}
    assert texts.command == "python -m mtlib.data '/my data' --contradictions", "it lists all of them"


def test_clean_data_and_sweeps_without_counts_have_no_finding() -> None:
    clean = {"sst": {"dev_rows_in_train": 0, "contradictions": 0}}
    assert found_with(folder="/data", rows={"sst-dev": 100}, repeats=clean) == []
    assert found_with(folder="/data") == []
