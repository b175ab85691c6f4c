"""Replace names for the time of a capture, in its own thread alone, and put every one back.

PyTorch's modes hold for one thread; a name, a hook or a kernel holds for the whole process. So what
is put in a name's place asks which thread calls: one that belongs to the capture gets the
replacement, every other one (a training loop, a server's handlers) what was there before. One
capture runs at a time; other threads that want one wait.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import update_wrapper
from threading import get_ident
from types import ModuleType
from typing import Any, ClassVar

from gpuscope.document.text import Text
from gpuscope.errors import WorkloadError

__all__ = [
    "Patches",
    "alone",
    "by_thread",
    "here",
    "in_threads",
    "join",
    "of_capture",
    "patches",
    "quiet",
]

_MISSING = object()
_inside: set[int] = set()
_entered: list[Callable[[], AbstractContextManager[object]]] = []
_lock = threading.RLock()
_owner: list[int] = []


_HEAD_START_S = 0.1
"""How long a thread may run before the one that started it goes on: so that short ones are recorded
in the order in which they were started."""


def here() -> bool:
    """Whether the calling thread belongs to the capture that runs, if one does."""
    return get_ident() in _inside


@contextmanager
def alone() -> Iterator[None]:
    """One thread of the process at a time is inside of such a block; the others wait.

    The thread that is inside may enter again.

    Raises:
        WorkloadError: this thread was started by code that is being captured, which may wait for
            it: it would wait for itself.
    """
    if here() and get_ident() not in _owner:
        raise _nested()
    with _lock:
        _owner.append(get_ident())
        try:
            yield
        finally:
            _owner.pop()


def _nested() -> WorkloadError:
    return WorkloadError(
        Text("Code that is being predicted asks for a prediction itself."),
        Text("build() and its step run with parts of PyTorch replaced, one prediction at a time."),
        Text("Take it out of build() and the step: predict before or after."),
    )


def join(patch: Patches) -> None:
    """From now on this thread, and those that it starts, belong to the capture of `patch`.

    Raises:
        WorkloadError: it belongs to one already.
    """
    if here():
        raise _nested()
    start = threading.Thread.start

    def joining(thread: threading.Thread) -> None:
        run = thread.run

        def joined() -> None:
            del thread.__dict__["run"]  # it holds the thread, and is held by it
            _inside.add(get_ident())
            try:
                with ExitStack() as stack:
                    for enter in _entered:
                        stack.enter_context(enter())
                    run()
            finally:
                _inside.discard(get_ident())

        thread.run = joined  # type: ignore[method-assign]
        start(thread)
        thread.join(_HEAD_START_S)

    _inside.add(get_ident())
    patch.on_undo(_inside.clear)
    patch.on_undo(_entered.clear)
    patch.set(threading.Thread, "start", joining)


def in_threads(enter: Callable[[], AbstractContextManager[object]]) -> None:
    """Every thread that the capture's threads start from now on runs inside of such a block."""
    _entered.append(enter)


def by_thread(value: Callable[..., Any], other: Callable[..., Any]) -> Callable[..., Any]:
    """A function that calls `value` in a capture's threads, and `other` in all others."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if get_ident() in _inside:
            return value(*args, **kwargs)
        return other(*args, **kwargs)

    names = ("__module__", "__name__", "__qualname__")
    return update_wrapper(call, value, names, () if isinstance(value, type) else ("__dict__",))


def of_capture(hook: Callable[..., Any]) -> Callable[..., Any]:
    """A hook that is set from inside of a capture, for its threads alone; any other as it is."""
    return by_thread(hook, lambda *args, **kwargs: None) if here() else hook


class Patches:
    """A list of replacements, undone in reverse order."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def set(self, owner: Any, name: str, value: Any, *, only_if_present: bool = False) -> None:
        """Replace `owner.name` for the capture's threads; remember whether and what it was.

        Functions, methods and properties, and classes that stand in a module. With
        `only_if_present` a name that this torch version lacks is left alone.
        """
        if not hasattr(owner, name):
            if not only_if_present:
                self.everywhere(owner, name, value)  # other threads cannot know it
            return
        if isinstance(owner, ModuleType) and isinstance(getattr(owner, name), type):
            self._undo.append(lambda: _View.let_go(owner, name))
            _View.of(owner)[name] = value
        else:
            self.everywhere(owner, name, _replacement(owner, name, value))

    def everywhere(self, owner: Any, name: str, value: Any) -> None:
        """Replace `owner.name` for all threads: what asks for the thread itself, or does no harm
        to others."""
        original = vars(owner).get(name, _MISSING)

        def undo() -> None:
            if original is not _MISSING:
                setattr(owner, name, original)
            elif name in vars(owner):
                delattr(owner, name)

        self._undo.append(undo)
        setattr(owner, name, value)

    def set_item(self, owner: MutableMapping[Any, Any], key: Any, value: Any) -> None:
        """Replace `owner[key]`, which is there already, for all threads."""
        original = owner[key]
        self._undo.append(lambda: owner.__setitem__(key, original))
        owner[key] = value

    def environment(self, variables: Mapping[str, str]) -> None:
        """Environment variables that Python code of the capture's threads sees and may change."""
        kind: Any = type(os.environ)
        read, write, remove, names = (
            kind.__getitem__,
            kind.__setitem__,
            kind.__delitem__,
            kind.__iter__,
        )
        own: dict[str, str | None] = dict(variables)

        def own_read(env: Any, name: str) -> str:
            if env is not os.environ or name not in own:
                return str(read(env, name))
            value = own[name]
            if value is None:
                raise KeyError(name)
            return value

        def own_write(env: Any, name: str, value: str) -> None:
            if env is os.environ and name in own:
                own[name] = value
            else:
                write(env, name, value)

        def own_remove(env: Any, name: str) -> None:
            if env is os.environ and own.get(name) is not None:
                own[name] = None
            else:
                remove(env, name)

        def own_names(env: Any) -> Iterator[str]:
            found = dict.fromkeys(names(env))
            if env is os.environ:
                found = {n: None for n in (*found, *own) if n not in own or own[n] is not None}
            return iter(found)

        self.set(kind, "__getitem__", own_read)
        self.set(kind, "__setitem__", own_write)
        self.set(kind, "__delitem__", own_remove)
        self.set(kind, "__iter__", own_names)
        self.set(kind, "__len__", lambda env: sum(1 for _ in kind.__iter__(env)))

    def on_undo(self, call: Callable[[], None]) -> None:
        """Something else to be done when all is put back; it may be done twice."""
        self._undo.append(call)

    def undo(self) -> None:
        """Put everything back, whatever is raised meanwhile; an interrupt waits until it is done.

        Raises:
            BaseException: the first that was raised, at the end.
        """
        try:
            with _interrupts_later():
                self._undo_all()
        finally:
            self._undo_all()  # what is left where an interrupt came before it could be put off

    def _undo_all(self) -> None:
        raised: BaseException | None = None
        while self._undo:
            try:
                self._undo[-1]()  # a step that is broken off is done again
                self._undo.pop()
            except Exception as error:
                self._undo.pop()
                raised = raised or error
            except BaseException as error:
                raised = error
        if raised is not None:
            raise raised


