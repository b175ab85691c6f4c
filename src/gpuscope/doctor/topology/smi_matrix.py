"""The matrix that `nvidia-smi topo -m` prints, read."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from gpuscope.doctor.topology.types import WAYS, Way

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_PLACE = re.compile(r"^(GPU|NIC)\d+$|^[a-z]\w*_\d+$|^mlx\w+$")
_CELL = re.compile(r"^(X|NV\d+|PIX|PXB|PHB|NODE|SYS)$")


@dataclass(frozen=True, slots=True)
class SmiMatrix:
    """What the matrix says.

    Attributes:
        ways: (row, column) -> way; NVLink is "NV" here, the number of links is in `links`.
        links: (row, column) -> NVLinks between two devices.
        nics: "NIC0" -> "mlx5_0", from the legend.
        numa: "GPU0" -> memory node.
    """

    ways: dict[tuple[str, str], Way] = field(default_factory=dict)
    links: dict[tuple[str, str], int] = field(default_factory=dict)
    nics: dict[str, str] = field(default_factory=dict)
    numa: dict[str, int] = field(default_factory=dict)


def read_matrix(text: str) -> SmiMatrix:
    """Read the matrix.

    Args:
        text: what the command printed, with or without colours, tabs or blanks between columns.
    """
    found = SmiMatrix()
    columns: list[str] = []
    legend = False
    for line in _COLOUR.sub("", text).splitlines():
        cells = [c.strip() for c in re.split(r"\t+|\s{2,}", line.strip()) if c.strip()]
        if "NIC Legend" in line:
            legend = True
        elif legend and (match := re.match(r"\s*(NIC\d+)\s*:\s*(\S+)", line)):
            found.nics[match[1]] = match[2]
        elif not columns and cells and cells[0] == "GPU0":
            columns = _header(cells)
        elif columns and cells and cells[0] in columns:
            _row(found, columns, cells)
    return found


def _header(cells: list[str]) -> list[str]:
    return [c for cell in cells for c in cell.split() if _PLACE.match(c)]


def _row(found: SmiMatrix, columns: list[str], cells: list[str]) -> None:
    name = cells[0]
    rest = [c for cell in cells[1:] for c in cell.split()]
    for column, cell in zip(columns, rest, strict=False):
        if not _CELL.match(cell):
            return  # not the matrix: a line of something else
        if cell.startswith("NV"):
            found.ways[name, column] = "NV"
            found.links[name, column] = int(cell[2:])
        elif cell != "X":
            found.ways[name, column] = next(w for w in WAYS if w == cell)
    after = rest[len(columns) :]
    if len(after) >= 2 and after[1].isdigit():
        found.numa[name] = int(after[1])
