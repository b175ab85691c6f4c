"""The findings, one file each: a file in this folder registers itself with `@finding`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable

from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.trust import allowed
from gpuscope.analysis.types import FINDING_KINDS, Finding

Finder = Callable[[Facts], Finding | None]

_FINDERS: dict[str, Finder] = {}
_SUPPORT = frozenset({"facts", "named", "registry"})


def finding(find: Finder) -> Finder:
    """Register a function that looks at the facts and returns a finding, or None.

    Raises:
        ValueError: another finding of the same module and function name is registered.
    """
    name = f"{find.__module__}.{find.__qualname__}"
    if name in _FINDERS:
        raise ValueError(f"The finding {name} is registered twice.")
    _FINDERS[name] = find
    return find


def finders() -> tuple[Finder, ...]:
    """Return every registered finder; imports the files of this folder on first use."""
    package = importlib.import_module("gpuscope.analysis.findings")
    for module in pkgutil.iter_modules(package.__path__):
        if module.name not in _SUPPORT:
            importlib.import_module(f"{package.__name__}.{module.name}")
    return tuple(_FINDERS[name] for name in sorted(_FINDERS))


def findings(facts: Facts) -> tuple[Finding, ...]:
    """Return what applies, largest gain first.

    What makes the run impossible (it does not fit) comes before everything, then that a recording
    cannot be trusted; of equal gains the order is that of `FINDING_KINDS`; findings without a gain
    come last. A finding that rests on what the recording cannot tell is not given.

    Raises:
        ValueError: a finder returned a kind that is not in `FINDING_KINDS`.
    """
    found = [result for find in finders() if (result := find(facts)) is not None]
    found = [result for result in found if allowed(facts.trust, result.kind)]
    for result in found:
        if result.kind not in FINDING_KINDS:
            raise ValueError(f"'{result.kind}' is not a kind of finding.")
    return tuple(sorted(found, key=_order))


_FIRST = ("does_not_fit", "untrusted_trace")


def _order(result: Finding) -> tuple[int, float, int]:
    gain = result.max_gain_s or 0.0
    first = _FIRST.index(result.kind) if result.kind in _FIRST else len(_FIRST)
    return first, -gain, FINDING_KINDS.index(result.kind)
