"""Files that belong together: texts and their labels, files or folders of one label each, and the splits of a task."""

import dataclasses
import glob
import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtlib.config.data import format_of
from mtlib.data.files.opening import open_decompressed
from mtlib.data.proposals.columns import TEXT_WORDS, Columns, choose_columns
from mtlib.data.proposals.samples import (
    FAULTS,
    MOST_LABELS,
    MOST_ROWS,
    Sample,
    common_encoding,
    decode_start,
    format_by_content,
    name_words,
    split_in,
)
from mtlib.data.proposals.toml_text import in_toml, path_in_toml
from mtlib.tasks import FileFormat

NAMES_OF_LABELS = re.compile(r"label|mapping|class|categor|emotion", re.IGNORECASE)
"""In the names of files that list the names of labels."""
PREFIXES = (r"(?P<label>[^\s:]+):(?P<detail>[^\s:]+) (?P<text>.*)", r"(?P<label>[^\s:]+):\s+(?P<text>.*)")
"""Patterns of lines that begin with their label."""
SPLIT_ORDER = ("train", "", "dev", "test")
"""The order in which files join a task: it is train that decides on its columns."""
TRIED_FILES = 20
"""Files of folders of classes whose format is looked at."""


@dataclass(kw_only=True, eq=False)
class Group:
    """The files of one task."""

    samples: list[Sample]
    """Those of train first; without any, those without a split in their name."""
    columns: Columns
    doubts: list[str]

    def fits(self, sample: Sample) -> bool:
        """Returns whether a file is in the folder of the task, the splits' folders aside, and has its columns.

        Files of test may lack the column of the label.
        """
        first, columns, names = self.samples[0], self.columns, {*sample.names}
        if sample.has_names != first.has_names or sample.place != first.place:
            return False
        if not (columns.texts and columns.label):
            return names == {*first.names}
        if sample.split == "test":
            return {*columns.texts} <= names
        return {*columns.texts, columns.label} <= names and (first.has_names or len(names) == len(first.names))

    def is_another(self, sample: Sample) -> bool:
        """Returns whether a file is for train by itself, under another name than the task's: of another task."""
        first = self.samples[0]
        is_train = bool(first.split == "train" or first.files) and sample.split not in ("dev", "test")
        return is_train and bool(sample.split or sample.files) and sample.bare_name != first.bare_name


def groups_of(samples: Iterable[Sample]) -> tuple[list[Group], list[Sample]]:
    """Returns the tasks that files are for, and files of lines without labels that are for none.

    Each file is in one task: of those that it fits that with the nearest name.
    """
    groups, unlabelled = list[Group](), list[Sample]()
    for sample in sorted(samples, key=lambda sample: SPLIT_ORDER.index(sample.split)):
        fitting = [group for group in groups if group.fits(sample)]
        likeness = {own: likeness_of(sample, own) for own in fitting if not own.is_another(sample)}
        best = [own for own, value in likeness.items() if value == max(likeness.values())]
        if best:
            best[0].samples.append(sample)
            best[0].doubts += [f"{sample.path} may belong to {own.samples[0].path} instead" for own in best[1:]]
        elif sample.texts:
            unlabelled.append(sample)
        else:
            same = "has the same columns: may its rows be of this task too?"
            doubts = [f"{own.samples[0].path} {same}" for own in fitting[:1]]
            groups.append(Group(samples=[sample], columns=choose_columns(sample), doubts=doubts))
    return sorted(groups, key=lambda group: group.samples[0].path), unlabelled


def likeness_of(sample: Sample, group: Group) -> tuple[bool, int]:
    """Returns whether a file can be read as a task is, and how many first letters of its name and of the nearest one of
    the task are alike, the words for splits aside."""
    pairs = [zip(sample.bare_name, one.bare_name, strict=False) for one in group.samples]
    lengths = [sum(1 for _ in itertools.takewhile(lambda own: own[0] == own[1], pair)) for pair in pairs]
    return is_alike(sample, group.samples[0]), max(lengths)


