"""The examples under the lens, and how to find one access among them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from gpuscope.kernel_lens.runner import look
from gpuscope.kernel_lens.types import Access, Launch, Lens

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "lens"
NUMBA = ("coalescing", "transpose", "matmul", "branches", "conflicts")

needs_numba = pytest.mark.skipif(
    importlib.util.find_spec("numba") is None, reason="Numba is not installed"
)
needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None,
    reason="Triton is not installed (700 MB; pip install triton)",
)


class Seen:
    """Launches by example and kernel."""

    def __init__(self, lens: Lens) -> None:
        self.lens = lens

    def all(self, kernel: str) -> list[Launch]:
        """All launches of a kernel."""
        return [one for one in self.lens.launches if one.kernel == kernel]

    def one(self, kernel: str, file: str = "") -> Launch:
        """The only launch of a kernel, of that example."""
        found = [
            one
            for one in self.all(kernel)
            if not file or Path(one.functions[0].file).name == f"{file}.py"
        ]
        assert len(found) == 1
        return found[0]


def access(launch: Launch, array: str, kind: str) -> Access:
    """The only access of that kind to an array."""
    (found,) = [a for a in launch.accesses if (a.array, a.kind) == (array, kind)]
    return found


def look_at_all(folder: Path) -> Seen:
    """All Numba examples, in one process."""
    file = folder / "examples.py"
    lines = [f"import sys; sys.path.insert(0, {str(EXAMPLES)!r})"]
    lines += [f"import {name}" for name in NUMBA]
    lines += ["def launch():", *(f"    {name}.launch()" for name in NUMBA)]
    file.write_text("\n".join(lines))
    return Seen(look(str(file)))
