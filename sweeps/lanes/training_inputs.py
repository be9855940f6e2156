"""What the trials of a sweep are trained from, read on the driver: tokenised data, encoder, starting weights."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mtlib.config.network import EncoderConfig
from mtlib.config.schema import to_dict
from mtlib.config.trial import TrialConfig
from mtlib.data.load import TableKey, find_row_sources
from mtlib.data.row_sources import RowSources
from mtlib.data.tables import Table, prefixed_table
from mtlib.data.token_cache import Corpus, tokenize
from mtlib.model.encoder import PretrainedEncoder
from mtlib.runtime.checksum import hash_of
from search_spaces.space import SearchSpace

StartKey = tuple[str, str]
"""`encoder.start_from` and `encoder.start_epoch`."""


@dataclass(frozen=True, kw_only=True)
class TrainingInputs:
    """What the trials of a sweep are trained from."""

    encoders: Mapping[str, PretrainedEncoder]
    """By their names in configurations."""
    corpora: Mapping[str, Corpus]
    """By `data_key`; a table that several of them have has one fingerprint."""
    starts: Mapping[StartKey, EncoderConfig]
    """A configuration for each of the starting weights, which are read once there is a place for them."""

    @property
    def num_bytes(self) -> int:
        """Memory that they need; starting weights count as the largest encoder, of which they are another version."""
        encoders = [sum(weight.nbytes for weight in own.weights.values()) for own in self.encoders.values()]
        tables = {table.fingerprint: table.num_bytes for corpus in self.corpora.values() for table in corpus.values()}
        return sum(encoders) + max(encoders) * len(self.starts) + sum(tables.values())


def read_training_inputs(
    space: SearchSpace,
    tables: Mapping[tuple[TableKey, RowSources], Table],
    encoders: Mapping[str, PretrainedEncoder],
    data_folder: Path,
    cache_folder: Path,
) -> TrainingInputs:
    """Tokenises the tables of all points of a space, as `read_points` reads them, unless the cache has their tokens.

    Each encoder's tokenizer reads the tables of its own points. Raises ValueError as `tokenize`.
    """
    tokens = {}
    for name, encoder in encoders.items():
        own = [config for config in space.configs if config.encoder.name == name]
        wanted = {part for config in own for part in prefixed_sources(config, data_folder).values()}
        texts = {(*source, prefix): prefixed_table(tables[source], prefix) for source, prefix in wanted}
        tokens[name] = tokenize(texts, encoder.tokenizer, cache_folder)
    settings = dict.fromkeys(config.encoder for config in space.configs if config.encoder.start_from is not None)
    return TrainingInputs(
        encoders=encoders,
        corpora={
            data_key(config): {
                key: tokens[config.encoder.name][*source, prefix]
                for key, (source, prefix) in prefixed_sources(config, data_folder).items()
            }
            for config in space.configs
        },
        starts={start_key(config): config for config in settings},
    )


def prefixed_sources(config: TrialConfig, data_folder: Path) -> dict[TableKey, tuple[tuple[TableKey, RowSources], str]]:
    """Returns what each table that a configuration is trained and scored on is read from,
    and the prefix of its texts."""
    return {
        key: ((key, sources), config.tasks[config.task_of(key[0])].prefix)
        for key, sources in find_row_sources(config, data_folder).items()
    }


def data_key(config: TrialConfig) -> str:
    """Returns a hash of the settings that decide which word pieces a configuration reads from a data folder.

    Unlike `find_row_sources` it looks at no file, so that it is the same on nodes that have none of them.
    """
    data, prefixes = config.data, [config.tasks[task].prefix for task in config.active_tasks]
    rows = [config.active_tasks, config.train_sets, to_dict(data.tasks), to_dict(data.sources), data.hold_out]
    return hash_of([config.encoder.name, prefixes, *rows])


def start_key(config: EncoderConfig) -> StartKey:
    """Returns what names starting weights in a configuration that has them."""
    assert config.start_from is not None
    return config.start_from, config.start_epoch
