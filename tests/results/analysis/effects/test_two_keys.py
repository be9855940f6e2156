"""From the files of a sweep over two keys to its answer: an interaction is found where there is one, only there."""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from mtlib.tasks import TASKS
from mtlib.training.epoch_report import EpochReport
from results.analysis.effects.answer import answer_question
from results.analysis.effects.sweep_effects import sweep_effects
from results.analysis.sweep import load_sweep
from results.records.epochs import write_epoch
from results.records.tables import write_trials
from results.records.trials import TrialRecord, write_sweep
from results.table import print_ranking
from tests.results.analysis.comparison.test_trial_scores import scores_of

MakeReport = Callable[..., EpochReport]
MakeRecord = Callable[..., TrialRecord]
Values = tuple[float, str]
KEYS: dict[str, list[float | str]] = {"smart.weight": [0.0, 0.5], "gradients": ["sum", "pcgrad"]}
BASE = {"smart": {"weight": 0.0}, "gradients": "sum"}
SKILLS: dict[str, Mapping[Values, float]] = {
    "interaction": {(0.0, "sum"): 0.6, (0.5, "sum"): 0.6, (0.0, "pcgrad"): 0.6, (0.5, "pcgrad"): 1.8},
    "one key": {(0.0, "sum"): 0.6, (0.5, "sum"): 1.2, (0.0, "pcgrad"): 0.6, (0.5, "pcgrad"): 1.2},
    "none": dict.fromkeys(itertools.product((0.0, 0.5), ("sum", "pcgrad")), 0.8),
}
"""How closely predictions follow the labels."""


def build_grid(folder: Path, skills: Mapping[Values, float], make_report: MakeReport, make_record: MakeRecord) -> None:
    """A sweep of both keys with five replicates; each trial errs on rows of its own."""
    space = {"question": "Do both matter?", "metric": "overall", "grid": list(KEYS.items()), "ranges": []}
    write_sweep(folder, {"name": "mine", "space": space, "base": BASE, "search": "grid"})
    records = []
    for (number, values), replicate in itertools.product(enumerate(skills), range(5)):
        records.append(make_record(number, replicate, params=dict(zip(KEYS, values, strict=True))))
        report = make_report(1, skill=skills[values], seed=10 * number + replicate)
        write_epoch(folder, records[-1].trial_id, report)
    write_trials(folder, records, tuple(TASKS))


@pytest.mark.parametrize(
    ("built", "found", "missing"),
    [
        ("interaction", ["The effect of smart.weight depends on gradients (p < 0.001)"], []),
        (
            "one key",
            ["Take smart.weight 0.5: it is better than 0 by", "Keep gradients sum: no value tried"],
            ["depends on"],
        ),
        ("none", ["Keep smart.weight 0: no value tried", "Keep gradients sum: no value tried"], ["depends on"]),
    ],
)
def test_answer_states_what_was_built_in(
    built: str,
    found: list[str],
    missing: list[str],
    tmp_path: Path,
    make_report: MakeReport,
    make_record: MakeRecord,
    capsys: pytest.CaptureFixture[str],
) -> None:
    build_grid(tmp_path, SKILLS[built], make_report, make_record)
    print_ranking(load_sweep(tmp_path))
    answer = " ".join(capsys.readouterr().out.partition("smart.weight  gradients")[0].split())
    assert "Do both matter?" in answer
    assert [text for text in found if text not in answer] == [], answer
    assert [text for text in missing if text in answer] == [], answer


def test_key_that_changes_no_training_has_no_effect_to_the_last_digit(
    make_report: MakeReport, make_record: MakeRecord
) -> None:
    """Every value of the second key has the trainings of its first value."""
    first, second = (1, 2, 3, 4, 5), ("a", "b", "c")
    records, reports = [], {}
    for number, (one, other) in enumerate(itertools.product(first, second)):
        for replicate in range(3):
            records.append(replace(make_record(number, replicate), params={"w": one, "inert": other}))
            reports[records[-1].trial_id] = [make_report(1, skill=0.3 * one, seed=10 * one + replicate)]
    space = {"question": "", "metric": "overall", "grid": [["w", first], ["inert", second]], "ranges": []}
    info = {"space": space, "base": {"w": 1, "inert": "a"}, "search": "grid"}
    effects = sweep_effects("/sweeps/mine", info, records, scores_of(records, reports))
    for column in effects.columns.values():
        assert [value.is_same for value in column.values["inert"]] == [False, True, True]
        assert column.precisions["inert"] is None
        assert not any(pair.is_significant for pair in column.interactions)
    _, *answer = answer_question(effects, records)
    assert "inert has no effect here. Trained the same as a: b, c." in answer
