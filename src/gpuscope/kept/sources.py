"""The files that a capture was made from: every module that it imported, as it is on the disk."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

__all__ = ["as_they_are", "unchanged"]

Sources = list[tuple[str, int, int, int]]
"""Path, bytes, and when content and entry were changed last (ns)."""

_COARSE_NS = 2_000_000_000
"""File systems that know whole seconds alone know every other one of them."""

_FINE_NS = 100_000_000


def as_they_are(began_ns: int) -> Sources | None:
    """Return the files of all imported modules; None where one may not be what was imported.

    Args:
        began_ns: when this process had imported none of them: what was changed since then may
            have been read before or after.
    """
    own = os.path.dirname(os.path.dirname(__file__)) + os.sep  # the question has them
    found: dict[str, tuple[str, int, int, int]] = {}
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        # Torch has modules of no file with a name that is no path.
        if not isinstance(path, str) or not os.path.isabs(path) or path.startswith(own):
            continue
        if path in found:
            continue
        about = _about(path)
        if about is None or _too_young(max(about[2:]), began_ns):
            return None
        found[path] = about
    return list(found.values())


def unchanged(
    sources: Sequence[Any], seen: dict[str, tuple[str, int, int, int]] | None = None
) -> bool:
    """Whether files are as they were; raises what broken data raises.

    Args:
        sources: as `as_they_are` gave them.
        seen: files that were looked at in this process already, which is added to.
    """
    seen = {} if seen is None else seen
    for each in sources:
        path = each[0]
        about = seen.get(path) or _about(path)
        if about is None or about != tuple(each):
            return False
        seen[path] = about
    return True


def _about(path: str) -> tuple[str, int, int, int] | None:
    try:
        about = os.stat(path)
    except (OSError, ValueError):
        return None
    return path, about.st_size, about.st_mtime_ns, about.st_ctime_ns


def _too_young(changed_ns: int, began_ns: int) -> bool:
    coarse = changed_ns % 1_000_000_000 == 0
    return changed_ns + (_COARSE_NS if coarse else _FINE_NS) > began_ns
