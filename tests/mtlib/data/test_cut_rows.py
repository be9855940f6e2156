"""Rows that are too long are counted as the tokens of a trial show it, and estimated where many may be."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import PreTrainedTokenizerFast

from mtlib.config.network import Encoding
from mtlib.config.trial import TrialConfig
from mtlib.data.cut_rows import find_cut_rows, most_cut, share_cut
from mtlib.data.tables import Table
from mtlib.data.token_cache import SIDES, tokenize
from tests.mtlib.conftest import build_table


@pytest.mark.parametrize("encoding", SIDES)
def test_the_share_is_that_of_the_rows_that_training_cuts(
    encoding: Encoding, pair_table: Table, tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    tokens = tokenize({"all": pair_table}, tokenizer, tmp_path)["all"]
    for max_length in (8, 14, 25, 400):
        expected = (tokens.lengths(encoding, 10_000) > max_length).mean()
        assert share_cut(pair_table, tokenizer, encoding, max_length) == pytest.approx(expected)


def test_the_share_of_many_long_rows_is_estimated(bert_tokenizer: PreTrainedTokenizerFast) -> None:
    stream = np.random.default_rng(0)
    counts = stream.choice([3, 40], 5_000, p=[0.7, 0.3])
    table = build_table("sst", ["a very long word " * count for count in counts])
    assert share_cut(table, bert_tokenizer, "single", 64) == pytest.approx(0.3, abs=0.09)
    assert share_cut(build_table("sst", ["", "a"]), bert_tokenizer, "single", 8) == 0


def test_each_kind_of_trial_that_cuts_rows_is_found_the_worst_first(
    tiny_config: TrialConfig, bert_tokenizer: PreTrainedTokenizerFast
) -> None:
    texts = ["a " * count for count in range(40)]
    tables = {"sst": build_table("sst", texts), "qqp": build_table("qqp", ["a"], ["a"])}
    changes: list[dict[str, Any]] = [{"encoder.max_length": length} for length in (8, 16, 64)]
    configs = [tiny_config.override(change) for change in (*changes, {"encoder.max_length": 16, "seed": 3})]
    name = configs[0].encoder.name
    found = find_cut_rows(configs, tables, {name: bert_tokenizer})
    assert [(rows.task, rows.encoder, rows.max_length) for rows in found] == [("sst", name, 8), ("sst", name, 16)]
    assert most_cut(found) == found[:1]
    prefixed = configs[2].override({"tasks.sst.prefix": "a " * 100})
    (every,) = find_cut_rows([prefixed], tables, {name: bert_tokenizer})
    assert every.share == 1
    assert (every.is_of(prefixed), every.is_of(configs[2])) == (True, False), "the other one lacks the prefix"
    assert replace(every, share=0.0004).sentence("SST").startswith("Less than 0.1% of the train rows")
    sentence = replace(every, share=0.142).sentence("SST")
    assert sentence.startswith("About 14.2% of the train rows of SST are longer than 64 tokens")
