"""The pretrained text encoder: located, loaded once, and copied for each trial."""

import contextlib
import copy
import dataclasses
import functools
import hashlib
import importlib.util
import json
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from mtlib.config.network import EncoderConfig
from mtlib.data.tokenizer_facts import AUTO_TOKENIZER, TOKENIZER_FILE, is_read_last, tokenizer_of_file
from mtlib.model.architecture_check import check_architecture, unsupported_encoder
from mtlib.model.hub import ask_hub, hub_cache_folder, is_folder
from mtlib.model.weight_files import check_finite, fault_of_files
from mtlib.runtime.errors import first_line, require

HIDDEN_DROPOUTS = ("hidden_dropout_prob", "hidden_dropout", "dropout", "embedding_dropout", "mlp_dropout")
"""Names of hidden-state dropout in configurations of encoders."""
FLASH = "flash_attention_2"
"""The attention that `transformers` takes from the package `flash-attn`."""
ATTENTION_DROPOUTS = ("attention_probs_dropout_prob", "attention_dropout")
"""Names of attention dropout in configurations of encoders."""


@dataclass(frozen=True, kw_only=True)
class PretrainedEncoder:
    """An encoder as it was loaded; trials train copies of it."""

    name: str
    config: Any
    """The `transformers` configuration."""
    weights: Mapping[str, Tensor]
    """Pretrained weights by name, on the CPU, fp32."""
    tokenizer: Any
    """A fast `transformers` tokenizer; None where texts have been tokenised already."""
    tokenizer_source: str = AUTO_TOKENIZER
    """What made it: `AutoTokenizer`, or `tokenizer.json` itself."""
    tokenizer_json: str | None = None
    """The content of the encoder's `tokenizer.json`; None where there is none, or where `tokenizer` was made of it."""
    fingerprint: str
    """SHA-256 of configuration and weights."""
    max_length: int
    """Longest input in word pieces, special tokens included."""
    is_read_last: bool = False
    """Whether [CLS] is the last token of a text instead of the first."""

    @property
    def num_parameters(self) -> int:
        return sum(weight.numel() for weight in self.weights.values())


WRAPPED = r"^((module|_orig_mod|\d+\.auto_model)\.)+"
"""What DataParallel, `torch.compile` and sentence-transformers put before the names of a model's weights."""


class CannotLoad(ValueError):  # noqa: N818 - not final: another location may have the encoder
    """An encoder is missing or incomplete in one location."""


def find_encoder(name: str, tokenizer_source: str = AUTO_TOKENIZER) -> PretrainedEncoder:
    """Loads the pretrained encoder of a trial; ValueError as `load_encoder`, or if its folder is missing."""
    is_gone = Path(name).is_absolute() and not Path(name).is_dir()
    require(not is_gone, "the trial's encoder folder must exist, or be replaced with --encoder", f"no folder {name}")
    return load_encoder(name, tokenizer_source)


def load_encoder(name: str, tokenizer_source: str = AUTO_TOKENIZER) -> PretrainedEncoder:
    """Loads an encoder and its tokenizer, from this machine if it is complete there, else from the hub.

    Raises:
        ValueError: in one line: it is nowhere available, damaged or incomplete, or not bidirectional.
    """
    found = None
    if not is_folder(name):
        with contextlib.suppress(CannotLoad):  # not cached, or incomplete; errors of the hub are reported instead
            found = load_from(name, only_local=True)
        if found is None:
            ask_hub(name)
    found = found or load_from(name, only_local=False)
    return found if tokenizer_source == AUTO_TOKENIZER else with_file_tokenizer(found)


def preview_encoder(name: str) -> tuple[PretrainedEncoder, str]:
    """Finds an encoder where `load_encoder` would; on the hub, its configuration and tokenizer are read and not kept.

    Returns the encoder as it would be loaded, with random weights unless it is on this machine, and where it was found,
    for messages. Raises ValueError as `load_encoder`; of weights on the hub, only the size is read.
    """
    from transformers import AutoModel

    cache = hub_cache_folder()
    if is_folder(name):
        return load_from(name, only_local=False), f"in the folder {name}"
    with contextlib.suppress(CannotLoad):
        return load_from(name, only_local=True), f"in {cache}"
    size = ask_hub(name)
    with tempfile.TemporaryDirectory() as folder:
        config, tokenizer = load_description(name, cache_dir=folder)
        content = read_tokenizer_json(name, cache_dir=folder)
    with loading(name), torch.random.fork_rng(devices=[]):
        model = AutoModel.from_config(config, dtype=torch.float32)
    place = f"on the Hugging Face hub, not in {cache}: {size / 1e6:,.1f} MB of weights will be fetched"
    return describe_model(name, model, tokenizer, content), place


