"""Names of pretrained encoders, and queries to the Hugging Face hub about them."""

from fnmatch import fnmatch
from pathlib import Path

from mtlib.data.files.hub_datasets import check_access_token
from mtlib.runtime.errors import first_line, require
from mtlib.runtime.storage import expanded_path

HUB_SECONDS = 10.0
"""Timeout of a query to the hub."""
WEIGHT_FILES = ("model.safetensors", "model-*-of-*.safetensors", "pytorch_model.bin", "pytorch_model-*-of-*.bin")
"""Patterns of weight files in a hub repository, single or sharded, the preferred one first."""


def read_encoder_name(text: str, what: str = "--encoder") -> str:
    """Returns a hub name unchanged, a local folder as an absolute path;
    ValueError, about `what`, if it can only be a missing folder."""
    if expanded_path(text).is_dir():
        return str(expanded_path(text).resolve())
    if text.startswith((".", "/", "~")) or text.count("/") > 1:
        raise ValueError(f"{what} must be a hub name or a folder that exists, got '{text}'")
    return text


def is_folder(name: str) -> bool:
    """Returns whether an encoder's name is a folder, existing or not, instead of a hub name."""
    return Path(name).is_absolute() or Path(name).exists()


def ask_hub(encoder: str) -> int:
    """Queries the Hugging Face hub once for an encoder that is not on this machine; loading would retry for minutes.

    Returns:
        Size of its weights in bytes.

    Raises:
        ValueError: the hub does not know it, requires an access token, has no weights of it, or cannot be reached; the
            message names the other places that were searched.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    check_access_token()
    api, elsewhere = HfApi(), f"neither a local folder nor complete in {hub_cache_folder()}"
    try:
        info = api.model_info(encoder, timeout=HUB_SECONDS, files_metadata=True)
    except GatedRepoError as error:  # a RepositoryNotFoundError too
        rule = f"encoder '{encoder}' is gated at {api.endpoint} and needs an access token with permission"
        raise ValueError(f"{rule} (set HF_TOKEN or use `hf auth login`); it is {elsewhere}") from error
    except RepositoryNotFoundError as error:
        rule = "an encoder must be a local folder or a name that the Hugging Face hub knows"
        raise ValueError(f"{rule}, got '{encoder}', {elsewhere}, nor at {api.endpoint}") from error
    except Exception as error:  # the type depends on the HTTP library
        rule = f"encoder '{encoder}' is {elsewhere}, and the Hugging Face hub cannot be queried"
        raise ValueError(f"{rule} ({first_line(error)}); name a local folder") from error
    files = {file.rfilename: file.size or 0 for file in info.siblings or ()}
    kinds = [[size for name, size in files.items() if fnmatch(name, pattern)] for pattern in WEIGHT_FILES]
    sizes = next(filter(None, kinds), [])
    rule = f"encoder '{encoder}' must have its weights as {WEIGHT_FILES[0]} or {WEIGHT_FILES[2]}"
    require(bool(sizes), rule, f"{elsewhere}, and none of these at {api.endpoint}/{encoder}")
    return sum(sizes)


def hub_cache_folder() -> str:
    from huggingface_hub import constants

    return constants.HF_HUB_CACHE
