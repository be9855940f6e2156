"""Exports of annotation tools, recognised by their keys, as plain rows: what the annotators have decided.

| tool | recognised by | label |
| --- | --- | --- |
| Label Studio, JSON | `data`, `annotations` | the name of the control, such as `sentiment` |
| Label Studio, JSON_MIN | `annotation_id` | likewise |
| Prodigy | `_input_hash`, `_task_hash`, `answer` | `label`; `accept` of choices; `answer` to one question |
| Argilla 2, flat | `QUESTION.responses` | the question |
| spaCy | `cats` | `cats` |

Of several annotators the majority counts. Rows that none has answered, that were rejected or ignored, and ties are left
out and counted. doccano's files hold plain rows: its label is a list of names.
Source: label-studio-sdk 2.1.2, argilla 2.8.0, Prodigy's and spaCy's documentation.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from mtlib.data.files.readers import SourceFindings

PlacedItem = tuple[str, dict[str, Any]]
"""The position of an object in its file, and the object."""

SHOWN = 60
"""Characters of an object that a message shows."""
RESPONSES, SUBMITTED = ".responses", "submitted"
"""The end of Argilla's keys of what annotators have answered, and the status of an answer that counts."""
IGNORED, TIED, REJECTED = "no annotator has answered", "annotators disagree equally often", "the annotator rejected"
"""Why a row is left out."""


def rows_of_export(places: Iterable[PlacedItem], label: str, findings: SourceFindings) -> Iterator[PlacedItem]:
    """Yields the rows of a file's objects: of an export those that are decided, else the objects as they are.

    Args:
        places: every object of a file, with its position.
        label: the key of the label; empty where none is read.
        findings: gets the name of the tool whose export it is, and the rows that are left out, by reason.

    Raises:
        ValueError: an object is none of its tool's exports.
    """
    ahead = iter(places)
    first = list(itertools.islice(ahead, 1))
    found = find_export(first[0][1]) if first else None
    every = itertools.chain(first, ahead)
    if found is None:
        yield from every
        return
    tool, read = found
    findings.tools.add(tool)
    for where, item in every:
        try:
            row = read(item, label)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{where} must be a row of an export of {tool}, got {str(item)[:SHOWN]}") from error
        if isinstance(row, str):
            findings.left_out[f"{row} ({tool})"] += 1
        else:
            yield where, row


ReadRow = Callable[[dict[str, Any], str], dict[str, Any] | str]
"""Returns the row of an object, by the key of the label, or why it is left out."""


def find_export(item: Mapping[str, Any]) -> tuple[str, ReadRow] | None:
    """Returns the tool whose export an object is of, and what reads it; None for plain rows."""
    keys = item.keys()
    if {"data", "annotations"} <= keys and isinstance(item["annotations"], list):
        return "Label Studio", label_studio_row
    if "annotation_id" in keys:
        return "Label Studio", label_studio_min_row
    if {"_input_hash", "_task_hash", "answer"} <= keys:
        return "Prodigy", prodigy_row
    if any(key.endswith(RESPONSES) for key in keys) or {"fields", "responses", "suggestions"} <= keys:
        return "Argilla", argilla_row
    if isinstance(item.get("cats"), dict):
        return "spaCy", spacy_row
    return None


def labels_of_export(item: Mapping[str, Any]) -> list[str]:
    """Returns what the key of the label may be, by an object of an export, the likeliest first; none for plain rows."""
    if isinstance(item.get("annotations"), list):
        annotations = (one for one in item["annotations"] if isinstance(one, dict))
        results = (result for one in annotations for result in one.get("result") or () if isinstance(result, dict))
        return list(dict.fromkeys(str(result["from_name"]) for result in results if "from_name" in result))
    if isinstance(item.get("responses"), dict):
        return list(item["responses"])
    questions = [key.removesuffix(RESPONSES) for key in item if key.endswith(RESPONSES)]
    return questions or [key for key in ("cats", "accept", "label", "answer") if key in item]


def label_studio_row(item: dict[str, Any], label: str) -> dict[str, Any] | str:
    """Returns the data of a task, with what most of its annotations have chosen."""
    given = []
    for annotation in item["annotations"]:
        results = () if annotation.get("was_cancelled") else annotation.get("result", ())
        values = (result["value"] for result in results if result.get("from_name") == label)
        given += [value.get("choices", value.get("rating", value.get("number"))) for value in values]
    return with_majority({**item, **item["data"]}, label, given)


def label_studio_min_row(item: dict[str, Any], label: str) -> dict[str, Any] | str:
    """Returns an annotation of a task, with several choices as a list."""
    own = item.get(label)
    return {**item, label: own["choices"]} if isinstance(own, dict) and "choices" in own else item


def prodigy_row(item: dict[str, Any], label: str) -> dict[str, Any] | str:
    """Returns an example that was accepted; any that was answered where the answer is the label, and any at all
    where no label is read."""
    if not label:
        return item
    if item["answer"] == "ignore":
        return IGNORED
    return REJECTED if item["answer"] == "reject" and label != "answer" else item


def argilla_row(item: dict[str, Any], label: str) -> dict[str, Any] | str:
    """Returns a record, flat or not, with the answer that most annotators have submitted."""
    if isinstance(item.get("responses"), dict):
        answers = [(one["value"], one.get("status")) for one in item["responses"].get(label, ())]
        item = {**item, **item["fields"], **item.get("metadata", {})}
    elif f"{label}{RESPONSES}" not in item:
        return item  # the label is no question
    else:
        status = item.get(f"{label}{RESPONSES}.status") or itertools.repeat(None)
        answers = list(zip(item.get(f"{label}{RESPONSES}") or (), status, strict=False))
    return with_majority(item, label, [value for value, status in answers if status in (SUBMITTED, None)])


def spacy_row(item: dict[str, Any], _label: str) -> dict[str, Any] | str:
    """Returns an example with the categories that apply as a list."""
    return {**item, "cats": [name for name, score in item["cats"].items() if score >= 0.5]}


def with_majority(item: dict[str, Any], label: str, given: Iterable[Any]) -> dict[str, Any] | str:
    """Returns a row with the answer that most annotators have given as its label; why it has none."""
    if not label or "." in label:  # a key within the object is no question
        return item
    counts = Counter(tuple(sorted(one)) if isinstance(one, list) else one for one in given).most_common(2)
    if not counts:
        return f"{IGNORED} {label}"
    if len(counts) == 2 and counts[0][1] == counts[1][1]:
        return TIED
    chosen = counts[0][0]
    return {**item, label: list(chosen) if isinstance(chosen, tuple) else chosen}
