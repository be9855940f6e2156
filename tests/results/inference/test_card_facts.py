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


def test_facts_are_those_of_the_sweep_and_the_epoch(sweep_folder: Path) -> None:
    record = read_trials(sweep_folder)[1]
    first, second = (trial_card_facts(INFO, open_folder(sweep_folder), record, "overall", epoch, 3) for epoch in (1, 2))
    assert (first.epoch, first.steps, second.epoch, second.steps) == (1, 10, 2, 20)
    assert first.scores != second.scores
    for facts in (first, second):
        assert set(facts.scores) == {*TASKS, "overall"}
        sst, qqp, sts = (facts.scores[task][TASKS[task].metric] for task in ("sst", "qqp", "sts"))
        assert facts.scores["overall"]["overall"] == pytest.approx((sst + qqp + (sts + 1) / 2) / 3)
        assert (facts.title, facts.num_trials, facts.data_fingerprint) == ("mine 0001-r0", 3, "abc")
        assert facts.num_rows == {"train": 30}
        assert facts.versions == {"python": "3.12.1", "torch": "2.9", "sources": "f00-changed"}


def test_trial_without_curves_has_no_scores_and_its_records_steps(sweep_folder: Path) -> None:
    facts = trial_card_facts({}, open_folder(sweep_folder), build_record(7), "overall", 1, 1)
    assert (facts.scores, facts.steps, facts.data_fingerprint) == ({}, 30, "not recorded")
