"""The parts of a C++ symbol: its name, its template arguments; also of a mangled one, roughly."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_OPENS, _CLOSES = "<({[", ">)}]"
_LONGEST = 20_000
"""Letters read of a symbol; real ones are a tenth of this."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """A C++ function.

    Attributes:
        path: namespaces and name ("at::native::reduce_kernel").
        name: the last part of the path.
        arguments: its template arguments, outermost only.
        cut: the symbol ends in the middle; its last argument may be half.
    """

    path: str
    name: str
    arguments: tuple[str, ...]
    cut: bool


@lru_cache(maxsize=4096)
def parse(symbol: str) -> Symbol:
    """Return the parts of a demangled symbol: `void a::f<int, b<2> >(int*)` is `a::f`, `int`,
    `b<2>`."""
    text = symbol[:_LONGEST].replace("(anonymous namespace)::", "").replace("decltype(nullptr)", "")
    token: list[str] = []
    arguments: tuple[str, ...] = ()
    i, cut = 0, False
    while i < len(text):
        letter = text[i]
        if letter in _OPENS:
            inside, i, closed = _group(text, i)
            cut = cut or not closed
            if letter == "(" and token:
                break  # the parameters: all before was the function
            if letter == "<":
                arguments = tuple(_split(inside))
            continue
        if letter == " ":
            token, arguments = [], ()  # what stood before was the return type
        else:
            if arguments and letter == ":":
                arguments = ()  # of a class whose member follows
            token.append(letter)
        i += 1
    path = "".join(token).strip(":")
    return Symbol(path, path.rpartition("::")[2] or path, arguments, cut)


def _group(text: str, start: int) -> tuple[str, int, bool]:
    """What stands inside a bracket, where the text goes on, and whether the bracket closes."""
    depth, i = 0, start
    while i < len(text):
        letter = text[i]
        if letter == ">" and i and text[i - 1] == "-":
            pass  # an arrow, no bracket
        elif letter in _OPENS:
            depth += 1
        elif letter in _CLOSES:
            depth -= 1
            if depth == 0:
                return text[start + 1 : i], i + 1, True
        i += 1
    return text[start + 1 :], len(text), False


def _split(inside: str) -> list[str]:
    """Template arguments: at commas that no bracket holds."""
    found, depth, begin = [], 0, 0
    for i, letter in enumerate(inside):
        if letter in _OPENS:
            depth += 1
        elif letter in _CLOSES and not (letter == ">" and i and inside[i - 1] == "-"):
            depth -= 1
        elif letter == "," and depth == 0:
            found.append(inside[begin:i].strip())
            begin = i + 1
    return [*found, inside[begin:].strip()] if inside.strip() else []


_MOST_DIGITS = 9
"""Of a length; Python reads no number of thousands."""

_LENGTH = re.compile(r"\d+")


@lru_cache(maxsize=4096)
def mangled_names(symbol: str) -> tuple[str, ...]:
    """Return the names inside a mangled symbol (`_Z...`), in order, each once.

    Itanium C++ ABI: an identifier is its length and its letters. Substitutions and types of one
    letter are not resolved.
    """
    if not symbol.startswith("_Z"):
        return ()
    found: dict[str, None] = {}
    i = 2
    text = symbol[:_LONGEST]
    while i < len(text):
        length = _LENGTH.match(text, i)
        # A literal (`Li256E`) is a number, not a length.
        if length is None or (i >= 2 and text[i - 2] == "L" and text[i - 1].islower()):
            i = length.end() if length else i + 1
            continue
        size, begin = int(length[0][-_MOST_DIGITS:]), length.end()
        name = text[begin : begin + size]
        if len(name) == size and re.fullmatch(r"[A-Za-z_]\w*", name):
            found.setdefault(name)
            i = begin + size
        else:
            i = begin
    return tuple(found)


def mangled_numbers(symbol: str, name: str) -> tuple[int, ...]:
    """Return the integers that a mangled template is made for: `GemmShape` gives (256, 64, 32)."""
    found = re.search(rf"{len(name)}{name}I((?:Li\d+E)+)E", symbol)
    return tuple(int(n) for n in re.findall(r"Li(\d+)E", found[1])) if found else ()
