"""Words that names of several libraries share: dtypes, layouts, architectures, shapes.

The lists are in `words.toml`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuscope.document.text import Text, verbatim


def read_table(name: str) -> Mapping[str, Any]:
    """Return a file beside this one, by its name without ".toml"."""
    return tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text("utf-8"))


_SHARED = read_table("words")

NAMES: Mapping[str, Mapping[str, str]] = _SHARED["names"]
"""Names by what kernel names write: generations of devices, accumulators, instructions."""

_DTYPES: Mapping[str, tuple[str, int]] = {
    spelled: (entry["name"], entry["bits"])
    for entry in _SHARED["dtype"]
    for spelled in entry["spelled"]
}
_BITS: Mapping[str, int] = {entry["name"]: entry["bits"] for entry in _SHARED["dtype"]}

_OPAQUE = re.compile(r"(?:at::native::)?(?:at::cuda::cub::detail::)?OpaqueType<(\d+)u?>")


def dtype(text: str) -> str:
    """Return a dtype's usual name; "" if it is none."""
    cleaned = text.removesuffix(" const").removesuffix("*").removeprefix("cutlass::").strip()
    opaque = _OPAQUE.fullmatch(cleaned)
    if opaque:
        return Text("{count} bytes, any type", count=opaque[1])
    return _DTYPES.get(cleaned, ("", 0))[0]


def bits(text: str) -> int | None:
    """Return the bits of a dtype as a library writes it; None if it is none."""
    return _DTYPES.get(text.removeprefix("cutlass::").strip(), ("", None))[1]


def bits_of(name: str) -> int | None:
    """Return the bits of a dtype by its usual name; None if it is none."""
    return _BITS.get(name)


def architecture(sm: int) -> Text:
    """Return "Hopper (compute capability 9.0)" for 90."""
    capability = f"{sm // 10}.{sm % 10}"
    name = NAMES["generation"].get(str(sm))
    if name is None:
        return Text("compute capability {capability}", capability=capability)
    return Text("{name} (compute capability {capability})", name=name, capability=capability)


_TRANSPOSED = {"n": Text("as stored"), "t": Text("transposed")}


def transposes(letters: str) -> Text:
    """Return what "tn" says: A transposed, B as stored, in BLAS's column-major view."""
    a, b, *rest = (_TRANSPOSED[letter] for letter in letters.lower()[:3])
    if rest:
        return Text("A {a}, B {b}, result {c} (column-major view)", a=a, b=b, c=rest[0])
    return Text("A {a}, B {b} (column-major view)", a=a, b=b)


def shape(text: str) -> str:
    """Return "128 × 64" for "128x64" or "128_64"."""
    return " × ".join(re.split("[x_]", text))


def times(text: str) -> Text:
    """Return "128 × 64" for "128x64", as a text."""
    return verbatim(shape(text))


def tile(text: str) -> Text:
    """Return what a block's tile is."""
    return Text("{shape} of the result for each block", shape=shape(text))


def depth(k: str, stages: str) -> Text:
    """Return "64 along K a pass, 4 stages in flight"."""
    return Text("{k} along K a pass, {stages} stages in flight", k=k, stages=stages)
