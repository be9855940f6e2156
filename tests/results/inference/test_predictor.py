"""An ensemble predicts new texts as its trials predicted dev, in chunks, in the order of the rows."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, softmax

from mtlib.data.tables import Table
from mtlib.tasks import TASKS
from results.inference import predictor as predicting
from results.inference.predictor import (
    Predictor,
    ensemble_of,
    iter_chunks,
    load_predictor,
    predict_stream,
    predict_texts,
)
from results.inference.readers import TextRow
from results.records.selection import Member
from results.stats.resampling import Floats
from tests.one_line_error import one_line_error
from tests.results.inference.trained_sweep import FIRST, SECOND, member_of, recorded_logits, selection_of, source_of
from tests.task_tables import read_folder


@pytest.fixture(scope="module")
def dev(tiny_folder: Path) -> dict[str, Table]:
    """The dev rows of each task."""
    return {task: table for (task, _), table in read_folder(tiny_folder, tuple(TASKS), ("dev",)).items()}


def rows_of(table: Table) -> list[TextRow]:
    texts = zip(*table.texts, strict=True)
    return [TextRow(where="dev", id=name, texts=own) for name, own in zip(table.ids, texts, strict=True)]


def load(folder: Path, task: str, *members: Member) -> Predictor:
    return load_predictor(selection_of(folder, {task: members}), task, source_of(folder))


def predict_all(predictor: Predictor, rows: Sequence[TextRow]) -> Floats:
    """Predictions of all rows, which come back in their order."""
    chunks = list(predict_stream(predictor, rows))
    assert [row for chunk, _ in chunks for row in chunk] == list(rows)
    return np.concatenate([outputs for _, outputs in chunks])


def plain_outputs(task: str, logits: Floats) -> Floats:
    """Outputs to average, by scipy."""
    kind = TASKS[task].kind
    if kind == "classes":
        return np.asarray(softmax(logits, axis=1))
    return np.asarray(2 * expit(logits) - 1 if kind == "binary" else np.clip(logits, 0, 5))


@pytest.mark.parametrize("task", TASKS)
def test_ensemble_of_two_is_their_weighted_mean(task: str, trained_folder: Path, dev: dict[str, Table]) -> None:
    members = [member_of(trained_folder, FIRST, task, 0.75), member_of(trained_folder, SECOND, task, 0.25)]
    found = predict_all(load(trained_folder, task, *members), rows_of(dev[task]))
    parts = [plain_outputs(task, recorded_logits(trained_folder, trial, task)) for trial in (FIRST, SECOND)]
    assert np.abs(found - (0.75 * parts[0] + 0.25 * parts[1])).max() <= 1e-4
    assert np.abs(parts[0] - parts[1]).max() > 1e-3  # otherwise anything would pass


def test_chunk_size_changes_nothing_and_rows_with_a_blank_text_have_no_prediction(
    trained_folder: Path, dev: dict[str, Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = rows_of(dev["qqp"])[:6]
    predictor = load(trained_folder, "qqp", member_of(trained_folder, FIRST, "qqp"))
    whole = predict_all(predictor, rows)
    for place, blank in ((0, ("", "")), (1, ("a film", "")), (2, ("", "a film")), (5, ("", ""))):
        rows[place] = replace(rows[place], texts=blank)
    for size in (2048, 3, 1):
        monkeypatch.setattr(predicting, "MAX_CHUNK_ROWS", size)
        assert len(list(iter_chunks(rows))) == math.ceil(6 / size)
        found = predict_all(predictor, rows)
        assert np.isnan(found[[0, 1, 2, 5]]).all()
        assert np.abs(found[3:5] - whole[3:5]).max() <= 1e-5
    assert list(predict_stream(predictor, [])) == []


def test_each_model_reads_texts_behind_its_own_prefix(trained_folder: Path) -> None:
    member = member_of(trained_folder, FIRST, "qqp")
    plain, texts = load(trained_folder, "qqp", member), [("a film", "a play"), ("a film", "a film")]
    (model,) = plain.models
    config = model.config.override({"tasks.qqp.prefix": "a play "})
    both = replace(
        plain, models=(model, replace(model, config=config)), ensemble=ensemble_of([replace(member, weight=0.5)] * 2)
    )
    prefixed = [tuple(f"a play {text}" for text in pair) for pair in texts]
    expected = (predict_texts(plain, texts) + predict_texts(plain, prefixed)) / 2
    assert np.abs(predict_texts(both, texts) - expected).max() <= 1e-6


def test_only_one_chunk_is_read_ahead(trained_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predicting, "MAX_CHUNK_ROWS", 4)
    num_read = 0

    def endless() -> Iterator[TextRow]:
        nonlocal num_read
        while True:
            num_read += 1
            yield TextRow(where="x", id=str(num_read), texts=("a film",))

    predictor = load(trained_folder, "sst", member_of(trained_folder, FIRST, "sst"))
    chunks = predict_stream(predictor, endless())
    for number in range(1, 6):
        rows, outputs = next(chunks)
        assert len(rows) == len(outputs) == 4
        assert num_read == 4 * number


@pytest.mark.parametrize("row", ["a film", ("a film", "a second text"), ()])
def test_row_of_texts_must_be_a_tuple_of_as_many_as_the_task_has(trained_folder: Path, row: Any) -> None:
    predictor = load(trained_folder, "sst", member_of(trained_folder, FIRST, "sst"))
    message = one_line_error(predict_texts, predictor, [("a film",), row])
    assert message == f"every row of texts must be a tuple of 1, got {row!r}"


def test_long_texts_end_a_chunk_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predicting, "MAX_CHUNK_CHARACTERS", 10)
    rows = [TextRow(where="x", id="", texts=("a" * length, "")) for length in (5, 5, 1, 10, 11, 2)]
    assert [len(chunk) for chunk in iter_chunks(rows)] == [3, 2, 1]


def test_invalid_weights_are_refused() -> None:
    member = Member(sweep="a", trial="b", epoch=1, weight=0.5)
    for members, message in (
        ([member], "must sum to 1, got 0.5"),
        ([replace(member, weight=1.0), replace(member, weight=0.0)], "must be above 0, got 0.0"),
    ):
        with pytest.raises(ValueError, match=message):
            ensemble_of(members)


def test_infinite_prediction_is_one_line(trained_folder: Path) -> None:
    predictor = load(trained_folder, "sst", member_of(trained_folder, FIRST, "sst"))
    for weight in predictor.models[0].model.heads["sst"].parameters():
        weight.data.fill_(math.nan)
    with pytest.raises(ValueError, match="every prediction must be finite, got another one by trial 0000-r0 of /"):
        predict_texts(predictor, [("a film",)])
