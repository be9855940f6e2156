from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mtlib.data.file_readers import read_file
from mtlib.data.row_labels import MAX_LISTED_LABELS, Layout
from mtlib.data.tables import (
    Table,
    content_fingerprint,
    make_table,
)
from mtlib.tasks import TASKS, Task, TaskFiles
from tests.one_line_error import one_line_error
from tests.task_tables import read_folder

SST, QQP, STS = (TASKS[name] for name in ("sst", "qqp", "sts"))
SST_HEADER = "\tid\tsentence\tsentiment\n"
QQP_HEADER = "\tid\tsentence1\tsentence2\tis_duplicate\n"


def read(folder: Path, content: str | bytes, task: Task = SST, split: str = "dev") -> Table:
    path = folder / task.file_name(split)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_task_file(path, task, split)


def read_task_file(path: Path, task: Task, split: str) -> Table:
    layout = Layout(id_column="id", text_columns=task.text_columns, label_column=task.label_column)
    return make_table(task, split, layout, path, read_file(path, "csv", layout.columns, delimiters="\t"))


def test_columns_are_picked_by_name_in_any_order(tmp_path: Path) -> None:
    with_index = read(tmp_path, QQP_HEADER + "77\tq1\tWhat?\tWhy?\t1.0\n5\tq2\tWho?\tHow?\t0.0\n", QQP)
    without = read(tmp_path, "is_duplicate\tsentence2\textra\tid\tsentence1\n1\tWhy?\tx\tq1\tWhat?\n", QQP)
    assert with_index.ids == ["q1", "q2"]
    assert with_index.texts == (["What?", "Who?"], ["Why?", "How?"])
    assert with_index.labels.tolist() == [1, 0]
    assert with_index.labels.dtype == np.float32
    assert (without.ids, without.texts) == (["q1"], (["What?"], ["Why?"]))


def test_numeric_ids_stay_text(tmp_path: Path) -> None:
    table = read(tmp_path, SST_HEADER + "0\t7680191234e52227021767702\tFine\t3\n1\t007\tGood\t4\n")
    assert table.ids == ["7680191234e52227021767702", "007"]


def test_white_space_is_stripped_at_the_ends_only(tmp_path: Path) -> None:
    table = read(tmp_path, SST_HEADER + "0\ta\t It 's  a\u00a0lovely film . \t3\n")
    assert table.texts == (["It 's  a\u00a0lovely film ."],)


def test_quoting_is_undone_once(tmp_path: Path) -> None:
    row = '0\ta\t"""What does """"x"""" mean?"""\tsay "x" now\t0.0\n'
    assert read(tmp_path, QQP_HEADER + row, QQP).texts == (['"What does ""x"" mean?"'], ['say "x" now'])


def test_files_written_by_pandas_are_read_back(tmp_path: Path) -> None:
    parts = ["plain", '"', '""', "tab\there", "`` quoted ''", "-LRB-", "\u0091", "\u2028", "\u200b", "é", "\x12", "\\/"]
    stream = np.random.default_rng(0)
    texts = [["x " + " ".join(stream.choice(parts, 4)) for _ in range(200)] for _ in range(2)]
    columns = {
        "id": [f"r{row}" for row in range(200)],
        "sentence1": texts[0],
        "sentence2": texts[1],
        "is_duplicate": 1.0,
    }
    pd.DataFrame(columns).to_csv(tmp_path / "quora-dev.csv", sep="\t")
    table = read_task_file(tmp_path / "quora-dev.csv", QQP, "dev")
    assert list(table.texts) == [[text.strip() for text in column] for column in texts]


def test_unicode_line_separators_do_not_end_a_record(tmp_path: Path) -> None:
    texts = ["one\u2028two", "one\u0085two", "one\x0ctwo", "one\x1ctwo"]
    rows = "".join(f"{row}\tid{row}\t{text}\t{row}\n" for row, text in enumerate(texts))
    assert read(tmp_path, SST_HEADER + rows).texts == (texts,)


def test_a_quoted_text_of_two_lines_is_one_record_and_later_line_numbers_are_right(tmp_path: Path) -> None:
    content = SST_HEADER + '0\ta\t"two\nlines"\t3\n1\tb\tfine\t9\n'
    assert one_line_error(read, tmp_path, content).startswith("ids-sst-dev.csv:4: column sentiment")
    assert read(tmp_path, content.replace("\t9", "\t4")).texts == (["two\nlines", "fine"],)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_byte_order_mark_and_windows_line_ends_change_nothing(tmp_path: Path, encoding: str, end: str) -> None:
    content = "id\tsentence\tsentiment\na\tcafé\t3\nb\tfine\t4\n".replace("\n", end)
    table = read(tmp_path, content.encode(encoding))
    assert (table.ids, table.texts) == (["a", "b"], (["café", "fine"],))


