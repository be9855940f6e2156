"""Data sources: known and new ones, and every rule of one; batch and evaluation settings."""

from dataclasses import replace
from typing import Any

import pytest

from mtlib.config.data import DataConfig, EvaluationConfig, SourceConfig, further_sets
from mtlib.config.trial import TrialConfig
from mtlib.tasks import FURTHER_SETS, TASKS
from tests.config_cases import (
    BASE,
    Case,
    assert_every_field_changes_the_hash,
    assert_range,
    override_error,
    undescribed_fields,
)

CASES: list[Case] = [
    ("data.bucket_batches", -1, "data.bucket_batches must be at least 0", 0),
    ("data.hold_out", -0.001, "data.hold_out must be from 0 to 0.5", 0.0),
    ("data.hold_out", 0.501, "data.hold_out must be from 0 to 0.5", 0.5),
    ("evaluation.batch_size", 0, "evaluation.batch_size must be at least 1", 1),
    ("evaluation.batch_tokens", 0, "evaluation.batch_tokens must be at least 1", 1),
    *(
        (
            "data.sources.snli.path",
            wrong,
            "data.sources.snli: path must end in .csv, .tsv, .jsonl, .parquet or begin with ",
            right,
        )
        for wrong, right in (("", "x.csv"), ("x.tsv.gz", "x.tsv"), ("x.json", "x.jsonl"), ("x/hf://y", "hf://y"))
    ),
    ("data.sources.snli.role", "test", "data.sources.snli.role must be one of extra, augment, replace", "augment"),
    ("data.sources.snli.batch_size", 0, "data.sources.snli: batch_size must be at least 1", 1),
    ("data.sources.snli.probability_factor", 0.0, "data.sources.snli: probability_factor must be above 0", 1e-9),
]


@pytest.mark.parametrize("case", CASES)
def test_values_out_of_range_are_refused_and_the_nearest_inside_is_accepted(case: Case) -> None:
    assert_range(case)


def test_every_field_changes_the_hash() -> None:
    values: dict[str, Any] = {"task": "sts", "path": "x.csv", "role": "extra", "text_columns": ["a", "b"]}
    values |= {"label_column": "l", "id_column": "i", "labels": ["x:1"], "dev_split": "val", "batch_size": 4}
    assert_every_field_changes_the_hash("data.sources.snli", SourceConfig, {**values, "probability_factor": 0.5})
    sources = dict(further_sets(), more=SourceConfig(task="sst", path="x.csv"))
    data: dict[str, Any] = {"sources": sources, "bucket_by_length": False, "bucket_batches": 3, "hold_out": 0.1}
    data["tasks"] = {**TASKS, "sst": replace(TASKS["sst"], title="Reviews")}
    assert_every_field_changes_the_hash("data", DataConfig, data)
    assert_every_field_changes_the_hash("evaluation", EvaluationConfig, {"batch_size": 3, "batch_tokens": 9})


def test_built_in_extra_data_is_known_and_off() -> None:
    assert set(BASE.data.sources) == set(FURTHER_SETS) == {"cfimdb", "snli"}
    cfimdb, snli = BASE.data.sources["cfimdb"], BASE.data.sources["snli"]
    assert (cfimdb.task, cfimdb.labels, cfimdb.batch_size) == ("sst", ("0:0", "1:4"), 8)
    assert (snli.task, snli.labels, snli.probability_factor) == ("qqp", ("0:1", "2:0"), 0.1)
    assert {source.role for source in BASE.data.sources.values()} == {"extra"}
    assert BASE.train_sets == ("sst", "qqp", "sts")


def test_a_new_source_is_read_from_text_field_by_field() -> None:
    changes = {
        "data.sources.synthetic.task": "sst",
        "data.sources.synthetic.path": "synthetic.jsonl",
        "data.sources.synthetic.role": "augment",
        "data.sources.synthetic.text_columns": "text",
        "data.sources.synthetic.labels": "neg:0,pos:4",
        "data.sources.synthetic.batch_size": "8",
    }
    changed = BASE.override(changes)
    assert changed.data.sources["synthetic"] == SourceConfig(
        task="sst",
        path="synthetic.jsonl",
        role="augment",
        text_columns=("text",),
        labels=("neg:0", "pos:4"),
        batch_size=8,
    )
    assert set(changed.data.sources) == {"cfimdb", "snli", "synthetic"}
    assert changed.data.of_role("augment", "sst") == ("synthetic",)
    assert TrialConfig.from_json(changed.to_json()) == changed


