"""A path becomes its last part, as far as it names a place of this machine; nothing else changes."""

import json

import pytest

from mtlib.checkpoints.published import PLACE, public_name, published, without_places


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("/home/me/a data/train.csv", "train.csv"),
        ("/home/me/encoder/", "encoder"),
        ("~/models/mine", "mine"),
        ("../../home/me/x.jsonl", "x.jsonl"),
        ("hf:///home/me/ds#cfg:train", "hf://ds#cfg:train"),
        ("hf:///home/me/ds/:train", "hf://ds:train"),
        ("s3://key:secret@bucket/models/mine?endpoint_override=host:9", "mine"),
        ("/home/me/parts/train-?.csv", "train-?.csv"),
        ("/home/me/{split}/rows.csv", "{split}/rows.csv"),
        ("/home/me/sweeps/mine/trials/0003-r0", "mine/trials/0003-r0"),
        ("/trials/0003-r0", "0003-r0"),
    ],
)
def test_place_of_this_machine_is_its_last_part(place: str, name: str) -> None:
    assert public_name(place) == name


@pytest.mark.parametrize("name", ["bert-base-uncased", "google/bert", "hf://nyu-mll/glue#sst2:train", "parts/*.jsonl"])
def test_name_that_names_no_place_of_this_machine_stays(name: str) -> None:
    assert public_name(name) == name


def test_paths_of_a_configuration_are_found_by_their_keys_alone() -> None:
    config = {
        "encoder": {"name": "/a/b/enc", "start_from": None},
        "data": {
            "sources": {"more": {"path": "/a/more.csv", "role": "extra"}},
            "tasks": {"own": {"title": "/r/own", "labels": ["/sports", "/news"], "files": {"train": ["/a/x.csv"]}}},
        },
        "seed": 7,
    }
    tasks = {"own": {"title": "/r/own", "labels": ["/sports", "/news"], "files": {"train": ["x.csv"]}}}
    assert published(config) == {
        "encoder": {"name": "enc", "start_from": None},
        "data": {"sources": {"more": {"path": "more.csv", "role": "extra"}}, "tasks": tasks},
        "seed": 7,
    }


def test_places_of_a_record_are_found_and_others_of_their_name_stay_apart() -> None:
    record = {"command": "python x --data '/home/me/my data' --set a=/b/enc,c=~/d/enc", "ratio": "1/2", "root": "/a"}
    places = PLACE.findall(json.dumps(record))
    assert places == ["/home/me/my data", "/b/enc", "~/d/enc"]
    first, second = without_places("/b/enc ~/d/enc", places).split()
    assert first.startswith("enc-")
    assert second.startswith("enc-")
    assert first != second
