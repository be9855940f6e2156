"""Functions of tables: as they are, or as `module:function`, so that a table loads without their modules, as torch."""

import importlib
import sys
from collections.abc import Callable
from typing import Any

from mtlib.runtime.method_file import MODULE_PREFIX

Function = str | Callable[..., Any]
"""A function, or `module:function`, where it is."""


def load_function(function: Function) -> Callable[..., Any]:
    """Returns the function; its module is imported at the first call."""
    if not isinstance(function, str):
        return function
    module, _, name = function.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found


def name_of(function: Function) -> str:
    """`module:function`, for messages; of a function of a user's own `file.py:function`."""
    if isinstance(function, str):
        return function
    file = sys.modules[function.__module__].__file__ if is_users_own(function) else function.__module__
    return f"{file}:{function.__qualname__}"


def is_users_own(function: Function) -> bool:
    """Returns whether a function is of a user's own file."""
    return not isinstance(function, str) and function.__module__.startswith(MODULE_PREFIX)
