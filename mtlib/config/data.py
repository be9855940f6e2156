"""Settings of data: further sources, rows to hold out, batching, and the batches of the evaluation."""

import contextlib
import math
import re
import types
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Literal

from mtlib.config.schema import check_types
from mtlib.runtime.errors import require, require_name, require_once
from mtlib.tasks import FURTHER_SETS, TASKS, FileFormat, Task

Role = Literal["extra", "augment", "replace", "train"]

Format = Literal["csv", "tsv", "jsonl", "json", "parquet", "xlsx", "lines", "fasttext", "text"]
"""What a file of rows may be: `lines` has a text a line, `fasttext` labels before it, `text` is one text."""
FORMATS: dict[Format, tuple[str, ...]] = {
    "csv": (".csv",),
    "tsv": (".tsv",),
    "jsonl": (".jsonl", ".ndjson"),
    "json": (".json",),
    "parquet": (".parquet",),
    "xlsx": (".xlsx",),
    "lines": (),
    "fasttext": (),
    "text": (),
}
"""The endings of the names of files in each format, without those of `COMPRESSIONS`."""
COMPRESSIONS = (".gz", ".zst", ".zip")
"""Endings that compression adds; a ZIP file has one member."""
TABLE_SUFFIXES = tuple(suffix for suffixes in FORMATS.values() for suffix in suffixes)
"""Endings of files whose format is known by them."""
DELIMITED_FORMATS = ("csv", "tsv", "xlsx", "json")
"""Formats of files that may lack names of columns."""
HUB_PREFIX = "hf://"
"""Prefix of the path of a Hugging Face data set."""
PATTERN_MARKS = "*?"
"""Characters that make a path a pattern."""
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
"""A number in a file. Python's `float` would also read `1_0` and digits of other scripts."""
TRUTH_VALUES = ("true", "false")
"""JSON writes them so, pandas writes `True`, R `TRUE`: they are equal."""


@dataclass(frozen=True, kw_only=True)
class SourceConfig:
    """Rows from a file or data set of another layout, turned into rows of a task."""

    task: str
    """The task whose head and loss the rows train."""
    path: str
    """A file (`.csv`: tab- or comma-separated with quoting; `.tsv`: tab-separated, quoted or not as the file shows;
    `.jsonl`: an object per line; `.json`; `.parquet`; `.xlsx`), relative to the data folder or absolute, in which
    `{split}` stands for train or dev; or `hf://NAME`, a Hugging Face data set by hub name or local folder (needs the
    extra `datasets`)."""
    role: Role = "extra"
    """`extra`: a set of its own, trained where a stage names it in `extra_data`. `augment`: its rows join the task's
    train rows; sampling still counts the task's own rows only (Tuning Up BERT 4.5). `replace`: these are the task's
    train and dev rows, in place of the files in the data folder. `train`: likewise, but of train alone."""
    text_columns: tuple[str, ...] = ()
    """Columns of the texts, as many as the task has. Empty: named as the task's."""
    label_column: str = ""
    """Column of the label. Empty: named as the task's."""
    id_column: str = "id"
    """Column of the example id. Rows are numbered where there is none."""
    labels: tuple[str, ...] = ()
    """`from:to` for each value of the label column that is used, e.g. `0:1, 2:0`; rows with other values are left out
    and counted. Empty: labels are the task's own, by name where they have names."""
    teacher_columns: tuple[str, ...] = ()
    """For the roles `augment` and `train`, the columns with a teacher's logits for each row, as many as the task has,
    from which `distillation` learns; of a regression its prediction. Rows of role `augment` may then have a blank
    label: they are learned from the teacher alone. Empty: none."""
    dev_split: str = "dev"
    """Name of the dev split, in place of `{split}` or in the data set, e.g. `validation`."""
    batch_size: int = 16
    """For the role `extra`, the examples per batch over all workers, at least 1; all rows where there are fewer.
    Source: My PAL BERT 5.3 uses 8 for CFIMDB."""
    probability_factor: float = 1.0
    """For the role `extra`, the factor of its probability where an order draws at random, above 0. Source: My PAL BERT
    5.3 uses 1/10 for SNLI."""

    def __post_init__(self) -> None:
        check_types(self)
        rule = f"path must end in {', '.join(TABLE_SUFFIXES)} or begin with {HUB_PREFIX}"
        require(self.path.startswith(HUB_PREFIX) or format_of(self.path) is not None, rule, repr(self.path))
        require(not is_pattern(self.path), "path must name one file, not a pattern", self.path)
        require(self.batch_size >= 1, "batch_size must be at least 1", self.batch_size)
        require(self.probability_factor > 0, "probability_factor must be above 0", self.probability_factor)
        rule = "teacher_columns must be left out unless role is augment or train"
        require(self.role in ("augment", "train") or not self.teacher_columns, rule, self.role)
        has_dev = "{split}" in self.path or self.path.startswith(HUB_PREFIX)
        require(self.role != "replace" or has_dev, "path of role replace must hold {split}", self.path)


