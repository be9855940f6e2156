"""What a trial follows from: its cuts, a corpus shared where rows are, one encoder, weights to start from."""

from pathlib import Path
from typing import Any

from mtlib.config.trial import TrialConfig
from mtlib.data.load import read_held_out
from sweeps.lanes.loaded_trial import cached_corpus, cached_encoder
from tests.sweeps.reuse.trained_trials import Ground, train_trial


def test_a_course_knows_its_cuts(ground: Ground) -> None:
    course = ground.course()
    assert [(cut.total_epochs, cut.total_steps, cut.is_end) for cut in course.cuts] == [
        (1, 4, True),
        (2, 8, False),
        (3, 12, True),
    ]
    assert [course.end_of(stage).total_epochs for stage in (0, 1)] == [1, 3]
    assert [course.next_end(epochs).total_epochs for epochs in (0, 1, 2)] == [1, 3, 3]
    assert course.can_be_extended
    assert not ground.course(optimizer__schedule="slanted_triangular").can_be_extended


def test_trials_share_a_corpus_exactly_where_they_learn_from_the_same_rows(
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


def test_rows_that_are_held_out_are_in_no_corpus(
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


def test_an_encoder_is_loaded_once(tiny_encoder_folder: Path) -> None:
    assert cached_encoder(str(tiny_encoder_folder)) is cached_encoder(str(tiny_encoder_folder))


def test_weights_to_start_from_are_part_of_what_a_trial_follows_from(ground: Ground) -> None:
    course, place = ground.course(), ground.place()
    train_trial(course, place)
    started = ground.course(encoder__start_from=str(place.path))
    assert course.origin.started == {}
    assert started.origin.started
    assert not {cut.key for cut in course.cuts} & {cut.key for cut in started.cuts}
