"""Files that belong together are one sample or one task, and others are not."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from mtlib.data.proposals.joined_files import groups_of, join_files, take_class_folders
from mtlib.data.proposals.samples import Sample
from mtlib.tasks import FileFormat

LINES = [f"this is line {at}" for at in range(12)]


def table(name: str, columns: str = "text label") -> Sample:
    """A file with these columns."""
    rows = [dict.fromkeys(columns.split(), "ab"[at % 2]) | {"text": LINES[at]} for at in range(12)]
    return Sample(path=Path(name), names=columns.split(), rows=rows)


def plain(name: str, lines: Sequence[str]) -> Sample:
    """A file of lines."""
    rows = [{"text": line} for line in lines]
    given = FileFormat(name="lines")
    return Sample(path=Path(name), given=given, names=["text"], rows=rows, num_lines=len(rows))


@pytest.mark.parametrize(
    ("samples", "groups"),
    [
        ([table("train.csv"), table("dev.csv", "label text")], ["train.csv dev.csv"]),
        ([table("train.csv"), table("dev.csv", "text label more")], ["train.csv dev.csv"]),
        ([table("train.csv"), table("test.csv", "id text")], ["train.csv test.csv"]),
        ([table("train.csv"), table("extra.csv")], ["train.csv extra.csv"]),
        ([table("train.csv"), table("dev.csv", "text mood")], ["dev.csv", "train.csv"]),
        ([table("x-train/a.csv"), table("x-dev/a.csv"), table("y/a.csv")], ["x-train/a.csv x-dev/a.csv", "y/a.csv"]),
        (
            [table(f"{name}_{split}.csv") for split in ("train", "dev") for name in ("reviews", "tweets")],
            ["reviews_train.csv reviews_dev.csv", "tweets_train.csv tweets_dev.csv"],
        ),
        (
            [
                *(table(f"{name}_train.csv", f"text {name}") for name in ("emotion", "topic")),
                *(table(f"{name}_test.csv", "text") for name in ("emotion", "topic")),
            ],
            ["emotion_train.csv emotion_test.csv", "topic_train.csv topic_test.csv"],
        ),
    ],
)
def test_files_with_the_columns_of_a_task_are_its_files(samples: list[Sample], groups: list[str]) -> None:
    found, _ = groups_of(samples)
    assert [" ".join(str(sample.path) for sample in group.samples) for group in found] == groups


def test_a_file_that_fits_several_tasks_is_a_doubt() -> None:
    found, _ = groups_of([*(table(f"{name}_train.csv", f"text {name}") for name in "ab"), table("test.csv", "text")])
    assert [group.doubts for group in found] == [["test.csv may belong to b_train.csv instead"], []]


def test_tasks_with_the_same_columns_are_a_doubt() -> None:
    found, _ = groups_of([table("a_train.csv"), table("b_train.csv")])
    assert "a_train.csv has the same columns" in found[1].doubts[0]


def test_lines_without_labels_are_no_task() -> None:
    found, unlabelled = groups_of([plain("notes.txt", LINES)])
    assert (found, [sample.path.name for sample in unlabelled]) == ([], ["notes.txt"])


def test_labels_of_lines_are_in_the_file_that_is_named_so() -> None:
    words = ["x", "y"] * 6
    (found,) = join_files([plain("seq.in", LINES), plain("words", words), plain("label", ["a", "b"] * 6)])
    assert found.files == '{files = "seq.in", labels = "label"}'
    assert found.doubts == ("words has as many lines too",)


def written(folder: Path, files: Mapping[str, str]) -> list[Path]:
    """The paths of files with these contents."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return sorted(map(Path, files))


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"spam/9.txt": "[list] a mail\n"},
        {"spam/9.txt": "a\tb\nc\td\n"},
        {"trial/1.txt": "the one of its class"},
    ],
)
def test_folders_of_texts_are_their_labels(odd: dict[str, str], tmp_path: Path) -> None:
    files = {f"{name}/{at}.txt": "a mail of words\n" for name in ("spam", "ham") for at in range(4)}
    (found,), others = take_class_folders(tmp_path, written(tmp_path, {**files, **odd, "all.csv": "a,b\n"}))
    assert len(found.rows) == len(files) + len(odd)
    assert (found.files, others) == ('"*/*.txt"', [Path("all.csv")])


@pytest.mark.parametrize(
    "files",
    [
        {f"{name}/{split}_text.txt": "a text\n" for name in "ab" for split in ("train", "val")},
        {f"{split}/{at}.txt": "a text\n" for split in ("train", "dev") for at in range(3)},
        {f"{name}/{at}.log": "a line\n" for name in range(300) for at in range(2)},
        {f"{name}/only.txt": "a text\n" for name in "ab"},
        {f"{name}/{at}.bin": "\0" for name in "ab" for at in range(3)},
    ],
)
def test_other_folders_are_no_labels(files: dict[str, str], tmp_path: Path) -> None:
    assert take_class_folders(tmp_path, written(tmp_path, files)) == ([], sorted(map(Path, files)))
