"""Environment variables that Ray reads, some of them when it is imported: nothing here imports it."""

import os
import sys

LOOPBACK_VARIABLE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""With 0 a Ray is for one machine and listens on its loopback address alone, as it does on macOS and Windows anyway."""
DRIVER_VARIABLES = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # the trials write their own records
    "TUNE_GLOBAL_CHECKPOINT_S": "1000000",  # Tune's snapshots of the experiment are not used
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    "TUNE_MAX_PENDING_TRIALS_PG": "1000",  # the searcher says how many trials may run
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_TRAIN_ENABLE_STATE_TRACKING": "1",  # the runs of lanes in Ray's dashboard
    "RAY_CHDIR_TO_TRIAL_DIR": "0",  # relative paths keep their meaning
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".*",  # Ray's own messages stay in its logs: the sweep says what happened
}
"""Environment variables that Ray reads in the driver. A Ray that no longer knows one ignores it without an error."""

WORKER_VARIABLES = {
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.5",  # how soon a controller notices a dead worker, or the end of a run
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "1000000",  # on a busy cluster a lane waits for resources
    "TORCH_PROCESS_GROUP_SHUTDOWN_TIMEOUT_S": "2",  # 30 by default; a worker stuck in a collective is killed anyway
    "TOKENIZERS_PARALLELISM": "false",
}
"""Environment variables that Ray Train and libraries read in the workers and controllers of lanes."""
LOCAL_VARIABLES = {
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",  # a process per lane, which asks whether nodes are about to go
}
"""Environment variables that Ray Train reads in the controllers of lanes on the Ray of this machine alone."""


def set_driver_variables() -> None:
    """Sets the driver's variables, before Ray is imported; those that the user has set stay."""
    for name, value in DRIVER_VARIABLES.items():
        os.environ.setdefault(name, value)
    if os.path.expanduser("~") == "~":  # noqa: PTH111 - neither HOME nor passwd has one, which Ray needs
        os.environ["HOME"] = "/"  # as Docker does


def stay_on_loopback() -> None:
    """Lets a Ray that this process starts listen on the loopback address alone, unless the user has set the variable.

    Nothing happens if Ray has been imported, which has read it. The process cannot use a cluster afterwards.
    """
    if "ray" not in sys.modules:
        os.environ.setdefault(LOOPBACK_VARIABLE, "0")
