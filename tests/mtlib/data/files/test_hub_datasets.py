"""Local data sets in the format of Hugging Face, read without the hub."""

from pathlib import Path
from typing import Any

import datasets
import pytest

from mtlib.data.files.hub_datasets import hub_class_names, load_split, read_hub_data, split_hub_path
from mtlib.data.files.read_file import read_one_file
from mtlib.data.files.readers import ClassNames, Wanted
from mtlib.model.hub import ask_hub
from sweeps.push import check_push
from tests.one_line_error import one_line_error

COLUMNS = ("id", "premise", "hypothesis", "label")
ROWS: dict[str, list[Any]] = {
    "idx": [10, 11, 12],
    "premise": [" A man. ", 'A "dog"\tand\na cat.', "Rain, \u2028 snow."],
    "hypothesis": ["null", "NA", None],
    "label": [0, 2, -1],
}
CELLS = [["A man.", "null", "0"], ['A "dog"\tand\na cat.', "NA", "2"], ["Rain, \u2028 snow.", "", "-1"]]
NAMES = ("entailment", "neutral", "contradiction")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)


@pytest.fixture
def train() -> datasets.Dataset:
    return datasets.Dataset.from_dict(ROWS).cast_column("label", datasets.ClassLabel(names=list(NAMES)))


def read(path: str, split: str = "train", columns: tuple[str, ...] = COLUMNS, **options: Any) -> list[list[str]]:
    return [cells for _, cells in read_hub_data(path, split, Wanted(columns=columns, **options))]


def test_a_saved_dataset_with_splits_is_read_with_places_ids_and_names(train: datasets.Dataset, tmp_path: Path) -> None:
    datasets.DatasetDict({"train": train, "validation": train.select([2, 0])}).save_to_disk(tmp_path / "nli")
    path = f"hf://{tmp_path}/nli"
    rows = list(read_hub_data(path, "train", Wanted(columns=COLUMNS)))
    assert rows == [(f"{path} train: row {n}", [str(n), *cells]) for n, cells in enumerate(CELLS)]
    assert read(path, "validation") == [["0", *CELLS[2]], ["1", *CELLS[0]]]
    assert [cells[0] for cells in read(path, columns=("idx", *COLUMNS[1:]))] == ["10", "11", "12"]
    carried = ClassNames(names=NAMES, mapping="labels")
    assert [cells[-1] for cells in read(path, class_names=carried)] == ["entailment", "contradiction", ""]
    message = one_line_error(read, path, columns=("idx", "premises", "label"))
    assert message.startswith(f"{path} train: column premises is missing; did you mean 'premise'?")


def test_each_split_has_the_names_of_classes_that_it_carries(train: datasets.Dataset, tmp_path: Path) -> None:
    other = train.cast_column("label", datasets.ClassLabel(names=["a", "b", "c"]))
    datasets.DatasetDict({"train": train, "validation": other}).save_to_disk(tmp_path / "nli")
    path = f"hf://{tmp_path}/nli"
    assert hub_class_names(path, "train", "label") == {f"{path} train": NAMES}
    assert hub_class_names(path, "validation", "label") == {f"{path} validation": ("a", "b", "c")}
    assert hub_class_names(path, "train", "premise") == {f"{path} train": ()}


def test_a_saved_dataset_without_splits_is_train(train: datasets.Dataset, tmp_path: Path) -> None:
    path = f"hf://{tmp_path}/nli"
    train.save_to_disk(tmp_path / "nli")
    assert [cells[1:] for cells in read(path)] == CELLS
    assert one_line_error(read, path, "dev") == f"{path} has no split 'dev'; known: train"


@pytest.mark.parametrize("suffix", ["parquet", "json"])
def test_a_folder_of_data_files_is_read(train: datasets.Dataset, tmp_path: Path, suffix: str) -> None:
    folder = tmp_path / "nli"
    folder.mkdir()
    for split, rows in (("train", train), ("validation", train.select([1]))):
        getattr(rows, f"to_{suffix}")(folder / f"{split}.{suffix}")
    assert [cells[1:] for cells in read(f"hf://{folder}")] == CELLS
    assert [cells[1:] for cells in read(f"hf://{folder}", "validation")] == CELLS[1:2]


def test_files_of_a_local_folder_are_read_as_by_their_paths(tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "train.tsv").write_text('premise\thypothesis\tlabel\n"one\tsays ""two"\t0\n')
    by_path = read_one_file(folder / "train.tsv", Wanted(columns=("", *COLUMNS[1:])))
    assert read(f"hf://{folder}") == [cells for _, cells in by_path] == [["0", '"one', 'says ""two"', "0"]]


