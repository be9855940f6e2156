"""Differences of a key's values stand beside those of a paper, with whether they agree."""

from dataclasses import replace

import pytest

from results.analysis.effects.key_effects import ValueEffect
from results.analysis.effects.published_differences import Difference, find_differences, only_key, verdict_on
from results.analysis.sweep import Sweep
from search_spaces.published import PublishedRow, read_published


def differences_beside(sweep: Sweep, overall: dict[float, float | None]) -> list[Difference]:
    """The differences beside a table with these overall scores, by weight; None is recomputed."""
    (table,) = read_published(sweep.info)
    scores = {"sst": 0.5, "qqp": 0.8, "sts": 0.6}
    rows = tuple(
        PublishedRow(params={"smart.weight": weight}, scores=scores, overall=score) for weight, score in overall.items()
    )
    key, column = only_key(sweep.estimated_effects)
    assert key is not None
    assert column is not None
    return find_differences(replace(table, rows=rows), sweep.tasks, key, column)


@pytest.mark.parametrize(
    ("interval", "difference", "published", "expected"),
    [
        ((0.01, 0.03), 0.02, 0.05, "same sign"),
        ((0.01, 0.03), 0.02, -0.05, "opposite sign"),
        ((-0.03, -0.01), -0.02, -0.05, "same sign"),
        ((-0.03, -0.01), -0.02, 0.05, "opposite sign"),
        ((-0.03, -0.01), -0.02, 0.0, "no published difference"),
        ((0.01, 0.03), 0.02, 0.0, "no published difference"),
        ((-0.01, 0.03), 0.01, 0.05, "not decided here"),
        (None, 0.01, 0.05, "not decided here"),
        ((0.01, 0.03), 0.02, None, "not published"),
    ],
)
def test_verdict(
    interval: tuple[float, float] | None, difference: float, published: float | None, expected: str
) -> None:
    value = ValueEffect(value=1, num_trials=2, mean=0.7, difference=difference, error=None, interval=interval)
    assert verdict_on(value, published) == expected


def test_differences_are_of_the_values_that_were_compared_here(recorded_sweep: Sweep) -> None:
    found = differences_beside(recorded_sweep, {0.0: 0.7, 0.3: 0.75, 0.5: 0.8})
    assert [(difference.value, difference.published) for difference in found] == [
        (0.3, pytest.approx(0.05)),
        (1.0, None),
    ]
    assert [difference.verdict == "not published" for difference in found] == [False, True]


def test_base_score_of_zero_is_a_score(recorded_sweep: Sweep) -> None:
    assert differences_beside(recorded_sweep, {0.0: 0.0, 0.3: 0.1})[0].published == pytest.approx(0.1)


def test_difference_with_a_recomputed_score_is_marked(recorded_sweep: Sweep) -> None:
    found = differences_beside(recorded_sweep, {0.0: 0.75, 0.3: 0.76, 1.0: None})
    assert [difference.is_recomputed for difference in found] == [False, True]
    found = differences_beside(recorded_sweep, {0.0: None, 0.3: 0.76})
    assert [difference.is_recomputed for difference in found] == [True, False]


def test_several_keys_are_not_beside_published_differences(recorded_sweep: Sweep) -> None:
    effects = recorded_sweep.estimated_effects
    assert only_key(effects)[0] == effects.keys[0]
    with pytest.raises(ValueError, match="single searched key with listed values, got "):
        only_key(replace(effects, keys=[*effects.keys, *effects.keys]))
    with pytest.raises(ValueError, match="overall score: fewer than two finished configurations"):
        only_key(replace(effects, columns={}))
    column = replace(effects.columns["overall"], values={})
    with pytest.raises(ValueError, match="has one value"):
        only_key(replace(effects, columns={"overall": column}))
