"""Source text of functions that ran."""

from __future__ import annotations

import inspect
from types import CodeType

from gpuscope.kernel_lens.types import SourceFunction

TRANSLATED: dict[tuple[str, str], tuple[str, ...]] = {}
"""Source of functions that were translated to Python, by file and name."""


def source_function(code: CodeType) -> SourceFunction:
    """Return the source of a function; without lines where it is not to be had."""
    known = TRANSLATED.get((code.co_filename, code.co_name))
    if known is not None:
        return SourceFunction(code.co_filename, code.co_name, code.co_firstlineno, known)
    try:
        lines, first = inspect.getsourcelines(code)
    except (OSError, TypeError):
        return SourceFunction(code.co_filename, code.co_name, code.co_firstlineno, ())
    text = tuple(line.rstrip("\n") for line in lines)
    return SourceFunction(code.co_filename, code.co_name, first, text)
