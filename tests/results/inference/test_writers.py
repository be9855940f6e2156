"""Predictions as text: exact bytes, and as read by pandas and json."""

import dataclasses
import io
import json

import numpy as np
import pandas as pd

from mtlib.tasks import TASKS, TaskFiles
from results.inference.readers import TextRow
from results.inference.writers import columns_to_carry, format_header, format_rows

ROWS = [TextRow(where="x", id=name, texts=("a",)) for name in ("r0", 'a,"b"', "")]
CLASSES = np.array([[0.1, 0.2, 0.3, 0.25, 0.15], [np.nan] * 5, [0, 0, 0, 0, 1]])
BINARY = np.array([[0.5], [np.nan], [-1 / 3]])
SCORES = np.array([[2.123456789], [np.nan], [5.0]])


def test_csv_bytes() -> None:
    assert format_header(TASKS["sst"], "csv") + format_rows(TASKS["sst"], "csv", ROWS, CLASSES) == (
        "id,prediction,probability_0,probability_1,probability_2,probability_3,probability_4\n"
        "r0,2,0.1,0.2,0.3,0.25,0.15\n"
        '"a,""b""",,,,,,\n'
        ",4,0.0,0.0,0.0,0.0,1.0\n"
    )
    assert format_header(TASKS["qqp"], "csv") + format_rows(TASKS["qqp"], "csv", ROWS, BINARY) == (
        'id,prediction,probability_1\nr0,1,0.75\n"a,""b""",,\n,0,0.333333\n'
    )
    assert format_header(TASKS["sts"], "csv") + format_rows(TASKS["sts"], "csv", ROWS, SCORES) == (
        'id,prediction\nr0,2.123457\n"a,""b""",\n,5.0\n'
    )


def test_labels_have_their_names() -> None:
    names = ("awful", "bad", "so, so", "good", "great")
    tone = dataclasses.replace(TASKS["sst"], name="tone", labels=names)
    assert format_header(tone, "csv") + format_rows(tone, "csv", ROWS[:1], CLASSES[:1]) == (
        'id,prediction,probability_awful,probability_bad,"probability_so, so",probability_good,probability_great\n'
        'r0,"so, so",0.1,0.2,0.3,0.25,0.15\n'
    )
    same = dataclasses.replace(TASKS["qqp"], name="same", labels=("no", "yes"))
    lines = [json.loads(format_rows(same, "jsonl", ROWS[:1], BINARY[row])) for row in (slice(0, 1), slice(2, 3))]
    assert lines[0] == {"id": "r0", "prediction": "yes", "probability_yes": 0.75}
    assert lines[1]["prediction"] == "no"


def test_safe_csv_marks_texts_that_spreadsheets_would_run() -> None:
    tone = dataclasses.replace(TASKS["qqp"], labels=("-no", "+yes"))
    rows = [TextRow(where="x", id=name, texts=("a",)) for name in ("=1+1", "\t=1", "-2.5", "@x", "a=1")]
    text = format_header(tone, "safe_csv") + format_rows(tone, "safe_csv", rows, np.full((5, 1), -1.0))
    ids = [line.split(",")[0] for line in text.splitlines()]
    assert ids == ["id", "'=1+1", "'\t=1", "-2.5", "'@x", "a=1"]
    assert text.splitlines()[1] == "'=1+1,'-no,0.0"


def test_both_formats_are_equal_in_pandas() -> None:
    outputs = np.random.default_rng(0).dirichlet(np.ones(5), 50)
    rows = [TextRow(where="x", id=f"é {number}", texts=("a",)) for number in range(50)]
    text = format_header(TASKS["sst"], "csv") + format_rows(TASKS["sst"], "csv", rows, outputs)
    frame = pd.read_csv(io.StringIO(text))
    lines = [json.loads(line) for line in format_rows(TASKS["sst"], "jsonl", rows, outputs).splitlines()]
    pd.testing.assert_frame_equal(frame, pd.DataFrame(lines))
    assert list(frame["id"]) == [row.id for row in rows]
    assert list(frame["prediction"]) == list(outputs.argmax(axis=1))
    assert np.abs(frame.iloc[:, 2:].to_numpy() - outputs).max() <= 5e-7


def test_several_labels_are_a_list_which_can_be_read_back() -> None:
    tags = dataclasses.replace(
        TASKS["sst"], name="tags", kind="multilabel", label_range=(0, 1), labels=("so, so", "good"), metric=""
    )
    outputs = np.array([[0.5, 1.0], [np.nan, np.nan], [-1.0, 0.0]])
    header, lines = format_header(tags, "csv"), format_rows(tags, "csv", ROWS, outputs)
    frame = pd.read_csv(io.StringIO(header + lines), keep_default_na=False)
    assert list(frame["prediction"]) == ['["so, so", "good"]', "", "[]"]
    assert list(frame.columns[2:]) == ["probability_so, so", "probability_good"]
    assert json.loads(format_rows(tags, "jsonl", ROWS[:1], outputs[:1])) == {
        "id": "r0",
        "prediction": ["so, so", "good"],
        "probability_so, so": 0.75,
        "probability_good": 1.0,
    }


def test_carried_cells_follow_the_id_in_every_format_and_no_column_is_there_twice() -> None:
    files = TaskFiles(train="a.csv", group_columns=("doc",), slice_columns=("source", "doc", "prediction"))
    task = dataclasses.replace(TASKS["qqp"], files=files)
    names = columns_to_carry(task)
    assert names == ["doc", "source"]
    assert columns_to_carry(TASKS["qqp"]) == []
    rows = [TextRow(where="x", id="r", texts=("a", "b"), carried={"doc": "=7", "source": "web"}) for _ in range(2)]
    for form, lines in (
        ("csv", ["id,doc,source,prediction,probability_1", "r,=7,web,1,0.75", "r,=7,web,,"]),
        ("safe_csv", ["id,doc,source,prediction,probability_1", "r,'=7,web,1,0.75", "r,'=7,web,,"]),
    ):
        text = format_header(task, form, names) + format_rows(task, form, rows, BINARY[:2])  # type: ignore[arg-type]
        assert text.splitlines() == lines
    assert json.loads(format_rows(task, "jsonl", rows[:1], BINARY[:1])) == {
        "id": "r",
        "doc": "=7",
        "source": "web",
        "prediction": 1,
        "probability_1": 0.75,
    }
