"""C++ kernels by their function: what each does, and what its template arguments are.

Tables of them are in `functions_torch` and `functions_nvidia`, which name their sources.
"""

from __future__ import annotations

from typing import NamedTuple

from gpuscope.explain.types import Words


class Argument(NamedTuple):
    """What a template argument says: `field`, and words in which {} is its value."""

    field: str
    en: str = "{}"
    zh: str = "{}"


class Function(NamedTuple):
    """A kernel's function: a pattern of its name, what it does, its template arguments."""

    pattern: str
    what: Words
    arguments: tuple[Argument | None, ...] = ()


IN = Argument("inputs")
OUT = Argument("output")
ACC = Argument("accumulator")
TYPE = Argument("dtype")
INDEX = Argument("index")
THREADS = Argument("threads")
VALUES = Argument("vector", "{} for each thread", "每线程 {} 个")
WIDE = Argument("vector", "{} in one access", "一次访问 {} 个")
FUNCTOR = Argument("operation")
