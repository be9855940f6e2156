"""Uploads an exported model to a model repository of the Hugging Face hub."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from mtlib.data.files.hub_datasets import check_access_token
from mtlib.runtime.errors import first_line, reason_of, require

PUSH_FLAG = "--push-to-hub"
HOW_TO_LOG_IN = "set HF_TOKEN or use `hf auth login`"
NO_PERMISSION = (401, 403)
"""HTTP codes of the hub for a wrong token, or one without the permission."""
OLD_FILES = ("adapter/*", "onnx/*")
"""Files that only some exports have: those of an earlier push would not fit the new weights."""


def check_push(name: str) -> None:
    """Checks what can be checked before there is anything to upload; one request to the hub.

    Args:
        name: of the repository, OWNER/NAME.

    Raises:
        ValueError: in one line: the name is wrong, there is no access token or a wrong one, or the hub cannot be
            reached.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HFValidationError, LocalTokenNotFoundError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]  # public, but imported when first used

    require(name.count("/") == 1, f"{PUSH_FLAG} must be OWNER/NAME", f"'{name}'")
    try:
        validate_repo_id(name)
    except HFValidationError as error:
        raise ValueError(f"{PUSH_FLAG} must be OWNER/NAME as the hub allows it: {first_line(error)}") from error
    check_access_token()
    api = HfApi()
    with hub_errors(name, api.endpoint):
        try:
            api.whoami()
        except LocalTokenNotFoundError as error:
            raise ValueError(f"{PUSH_FLAG} needs an access token ({HOW_TO_LOG_IN}), got none") from error


def push_folder(folder: Path, name: str, *, is_private: bool) -> str:
    """Uploads an exported model's folder in one commit to a repository, which is made if it is missing.

    Args:
        folder: that `export_model` wrote; its configuration is uploaded with public names of paths.
        name: of the repository, OWNER/NAME.
        is_private: whether the repository must be private; else a new one is as its owner's settings say.

    Returns:
        The repository's URL.

    Raises:
        ValueError: in one line: the token has no permission to write there, the hub cannot be reached, or the
            repository is there and public though it must be private.
    """
    from huggingface_hub import HfApi

    from mtlib.checkpoints.export import EXPORTED_CONFIG_FILE, publish_config

    api = HfApi()
    try:
        with hub_errors(name, api.endpoint):
            url = api.create_repo(name, private=is_private or None, exist_ok=True)
            is_public = is_private and not api.model_info(name).private  # an older one keeps its visibility
            require(not is_public, "--private needs a repository that is new or private", f"{url}, which is public")
            with TemporaryDirectory(prefix="push-") as scratch:
                public = Path(scratch, "model")
                own = shutil.ignore_patterns(EXPORTED_CONFIG_FILE)
                shutil.copytree(folder, public, copy_function=os.symlink, ignore=own)
                publish_config(folder, public)
                # One commit, as this version of the library makes several for more than 250 files only.
                api.upload_folder(
                    repo_id=name,
                    folder_path=public,
                    commit_message="Model exported by multitask-sweeps",
                    delete_patterns=list(OLD_FILES),
                )
    except ValueError as error:
        again = f"the model is in {folder}, the same command with --overwrite pushes it"
        raise ValueError(f"{reason_of(error)}; {again}") from error
    return str(url)


@contextmanager
def hub_errors(name: str, endpoint: str) -> Iterator[None]:
    """Turns errors of requests to the hub into a ValueError of one line."""
    from huggingface_hub.errors import HfHubHTTPError

    try:
        yield
    except HfHubHTTPError as error:
        code, reason = error.response.status_code, error.server_message or first_line(error)
        rule = f"{PUSH_FLAG} needs an access token with permission to write to {name} ({HOW_TO_LOG_IN})"
        if code not in NO_PERMISSION:
            rule = f"{PUSH_FLAG} needs a hub that takes {name}"
        raise ValueError(f"{rule}, got {code} from {endpoint}: {' '.join(reason.split())}") from error
    except ValueError:
        raise
    except Exception as error:  # the type depends on the HTTP library; a thread that uploads a file wraps it
        reason = reason_of(error.__cause__ or error)
        raise ValueError(f"{PUSH_FLAG} needs a network and the hub at {endpoint}, got: {reason}") from error