def test_a_file_without_a_final_line_end_keeps_its_last_row(tmp_path: Path) -> None:
    assert read(tmp_path, SST_HEADER + "0\ta\tfine\t3").ids == ["a"]


def test_rows_with_blank_cells_are_skipped_and_reported_with_file_and_line(tmp_path: Path) -> None:
    rows = [
        "0\ta\tWhat?\tWhy?\t1.0",
        "1\tb\tWhat?\t\t",
        "2\tc\tWhat?\tWhy?\t ",
        "3\td\t \tWhy?\t0.0",
        "4\t\tA?\tB?\t0.0",
        "",
    ]
    table = read(tmp_path, QQP_HEADER + "\n".join(rows) + "\n", QQP)
    assert table.ids == ["a"]
    assert table.skipped == (
        "quora-dev.csv:3: sentence2 and is_duplicate are blank",
        "quora-dev.csv:4: is_duplicate is blank",
        "quora-dev.csv:5: sentence1 is blank",
        "quora-dev.csv:6: id is blank",
        "quora-dev.csv:7: id and sentence1 and sentence2 and is_duplicate are blank",
    )


@pytest.mark.parametrize(
    ("task", "label"),
    [(SST, "0"), (SST, "4"), (SST, "4.0"), (QQP, "1.0"), (STS, "0.0"), (STS, "5"), (STS, "4.57142857142857")],
)
def test_labels_at_the_ends_of_their_range_are_read(tmp_path: Path, task: Task, label: str) -> None:
    table = read(tmp_path, labelled(task, label), task)
    assert table.labels.tolist() == [np.float32(label)]


@pytest.mark.parametrize(
    ("task", "label", "rule"),
    [
        (SST, "7", "column sentiment must be a whole number from 0 to 4, got '7'"),
        (SST, "-1", "column sentiment must be a whole number from 0 to 4, got '-1'"),
        (SST, "2.5", "column sentiment must be a whole number from 0 to 4, got '2.5'"),
        (SST, "good", "column sentiment must be a whole number from 0 to 4, got 'good'"),
        (QQP, "2.0", "column is_duplicate must be a whole number from 0 to 1, got '2.0'"),
        (QQP, "inf", "column is_duplicate must be a whole number from 0 to 1, got 'inf'"),
        (STS, "5.0001", "column similarity must be a number from 0 to 5, got '5.0001'"),
        (STS, "-0.1", "column similarity must be a number from 0 to 5, got '-0.1'"),
        (STS, "nan", "column similarity must be a number from 0 to 5, got 'nan'"),
        (STS, "about four", "column similarity must be a number from 0 to 5, got 'about four'"),
    ],
)
def test_a_wrong_label_is_refused_with_file_line_and_column(tmp_path: Path, task: Task, label: str, rule: str) -> None:
    assert one_line_error(read, tmp_path, labelled(task, label), task) == f"{task.file_name('dev')}:2: {rule}"


@pytest.mark.parametrize(("label", "is_hinted"), [("true", True), ("2", False), ("0.5", False)])
def test_a_label_in_words_of_own_files_may_get_a_name(tmp_path: Path, label: str, is_hinted: bool) -> None:
    own = replace(QQP, files=TaskFiles(train="a.csv", dev="b.csv"))
    hint = "; labels can be named: labels = [...] in tasks.toml"
    assert one_line_error(read, tmp_path, labelled(own, label), own).endswith(
        f"got '{label}'{hint if is_hinted else ''}"
    )
    assert one_line_error(read, tmp_path, labelled(QQP, label), QQP).endswith(f"got '{label}'")


def labelled(task: Task, label: str) -> str:
    """A file of one row with that label."""
    columns = ["id", *task.text_columns, task.label_column]
    return "\t".join(columns) + "\n" + "\t".join(["a", *["fine"] * len(task.text_columns), label]) + "\n"


