"""A pretrained encoder by its name: from its folder, from what is on this machine, or from the hub."""

from pathlib import Path
from typing import TYPE_CHECKING

from mtlib.schema import first_line, require

if TYPE_CHECKING:  # names are read without torch
    from mtlib.encoder import PretrainedEncoder

HUB_SECONDS = 10.0
"""How long the Hugging Face hub may take to answer."""


def read_encoder_name(text: str) -> str:
    """A hub name as it is, a local folder as an absolute path; ValueError if it can only be a folder, and is none."""
    if Path(text).expanduser().is_dir():
        return str(Path(text).expanduser().resolve())
    if text.startswith((".", "/", "~")) or text.count("/") > 1:
        raise ValueError(f"--encoder must be a hub name or a folder that exists, got '{text}'")
    return text


def find_encoder(name: str) -> "PretrainedEncoder":
    """Loads the pretrained encoder of a trial.

    Args:
        name: its folder, or its name on the hub.

    Raises:
        ValueError: in one line: the folder is not there, the hub does not know the name or cannot be asked, or what is
            there is no text encoder.
    """
    from mtlib.encoder import load_encoder

    is_gone = Path(name).is_absolute() and not Path(name).is_dir()
    require(not is_gone, "the trial's encoder must be where it was, or be named with --encoder", f"no folder {name}")
    check_hub(name)
    return load_encoder(name)


def check_hub(encoder: str) -> None:
    """Asks the Hugging Face hub, once, for an encoder that is not on this machine; loading it would ask for minutes.

    Raises:
        ValueError: the hub does not know it, or cannot be reached.
    """
    from huggingface_hub import HfApi, try_to_load_from_cache
    from huggingface_hub.errors import RepositoryNotFoundError

    is_here = Path(encoder).is_dir() or isinstance(try_to_load_from_cache(encoder, "config.json"), str)
    if is_here:
        return
    try:
        HfApi().model_info(encoder, timeout=HUB_SECONDS)
    except RepositoryNotFoundError as error:
        rule = "--encoder must be a local folder or a name that the Hugging Face hub knows"
        raise ValueError(f"{rule}, got '{encoder}'") from error
    except Exception as error:  # of which kind depends on the library that carries the request
        rule = f"encoder '{encoder}' is not on this machine and the Hugging Face hub cannot be asked for it"
        raise ValueError(f"{rule} ({first_line(error)}); name a local folder with --encoder") from error