def is_alike(sample: Sample, first: Sample) -> bool:
    """Returns whether a file can be read as another one is."""
    own, other = sample.given, first.given
    return (sample.form, own.separator, own.pattern) == (first.form, other.separator, other.pattern)


def join_files(samples: Sequence[Sample]) -> list[Sample]:
    """Returns samples with those joined that are texts and labels of the same rows, or the files of one label each."""
    return join_classes(join_labels([with_pattern(sample) for sample in samples]))


def names_of_labels(sample: Sample) -> list[str]:
    """Returns the names that a file lists for the labels 0, 1, ...; none for any other file."""
    if not NAMES_OF_LABELS.search(sample.path.stem) or sample.split:
        return []
    lines = sample.texts
    if not lines and len(sample.names) == 2 and not sample.has_names:  # a number and its name in each line
        numbers, lines = ([row.get(name, "") for row in sample.rows] for name in sample.names)
        lines = lines if numbers == [str(at) for at in range(len(lines))] else []
    names = [line for line in lines if line]
    is_list = 2 <= len(set(names)) == len(names) <= MOST_LABELS
    return names if is_list and all(len(name.split()) < TEXT_WORDS for name in names) else []


def with_pattern(sample: Sample) -> Sample:
    """Returns a file of lines that begin with their label with a pattern that finds it; any other as it is."""
    for pattern in PREFIXES if sample.texts else ():
        found = [re.fullmatch(pattern, line) for line in sample.texts if line]
        rows = [match.groupdict() for match in found if match is not None]
        labels = {row["label"] for row in rows}
        if len(rows) == len(found) and 1 < len(labels) <= min(MOST_LABELS, len(rows) / 2):
            given = dataclasses.replace(sample.given, name="lines", pattern=pattern)
            names, doubts = list(rows[0]), (*sample.doubts, "each line seems to begin with its label")
            return dataclasses.replace(sample, given=given, names=names, rows=rows, label="label", doubts=doubts)
    return sample


def join_labels(samples: Iterable[Sample]) -> list[Sample]:
    """Returns samples with a label a line joined to those that have as many texts, in the same folder."""
    beside, joined_samples = defaultdict[Any, list[Sample]](list), list[Sample]()
    for sample in samples:
        key = (sample.path.parent, sample.split, sample.num_lines) if sample.texts else sample.path
        beside[key].append(sample)
    for group in beside.values():
        labels, texts = list[Sample](), list[Sample]()
        for sample in group:
            (labels if has_labels_alone(sample) else texts).append(sample)
        named = [sample for sample in labels if NAMES_OF_LABELS.search(sample.path.name)]
        own = labels if len(labels) == 1 else named
        if len(own) != 1 or not texts:
            joined_samples += group
            continue
        lines = zip(texts[0].texts, own[0].texts, strict=False)  # of long files some rows are not looked at
        files = f"{{files = {path_in_toml(texts[0].path)}, labels = {path_in_toml(own[0].path)}}}"
        others = [sample for sample in (*texts[1:], *labels) if sample is not own[0]]
        doubts = [f"{sample.path} has as many lines too" for sample in others]
        joined_samples.append(joined([texts[0], own[0]], lines, files, doubts))
    return joined_samples


def has_labels_alone(sample: Sample) -> bool:
    """Returns whether each line of a file is one word, of which there are few."""
    lines = sample.texts
    return bool(lines) and all(len(line.split()) == 1 for line in lines) and len(set(lines)) <= MOST_LABELS


def join_classes(samples: Iterable[Sample]) -> list[Sample]:
    """Returns samples with those joined that differ in the ending of their names alone, which is their label."""
    by_stem, joined_samples = defaultdict[Any, list[Sample]](list), list[Sample]()
    for sample in samples:
        is_class = bool(sample.texts) and bool(sample.path.suffix) and not sample.split
        by_stem[sample.path.with_suffix("") if is_class else sample].append(sample)
    for group in by_stem.values():
        if len(group) == 1:
            joined_samples += group
            continue
        by_label = {one.path.suffix[1:]: one for one in group}
        pairs = (f"{in_toml(label)} = {path_in_toml(one.path)}" for label, one in by_label.items())
        lines = ((text, label) for label, one in by_label.items() for text in one.texts)
        doubt = "each file seems to have the texts of one label, the ending of its name"
        joined_samples.append(joined(group, lines, f"{{files = {{{', '.join(pairs)}}}}}", [doubt]))
    return joined_samples


