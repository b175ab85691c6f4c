"""What a terminal would obey, made visible: the one door for all that is printed.

Names come from outside: of kernels, processes, devices, hosts, files, functions. One may hold an
escape sequence (that clears the screen, renames the window, fills the clipboard), a carriage return
or a line end (that forges a line of ours), or a mark of writing direction (that shows the text in
another order). They are shown as what they are: `\\x1b`, `\\u202e`.

- A name that enters a text is made `one_line`: no line ends, no tabs.
- What leaves for the terminal goes through a `Door` (`printable`): line ends and tabs are ours.
- JSON keeps names as they are, in JSON's own escapes (`escaped_json`).
"""

from __future__ import annotations

import codecs
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from typing import Any, TextIO, TypeVar

LONGEST = 120
"""Characters of a printed result; a longer line ends in "…"."""

_OBEYED = (
    "\x00-\x08\x0b-\x1f"  # C0 but tab and line end
    "\x7f-\x9f"  # DEL, C1: \x9b begins a sequence as ESC [ does
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction (Unicode's bidirectional algorithm)
    "\u2028\u2029"  # line and paragraph separators
    "\ud800-\udfff"  # lone surrogates: bytes of a file's name that are no UTF-8
)

_HARMFUL = re.compile(f"[{_OBEYED}]")
_IN_NAMES = re.compile(f"[\t\n{_OBEYED}]")
_SHORT = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}

Made = TypeVar("Made")


def printable(text: str) -> str:
    """Return a text of ours as a terminal may get it: all but its line ends and tabs visible."""
    return text if text.isprintable() else _HARMFUL.sub(_visible, text)


def one_line(name: str) -> str:
    """Return a name from outside as a terminal may get it: line ends and tabs visible, too."""
    return name if name.isprintable() else _IN_NAMES.sub(_visible, name)


def _visible(found: re.Match[str]) -> str:
    char = found[0]
    code = ord(char)
    return _SHORT.get(char) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")


def escaped_json(text: str) -> str:
    """Return JSON with all that a terminal would obey in JSON's escapes; it means the same."""
    return text if text.isprintable() else _HARMFUL.sub(lambda f: f"\\u{ord(f[0]):04x}", text)


def harmless(tree: Made) -> Made:
    """Return a value from outside with every string in it made `one_line`.

    Args:
        tree: strings, tuples, lists, mappings, dataclasses within each other; all else stays.
    """
    made: Any = _harmless(tree)
    return made  # type: ignore[no-any-return]


def _harmless(tree: Any) -> Any:
    if isinstance(tree, str):
        return one_line(tree) if type(tree) is str else tree
    if tree is None or isinstance(tree, int | float):
        return tree  # most of what there is
    if isinstance(tree, list):
        return [_harmless(each) for each in tree]
    if type(tree) is tuple:
        if all(isinstance(each, str) for each in tree) and "".join(tree).isprintable():
            return tree
        return tuple(_harmless(each) for each in tree)
    if isinstance(tree, Mapping):
        return {_harmless(key): _harmless(value) for key, value in tree.items()}
    if is_dataclass(tree) and not isinstance(tree, type):
        own = {f.name: getattr(tree, f.name) for f in fields(tree) if f.init}
        new = {name: _harmless(value) for name, value in own.items()}
        changed = {name: value for name, value in new.items() if value is not own[name]}
        return replace(tree, **changed) if changed else tree
    return tree


class Door:
    """A text stream through which only what is `printable` gets; all else is the stream's own."""

    def __init__(self, stream: TextIO) -> None:
        """Stand before a stream.

        Args:
            stream: the terminal's; rich's consoles, whose own sequences must arrive, write to it
                directly and make their texts `printable` themselves.
        """
        self.rich_proxied_file = stream
        self._bytes: _Bytes | None = None

    def write(self, text: str) -> int:
        """Write a text."""
        self.rich_proxied_file.write(printable(text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write texts one after the other."""
        for line in lines:
            self.write(line)

    @property
    def buffer(self) -> _Bytes:
        """The stream's bytes, through the same door."""
        if self._bytes is None:
            self._bytes = _Bytes(self.rich_proxied_file)
        return self._bytes

    def __iter__(self) -> Iterator[str]:
        return iter(self.rich_proxied_file)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


class _Bytes:
    """The bytes below a text stream: what is UTF-8 goes through as `printable`."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")

    def write(self, data: Any) -> int:
        self._stream.flush()
        text = printable(self._decoder.decode(bytes(data)))
        self._stream.buffer.write(text.encode("utf-8"))
        return len(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream.buffer, name)


def set_doors() -> None:
    """Put a door before the standard output and the standard error, if there is none."""
    sys.stdout, sys.stderr = _guarded(sys.stdout), _guarded(sys.stderr)


@contextmanager
def behind_doors() -> Iterator[None]:
    """`set_doors` for a while."""
    before = sys.stdout, sys.stderr
    set_doors()
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


@contextmanager
def doors_open() -> Iterator[None]:
    """Let the user's own program write to its terminal as it likes: colours, progress bars."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (getattr(s, "rich_proxied_file", s) for s in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def _guarded(stream: Any) -> Any:
    return stream if stream is None or isinstance(stream, Door) else Door(stream)


def short_repr(what: object, name: str, *facts: object) -> str:
    """Return `<Class name: fact, fact>` as one line that a terminal can show.

    Args:
        what: the result; its class is named.
        name: of the workload, the device, ...; "" for none.
        facts: two or three figures; those that are None or "" are left out.
    """
    kind = type(what).__name__
    said = _plain(", ".join(str(fact) for fact in facts if fact is not None and fact != ""))
    called = _cut(_plain(name), LONGEST // 2)
    line = ": ".join(part for part in (f"{kind} {called}".rstrip(), said) if part)
    return f"<{_cut(line, LONGEST - 2)}>"


def _plain(text: str) -> str:
    """One line without what a terminal would obey."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number of things: "1 finding", "3 findings"."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
