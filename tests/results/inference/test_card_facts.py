"""The facts of a model's card against its sweep's records."""

from pathlib import Path

import numpy as np
import pytest

from mtlib.data.cut_rows import CutRows
from mtlib.runtime.storage import open_folder
from mtlib.tasks import TASKS
from results.inference.card_facts import trial_card_facts
from results.records.predictions import labels_array, logits_array, read_predictions
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
    records = read_trials(sweep_folder)
    root, record = open_folder(sweep_folder), records[1]
    first, second = (trial_card_facts(INFO, root, record, "overall", epoch, records) for epoch in (1, 2))
    assert (first.epoch, first.steps, second.epoch, second.steps) == (1, 10, 2, 20)
    assert first.scores != second.scores
    for facts in (first, second):
        assert set(facts.scores) == {*TASKS, "overall"}
        sst, qqp, sts = (facts.scores[task][TASKS[task].metric] for task in ("sst", "qqp", "sts"))
        assert facts.scores["overall"]["overall"] == pytest.approx((sst + qqp + (sts + 1) / 2) / 3)
        assert (facts.title, facts.num_trials, facts.data_fingerprint) == ("mine 0001-r0", len(records), "abc")
        assert facts.num_rows == {"train": 30}
        assert facts.versions == {"python": "3.12.1", "torch": "2.9", "sources": "f00-changed"}


def test_facts_have_the_rows_that_the_sweep_cut(sweep_folder: Path) -> None:
    records, cut = (
        read_trials(sweep_folder),
        CutRows(task="sst", encoder="a", encoding="single", max_length=8, share=0.5),
    )
    root, info = open_folder(sweep_folder), {**INFO, "data": {"cut_rows": [vars(cut)]}}
    assert trial_card_facts(info, root, records[1], "overall", 1, records).cut_rows == [cut]
    assert trial_card_facts(INFO, root, records[1], "overall", 1, records).cut_rows == []


def test_intervals_are_those_of_the_epochs_predictions(sweep_folder: Path) -> None:
    records = read_trials(sweep_folder)
    facts = trial_card_facts(INFO, open_folder(sweep_folder), records[1], "overall", 2, records)
    table = read_predictions(sweep_folder, "sst", "dev", trial="0001-r0", epoch=2)
    is_right = logits_array(table).argmax(1) == labels_array(table)
    (low, high) = facts.intervals["sst"]["accuracy"]
    error = np.sqrt(is_right.mean() * (1 - is_right.mean()) / len(is_right))
    assert (low + high) / 2 == pytest.approx(is_right.mean(), abs=error / 2)
    assert (high - low) / 2 == pytest.approx(1.96 * error, rel=0.15)


def test_replicates_are_the_completed_trainings_of_the_configuration(sweep_folder: Path) -> None:
    scores = [(0, "complete", 0.5), (1, "reused", 0.7), (2, "failed", 0.1)]
    records = [build_record(7, again, status, best={"sst": best}) for again, status, best in scores]
    records.append(build_record(8, best={"sst": 0.9}))
    facts = trial_card_facts({}, open_folder(sweep_folder), records[0], "overall", 1, records)
    assert facts.num_replicates == 2
    assert facts.replicate_means == {"sst": pytest.approx((0.6, 0.1))}
