"""The one registry: things of one sort by name, one small file each, found when they are needed.

    FINDINGS = Registry[Finder](Text("finding"), "gpuscope.analysis.findings")

    FINDINGS.add("host_bound", find)      # what a decorator such as `@finding` does

A folder's files register what they hold when they are imported, which happens at the first look-up;
nothing lists them. Packages of users do the same: modules named in the environment variable
`GPUSCOPE_PLUGINS` (separated by commas) are imported before the first look-up of any registry.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Generic, TypeVar

from gpuscope.document.text import Text
from gpuscope.errors import MissingPackageError, UnknownNameError

Item = TypeVar("Item")

PLUGINS = "GPUSCOPE_PLUGINS"
"""Environment variable that names modules of users, separated by commas."""


class Registry(Generic[Item]):
    """Things of one sort by name.

    Args:
        what: the sort, one word, for errors ("finding").
        package: full name of the folder whose files register themselves.
        list_command: what to type to see all names, for the error of an unknown one.
        apart: how names begin that only files of some beginning hold, by that beginning: looking
            up another name leaves these files alone, one of theirs loads these alone.
        rooms: the files of the folder's own folders register themselves, too (`room.file`); else
            such a folder does what its `__init__` says.
    """

    def __init__(
        self,
        what: str,
        package: str,
        list_command: str = "",
        apart: Mapping[str, tuple[str, ...]] | None = None,
        rooms: bool = False,
    ) -> None:
        self.what = what
        self.package = package
        self.list_command = list_command
        self._items: dict[str, Item] = {}
        self._apart = apart or {}
        self._rooms = rooms
        self._loaded = self._most_loaded = False

    def add(self, name: str, item: Item) -> Item:
        """Register an item under its name; the item itself is returned.

        Raises:
            ValueError: another item has that name.
        """
        if self._items.setdefault(name, item) is not item:
            raise ValueError(f"two of the sort {self.what} are named {name}")
        return item

    def drop(self, name: str) -> Item | None:
        """Forget an item; it is returned, None where there was none."""
        return self._items.pop(name, None)

    def get(self, name: str) -> Item:
        """Return the item of that name.

        Raises:
            UnknownNameError: there is none.
        """
        found = self.find(name)
        if found is None:
            step = Text("Type: {command}", command=self.list_command) if self.list_command else ""
            raise UnknownNameError(self.what, name, self._items, step)
        return found

    def find(self, name: str) -> Item | None:
        """Return the item of that name; None where there is none."""
        if name not in self._items and not self._loaded:
            self._load_most()
            holders = tuple(file for file, begins in self._apart.items() if name.startswith(begins))
            for file in self._files() if holders else ():
                if file.startswith(holders):
                    importlib.import_module(f"{self.package}.{file}")
        return self._items.get(name)

    def load_namesakes(self, name: str) -> None:
        """Import only the files whose own name `name` begins with, and the users' modules.

        Where things are called after the file that holds them, a look-up by name needs no other.
        """
        if self._loaded:
            return
        for file in self._files():
            if name.startswith(file):
                importlib.import_module(f"{self.package}.{file}")
        load_plugins()

    def names(self) -> tuple[str, ...]:
        """Return all names, sorted."""
        self.load()
        return tuple(sorted(self._items))

    def __iter__(self) -> Iterator[Item]:
        """Yield all items in the order of their names."""
        return iter([self._items[name] for name in self.names()])

    @contextmanager
    def replaced(self, items: Mapping[str, Item]) -> Iterator[None]:
        """Hold these items alone, for a test; afterwards what was known before."""
        self.load()
        before, self._items = self._items, dict(items)
        try:
            yield
        finally:
            self._items = before

    def load(self) -> None:
        """Import the folder's files and the users' modules, once.

        Raises:
            MissingPackageError: a module that `GPUSCOPE_PLUGINS` names cannot be imported.
        """
        if self._loaded:
            return
        self._load_most()
        for file in self._files():
            importlib.import_module(f"{self.package}.{file}")
        self._loaded = True

    def _load_most(self) -> None:
        """Import all files but those apart, and the users' modules, once."""
        if self._most_loaded:
            return
        for file in self._files():
            if not file.startswith(tuple(self._apart)):
                importlib.import_module(f"{self.package}.{file}")
        load_plugins()
        self._most_loaded = True

    def _files(self) -> list[str]:
        """Names of the modules and folders in the package, sorted; of its rooms' modules."""
        package = importlib.import_module(self.package)
        found = []
        for module in pkgutil.iter_modules(package.__path__):
            inside = [os.path.join(path, module.name) for path in package.__path__]
            within = pkgutil.iter_modules(inside) if self._rooms and module.ispkg else ()
            found += [f"{module.name}.{file.name}" for file in within] or [module.name]
        return found


def load_plugins() -> None:
    """Import the modules that `GPUSCOPE_PLUGINS` names.

    Raises:
        MissingPackageError: one of them cannot be imported.
    """
    for name in filter(None, map(str.strip, os.environ.get(PLUGINS, "").split(","))):
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            raise MissingPackageError(
                name, Text("{variable}={name}", variable=PLUGINS, name=name), None
            ) from error