def load_from(name: str, only_local: bool) -> PretrainedEncoder:
    """As `load_encoder`; never from the hub if `only_local`, with CannotLoad if it is not complete on this machine."""
    from transformers import AutoModel

    config, tokenizer = load_description(name, local_files_only=only_local)
    load = functools.partial(
        AutoModel.from_pretrained,
        name,
        config=config,
        dtype=torch.float32,
        output_loading_info=True,
        ignore_mismatched_sizes=True,
        local_files_only=only_local,
        adapter_kwargs={"local_files_only": only_local},  # with peft installed it looks for an adapter, too
    )
    with loading(name):
        model, info = load()
        if any(re.match(WRAPPED, key) for key in info["unexpected_keys"]):
            model, info = load(key_mapping={WRAPPED: ""})
    check_missing_weights(name, info)
    content = read_tokenizer_json(name, local_files_only=only_local)
    found = describe_model(name, model, tokenizer, content)
    check_finite(f"encoder '{name}' must have finite weights", model.named_parameters())
    return found


def load_description(name: str, **where: Any) -> tuple[Any, Any]:
    """Configuration and tokenizer of an encoder, without weights; `where` has keyword arguments of `from_pretrained`.

    Raises:
        CannotLoad: one of them is missing or damaged.
        ValueError: the encoder is not bidirectional.
    """
    from transformers import AutoConfig, AutoTokenizer

    with loading(name):
        config = AutoConfig.from_pretrained(name, trust_remote_code=False, **where)
    with quiet_transformers():
        check_architecture(name, config)
    with loading(name):
        tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False, use_fast=True, **where)
    if len(tokenizer) <= len(tokenizer.all_special_tokens):  # `transformers` constructs an empty one
        raise CannotLoad(f"encoder '{name}' must come with its tokenizer, got no vocabulary")
    return config, tokenizer


def read_tokenizer_json(name: str, **where: Any) -> str | None:
    """Returns the content of an encoder's `tokenizer.json`, None without one; `where` as in `load_description`.

    Raises:
        CannotLoad: it cannot be read.
    """
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError

    with loading(name):
        try:
            path = Path(name) / TOKENIZER_FILE if is_folder(name) else hf_hub_download(name, TOKENIZER_FILE, **where)
            return Path(path).read_text(encoding="utf-8")
        except (FileNotFoundError, EntryNotFoundError):
            return None


def with_file_tokenizer(pretrained: PretrainedEncoder) -> PretrainedEncoder:
    """Returns an encoder with the tokenizer that its `tokenizer.json` describes.

    Raises:
        CannotLoad: it has no such file, or one that cannot encode a text.
        ValueError: the tokenizer has tokens without an embedding.
    """
    name, content = pretrained.name, pretrained.tokenizer_json
    if content is None:
        raise CannotLoad(f"encoder '{name}' must come with the {TOKENIZER_FILE} with which it was trained, got none")
    with loading(name):
        tokenizer = tokenizer_of_file(content, pretrained.tokenizer)
        reads_last = is_read_last(tokenizer)
    check_tokens(name, getattr(pretrained.config, "vocab_size", sys.maxsize), tokenizer)
    return dataclasses.replace(
        pretrained,
        tokenizer=tokenizer,
        tokenizer_source=TOKENIZER_FILE,
        tokenizer_json=None,  # up to 16 MB, which nothing reads again
        is_read_last=reads_last,
    )


@contextlib.contextmanager
def loading(name: str) -> Iterator[None]:
    """Turns every exception of `transformers` into CannotLoad with one line; silences its output."""
    with quiet_transformers():
        try:
            yield
        except Exception as error:  # damaged files raise errors of any type
            raise CannotLoad(f"encoder '{name}' cannot be loaded: {reason_of_failure(name, error)}") from error