def test_a_known_source_changed_by_text_keeps_its_other_fields() -> None:
    changed = BASE.override({"data.sources.snli.batch_size": "4"})
    assert changed.data.sources["snli"].batch_size == 4
    assert changed.data.sources["snli"].labels == BASE.data.sources["snli"].labels
    assert BASE.data.sources["snli"].batch_size == 16


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"data.sources.new.path": "x"}, "data.sources.new.task is missing"),
        ({"data.sources.new.task": "sst"}, "data.sources.new.path is missing"),
        (
            {"data.sources.new.tsak": "sst"},
            "unknown key 'data.sources.new.tsak'; did you mean 'data.sources.new.task'?",
        ),
        ({"data.sources.snli.file": "x"}, "unknown key 'data.sources.snli.file'"),
        ({"data.sources.new": "x"}, "data.sources.new must be a group of keys, got 'x'"),
        ({"data.source.new.task": "sst"}, "unknown key 'data.source'; did you mean 'data.sources'?"),
        ({"data.sources.snli.task": "nli"}, "data.sources.snli: unknown task 'nli'"),
        (
            {"data.sources.snli.text_columns": "a"},
            "data.sources.snli: text_columns must name 2, as many as qqp has, got 1",
        ),
        (
            {"data.sources.cfimdb.text_columns": "a,b"},
            "data.sources.cfimdb: text_columns must name 1, as many as sst has",
        ),
        (
            {"data.sources.sst.task": "sst", "data.sources.sst.path": "x.csv"},
            "a name in data.sources must not be that of a task",
        ),
        (
            {"data.sources.snli.role": "replace"},
            "data.sources.snli: path of role replace must hold {split}, got snli-train",
        ),
    ],
)
def test_an_invalid_source_is_refused_by_its_key(changes: dict[str, Any], line: str) -> None:
    assert override_error(changes).startswith(line)


@pytest.mark.parametrize("path", ["more-{split}.csv", "hf://glue"])
def test_the_path_of_a_replacing_source_must_depend_on_the_split(path: str) -> None:
    changes = {"data.sources.snli.role": "replace", "data.sources.snli.path": path}
    assert BASE.override(changes).data.of_role("replace", "qqp") == ("snli",)


def test_a_task_is_replaced_only_once() -> None:
    source = {"task": "sst", "path": "x-{split}.csv", "role": "replace"}
    one = {f"data.sources.one.{name}": value for name, value in source.items()}
    two = {f"data.sources.two.{name}": value for name, value in source.items()}
    assert BASE.override({**one, **two, "data.sources.two.task": "sts"}).data.of_role("replace", "sts") == ("two",)
    assert override_error({**one, **two}) == "data.sources must replace a task only once, got ['sst', 'sst']"


@pytest.mark.parametrize("entry", ["1", "1:", "1:x", "1:-0.1", "1:4.1", ":", "1:nan", "1:inf", "1:0.5", "1:3.999"])
def test_a_label_that_the_task_lacks_is_refused(entry: str) -> None:
    line = override_error({"data.sources.cfimdb.labels": [entry]})
    assert line.startswith(
        "data.sources.cfimdb: labels must be from:to with labels of sst, 0 to 4, after the colon, got"
    )


@pytest.mark.parametrize("entry", ["1:0", "x:4", "a:b:2", ":3", "1:2.0"])
def test_labels_of_the_task_are_accepted(entry: str) -> None:
    assert BASE.override({"data.sources.cfimdb.labels": [entry]}).data.sources["cfimdb"].labels == (entry,)


@pytest.mark.parametrize(("task", "label", "fits"), [("sts", "2.5", True), ("qqp", "0.5", False), ("qqp", "1.0", True)])
def test_only_regression_accepts_fractional_labels(task: str, label: str, fits: bool) -> None:
    changes = {"data.sources.x.task": task, "data.sources.x.path": "x.csv", "data.sources.x.labels": [f"a:{label}"]}
    if fits:
        assert BASE.override(changes).data.sources["x"].labels == (f"a:{label}",)
    else:
        line = "data.sources.x: labels must be from:to with labels of qqp, 0 to 1, after the colon, got 'a:0.5'"
        assert override_error(changes) == line


def test_sources_are_immutable_and_unordered() -> None:
    with pytest.raises(TypeError):
        BASE.data.sources["x"] = SourceConfig(task="sst", path="x.csv")  # type: ignore[index]
    reordered = DataConfig(sources=dict(reversed(list(further_sets().items()))))
    assert reordered == DataConfig()
    assert list(reordered.sources) == sorted(reordered.sources)


def test_no_extra_data_has_the_name_of_a_task() -> None:
    assert not set(further_sets()) & set(TASKS)


def test_every_field_has_a_docstring() -> None:
    assert undescribed_fields("data.py") == []
