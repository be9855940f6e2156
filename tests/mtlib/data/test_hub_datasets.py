"""Local data sets in the format of Hugging Face, read without the hub."""

import builtins
from pathlib import Path
from typing import Any

import datasets
import pytest

from mtlib.data.file_readers import Row, fit_name
from mtlib.data.hub_datasets import make_builder, read_hub_data, split_hub_path
from tests.one_line_error import one_line_error

COLUMNS = ("id", "premise", "hypothesis", "label")
ROWS: dict[str, list[Any]] = {
    "idx": [10, 11, 12],
    "premise": [" A man. ", 'A "dog"\tand\na cat.', "Rain, \u2028 snow."],
    "hypothesis": ["A person.", "Nobody.", None],
    "label": [0, 2, -1],
}
CELLS = [["A man.", "A person.", "0"], ['A "dog"\tand\na cat.', "Nobody.", "2"], ["Rain, \u2028 snow.", "", "-1"]]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)


@pytest.fixture
def train() -> datasets.Dataset:
    names = datasets.ClassLabel(names=["entailment", "neutral", "contradiction"])
    return datasets.Dataset.from_dict(ROWS).cast_column("label", names)


def read(path: str, split: str = "train", columns: tuple[str, ...] = COLUMNS) -> list[Row]:
    return list(read_hub_data(path, split, columns, numbered=True))


def test_a_saved_dataset_with_splits_has_class_labels_as_numbers(train: datasets.Dataset, tmp_path: Path) -> None:
    validation = train.select([2, 0])
    datasets.DatasetDict({"train": train, "validation": validation}).save_to_disk(tmp_path / "nli")
    path = f"hf://{tmp_path}/nli"
    assert read(path) == [
        (fit_name(f"{path} train") + f": row {row}", [str(row), *cells]) for row, cells in enumerate(CELLS)
    ]
    assert [cells for _, cells in read(path, "validation")] == [["0", *CELLS[2]], ["1", *CELLS[0]]]


def test_ids_come_from_the_id_column(train: datasets.Dataset, tmp_path: Path) -> None:
    train.save_to_disk(tmp_path / "nli")
    rows = read(f"hf://{tmp_path}/nli", columns=("idx", *COLUMNS[1:]))
    assert [cells for _, cells in rows] == [[str(10 + row), *cells] for row, cells in enumerate(CELLS)]


def test_a_saved_dataset_without_splits_is_train(train: datasets.Dataset, tmp_path: Path) -> None:
    train.save_to_disk(tmp_path / "nli")
    assert [cells[1:] for _, cells in read(f"hf://{tmp_path}/nli")] == CELLS
    assert (
        one_line_error(read, f"hf://{tmp_path}/nli", "dev") == f"hf://{tmp_path}/nli has no split 'dev'; known: train"
    )


@pytest.mark.parametrize("suffix", ["parquet", "csv", "json"])
def test_a_folder_of_data_files_is_read(train: datasets.Dataset, tmp_path: Path, suffix: str) -> None:
    folder = tmp_path / "nli"
    folder.mkdir()
    for split, rows in (("train", train), ("validation", train.select([1]))):
        getattr(rows, f"to_{suffix}")(folder / f"{split}.{suffix}")
    assert [cells[1:] for _, cells in read(f"hf://{folder}")] == CELLS
    assert [cells[1:] for _, cells in read(f"hf://{folder}", "validation")] == CELLS[1:2]
    assert "known: train, validation" in one_line_error(read, f"hf://{folder}", "dev")


def test_name_and_configuration_are_passed_to_the_library(
    train: datasets.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, str | None]] = []

    class Builder:
        config = None

        def __init__(self, name: str, configuration: str | None) -> None:
            calls.append((name, configuration))

        def download_and_prepare(self) -> None:
            pass

        def as_dataset(self) -> datasets.DatasetDict:
            return datasets.DatasetDict({"train": train})

    monkeypatch.setattr(datasets, "load_dataset_builder", Builder)
    assert len(read("hf://nyu-mll/glue#qqp")) == len(read("hf://snli")) == 3
    assert calls == [("nyu-mll/glue", "qqp"), ("snli", None)]


def test_a_missing_column_is_refused_with_the_nearest(train: datasets.Dataset, tmp_path: Path) -> None:
    train.save_to_disk(tmp_path / "nli")
    message = one_line_error(read, f"hf://{tmp_path}/nli", columns=("idx", "premises", "label"))
    name = fit_name(f"hf://{tmp_path}/nli train")
    assert message.startswith(f"{name}: column premises is missing; did you mean 'premise'?")


def test_a_value_that_is_not_text_is_refused_with_its_row(tmp_path: Path) -> None:
    datasets.Dataset.from_dict({"premise": [["a"], ["b"]], "label": [0, 1]}).save_to_disk(tmp_path / "nli")
    message = one_line_error(read, f"hf://{tmp_path}/nli", columns=("id", "premise", "label"))
    assert (
        message
        == f"{fit_name(f'hf://{tmp_path}/nli train')}: row 0: column premise must be text or a number, got ['a']"
    )


def test_a_missing_folder_is_one_line(tmp_path: Path) -> None:
    assert one_line_error(read, f"hf://{tmp_path}/nowhere").startswith(
        f"hf://{tmp_path}/nowhere must be a data set that can be"
    )


def test_an_error_of_the_hub_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*_: object) -> None:
        raise ConnectionError("no route\nto the hub")

    monkeypatch.setattr(datasets, "load_dataset_builder", load)
    assert one_line_error(read, "hf://snli") == "hf://snli must be a data set that can be read, got: no route"


def test_settings_that_were_used_before_find_the_cache_without_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(name: str, _: str | None, **settings: Any) -> str:
        if not settings:
            raise ValueError(f"Couldn't find cache for {name}")
        return "builder"

    monkeypatch.setattr(datasets, "load_dataset_builder", load)
    assert make_builder("mine", None) == "builder"


def test_without_the_library_one_line_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        if name == "datasets":
            raise ModuleNotFoundError("No module named 'datasets'")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    assert "needs the library datasets: pip install 'multitask-sweeps[datasets]'" in one_line_error(read, "hf://snli")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("hf://a", ("hf://a", "dev")),
        ("hf://a/b#c", ("hf://a/b#c", "dev")),
        ("hf://a/b#c:validation_matched", ("hf://a/b#c", "validation_matched")),
        ("hf:///data/a:validation", ("hf:///data/a", "validation")),
    ],
)
def test_a_path_may_name_its_split(path: str, expected: tuple[str, str]) -> None:
    assert split_hub_path(path, "dev") == expected
