"""What the trials of a sweep are trained from, read on the driver: tokenised data, encoder, starting weights."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mtlib.config.network import EncoderConfig
from mtlib.config.schema import to_dict
from mtlib.config.trial import TrialConfig
from mtlib.data.load import TableKey, find_row_sources
from mtlib.data.row_sources import RowSources
from mtlib.data.tables import Table
from mtlib.data.token_cache import Corpus, TokenTable, tokenize
from mtlib.model.encoder import PretrainedEncoder
from mtlib.runtime.checksum import hash_of
from search_spaces.space import SearchSpace

StartKey = tuple[str, str]
"""`encoder.start_from` and `encoder.start_epoch`."""


@dataclass(frozen=True, kw_only=True)
class TrialInputs:
    """What the trials of a sweep are trained from."""

    encoder: PretrainedEncoder
    corpora: Mapping[str, Corpus]
    """By `data_key`; a table that several of them have is one object."""
    starts: Mapping[StartKey, EncoderConfig]
    """A configuration for each of the starting weights, which are read once there is a place for them."""

    @property
    def num_bytes(self) -> int:
        """Memory that they need; starting weights count as the encoder, of which they are another version."""
        encoder = sum(weight.nbytes for weight in self.encoder.weights.values())
        tables = {id(table): table.num_bytes for corpus in self.corpora.values() for table in corpus.values()}
        return encoder * (1 + len(self.starts)) + sum(tables.values())


def read_trial_inputs(
    space: SearchSpace,
    tables: Mapping[tuple[TableKey, RowSources], Table],
    encoder: PretrainedEncoder,
    data_folder: Path,
    cache_folder: Path,
) -> TrialInputs:
    """Tokenises the tables of all points of a space, as `read_points` reads them, unless the cache has their tokens.

    Raises ValueError as `tokenize`.
    """
    tokens = tokenize(tables, encoder.tokenizer, cache_folder)
    settings = dict.fromkeys(config.encoder for config in space.configs if config.encoder.start_from is not None)
    return TrialInputs(
        encoder=encoder,
        corpora={data_key(config): corpus_of(config, data_folder, tokens) for config in space.configs},
        starts={start_key(config): config for config in settings},
    )


def corpus_of(
    config: TrialConfig, data_folder: Path, tokens: Mapping[tuple[TableKey, RowSources], TokenTable]
) -> dict[TableKey, TokenTable]:
    """The tables that a configuration is trained and scored on."""
    return {key: tokens[key, sources] for key, sources in find_row_sources(config, data_folder).items()}


def data_key(config: TrialConfig) -> str:
    """A hash of the settings that decide which rows a configuration reads from a data folder.

    Unlike `find_row_sources` it looks at no file, so that it is the same on nodes that have none of them.
    """
    data = config.data
    return hash_of([config.active_tasks, config.train_sets, to_dict(data.tasks), to_dict(data.sources), data.hold_out])


def start_key(config: EncoderConfig) -> StartKey:
    """What names starting weights in a configuration that has them."""
    assert config.start_from is not None
    return config.start_from, config.start_epoch
