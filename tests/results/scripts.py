"""Commands in processes of their own, which tell what they have loaded."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("ray", "torch", "transformers", "optuna")


def run_script(script: str, words: Sequence[str], folder: Path) -> str:
    """What `python <script> <words>`, started in some folder, prints; it loads nothing heavy and says nothing else.

    It is run as users do, then by a program that looks at what it has loaded.
    """
    path = str(ROOT / script)
    code = (
        f"import runpy, sys; sys.argv[1:] = {list(words)!r}\n"
        f"try: runpy.run_path({path!r}, run_name='__main__')\n"
        f"except SystemExit as end: print(end.code, sorted({{*{HEAVY!r}}} & {{*sys.modules}}))"
    )
    by_user, looked_at = (run(command, folder) for command in ([path, *words], ["-c", code]))
    assert by_user.stderr == looked_at.stderr == ""
    assert looked_at.stdout == f"{by_user.stdout}0 []\n"
    return by_user.stdout


def run_main(module: str, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Runs a module's `main`, which loads no Ray."""
    code = (
        f"import sys; from {module} import main\n"
        f"assert main({list(words)!r}) == 0\n"
        "assert not {'ray', 'optuna'} & set(sys.modules)"
    )
    return run(["-c", code], ROOT)


def run(words: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a Python process, which must end with code 0."""
    command = [sys.executable, *words]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done
