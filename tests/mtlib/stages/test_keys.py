"""Cuts of a trial by hand, and keys that change exactly with what affects a stage."""

import dataclasses
import re
from typing import Any

import pytest

from mtlib.config.trial import TrialConfig
from mtlib.stages.keys import Cut, Origin, key_parts, list_cuts, next_stage_starts_from_best
from mtlib.stages.plan import plan_stages

Changes = dict[str, Any]
ROWS = {"sst": 30, "qqp": 70, "sts": 22, "cfimdb": 16}
ORIGIN = Origin(
    encoder="e",
    started={"encoder": "w", "heads.qqp": "q", "heads.sst": "s", "relational": "r"},
    data={
        **{(task, split): f"{task} {split}" for task in ("sst", "qqp", "sts") for split in ("train", "dev", "test")},
        ("cfimdb", "train"): "cfimdb",
    },
    environment={"sources": "0", "num_workers": 1},
)


@pytest.fixture
def config(tiny_config: TrialConfig) -> TrialConfig:
    """Three epochs of QQP alone, then two of all: 4 steps each, and 4 of SST, 4 of QQP and 5 of STS each."""
    return tiny_config.override({"stages.0.epochs": 3, "stages.1.order": "smallest_round_robin"})


def cuts_of(config: TrialConfig, origin: Origin = ORIGIN) -> list[Cut]:
    return list_cuts(config, plan_stages(config, ROWS), origin)


def facts(cut: Cut) -> tuple[int, int, bool, int, int]:
    return cut.stage, cut.epochs, cut.is_end, cut.total_epochs, cut.total_steps


ALL_EPOCHS = [(0, 1, False, 1, 4), (0, 2, False, 2, 8), (0, 3, True, 3, 12), (1, 1, False, 4, 24), (1, 2, True, 5, 36)]


def test_with_a_constant_rate_there_is_a_cut_after_every_epoch(config: TrialConfig) -> None:
    cuts = cuts_of(config)
    assert [facts(cut) for cut in cuts] == ALL_EPOCHS
    keys = [cut.key for cut in cuts] + [cut.key_with_best for cut in cuts]
    assert len(set(keys)) == 10
    assert all(key is not None and re.fullmatch("[0-9a-f]{64}", key) for key in keys)


def test_where_a_stages_length_counts_the_only_cut_is_at_its_end(config: TrialConfig) -> None:
    triangle = config.override({"optimizer.schedule": "slanted_triangular"})
    assert [facts(cut) for cut in cuts_of(triangle)] == [cut for cut in ALL_EPOCHS if cut[2]]
    annealed = config.override({"stages.1.order": "annealed", "stages.1.steps_per_epoch": 12})
    assert [facts(cut) for cut in cuts_of(annealed)] == [cut for cut in ALL_EPOCHS if cut[:2] != (1, 1)]


def test_the_best_weights_of_a_stage_are_in_the_key_where_the_next_starts_from_them(config: TrialConfig) -> None:
    best = config.override({"stages.1.start_from": "best"})
    assert [next_stage_starts_from_best(config, index) for index in (0, 1)] == [False, False]
    assert [next_stage_starts_from_best(best, index) for index in (0, 1)] == [True, False]
    for plain, from_best in zip(cuts_of(config)[:3], cuts_of(best)[:3], strict=True):
        assert from_best.key_with_best is None
        assert from_best.key == plain.key_with_best != plain.key
    for plain, from_best in zip(cuts_of(config)[3:], cuts_of(best)[3:], strict=True):
        assert from_best.key_with_best is not None
        assert {from_best.key, from_best.key_with_best}.isdisjoint({plain.key, plain.key_with_best})


def changing(config: TrialConfig, origin: Origin, first: TrialConfig | None = None) -> list[bool]:
    """Whether the keys of the two stages' ends differ from those of ORIGIN."""
    own, found = ([cut.key for cut in cuts_of(*pair) if cut.is_end] for pair in ((first or config,), (config, origin)))
    return [one != other for one, other in zip(own, found, strict=True)]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({("qqp", "train"): "x"}, [True, True]),
        ({("qqp", "dev"): "x"}, [True, True]),
        ({("sst", "train"): "x"}, [False, True]),
        ({("qqp", "test"): "x"}, [False, False]),
        ({("cfimdb", "train"): "x"}, [False, False]),
        ({("qqp", "train"): "qqp dev", ("qqp", "dev"): "qqp train"}, [True, True]),
    ],
)
def test_data_counts_from_the_stage_that_reads_it(
    changed: dict[tuple[str, str], str], expected: list[bool], config: TrialConfig
) -> None:
    assert changing(config, dataclasses.replace(ORIGIN, data={**ORIGIN.data, **changed})) == expected


@pytest.mark.parametrize(
    ("changes", "part", "expected"),
    [
        ({}, "encoder", [True, True]),
        ({}, "heads.qqp", [True, True]),
        ({}, "heads.sst", [False, True]),
        ({}, "relational", [False, False]),  # no task uses it
        ({"relational_tasks": ["sts"]}, "relational", [False, True]),
    ],
)
def test_starting_weights_count_from_the_stage_that_trains_them(
    changes: Changes, part: str, expected: list[bool], config: TrialConfig
) -> None:
    without = {name: digest for name, digest in ORIGIN.started.items() if name != part}
    for started in ({**ORIGIN.started, part: "x"}, without):
        assert changing(config.override(changes), dataclasses.replace(ORIGIN, started=started)) == expected


def test_a_change_affects_only_its_part_of_every_key(config: TrialConfig) -> None:
    own = key_parts(config, 0, 3, ORIGIN)
    changed: dict[str, Any] = {"num_workers": 1, "more": None}
    for kind, (other, origin) in {
        "configuration": (config.override({"tasks.qqp.batch_size": 3}), ORIGIN),
        "data": (config, dataclasses.replace(ORIGIN, data={**ORIGIN.data, ("qqp", "train"): "x"})),
        "encoder": (config, dataclasses.replace(ORIGIN, encoder="x")),
        "starting weights": (config, dataclasses.replace(ORIGIN, started={})),
        "environment": (config, dataclasses.replace(ORIGIN, environment=changed)),
    }.items():
        found = key_parts(other, 0, 3, origin)
        assert {name for name in own if own[name] != found[name]} == {kind}
        assert changing(other, origin, first=config) == [True, True]