def reason_of_failure(name: str, error: Exception) -> str:
    """Returns why an encoder cannot be loaded, by its error, and by its files where it is a folder."""
    if "trust_remote_code" in str(error):  # the argument with which `transformers` would run it
        return "it brings code of its own, which is not run; its family must be one of transformers"
    folder = Path(name)
    weights = sorted(folder.glob("*.safetensors")) or sorted(folder.glob("*.bin"))
    others = sorted(path for path in folder.glob("*") if path.suffix in (".json", ".txt", ".model"))
    if fault := fault_of_files([*others, *weights]):
        return fault
    names_tiktoken = "`tiktoken` is required" in str(error)  # also for a file that sentencepiece reads
    if names_tiktoken and not importlib.util.find_spec("sentencepiece"):
        return "its tokenizer is in a file that sentencepiece reads; pip install sentencepiece"
    return first_line(error)


def describe_model(name: str, model: nn.Module, tokenizer: Any, tokenizer_json: str | None = None) -> PretrainedEncoder:
    """Returns a `PretrainedEncoder` from a model, its tokenizer, and the content of its `tokenizer.json`.

    Raises:
        CannotLoad: the tokenizer cannot encode a text.
        ValueError: the tokenizer has tokens without an embedding.
    """
    drop_pooler(model)
    check_tokens(name, num_embeddings(model), tokenizer)
    with loading(name):
        reads_last = is_read_last(tokenizer)
    weights = {key: weight.detach().clone() for key, weight in model.state_dict().items()}
    config: Any = model.config
    described = {key: value for key, value in config.to_dict().items() if not key.startswith("_")}
    described.pop("transformers_version", None)
    return PretrainedEncoder(
        name=name,
        config=config,
        weights=weights,
        tokenizer=tokenizer,
        tokenizer_json=tokenizer_json,
        fingerprint=digest_of(weights, json.dumps(described, sort_keys=True, default=str)),
        max_length=min(tokenizer.model_max_length, num_positions(model)),
        is_read_last=reads_last,
    )


def check_missing_weights(name: str, info: Mapping[str, Any]) -> None:
    """Raises CannotLoad for weights that `transformers` initialised at random, except those of the pooler."""
    resized = [key for key, *_shapes in info["mismatched_keys"]]
    for fault, keys in (("missing", info["missing_keys"]), ("of another size", resized)):
        found = sorted(key for key in keys if not key.startswith("pooler."))
        if found:
            others = sorted(info["unexpected_keys"])
            hint = f"; {len(others)} others are not the architecture's, first {others[0]}" if others else ""
            rule = f"encoder '{name}' must have all its weights"
            raise CannotLoad(f"{rule}, {len(found)} are {fault}, first {found[0]}{hint}")


def num_embeddings(model: nn.Module) -> int:
    """Number of tokens that have an embedding; CANINE hashes characters and has no table of tokens."""
    try:
        return len(model.get_input_embeddings().weight)  # type: ignore[operator]
    except (AttributeError, NotImplementedError):
        return sys.maxsize


def check_tokens(name: str, count: int, tokenizer: Any) -> None:
    """Raises ValueError if a token's id is not below the number of embeddings; a text that has it could not be read."""
    token, largest = max(tokenizer.get_vocab().items(), key=lambda entry: entry[1])
    rule = f"encoder '{name}' must have an embedding for each token of its tokenizer"
    require(largest < count, rule, f"{count:,} embeddings, and token {token!r} with id {largest}")


def num_positions(model: nn.Module) -> int:
    """Number of positions for tokens; RoBERTa reserves the first ones for padding."""
    embeddings = getattr(model, "embeddings", None)
    positions: Any = getattr(embeddings, "position_embeddings", None)
    numbers = getattr(embeddings, "position_ids", None)  # (1, positions)
    found = [numbers.shape[-1]] if isinstance(numbers, Tensor) else []
    if isinstance(getattr(positions, "weight", None), Tensor):  # an nn.Embedding, or I-BERT's quantised one
        padding = positions.padding_idx
        found.append(len(positions.weight) - (0 if padding is None else padding + 1))
    else:
        found.append(int(getattr(model.config, "max_position_embeddings", None) or sys.maxsize))
    return min((count for count in found if count > 0), default=sys.maxsize)  # XLNet has -1: unlimited


