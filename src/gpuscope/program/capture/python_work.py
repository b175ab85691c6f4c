"""How much Python a step runs: function calls of the user's code and of the libraries it uses.

A profile function counts calls while user code runs and is switched off inside the recorder, so
that the capture's own work does not count. The count is a measure of the host's work between
operators (`Op.python_calls`): a call and the bytecode around it cost about the same everywhere on
one host (`host.python_call_s`).
"""

from __future__ import annotations

import sys
from typing import Any

_OURS = (
    "gpuscope/program/capture", "torch/_subclasses", "torch/utils/_python_dispatch",
    "torch/_library/", "torch/_functorch/",
)  # fmt: skip


class PythonWork:
    """Counts Python and C calls while `on`."""

    def __init__(self) -> None:
        self.calls = 0
        self._on = False
        self._mine: dict[Any, bool] = {}

    def start(self) -> None:
        """Begin to count."""
        self._on = True
        sys.setprofile(self._event)

    def stop(self) -> None:
        """Stop counting."""
        sys.setprofile(None)
        self._on = False

    def pause(self) -> None:
        """Do not count until `resume` (the recorder works)."""
        if self._on:
            sys.setprofile(None)

    def resume(self) -> None:
        """Count again, if counting was on."""
        if self._on:
            sys.setprofile(self._event)

    def _event(self, frame: Any, event: str, arg: Any) -> None:
        if event == "call" or event == "c_call":
            code = frame.f_code
            mine = self._mine.get(code)
            if mine is None:
                name = code.co_filename
                mine = self._mine[code] = any(part in name for part in _OURS)
            if not mine:
                self.calls += 1
