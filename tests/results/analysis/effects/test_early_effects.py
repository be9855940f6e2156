"""Effects on early scores, of a search that pruned trials."""

import json
from pathlib import Path

import pytest

from mtlib.tasks import TASKS
from results.analysis.sweep import load_sweep
from results.records.epochs import write_epoch
from results.records.trials import write_sweep, write_trials
from tests.results.analysis.test_sweep import record_search, stop_last_trial
from tests.results.conftest import build_record, build_report


def test_early_effects_are_those_of_all_first_trials_at_the_last_epoch_that_all_reached(tmp_path: Path) -> None:
    """Six configurations with scores that rise with the weight; those below .6 are pruned after the second of three
    epochs, and the best has a replicate."""
    weights = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    pruned = [weight < 0.6 for weight in weights]
    record_search(tmp_path)
    info = json.loads((tmp_path / "sweep.json").read_text())
    domain = {"Float": {"low": 0.0, "high": 1.0, "log": False}}
    space = {**info["space"], "grid": [], "ranges": [["smart.weight", domain]]}
    write_sweep(tmp_path, {**info, "space": space, "search": "tpe"})
    trials = [(number, 0, "pruned" if is_pruned else "complete") for number, is_pruned in enumerate(pruned)]
    trials.append((5, 1, "complete"))
    records = [build_record(n, again, how, params={"smart.weight": weights[n]}) for n, again, how in trials]
    write_trials(tmp_path, records, tuple(TASKS))
    for record in records:
        for epoch in range(1, 3 if record.status == "pruned" else 4):
            skill = 0.2 + weights[record.number] + 0.1 * epoch
            write_epoch(tmp_path, record.trial_id, build_report(epoch, skill=skill, seed=record.number))
    sweep = load_sweep(tmp_path)
    early = sweep.early_effects
    assert early is not None
    column = early.effects.columns["overall"]
    assert (early.epoch, column.num_configurations, column.num_trials) == (2, 6, 6)
    assert (column.is_known, sweep.estimated_effects.columns["overall"].is_known) == (True, False)
    scores = sweep.curves.query("epoch == 2 and task == 'overall' and split == 'dev' and not trial.str.endswith('r1')")
    assert column.curves["smart.weight"].means.mean() == pytest.approx(scores["value"].mean(), abs=0.01)
    assert any("after epoch 2, which all 6 configurations have" in line for line in sweep.answer())


def test_search_that_pruned_no_trial_has_no_early_effects(sweep_folder: Path) -> None:
    record_search(sweep_folder)
    info = json.loads((sweep_folder / "sweep.json").read_text())
    for search, status in (("tpe", "complete"), ("grid", "pruned")):
        write_sweep(sweep_folder, {**info, "search": search})
        stop_last_trial(sweep_folder, status)
        assert load_sweep(sweep_folder).early_effects is None
