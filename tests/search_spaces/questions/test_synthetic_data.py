"""The rows of Tuning Up BERT's table 2."""

from pathlib import Path

from mtlib.data.load import find_row_sources
from search_spaces.questions.synthetic_data import SPACE
from search_spaces.space import grid_configs


def test_only_the_second_trial_reads_the_paraphrases_and_only_into_train(tmp_path: Path) -> None:
    real, both = (find_row_sources(config, tmp_path) for config in grid_configs(SPACE))
    assert [part.paths[0] for part in real["sst", "train"]] == ["ids-sst-train.csv"]
    assert [part.paths[0] for part in both["sst", "train"]] == ["ids-sst-train.csv", "sst-paraphrases.jsonl"]
    assert both["sst", "dev"] == real["sst", "dev"]
