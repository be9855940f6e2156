"""What a pretrained encoder is like and where it is, found as loading would find it, but without fetching weights."""

import contextlib
import tempfile
from dataclasses import dataclass

import torch

from mtlib.model.encoder import CannotLoad, PretrainedEncoder, describe_model, load_description, load_from, loading
from mtlib.model.hub import ask_hub, cache_folder, is_folder


@dataclass(frozen=True, kw_only=True)
class FoundEncoder:
    """An encoder that can be had."""

    pretrained: PretrainedEncoder
    """As it would be loaded; its weights are random where they would have to be fetched."""
    is_here: bool
    """Whether it is on this machine, and its weights are its own."""
    place: str
    """Where it was found, in words."""


def look_up_encoder(name: str) -> FoundEncoder:
    """Finds an encoder where `load_encoder` would; on the hub, its configuration and tokenizer are read and not kept.

    Args:
        name: a hub name, or a local folder.

    Raises:
        ValueError: as `load_encoder`, in the same words; of weights on the hub only that there are some is known.
    """
    if is_folder(name):
        return FoundEncoder(pretrained=load_from(name, only_local=False), is_here=True, place=f"in the folder {name}")
    cache = cache_folder()
    with contextlib.suppress(CannotLoad):
        return FoundEncoder(pretrained=load_from(name, only_local=True), is_here=True, place=f"in {cache}")
    size = ask_hub(name)
    place = f"on the Hugging Face hub, not in {cache}: {size / 1e6:,.1f} MB of weights will be fetched"
    return FoundEncoder(pretrained=with_random_weights(name), is_here=False, place=place)


def with_random_weights(name: str) -> PretrainedEncoder:
    """An encoder of the hub as it will be, but for its weights; ValueError if it cannot be described."""
    from transformers import AutoModel

    with tempfile.TemporaryDirectory() as folder:
        config, tokenizer = load_description(name, cache_dir=folder)
    with loading(name), torch.random.fork_rng(devices=[]):
        model = AutoModel.from_config(config, dtype=torch.float32)
    return describe_model(name, model, tokenizer)