@contextmanager
def _interrupts_later() -> Iterator[None]:
    """An interrupt (Ctrl-C) inside of the block takes effect at its end."""
    if threading.current_thread() is not threading.main_thread():  # others hear of none
        yield
        return
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came and callable(before):
            before(came[0], None)


def _replacement(owner: Any, name: str, value: Any) -> Any:
    """What stands in the place of a function, a method or a property, by its kind."""
    raw = _raw(owner, name)
    if isinstance(value, property):
        return _property(raw, value)
    if isinstance(raw, classmethod):
        made = value.__func__ if isinstance(value, classmethod) else value
        return classmethod(by_thread(made, raw.__func__))
    other = getattr(owner, name)
    if isinstance(value, staticmethod):
        return staticmethod(by_thread(value.__func__, other))
    made = by_thread(value, other)
    return staticmethod(made) if isinstance(raw, staticmethod) else made


def _raw(owner: Any, name: str) -> Any:
    """What a class, or one that it is derived from, has under a name; None for other owners."""
    for kind in owner.__mro__ if isinstance(owner, type) else ():
        if name in vars(kind):
            return vars(kind)[name]
    return None


def _property(raw: Any, value: property) -> property:
    def set_other(self: Any, given: Any) -> None:
        raw.__set__(self, given)

    def refused(self: Any, given: Any) -> None:
        raise AttributeError("this attribute cannot be set")

    assert value.fget is not None
    return property(
        by_thread(value.fget, lambda self: raw.__get__(self, type(self))),
        by_thread(value.fset or refused, set_other),
    )


class _View(dict[str, Any]):
    """What a module shows a capture's threads in the place of its classes.

    A function in a class's place would be no class (`isinstance`, annotations), so here the module
    itself answers: it is of a class, for a while, that has these names as properties.
    """

    _open: ClassVar[dict[str, _View]] = {}

    def __init__(self, module: ModuleType) -> None:
        super().__init__()
        self.module, self.plain = module, type(module)

    @classmethod
    def of(cls, module: ModuleType) -> _View:
        """The view of a module, opened if there is none."""
        view = cls._open.get(module.__name__)
        if view is None:
            view = cls._open[module.__name__] = cls(module)
            module.__class__ = type("module", (view.plain,), {})
        return view

    @classmethod
    def let_go(cls, module: ModuleType, name: str) -> None:
        """Show what the module has under a name; once nothing else is shown, it is as it was."""
        view = cls._open.get(module.__name__)
        if view is None:
            return
        view.pop(name, None)
        if not view:
            module.__class__ = view.plain
            cls._open.pop(module.__name__, None)

    def __setitem__(self, name: str, value: Any) -> None:
        names = vars(self.module)

        def get(module: ModuleType) -> Any:
            return self.get(name, names[name]) if get_ident() in _inside else names[name]

        def change(module: ModuleType, given: Any) -> None:
            (self if get_ident() in _inside and name in self else names)[name] = given

        super().__setitem__(name, value)
        if name not in vars(type(self.module)):
            setattr(type(self.module), name, property(get, change))


@contextmanager
def patches() -> Iterator[Patches]:
    """A `Patches` that undoes itself at the end of the block."""
    active = Patches()
    try:
        yield active
    finally:
        active.undo()


@contextmanager
def quiet(*messages: str) -> Iterator[None]:
    """Warnings that begin with one of these regular expressions are not shown inside the block.

    `warnings.catch_warnings` puts back the whole list of filters, and with it what other threads
    have changed since, for good; here only these entries come and go.
    """
    entries = [("ignore", re.compile(text, re.IGNORECASE), Warning, None, 0) for text in messages]
    began: list[Any] = warnings.filters  # type: ignore[assignment]

    def take_out() -> None:
        now: list[Any] = warnings.filters  # type: ignore[assignment]
        for filters in (began, now):
            filters[:] = [held for held in filters if not any(held is one for one in entries)]
        _filters_changed()

    with patches() as patch:
        patch.on_undo(take_out)
        began[:0] = entries
        _filters_changed()
        yield


def _filters_changed() -> None:
    """Tell the interpreter, which keeps what it has decided by the filters."""
    getattr(warnings, "_filters_mutated", lambda: None)()
