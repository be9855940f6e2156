"""What a trial is loaded from: cuts, a corpus shared by equal rows, one encoder, and starting weights."""

from pathlib import Path
from typing import Any

from mtlib.config.trial import TrialConfig
from mtlib.data.load import read_held_out
from sweeps.lanes.loaded_trial import cached_corpus, cached_encoder
from tests.sweeps.reuse.trained_trials import TrialStorage, train_trial


def test_loaded_trial_has_its_cuts(storage: TrialStorage) -> None:
    trial = storage.load_trial()
    assert [(cut.total_epochs, cut.total_steps, cut.is_end) for cut in trial.cuts] == [
        (1, 4, True),
        (2, 8, False),
        (3, 12, True),
    ]
    assert [trial.end_of(stage).total_epochs for stage in (0, 1)] == [1, 3]
    assert [trial.next_end(epochs).total_epochs for epochs in (0, 1, 2)] == [1, 3, 3]
    assert trial.can_be_extended
    assert not storage.load_trial(optimizer__schedule="slanted_triangular").can_be_extended


def test_trials_with_equal_train_rows_share_a_corpus(
    tiny_folder: Path, tiny_encoder_folder: Path, tiny_config: TrialConfig, tmp_path: Path
) -> None:
    config = tiny_config.override({"encoder.name": str(tiny_encoder_folder)})
    more = {"task": "sst", "path": str(tiny_folder / "ids-sst-dev.csv"), "role": "augment"}
    others: list[dict[str, Any]] = [{"optimizer.learning_rate": 1e-5}, {"stages.1.tasks": "sst,qqp"}]
    others.append({f"data.sources.more.{key}": value for key, value in more.items()})
    shared, fewer, augmented = (cached_corpus(config.override(keys), tiny_folder, tmp_path) for keys in others)
    corpus = cached_corpus(config, tiny_folder, tmp_path)
    assert shared is corpus
    assert set(fewer) == {(task, split) for task in ("sst", "qqp") for split in ("train", "dev")}
    table = augmented["sst", "train"]
    assert (table.num_rows, table.num_own_rows, corpus["sst", "train"].num_rows) == (43, 30, 30)
    assert table.fingerprint != corpus["sst", "train"].fingerprint


def test_corpora_exclude_held_out_rows(
    tiny_folder: Path, tiny_encoder_folder: Path, tiny_config: TrialConfig, tmp_path: Path
) -> None:
    plain = tiny_config.override({"encoder.name": str(tiny_encoder_folder)})
    config = plain.override({"data.hold_out": 0.2})
    corpus, held = cached_corpus(config, tiny_folder, tmp_path), read_held_out(config, tiny_folder)
    for (task, split), table in corpus.items():
        assert not set(table.ids) & set(held[task].ids)
        own = cached_corpus(plain, tiny_folder, tmp_path)[task, split]
        assert (table.num_rows == own.num_rows, table.fingerprint == own.fingerprint) == (split == "dev",) * 2
    assert cached_corpus(config.override({"replicate": 3}), tiny_folder, tmp_path) is corpus


def test_encoder_is_loaded_once(tiny_encoder_folder: Path) -> None:
    assert cached_encoder(str(tiny_encoder_folder)) is cached_encoder(str(tiny_encoder_folder))


def test_starting_weights_are_part_of_a_trials_origin(storage: TrialStorage) -> None:
    trial, folder = storage.load_trial(), storage.trial_folder()
    train_trial(trial, folder)
    started = storage.load_trial(encoder__start_from=folder.own.base_path)
    assert trial.origin.started == {}
    assert started.origin.started
    assert not {cut.key for cut in trial.cuts} & {cut.key for cut in started.cuts}
