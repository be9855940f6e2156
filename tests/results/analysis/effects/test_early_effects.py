"""Effects on early scores, of a search that pruned trials."""

import json
from pathlib import Path

import pytest

from mtlib.tasks import TASKS
from results.analysis.sweep import load_sweep
from results.records.epochs import write_epoch
from results.records.tables import write_trials
from results.records.trials import write_sweep
from tests.results.analysis.changed_epochs import change_predictions, lose
from tests.results.analysis.test_sweep import record_search, stop_last_trial
from tests.results.conftest import build_record, build_report


def pruned_search(folder: Path) -> None:
    """Six configurations with scores that rise with the weight; those below .6 are pruned after the second of three
    epochs, and the best has a replicate. The base has weight 0."""
    weights = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    pruned = [weight < 0.6 for weight in weights]
    record_search(folder)
    info = json.loads((folder / "sweep.json").read_text())
    domain = {"Float": {"low": 0.0, "high": 1.0, "log": False}}
    space = {**info["space"], "grid": [], "ranges": [["smart.weight", domain]]}
    write_sweep(folder, {**info, "space": space, "search": "tpe", "base": {"smart": {"weight": 0.0}}})
    trials = [(number, 0, "pruned" if is_pruned else "complete") for number, is_pruned in enumerate(pruned)]
    trials.append((5, 1, "complete"))
    records = [build_record(n, again, how, params={"smart.weight": weights[n]}) for n, again, how in trials]
    write_trials(folder, records, tuple(TASKS))
    for record in records:
        for epoch in range(1, 3 if record.status == "pruned" else 4):
            skill = 0.2 + weights[record.number] + 0.1 * epoch
            write_epoch(folder, record.trial_id, build_report(epoch, skill=skill, seed=record.number))


def test_early_effects_are_those_of_all_first_trials_at_the_last_epoch_that_all_reached(tmp_path: Path) -> None:
    pruned_search(tmp_path)
    sweep = load_sweep(tmp_path)
    early = sweep.estimate_early_effects()
    assert early is not None
    column = early.effects.columns["overall"]
    assert (early.epoch, column.num_configurations, column.num_trials) == (2, 6, 6)
    assert (column.is_known, sweep.estimated_effects.columns["overall"].is_known) == (True, False)
    scores = sweep.curves.query("epoch == 2 and task == 'overall' and split == 'dev' and not trial.str.endswith('r1')")
    assert column.curves["smart.weight"].means.mean() == pytest.approx(scores["value"].mean(), abs=0.01)
    lines = sweep.answer()
    assert any("after epoch 2, which all 6 configurations have" in line for line in lines)
    assert lines[-1] == (
        "The best configuration, 0005 (weight=1), is not compared with the base configuration, 0000, of which no "
        "trial has finished."
    )


def test_lost_early_predictions_leave_the_rest_of_the_answer(tmp_path: Path) -> None:
    pruned_search(tmp_path)
    change_predictions(tmp_path, "sst", lose, ("0003-r0", 2))
    sweep = load_sweep(tmp_path)
    assert sweep.scores.epochs["0003-r0"] == 3
    lines = sweep.answer()
    assert lines[1].startswith("Not known: 3 finished configurations are too few")
    (line,) = [line for line in lines if line.startswith("Effects on early scores are not known either: ")]
    assert "0003-r0" in line
    assert "\n" not in line


def test_search_that_pruned_no_trial_has_no_early_effects(sweep_folder: Path) -> None:
    record_search(sweep_folder)
    info = json.loads((sweep_folder / "sweep.json").read_text())
    write_sweep(sweep_folder, {**info, "search": "tpe"})
    stop_last_trial(sweep_folder, "complete")
    assert load_sweep(sweep_folder).estimate_early_effects() is None
    stop_last_trial(sweep_folder, "pruned")
    early = load_sweep(sweep_folder).estimate_early_effects()
    assert early is not None
    assert early.epoch == 2
