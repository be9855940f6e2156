"""What a trial's result follows from: its configuration, encoder, data and environment, loaded and held in memory."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtlib.checkpoints.initial_weights import load_start
from mtlib.config.trial import TrialConfig
from mtlib.data.load import TableKey, find_row_sources, read_all
from mtlib.data.row_sources import RowSources
from mtlib.data.token_cache import Corpus, tokenize
from mtlib.model.encoder import PretrainedEncoder, load_encoder
from mtlib.model.multitask import MultiTaskModel
from mtlib.stages.effective_settings import length_counts
from mtlib.stages.keys import Cut, Origin, list_cuts
from mtlib.stages.plan import plan_stages
from mtlib.train import origin_of


@dataclass(frozen=True, kw_only=True)
class Course:
    """A trial with all that its result follows from."""

    config: TrialConfig
    encoder: PretrainedEncoder
    corpus: Corpus
    origin: Origin
    cuts: tuple[Cut, ...]
    """First to last."""

    @property
    def can_be_longer(self) -> bool:
        """Whether a trial with more epochs could go on from this one's end."""
        return not length_counts(self.config, len(self.config.stages) - 1)

    def end_of(self, stage: int) -> Cut:
        """The cut at a stage's end."""
        return next(cut for cut in self.cuts if cut.stage == stage and cut.is_end)

    def next_end(self, epochs: int) -> Cut:
        """The first end of a stage behind so many epochs of the trial."""
        return next(cut for cut in self.cuts if cut.is_end and cut.total_epochs > epochs)


def find_course(config: TrialConfig, data_folder: Path, cache_folder: Path, environment: Mapping[str, Any]) -> Course:
    """A trial with all that its result follows from; raises ValueError as `load_start` and `corpus_of` do.

    Args:
        config: the trial's configuration.
        data_folder, cache_folder: of the sweep.
        environment: as `describe_environment` gives it.
    """
    encoder, corpus = encoder_of(config.encoder.name), corpus_of(config, data_folder, cache_folder)
    has_start = config.encoder.start_from is not None
    started = load_start(config.encoder, MultiTaskModel(config, encoder)) if has_start else {}
    origin = origin_of(corpus, encoder, started, environment)
    plan = plan_stages(config, {name: corpus.tables[name, "train"].num_rows for name in config.train_sets})
    cuts = tuple(list_cuts(config, plan, origin))
    return Course(config=config, encoder=encoder, corpus=corpus, origin=origin, cuts=cuts)


@functools.lru_cache(maxsize=1)
def encoder_of(name: str) -> PretrainedEncoder:
    """The encoder that is held in memory."""
    return load_encoder(name)


def corpus_of(config: TrialConfig, data_folder: Path, cache_folder: Path) -> Corpus:
    """The data of a trial as the encoder's word pieces: the same for all trials that learn from the same rows."""
    wanted = tuple(find_row_sources(config, data_folder).items())
    return read_corpus(config.encoder.name, wanted, data_folder, cache_folder)


@functools.lru_cache(maxsize=4)
def read_corpus(
    encoder: str, wanted: tuple[tuple[TableKey, RowSources], ...], data_folder: Path, cache_folder: Path
) -> Corpus:
    """The token cache, mapped into memory: shared by all workers of a machine."""
    return tokenize(read_all(dict(wanted), data_folder), encoder_of(encoder).tokenizer, cache_folder)
