"""Follows one simulated thread through its source, line by line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from gpuscope.kernel_lens.loops import LoopMap, loops_of

_OWN = str(Path(__file__).resolve().parent)
_BELOW = tuple({str(Path(sys.prefix) / "lib"), str(Path(sys.base_prefix) / "lib"), _OWN, "<"})
"""Files that are not the user's: the interpreter's library, installed packages, ourselves."""


class Sources:
    """Which functions are the user's, and their loops; shared by all threads of a run."""

    def __init__(self) -> None:
        self._loops: dict[CodeType, LoopMap | None] = {}

    def loops(self, code: CodeType) -> LoopMap | None:
        """The loops of a function of the user; None for any other function."""
        if code not in self._loops:
            self._loops[code] = loops_of(code) if is_users(code.co_filename) else None
        return self._loops[code]


def is_users(file: str) -> bool:
    """Whether a file is the user's own, not a library's."""
    return not file.startswith(_BELOW) and "site-packages" not in file


class Keys:
    """Numbers for visits: the same for all threads of a block that are at the same point.

    Attributes:
        numbers: of each visit.
        places: of each visit by number, which line of `known` it is.
        known: files and lines.
    """

    def __init__(self) -> None:
        self.numbers: dict[tuple[Any, ...], int] = {}
        self.places: list[int] = []
        self.known: list[tuple[str, int]] = []
        self._place_of: dict[tuple[str, int], int] = {}

    def number(self, key: tuple[Any, ...], file: str, line: int) -> int:
        """The number of a visit, new or known."""
        found = self.numbers.get(key)
        if found is None:
            found = self.numbers[key] = len(self.places)
            place = self._place_of.setdefault((file, line), len(self.known))
            if place == len(self.known):
                self.known.append((file, line))
            self.places.append(place)
        return found


class _Call:
    """One running function of the user: where it is."""

    __slots__ = ("counts", "file", "key", "line", "loops", "parent")

    def __init__(self, parent: tuple[Any, ...], code: CodeType, loops: LoopMap) -> None:
        self.parent = parent
        self.file = code.co_filename
        self.loops = loops
        self.counts: dict[int, int] = {}
        self.line = code.co_firstlineno
        self.key = -1


class Walk:
    """One thread's way through the user's functions.

    Args:
        sources: whose functions are followed.
        keys: the block's visits.
        on_visit: called with the number of each visit, once for each.
        on_function: called with the code of each function entered.
    """

    def __init__(
        self,
        sources: Sources,
        keys: Keys,
        on_visit: Callable[[int], None],
        on_function: Callable[[CodeType], None],
    ) -> None:
        self.sources = sources
        self.keys = keys
        self.on_visit = on_visit
        self.on_function = on_function
        self.calls: list[_Call] = []
        self.visited: set[int] = set()
        self.times: dict[tuple[Any, ...], int] = {}

    @property
    def here(self) -> tuple[str, int, int] | None:
        """File, line and number of the visit; None outside the user's code."""
        if not self.calls:
            return None
        call = self.calls[-1]
        return call.file, call.line, call.key

    def again(self, what: tuple[Any, ...]) -> int:
        """How often this was asked before, by this thread."""
        n = self.times.get(what, 0)
        self.times[what] = n + 1
        return n

    def enter(self, frame: FrameType, event: str, arg: object) -> Any:
        """The trace function of the thread (see `sys.settrace`)."""
        loops = self.sources.loops(frame.f_code)
        if loops is None:
            return None
        caller = self.calls[-1].key if self.calls else -1
        parent = (caller, frame.f_code, self.again((caller, frame.f_code)))
        self.calls.append(_Call(parent, frame.f_code, loops))
        self.on_function(frame.f_code)
        return self._step

    def _step(self, frame: FrameType, event: str, arg: object) -> Any:
        if event == "line":
            self._visit(self.calls[-1], frame.f_lineno)
        elif event == "return":
            self.calls.pop()
        return self._step

    def _visit(self, call: _Call, line: int) -> None:
        call.line = line
        loops, counts = call.loops, call.counts
        inner = loops.inside.get(line)
        if inner is not None:
            counts[line] = counts.get(line, 0) + 1
            for loop in inner:
                counts.pop(loop, None)
        iteration = tuple([counts.get(loop, 0) for loop in loops.around.get(line, ())])
        call.key = self.keys.number((call.parent, line, iteration), call.file, line)
        if call.key not in self.visited:
            self.visited.add(call.key)
            self.on_visit(call.key)
