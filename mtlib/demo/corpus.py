"""The built-in demonstration: a small corpus of the three tasks and a tiny encoder, which `demo.zip` holds.

The texts were made up by a program from a few hundred words: reviews whose words have a tone, questions that are
reworded, and headlines that share parts. No text of train is in dev or test. The encoder is a BERT of three layers that
was never trained, with embeddings that are near for words of a kind. It all shows that everything works, and nothing
about real text.
"""

import hashlib
import shutil
import tempfile
from pathlib import Path

ARCHIVE = Path(__file__).with_name("demo.zip")


def demo_folder(cache_folder: Path) -> tuple[Path, Path]:
    """Returns absolute folders of the demonstration's corpus and encoder, written once and reused.

    They are kept in `cache_folder` under a name with a hash of their content.
    """
    folder = cache_folder.absolute() / f"demo-{hashlib.sha256(ARCHIVE.read_bytes()).hexdigest()[:12]}"
    if not folder.exists():
        cache_folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache_folder, prefix=".demo-") as made:
            write_demo(Path(made) / "whole")
            move_unless_there(Path(made) / "whole", folder)
    return folder / "data", folder / "encoder"


def write_demo(folder: Path) -> None:
    """Writes the folders `data` and `encoder` into a folder, which is made if it is missing."""
    shutil.unpack_archive(ARCHIVE, folder)


def move_unless_there(made: Path, folder: Path) -> None:
    """Renames a folder unless another process was first."""
    try:
        made.rename(folder)
    except OSError:
        if not folder.exists():
            raise
