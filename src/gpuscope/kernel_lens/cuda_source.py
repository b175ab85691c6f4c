"""CUDA C as a C parser takes it: device functions and constants alone, macros replaced.

Host code (main, launches, headers) is left out by blanking it, so that every line keeps its number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpuscope.document.text import Text


class CudaError(Exception):
    """The source holds something that is not followed.

    Args:
        text: what it is.
        line: where.
    """

    def __init__(self, text: Text, line: int) -> None:
        super().__init__(f"line {line}: {text}")
        self.text = text
        self.line = line


@dataclass(frozen=True)
class Macro:
    """A `#define`: its parameters (None without brackets) and its text."""

    parameters: tuple[str, ...] | None
    text: str


_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"", re.S)
_DEFINE = re.compile(r"#\s*define\s+(\w+)(\(([^)]*)\))?[ \t]*(.*)")
_FUNCTION = re.compile(r"(?:^|(?<=[;}\n]))[^;{}#]*?\b(\w+)\s*\(([^;{}]*)\)\s*\{", re.S)
_CONSTANT = re.compile(
    r"^[ \t]*(?:static\s+|__constant__\s+|__device__\s+|inline\s+)*"
    r"(?:const|constexpr)\s+[\w ]+?\b(\w+)\s*=\s*([^;{}]+);",
    re.M,
)
_DROPPED = re.compile(
    r"__global__|__device__|__host__|__forceinline__|__noinline__|__restrict__|__restrict"
    r"|\binline\b|\bstatic\b|extern\s+\"C\"|__launch_bounds__\s*\([^)]*\)|\bconstexpr\b"
    r"|__align__\s*\([^)]*\)"
)
_MOST_EXPANSIONS = 10_000


def device_source(text: str) -> str:
    """The device functions of a file, ready for a C parser, each line where it was.

    Raises:
        CudaError: something in them is not followed; says what and where.
    """
    plain = _COMMENT.sub(lambda found: _blank(found.group()), text.replace("\\\n", " \n"))
    macros, body = _without_directives(plain)
    kept = _device_functions(body)
    constants = {
        m.group(1): Macro(None, f"({m.group(2).strip()})") for m in _CONSTANT.finditer(body)
    }
    return _expanded(kept, {**constants, **macros})


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def _without_directives(text: str) -> tuple[dict[str, Macro], str]:
    macros, lines = {}, []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.lstrip().startswith("#"):
            lines.append(line)
            continue
        lines.append("")
        found = _DEFINE.match(line.strip())
        if found is not None:
            name, brackets, names, value = found.groups()
            given = None
            if brackets is not None:
                given = tuple(n.strip() for n in names.split(",") if n.strip())
            macros[name] = Macro(given, value.strip())
        elif re.match(r"\s*#\s*(if|elif|else)\b", line) and "defined" not in line:
            raise CudaError(Text("#if is not followed: leave one branch"), number)
    return macros, "\n".join(lines)


def _device_functions(text: str) -> str:
    """Everything but functions for the device blanked out."""
    kept = list(_blank(text))
    at = 0
    while (found := _FUNCTION.search(text, at)) is not None:
        end = _closing(text, found.end() - 1)
        head = text[found.start() : found.end()]
        if "__global__" in head or "__device__" in head:
            line = text.count("\n", 0, found.start(1)) + 1
            if re.search(r"\btemplate\b", head):
                raise CudaError(Text("a template: write the function for one type and size"), line)
            if "&" in found.group(2):
                raise CudaError(Text("a parameter by reference"), line)
            kept[found.start() : end] = text[found.start() : end]
        at = end
    source = "".join(kept)
    for pattern, by in ((r"\bextern\s+__shared__", "extern"), (r"__shared__", "register")):
        source = re.sub(pattern, lambda m, by=by: by.ljust(len(m.group())), source)  # type: ignore[misc]
    source = re.sub(r"\bbool\b", "_Bool", source)
    return _DROPPED.sub(lambda found: _blank(found.group()), source)


def _closing(text: str, at: int) -> int:
    depth = 0
    for place in range(at, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth == 0:
            return place + 1
    raise CudaError(Text("a bracket is not closed"), text.count("\n", 0, at) + 1)


def _expanded(text: str, macros: dict[str, Macro]) -> str:
    """Macros replaced, also in what they were replaced by."""
    if not macros:
        return text
    names = re.compile(r"\b(" + "|".join(map(re.escape, macros)) + r")\b")
    at, count = 0, 0
    while (found := names.search(text, at)) is not None:
        count += 1
        line = text.count("\n", 0, found.start()) + 1
        if count > _MOST_EXPANSIONS:
            raise CudaError(Text("the macro {name} stands for itself", name=found.group()), line)
        macro, end = macros[found.group()], found.end()
        value = macro.text
        if macro.parameters is not None:
            given, end = _arguments(text, end, line)
            if given is None:
                at = found.end()
                continue
            for name, argument in zip(macro.parameters, given, strict=False):
                value = re.sub(rf"\b{re.escape(name)}\b", lambda _, a=argument: a, value)  # type: ignore[misc]
        text = text[: found.start()] + value + text[end:]
        at = found.start()
    return text


def _arguments(text: str, at: int, line: int) -> tuple[list[str] | None, int]:
    """What stands in the brackets of a macro's call, and where they end."""
    opening = re.compile(r"\s*\(").match(text, at)
    if opening is None:
        return None, at
    depth, parts, begin = 1, [], opening.end()
    for place in range(opening.end(), len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if (text[place] == "," and depth == 1) or depth == 0:
            parts.append(text[begin:place].strip())
            begin = place + 1
        if depth == 0:
            return parts, place + 1
    raise CudaError(Text("a bracket is not closed"), line)
