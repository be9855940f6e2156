"""Data sources: new ones and their rules; batch and evaluation settings."""

from typing import Any

import pytest

from mtlib.config.data import DataConfig, SourceConfig, is_later
from mtlib.config.trial import TrialConfig
from mtlib.tasks import TASKS
from tests.config_cases import BASE, assert_range, override_error
from tests.one_line_error import one_line_error


@pytest.mark.parametrize(
    ("key", "outside", "inside"),
    [
        ("data.bucket_batches", -1, 0),
        ("data.hold_out", -0.001, 0.0),
        ("data.hold_out", 0.501, 0.5),
        ("evaluation.batch_size", 0, 1),
        ("evaluation.batch_tokens", 0, 1),
        ("data.sources.snli.path", "x.tsv.bz2", "x.tsv"),
        ("data.sources.snli.batch_size", 0, 1),
        ("data.sources.snli.probability_factor", 0.0, 1e-9),
    ],
)
def test_settings_have_ranges(key: str, outside: Any, inside: Any) -> None:
    assert_range(key, outside, inside)


def test_built_in_extra_data_is_left_out_where_its_task_is_another() -> None:
    own = {"sst": TASKS["sst"], "sts": TASKS["sts"]}
    assert set(DataConfig(tasks=own).sources) == {"cfimdb"}
    given = {"snli": SourceConfig(task="sts", path="x.csv")}
    assert set(DataConfig(tasks=own, sources=given).sources) == {"snli"}


def test_a_new_source_is_read_from_text_field_by_field() -> None:
    fields = {"task": "sst", "path": "x.jsonl", "role": "augment", "text_columns": "text", "labels": "neg:0,pos:4"}
    changed = BASE.override({f"data.sources.synthetic.{name}": value for name, value in fields.items()})
    expected = SourceConfig(
        task="sst", path="x.jsonl", role="augment", text_columns=("text",), labels=("neg:0", "pos:4")
    )
    assert changed.data.sources["synthetic"] == expected
    assert changed.data.sources.keys() == {*BASE.data.sources, "synthetic"}
    assert changed.data.of_role("augment", "sst") == ("synthetic",)
    assert TrialConfig.from_json(changed.to_json()) == changed


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"data.sources.new.path": "x"}, ("data.sources.new.task is missing",)),
        ({"data.sources.snli.text_columns": "a"}, ("data.sources.snli: text_columns", "2")),
        ({"data.sources.sst.task": "sst", "data.sources.sst.path": "x.csv"}, ("must not be that of a task",)),
        ({"data.sources.snli.role": "replace"}, ("data.sources.snli: path", "must hold {split}")),
        ({"data.tasks.sst.name": "stars"}, ("data.tasks.sst.name must be sst",)),
    ],
)
def test_an_invalid_source_is_refused_by_its_key(changes: dict[str, Any], words: tuple[str, ...]) -> None:
    line = override_error(changes)
    assert all(word in line for word in words), line


def test_a_task_is_replaced_only_once() -> None:
    source = {"task": "sst", "path": "x-{split}.csv", "role": "replace"}
    both = {f"data.sources.{name}.{field}": value for name in ("one", "two") for field, value in source.items()}
    assert BASE.override({**both, "data.sources.two.task": "sts"}).data.of_role("replace", "sts") == ("two",)
    assert "only once" in override_error(both)


@pytest.mark.parametrize(
    ("task", "entry", "fits"),
    [
        ("sst", "x: 4", True),
        ("sst", "1:x", False),
        ("sst", "1:4.1", False),
        ("sst", "1:0.5", False),
        ("sts", "a:2.5", True),
        ("qqp", "a:0.5", False),
    ],
)
def test_labels_after_the_colon_are_those_of_the_task(task: str, entry: str, fits: bool) -> None:
    changes = {"data.sources.x.task": task, "data.sources.x.path": "x.csv", "data.sources.x.labels": [entry]}
    if fits:
        assert BASE.override(changes).data.sources["x"].labels == (entry,)
    else:
        line = override_error(changes)
        assert line.startswith("data.sources.x: labels must be from:to")
        assert line.endswith(repr(entry))


@pytest.mark.parametrize(
    ("after", "later", "not_later"),
    [
        ("2024-06-01", ["2024-06-02", "2024-06-02 00:00", "20250101T00"], ["2024-06-01", "2024-06-01T23:59:59Z"]),
        ("2024-06-01", ["2024-06-01T23:30-01:00"], ["2024-06-02T00:30+01:00"]),  # by their day in UTC
        (
            "2024-06-01T12:00",
            ["2024-06-01T12:00:00.001", "2024-06-01T12:30+00:00"],
            ["2024-06-01T12:00Z", "2024-06-01"],
        ),
        ("2024-06-01 12:00:00+02:00", ["2024-06-01T10:00:01"], ["2024-06-01T10:00"]),
        ("2019", ["2019.5", "1e4", "20240601"], ["2019", "2019.0", "-3"]),
    ],
)
def test_later_is_after_a_time_or_the_whole_day_or_greater(after: str, later: list[str], not_later: list[str]) -> None:
    assert [text for text in (*later, *not_later) if is_later(text, after)] == later


@pytest.mark.parametrize(
    ("text", "after"),
    [("5", "2024-06-01"), ("2024-06-01", "5"), ("soon", "5"), ("2024-13-01", "2024-06-01"), ("nan", "5"), ("", "5")],
)
def test_a_date_is_compared_with_dates_alone_and_a_number_with_numbers(text: str, after: str) -> None:
    assert "dev_from must compare numbers, or dates or times" in one_line_error(is_later, text, after)


def test_a_time_outside_the_calendar_in_utc_is_refused() -> None:
    assert "9999-12-31" in one_line_error(is_later, "9999-12-31T23:00-05:00", "2024-06-01")