def test_another_encoding_is_refused_with_line_and_column(tmp_path: Path) -> None:
    content = (SST_HEADER + "0\ta\tfine\t3\n1\tb\tcafé\t3\n").encode("latin-1")
    assert (
        one_line_error(read, tmp_path, content)
        == "ids-sst-dev.csv:3: column sentence must be UTF-8 text, got byte 0xe9"
    )


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le"])
def test_utf_16_is_refused(tmp_path: Path, encoding: str) -> None:
    message = one_line_error(read, tmp_path, (SST_HEADER + "0\ta\tfine\t3\n").encode(encoding))
    assert message.startswith("ids-sst-dev.csv:1: column ")
    assert "must be UTF-8 text" in message


@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf"])
def test_an_empty_file_is_refused(tmp_path: Path, content: bytes) -> None:
    rule = "ids-sst-dev.csv:1: a file must start with a header line, got an empty file"
    assert one_line_error(read, tmp_path, content) == rule


def test_a_header_alone_is_refused(tmp_path: Path) -> None:
    assert one_line_error(read, tmp_path, SST_HEADER) == "ids-sst-dev.csv: there must be usable rows, got none"


def test_a_file_of_unusable_rows_is_refused_with_the_first(tmp_path: Path) -> None:
    message = one_line_error(read, tmp_path, SST_HEADER + "0\ta\t\t3\n1\tb\tfine\t\n")
    assert message.endswith("got 2 unusable, the first: ids-sst-dev.csv:2: sentence is blank")


def test_a_missing_column_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    message = one_line_error(read, tmp_path, QQP_HEADER.replace("is_duplicate", "is_dup") + "0\ta\tx\ty\t1\n", QQP)
    start = "quora-dev.csv:1: column is_duplicate is missing; did you mean 'is_dup'? known: is_dup, "
    assert message.startswith(start)


def test_a_file_without_a_header_lacks_its_columns(tmp_path: Path) -> None:
    assert "ids-sst-dev.csv:1: column id is missing" in one_line_error(read, tmp_path, "0\tabc\tA lovely film\t3\n")


def test_a_repeated_column_is_refused(tmp_path: Path) -> None:
    message = one_line_error(read, tmp_path, "id\tsentence\tsentence\tsentiment\na\tx\ty\t3\n")
    assert message == "ids-sst-dev.csv:1: column sentence must be there once, got 2"


def test_commas_instead_of_tabs_are_recognised(tmp_path: Path) -> None:
    message = one_line_error(read, tmp_path, "id,sentence,sentiment\na,fine,3\n")
    assert message == "ids-sst-dev.csv:1: columns must be separated by tabs, got 'id,sentence,sentiment'"


def test_a_line_with_too_few_cells_names_the_column_it_lacks(tmp_path: Path) -> None:
    message = one_line_error(read, tmp_path, SST_HEADER + "0\ta\tfine\n")
    assert message == "ids-sst-dev.csv:2: a line must have 4 cells, got 3, no column sentiment"


def test_a_line_with_too_many_cells_names_the_last_column(tmp_path: Path) -> None:
    message = one_line_error(read, tmp_path, SST_HEADER + "0\ta\tfine\tor not\t3\n")
    assert message == "ids-sst-dev.csv:2: a line must have 4 cells, got 5, column sentiment must be the last"


def test_a_quotation_mark_that_swallows_the_rest_is_named_by_its_line(tmp_path: Path) -> None:
    rows = "".join(f"{row}\tid{row}\tfine\t3\n" for row in range(50))
    message = one_line_error(read, tmp_path, SST_HEADER + '0\ta\tfine\t3\n1\tb\t"never closed\t3\n' + rows)
    assert message.startswith("ids-sst-dev.csv:3: column sentence must close its quotation mark")
    assert message.endswith('got "never closed')


def test_a_quotation_mark_closed_by_a_later_one_is_found(tmp_path: Path) -> None:
    content = SST_HEADER + '0\ta\t"opened\t3\n1\tb\tfine\t3\n2\tc\tclosed"\t3\n3\td\tgood\t4\n'
    assert one_line_error(read, tmp_path, content).startswith(
        "ids-sst-dev.csv:2: column sentence must close its quotation mark"
    )


def test_text_after_a_closing_quotation_mark_is_refused(tmp_path: Path) -> None:
    message = one_line_error(read, tmp_path, SST_HEADER + '0\ta\t"x" and "y"\t3\n')
    assert message.startswith("ids-sst-dev.csv:2: column sentence must close its quotation mark")


