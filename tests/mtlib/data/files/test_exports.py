"""Exports of annotation tools are the rows that their annotators have decided; the others are counted."""

from collections import Counter
from typing import Any

import pytest

from mtlib.data.files.exports import find_export, labels_of_export, rows_of_export
from mtlib.data.files.readers import SourceFindings
from tests.one_line_error import one_line_error


def read(items: list[dict[str, Any]], label: str) -> tuple[list[Any], Counter[str]]:
    """The labels of the rows of an export, and what is left out."""
    findings = SourceFindings()
    rows = rows_of_export([(f"t.json:{at}", item) for at, item in enumerate(items)], label, findings)
    return [item.get(label) for _, item in rows], findings.left_out


def annotated(*values: dict[str, Any], cancelled: bool = False, name: str = "tone") -> dict[str, Any]:
    """An annotation of Label Studio for each value."""
    results = [{"from_name": name, "type": "choices", "value": value} for value in values]
    return {"was_cancelled": cancelled, "result": results}


def studio(*annotations: dict[str, Any]) -> dict[str, Any]:
    return {"id": 1, "data": {"text": "A text", "source": "x"}, "annotations": list(annotations)}


GOOD, BAD = {"choices": ["good"]}, {"choices": ["bad"]}
NONE, TIE = "no annotator has answered", "annotators disagree equally often"


@pytest.mark.parametrize(
    ("annotations", "label"),
    [
        ([annotated(GOOD)], ["good"]),
        ([annotated(GOOD), annotated(BAD), annotated(GOOD)], ["good"]),
        ([annotated(GOOD), annotated(BAD, cancelled=True)], ["good"]),
        ([annotated({"choices": ["b", "a"]}), annotated({"choices": ["a", "b"]})], ["a", "b"]),
        ([annotated({"rating": 4}), annotated({"rating": 4}), annotated({"rating": 1})], 4),
        ([annotated({"number": 0.5})], 0.5),
        ([annotated(BAD, name="other"), annotated(GOOD)], ["good"]),
    ],
)
def test_most_annotators_of_label_studio_decide(annotations: list[dict[str, Any]], label: object) -> None:
    assert read([studio(*annotations)], "tone") == ([label], Counter())


@pytest.mark.parametrize(
    ("annotations", "why"),
    [
        ([annotated(GOOD), annotated(BAD)], TIE),
        ([annotated(GOOD, cancelled=True)], f"{NONE} tone"),
        ([annotated(GOOD, name="other")], f"{NONE} tone"),
        ([], f"{NONE} tone"),
    ],
)
def test_rows_that_label_studio_does_not_decide_are_counted(annotations: list[dict[str, Any]], why: str) -> None:
    assert read([studio(annotated(GOOD)), studio(*annotations)], "tone") == (
        [["good"]],
        Counter({f"{why} (Label Studio)": 1}),
    )


def test_the_data_of_a_task_of_label_studio_are_its_columns() -> None:
    ((_, row),) = rows_of_export([("t.json:0", studio(annotated(GOOD)))], "tone", SourceFindings())
    assert (row["text"], row["source"], row["id"]) == ("A text", "x", 1)


def test_several_choices_of_json_min_are_a_list() -> None:
    items = [{"annotation_id": 1, "tone": {"choices": ["a", "b"]}}, {"annotation_id": 2, "tone": "a"}]
    assert read(items, "tone") == ([["a", "b"], "a"], Counter())


def prodigy(answer: str, **more: object) -> dict[str, Any]:
    return {"text": "x", "_input_hash": 1, "_task_hash": 2, "answer": answer, **more}


def test_examples_that_prodigy_accepts_are_rows() -> None:
    items = [prodigy("accept", accept=["a"]), prodigy("reject", accept=["b"]), prodigy("ignore", accept=[])]
    items.append(prodigy("accept", accept=["b"]))
    left_out = Counter({f"{NONE} (Prodigy)": 1, "the annotator rejected (Prodigy)": 1})
    assert read(items, "accept") == ([["a"], ["b"]], left_out)


def test_answers_of_prodigy_are_labels_where_they_are_asked_for() -> None:
    items = [prodigy("accept", label="A"), prodigy("reject", label="A"), prodigy("ignore", label="A")]
    assert read(items, "answer") == (["accept", "reject"], Counter({f"{NONE} (Prodigy)": 1}))


def test_row_that_is_none_of_its_tool_is_one_line() -> None:
    items = [prodigy("accept", label="A"), {"text": "a", "label": "B"}]
    assert one_line_error(read, items, "label").startswith("t.json:1 must be a row of an export of Prodigy, got {")