def format_of(path: str) -> Format | None:
    """Returns the format of a file by the ending of its name, compressed or not; None if that says none."""
    name = without_compression(path.lower())
    return next((form for form, suffixes in FORMATS.items() if suffixes and name.endswith(suffixes)), None)


def without_compression(path: str) -> str:
    """Returns a path without the ending that compression adds."""
    return next((path[: -len(suffix)] for suffix in COMPRESSIONS if path.lower().endswith(suffix)), path)


def has_format(path: str, given: FileFormat, form: Format) -> bool:
    """Returns whether a file has a format: the one that is given, else the one that its name says."""
    return (given.name or format_of(path)) == form


def is_pattern(path: str) -> bool:
    """Returns whether a path stands for the files that match it."""
    return not path.startswith(HUB_PREFIX) and any(mark in path for mark in PATTERN_MARKS)


def check_source(source: SourceConfig, task: Task) -> None:
    """Checks that a source's columns and labels fit its task."""
    wanted, given = len(task.text_columns), len(source.text_columns)
    require(given in (0, wanted), f"text_columns must name {wanted}, as many as {task.name} has", given)
    for entry in source.labels:
        check_label(entry, task)
    given = len(source.teacher_columns)
    rule = f"teacher_columns must name {task.num_logits}, one for each logit of {task.name}"
    require(given in (0, task.num_logits), rule, given)


def check_label(entry: str, task: Task) -> None:
    """Checks one `from:to`."""
    low, high = task.label_range
    _, colon, label = entry.rpartition(":")
    number = as_number(label.strip())
    fits = isinstance(number, float) and low <= number <= high and (task.is_regression or number.is_integer())
    rule = f"labels must be from:to with labels of {task.name}, {low:g} to {high:g}, after the colon"
    require(bool(colon) and fits, rule, repr(entry))


def as_number(text: str) -> str | float:
    """Returns a written value as the finite number that it is; truth values in small letters;
    any other text unchanged."""
    number = float(text) if NUMBER.fullmatch(text) else math.nan
    if math.isfinite(number):
        return number + 0.0
    return text.lower() if text.lower() in TRUTH_VALUES else text


def is_later(text: str, after: str) -> bool:
    """Returns whether a number is greater than another, or an ISO 8601 date or time later; without a zone it is UTC.

    Where `after` is a day without a time, moments of that day are not later. Raises ValueError unless both are numbers,
    or both dates or times.
    """
    moment, limit = as_moment(text), as_moment(after)
    if isinstance(moment, datetime) and isinstance(limit, datetime):
        with contextlib.suppress(ValueError):
            return moment.date() > date.fromisoformat(after)
        return moment > limit
    if isinstance(moment, datetime) or isinstance(limit, datetime):
        raise ValueError(f"dev_from must compare numbers, or dates or times, got {text} and {after}")
    return moment > limit


def as_moment(text: str) -> float | datetime:
    """Returns a written number, or an ISO 8601 date or time, in UTC; ValueError for any other text."""
    number = as_number(text)
    if isinstance(number, float):
        return number
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"dev_from must compare numbers, or dates or times as in ISO 8601, got {text}") from None