def test_a_quotation_mark_in_the_label_is_named_in_the_label(tmp_path: Path) -> None:
    message = one_line_error(read, tmp_path, SST_HEADER + '0\ta\t"fine"\t"3\n1\tb\tfine\t3\n')
    assert message.startswith("ids-sst-dev.csv:2: column sentiment must close")


def test_an_unreadable_path_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must be a readable file, got: Is a directory"):
        read_task_file(tmp_path, SST, "dev")


def test_a_folder_gives_a_table_per_task_and_split(tiny_folder: Path) -> None:
    tables = read_folder(tiny_folder, ["sst", "sts"])
    assert sorted(tables) == [(task, split) for task in ("sst", "sts") for split in ("dev", "train")]
    assert all((table.task, table.split) == key for key, table in tables.items())


def test_every_missing_file_is_named_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "ids-sst-train.csv").write_text(SST_HEADER + "0\ta\tfine\t3\n")
    (tmp_path / "sst-dev.csv").write_text(SST_HEADER + "0\ta\tfine\t3\n")
    with pytest.raises(ValueError) as caught:
        read_folder(tmp_path, iter(["sst", "qqp"]))
    rule = f"data folder {tmp_path} lacks ids-sst-dev.csv, quora-dev.csv, quora-train.csv; "
    hint = "did you mean 'sst-dev.csv' for ids-sst-dev.csv? the folder holds ids-sst-train.csv, sst-dev.csv"
    assert str(caught.value) == rule + hint


def test_missing_files_are_reported_before_a_wrong_one_is_read(tmp_path: Path) -> None:
    (tmp_path / "ids-sst-train.csv").write_text("wrong")
    with pytest.raises(ValueError, match=r"lacks ids-sst-dev\.csv"):
        read_folder(tmp_path, ["sst"])


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"data must be a folder, got .*nowhere, which is missing$"):
        read_folder(tmp_path / "nowhere", ["sst"])
    (tmp_path / "data").mkdir()
    with pytest.raises(ValueError, match=rf"which is missing; did you mean {tmp_path}/data\?$"):
        read_folder(tmp_path / "dat", ["sst"])


def test_an_empty_folder_is_reported_as_such(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"lacks ids-sst-dev\.csv, ids-sst-train\.csv; the folder holds no \.csv"):
        read_folder(tmp_path, ["sst"])


def test_a_fourth_task_needs_one_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = Task(
        name="nli",
        title="NLI",
        kind="classes",
        label_range=(0, 2),
        text_columns=("sentence1", "sentence2"),
        label_column="label",
        file_stem="nli",
    )
    monkeypatch.setitem(TASKS, "nli", task)
    for split in ("train", "dev"):
        (tmp_path / f"nli-{split}.csv").write_text("id\tsentence1\tsentence2\tlabel\nx\tA man.\tA dog.\t2\n")
    assert read_folder(tmp_path, ["nli"])["nli", "dev"].texts == (["A man."], ["A dog."])


def labelled_rows(*labels: str) -> list[tuple[str, list[str]]]:
    return [(f"f.csv:{row}", [f"id{row}", "a man", "a dog", label]) for row, label in enumerate(labels)]


def mapped(mapping: tuple[str, ...], *labels: str, task: Task = QQP) -> Table:
    layout = Layout(id_column="id", text_columns=task.text_columns, label_column="gold", labels=mapping)
    return make_table(task, "train", layout, Path("f.csv"), labelled_rows(*labels))


def test_mapped_labels_drop_other_rows_and_count_them_per_label() -> None:
    table = mapped(("0:1", "2:0"), "0", "1", "2", "1", "-1", "0")
    assert (table.ids, table.labels.tolist()) == (["id0", "id2", "id5"], [1, 0, 1])
    assert table.left_out == (
        "f.csv: 2 rows have gold 1, which labels does not name",
        "f.csv: 1 row has gold -1, which labels does not name",
    )
    assert (table.skipped, table.num_own_rows) == ((), 3)


@pytest.mark.parametrize("written", ["0", "0.0", "-0", "0e0", "00"])
def test_a_number_is_mapped_in_any_spelling(written: str) -> None:
    for entry in ("0:1", "0.0:1", " 0 : 1"):
        table = mapped((entry,), written)
        assert table.labels.tolist() == [1]


def test_words_are_mapped_literally_and_may_hold_colons() -> None:
    table = mapped(("entailment:1", "a:b:0"), "entailment", "a:b", "Entailment", "nan")
    assert (table.labels.tolist(), len(table.left_out)) == ([1, 0], 2)


