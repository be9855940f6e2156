"""The answer as data: valid JSON that agrees with the frames of the sweep and with the answer in words."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from mtlib.runtime.storage import open_folder
from results.answers.answer import answer_question
from results.answers.answer_data import ANSWER_FILE, answer_data, plain_rows, write_answer
from results.records.files import read_json
from results.records.race import DECIDED, EXCLUDED_CLAIM, ClaimEstimate, RoundDecision, race_to_json
from results.records.trials import write_sweep
from results.stats.effects.sweep_effects import SweepEffects
from results.sweep import Sweep, load_sweep
from tests.results.answers.test_answer import KEY, PRECISION, sweep_of, value
from tests.results.page.recorded_sweep import write_recorded_sweep
from tests.results.stats.test_power import precision
from tests.results.test_sweep import set_searched, stop_last_trial

CLAIM = "smart.weight=1 beats smart.weight=0 by 0.005"
OPTIONS = {"claim": CLAIM, "until_decided": 0.0, "replicates": 20, "data": None}
GOING = RoundDecision(
    num_rounds=2,
    open=(0, 1),
    expected_rounds=(4, 4),
    claimed=ClaimEstimate(difference=0.125, margin=0.25, needed=4),
)


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


def as_json(data: Any) -> Any:
    """The data as any reader of JSON has it."""
    return json.loads(json.dumps(data, allow_nan=False), parse_constant=refuse)


def claim_sweep(folder: Path, *decisions: RoundDecision) -> Sweep:
    race = race_to_json(decisions)
    return write_recorded_sweep(folder, weights=(0.0, 1.0), num_replicates=2, options=OPTIONS, race=race)


def assert_rows_are(rows: Sequence[dict[str, Any]], frame: pd.DataFrame) -> None:
    """Checks that rows are those of a frame, with None where it has a gap."""
    assert len(rows) == len(frame)
    for row, (_, expected) in zip(rows, frame.iterrows(), strict=True):
        assert list(row) == list(frame)
        for name, cell in row.items():
            wanted = expected[name]
            assert cell is None if not isinstance(wanted, list | tuple) and pd.isna(wanted) else cell == wanted, name


def test_rows_of_effects_and_of_the_ranking_are_those_of_the_frames(recorded_sweep: Sweep) -> None:
    data = as_json(recorded_sweep.answer_data())
    assert_rows_are(data["effects"], recorded_sweep.effects())
    ranking = recorded_sweep.ranking()
    assert_rows_are(data["may_be_best"], ranking[ranking["may_be_best"]])
    assert 1 <= len(data["may_be_best"]) <= 3


def test_words_are_those_of_the_answer(recorded_sweep: Sweep) -> None:
    data = recorded_sweep.answer_data()
    assert [data["question"], *data["found"], *data["conditions"]] == recorded_sweep.answer()
    assert data["trials"] == {"complete": 6}
    assert (data["metric"], data["replicates"]) == ("overall", [2, 2])
    assert (data["claim"], data["race"]) == (None, None)


@pytest.mark.parametrize("values", [(None, 0.1, 0.3), (2, None, 4), (True, False, None), ([1, 2], [1], [])])
def test_any_searched_values_are_valid_json(sweep_folder: Path, values: tuple[Any, ...]) -> None:
    stop_last_trial(sweep_folder, "complete")
    set_searched(sweep_folder, values)
    data = as_json(load_sweep(sweep_folder).answer_data())
    shown = [row["value"] for row in data["effects"] if row["task"] == "overall"]
    assert shown == ["none" if own is None else own for own in values]


def test_what_is_missing_or_not_finite_is_null() -> None:
    frame = pd.DataFrame({"a": [1.5, float("nan"), float("inf")], "b": pd.array([1, None, 3], dtype="Int64")})
    frame["c"] = pd.Series([(1, float("nan")), "x", pd.NA], dtype="object")
    assert as_json(plain_rows(frame)) == [
        {"a": 1.5, "b": 1, "c": [1, None]},
        {"a": None, "b": None, "c": "x"},
        {"a": None, "b": 3, "c": None},
    ]


def test_sweep_without_an_answer_has_the_same_entries(tmp_path: Path, recorded_sweep: Sweep) -> None:
    known = recorded_sweep.answer_data()
    write_sweep(tmp_path / "new", {"name": "new"})
    for sweep in (load_sweep(tmp_path / "new"), replace(recorded_sweep, path=tmp_path / "nowhere")):
        data = as_json(sweep.answer_data())
        assert data.keys() == known.keys()
        assert data["found"]
        assert (data["effects"], data["may_be_best"], data["would_decide"]) == ([], [], [])
        assert data["version"] == known["version"]


def test_file_has_the_data_and_is_read_whole(recorded_sweep: Sweep) -> None:
    write_answer(recorded_sweep.path, recorded_sweep.answer_data())
    text = (Path(recorded_sweep.path) / ANSWER_FILE).read_text()
    assert json.loads(text, parse_constant=refuse) == as_json(recorded_sweep.answer_data())
    assert read_json(open_folder(recorded_sweep.path), ANSWER_FILE) == json.loads(text)
    assert load_sweep(recorded_sweep.path).answer_data() == recorded_sweep.answer_data(), "the file changes no answer"


def test_claim_has_its_verdict_and_limits(tmp_path: Path) -> None:
    data = as_json(claim_sweep(tmp_path / "mine", GOING).answer_data())
    assert data["claim"] == {
        **{"text": CLAIM, "margin": 0.005, "verdict": "open", "rounds": 2},
        **{"difference": 0.125, "at_least": -0.125, "at_most": 0.375, "replicates_needed": 4},
    }
    assert (data["race"], data["would_decide"]) == (None, []), "it is no race for the best"
    assert data["found"][0].startswith("Open: ")


@pytest.mark.parametrize("end", ["shown", EXCLUDED_CLAIM])
def test_decided_claim_needs_no_more(tmp_path: Path, end: str) -> None:
    estimate = ClaimEstimate(difference=0.125, margin=0.0625, needed=None)
    last = RoundDecision(num_rounds=3, open=(0, 1), end=end, claimed=estimate)
    claim = as_json(claim_sweep(tmp_path / "mine", GOING, last).answer_data())["claim"]
    assert (claim["verdict"], claim["rounds"], claim["replicates_needed"]) == (end, 3, None)
    assert (claim["at_least"], claim["at_most"]) == (0.0625, 0.1875)


@pytest.mark.parametrize("decisions", [(), (RoundDecision(num_rounds=2, open=(1,), end="undecidable"),)])
def test_claim_without_an_estimate_is_open_and_has_no_limits(
    tmp_path: Path, decisions: tuple[RoundDecision, ...]
) -> None:
    claim = as_json(claim_sweep(tmp_path / "mine", *decisions).answer_data())["claim"]
    assert (claim["text"], claim["verdict"]) == (CLAIM, "open")
    assert {claim[name] for name in ("difference", "at_least", "at_most", "replicates_needed")} == {None}


def test_race_says_when_each_configuration_left_it(tmp_path: Path) -> None:
    second = RoundDecision(num_rounds=2, open=(0, 1), worse=(2,), expected_rounds=(5, 5))
    third = RoundDecision(num_rounds=3, open=(1,), equal=(0,), end=DECIDED)
    options = {"until_decided": 0.01, "replicates": 20, "data": None}
    race = race_to_json([second, third])
    sweep = write_recorded_sweep(tmp_path / "mine", num_replicates=3, options=options, race=race)
    data = as_json(sweep.answer_data())
    assert data["race"] == {
        **{"rounds": 3, "open": [1], "expected_rounds": [], "end": DECIDED},
        "left_after": {"0002": 2, "0000": 3},
    }
    assert data["claim"] is None


def data_of(effects: SweepEffects) -> dict[str, Any]:
    found: dict[str, Any] = as_json(answer_data(answer_question(effects, ()), {}, {}, effects, []))
    return found


def test_replicates_that_would_decide_are_those_of_the_answer_in_words() -> None:
    effects = sweep_of([value(0.0, None), value(0.45, -0.008)], precisions={KEY.name: PRECISION})
    data = data_of(effects)
    (row,) = data["would_decide"]
    assert row.items() >= {"key": "smart.weight", "value": 0.45, "base": 0.0, "times_rows_needed": None}.items()
    assert row["difference"] == -0.008
    assert data["found"][-1].endswith(f" --replicates {row['replicates_needed']}")


def test_each_undecided_key_has_a_row_and_a_decided_one_has_none() -> None:
    values = {
        KEY.name: [value(0.0, None), value(0.45, -0.008)],
        "rate": [value(0.0, None), value(1.0, 0.007)],
        "steps": [value(0.0, None), value(1.0, 0.2)],
    }
    keys = [replace(KEY, name=name) for name in values]
    effects = replace(sweep_of([], values=values, precisions=dict.fromkeys(values, PRECISION)), keys=keys)
    data = data_of(effects)
    needed = {row["key"]: row["replicates_needed"] for row in data["would_decide"]}
    assert list(needed) == [KEY.name, "rate"]
    assert data["found"][-1].endswith(f" --replicates {max(needed.values())}")


def test_difference_that_the_dev_set_hides_has_the_rows_that_would_show_it() -> None:
    hidden = precision(0.005, 0.02, (0.45,))
    effects = sweep_of([value(0.0, None), value(0.45, -0.008)], precisions={KEY.name: hidden})
    data = data_of(effects)
    (row,) = data["would_decide"]
    assert row["replicates_needed"] is None
    assert row["times_rows_needed"] > 1
    assert "dev is too small" in data["found"][-1]


def test_difference_of_0_is_found_by_no_number_of_rows() -> None:
    """Equal means are common where dev is small."""
    data = data_of(sweep_of([value(0.0, None), value(0.45, 0.0)], precisions={KEY.name: PRECISION}))
    (row,) = data["would_decide"]
    assert (row["replicates_needed"], row["times_rows_needed"]) == (None, None)


def test_claim_whose_effects_cannot_be_estimated_keeps_its_verdict(tmp_path: Path) -> None:
    sweep = claim_sweep(tmp_path / "mine", replace(GOING, end=EXCLUDED_CLAIM, expected_rounds=()))
    data = as_json(replace(sweep, path=tmp_path / "nowhere").answer_data())
    assert data["effects"] == []
    assert (data["claim"]["verdict"], data["claim"]["rounds"]) == (EXCLUDED_CLAIM, 2)


def test_sweep_with_nothing_undecided_has_nothing_to_decide() -> None:
    assert (
        data_of(sweep_of([value(0.0, None), value(0.45, 0.2)], precisions={KEY.name: PRECISION}))["would_decide"] == []
    )
    unknown = sweep_of([value(0.0, None, None)], is_known=False, num_replicates=(1, 1))
    assert data_of(unknown)["would_decide"] == []


def test_data_in_python_is_equal_to_the_file(tmp_path: Path) -> None:
    data = claim_sweep(tmp_path / "mine", GOING).answer_data()
    assert as_json(data) == data
