"""Variables that Ray reads in the driver."""

import os
import subprocess
import sys

import pytest

from mtlib.runtime.program_names import PROJECT_FOLDER
from sweeps.cluster.ray_settings import DRIVER_VARIABLES, set_driver_variables


def test_variables_are_set_unless_the_user_has_set_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in DRIVER_VARIABLES:
        monkeypatch.setenv(name, "theirs")  # restored after the test
        monkeypatch.delenv(name)
    monkeypatch.setenv("RAY_AIR_NEW_OUTPUT", "theirs")
    set_driver_variables()
    assert {name: os.environ[name] for name in DRIVER_VARIABLES} == {**DRIVER_VARIABLES, "RAY_AIR_NEW_OUTPUT": "theirs"}


def test_ray_is_not_imported_before_they_are_set() -> None:
    program = "import sys, sweeps.cluster.ray_settings; assert 'ray' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], cwd=PROJECT_FOLDER, check=True)


def test_ray_can_be_imported_without_a_home() -> None:
    program = """
import os, pwd
def unknown(user): raise KeyError(user)
pwd.getpwuid = unknown
from sweeps.cluster.ray_settings import set_driver_variables
set_driver_variables()
import ray.train
"""
    kept = {name: value for name, value in os.environ.items() if name != "HOME"}
    subprocess.run([sys.executable, "-c", program], cwd=PROJECT_FOLDER, env=kept, check=True)