def test_a_mapping_to_an_unknown_label_is_refused_with_its_line() -> None:
    with pytest.raises(ValueError, match=r"^f\.csv:1: column gold must be a whole number from 0 to 1, got '0\.5'$"):
        mapped(("1:1", "2:0.5"), "1", "2")


def test_a_value_mapped_twice_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^labels must name each value once, got 0:1, 0\.0:0$"):
        mapped(("0:1", "0.0:0"), "0")


def test_a_blank_label_is_unusable_rather_than_dropped() -> None:
    table = mapped(("0:1",), "0", "")
    assert (table.skipped, table.left_out) == (("f.csv:1: gold is blank",), ())


@pytest.mark.parametrize("count", [MAX_LISTED_LABELS, MAX_LISTED_LABELS + 3])
def test_dropped_labels_beyond_the_most_frequent_are_counted_together(count: int) -> None:
    left_out = mapped(("0:1",), "0", *(str(label) for label in range(1, count + 1)), "1").left_out
    assert left_out[0] == "f.csv: 2 rows have gold 1, which labels does not name"
    assert len(left_out) == MAX_LISTED_LABELS + (count > MAX_LISTED_LABELS)
    assert count == MAX_LISTED_LABELS or left_out[-1] == "f.csv: 3 rows have another gold that labels does not name"


def test_a_file_without_any_mapped_label_is_refused_with_those_found() -> None:
    with pytest.raises(ValueError, match=r"^f\.csv: there must be usable rows, got f\.csv: 2 rows have gold 1, which"):
        mapped(("0:1",), "1", "1")


def test_the_fingerprint_depends_on_the_set_and_its_own_rows() -> None:
    table = mapped((), "0", "1")
    assert table.num_own_rows == 2
    prints = [{("qqp", "train"): table}, {("snli", "train"): table}]
    prints.append({("qqp", "train"): replace(table, num_own_rows=1)})
    assert len({content_fingerprint(tables) for tables in prints}) == 3


def test_the_fingerprint_depends_on_content_alone(tmp_path: Path) -> None:
    rows = "0\ta\tfine\t3\n1\tb\tgood\t4\n"
    first = {("sst", "dev"): read(tmp_path, SST_HEADER + rows), ("sst", "train"): read(tmp_path, SST_HEADER + rows)}
    moved = tmp_path / "moved"
    moved.mkdir()
    again = read(moved, SST_HEADER.replace("\t", "n\t", 1) + rows.replace("0\ta", "9\ta"))
    assert content_fingerprint({("sst", "train"): again, ("sst", "dev"): again}) == content_fingerprint(first)


@pytest.mark.parametrize(
    ("old", "new"), [("fine", "line"), ("\t3", "\t2"), ("\ta\t", "\tc\t"), ("fine\t3\n1\tb\t", "fine ")]
)
def test_the_fingerprint_changes_with_text_label_and_id(tmp_path: Path, old: str, new: str) -> None:
    content = SST_HEADER + "0\ta\tfine\t3\n1\tb\tgood\t4\n"
    tables = [read(tmp_path, text) for text in (content, content.replace(old, new))]
    prints = {content_fingerprint({("sst", "dev"): table}) for table in tables}
    assert len(prints) == 2
    assert content_fingerprint({("sst", "train"): tables[0]}) not in prints


def test_several_labels_are_a_list_in_json_or_texts_with_commas() -> None:
    task = replace(QQP, kind="multilabel", label_range=(0, 2), labels=("red", "green", "blue, or cyan"), metric="")
    mapping = ("red:0", "green:1", "blue, or cyan:2", "0:0", "1:1", "2:2")
    found = mapped(mapping, '["blue, or cyan", "red"]', "[]", "red, green", "2,0", "[1]", "", task=task)
    assert found.labels.dtype == np.float32
    assert found.labels.tolist() == [[1, 0, 1], [0, 0, 0], [1, 1, 0], [1, 0, 1], [0, 1, 0]]
    assert found.skipped == ("f.csv:5: gold is blank",)
    for cell in ("[red]", '[["red"]]'):
        with pytest.raises(ValueError, match=r"^f\.csv:0: a list of labels must be JSON"):
            mapped(mapping, cell, task=task)
    found = mapped(mapping, "red", "red, pink", task=task)  # an extra source: other labels are left out
    assert found.left_out == ("f.csv: 1 row has gold pink, which labels does not name",)
