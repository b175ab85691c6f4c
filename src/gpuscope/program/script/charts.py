"""The charts that a script draws by matplotlib: kept in a folder where one was named, else told of.

A script runs on a private copy of the files, which vanishes; a chart of predicted times is what it
was run for. Windows are never opened.
"""

from __future__ import annotations

import functools
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from gpuscope.document.text import Text
from gpuscope.program.capture.patches import Patches
from gpuscope.program.script.runner import when_imported

__all__ = ["Charts"]

_NAMED = 5
"""Charts that are named in the result."""


class Charts:
    """What a script draws while it runs.

    Args:
        folder: where charts are kept; "": nowhere.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._names: dict[str, str] = {}
        """Names in the folder by the paths that the script gave."""
        self._patches = Patches()

    def begin(self, stack: ExitStack) -> None:
        """Look from now on, until the stack ends."""
        os.environ.setdefault("MPLBACKEND", "Agg")
        stack.callback(self._patches.undo)
        stack.callback(when_imported("matplotlib.figure", self._follow_saving))
        stack.callback(when_imported("matplotlib.pyplot", self._follow_showing))

    def note(self) -> Text | None:
        """What a reader of the result should know; None where nothing was drawn."""
        names = list(dict.fromkeys(self._names.values()))
        if not names:
            return None
        listed = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
        if self._folder:
            return Text(
                "Charts that it drew are in {folder}: {names}.", folder=self._folder, names=listed
            )
        return Text(
            "It drew charts ({names}), which are gone with the private copy of the files. "
            "Keep them: --keep FOLDER",
            names=listed,
        )

    def _follow_saving(self) -> None:
        from matplotlib.figure import Figure

        self._patches.set(Figure, "savefig", self._saving(Figure.savefig))

    def _follow_showing(self) -> None:
        from matplotlib import pyplot

        def show(*_: Any, **__: Any) -> None:
            for number in pyplot.get_fignums():
                # Saved where all of it vanishes, and kept from there like any other.
                name = self._free(f"figure-{number}.png")
                pyplot.figure(number).savefig(os.path.join(tempfile.mkdtemp(), name))
            pyplot.close("all")

        self._patches.set(pyplot, "show", show)

    def _free(self, name: str) -> str:
        """The name, or one like it that no chart has."""
        stem, ending = os.path.splitext(name)
        number = 1
        while name in self._names.values():
            number += 1
            name = f"{stem}-{number}{ending}"
        return name

    def _saving(self, savefig: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(savefig)
        def save(figure: Any, fname: Any, *args: Any, **options: Any) -> Any:
            result = savefig(figure, fname, *args, **options)
            if isinstance(fname, (str, os.PathLike)):
                self._keep(_written(os.fspath(fname), options.get("format")))
            return result

        return save

    def _keep(self, path: str) -> None:
        full = os.path.abspath(path)
        name = self._names.setdefault(full, self._free(os.path.basename(full)))
        target = Path(self._folder, name)
        if self._folder and full != str(target):
            with suppress(OSError):
                shutil.copyfile(full, target)


def _written(path: Any, kind: str | None) -> str:
    """Where matplotlib saves a chart: it adds what a name lacks."""
    name = os.fsdecode(path)
    if os.path.splitext(name)[1]:
        return name
    import matplotlib

    return f"{name}.{kind or matplotlib.rcParams['savefig.format']}"
