"""A package that is a public verb at once.

`gpuscope.measure` and `gpuscope.explain` are packages, and functions of the same name are public:
importing anything below a package sets it as an attribute of `gpuscope`, so the package itself must
answer the call.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


def make_callable(package: str, function: str) -> None:
    """Let calling a package call a function.

    Args:
        package: full name of the package, imported already.
        function: full name of what its call runs; imported when it is first called.
    """
    module, _, name = function.rpartition(".")

    class Verb(ModuleType):
        """A package that can be called."""

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            """Run the function behind the package."""
            return getattr(import_module(module), name)(*args, **kwargs)

    sys.modules[package].__class__ = Verb
