"""The table of docs/encoders.md is what tiny random models of each family show."""

from pathlib import Path

import pytest

from mtlib.config.trial import TrialConfig
from mtlib.data.token_cache import Corpus
from mtlib.model.architecture_check import TRIED_FAMILIES
from mtlib.model.encoder import PretrainedEncoder
from tests.docs.encoder_support import Material, support_of, table_rows

PAGE = Path(__file__).resolve().parents[2] / "docs" / "encoders.md"


@pytest.fixture
def material(tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder) -> Material:
    return tiny_config, tiny_corpus, tiny_encoder


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
