"""How much Python a step runs: function calls of the user's code and of the libraries it uses.

A profile function counts calls while user code runs and is switched off inside the recorder, so
that the capture's own work does not count; nor does what `nn.Module` does only because the capture
has hooks on it. What Python does once a process does not count either, such as importing a module
where it is first needed: the first capture counts what the next one does. Three measures
of the host's work between operators come out:

- `calls`: of Python functions, and of C functions from Python (`Op.python_calls`);
- `instructions`: bytecode instructions of the Python functions called, each function taken to run
  once from its first to its last (`Op.python_instructions`), a generator that goes on `RESUMED`.
  Branches not taken count too much, loops too little; counting executed instructions would make
  the capture many times slower;
- `distributed`: calls of functions of `torch.distributed` among them (`Op.distributed`).

Model libraries have long functions between few operators (options, caches, checks), bare modules
short ones, which is why calls alone do not tell them apart.
"""

from __future__ import annotations

import dis
import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any

_OURS = (
    "gpuscope/program/capture",
    "torch/_subclasses",
    "torch/utils/_python_dispatch",
    "torch/_library/",
    "torch/_functorch/",
    "torch/compiler/__init__",
)

_ONLY_WITH_HOOKS = "Module._call_impl.<locals>.inner"
"""Part of a module's call that runs only where there are hooks, as the capture's own."""

_BY_THE_INTERPRETER = (
    ("weakref.py", "WeakValueDictionary.__init__.<locals>.remove"),
    ("weakref.py", "WeakKeyDictionary.__init__.<locals>.remove"),
    ("_weakrefset.py", "WeakSet.__init__.<locals>._remove"),
    ("torch/utils/weak.py", "WeakIdKeyDictionary.__init__.<locals>.remove"),
)
"""Called when an object dies, not by the step's code: above all for what fake tensors remember of
each other, which the first capture of a process does more often than later ones."""

_BY_THE_CAPTURE = (("torch/_ops.py", "OpOverload.__call__"),)
"""How the capture calls an operator that C++ calls: hardly any step does so from Python."""

_ONCE_A_PROCESS = (
    ("logging/__init__.py", "Logger.getEffectiveLevel"),
    ("logging/__init__.py", "Manager.disable"),
    ("logging/__init__.py", "_acquireLock"),
    ("logging/__init__.py", "_releaseLock"),
)
"""A logger looks its level up once and keeps it."""

_IMPORTING = ("<frozen importlib._bootstrap>", "_find_and_load")
"""Called only for a module that is not there yet."""

_NOT_COUNTED, _ONCE = -1, -2
_DISTRIBUTED = 1 << 32
"""Added to the length of a function of `torch.distributed`."""

RESUMED = 9
"""Instructions that going on in a generator counts as: to the next `yield`, not the whole function.
Walking a model's parameters, buffers or modules took 49 to 55 ns a call of a function or of a
generator that goes on, where a loop's iteration took 27; an instruction between operators takes
7.7 ns where one takes 37 (`measurement/calibrate/host_terms.py`)."""


_GENERATES = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_STOPS = ("YIELD_VALUE", "SEND")


def instructions_of(code: CodeType) -> int:
    """Bytecode instructions of a function, inline caches left out."""
    units = code.co_code[::2]
    return len(units) - units.count(0)


class PythonWork:
    """Counts Python and C calls while `on`.

    Attributes:
        calls: of Python functions, and of C functions from Python.
        instructions: of the Python functions called.
        distributed: calls of functions of `torch.distributed`.
    """

    def __init__(self) -> None:
        self.calls = 0
        self.instructions = 0
        self.distributed = 0
        self._on = False
        self._whole = False
        self._before: Any = None
        self._importing: Any = None
        self._known: dict[Any, int] = {}
        self._other: dict[Any, int] = {}
        self._yields: dict[Any, int] = {}

    def start(self) -> None:
        """Begin to count."""
        if not self._on:
            self._before = sys.getprofile()
        self._on = True
        sys.setprofile(self._event)

    def stop(self) -> None:
        """Stop counting; a profiler that ran before goes on."""
        if self._on:
            sys.setprofile(self._before if callable(self._before) else None)
            # Python 3.11's cProfile shows itself as what profiles, but is no function.
            if hasattr(self._before, "enable"):
                self._before.enable()
        self._on = False
        self._before = None

    def pause(self) -> None:
        """Do not count until `resume` (the recorder works)."""
        if self._on:
            sys.setprofile(None)

    def resume(self) -> None:
        """Count again, if counting was on."""
        if self._on:
            sys.setprofile(self._event)

    @contextmanager
    def left_out(self) -> Iterator[None]:
        """What runs inside of the block is another process's work on a real machine."""
        before = self.calls, self.instructions
        try:
            yield
        finally:
            self.calls, self.instructions = before

    @contextmanager
    def counting_failures(self, kind: type[Exception]) -> Iterator[None]:
        """Count what is done inside of the block only if it ends with an error of that kind.

        What torch does with fakes counts as well there: a real run does it, too.
        """
        if self._whole:  # what is around decides
            yield
            return
        before = self.calls, self.instructions
        self._whole, self._known, self._other = True, self._other, self._known
        counts = False
        try:
            yield
        except kind:
            counts = True
            raise
        finally:
            self._whole, self._known, self._other = False, self._other, self._known
            if not counts:
                self.calls, self.instructions = before

    def _event(self, frame: Any, event: str, arg: Any) -> None:
        if event == "call":
            code = frame.f_code
            length = self._known.get(code)
            if length is None:
                length = self._known[code] = self._length(frame)
            if length >= _DISTRIBUTED:
                self.distributed += 1
                length -= _DISTRIBUTED
            if length >= 0:
                self.calls += 1
                begun = code.co_flags & _GENERATES and frame.f_lasti >= self._first_yield(code)
                self.instructions += RESUMED if begun else length
            elif length == _ONCE and self._importing is None:
                self._importing = frame, self.calls, self.instructions
        elif event == "c_call":
            length = self._known.get(frame.f_code)
            if length is None:
                length = self._known[frame.f_code] = self._length(frame)
            if length >= 0:
                self.calls += 1
        elif event == "return" and self._importing is not None and frame is self._importing[0]:
            _, self.calls, self.instructions = self._importing
            self._importing = None

    def _first_yield(self, code: CodeType) -> int:
        """Where a generator may first have stopped: it has begun if it stands there or later."""
        found = self._yields.get(code)
        if found is None:
            stops = (i.offset for i in dis.get_instructions(code) if i.opname in _STOPS)
            found = self._yields[code] = next(stops, len(code.co_code))
        return found

    def _length(self, frame: Any) -> int:
        """Instructions of the frame's function; `_NOT_COUNTED` for the capture's own work, `_ONCE`
        where an import begins."""
        code = frame.f_code
        if (code.co_filename, code.co_qualname) == _IMPORTING:
            return _ONCE
        ours = _OURS[:1] if self._whole else _OURS
        if code.co_qualname == _ONLY_WITH_HOOKS or any(p in code.co_filename for p in ours):
            return _NOT_COUNTED
        for file, name in (*_BY_THE_INTERPRETER, *_BY_THE_CAPTURE, *_ONCE_A_PROCESS):
            if code.co_qualname == name and code.co_filename.replace("\\", "/").endswith(file):
                return _NOT_COUNTED
        file = code.co_filename.replace("\\", "/")
        apart = _DISTRIBUTED if "torch/distributed/" in file else 0
        return instructions_of(code) + apart
