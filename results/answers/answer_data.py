"""The answer to a sweep's question as data, in `answer.json`; `docs/results.md` describes its entries."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd

from mtlib.runtime.storage import Location, open_folder
from results.answers.answer import SweepAnswer, answer_of, forecasts
from results.answers.effects_table import effects_frame
from results.records.files import write_json
from results.records.race import ClaimEstimate, RaceRecord, claim_of, race_of
from results.records.trials import STOPPED_BY, sweep_tasks
from results.stats.effects.sweep_effects import SweepEffects
from results.stats.ranking import RankedConfiguration, to_frame
from results.stats.texts import frame_value
from search_spaces.claim import Claim

ANSWER_FILE = "answer.json"
"""In a sweep's folder; its records do not depend on it."""
VERSION = 1
"""Of the entries of the file."""


def write_answer(folder: Location, data: Mapping[str, Any]) -> None:
    """Writes the answer into a sweep's folder; OSError if it cannot be written."""
    write_json(open_folder(folder), ANSWER_FILE, data)


def answer_data(
    answer: SweepAnswer,
    info: Mapping[str, Any],
    statuses: Mapping[str, int],
    effects: SweepEffects | None,
    ranked: Sequence[RankedConfiguration],
) -> dict[str, Any]:
    """Returns the answer as plain data, for JSON.

    Args:
        answer: in words.
        info: the content of `sweep.json`.
        statuses: number of trials by status.
        effects: of the sweep; None where they could not be estimated, as `answer` says.
        ranked: its configurations, best first.
    """
    column = None if effects is None else effects.columns.get(effects.metric)
    may_be_best = [row for row in ranked if row.may_be_best]
    race = race_of(info) or RaceRecord()
    return {
        "version": VERSION,
        "question": answer.question,
        "found": list(answer.found),
        "conditions": list(answer.conditions),
        "trials": dict(statuses),
        "stopped_by": info.get(STOPPED_BY),
        "metric": (info.get("space") or {}).get("metric"),
        "replicates": None if column is None else list(column.num_replicates),
        "claim": claim_data(claim_of(info), race),
        "race": race_data(race),
        "effects": [] if effects is None else plain_rows(effects_frame(effects)),
        "qualitative_interactions": [] if effects is None else qualitative_data(effects),
        "may_be_best": plain_rows(to_frame(may_be_best, sweep_tasks(info))) if may_be_best else [],
        "would_decide": [] if effects is None else forecast_data(effects),
    }


def claim_data(claim: Claim | None, race: RaceRecord) -> dict[str, Any] | None:
    """Returns what is known of the claim that a sweep checks; None if it checks none."""
    if claim is None:
        return None
    last = race.estimated
    found = ClaimEstimate() if last is None or last.claimed is None else last.claimed
    low, high = found.limits or (None, None)
    return {
        "text": claim.text,
        "margin": claim.margin,
        "verdict": race.verdict,
        "rounds": race.num_rounds if last is None else last.num_rounds,
        "difference": found.difference,
        "at_least": low,
        "at_most": high,
        "replicates_needed": found.needed,
    }


def race_data(race: RaceRecord) -> dict[str, Any] | None:
    """Returns the last decision of a race for the best, and when configurations left it; None before any decision."""
    if not race.decisions or race.decisions[-1].claimed is not None:
        return None
    last = asdict(race.decisions[-1])
    left = {f"{number:04d}": rounds for number, rounds in race.left_at.items()}
    numbers = {name: list(last[name]) for name in ("open", "expected_rounds")}
    return {"rounds": race.num_rounds, **numbers, "end": last["end"], "left_after": left}


def forecast_data(effects: SweepEffects) -> list[dict[str, Any]]:
    """Returns, for each key of a grid with an undecided difference, how many replicates would decide the largest; none
    of a race, which decides by itself."""
    column = effects.columns.get(effects.metric)
    if column is None or effects.race.decisions:
        return []
    answers = [answer_of(key, column) for key in effects.keys if key.name in column.values]
    return [
        {
            "key": answer.key.name,
            "value": as_json(frame_value(found.of.value)),
            "base": as_json(frame_value(found.base)),
            "difference": column.value_of(found.of.difference or 0.0),
            "replicates_needed": found.needed,
            "times_rows_needed": as_json(found.times_rows) if found.times_rows > 1 else None,
        }
        for answer, found in forecasts(column, answers)
        if found.of is not None
    ]


def qualitative_data(effects: SweepEffects) -> list[dict[str, Any]]:
    """Returns the values that are better on one slice and worse on another, with differences as metrics have them."""
    rows = []
    for found in effects.qualitative:
        value_of = effects.columns[found.task].value_of
        sizes = {"gain": value_of(found.gain), "loss": value_of(found.loss)}
        texts = {name: as_json(frame_value(getattr(found, name))) for name in ("value", "base")}
        rows.append({**asdict(found), **texts, **sizes})
    return rows


def plain_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Returns the rows of a data frame as JSON has them, with None for what is missing."""
    rows = frame.astype(object).to_dict("records")
    return [{str(name): as_json(value) for name, value in row.items()} for row in rows]


def as_json(value: Any) -> Any:
    """Returns a cell as JSON has it."""
    if isinstance(value, tuple | list):
        return [as_json(item) for item in value]
    is_missing = pd.isna(value) or (isinstance(value, float) and not math.isfinite(value))
    return None if is_missing else value
