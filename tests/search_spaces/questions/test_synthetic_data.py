"""The rows of Tuning Up BERT's table 2."""

from pathlib import Path

from mtlib.data.load import find_row_sources
from search_spaces.presets import tuning_up_bert
from search_spaces.questions.synthetic_data import SPACE
from search_spaces.space import grid_configs, grid_trials

REAL, BOTH = grid_configs(SPACE)


def test_the_second_trial_has_one_source_more_and_nothing_else() -> None:
    assert [trial["train_data"] for trial in grid_trials(SPACE)] == ["real", "real_and_synthetic"]
    assert set(BOTH.data.sources) - set(REAL.data.sources) == {"paraphrases"}
    source = BOTH.data.sources["paraphrases"]
    assert REAL.override({"data.sources.paraphrases": source}) == BOTH


def test_only_the_second_trial_reads_the_paraphrases_and_only_into_train(tmp_path: Path) -> None:
    real, both = find_row_sources(REAL, tmp_path), find_row_sources(BOTH, tmp_path)
    assert [part.paths[0] for part in real["sst", "train"]] == ["ids-sst-train.csv"]
    assert [part.paths[0] for part in both["sst", "train"]] == ["ids-sst-train.csv", "sst-paraphrases.jsonl"]
    assert both["sst", "dev"] == real["sst", "dev"]


def test_sst_alone_is_trained_for_150_epochs_of_50_steps() -> None:
    assert SPACE.metric == "sst"
    assert REAL.active_tasks == ("sst",)
    assert [(stage.epochs, stage.steps_per_epoch) for stage in REAL.stages] == [(150, 50)]
    assert tuning_up_bert().override({"stages": REAL.stages}) == REAL
