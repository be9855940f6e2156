"""Signs that differ between slices are claimed where they are built in, and not where they do not differ."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from mtlib.tasks import TASKS
from results.records.trials import TrialRecord
from results.stats.effects.qualitative_interactions import gail_and_simon, qualitative_interactions
from results.stats.effects.searched_keys import SearchedKey
from results.stats.groups import drawn_groups
from results.stats.resampling import Floats
from results.stats.slices import SlicedRows
from results.stats.trial_scores import TrialScores

MakeRecord = Callable[..., TrialRecord]
KEY = SearchedKey(name="a", values=(0, 1, 2), base=0)


def sweep_of(
    make_record: MakeRecord, gains: Sequence[Sequence[float]], seed: int, columns: int = 1
) -> tuple[list[list[TrialRecord]], TrialScores]:
    """Three values with three replicates, on 150 rows of each slice; `gains` are by value and slice, in accuracy."""
    stream, num_slices, models = np.random.default_rng(seed), len(gains[0]), list[Floats]()
    groups = [
        [make_record(number, replicate, params={"a": number}) for replicate in range(3)] for number in range(len(gains))
    ]
    difficulty = stream.normal(size=num_slices * 150)
    for own in gains:
        by_value = difficulty + 0.5 * stream.normal(size=len(difficulty))
        limit = stats.norm.isf(0.6 + np.repeat(own, 150))
        for _ in range(3):
            logits = (by_value + 0.5 * stream.normal(size=len(by_value)) + 0.05 * stream.normal()) / np.sqrt(1.5)
            models.append((logits > limit).astype(float))
    right, labels = np.stack(models), np.ones(len(difficulty))
    cells = [f"s{number // 150}" for number in range(len(labels))]
    sliced = SlicedRows(
        task=TASKS["qqp"],
        values=right,
        labels=labels,
        groups=np.arange(len(labels)),
        columns={f"column{at}": cells for at in range(columns)},
    )
    trials = [record.trial_id for group in groups for record in group]
    values = {("qqp", "dev"): dict(zip(trials, right.mean(axis=1).tolist(), strict=True))}
    scores = TrialScores(
        epochs={}, values=values, covariances={}, slices={"qqp": sliced}, trainings={}, tasks={"qqp": TASKS["qqp"]}
    )
    return groups, scores


def test_p_value_of_two_effects_is_half_the_one_of_the_smaller() -> None:
    """Of two subsets, Gail and Simon's critical value at 5 % is 2.71, at 1 % 5.41; of four 5.43 (their table 1)."""
    for statistic, level in ((2.71, 0.05), (5.41, 0.01)):
        assert gail_and_simon(np.sqrt([statistic, 40.0]) * [1, -1]) == pytest.approx(level, rel=0.02)
    assert gail_and_simon(np.sqrt([5.43, 9.0, 9.0, 9.0]) * [-1, 1, 1, 1]) == pytest.approx(0.05, rel=0.02)
    assert gail_and_simon(np.array([1.0, 5.0, 0.2])) == 1.0
    drawn = np.array([3.0, -2.0, 0.5, -1.0])
    assert gail_and_simon(drawn) == gail_and_simon(-drawn[::-1])


def test_value_that_helps_one_slice_and_hurts_another_is_found_with_both(make_record: MakeRecord) -> None:
    groups, scores = sweep_of(make_record, [[0, 0, 0], [0.2, 0.0, -0.2], [0.2, 0.2, 0.2]], 0)
    (found,) = qualitative_interactions({"qqp": [KEY]}, {"qqp": groups}, scores)
    assert (found.key, found.value, found.base, found.task, found.column) == ("a", 1, 0, "qqp", "column0")
    assert (found.better_on, found.worse_on) == ("s0", "s2")
    assert found.gain == pytest.approx(0.2, abs=0.08)
    assert found.loss == pytest.approx(-0.2, abs=0.08)
    assert found.p_value < 0.01


def test_more_tests_need_a_smaller_p_value(make_record: MakeRecord) -> None:
    p_values = []
    for columns in (1, 4):
        groups, scores = sweep_of(make_record, [[0, 0], [0.3, -0.3]], 1, columns)
        p_values.append(qualitative_interactions({"qqp": [KEY]}, {"qqp": groups}, scores)[0].p_value)
    assert p_values[1] == pytest.approx(4 * p_values[0])


@pytest.mark.parametrize(
    "gains",
    [
        pytest.param([[0, 0], [0, 0], [0, 0]], id="none", marks=pytest.mark.slow),
        pytest.param([[0, 0], [0.15, 0.0], [0.0, -0.15]], id="one"),
    ],
)
def test_effects_of_one_sign_are_no_interaction_in_19_of_20_sweeps(
    make_record: MakeRecord, gains: Sequence[Sequence[float]]
) -> None:
    """Also where one slice has a large effect and the other none, which is the hardest case."""
    claims = 0
    for seed in range(40):
        groups, scores = sweep_of(make_record, gains, seed)
        claims += bool(qualitative_interactions({"qqp": [KEY]}, {"qqp": groups}, scores))
    assert claims <= 5  # of 40 with 5 % more have a probability of 1 %


def test_slices_of_few_groups_and_single_trainings_have_no_part(make_record: MakeRecord) -> None:
    groups, scores = sweep_of(make_record, [[0, 0], [0.2, -0.2]], 0)
    assert qualitative_interactions({"qqp": [KEY]}, {"qqp": groups}, scores)
    few = np.where(np.arange(300) < 150, np.arange(300) // 17, np.arange(300))  # 9 on the first slice
    own = replace(scores, slices={"qqp": replace(scores.slices["qqp"], groups=few)})
    assert qualitative_interactions({"qqp": [KEY]}, {"qqp": groups}, own) == []
    once = [group[:1] for group in groups]
    assert qualitative_interactions({"qqp": [KEY]}, {"qqp": once}, scores) == []
    assert qualitative_interactions({}, {}, scores) == []


def test_task_in_few_groups_has_no_part_though_its_slices_have_more(make_record: MakeRecord) -> None:
    groups, scores = sweep_of(make_record, [[0, 0], [0.2, -0.2]], 0)
    drawn = drawn_groups(np.zeros((6, 300)), np.arange(300) % 9)
    own = replace(scores, drawn={("qqp", "dev"): drawn})
    assert qualitative_interactions({"qqp": [KEY]}, {"qqp": groups}, own) == []


def test_same_predictions_are_no_difference(make_record: MakeRecord) -> None:
    groups, scores = sweep_of(make_record, [[0, 0], [0.2, -0.2]], 0)
    same = replace(scores.slices["qqp"], values=np.repeat(scores.slices["qqp"].values[:1], 6, axis=0))
    own = replace(scores, slices={"qqp": same})
    assert qualitative_interactions({"qqp": [KEY]}, {"qqp": groups}, own) == []