def joined(group: Sequence[Sample], lines: Iterable[tuple[str, str]], files: str, doubts: Sequence[str]) -> Sample:
    """Returns the sample of files of lines that are read as one.

    Args:
        group: the files.
        lines: texts with their labels.
        files: the files as TOML.
        doubts: what is unsure about them together.
    """
    return dataclasses.replace(
        group[0],
        given=FileFormat(name="lines", encoding=common_encoding(group)),
        names=["text", "label"],
        rows=[{"text": text, "label": label} for text, label in lines],
        label="label",
        files=files,
        doubts=tuple(doubts),
    )


def take_class_folders(folder: Path, paths: Iterable[Path]) -> tuple[list[Sample], list[Path]]:
    """Returns a sample for folders beside each other that are a label each, whose files are a text each; and the paths
    of all other files."""
    by_place, samples, others = defaultdict[Any, list[Path]](list), list[Sample](), list[Path]()
    for path in paths:
        is_text = len(path.parts) > 1 and format_of(path.name) is None and not split_in(path.stem)
        by_place[(path.parent.parent, path.suffix) if is_text else path].append(path)
    for group in by_place.values():
        splits = {split_in(path.parent.name) for path in group}
        if "train" in splits or "" not in splits:  # `trial` among other folders is no split
            others += (path for path in group if split_in(path.parent.name))
            group = [path for path in group if not split_in(path.parent.name)]
        num_classes = len({path.parent.name for path in group})
        are_many = 2 <= num_classes <= MOST_LABELS and len(group) >= 2 * num_classes
        found = class_folders(folder, group) if are_many else None
        if found is None:
            others += group
        else:
            samples.append(found)
    return samples, sorted(others)


def class_folders(folder: Path, paths: Sequence[Path]) -> Sample | None:
    """Returns the sample of files whose folders are their labels; None unless most of the first ones are plain text."""
    rows, encoding = list[dict[str, str]](), ""
    for path in paths[:MOST_ROWS]:
        try:
            with open_decompressed(folder / path) as stream:
                text, own_encoding = decode_start(stream.read(), is_cut=False)
        except FAULTS:
            return None
        encoding = encoding or own_encoding
        rows.append({"text": text.strip(), "folder": path.parent.name})
    tried = [row["text"] for row in rows[:: max(1, len(rows) // TRIED_FILES)] if row["text"]]
    num_texts = sum(format_by_content(text).name in ("lines", "csv") for text in tried)
    if 2 * num_texts < len(tried) or not tried:
        return None
    place = paths[0].parent.parent
    pattern = Path(*map(glob.escape, place.parts), "*", f"*{paths[0].suffix}")
    return Sample(
        path=place / "*",
        given=FileFormat(name="text", encoding=encoding),
        names=["text", "folder"],
        rows=rows,
        label="folder",
        files=in_toml(pattern.as_posix()),
        doubts=("each file seems to be one text, whose label is its folder",),
    )


def nearest_lists(lists: Iterable[Sample], group: Group) -> list[Sample]:
    """Returns the lists of names of labels that are nearest to a task: in its folder or the innermost one above, of
    several those with a word of the label or of the file in their name."""
    first = group.samples[0]
    above = [own for own in lists if own.path.parent in first.path.parents]
    depth = max((len(own.path.parts) for own in above), default=0)
    beside = [own for own in above if len(own.path.parts) == depth]
    words = {*name_words(group.columns.label), *name_words(first.path.stem)} - {"label", "labels"}
    return [own for own in beside if words & {*name_words(own.path.stem)}] or beside
