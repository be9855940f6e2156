"""What trials are trained from, in Ray's object store: one copy on each node, which all its lanes read in place.

Nodes need none of the driver's folders. The objects live as long as the driver: `ray.put` keeps no record of how they
were made, so a resumed sweep reads data and encoder again.
"""

import dataclasses
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import ray
import torch
from ray import ObjectRef
from ray.exceptions import RayTaskError
from torch import Tensor

from mtlib.checkpoints.initial_weights import read_starting_weights
from mtlib.config.network import EncoderConfig
from mtlib.config.trial import TrialConfig
from mtlib.data.load import TableKey, read_data
from mtlib.data.token_cache import Corpus, TokenTable, tokenize
from mtlib.model.encoder import PretrainedEncoder, load_encoder
from sweeps.cluster.placement import on_node
from sweeps.lanes.training_inputs import StartKey, TrainingInputs, data_key, start_key


@dataclass(frozen=True, kw_only=True)
class StoredInputs:
    """Where the inputs of a sweep's trials are in the object store."""

    encoders: Mapping[str, "ObjectRef[Any]"]
    """By name a `PretrainedEncoder` without weights and tokenizer, and its weights as arrays by name."""
    corpora: Mapping[str, Mapping[TableKey, "ObjectRef[Any]"]]
    """By `data_key`, and then by set and split, a `TokenTable`."""
    starts: Mapping[StartKey, "ObjectRef[Any]"]
    """Starting weights as arrays by name."""
    node: str
    """Id of the node that has the folders: the driver's."""
    data_folder: Path
    cache_folder: Path


def put_inputs(inputs: TrainingInputs, data_folder: Path, cache_folder: Path) -> StoredInputs:
    """Puts the inputs into the object store of the driver's node, from which other nodes fetch their copy.

    `data_folder` and `cache_folder` are those on the driver. Raises ValueError as `read_starting_weights`.
    """
    tables = {table.fingerprint: table for corpus in inputs.corpora.values() for table in corpus.values()}
    stored = {fingerprint: ray.put(table) for fingerprint, table in tables.items()}
    return StoredInputs(
        encoders={
            name: ray.put(
                (dataclasses.replace(own, weights={}, tokenizer=None, tokenizer_json=None), to_arrays(own.weights))
            )
            for name, own in inputs.encoders.items()
        },
        corpora={
            key: {name: stored[table.fingerprint] for name, table in corpus.items()}
            for key, corpus in inputs.corpora.items()
        },
        starts={key: ray.put(read_start_arrays(config)) for key, config in inputs.starts.items()},
        node=ray.get_runtime_context().get_node_id(),
        data_folder=data_folder,
        cache_folder=cache_folder,
    )


class InputsReader:
    """Reads stored inputs in a process of a lane, which keeps those of the last trial."""

    def __init__(self, stored: StoredInputs) -> None:
        self._stored = stored
        self._encoder: tuple[str, PretrainedEncoder] | None = None
        """The name of the last encoder, and the encoder."""
        self._tables: dict[ObjectRef[Any], TokenTable] = {}
        self._read: tuple[str, Corpus] | None = None
        """The key of the last corpus that was not in the store, and the corpus."""

    def read_encoder(self, config: TrialConfig) -> PretrainedEncoder:
        """Returns the encoder of a trial; its weights are the store's memory, and must not be written into."""
        name = config.encoder.name
        if self._encoder is None or self._encoder[0] != name:
            self._encoder = None  # before the next one takes memory
            encoder, weights = ray.get(self._stored.encoders[name])
            self._encoder = name, dataclasses.replace(encoder, weights=to_tensors(weights))
        return self._encoder[1]

    def read_corpus(self, config: TrialConfig) -> Corpus:
        """Returns the tokenised data of a trial.

        A search may draw values together that no point of the space has together. What they read is read on the
        driver's node, by each process that needs it.

        Raises:
            ValueError: such data cannot be used.
            OSError: they cannot be read.
        """
        key = data_key(config)
        refs = self._stored.corpora.get(key)
        if refs is None:
            if self._read is None or self._read[0] != key:
                self._read = None  # before the next one takes memory
                folders = self._stored.data_folder, self._stored.cache_folder
                source = self.read_encoder(config).tokenizer_source
                self._read = key, self._call_on_driver(read_tokens, config, source, *folders)
            return self._read[1]
        self._tables = {ref: self._tables[ref] if ref in self._tables else ray.get(ref) for ref in refs.values()}
        return {name: self._tables[ref] for name, ref in refs.items()}

    def read_start(self, config: TrialConfig) -> dict[str, Tensor] | None:
        """Returns the starting weights of a trial, by the names in their files; None without."""
        if config.encoder.start_from is None:
            return None
        ref = self._stored.starts.get(start_key(config.encoder))
        return to_tensors(self._call_on_driver(read_start_arrays, config.encoder) if ref is None else ray.get(ref))

    def _call_on_driver(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a function on the driver's node, and raises the ValueError or OSError that it raises."""
        try:
            return ray.get(on_node(function, self._stored.node, max_calls=1).remote(*arguments))
        except RayTaskError as error:
            if isinstance(error.cause, ValueError | OSError):
                raise error.cause from None
            raise


def read_tokens(config: TrialConfig, tokenizer_source: str, data_folder: Path, cache_folder: Path) -> Corpus:
    """Reads and tokenises the data of a configuration."""
    encoder = load_encoder(config.encoder.name, tokenizer_source)
    return tokenize(read_data(config, data_folder), encoder.tokenizer, cache_folder)


def read_start_arrays(config: EncoderConfig) -> dict[str, np.ndarray]:
    """Starting weights, of a configuration that has them, as arrays; ValueError as `read_starting_weights`."""
    weights = read_starting_weights(config)
    assert weights is not None
    return to_arrays(weights)


def to_arrays(weights: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    """Weights as arrays, which the store holds without a copy in each process; half precision, exactly, as fp32."""
    tensors = {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in weights.items()}
    return {name: tensor.numpy() for name, tensor in tensors.items()}


def to_tensors(arrays: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
    """Returns the memory of read-only arrays as tensors: models copy them into weights of their own."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return {name: torch.from_numpy(array) for name, array in arrays.items()}