def test_a_single_label_is_right_where_nothing_was_rejected() -> None:
    assert read([prodigy("accept", label="A"), prodigy("ignore", label="A")], "label")[0] == ["A"]


def test_rows_to_predict_are_all_rows() -> None:
    items = [prodigy("accept"), prodigy("reject"), prodigy("ignore")]
    assert len(read(items, "")[0]) == 3
    assert len(read([studio(), studio(annotated(GOOD), annotated(BAD))], "")[0]) == 2


def argilla(is_flat: bool, *answers: tuple[object, str]) -> dict[str, Any]:
    """A record with the answers of annotators to `tone`."""
    if is_flat:
        values, statuses = [value for value, _ in answers], [status for _, status in answers]
        return {"text": "x", "tone.responses": values or None, "tone.responses.status": statuses or None}
    given = [{"value": value, "status": status, "user_id": "u"} for value, status in answers]
    return {"fields": {"text": "x"}, "metadata": {"source": "y"}, "suggestions": {}, "responses": {"tone": given}}


@pytest.mark.parametrize("is_flat", [True, False])
def test_most_annotators_of_argilla_decide(is_flat: bool) -> None:
    items = [
        argilla(is_flat, ("good", "submitted")),
        argilla(is_flat, ("good", "submitted"), ("bad", "submitted"), ("bad", "submitted")),
        argilla(is_flat, ("good", "submitted"), ("bad", "discarded"), ("bad", "draft")),
        argilla(is_flat, (["a", "b"], "submitted"), (["b", "a"], "submitted")),
        argilla(is_flat, ("good", "submitted"), ("bad", "submitted")),
        argilla(is_flat, ("good", "discarded")),
        argilla(is_flat),
    ]
    left_out = Counter({f"{TIE} (Argilla)": 1, f"{NONE} tone (Argilla)": 2})
    assert read(items, "tone") == (["good", "bad", "good", ["a", "b"]], left_out)


def test_a_field_or_metadata_of_the_name_of_a_question_is_no_answer() -> None:
    record = argilla(False)
    record |= {"fields": {"text": "x", "tone": "good"}, "metadata": {"tone": "bad"}}
    assert read([record], "tone") == ([], Counter({f"{NONE} tone (Argilla)": 1}))
    assert read([{**argilla(True), "source": "y"}], "source") == (["y"], Counter())
    ((_, row),) = rows_of_export([("a.json:0", record)], "metadata.tone", SourceFindings())
    assert row["metadata"]["tone"] == "bad", "with dots it is a key of the object"


def test_categories_of_spacy_that_apply_are_a_list() -> None:
    items = [{"text": "x", "cats": {"a": 1.0, "b": 0.0, "c": 0.5}}, {"text": "y", "cats": {"a": 0, "b": 0}}]
    assert read(items, "cats") == ([["a", "c"], []], Counter())


@pytest.mark.parametrize(
    ("item", "tool"),
    [
        (studio(), "Label Studio"),
        ({"annotation_id": 1}, "Label Studio"),
        (prodigy("accept"), "Prodigy"),
        (argilla(True), "Argilla"),
        (argilla(False), "Argilla"),
        ({"cats": {}}, "spaCy"),
        ({"text": "x", "label": ["a"]}, None),
        ({"text": "x", "answer": "accept", "cats": "none", "data": 1}, None),
    ],
)
def test_a_tool_is_recognised_by_its_keys(item: dict[str, Any], tool: str | None) -> None:
    found = find_export(item)
    assert (found and found[0]) == tool


def test_plain_rows_stay_as_they_are() -> None:
    assert read([{"label": 1}, {"label": None}], "label") == ([1, None], Counter())
    assert read([], "label") == ([], Counter())


@pytest.mark.parametrize(
    ("item", "labels"),
    [
        ({"data": {}, "annotations": ["pos", {"result": None}, annotated(GOOD)]}, ["tone"]),
        ({"data": {}, "annotations": [{"result": ["x", {"type": "choices"}]}]}, []),
        ({"label": "a", "answer": "accept"}, ["label", "answer"]),
        ({"accept": [1], "answer": "accept"}, ["accept", "answer"]),
        ({"tone.responses": None}, ["tone"]),
    ],
)
def test_keys_that_may_be_the_label_of_an_export_are_found(item: dict[str, Any], labels: list[str]) -> None:
    assert labels_of_export(item) == labels
