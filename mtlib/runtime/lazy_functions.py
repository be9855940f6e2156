"""Functions of tables: as they are, or as `module:function`, so that a table loads without their modules, as torch."""

import importlib
from collections.abc import Callable
from functools import cache
from typing import Any

Function = str | Callable[..., Any]
"""A function, or `module:function`, where it is."""


def load_function(function: Function) -> Callable[..., Any]:
    """Returns the function; its module is imported at the first call."""
    return imported(function) if isinstance(function, str) else function


@cache
def imported(place: str) -> Callable[..., Any]:
    """Returns the function at `module:function`."""
    module, _, name = place.partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return function


def name_of(function: Function) -> str:
    """`module:function`, for messages."""
    return function if isinstance(function, str) else f"{function.__module__}:{function.__qualname__}"
