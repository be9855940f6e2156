"""A pretrained encoder by its name: what the name may be, and what the Hugging Face hub says of it."""

from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path

from mtlib.errors import first_line, require

HUB_SECONDS = 10.0
"""How long the Hugging Face hub may take to answer."""
WEIGHT_FILES = ("model.safetensors", "model-*-of-*.safetensors", "pytorch_model.bin", "pytorch_model-*-of-*.bin")
"""What a hub repository calls its weights, in one file or several; the first of these kinds that is there is loaded."""


def read_encoder_name(text: str) -> str:
    """A hub name as it is, a local folder as an absolute path; ValueError if it can only be a folder, and is none."""
    if Path(text).expanduser().is_dir():
        return str(Path(text).expanduser().resolve())
    if text.startswith((".", "/", "~")) or text.count("/") > 1:
        raise ValueError(f"--encoder must be a hub name or a folder that exists, got '{text}'")
    return text


def is_folder(name: str) -> bool:
    """Whether an encoder's name is that of a folder, be it there or not: then the hub has nothing to do with it."""
    return Path(name).is_absolute() or Path(name).exists()


def ask_hub(encoder: str) -> int:
    """Asks the Hugging Face hub, once, for an encoder that is not on this machine; loading it would ask for minutes.

    Returns:
        Bytes of its weights.

    Raises:
        ValueError: the hub does not know it, keeps it behind an access token, has no weights of it, or cannot be
            reached; where else it was looked for is said.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    api, elsewhere = HfApi(), f"neither a folder here nor whole in {cache_folder()}"
    try:
        info = api.model_info(encoder, timeout=HUB_SECONDS, files_metadata=True)
    except GatedRepoError as error:  # a RepositoryNotFoundError too
        rule = (
            f"encoder '{encoder}' is gated at {api.endpoint} and must be read with an access token that is allowed to"
        )
        raise ValueError(f"{rule} (set HF_TOKEN or use `hf auth login`); it is {elsewhere}") from error
    except RepositoryNotFoundError as error:
        rule = "--encoder must be a local folder or a name that the Hugging Face hub knows"
        raise ValueError(f"{rule}, got '{encoder}', {elsewhere}, nor at {api.endpoint}") from error
    except Exception as error:  # of which kind depends on the library that carries the request
        rule = f"encoder '{encoder}' is {elsewhere}, and the Hugging Face hub cannot be asked for it"
        raise ValueError(f"{rule} ({first_line(error)}); name a local folder with --encoder") from error
    sizes = weight_sizes({file.rfilename: file.size or 0 for file in info.siblings or ()})
    rule = f"encoder '{encoder}' must have its weights as {WEIGHT_FILES[0]} or {WEIGHT_FILES[2]}"
    require(bool(sizes), rule, f"{elsewhere}, and none of these at {api.endpoint}/{encoder}")
    return sum(sizes.values())


def weight_sizes(files: Mapping[str, int]) -> dict[str, int]:
    """Of a repository's files, by name with their bytes, those that hold its weights; nothing where none does."""
    kinds = ({name: size for name, size in files.items() if fnmatch(name, kind)} for kind in WEIGHT_FILES)
    return next((found for found in kinds if found), {})


def cache_folder() -> str:
    """Where files of the hub are kept on this machine."""
    from huggingface_hub import constants

    return constants.HF_HUB_CACHE
