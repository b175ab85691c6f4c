"""A kernel's name, read: its pieces and what each of them tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpuscope.document.text import Text, verbatim

FIELDS: Mapping[str, Text] = {
    "library": Text("library"),
    "operation": Text("operation"),
    "architecture": Text("written for"),
    "unit": Text("arithmetic unit"),
    "instruction": Text("matrix instruction"),
    "inputs": Text("inputs"),
    "accumulator": Text("adds up in"),
    "output": Text("output"),
    "dtype": Text("dtype"),
    "tile": Text("tile of a block"),
    "depth": Text("depth of a pass, stages"),
    "cluster": Text("cluster of blocks"),
    "split": Text("split over K"),
    "layout": Text("layout"),
    "alignment": Text("alignment"),
    "epilogue": Text("done with the result"),
    "warps": Text("warps of a block"),
    "threads": Text("threads of a block"),
    "vector": Text("values at once"),
    "order": Text("order of the tiles"),
    "head": Text("size of a head"),
    "mask": Text("masking"),
    "dropout": verbatim("dropout"),
    "algorithm": Text("algorithm"),
    "protocol": Text("protocol"),
    "route": Text("route"),
    "fused": Text("fused operators"),
    "variant": Text("variant"),
    "number": Text("number"),
    "index": Text("index type"),
    "other": Text("other"),
}
"""What a piece can be about, in the order in which it is shown."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a name and what it means.

    Attributes:
        text: as it stands in the symbol.
        field: a key of `FIELDS`.
        value: the meaning in a few words.
        certain: False where the library documents nothing and the meaning was inferred.
    """

    text: str
    field: str
    value: Text
    certain: bool = True


@dataclass(frozen=True, slots=True)
class KernelName:
    """A symbol, read.

    Attributes:
        symbol: as it was given.
        library: whose kernel it is.
        what: what it does, one sentence.
        pieces: in the order of the symbol.
        unread: parts whose meaning is not known.
        tile: block tile of a matrix kernel, (M, N) or (M, N, K), in the library's own view.
        stages: tiles of inputs in flight; None if unknown.
        input_bits: bits of an input element; None if unknown.
        threads: threads of a block; None if unknown.
        note: what else to know; None if nothing.
        source: where the naming is documented, or that it is not.
    """

    symbol: str
    library: Text
    what: Text
    pieces: tuple[Piece, ...]
    unread: tuple[str, ...] = ()
    tile: tuple[int, ...] = ()
    stages: int | None = None
    input_bits: int | None = None
    threads: int | None = None
    note: Text | None = None
    source: str = ""

    @property
    def complete(self) -> bool:
        """Whether every part of the name was understood."""
        return not self.unread