@contextlib.contextmanager
def quiet_transformers() -> Iterator[None]:
    """Silences progress bars and reports of unused weights."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def drop_pooler(model: nn.Module) -> None:
    """Replaces the layer that BERT applies to [CLS] in pretraining by the identity; our heads use the hidden state.

    It cannot be removed: SqueezeBERT and LayoutLM always call it.
    """
    if getattr(model, "pooler", None) is not None:
        model.register_module("pooler", nn.Identity())


def digest_of(weights: Mapping[str, Tensor], described: str = "") -> str:
    """SHA-256, in hexadecimal, over a description and the names and values of weights, independent of their order."""
    digest = hashlib.sha256(described.encode())
    for name in sorted(weights):
        digest.update(name.encode())
        digest.update(weights[name].cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def build_encoder(pretrained: PretrainedEncoder, config: EncoderConfig) -> nn.Module:
    """Returns a fresh trainable copy of a pretrained encoder with the configured dropout.

    Raises:
        ValueError: a dropout is set that this encoder's configuration lacks, max_length exceeds its positions, or the
            encoder lacks the attention or the gradient checkpointing that is asked for, or this machine does.
    """
    from transformers import AutoModel

    architecture = copy.deepcopy(pretrained.config)
    set_dropout(architecture, HIDDEN_DROPOUTS, config.dropout, pretrained.name, "dropout")
    set_dropout(architecture, ATTENTION_DROPOUTS, config.attention_dropout, pretrained.name, "attention_dropout")
    rule = f"encoder.max_length must be at most {pretrained.max_length} for {pretrained.name}"
    require(config.max_length <= pretrained.max_length, rule, config.max_length)
    is_elsewhere = config.attention == FLASH and not torch.cuda.is_available()  # a GPU trains it: this is a check
    chosen = {} if config.attention == "auto" or is_elsewhere else {"attn_implementation": config.attention}
    with quiet_transformers(), torch.random.fork_rng(devices=[]), refused(f"encoder.attention {config.attention}"):
        model: Any = AutoModel.from_config(architecture, **chosen)
    drop_pooler(model)
    model.load_state_dict(pretrained.weights)
    if config.gradient_checkpointing:
        with refused("encoder.gradient_checkpointing"):  # its method has a new name since transformers 5.20
            enable = getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
            enable({"use_reentrant": False})
        model.disable_input_require_grads()  # for reentrant ones: frozen layers would be differentiated
    built: nn.Module = model
    return built


def check_attention(config: EncoderConfig, on_gpu: bool) -> None:
    """Raises ValueError if a trial cannot be trained with its attention on this kind of device."""
    rule = f"encoder.attention must not be {FLASH} on the CPU, for which it has no kernels"
    require(on_gpu or config.attention != FLASH, rule, config.attention)


@contextlib.contextmanager
def refused(setting: str) -> Iterator[None]:
    """Turns what `transformers` raises where an encoder or this machine cannot do as asked into one line."""
    try:
        yield
    except (ImportError, ValueError) as error:
        rule = f"{setting} must be possible with this encoder on this machine"
        raise ValueError(f"{rule}: {first_line(error)}") from error


def hidden_dropout(architecture: Any) -> float:
    """Returns the dropout probability of hidden states in an encoder's configuration; 0 if it has none."""
    known = [getattr(architecture, name, None) for name in HIDDEN_DROPOUTS]
    return next((float(value) for value in known if isinstance(value, int | float)), 0.0)


def set_dropout(architecture: Any, names: tuple[str, ...], value: float | None, encoder: str, key: str) -> None:
    """Sets every dropout among `names` that the encoder's configuration has; None leaves them.

    Raises:
        ValueError: it has none (EuroBERT, Gemma) and the value is not 0.
    """
    known = [name for name in names if isinstance(getattr(architecture, name, None), int | float)]
    rule = f"encoder.{key} must be 0 or none for {encoder} ({architecture.model_type}), which has no such dropout"
    require(bool(known) or not value, rule, value)
    for name in known if value is not None else ():
        setattr(architecture, name, value)


def embedding_layer(encoder: nn.Module) -> nn.Module:
    """Returns the module whose output SMART perturbs; it includes positions, types, LayerNorm and dropout.

    Its output enters the first layer directly or, where it is narrower (ALBERT, ELECTRA), through a linear map.

    Raises:
        ValueError: the architecture has no such module. In XLM and FlauBERT `embeddings` is the word table alone, and
            the rest is not in a module.
    """
    layer = getattr(encoder, "embeddings", None)
    if not isinstance(layer, nn.Module):
        raise unsupported_encoder("SMART", encoder, "it has no module called 'embeddings'")
    if isinstance(layer, nn.Embedding):
        why = "its 'embeddings' is the word table only; positions and LayerNorm are applied outside it"
        raise unsupported_encoder("SMART", encoder, why)
    return layer
