"""Import one module of `transformers` without running the package's own `__init__` first.

`transformers/__init__.py` and `transformers/models/__init__.py` read every file below them to list
their names, three times in all, which takes 1.6 of the 2.6 seconds of the import; a built-in
model needs one module. Here the package exists, with its path, and its `__init__` runs when
somebody asks for a name that is not a submodule: `from transformers import ...` works as ever.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

from gpuscope.program.capture.patches import alone

__all__ = ["defer", "import_transformers"]


_HOMES = {"transformers.AddedToken": "tokenizers"}
"""Where names come from that transformers' own modules ask of the package."""


class DeferredPackage(ModuleType):
    """A package whose `__init__` has not run yet; stands in `sys.modules` until it does."""

    def __init__(self, spec: ModuleSpec) -> None:
        super().__init__(spec.name)
        self.__spec__ = spec
        self.__loader__ = spec.loader
        self.__path__ = list(spec.submodule_search_locations or ())
        self.__file__ = spec.origin
        self.__package__ = spec.name

    def __getattr__(self, name: str) -> object:
        package = self.__name__
        if sys.modules.get(package) is self:
            if name == "__version__":
                return importlib.metadata.version(package)
            if name.startswith("__"):
                raise AttributeError(name)
            if importlib.util.find_spec(f"{package}.{name}") is not None:
                return importlib.import_module(f"{package}.{name}")
            home = _HOMES.get(f"{package}.{name}")
            if home is not None and importlib.util.find_spec(home) is not None:
                return getattr(importlib.import_module(home), name)
            self._run()
        return getattr(sys.modules[package], name)

    def _run(self) -> None:
        """Load the package for good, keeping the submodules that are loaded already."""
        package = self.__name__
        del sys.modules[package]
        try:
            real = importlib.import_module(package)
        except BaseException:
            sys.modules[package] = self
            raise
        parent, _, name = package.rpartition(".")
        if parent in sys.modules:
            setattr(sys.modules[parent], name, real)


def defer(*packages: str) -> None:
    """Put off the `__init__` of these packages, parents first; those loaded already stay.

    Nothing is imported. A package that is not installed is left out.
    """
    for package in packages:
        if package in sys.modules:
            continue
        spec = importlib.util.find_spec(package)
        if spec is None or spec.submodule_search_locations is None:
            continue
        sys.modules[package] = module = DeferredPackage(spec)
        parent, _, name = package.rpartition(".")
        if parent in sys.modules:
            setattr(sys.modules[parent], name, module)


def import_transformers(module: str) -> ModuleType:
    """Import one module of transformers, e.g. "models.llama.modeling_llama", and what it needs."""
    with alone():
        return _imported(module)


def _imported(module: str) -> ModuleType:
    defer("transformers", "transformers.models")
    package = sys.modules["transformers"]
    tools = importlib.import_module("transformers.utils")
    name = "direct_transformers_import"
    original = getattr(tools, name, None)
    if original is None:
        return importlib.import_module(f"transformers.{module}")

    def direct(path: object, file: str = "__init__.py") -> ModuleType:
        """A module that would run the package's `__init__` again gets the package as it is."""
        return package

    setattr(tools, name, direct)
    try:
        return importlib.import_module(f"transformers.{module}")
    finally:
        setattr(tools, name, original)
