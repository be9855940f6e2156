"""Functions that a table names as `module:function`, so that the table loads without their modules, such as torch."""

import importlib
from collections.abc import Callable
from functools import cache
from typing import Any


@cache
def load_function(place: str) -> Callable[..., Any]:
    """The function at `module:function`, whose module is imported at the first call."""
    module, _, name = place.partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return function
