"""The demonstration corpus on disk is written once; what its encoder learns from it."""

from pathlib import Path

import pytest

from mtlib.config.trial import TrialConfig
from mtlib.data.load import TableKey
from mtlib.data.tables import Table
from mtlib.data.token_cache import tokenize
from mtlib.demo.__main__ import STAGGERED
from mtlib.demo.corpus import demo_folder, move_unless_there
from mtlib.demo.overrides import demo_overrides
from mtlib.model.encoder import load_encoder
from mtlib.tasks import TASKS
from tests.recorded_details import run_whole
from tests.task_tables import read_folder

Tables = dict[TableKey, Table]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the data and the encoder."""
    return demo_folder(tmp_path_factory.mktemp("cache"))[0].parent


@pytest.fixture(scope="module")
def tables(folder: Path) -> Tables:
    return read_folder(folder / "data", TASKS)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_tiny_encoder_beats_a_bag_of_words_and_overfits(folder: Path, tables: Tables, tmp_path: Path) -> None:
    """The best linear model of word counts, differences and overlap has .442, .578 and .578 on dev."""
    config, encoder = TrialConfig(stages=STAGGERED), load_encoder(str(folder / "encoder"))
    corpus = tokenize(tables, encoder.tokenizer, tmp_path)
    *_, last = run_whole(config.override(demo_overrides(config)), corpus, encoder).reports.values()
    curves = {(point.task, point.split, point.metric): point.value for point in last.points}
    assert 0.5 < curves["sst", "dev", "accuracy"] < 0.95
    assert 0.68 < curves["qqp", "dev", "accuracy"] < 0.95
    assert 0.6 < curves["sts", "dev", "pearson"] < 0.95
    assert curves["sst", "train", "accuracy"] > curves["sst", "dev", "accuracy"] + 0.05


def test_the_folder_is_written_once_and_reused(folder: Path) -> None:
    stamp = (folder / "data" / "sts-dev.csv").stat().st_mtime_ns
    assert demo_folder(folder.parent) == (folder / "data", folder / "encoder")
    assert (folder / "data" / "sts-dev.csv").stat().st_mtime_ns == stamp
    assert list(folder.parent.iterdir()) == [folder]


def test_a_folder_that_another_process_wrote_first_is_kept(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    move_unless_there(tmp_path / "second", tmp_path / "first")
    assert (tmp_path / "first" / "file").read_text() == "first"
