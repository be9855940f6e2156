"""Messages are plain: Tune's trials and the controllers of lanes load them, each in a process of its own."""

import subprocess
import sys

from mtlib.runtime.program_names import PROJECT_FOLDER


def test_messages_load_no_library() -> None:
    program = (
        "import sys, sweeps.driver.trials.messages; print({'ray', 'torch', 'pyarrow', 'numpy'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=PROJECT_FOLDER, check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "set()"