def test_files_that_differ_in_their_names_of_classes_are_refused_where_the_library_reads_them(
    train: datasets.Dataset, tmp_path: Path
) -> None:
    folder = tmp_path / "nli"
    folder.mkdir()
    (folder / "README.md").write_text("---\nlicense: mit\n---\n")  # a card: the library reads the files
    other = train.cast_column("label", datasets.ClassLabel(names=[*NAMES[::-1]]))
    for split, rows in (("train", train), ("validation", other)):
        rows.to_parquet(folder / f"{split}.parquet")
    assert [cells[-1] for cells in read(f"hf://{folder}")] == ["0", "2", "-1"]
    message = one_line_error(read, f"hf://{folder}", "validation")
    rule = f"{folder}/validation.parquet: column label must have its classes in the order of the data set's"
    assert message.startswith(f"{rule} first file ({', '.join(NAMES)})")
    assert message.endswith(f"or be read by its path, got {', '.join(NAMES[::-1])}")


@pytest.mark.parametrize(("column", "values"), [("label", '"1"'), ("label", '["a", {}]'), ("premise", "7")])
def test_a_column_of_mixed_types_that_the_library_reads_as_json_is_refused_by_name(
    tmp_path: Path, column: str, values: str
) -> None:
    folder = tmp_path / "nli"
    folder.mkdir()
    (folder / "README.md").write_text("---\nlicense: mit\n---\n")  # a card: the library reads the files
    plain = {"premise": '"A man."', "hypothesis": '"It rains."', "label": "1"}
    rows = [plain, {**plain, column: values}]
    lines = ["{" + ", ".join(f'"{name}": {value}' for name, value in row.items()) + "}\n" for row in rows]
    (folder / "train.jsonl").write_text("".join(lines))
    message = one_line_error(read, f"hf://{folder}")
    if hasattr(datasets, "Json"):  # since version 4.7
        assert f"all texts, got {column} of type Json" in message


def test_rows_of_several_files_are_numbered_through(train: datasets.Dataset, tmp_path: Path) -> None:
    folder = tmp_path / "nli"
    folder.mkdir()
    for part in range(2):
        train.to_parquet(folder / f"train-{part}.parquet")
    assert [cells[0] for cells in read(f"hf://{folder}")] == ["0", "1", "2", "3", "4", "5"]


def test_a_column_that_says_the_split_is_counted(train: datasets.Dataset, tmp_path: Path) -> None:
    parted = train.add_column("part", ["none", "train", "TEST"])
    parted.save_to_disk(tmp_path / "nli")
    parted.to_pandas().astype({"part": "category"}).to_parquet(tmp_path / "nli.parquet")
    for is_saved in (True, False):
        wanted = Wanted(columns=("", *COLUMNS[1:]))
        saved = read_hub_data(f"hf://{tmp_path}/nli", "train", wanted)
        assert len(list(saved if is_saved else read_one_file(tmp_path / "nli.parquet", wanted))) == 3
        assert wanted.findings.split_values == {"part": {"none": 1, "train": 1, "TEST": 1}}


def test_rows_may_be_selected_by_a_column_that_is_read_too(train: datasets.Dataset, tmp_path: Path) -> None:
    train.save_to_disk(tmp_path / "nli")
    assert read(f"hf://{tmp_path}/nli", columns=("", "label", "premise", "label"))[0] == ["0", "0", "A man.", "0"]


def test_what_cannot_be_loaded_is_one_line(tmp_path: Path) -> None:
    path = f"hf://{tmp_path}/nowhere"
    assert one_line_error(read, path).startswith(f"{path} must be a data set that can be read, got: ")


@pytest.mark.parametrize("split", ["validation[:50%]", "train[10:20]", "train+test", "test[5%:]"])
def test_a_part_of_a_split_is_refused_by_name(split: str) -> None:
    path = split_hub_path(f"hf://a/b#c:{split}", "dev")
    assert path == ("hf://a/b#c", split)
    message = one_line_error(load_split, *path)
    assert (
        message == f"a split of hf://a/b#c must be named without a slice or a sum, as it is read whole, got '{split}'"
    )


def test_a_path_may_name_its_split() -> None:
    assert split_hub_path("hf://a/b#c", "dev") == ("hf://a/b#c", "dev")
    assert split_hub_path("hf:///data/a#c:validation_matched", "dev") == ("hf:///data/a#c", "validation_matched")


@pytest.mark.parametrize("entrance", ["an encoder", "a data set", "an upload"])
def test_a_token_that_no_request_can_carry_is_called_so(entrance: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_\u0142")
    calls: dict[str, tuple[Any, ...]] = {
        "an encoder": (ask_hub, "a/b"),
        "a data set": (load_split, "hf://a/b", "train"),
        "an upload": (check_push, "a/b"),
    }
    assert "the hub's access token (HF_TOKEN, or as `hf auth login` stored it) must be ASCII" in one_line_error(
        *calls[entrance]
    )