def is_usable(name: str, source: SourceConfig, tasks: Mapping[str, Task]) -> bool:
    """Returns whether a source is given, not one of the further sets as they are,
    which are for built-in tasks alone."""
    is_given = source != further_sets().get(name)
    return is_given or (name not in tasks and tasks.get(source.task) == TASKS[source.task])


def further_sets() -> dict[str, SourceConfig]:
    """Returns the further sets of `mtlib.tasks`; they are read only where a stage names them."""
    return {name: SourceConfig(**settings) for name, settings in FURTHER_SETS.items()}


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """The tasks, further sources of rows, rows to hold out, and how the rest becomes batches."""

    tasks: Mapping[str, Task] = field(default_factory=lambda: TASKS)
    """The definitions of the tasks by name: their labels, files and scores."""
    sources: Mapping[str, SourceConfig] = field(default_factory=further_sets)
    """Further data by a name of its own; CFIMDB and SNLI are known beside the built-in tasks that they are for."""
    bucket_by_length: bool = True
    """True: rows of similar length share a batch, so that little is padding; every row is still seen once per pass."""
    bucket_batches: int = 2
    """Most batches by which a row is moved at random from its place in the order of length, at least 0. More
    makes batches differ more between passes, at the cost of padding: for 640 rows of SST in batches of 16, 3 % of all
    tokens are padding with 0, 9 % with 2, 24 % with 8, and 52, 16 and 5 % of a row's batch mates are the same in the
    next pass (benchmarks/length_buckets.py). Ignored without buckets."""
    hold_out: float = 0.0
    """Share of each active task's own train rows that is held out for a final score, from 0 (none) to 0.5. They are
    chosen in whole groups of rows that share a text, by the texts alone: no seed or replicate changes them. Nothing is
    trained on them, nor on a row of any set that has one of their texts (ignoring case and white space). Rewordings of
    them, and starting weights that were trained on them, are not detected. Source: this project."""

    def __post_init__(self) -> None:
        check_types(self)
        sources = {name: source for name, source in self.sources.items() if is_usable(name, source, self.tasks)}
        object.__setattr__(self, "tasks", types.MappingProxyType(dict(sorted(self.tasks.items()))))
        object.__setattr__(self, "sources", types.MappingProxyType(dict(sorted(sources.items()))))
        require(self.bucket_batches >= 0, "data.bucket_batches must be at least 0", self.bucket_batches)
        require(0 <= self.hold_out <= 0.5, "data.hold_out must be from 0 to 0.5", self.hold_out)
        replaced = [source.task for source in self.sources.values() if source.role in ("replace", "train")]
        require_once(replaced, "data.sources must replace a task only once")
        for name, task in self.tasks.items():
            require(name == task.name, f"data.tasks.{name}.name must be {name}", task.name)
        for name, source in self.sources.items():
            require(name not in self.tasks, "a name in data.sources must not be that of a task", name)
            try:
                require_name(source.task, self.tasks, "task")
                check_source(source, self.tasks[source.task])
            except ValueError as error:  # it does not know whose source it is
                raise ValueError(f"data.sources.{name}: {error}") from error

    def of_role(self, role: Role, task: str) -> tuple[str, ...]:
        """Names of the sources of a task that have this role."""
        return tuple(name for name, source in self.sources.items() if (source.role, source.task) == (role, task))


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig:
    """How dev is scored. Scores depend on it by rounding only."""

    batch_size: int = 64
    """Most examples of an evaluation batch, at least 1."""
    batch_tokens: int | None = None
    """Most tokens of an evaluation batch, padding included, at least 1; a longer example is a batch of its own. None:
    1,024 on a CPU, where the hidden states of more leave its caches (benchmarks/evaluation.py), elsewhere any number.
    """

    def __post_init__(self) -> None:
        check_types(self)
        require(self.batch_size >= 1, "evaluation.batch_size must be at least 1", self.batch_size)
        tokens = self.batch_tokens
        require(tokens is None or tokens >= 1, "evaluation.batch_tokens must be at least 1", tokens)
