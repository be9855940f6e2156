"""The facts of a model's card against its sweep's records."""

from pathlib import Path

import pytest

from mtlib.runtime.storage import open_folder
from mtlib.tasks import TASKS
from results.inference.card_facts import trial_card_facts
from results.records.tables import read_trials
from tests.results.conftest import build_record

INFO = {
    "name": "mine",
    "python": "3.12.1",
    "packages": {"torch": "2.9"},
    "data": {"fingerprint": "abc", "rows": {"train": 30}},
    "git": {"revision": "f00", "is_changed": True},
}


def test_scores_and_steps_are_those_of_the_epoch(sweep_folder: Path) -> None:
    record = read_trials(sweep_folder)[1]
    first, second = (trial_card_facts(INFO, open_folder(sweep_folder), record, "overall", epoch, 3) for epoch in (1, 2))
    assert (first.epoch, first.steps, second.epoch, second.steps) == (1, 10, 2, 20)
    assert set(first.scores) == {*TASKS, "overall"}
    assert first.scores != second.scores
    for scores in (first.scores, second.scores):
        mains = [scores[task][TASKS[task].metric] for task in TASKS]
        assert scores["overall"]["overall"] == pytest.approx((mains[0] + mains[1] + (mains[2] + 1) / 2) / 3)


def test_facts_of_the_sweep_are_included(sweep_folder: Path) -> None:
    facts = trial_card_facts(INFO, open_folder(sweep_folder), read_trials(sweep_folder)[0], "overall", 1, 3)
    assert (facts.title, facts.num_trials, facts.data_fingerprint) == ("mine 0000-r0", 3, "abc")
    assert facts.num_rows == {"train": 30}
    assert facts.versions == {"python": "3.12.1", "torch": "2.9", "sources": "f00-changed"}


def test_trial_without_curves_has_no_scores_and_its_records_steps(sweep_folder: Path) -> None:
    facts = trial_card_facts({}, open_folder(sweep_folder), build_record(7), "overall", 1, 1)
    assert (facts.scores, facts.steps, facts.data_fingerprint) == ({}, 30, "not recorded")
