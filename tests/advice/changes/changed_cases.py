"""Cases for the tests of changes: a build captured with changes at work, and predicted."""

import importlib.util
import itertools
from collections.abc import Callable
from pathlib import Path

from sharing import Shared

from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.registry import plan
from gpuscope.advice.types import ChangeCase
from gpuscope.api import predict, resolve_target
from gpuscope.capturing import capture

_numbers = itertools.count()

_SHARED = Shared()


def loaded(path: Path) -> Callable:
    """The build of a file, which is imported anew."""
    spec = importlib.util.spec_from_file_location(f"loaded{next(_numbers)}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.build


def case_of_file(path: Path) -> ChangeCase:
    """The build of a file as it is, with where things stand in it."""
    return case_of(loaded(path), file=str(path))


def case_of(build: Callable, *names: str, on: str = "h200", file: str = "") -> ChangeCase:
    """A build on a device, changed; of equal builds that are no file's it is the same.

    Args:
        file: that the build is a function of, where that matters.
    """
    if file:
        return _made(build, names, on, file)
    return _SHARED.of(build, (names, on), lambda: _made(build, names, on))


def _made(build: Callable, names: tuple[str, ...], on: str, file: str = "") -> ChangeCase:
    live = Live(plan(names))
    try:
        program = capture(live.wrap(build))
        seen = live.seen(file, "build") if file else live.seen()
    finally:
        live.close()
    return ChangeCase(predict(program, on), resolve_target(on), program, seen)
