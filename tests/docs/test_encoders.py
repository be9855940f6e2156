"""The table of docs/encoders.md is what tiny random models of each family show."""

import os
import re
from pathlib import Path

import pytest
import torch

from mtlib.config.trial import TrialConfig
from mtlib.data.load import read_data
from mtlib.data.token_cache import Corpus, tokenize
from mtlib.model.architecture_check import TRIED_FAMILIES
from mtlib.model.encoder import PretrainedEncoder, load_encoder
from tests.docs.encoder_support import PLAIN, Material, support_of, table_rows, train_shortly
from tests.mtlib.checkpoints.test_onnx_files import OLD_EXPORTER
from tests.scripts import ROOT

PAGE = ROOT / "docs" / "encoders.md"


CHECKPOINTS = re.findall(r"`([\w-]+/[\w.-]+)`", PAGE.read_text().partition("| family | checkpoints |")[2])
FOLDERS = list(filter(None, os.environ.get("ENCODER_FOLDERS", "").split(":")))
"""Folders with trained encoders."""


@pytest.fixture
def material(tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder) -> Material:
    return tiny_config, tiny_corpus, tiny_encoder


@pytest.mark.skipif(torch.__version__ < "2.10", reason=OLD_EXPORTER)
@pytest.mark.parametrize("name", ["bert", "xlm"])
def test_rows_of_the_table_are_right(name: str, material: Material, tmp_path: Path) -> None:
    row, *_ = table_rows({name: support_of(name, material, tmp_path)})[2:]
    assert row in PAGE.read_text().splitlines()


@pytest.mark.slow
def test_the_whole_table_is_right(material: Material, tmp_path: Path) -> None:
    lines = table_rows({name: support_of(name, material, tmp_path) for name in TRIED_FAMILIES})
    new = tmp_path / "table.md"
    new.write_text("\n".join(lines) + "\n")
    assert new.read_text() in PAGE.read_text(), f"the table is now in {new}"


@pytest.mark.slow
@pytest.mark.parametrize("name", [*CHECKPOINTS, *FOLDERS])
def test_trained_weights_go_on_learning_where_they_can_be_had(
    name: str, tiny_config: TrialConfig, tiny_folder: Path, tmp_path: Path
) -> None:
    try:
        encoder = load_encoder(name)
    except ValueError as error:
        pytest.skip(str(error))
    config = tiny_config.override({**PLAIN, "optimizer.learning_rate": 2e-5})
    corpus = tokenize(read_data(config, tiny_folder), encoder.tokenizer, tmp_path)
    train_shortly(config, corpus, encoder)
